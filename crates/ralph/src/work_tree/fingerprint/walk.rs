//! Finds every path of a tree that counts.
//!
//! Several threads read the folders, each taking the next one from a queue. An excluded folder (ignored, or a
//! well-known cache) is not read; if it contains tracked files, only those are visited. Links are never followed, so
//! a tracked `a/b` is missing once `a` is a link.

use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rustix::fs::FileType;

use super::content::{self, ReadError};
use super::file_stamp::FileStamp;
use super::git::{Tracked, TrackedIn};
use super::ignores::{IgnoreRules, Scope, path_of};
use super::names::Names;
use super::stat_cache::{CachedFolder, StatCache};
use super::{Content, FileKind, ManifestFact, PathContent, WalkedPath, well_known_caches};

/// A larger `.gitignore` was not written by hand and is not used.
const LARGEST_GITIGNORE: u64 = 1 << 20;

/// Fewer paths than this are read faster than a second thread starts.
const WORTH_A_THREAD: usize = 128;

/// The input of a walk.
pub(super) struct WalkPlan<'p> {
    pub(super) root: &'p Path,
    /// The top of the git work tree around the root; the root itself if there is none.
    pub(super) work_tree: &'p Path,
    pub(super) tracked: &'p Tracked,
    pub(super) cache: &'p StatCache<'p>,
    pub(super) pinned: Option<&'p IgnoreRules>,
}

/// The result of a walk.
#[derive(Default)]
pub(super) struct Walked {
    /// Sorted by the bytes of the path.
    pub(super) found: Vec<WalkedPath>,
    /// The folders that were read, sorted by path.
    pub(super) folders: Vec<FolderSeen>,
    pub(super) rules: IgnoreRules,
}

/// A folder when its names were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FolderSeen {
    pub(super) path: Vec<u8>,
    pub(super) stamp: Option<FileStamp>,
}

pub(super) fn walk(plan: &WalkPlan<'_>) -> io::Result<Walked> {
    let root = content::open_folder(plan.root)?;
    let mut prefix = plan.root.as_os_str().as_bytes().to_vec();
    if !prefix.ends_with(b"/") {
        prefix.push(b'/');
    }
    let (scope, rules) = scope_around(plan);
    let start = Folder { path: Vec::new(), tracked: Some(plan.tracked.all()), scope, only_tracked: false };
    let walk = Walk { plan, root: root.as_fd(), prefix, queue: Queue::starting_with(start) };

    let mut parts = vec![walk.take_turns(WORTH_A_THREAD)];
    if walk.queue.has_more() {
        parts.extend(content::on_threads(content::threads(), || walk.take_turns(usize::MAX)));
    }
    let mut walked = Walked { found: Vec::new(), folders: Vec::new(), rules };
    let mut folders = Vec::new();
    for part in parts {
        let part = part?;
        folders.extend(part.folders);
        walked.rules.extend(part.rules);
    }
    // The files of each folder are already sorted. With sorted folders, only long sorted runs have to be merged,
    // which the stable sort does well.
    folders.sort_unstable_by(|one, next| one.0.cmp(&next.0));
    walked.found.reserve(folders.iter().map(|(_, _, found)| found.len()).sum());
    for (path, stamp, mut found) in folders {
        walked.found.append(&mut found);
        walked.folders.push(FolderSeen { path, stamp });
    }
    walked.found.sort_by(|one, next| one.path.cmp(&next.path));
    Ok(walked)
}

/// The rules of the folders between the top of the work tree and the root, which git applies too.
fn scope_around(plan: &WalkPlan<'_>) -> (Scope, IgnoreRules) {
    let mut scope = Scope::outermost(plan.pinned.is_some());
    let mut rules = IgnoreRules::default();
    let above: Vec<&Path> =
        plan.root.ancestors().take_while(|folder| folder.starts_with(plan.work_tree)).collect();
    for (steps_up, folder) in above.iter().enumerate().skip(1).rev() {
        let name = vec![".."; steps_up].join("/").into_bytes();
        let text = content::open_folder(*folder).ok().and_then(|folder| gitignore_in(folder.as_fd()));
        scope.add(folder, text.as_deref(), plan.pinned.and_then(|pinned| pinned.get(&name)));
        if let Some(text) = text {
            rules.insert(name, text);
        }
        scope = scope.enter(above[steps_up - 1]);
    }
    scope.start_over_if_ignored();
    (scope, rules)
}

