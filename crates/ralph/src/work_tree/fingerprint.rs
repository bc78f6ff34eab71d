//! The fingerprint of a work tree: the value a receipt is bound to.
//!
//! A receipt says "these gates were green on *this* tree". That is only worth something if two different trees
//! never share a fingerprint, so nothing here takes another program's word for what is in a file. Every tracked
//! file and every untracked one that is not ignored is looked at by ourselves: its content, its permission bits,
//! or where it points if it is a link. Git is asked at most for the *names* of the tracked files, so that a
//! tracked file counts even where a rule would ignore it; what git believes about them (`--assume-unchanged`,
//! `--skip-worktree`, `info/exclude`) is never heard.
//!
//! ```text
//!   git.rs ── tracked names ──┐
//!   ignores.rs ── .gitignore ─┼─► walk.rs: what is there ─► content.rs: hash what is not known ─► Tree
//!   stat_cache.rs ── known ───┘                                                    │
//!         ▲────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! The promise of speed rests on the stat cache alone, which may be lost at any time: with it and without it the
//! hash is the same.

mod bytes;
mod content;
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

use self::file_stamp::{Moment, Stamp};
pub(crate) use self::git::GitUse;
pub(crate) use self::ignores::IgnoreRules;
use self::stat_cache::StatCache;
use self::walk::FolderSeen;
use crate::work_tree::git::locate::Checkout;

/// A SHA-256 value.
type Digest = [u8; 32];

/// Opens every manifest, so that a change of its form can never yield a hash of an older form.
const MANIFEST: &[u8] = b"ralph tree 1\n";

/// So many bytes of the manifest are hashed at once: the hasher is quicker with many blocks than with one at a time.
const HASHED_AT_ONCE: usize = 4096;

/// How old a change must be before the stat cache may vouch for a file.
///
/// A file changed twice within one tick of the file system's clock looks the same after both. Hashed between the
/// two, it would be remembered wrongly for ever. The coarsest clock in use (FAT) ticks every two seconds.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// Reads a work tree. See the module for what counts.
pub(crate) struct TreeReader<'a> {
    root: &'a Path,
    cache: Cache<'a>,
    own: Vec<Box<dyn Fn() -> Vec<OwnFile> + Sync + 'a>>,
    pinned: Option<&'a IgnoreRules>,
    settled_after: Duration,
}

/// Where content hashes are remembered by what `lstat` says.
enum Cache<'a> {
    Nowhere,
    /// For whoever only looks: anybody can write there.
    File(PathBuf),
    /// What this process has read itself.
    Memory(&'a TreeMemory),
}

/// What one process has read of a tree, for its next read. Nobody else can write here.
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

    /// That it could not be written costs time at the next read, and nothing else.
    fn store(&self, bytes: Vec<u8>) {
        match self {
            Self::Nowhere => {}
            Self::File(file) => drop(stat_cache::replace(file, &bytes)),
            Self::Memory(memory) => *memory.0.lock().unwrap_or_else(PoisonError::into_inner) = bytes,
        }
    }
}

