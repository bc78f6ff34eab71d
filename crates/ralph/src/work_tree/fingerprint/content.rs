//! Hashes the content of files that are not in a cache, streaming, on all cores.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};
use rustix::path::Arg;
use sha2::{Digest as _, Sha256};

use super::file_stamp::FileStamp;
use super::ignores::path_of;
use super::{Content, Digest, FileKind, ManifestFact, PathContent, WalkedPath};

/// Large enough to make the calls cheap, small enough to fit the CPU cache.
const BUFFER: usize = 64 * 1024;

/// Fewer files than this are read faster than a second thread starts.
const WORTH_A_THREAD: usize = 64;

/// Hashes every file of `found` whose content is not known yet.
pub(super) fn read_unknown(root: &Path, found: &mut [WalkedPath]) -> io::Result<()> {
    let unread: Vec<usize> = (0..found.len()).filter(|at| found[*at].is_unread()).collect();
    if unread.is_empty() {
        return Ok(());
    }
    let root = open_folder(root)?;
    let reader = Reader { root: root.as_fd(), found, unread: &unread, next: AtomicUsize::new(0) };
    let worth = unread.len().div_ceil(WORTH_A_THREAD);
    // Even querying the number of cores takes longer than reading a few files.
    let threads = if worth == 1 { 1 } else { threads().min(worth) };
    let read = on_threads(threads, || reader.take_turns());
    for (at, seen) in read.into_iter().collect::<io::Result<Vec<_>>>()?.into_iter().flatten() {
        found[at].seen = seen;
    }
    Ok(())
}

/// Runs `work` on that many threads, including this one, and collects the results.
pub(super) fn on_threads<T: Send>(threads: usize, work: impl Fn() -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        // If no more threads can be started, fewer do the same work.
        let spawn = || std::thread::Builder::new().spawn_scoped(scope, &work);
        let others: Vec<_> = (1..threads).map_while(|_| spawn().ok()).collect();
        let mut results = vec![work()];
        results.extend(others.into_iter().map(|other| match other.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }));
        results
    })
}

/// One thread per core, up to the point where the file system is the bottleneck.
pub(super) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(8)
}

/// Opens a folder for reading; fails if it is a link.
pub(super) fn open_folder(path: impl Arg + Copy) -> io::Result<OwnedFd> {
    open_folder_at(rustix::fs::CWD, path).map_err(io::Error::from)
}

pub(super) fn open_folder_at(at: BorrowedFd<'_>, path: impl Arg + Copy) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    retry_on_intr(|| rustix::fs::openat(at, path, flags, Mode::empty()))
}

/// Opens a file that was regular when last seen. Fails if it has become a link, and does not block if it has become a
/// pipe.
pub(super) fn open_file_at(at: BorrowedFd<'_>, name: impl Arg + Copy) -> rustix::io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    retry_on_intr(|| rustix::fs::openat(at, name, flags, Mode::empty())).map(File::from)
}

/// Why a path could not be read.
pub(super) enum ReadError {
    /// It no longer exists: the tree is being changed while it is read.
    Vanished,
    /// It exists but is not readable for us.
    Unreadable,
    /// This process lacks a resource; not related to the path.
    OutOfResources(io::Error),
}

impl From<Errno> for ReadError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT | Errno::NOTDIR => Self::Vanished,
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => Self::OutOfResources(errno.into()),
            _ => Self::Unreadable,
        }
    }
}

impl WalkedPath {
    fn is_unread(&self) -> bool {
        matches!(self.seen, PathContent::File { content: Content::Unread, .. })
    }
}

/// Distributes the files to the threads, one by one.
struct Reader<'r> {
    root: BorrowedFd<'r>,
    found: &'r [WalkedPath],
    unread: &'r [usize],
    next: AtomicUsize,
}

impl Reader<'_> {
    fn take_turns(&self) -> io::Result<Vec<(usize, PathContent)>> {
        let mut buffer = vec![0; BUFFER];
        let mut read = Vec::new();
        while let Some(&at) = self.unread.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            read.push((at, self.read(&self.found[at], &mut buffer)?));
        }
        Ok(read)
    }

    fn read(&self, found: &WalkedPath, buffer: &mut [u8]) -> io::Result<PathContent> {
        let path = path_of(&found.path);
        match open_file_at(self.root, path) {
            Ok(file) => read_open(file, buffer),
            Err(Errno::LOOP) => Ok(look_at_link(self.root, path, None)),
            Err(errno) => self.unopened(found, errno),
        }
    }

    fn unopened(&self, found: &WalkedPath, errno: Errno) -> io::Result<PathContent> {
        match (ReadError::from(errno), &found.seen) {
            (ReadError::OutOfResources(error), _) => Err(error),
            (ReadError::Unreadable, PathContent::File { stamp, .. }) => Ok(unreadable(stamp)),
            _ => Ok(PathContent::Vanished),
        }
    }
}

/// The stamp comes from the open file, before its content is read: a file replaced since the walk gets the stamp of
/// what was really read, and one written to during the read no longer matches its stamp.
fn read_open(mut file: File, buffer: &mut [u8]) -> io::Result<PathContent> {
    let (stamp, kind) = FileStamp::of_open(&file)?;
    if kind != FileType::RegularFile {
        return Ok(PathContent::Other { fact: ManifestFact::of(special(kind)), stamp: Some(stamp) });
    }
    match hash(&mut file, buffer) {
        Ok(digest) => Ok(PathContent::File { stamp, content: Content::Read(digest) }),
        Err(_) => Ok(unreadable(&stamp)),
    }
}

fn hash(file: &mut File, buffer: &mut [u8]) -> io::Result<Digest> {
    let mut hasher = Sha256::new();
    loop {
        match file.read(buffer) {
            Ok(0) => return Ok(hasher.finalize().into()),
            Ok(length) => hasher.update(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn unreadable(stamp: &FileStamp) -> PathContent {
    PathContent::Other {
        fact: ManifestFact::unreadable(FileKind::UnreadableFile, stamp),
        stamp: Some(*stamp),
    }
}

/// The target of a link; it is not followed.
pub(super) fn look_at_link(at: BorrowedFd<'_>, name: impl Arg, stamp: Option<FileStamp>) -> PathContent {
    match rustix::fs::readlinkat(at, name, Vec::new()) {
        Ok(target) => PathContent::Other { fact: ManifestFact::link(target.as_bytes()), stamp },
        Err(Errno::NOENT | Errno::NOTDIR) => PathContent::Vanished,
        Err(_) => PathContent::Other { fact: ManifestFact::of(FileKind::Unknown), stamp },
    }
}

/// Neither file, link nor folder: it cannot be read without side effects.
pub(super) fn special(kind: FileType) -> FileKind {
    match kind {
        FileType::Fifo => FileKind::Fifo,
        FileType::Socket => FileKind::Socket,
        FileType::CharacterDevice => FileKind::CharDevice,
        FileType::BlockDevice => FileKind::BlockDevice,
        _ => FileKind::Unknown,
    }
}