/// A folder to be read.
struct Folder {
    /// Relative to the root; empty for the root itself.
    path: Vec<u8>,
    tracked: Option<TrackedIn>,
    scope: Scope,
    /// The folder is excluded, except for tracked files.
    only_tracked: bool,
}

struct Walk<'w> {
    plan: &'w WalkPlan<'w>,
    root: BorrowedFd<'w>,
    /// The root with a slash, to build absolute paths.
    prefix: Vec<u8>,
    queue: Queue,
}

/// The results of one thread.
#[derive(Default)]
struct Part {
    /// Each with its path, its stamp, and its files sorted.
    folders: Vec<(Vec<u8>, Option<FileStamp>, Vec<WalkedPath>)>,
    rules: IgnoreRules,
}

impl Walk<'_> {
    /// Reads folders until none is left, or about that many paths have been visited.
    fn take_turns(&self, most: usize) -> io::Result<Part> {
        let mut part = Part::default();
        let mut names = Names::default();
        let mut looked_at = 0;
        while looked_at < most
            && let Some((folder, turn)) = self.queue.next()
        {
            let subfolders = self.read_folder(folder, &mut names, &mut part)?;
            looked_at += 1 + part.folders.last().map_or(0, |(_, _, found)| found.len());
            turn.done(subfolders);
        }
        Ok(part)
    }

    /// Records the files of a folder and returns its subfolders.
    fn read_folder(&self, folder: Folder, names: &mut Names, part: &mut Part) -> io::Result<Vec<Folder>> {
        let path = if folder.path.is_empty() { path_of(b".") } else { path_of(&folder.path) };
        let opened = match open(self.root, path, folder.only_tracked, names) {
            Ok(opened) => opened,
            Err(errno) => return self.unopened(folder, errno.into(), part),
        };
        let mut visit = Visit::new(self, folder, opened.as_fd(), names);
        match visit.folder.only_tracked {
            true => visit.look_at_tracked()?,
            false => visit.look_at_all(&mut part.rules)?,
        }
        Ok(visit.finish(part))
    }

    /// A folder that cannot be read is itself recorded, so that it cannot hide changes.
    fn unopened(&self, folder: Folder, trouble: ReadError, part: &mut Part) -> io::Result<Vec<Folder>> {
        let fact = match trouble {
            ReadError::OutOfResources(error) => return Err(error),
            _ if folder.path.is_empty() => return Err(io::Error::other("the root of the tree vanished")),
            ReadError::Vanished => return Ok(Vec::new()),
            ReadError::Unreadable => match FileStamp::of(self.root, path_of(&folder.path)) {
                Ok((stamp, _)) => ManifestFact::unreadable(FileKind::UnreadableFolder, &stamp),
                Err(_) => ManifestFact::of(FileKind::UnreadableFolder),
            },
        };
        let found = WalkedPath {
            path: folder.path.as_slice().into(),
            seen: PathContent::Other { fact, stamp: None },
        };
        part.folders.push((folder.path, None, vec![found]));
        Ok(Vec::new())
    }
}

/// Opens a folder and reads its names if needed.
fn open(
    root: BorrowedFd<'_>,
    path: &Path,
    without_names: bool,
    names: &mut Names,
) -> rustix::io::Result<OwnedFd> {
    let folder = content::open_folder_at(root, path)?;
    match without_names {
        true => names.clear(),
        false => names.read(folder.as_fd())?,
    }
    Ok(folder)
}

/// One folder being read.
struct Visit<'w> {
    walk: &'w Walk<'w>,
    folder: Folder,
    fd: BorrowedFd<'w>,
    remembered: CachedFolder<'w>,
    /// The absolute path of the current entry; up to `base` it is that of the folder, with a slash.
    path: Vec<u8>,
    base: usize,
    /// Sorted like the names.
    found: Vec<WalkedPath>,
    subfolders: Vec<Folder>,
    /// The names in this folder, if they were read.
    names: &'w Names,
}