/// A file ralph wrote into the tree: left out for as long as its content is what ralph wrote.
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
        Self { root, cache: Cache::Nowhere, own: Vec::new(), pinned: None, settled_after: SETTLED_AFTER }
    }

    /// Remembers content hashes in `file`, outside the tree and in a folder that exists.
    #[must_use]
    pub(crate) fn cache(mut self, file: impl Into<PathBuf>) -> Self {
        self.cache = Cache::File(file.into());
        self
    }

    /// Remembers contents in this process and reads no cache of another one: for whoever decides.
    #[must_use]
    pub(crate) fn remembering(mut self, memory: &'a TreeMemory) -> Self {
        self.cache = Cache::Memory(memory);
        self
    }

    /// Leaves out these files, as long as they are as ralph wrote them. It is asked at every read, after the contents:
    /// another ralph may write such a file at any time.
    #[must_use]
    pub(crate) fn own_files(mut self, own: impl Fn() -> Vec<OwnFile> + Sync + 'a) -> Self {
        self.own.push(Box::new(own));
        self
    }

    /// Holds the tree to the ignore rules of an earlier read: a path is left out only if those rules *and* the
    /// present ones ignore it. An edit of a `.gitignore` can then reveal files but not hide any.
    #[must_use]
    pub(crate) fn pinned_rules(mut self, rules: &'a IgnoreRules) -> Self {
        self.pinned = Some(rules);
        self
    }

    /// Reads the tree as it is now.
    ///
    /// What a file's state is (missing, unreadable, a pipe) is part of the answer and never an error. An error
    /// means that the tree could not be read at all: the root is no readable folder, or this process ran out of
    /// file descriptors or memory.
    pub(crate) fn read(&self) -> io::Result<Tree> {
        // Taken before the first look, so that whatever changes from here on counts as too recent to remember.
        let started = Moment::now();
        let stored = self.cache.stored();
        let cache = StatCache::of(&stored, self.root);

        let checkout = Checkout::around(self.root);
        let (listing, git) = git::tracked(self.root, checkout.as_ref(), cache.listing());
        let walked = walk::walk(&walk::Plan {
            root: self.root,
            work_tree: checkout.as_ref().map_or(self.root, |checkout| &checkout.top),
            tracked: listing.tracked(),
            cache: &cache,
            pinned: self.pinned,
        })?;
        let mut found = walked.found;
        content::read_unknown(self.root, &mut found)?;

        let settled = |stamp: &Stamp| stamp.is_settled(started, self.settled_after);
        if !matches!(self.cache, Cache::Nowhere)
            && let Some(bytes) = cache.renewed(self.root, &listing, &found, settled)
        {
            self.cache.store(bytes);
        }
        let (entries, own) = self.entries(found);
        let mut tree = Tree::new(entries, walked.rules, git);
        tree.own = own;
        tree.folders = walked.folders;
        tree.unbound = tree.what_is_not_bound(self.root);
        Ok(tree)
    }

    /// What counts, and what ralph itself wrote.
    fn entries(&self, found: Vec<Found>) -> (Vec<Entry>, Vec<Entry>) {
        let own: Vec<OwnFile> = self.own.iter().flat_map(|own| own()).collect();
        let is_own = |entry: &Entry| {
            let is_it = |own: &OwnFile| {
                own.sha256 == entry.fact.digest && own.path.as_os_str().as_bytes() == &*entry.path
            };
            entry.fact.kind == Kind::File && own.iter().any(is_it)
        };
        // Taken out of the many, which stay where they are: `partition` would make room for them a second time.
        let mut entries: Vec<Entry> = found.into_iter().filter_map(Found::into_entry).collect();
        let own = entries.extract_if(.., |entry| is_own(entry)).collect();
        (entries, own)
    }
}

/// A work tree as it was at one moment.
#[derive(Debug)]
pub(crate) struct Tree {
    /// Sorted by the bytes of the path.
    entries: Vec<Entry>,
    /// Does not count.
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
pub(crate) struct Change {
    /// For people to read: bytes that are not UTF-8 are replaced.
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

    /// Why the fingerprint does not stand for everything that a gate may see, if it does not: then what was seen on this
    /// tree holds for this moment, and a later look at the same fingerprint proves nothing.
    pub(crate) fn unbound(&self) -> Option<&str> {
        self.unbound.as_deref()
    }

    fn what_is_not_bound(&self, root: &Path) -> Option<String> {
        if let GitUse::Failed(why) = &self.git {
            return Some(format!("git could not list the tracked files: {why}"));
        }
        if self.entries.is_empty() {
            return Some("no file of the tree counts".into());
        }
        self.entries.iter().find_map(|entry| {
            let path = entry.path();
            match entry.fact.kind {
                Kind::File => None,
                Kind::Link if !self.leads_out(&root.join(path), root) => None,
                Kind::Link => Some(format!("{} is a link to something that does not count", path.display())),
                _ => Some(format!("{} cannot be read", path.display())),
            }
        })
    }

    /// Whether a link ends anywhere but at what counts itself.
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

    /// The fingerprint: 64 hexadecimal digits.
    pub(crate) fn hash(&self) -> &str {
        &self.hash
    }

    /// The fingerprint of only those files that `inputs` matches; `None` if it matches none, since a hash of
    /// nothing would look like evidence.
    pub(crate) fn narrowed(&self, inputs: &GlobSet) -> Option<String> {
        let mut matching = self.entries.iter().filter(|entry| inputs.is_match(entry.path())).peekable();
        matching.peek()?;
        Some(hash_of(matching))
    }

