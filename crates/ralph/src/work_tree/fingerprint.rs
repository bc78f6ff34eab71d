//! The fingerprint of a work tree: the value a receipt is bound to.
//!
//! A receipt says "these gates passed on *this* tree". That requires that two different trees never share a
//! fingerprint, so nothing here trusts another program about the content of a file. Every tracked file and every
//! untracked one that is not ignored is read by ralph itself: content, permission bits, or the target of a link. Git
//! provides only the *names* of the tracked files, so that a tracked file counts even if a rule would ignore it; its
//! flags (`--assume-unchanged`, `--skip-worktree`, `info/exclude`) are not used.
//!
//! ```text
//!   git.rs ── tracked names ──┐
//!   ignores.rs ── .gitignore ─┼─► walk.rs: what is there ─► content.rs: hash what is not known ─► Tree
//!   stat_cache.rs ── known ───┘                                                    │
//!         ▲────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! The stat cache only affects speed and may be lost at any time: the hash is the same without it.

mod bytes;
mod content;
mod file_list;
mod file_stamp;
mod git;
mod ignores;
mod names;
mod stat_cache;
mod walk;
mod well_known_caches;

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{fs, io};

use globset::GlobSet;
use sha2::{Digest as _, Sha256};

pub(crate) use self::file_list::{CountedFile, CountedKind, FileList, TreeStamps};
use self::file_stamp::{FileStamp, FileTime};
pub(crate) use self::git::GitUse;
pub(crate) use self::ignores::IgnoreRules;
use self::stat_cache::StatCache;
use self::walk::FolderSeen;
use crate::work_tree::git::locate::Checkout;

/// A SHA-256 value.
type Digest = [u8; 32];

/// Starts every manifest, so that a new format can never yield a hash of an older one.
const MANIFEST: &[u8] = b"ralph tree 1\n";

/// Bytes of the manifest hashed at once: the hasher is faster with many blocks than with one at a time.
const HASHED_AT_ONCE: usize = 4096;

/// How old a change must be before the stat cache may be trusted for a file.
///
/// A file changed twice within one tick of the file system's clock has the same stamp after both. If it was hashed
/// between the two, the wrong hash would be cached permanently. The coarsest clock in use (FAT) ticks every two
/// seconds.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// Reads a work tree. See the module documentation for what counts.
pub(crate) struct TreeReader<'a> {
    root: &'a Path,
    cache: Cache<'a>,
    own: Vec<Box<dyn Fn() -> Vec<OwnFile> + Sync + 'a>>,
    pinned: Option<&'a IgnoreRules>,
    written: GlobSet,
    settled_after: Duration,
}

/// Cached content hashes, by `lstat` data.
enum Cache<'a> {
    Nowhere,
    /// For display only: any process can write there.
    File(PathBuf),
    /// What this process has read itself.
    Memory(&'a TreeMemory),
}

/// What one process has read of a tree, for its next read. No other process can write to it.
#[derive(Debug, Default)]
pub(crate) struct TreeMemory(Mutex<Vec<u8>>);

impl Cache<'_> {
    fn stored(&self) -> Vec<u8> {
        match self {
            Self::Nowhere => Vec::new(),
            Self::File(file) => fs::read(file).unwrap_or_default(),
            Self::Memory(memory) => memory.0.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// A failed write only costs time at the next read.
    fn store(&self, bytes: Vec<u8>) {
        match self {
            Self::Nowhere => {}
            Self::File(file) => drop(stat_cache::replace(file, &bytes)),
            Self::Memory(memory) => *memory.0.lock().unwrap_or_else(PoisonError::into_inner) = bytes,
        }
    }
}

/// A file ralph wrote into the tree: excluded as long as its content is unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnFile {
    /// Relative to the root of the tree.
    pub(crate) path: PathBuf,
    pub(crate) sha256: [u8; 32],
}

impl<'a> TreeReader<'a> {
    /// A reader of the tree at `root`, which must be canonical: links are not followed below it, nor resolved
    /// above it.
    pub(crate) fn new(root: &'a Path) -> Self {
        let (cache, own, written) = (Cache::Nowhere, Vec::new(), GlobSet::default());
        Self { root, cache, own, pinned: None, written, settled_after: SETTLED_AFTER }
    }

    /// Excludes the files that the gates declare to rewrite at every run.
    #[must_use]
    pub(crate) fn without_written(mut self, written: GlobSet) -> Self {
        self.written = written;
        self
    }

    /// Caches content hashes in `file`, outside the tree and in an existing folder.
    #[must_use]
    pub(crate) fn cache(mut self, file: impl Into<PathBuf>) -> Self {
        self.cache = Cache::File(file.into());
        self
    }

    /// Caches contents in this process and reads no cache on disk: required for verdicts.
    #[must_use]
    pub(crate) fn remembering(mut self, memory: &'a TreeMemory) -> Self {
        self.cache = Cache::Memory(memory);
        self
    }

