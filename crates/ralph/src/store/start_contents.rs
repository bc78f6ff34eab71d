//! The counted files as they were when a loop or session began: what *undo* puts back.
//!
//! They are in `repos/REPO/start/`, outside the repo, because an agent can delete git's refs and objects. `trees/FINGERPRINT`
//! lists the files; `contents/SHA256` holds each content once for all starts of the repo, so that a second start on nearly the
//! same files writes next to nothing. An agent can write there too: the list counts only if its fingerprint is the one that the
//! caller kept, and a content only if its digest is the listed one.
//!
//! A file larger than [`LARGEST_FILE`], and everything beyond [`MOST_BYTES`] of new content, is listed without content: if
//! it changes, it cannot be put back, and the answer is "cannot be judged".

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_core::model::file_change::{FileChange, FileContent};
use ralph_core::model::id::{Digest, TreeHash};

use crate::store::home::RepoHome;
use crate::sys::files::{self, Lock};
use crate::work_tree::fingerprint::{ChangeKind, CountedFile, CountedKind, FileList, Tree};

/// A larger file is listed without its content.
pub(crate) const LARGEST_FILE: u64 = 32 << 20;

/// The most content that one start adds.
pub(crate) const MOST_BYTES: u64 = 1 << 30;

/// Starts that are kept; of more, those that were not used for [`KEPT_FOR`] are removed, with the contents only they have.
const KEPT_STARTS: usize = 20;
const KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 3600);

/// The files of a tree when a loop or session began, and where their contents are.
#[derive(Clone, Debug)]
pub(crate) struct StartContents {
    dir: PathBuf,
    files: FileList,
}

/// The paths that differ between the start and now, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileChanges {
    pub(crate) new: Vec<PathBuf>,
    pub(crate) changed: Vec<PathBuf>,
    pub(crate) deleted: Vec<PathBuf>,
}

impl FileChanges {
    pub(crate) fn is_empty(&self) -> bool {
        self.new.is_empty() && self.changed.is_empty() && self.deleted.is_empty()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Path> {
        self.new.iter().chain(&self.changed).chain(&self.deleted).map(PathBuf::as_path)
    }
}

impl StartContents {
    /// Stores the contents of `tree`, which was just read at `root`. A file that changed since then is an error. The caller
    /// keeps [`fingerprint`](Self::fingerprint) where the agent cannot change it unnoticed: in memory or in the ledger.
    pub(crate) fn record(home: &RepoHome, root: &Path, tree: &Tree) -> io::Result<Self> {
        let dir = home.start_dir();
        let (contents, trees) = (dir.join("contents"), dir.join("trees"));
        files::private_dir(&contents)?;
        files::private_dir(&trees)?;
        let start = Self { dir, files: tree.file_list() };
        let _not_pruned_meanwhile = Lock::take(&start.dir.join("lock"), Duration::from_secs(10))?
            .ok_or_else(|| {
                io::Error::new(io::ErrorKind::WouldBlock, "another ralph process is storing the start")
            })?;
        files::sweep_temporary(&contents);
        let mut left = MOST_BYTES;
        for file in start.files.iter() {
            store_content(&contents, root, &file, &mut left)?;
        }
        files::replace(&trees.join(tree.hash()), &start.files.to_bytes())?;
        prune(&start.dir);
        Ok(start)
    }

    /// The start with this fingerprint, as kept by the caller. Missing or different: an error, never another start.
    pub(crate) fn open(home: &RepoHome, fingerprint: &TreeHash) -> io::Result<Self> {
        let damaged = |what: &str| {
            io::Error::new(io::ErrorKind::InvalidData, format!("the contents of the start {what}"))
        };
        // The fingerprint may come from a file: it must not lead elsewhere.
        if Digest::of("").as_str().len() != fingerprint.as_str().len()
            || !fingerprint.as_str().bytes().all(|byte| byte.is_ascii_hexdigit())
        {
            return Err(damaged("have no valid fingerprint"));
        }
        let dir = home.start_dir();
        let bytes = files::read_if_there(&dir.join("trees").join(fingerprint.as_str()))?
            .ok_or_else(|| damaged("are missing"))?;
        let files = FileList::from_bytes(&bytes).ok_or_else(|| damaged("are damaged"))?;
        if files.fingerprint() != *fingerprint {
            return Err(damaged("were changed"));
        }
        Ok(Self { dir, files })
    }

    pub(crate) fn fingerprint(&self) -> TreeHash {
        self.files.fingerprint()
    }

    /// Which counted files differ from the start in `now`.
    pub(crate) fn changed_since(&self, now: &Tree) -> FileChanges {
        let mut changes = FileChanges::default();
        for (path, kind) in self.files.changes_to(now) {
            match kind {
                ChangeKind::Added => changes.new.push(path),
                ChangeKind::Modified => changes.changed.push(path),
                ChangeKind::Removed => changes.deleted.push(path),
            }
        }
        changes
    }