    /// What must be done to `before` to get this tree, sorted by path.
    pub(crate) fn changes_since(&self, before: &Self) -> Vec<Change> {
        let changes = differences(&before.entries, &self.entries);
        changes.into_iter().map(|(entry, kind)| entry.change(kind)).collect()
    }

    /// What was replaced or written to since `before` was read and has the same content now, sorted by path. A folder that
    /// was moved away and back again is among them; one in which something came and went is not, since tools do that.
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

    /// Whether that path was looked at; one that does not count since ralph wrote it is included.
    pub(crate) fn has(&self, path: &Path) -> bool {
        let path = path.as_os_str().as_bytes();
        let is_in = |entries: &[Entry]| entries.binary_search_by(|entry| (*entry.path).cmp(path)).is_ok();
        is_in(&self.entries) || is_in(&self.own)
    }

    /// The `.gitignore` texts that were in force, to pin later reads to.
    pub(crate) fn rules(&self) -> &IgnoreRules {
        &self.rules
    }

    /// What git contributed.
    pub(crate) fn git(&self) -> &GitUse {
        &self.git
    }

    /// How many files count.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

/// One line of the manifest.
#[derive(Debug)]
struct Entry {
    path: Box<[u8]>,
    fact: Fact,
    /// What `lstat` said; no part of the manifest.
    stamp: Option<Stamp>,
}

/// What the manifest says about a path.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fact {
    kind: Kind,
    /// Permission bits, where they mean something.
    mode: u16,
    /// Of the content, of the link's target, or of what can be seen of a file that cannot be read.
    digest: Digest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
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

/// A path the walk came upon, and what is known of it so far.
#[derive(Debug)]
struct Found {
    path: Box<[u8]>,
    seen: Seen,
}

#[derive(Debug)]
enum Seen {
    File {
        stamp: Stamp,
        content: Content,
    },
    /// Whatever has no content to read.
    Other {
        fact: Fact,
        stamp: Option<Stamp>,
    },
    Vanished,
}

#[derive(Debug)]
enum Content {
    Unread,
    /// Vouched for by the stat cache.
    Remembered(Digest),
    Read(Digest),
}

impl Entry {
    fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.path))
    }

    fn change(&self, kind: ChangeKind) -> Change {
        Change { path: String::from_utf8_lossy(&self.path).into_owned(), kind }
    }

    /// Path, NUL, kind, three octal digits of mode, 32 bytes of digest. A path holds no NUL and what follows it
    /// has one length, so no two manifests are the same bytes.
    fn write_line(&self, to: &mut Vec<u8>) {
        let octal = |shift: u16| b'0' + ((self.fact.mode >> shift) & 0o7) as u8;
        to.extend_from_slice(&self.path);
        to.extend_from_slice(&[0, self.fact.kind as u8, octal(6), octal(3), octal(0)]);
        to.extend_from_slice(&self.fact.digest);
    }
}

impl Fact {
    fn of(kind: Kind) -> Self {
        Self { kind, mode: 0, digest: [0; 32] }
    }

    fn file(stamp: &Stamp, digest: Digest) -> Self {
        Self { kind: Kind::File, mode: stamp.permissions(), digest }
    }

    fn link(target: &[u8]) -> Self {
        // A link has no permissions of its own: systems differ in what they report.
        Self { kind: Kind::Link, mode: 0, digest: Sha256::digest(target).into() }
    }

    /// Size and ctime stand in for content nobody can read: they move when it is written to.
    fn unreadable(kind: Kind, stamp: &Stamp) -> Self {
        let mut seen = Sha256::new();
        seen.update(stamp.size.to_le_bytes());
        seen.update(stamp.ctime.to_bytes());
        Self { kind, mode: stamp.permissions(), digest: seen.finalize().into() }
    }
}

impl Found {
    fn into_entry(self) -> Option<Entry> {
        let (fact, stamp) = match self.seen {
            Seen::File { stamp, content: Content::Remembered(digest) | Content::Read(digest) } => {
                (Fact::file(&stamp, digest), Some(stamp))
            }
            Seen::Other { fact, stamp } => (fact, stamp),
            Seen::File { content: Content::Unread, .. } | Seen::Vanished => return None,
        };
        Some(Entry { path: self.path, fact, stamp })
    }
}

/// How one sorted list must be changed to get another.
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