    /// Excludes these files as long as they are as ralph wrote them. Called at every read, after the contents:
    /// another ralph process may write such a file at any time.
    #[must_use]
    pub(crate) fn own_files(mut self, own: impl Fn() -> Vec<OwnFile> + Sync + 'a) -> Self {
        self.own.push(Box::new(own));
        self
    }

    /// Pins the ignore rules of an earlier read: a path is excluded only if those rules *and* the current ones ignore
    /// it. An edited `.gitignore` can then reveal files but not hide any.
    #[must_use]
    pub(crate) fn pinned_rules(mut self, rules: &'a IgnoreRules) -> Self {
        self.pinned = Some(rules);
        self
    }

    /// Reads the current tree.
    ///
    /// The state of a file (missing, unreadable, a pipe) is part of the result and never an error. An error means
    /// that the tree could not be read at all: the root is not a readable folder, or this process ran out of file
    /// descriptors or memory.
    pub(crate) fn read(&self) -> io::Result<Tree> {
        // Taken before the first read, so that any later change counts as too recent to cache.
        let started = FileTime::now();
        let stored = self.cache.stored();
        let cache = StatCache::of(&stored, self.root);

        let checkout = Checkout::around(self.root);
        let (listing, git) = git::tracked(self.root, checkout.as_ref(), cache.listing());
        let walked = walk::walk(&walk::WalkPlan {
            root: self.root,
            work_tree: checkout.as_ref().map_or(self.root, |checkout| &checkout.top),
            tracked: listing.tracked(),
            cache: &cache,
            pinned: self.pinned,
        })?;
        let mut found = walked.found;
        content::read_unknown(self.root, &mut found)?;

        let settled = |stamp: &FileStamp| stamp.is_settled(started, self.settled_after);
        if !matches!(self.cache, Cache::Nowhere)
            && let Some(bytes) = cache.renewed(self.root, &listing, &found, settled)
        {
            self.cache.store(bytes);
        }
        let (entries, own) = self.entries(found);
        let mut tree = Tree::new(entries, walked.rules, git);
        tree.own = own;
        tree.folders = walked.folders;
        tree.unbound = tree.unbound_parts(self.root);
        Ok(tree)
    }

    /// The entries that count, and those that ralph itself wrote.
    fn entries(&self, found: Vec<WalkedPath>) -> (Vec<Entry>, Vec<Entry>) {
        let own: Vec<OwnFile> = self.own.iter().flat_map(|own| own()).collect();
        let is_own = |entry: &Entry| {
            let is_it = |own: &OwnFile| {
                own.sha256 == entry.fact.digest && own.path.as_os_str().as_bytes() == &*entry.path
            };
            entry.fact.kind == FileKind::File
                && (own.iter().any(is_it) || self.written.is_match(entry.path()))
        };
        // Removed in place: `partition` would allocate the long list a second time.
        let mut entries: Vec<Entry> = found.into_iter().filter_map(WalkedPath::into_entry).collect();
        let own = entries.extract_if(.., |entry| is_own(entry)).collect();
        (entries, own)
    }
}

/// A work tree at one moment.
#[derive(Debug)]
pub(crate) struct Tree {
    /// Sorted by the bytes of the path.
    entries: Vec<Entry>,
    /// Excluded from the fingerprint.
    own: Vec<Entry>,
    /// Sorted by path.
    folders: Vec<FolderSeen>,
    hash: String,
    rules: IgnoreRules,
    git: GitUse,
    unbound: Option<String>,
}

/// How one path differs between two trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreeChange {
    /// For display: bytes that are not UTF-8 are replaced.
    pub(crate) path: String,
    pub(crate) kind: ChangeKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    Added,
    Removed,
    Modified,
}

impl Tree {
    fn new(entries: Vec<Entry>, rules: IgnoreRules, git: GitUse) -> Self {
        let hash = hash_of(&entries);
        Self { entries, own: Vec::new(), folders: Vec::new(), hash, rules, git, unbound: None }
    }

    /// Why the fingerprint does not cover everything that a gate may see, if so: a result on this tree then does not
    /// apply to a later tree with the same fingerprint.
    pub(crate) fn unbound(&self) -> Option<&str> {
        self.unbound.as_deref()
    }

    fn unbound_parts(&self, root: &Path) -> Option<String> {
        if let GitUse::Failed(why) = &self.git {
            return Some(format!("git could not list the tracked files: {why}"));
        }
        if self.entries.is_empty() {
            return Some("the tree contains no files".into());
        }
        self.entries.iter().find_map(|entry| {
            let path = entry.path();
            match entry.fact.kind {
                FileKind::File => None,
                FileKind::Link if !self.leads_out(&root.join(path), root) => None,
                FileKind::Link => Some(format!("{} is a link to an excluded file", path.display())),
                _ => Some(format!("{} cannot be read", path.display())),
            }
        })
    }

