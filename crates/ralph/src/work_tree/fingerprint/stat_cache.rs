//! Content hashes remembered by what `lstat` says, so that an unchanged file is not read again.
//!
//! The file lies outside the tree and may be lost, cut short or written by another version at any time: it is then
//! ignored and written anew. Writers never share a file: each fills one of its own and renames it into place, so
//! a reader sees a whole cache, the older or the newer one. What makes an entry trustworthy is in [`Stamp`].
//!
//! It is not a secret and not a proof: whoever can write to it could make ralph believe anything, and could as well
//! write to the ledger next to it. The checksum is there for damage, not for malice.

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use super::bytes::{ByteReader, Writer};
use super::file_stamp::{Stamp, StampBytes};
use super::git::{Listing, ListingRef};
use super::{Content, Digest, Found, Seen};

/// Names the format; another form gets another name.
const MAGIC: &[u8; 8] = b"ralphst1";

/// The name of a file being filled ends so.
const DRAFT: &str = ".draft";

/// A draft this old belongs to a writer that was killed.
const ABANDONED_AFTER: Duration = Duration::from_secs(60);

/// An index to the stored bytes, in which everything else is left to lie.
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

/// What the cache knows of the files of one folder, from some name on.
pub(super) struct Remembered<'c> {
    files: &'c [File<'c>],
}

impl Remembered<'_> {
    /// The content hash of `name`, if its stamp is still the one it was hashed under.
    ///
    /// Names are asked for in order: what comes before `name` is forgotten.
    pub(super) fn digest(&mut self, name: &[u8], stamp: &Stamp) -> Option<Digest> {
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
    /// The cache of `root` that was `stored`; empty if it cannot be used.
    pub(super) fn of(stored: &'s [u8], root: &Path) -> Self {
        Self::decode(stored, root).unwrap_or_default()
    }

    pub(super) fn listing(&self) -> Option<&Listing> {
        self.listing.as_ref()
    }

    pub(super) fn folder(&self, name: &[u8]) -> Remembered<'_> {
        let at = self.folders.binary_search_by(|folder| folder.name.cmp(name));
        Remembered { files: at.map_or(&[], |at| &self.files[self.folders[at].files.clone()]) }
    }

    /// What was found, to be stored, if it is not what the cache holds already.
    pub(super) fn renewed(
        &self,
        root: &Path,
        listing: &ListingRef<'_>,
        found: &[Found],
        settled: impl Fn(&Stamp) -> bool,
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
        let mut keep: Vec<Keep<'_>> = found.iter().filter_map(|found| Keep::one(found, &settled)).collect();
        keep.sort_unstable_by_key(|keep| (keep.folder, keep.name));
        Some(encode(root, listing_to_keep, &keep))
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

impl Found {
    fn is_remembered(&self) -> bool {
        matches!(self.seen, Seen::File { content: Content::Remembered(_), .. })
    }

    fn is_to_remember(&self, settled: impl Fn(&Stamp) -> bool) -> bool {
        matches!(&self.seen, Seen::File { stamp, content: Content::Read(_) } if settled(stamp))
    }
}

/// What is worth keeping of a file: folder, name, stamp, content hash.
struct Keep<'f> {
    folder: &'f [u8],
    name: &'f [u8],
    stamp: &'f Stamp,
    digest: &'f Digest,
}

impl<'f> Keep<'f> {
    fn one(found: &'f Found, settled: impl Fn(&Stamp) -> bool) -> Option<Self> {
        let (stamp, digest) = match &found.seen {
            Seen::File { stamp, content: Content::Remembered(digest) } => (stamp, digest),
            Seen::File { stamp, content: Content::Read(digest) } if settled(stamp) => (stamp, digest),
            _ => return None,
        };
        let (folder, name) = match found.path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&found.path[..slash], &found.path[slash + 1..]),
            None => (&[][..], &found.path[..]),
        };
        Some(Self { folder, name, stamp, digest })
    }
}

fn encode(root: &Path, listing: Option<&Listing>, keep: &[Keep<'_>]) -> Vec<u8> {
    let mut to = Writer::default();
    to.raw(MAGIC);
    to.slice(root.as_os_str().as_bytes());
    to.count(usize::from(listing.is_some()));
    if let Some(listing) = listing {
        listing.write(&mut to);
    }
    let folders = || keep.chunk_by(|one, next| one.folder == next.folder);
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

/// Cheap and good enough to notice a torn or flipped byte: each step can be undone, so a single changed word
/// always changes the sum.
fn checksum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let step = |sum: u64, word: &[u8; 8]| {
        (sum ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    };
    step(words.iter().fold(bytes.len() as u64, step), &last)
}

/// Puts `bytes` in place of `file` in one step, readable by its owner only.
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

/// Removes the drafts of writers that did not live to rename them.
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