    /// The content of each changed file at the start and in `now`, which was read at `root`. Fails if a content is missing,
    /// damaged, or was not stored because of its size.
    pub(crate) fn changes(&self, root: &Path, now: &Tree) -> io::Result<Vec<FileChange>> {
        let current = now.file_list();
        let all = self.files.changes_to(now).into_iter().map(|(path, _)| {
            let before = self.files.get(&path).map(|file| self.content(&file)).transpose()?;
            let after = current.get(&path).map(|file| current_content(root, &file)).transpose()?;
            Ok(FileChange { path: path.into_os_string().into_encoded_bytes(), before, now: after })
        });
        all.collect()
    }

    /// The content of a file at the start, with its digest verified.
    fn content(&self, file: &CountedFile<'_>) -> io::Result<FileContent> {
        let name = |what: &str| format!("{} of the start {what}", file.path.display());
        let stored = self.dir.join("contents").join(Digest::from_raw(file.digest).as_str());
        let Some(bytes) = files::read_if_there(&stored)? else {
            return Err(io::Error::new(io::ErrorKind::NotFound, name("was not stored")));
        };
        content_of(file, bytes).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, name("was changed")))
    }
}

/// What a file contains now; it must be what was read for the fingerprint.
fn current_content(root: &Path, file: &CountedFile<'_>) -> io::Result<FileContent> {
    let changed = || {
        let what = format!("{} changed while it was read", file.path.display());
        io::Error::new(io::ErrorKind::InvalidData, what)
    };
    let bytes = match file.kind {
        CountedKind::Link => fs::read_link(root.join(file.path))?.as_os_str().as_bytes().to_vec(),
        _ => fs::read(root.join(file.path))?,
    };
    content_of(file, bytes).ok_or_else(changed)
}

fn content_of(file: &CountedFile<'_>, bytes: Vec<u8>) -> Option<FileContent> {
    if Digest::of(&bytes) != Digest::from_raw(file.digest) {
        return None;
    }
    match file.kind {
        CountedKind::File => Some(FileContent::File { mode: file.mode, bytes }),
        CountedKind::Link => Some(FileContent::Link { target: bytes }),
        CountedKind::Other => None,
    }
}

fn store_content(contents: &Path, root: &Path, file: &CountedFile<'_>, left: &mut u64) -> io::Result<()> {
    let to = contents.join(Digest::from_raw(file.digest).as_str());
    let from = root.join(file.path);
    let changed = || {
        let what = format!("{} changed while the start was stored", file.path.display());
        io::Error::new(io::ErrorKind::InvalidData, what)
    };
    let bytes = match file.kind {
        CountedKind::Other => return Ok(()),
        CountedKind::Link => fs::read_link(&from)?.into_os_string().into_encoded_bytes(),
        CountedKind::File => {
            let is_stored =
                fs::symlink_metadata(&to).is_ok_and(|meta| meta.is_file() && file.size == Some(meta.len()));
            if is_stored || file.size.is_none_or(|size| size > LARGEST_FILE || size > *left) {
                return Ok(());
            }
            let mut bytes =
                Vec::with_capacity(file.size.and_then(|size| usize::try_from(size).ok()).unwrap_or(0));
            File::open(&from)?.take(LARGEST_FILE + 1).read_to_end(&mut bytes)?;
            bytes
        }
    };
    if Digest::of(&bytes) != Digest::from_raw(file.digest) {
        return Err(changed());
    }
    *left = left.saturating_sub(bytes.len() as u64);
    write_new(&to, &bytes)
}

/// Written under its own name at once: a torn content of a killed process has another digest, and is written again because
/// of its length.
fn write_new(to: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    options.open(to)?.write_all(bytes)
}

/// Removes starts that no loop can still need, then the contents that no start lists.
fn prune(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir.join("trees")) else { return };
    let mut trees: Vec<_> = entries
        .flatten()
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    trees.sort();
    trees.reverse();
    let is_old = |at: &std::time::SystemTime| at.elapsed().is_ok_and(|age| age > KEPT_FOR);
    let unneeded: Vec<_> = trees.iter().skip(KEPT_STARTS).filter(|(at, _)| is_old(at)).collect();
    if unneeded.is_empty() {
        return;
    }
    for (_, path) in &unneeded {
        let _gone = fs::remove_file(path);
    }
    let kept: Option<std::collections::HashSet<String>> = trees
        .iter()
        .filter(|(_, path)| path.exists())
        .map(|(_, path)| Some(FileList::from_bytes(&fs::read(path).ok()?)?.digests()))
        .collect::<Option<Vec<_>>>()
        .map(|lists| lists.into_iter().flatten().collect());
    // A list that cannot be read may still be needed: then all contents are kept.
    let Some(kept) = kept else { return };
    for entry in fs::read_dir(dir.join("contents")).into_iter().flatten().flatten() {
        if !kept.contains(&*OsStr::to_string_lossy(&entry.file_name())) {
            let _gone = fs::remove_file(entry.path());
        }
    }
}