    /// Whether a link points to anything except a file that counts.
    fn leads_out(&self, link: &Path, root: &Path) -> bool {
        let Ok(target) = fs::canonicalize(link) else { return false };
        let Ok(inside) = target.strip_prefix(root) else { return true };
        let inside = inside.as_os_str().as_bytes();
        let at = self.entries.partition_point(|entry| &*entry.path < inside);
        let is_entry = self.entries.get(at).is_some_and(|entry| &*entry.path == inside);
        let below =
            |entry: &Entry| entry.path.starts_with(inside) && entry.path.get(inside.len()) == Some(&b'/');
        !(is_entry || inside.is_empty() || self.entries.iter().any(below))
    }

    /// One line for each file: its digest and its path.
    pub(crate) fn listing(&self) -> String {
        let line = |entry: &Entry| {
            let digest: String =
                entry.fact.digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
            format!("{digest} {}\n", entry.path().to_string_lossy().replace('\n', "?"))
        };
        self.entries.iter().map(line).collect()
    }

    /// The fingerprint: 64 hexadecimal digits.
    pub(crate) fn hash(&self) -> &str {
        &self.hash
    }

    /// The fingerprint of the files that `inputs` matches; `None` if it matches none, since a hash of nothing would
    /// look like evidence.
    pub(crate) fn narrowed(&self, inputs: &GlobSet) -> Option<String> {
        let mut matching = self.entries.iter().filter(|entry| inputs.is_match(entry.path())).peekable();
        matching.peek()?;
        Some(hash_of(matching))
    }

    /// The changes from `before` to this tree, sorted by path.
    pub(crate) fn changes_since(&self, before: &Self) -> Vec<TreeChange> {
        let changes = differences(&before.entries, &self.entries);
        changes.into_iter().map(|(entry, kind)| entry.change(kind)).collect()
    }

    /// Files that were replaced or written to since `before` was read but have the same content, sorted by path.
    /// Includes a folder that was moved away and back; excludes one in which files were created and removed, since
    /// tools do that.
    pub(crate) fn moved_since(&self, before: &Self) -> Vec<String> {
        let name =
            |path: &[u8]| String::from_utf8_lossy(if path.is_empty() { b"." } else { path }).into_owned();
        let was = |path: &[u8]| {
            let at = before.entries.binary_search_by(|entry| (*entry.path).cmp(path)).ok()?;
            Some(&before.entries[at])
        };
        let is_moved = |now: &&Entry| {
            was(&now.path).is_some_and(|was| match (was.stamp, now.stamp) {
                (Some(was_stamp), Some(stamp)) => was.fact == now.fact && stamp.is_another_file(&was_stamp),
                _ => false,
            })
        };
        let files = self.entries.iter().filter(is_moved).map(|entry| name(&entry.path));
        let folder_was = |path: &[u8]| {
            let at = before.folders.binary_search_by(|folder| (*folder.path).cmp(path)).ok()?;
            before.folders[at].stamp
        };
        let folder_is = |path: &[u8]| {
            let at = self.folders.binary_search_by(|folder| (*folder.path).cmp(path)).ok()?;
            self.folders[at].stamp
        };
        let parent_moved = |path: &[u8]| {
            let parent = path.iter().rposition(|byte| *byte == b'/').map_or(&[][..], |slash| &path[..slash]);
            let (was, is) = (folder_was(parent), folder_is(parent));
            !path.is_empty() && was.zip(is).is_none_or(|(was, is)| was.ctime != is.ctime)
        };
        let is_moved_folder = |now: &&FolderSeen| match (folder_was(&now.path), now.stamp) {
            (Some(was), Some(stamp)) => stamp.is_moved_folder(&was, parent_moved(&now.path)),
            _ => false,
        };
        let folders = self.folders.iter().filter(is_moved_folder).map(|folder| name(&folder.path));
        let mut moved: Vec<String> = files.chain(folders).collect();
        moved.sort();
        moved
    }

    /// Whether that path was read, including excluded files that ralph wrote.
    pub(crate) fn has(&self, path: &Path) -> bool {
        let path = path.as_os_str().as_bytes();
        let is_in = |entries: &[Entry]| entries.binary_search_by(|entry| (*entry.path).cmp(path)).is_ok();
        is_in(&self.entries) || is_in(&self.own)
    }

    /// The effective `.gitignore` texts, for pinning later reads.
    pub(crate) fn rules(&self) -> &IgnoreRules {
        &self.rules
    }

    /// What git contributed.
    pub(crate) fn git(&self) -> &GitUse {
        &self.git
    }

