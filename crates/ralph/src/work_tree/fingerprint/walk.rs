//! Finds every path of a tree that counts.
//!
//! Folders are read by several threads, each taking the next folder that waits. A folder that is left out (ignored,
//! or a well-known cache) is not read at all; if something in it is tracked, the walk goes down by the tracked
//! names alone. Links are never followed, so a tracked `a/b` is gone once `a` is a link.

use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rustix::fs::FileType;

use super::content::{self, ReadTrouble};
use super::file_stamp::Stamp;
use super::git::{Tracked, TrackedIn};
use super::ignores::{IgnoreRules, Scope, path_of};
use super::names::Names;
use super::stat_cache::{Remembered, StatCache};
use super::{Content, Fact, Found, Kind, Seen, well_known_caches};

/// A `.gitignore` larger than this ignores nothing: nobody wrote it by hand.
const LARGEST_GITIGNORE: u64 = 1 << 20;

/// Fewer paths than this are looked at before a second thread would have started.
const WORTH_A_THREAD: usize = 128;

/// What a walk goes by.
pub(super) struct WalkPlan<'p> {
    pub(super) root: &'p Path,
    /// The top of the git work tree around the root; the root itself if there is none.
    pub(super) work_tree: &'p Path,
    pub(super) tracked: &'p Tracked,
    pub(super) cache: &'p StatCache<'p>,
    pub(super) pinned: Option<&'p IgnoreRules>,
}

/// What a walk brought back.
#[derive(Default)]
pub(super) struct Walked {
    /// Sorted by the bytes of the path.
    pub(super) found: Vec<Found>,
    /// The folders that were read, sorted by path.
    pub(super) folders: Vec<FolderSeen>,
    pub(super) rules: IgnoreRules,
}

/// A folder as it was when its names were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FolderSeen {
    pub(super) path: Vec<u8>,
    pub(super) stamp: Option<Stamp>,
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
    // Each folder's files are sorted already. With the folders in order too, what remains is to merge long sorted
    // runs, which is what the stable sort is good at.
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
    /// The folder is left out, but for what is tracked in it.
    only_tracked: bool,
}

struct Walk<'w> {
    plan: &'w WalkPlan<'w>,
    root: BorrowedFd<'w>,
    /// The root with a slash, to make an absolute path of a relative one.
    prefix: Vec<u8>,
    queue: Queue,
}

/// What one thread brought back.
#[derive(Default)]
struct Part {
    /// Each with its path, its stamp, and its files sorted.
    folders: Vec<(Vec<u8>, Option<Stamp>, Vec<Found>)>,
    rules: IgnoreRules,
}

impl Walk<'_> {
    /// Reads folders until there are no more, or about so many paths have been looked at.
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

    /// Notes the files of a folder and returns the folders in it.
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

    /// A folder nobody can look into is itself put down: it must not be a place to hide in.
    fn unopened(&self, folder: Folder, trouble: ReadTrouble, part: &mut Part) -> io::Result<Vec<Folder>> {
        let fact = match trouble {
            ReadTrouble::Ours(error) => return Err(error),
            _ if folder.path.is_empty() => return Err(io::Error::other("the root of the tree vanished")),
            ReadTrouble::Vanished => return Ok(Vec::new()),
            ReadTrouble::Unreadable => match Stamp::of(self.root, path_of(&folder.path)) {
                Ok((stamp, _)) => Fact::unreadable(Kind::UnreadableFolder, &stamp),
                Err(_) => Fact::of(Kind::UnreadableFolder),
            },
        };
        let found = Found { path: folder.path.as_slice().into(), seen: Seen::Other { fact, stamp: None } };
        part.folders.push((folder.path, None, vec![found]));
        Ok(Vec::new())
    }
}

/// Opens a folder and takes the names in it, unless they are not wanted.
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
    remembered: Remembered<'w>,
    /// The absolute path of what is looked at; up to `base` it is that of the folder, with a slash.
    path: Vec<u8>,
    base: usize,
    /// Sorted, as the names are.
    found: Vec<Found>,
    subfolders: Vec<Folder>,
    /// The names in this folder, where they were read.
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
        let stamp = Stamp::of_open(self.fd).ok().map(|(stamp, _)| stamp);
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

    /// Looks at `name`, of the given kind if the folder could tell: not every file system keeps it there.
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
        // What hides others cannot hide itself.
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
            // A folder that is tracked as such is a submodule git could not list: better all of it than none.
            scope = Scope::outermost(self.walk.plan.pinned.is_some());
            only_tracked = false;
        }
        if only_tracked && tracked.is_none() {
            return;
        }
        self.subfolders.push(Folder { path: self.relative().to_vec(), tracked, scope, only_tracked });
    }

    fn add(&mut self, name: &[u8], stamp: Option<Stamp>, kind: FileType) {
        let seen = match (kind, stamp) {
            (_, None) => Seen::Other { fact: Fact::of(Kind::UnreadableFile), stamp },
            (FileType::RegularFile, Some(stamp)) => {
                let known = self.remembered.digest(name, &stamp);
                Seen::File { stamp, content: known.map_or(Content::Unread, Content::Remembered) }
            }
            (FileType::Symlink, _) => content::look_at_link(self.fd, name, stamp),
            (kind, _) => Seen::Other { fact: Fact::of(content::special(kind)), stamp },
        };
        self.found.push(Found { path: self.relative().into(), seen });
    }

    /// Stamp and kind of `name`; no stamp if the folder may be listed but not entered, nothing if it is gone.
    fn stamp(&self, name: &[u8]) -> io::Result<Option<(Option<Stamp>, FileType)>> {
        let error = match Stamp::of(self.fd, name) {
            Ok((stamp, kind)) => return Ok(Some((Some(stamp), kind))),
            Err(error) => error,
        };
        match rustix::io::Errno::from_io_error(&error).map(ReadTrouble::from) {
            Some(ReadTrouble::Vanished) => Ok(None),
            Some(ReadTrouble::Unreadable) => Ok(Some((None, FileType::Unknown))),
            Some(ReadTrouble::Ours(_)) | None => Err(error),
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

/// The text of the `.gitignore` in a folder. Like git, this takes none that is a link.
fn gitignore_in(folder: BorrowedFd<'_>) -> Option<Vec<u8>> {
    let file = content::open_file_at(folder, ".gitignore").ok()?;
    let (stamp, kind) = Stamp::of_open(&file).ok()?;
    if kind != FileType::RegularFile || stamp.size > LARGEST_GITIGNORE {
        return None;
    }
    let mut text = Vec::new();
    file.take(LARGEST_GITIGNORE).read_to_end(&mut text).ok()?;
    Some(text)
}

/// The folders that wait to be read, shared by all threads. It is done when none waits and none is being read.
struct Queue {
    state: Mutex<Waiting>,
    changed: Condvar,
}

struct Waiting {
    folders: Vec<Folder>,
    being_read: usize,
}

/// The right to read one folder. However it ends, by an error or a panic even, the others learn that it did.
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
        // Waking threads for nothing costs more than reading a small folder.
        if !self.subfolders.is_empty() || state.being_read == 0 {
            self.queue.changed.notify_all();
        }
        state.folders.append(&mut self.subfolders);
    }
}
