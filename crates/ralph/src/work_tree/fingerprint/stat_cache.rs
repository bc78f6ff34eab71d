//! Content hashes cached by `lstat` data, so that unchanged files are not read again.
//!
//! The file is outside the tree and may be lost, truncated or written by another version at any time: it is then
//! ignored and rewritten. Each writer fills its own file and renames it into place, so a reader always sees a
//! complete cache. [`FileStamp`] explains why an entry can be trusted.
//!
//! It is neither secret nor evidence: a process that can write to it could also write to the ledger next to it. The
//! checksum detects damage, not forgery.

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use super::bytes::{ByteReader, Writer};
use super::file_stamp::{FileStamp, StampBytes};
use super::git::{Listing, ListingRef};
use super::{Content, Digest, PathContent, WalkedPath};

/// Identifies the format; a new format gets a new value.
const MAGIC: &[u8; 8] = b"ralphst1";

/// Suffix of a file being written.
const DRAFT: &str = ".draft";

/// A draft this old was left by a killed writer.
const ABANDONED_AFTER: Duration = Duration::from_secs(60);

/// An index into the stored bytes, which are not copied.
#[derive(Default)]
pub(super) struct StatCache<'s> {
    /// Sorted by name.
    folders: Vec<Folder<'s>>,
    /// Folder by folder, in each sorted by name.
    files: Vec<File<'s>>,
    listing: Option<Listing>,
}

struct Folder<'s> {
    name: &'s [u8],
    files: Range<usize>,
}

struct File<'s> {
    name: &'s [u8],
    stamp: &'s StampBytes,
    digest: &'s Digest,
}

/// The cached files of one folder, from some name on.
pub(super) struct CachedFolder<'c> {
    files: &'c [File<'c>],
}

impl CachedFolder<'_> {
    /// The content hash of `name`, if its stamp is unchanged.
    ///
    /// Names must be looked up in order: those before `name` are skipped for good.
    pub(super) fn digest(&mut self, name: &[u8], stamp: &FileStamp) -> Option<Digest> {
        while let [file, rest @ ..] = self.files
            && file.name <= name
        {
            self.files = rest;
            if file.name == name {
                return (*file.stamp == stamp.to_bytes()).then_some(*file.digest);
            }
        }
        None
    }
}

impl<'s> StatCache<'s> {
    /// The cache of `root` in `stored`; empty if it is unusable.
    pub(super) fn of(stored: &'s [u8], root: &Path) -> Self {
        Self::decode(stored, root).unwrap_or_default()
    }

    pub(super) fn listing(&self) -> Option<&Listing> {
        self.listing.as_ref()
    }

    pub(super) fn folder(&self, name: &[u8]) -> CachedFolder<'_> {
        let at = self.folders.binary_search_by(|folder| folder.name.cmp(name));
        CachedFolder { files: at.map_or(&[], |at| &self.files[self.folders[at].files.clone()]) }
    }

    /// The new content of the cache, if it differs from the stored one.
    pub(super) fn renewed(
        &self,
        root: &Path,
        listing: &ListingRef<'_>,
        found: &[WalkedPath],
        settled: impl Fn(&FileStamp) -> bool,
    ) -> Option<Vec<u8>> {
        let listing_to_keep = Some(listing.get()).filter(|listing| listing.is_keepable(&settled));
        let listing_is_kept = match listing {
            ListingRef::Known(_) => true,
            ListingRef::New(_) => listing_to_keep.is_none() && self.listing.is_none(),
        };
        let still_good = found.iter().filter(|found| found.is_remembered()).count();
        let is_all_kept =
            still_good == self.files.len() && !found.iter().any(|found| found.is_to_remember(&settled));
        if listing_is_kept && is_all_kept {
            return None;
        }
        let mut cached_files: Vec<CachedFile<'_>> =
            found.iter().filter_map(|found| CachedFile::one(found, &settled)).collect();
        cached_files.sort_unstable_by_key(|file| (file.folder, file.name));
        Some(encode(root, listing_to_keep, &cached_files))
    }

    fn decode(bytes: &'s [u8], root: &Path) -> Option<Self> {
        let (bytes, sum) = bytes.split_last_chunk()?;
        if checksum(bytes) != u64::from_le_bytes(*sum) {
            return None;
        }
        let mut from = ByteReader::new(bytes);
        if from.array()? != *MAGIC || from.slice()? != root.as_os_str().as_bytes() {
            return None;
        }
        let listing = if from.count()? == 0 { None } else { Some(Listing::read(&mut from)?) };
        let mut cache = Self { listing, ..Self::default() };
        for _ in 0..from.count()? {
            cache.read_folder(&mut from)?;
        }
        from.is_at_end().then_some(cache)
    }

    fn read_folder(&mut self, from: &mut ByteReader<'s>) -> Option<()> {
        let name = from.slice()?;
        let first = self.files.len();
        for _ in 0..from.count()? {
            self.files.push(File { name: from.slice()?, stamp: from.chunk()?, digest: from.chunk()? });
        }
        self.folders.push(Folder { name, files: first..self.files.len() });
        Some(())
    }
}

