//! The files of a tree as a list that can be stored and read back: exactly those of the fingerprint, which is computed from
//! the list again, so a changed list is noticed.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use ralph_core::model::file_change::FileContent;
use ralph_core::model::id::{Digest, TreeHash};

use super::file_stamp::FileStamp;
use super::{ChangeKind, Entry, FileKind, ManifestFact, Tree, differences, hash_of};

/// Starts a stored list.
const HEADER: &[u8] = b"ralph files 1\n";

/// The files that count, sorted by path.
#[derive(Clone, Debug)]
pub(crate) struct FileList(Vec<Entry>);

/// One file of the list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountedFile<'t> {
    /// Relative to the root.
    pub(crate) path: &'t Path,
    pub(crate) kind: CountedKind,
    pub(crate) mode: u16,
    /// SHA-256 of the content, or of the link's target.
    pub(crate) digest: &'t [u8],
    /// Known if the tree was read by this process.
    pub(crate) size: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountedKind {
    File,
    Link,
    /// Unreadable, or neither file nor link.
    Other,
}

/// The `lstat` data of a tree's files and folders at one moment: equal stamps mean that nothing was written to them between.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TreeStamps {
    files: Vec<Option<FileStamp>>,
    folders: Vec<Option<FileStamp>>,
}

impl Tree {
    pub(crate) fn file_list(&self) -> FileList {
        FileList(self.entries.clone())
    }

    /// The stamps now; `None` if a file is not the one that was read.
    pub(crate) fn stamps_now(&self, root: &Path) -> Option<TreeStamps> {
        let root = super::content::open_folder(root).ok()?;
        let stamp = |path: &[u8]| {
            let path = if path.is_empty() { b"." } else { path };
            FileStamp::of(&root, OsStr::from_bytes(path)).ok().map(|(stamp, _)| stamp)
        };
        let files: Vec<_> = self.entries.iter().map(|entry| stamp(&entry.path)).collect();
        let as_read = self.entries.iter().zip(&files);
        let is_same = as_read.into_iter().all(|(entry, now)| entry.stamp.is_none() || entry.stamp == *now);
        let folders = self.folders.iter().map(|folder| stamp(&folder.path)).collect();
        is_same.then_some(TreeStamps { files, folders })
    }
}

impl CountedFile<'_> {
    /// What the file contains now; it must be what was read for the fingerprint.
    pub(crate) fn read(&self, root: &Path) -> io::Result<FileContent> {
        let path = root.join(self.path);
        let bytes = match self.kind {
            CountedKind::Link => fs::read_link(path)?.into_os_string().into_encoded_bytes(),
            CountedKind::File | CountedKind::Other => fs::read(path)?,
        };
        self.with_content(bytes).ok_or_else(|| {
            let what = format!("{} changed while it was read", self.path.display());
            io::Error::new(io::ErrorKind::InvalidData, what)
        })
    }

    /// The file with this content; `None` if it is not the listed one.
    pub(crate) fn with_content(&self, bytes: Vec<u8>) -> Option<FileContent> {
        if Digest::of(&bytes) != Digest::from_raw(self.digest) {
            return None;
        }
        match self.kind {
            CountedKind::File => Some(FileContent::File { mode: self.mode, bytes }),
            CountedKind::Link => Some(FileContent::Link { target: bytes }),
            CountedKind::Other => None,
        }
    }
}

impl FileList {
    pub(crate) fn iter(&self) -> impl Iterator<Item = CountedFile<'_>> {
        self.0.iter().map(counted)
    }

    pub(crate) fn get(&self, path: &Path) -> Option<CountedFile<'_>> {
        let path = path.as_os_str().as_bytes();
        let at = self.0.binary_search_by(|entry| (*entry.path).cmp(path)).ok()?;
        Some(counted(&self.0[at]))
    }

    /// As that of the tree.
    pub(crate) fn fingerprint(&self) -> TreeHash {
        TreeHash::new(hash_of(&self.0))
    }

    /// The paths that differ in `now`, sorted.
    pub(crate) fn changes_to(&self, now: &Tree) -> Vec<(PathBuf, ChangeKind)> {
        let changes = differences(&self.0, &now.entries);
        changes.into_iter().map(|(entry, kind)| (entry.path().to_owned(), kind)).collect()
    }

    /// The digests of all contents, in hexadecimal.
    pub(crate) fn digests(&self) -> HashSet<String> {
        self.0.iter().map(|entry| Digest::from_raw(&entry.fact.digest).as_str().to_owned()).collect()
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = HEADER.to_vec();
        for entry in &self.0 {
            entry.write_line(&mut bytes);
        }
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        /// Kind, mode and digest.
        const REST: usize = 1 + 3 + 32;
        let mut rest = bytes.strip_prefix(HEADER)?;
        let mut entries = Vec::new();
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| *byte == 0)?;
            let (path, after) = (&rest[..end], &rest[end + 1..]);
            let fact = after.get(..REST)?;
            let octal = |digit: u8| (b'0'..=b'7').contains(&digit).then(|| u16::from(digit - b'0'));
            let mode = octal(fact[1])? << 6 | octal(fact[2])? << 3 | octal(fact[3])?;
            let fact = ManifestFact { kind: kind(fact[0])?, mode, digest: fact[4..].try_into().ok()? };
            entries.push(Entry { path: path.into(), fact, stamp: None });
            rest = &after[REST..];
        }
        Some(Self(entries))
    }
}

fn counted(entry: &Entry) -> CountedFile<'_> {
    CountedFile {
        path: Path::new(OsStr::from_bytes(&entry.path)),
        kind: match entry.fact.kind {
            FileKind::File => CountedKind::File,
            FileKind::Link => CountedKind::Link,
            _ => CountedKind::Other,
        },
        mode: entry.fact.mode,
        digest: &entry.fact.digest,
        size: entry.stamp.map(|stamp| stamp.size),
    }
}

fn kind(byte: u8) -> Option<FileKind> {
    let all = [
        FileKind::File,
        FileKind::Link,
        FileKind::Fifo,
        FileKind::Socket,
        FileKind::CharDevice,
        FileKind::BlockDevice,
        FileKind::Unknown,
        FileKind::UnreadableFile,
        FileKind::UnreadableFolder,
    ];
    all.into_iter().find(|kind| *kind as u8 == byte)
}