    /// The number of files that count.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

/// One line of the manifest.
#[derive(Clone, Debug)]
struct Entry {
    path: Box<[u8]>,
    fact: ManifestFact,
    /// The `lstat` data; not part of the manifest.
    stamp: Option<FileStamp>,
}

/// The manifest's data about a path.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ManifestFact {
    kind: FileKind,
    /// Permission bits, if meaningful for the kind.
    mode: u16,
    /// Of the content, of the link's target, or of the visible metadata of an unreadable file.
    digest: Digest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum FileKind {
    File = b'f',
    Link = b'l',
    Fifo = b'p',
    Socket = b's',
    CharDevice = b'c',
    BlockDevice = b'b',
    Unknown = b'?',
    UnreadableFile = b'u',
    UnreadableFolder = b'd',
}

/// A path found by the walk, and what is known about it so far.
#[derive(Debug)]
struct WalkedPath {
    path: Box<[u8]>,
    seen: PathContent,
}

#[derive(Debug)]
enum PathContent {
    File {
        stamp: FileStamp,
        content: Content,
    },
    /// Anything without readable content.
    Other {
        fact: ManifestFact,
        stamp: Option<FileStamp>,
    },
    Vanished,
}

#[derive(Debug)]
enum Content {
    Unread,
    /// From the stat cache.
    Remembered(Digest),
    Read(Digest),
}

impl Entry {
    fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.path))
    }

    fn change(&self, kind: ChangeKind) -> TreeChange {
        TreeChange { path: String::from_utf8_lossy(&self.path).into_owned(), kind }
    }

    /// Path, NUL, kind, three octal digits of mode, 32 bytes of digest. A path contains no NUL and the rest has a
    /// fixed length, so different trees give different manifests.
    fn write_line(&self, to: &mut Vec<u8>) {
        let octal = |shift: u16| b'0' + ((self.fact.mode >> shift) & 0o7) as u8;
        to.extend_from_slice(&self.path);
        to.extend_from_slice(&[0, self.fact.kind as u8, octal(6), octal(3), octal(0)]);
        to.extend_from_slice(&self.fact.digest);
    }
}

impl ManifestFact {
    fn of(kind: FileKind) -> Self {
        Self { kind, mode: 0, digest: [0; 32] }
    }

    fn file(stamp: &FileStamp, digest: Digest) -> Self {
        Self { kind: FileKind::File, mode: stamp.permissions(), digest }
    }

    fn link(target: &[u8]) -> Self {
        // A link has no permissions of its own: systems differ in what they report.
        Self { kind: FileKind::Link, mode: 0, digest: Sha256::digest(target).into() }
    }

    /// Size and ctime replace the content of an unreadable file: they change when it is written to.
    fn unreadable(kind: FileKind, stamp: &FileStamp) -> Self {
        let mut seen = Sha256::new();
        seen.update(stamp.size.to_le_bytes());
        seen.update(stamp.ctime.to_bytes());
        Self { kind, mode: stamp.permissions(), digest: seen.finalize().into() }
    }
}

impl WalkedPath {
    fn into_entry(self) -> Option<Entry> {
        let (fact, stamp) = match self.seen {
            PathContent::File { stamp, content: Content::Remembered(digest) | Content::Read(digest) } => {
                (ManifestFact::file(&stamp, digest), Some(stamp))
            }
            PathContent::Other { fact, stamp } => (fact, stamp),
            PathContent::File { content: Content::Unread, .. } | PathContent::Vanished => return None,
        };
        Some(Entry { path: self.path, fact, stamp })
    }
}

/// The differences between two sorted lists.
fn differences<'e>(before: &'e [Entry], now: &'e [Entry]) -> Vec<(&'e Entry, ChangeKind)> {
    let (mut old, mut new) = (before.iter().peekable(), now.iter().peekable());
    let mut differences = Vec::new();
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return differences,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => old.path.cmp(&new.path),
        };
        let difference = match order {
            Ordering::Less => old.next().map(|entry| (entry, ChangeKind::Removed)),
            Ordering::Greater => new.next().map(|entry| (entry, ChangeKind::Added)),
            Ordering::Equal => {
                let both = old.next().zip(new.next());
                both.filter(|(old, new)| old.fact != new.fact).map(|(_, new)| (new, ChangeKind::Modified))
            }
        };
        differences.extend(difference);
    }
}

fn hash_of<'e>(entries: impl IntoIterator<Item = &'e Entry>) -> String {
    let mut hasher = Sha256::new();
    hasher.update(MANIFEST);
    let mut lines = Vec::new();
    for entry in entries {
        entry.write_line(&mut lines);
        if lines.len() >= HASHED_AT_ONCE {
            hasher.update(&lines);
            lines.clear();
        }
    }
    hasher.update(&lines);
    hex(&hasher.finalize())
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 0xf])
        .map(|d| char::from(DIGITS[usize::from(d)]))
        .collect()
}