impl<'w> Visit<'w> {
    fn new(walk: &'w Walk<'w>, folder: Folder, fd: BorrowedFd<'w>, names: &'w Names) -> Self {
        let mut path = walk.prefix.clone();
        path.extend_from_slice(&folder.path);
        if !folder.path.is_empty() {
            path.push(b'/');
        }
        let base = path.len();
        let remembered = walk.plan.cache.folder(&folder.path);
        let (found, subfolders) = (Vec::with_capacity(names.len()), Vec::new());
        Self { walk, folder, fd, remembered, path, base, found, subfolders, names }
    }

    fn finish(self, part: &mut Part) -> Vec<Folder> {
        let stamp = FileStamp::of_open(self.fd).ok().map(|(stamp, _)| stamp);
        part.folders.push((self.folder.path, stamp, self.found));
        self.subfolders
    }

    fn look_at_tracked(&mut self) -> io::Result<()> {
        let Some(tracked) = self.folder.tracked.clone() else { return Ok(()) };
        for name in self.walk.plan.tracked.children(&tracked) {
            let Some((stamp, kind)) = self.stamp(name)? else { continue };
            self.name(name);
            match kind {
                FileType::Directory => self.add_folder(name),
                _ if self.is_tracked(name) => self.add(name, stamp, kind),
                _ => {}
            }
        }
        Ok(())
    }

    fn look_at_all(&mut self, rules: &mut IgnoreRules) -> io::Result<()> {
        self.take_rules(self.names.has(b".git"), self.names.has(b".gitignore"), rules);
        for (name, kind) in self.names.iter() {
            if well_known_caches::is_version_control(name) {
                continue;
            }
            self.name(name);
            self.look_at(name, kind)?;
        }
        Ok(())
    }

    fn take_rules(&mut self, is_repository: bool, has_gitignore: bool, rules: &mut IgnoreRules) {
        if is_repository && !self.folder.path.is_empty() {
            self.folder.scope.start_over();
        }
        let now = if has_gitignore { gitignore_in(self.fd) } else { None };
        let pinned = self.walk.plan.pinned.and_then(|pinned| pinned.get(&self.folder.path));
        if now.is_some() || pinned.is_some() {
            self.folder.scope.add(path_of(&self.path[..self.base]), now.as_deref(), pinned);
        }
        if let Some(text) = now {
            rules.insert(self.folder.path.clone(), text);
        }
    }

    /// Visits `name`, of the given kind if known: not every file system provides it.
    fn look_at(&mut self, name: &[u8], kind: FileType) -> io::Result<()> {
        if kind == FileType::Directory {
            self.add_folder(name);
            return Ok(());
        }
        let is_told = kind != FileType::Unknown;
        if is_told && !self.counts(name) {
            return Ok(());
        }
        let Some((stamp, kind)) = self.stamp(name)? else { return Ok(()) };
        match kind {
            FileType::Directory => self.add_folder(name),
            _ if is_told || self.counts(name) => self.add(name, stamp, kind),
            _ => {}
        }
        Ok(())
    }

    /// Whether a file of that name is part of the tree.
    fn counts(&mut self, name: &[u8]) -> bool {
        // A `.gitignore` cannot hide itself.
        if name == b".gitignore" || self.is_tracked(name) {
            return true;
        }
        let is_ignored = self.folder.scope.ignores_file(path_of(&self.path));
        let is_cache = well_known_caches::is_cache_file(name);
        !(is_cache || is_ignored)
    }

    fn is_tracked(&mut self, name: &[u8]) -> bool {
        let tracked = self.walk.plan.tracked;
        self.folder.tracked.as_mut().is_some_and(|folder| tracked.has(folder, name))
    }