impl WalkedPath {
    fn is_remembered(&self) -> bool {
        matches!(self.seen, PathContent::File { content: Content::Remembered(_), .. })
    }

    fn is_to_remember(&self, settled: impl Fn(&FileStamp) -> bool) -> bool {
        matches!(&self.seen, PathContent::File { stamp, content: Content::Read(_) } if settled(stamp))
    }
}

/// The cached data of a file: folder, name, stamp, content hash.
struct CachedFile<'f> {
    folder: &'f [u8],
    name: &'f [u8],
    stamp: &'f FileStamp,
    digest: &'f Digest,
}

impl<'f> CachedFile<'f> {
    fn one(found: &'f WalkedPath, settled: impl Fn(&FileStamp) -> bool) -> Option<Self> {
        let (stamp, digest) = match &found.seen {
            PathContent::File { stamp, content: Content::Remembered(digest) } => (stamp, digest),
            PathContent::File { stamp, content: Content::Read(digest) } if settled(stamp) => (stamp, digest),
            _ => return None,
        };
        let (folder, name) = match found.path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&found.path[..slash], &found.path[slash + 1..]),
            None => (&[][..], &found.path[..]),
        };
        Some(Self { folder, name, stamp, digest })
    }
}

fn encode(root: &Path, listing: Option<&Listing>, cached_files: &[CachedFile<'_>]) -> Vec<u8> {
    let mut to = Writer::default();
    to.raw(MAGIC);
    to.slice(root.as_os_str().as_bytes());
    to.count(usize::from(listing.is_some()));
    if let Some(listing) = listing {
        listing.write(&mut to);
    }
    let folders = || cached_files.chunk_by(|one, next| one.folder == next.folder);
    to.count(folders().count());
    for files in folders() {
        to.slice(files[0].folder);
        to.count(files.len());
        for file in files {
            to.slice(file.name);
            file.stamp.write(&mut to);
            to.raw(file.digest);
        }
    }
    let sum = checksum(to.as_bytes());
    to.raw(&sum.to_le_bytes());
    to.into_bytes()
}

/// Cheap, and sufficient to detect a torn or flipped byte: each step is reversible, so a single changed word always
/// changes the sum.
fn checksum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let step = |sum: u64, word: &[u8; 8]| {
        (sum ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    };
    step(words.iter().fold(bytes.len() as u64, step), &last)
}

/// Replaces `file` with `bytes` atomically, readable by its owner only.
pub(super) fn replace(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else { return Ok(()) };
    let mut prefix = OsString::from(name);
    prefix.push(".");
    sweep(folder, &prefix);
    let mut draft = tempfile::Builder::new().prefix(&prefix).suffix(DRAFT).tempfile_in(folder)?;
    draft.write_all(bytes)?;
    draft.persist(file)?;
    Ok(())
}

/// Removes the drafts of killed writers.
fn sweep(folder: &Path, prefix: &OsString) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_draft =
            name.as_bytes().starts_with(prefix.as_bytes()) && name.as_bytes().ends_with(DRAFT.as_bytes());
        if is_draft && age(&entry).is_some_and(|age| age > ABANDONED_AFTER) {
            fs::remove_file(entry.path()).ok();
        }
    }
}

fn age(entry: &fs::DirEntry) -> Option<Duration> {
    entry.metadata().ok()?.modified().ok()?.elapsed().ok()
}