    fn add_folder(&mut self, name: &[u8]) {
        let tracked =
            self.folder.tracked.as_ref().and_then(|folder| self.walk.plan.tracked.below(folder, name));
        let mut scope = self.folder.scope.enter(path_of(&self.path));
        let is_cache = well_known_caches::is_cache_folder(name, |beside| self.names.has(beside));
        let is_ignored = self.folder.only_tracked || scope.is_ignored();
        let mut only_tracked = is_cache || is_ignored;
        if only_tracked && self.is_tracked(name) {
            // A tracked folder is a submodule that git could not list: include all of it.
            scope = Scope::outermost(self.walk.plan.pinned.is_some());
            only_tracked = false;
        }
        if only_tracked && tracked.is_none() {
            return;
        }
        self.subfolders.push(Folder { path: self.relative().to_vec(), tracked, scope, only_tracked });
    }

    fn add(&mut self, name: &[u8], stamp: Option<FileStamp>, kind: FileType) {
        let seen = match (kind, stamp) {
            (_, None) => PathContent::Other { fact: ManifestFact::of(FileKind::UnreadableFile), stamp },
            (FileType::RegularFile, Some(stamp)) => {
                let known = self.remembered.digest(name, &stamp);
                PathContent::File { stamp, content: known.map_or(Content::Unread, Content::Remembered) }
            }
            (FileType::Symlink, _) => content::look_at_link(self.fd, name, stamp),
            (kind, _) => PathContent::Other { fact: ManifestFact::of(content::special(kind)), stamp },
        };
        self.found.push(WalkedPath { path: self.relative().into(), seen });
    }

    /// Stamp and kind of `name`; no stamp if the folder may be listed but not entered, `None` if it is gone.
    fn stamp(&self, name: &[u8]) -> io::Result<Option<(Option<FileStamp>, FileType)>> {
        let error = match FileStamp::of(self.fd, name) {
            Ok((stamp, kind)) => return Ok(Some((Some(stamp), kind))),
            Err(error) => error,
        };
        match rustix::io::Errno::from_io_error(&error).map(ReadError::from) {
            Some(ReadError::Vanished) => Ok(None),
            Some(ReadError::Unreadable) => Ok(Some((None, FileType::Unknown))),
            Some(ReadError::OutOfResources(_)) | None => Err(error),
        }
    }

    fn name(&mut self, name: &[u8]) {
        self.path.truncate(self.base);
        self.path.extend_from_slice(name);
    }

    fn relative(&self) -> &[u8] {
        &self.path[self.walk.prefix.len()..]
    }
}

/// The text of the `.gitignore` in a folder. Like git, this ignores links.
fn gitignore_in(folder: BorrowedFd<'_>) -> Option<Vec<u8>> {
    let file = content::open_file_at(folder, ".gitignore").ok()?;
    let (stamp, kind) = FileStamp::of_open(&file).ok()?;
    if kind != FileType::RegularFile || stamp.size > LARGEST_GITIGNORE {
        return None;
    }
    let mut text = Vec::new();
    file.take(LARGEST_GITIGNORE).read_to_end(&mut text).ok()?;
    Some(text)
}

/// The folders waiting to be read, shared by all threads. Done when none is waiting or being read.
struct Queue {
    state: Mutex<Waiting>,
    changed: Condvar,
}

struct Waiting {
    folders: Vec<Folder>,
    being_read: usize,
}

/// The right to read one folder. The other threads are notified when it ends, even by an error or a panic.
struct Turn<'q> {
    queue: &'q Queue,
    subfolders: Vec<Folder>,
}

impl Queue {
    fn starting_with(folder: Folder) -> Self {
        Self { state: Mutex::new(Waiting { folders: vec![folder], being_read: 0 }), changed: Condvar::new() }
    }

    fn next(&self) -> Option<(Folder, Turn<'_>)> {
        let mut state = self.lock();
        loop {
            if let Some(folder) = state.folders.pop() {
                state.being_read += 1;
                return Some((folder, Turn { queue: self, subfolders: Vec::new() }));
            }
            if state.being_read == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn has_more(&self) -> bool {
        !self.lock().folders.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn<'_> {
    fn done(mut self, subfolders: Vec<Folder>) {
        self.subfolders = subfolders;
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.being_read -= 1;
        // Unnecessary wake-ups cost more than reading a small folder.
        if !self.subfolders.is_empty() || state.being_read == 0 {
            self.queue.changed.notify_all();
        }
        state.folders.append(&mut self.subfolders);
    }
}
