//! Reads what no cache vouches for: the content of files, hashed as it streams by, on every core at once.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};
use rustix::path::Arg;
use sha2::{Digest as _, Sha256};

use super::file_stamp::Stamp;
use super::ignores::path_of;
use super::{Content, Digest, Fact, Found, Kind, Seen};

/// Large enough that the calls do not matter, small enough to stay in the processor's cache.
const BUFFER: usize = 64 * 1024;

/// Fewer files than this are read before a second thread would have started.
const WORTH_A_THREAD: usize = 16;

/// Hashes every file of `found` whose content is not known yet.
pub(super) fn read_unknown(root: &Path, found: &mut [Found]) -> io::Result<()> {
    let unread: Vec<usize> = (0..found.len()).filter(|at| found[*at].is_unread()).collect();
    if unread.is_empty() {
        return Ok(());
    }
    let root = open_folder(root)?;
    let reader = Reader { root: root.as_fd(), found, unread: &unread, next: AtomicUsize::new(0) };
    let worth = unread.len().div_ceil(WORTH_A_THREAD);
    // Even asking how many cores there are takes longer than reading a few files.
    let threads = if worth == 1 { 1 } else { threads().min(worth) };
    let read = on_threads(threads, || reader.take_turns());
    for (at, seen) in read.into_iter().collect::<io::Result<Vec<_>>>()?.into_iter().flatten() {
        found[at].seen = seen;
    }
    Ok(())
}

/// Runs `work` on so many threads, this one among them, and gathers what each of them brought.
pub(super) fn on_threads<T: Send>(threads: usize, work: impl Fn() -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        // Where there is no room for more threads, fewer do the same work.
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

/// As many threads as there are cores, up to the point where the file system is the narrow place.
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

/// Opens a file that was regular when last seen. Should it have become a link since, this fails; should it have
/// become a pipe, this does not wait for a writer.
pub(super) fn open_file_at(at: BorrowedFd<'_>, name: impl Arg + Copy) -> rustix::io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    retry_on_intr(|| rustix::fs::openat(at, name, flags, Mode::empty())).map(File::from)
}

/// What a failed look at a path means.
pub(super) enum ReadTrouble {
    /// It is no longer there: somebody works in the tree while it is read.
    Vanished,
    /// It is there, but not for us.
    Unreadable,
    /// This process lacks something, which says nothing about the path.
    Ours(io::Error),
}

impl From<Errno> for ReadTrouble {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT | Errno::NOTDIR => Self::Vanished,
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => Self::Ours(errno.into()),
            _ => Self::Unreadable,
        }
    }
}

impl Found {
    fn is_unread(&self) -> bool {
        matches!(self.seen, Seen::File { content: Content::Unread, .. })
    }
}

/// Hands out the files to read, one by one, to whoever asks next.
struct Reader<'r> {
    root: BorrowedFd<'r>,
    found: &'r [Found],
    unread: &'r [usize],
    next: AtomicUsize,
}

impl Reader<'_> {
    fn take_turns(&self) -> io::Result<Vec<(usize, Seen)>> {
        let mut buffer = vec![0; BUFFER];
        let mut read = Vec::new();
        while let Some(&at) = self.unread.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            read.push((at, self.read(&self.found[at], &mut buffer)?));
        }
        Ok(read)
    }

    fn read(&self, found: &Found, buffer: &mut [u8]) -> io::Result<Seen> {
        let path = path_of(&found.path);
        match open_file_at(self.root, path) {
            Ok(file) => read_open(file, buffer),
            Err(Errno::LOOP) => Ok(look_at_link(self.root, path, None)),
            Err(errno) => self.unopened(found, errno),
        }
    }

    fn unopened(&self, found: &Found, errno: Errno) -> io::Result<Seen> {
        match (ReadTrouble::from(errno), &found.seen) {
            (ReadTrouble::Ours(error), _) => Err(error),
            (ReadTrouble::Unreadable, Seen::File { stamp, .. }) => Ok(unreadable(stamp)),
            _ => Ok(Seen::Vanished),
        }
    }
}

/// The stamp is the open file's own, taken before its content: a file replaced since the walk is stamped as what was
/// really read, and one written to while it is read no longer fits its stamp.
fn read_open(mut file: File, buffer: &mut [u8]) -> io::Result<Seen> {
    let (stamp, kind) = Stamp::of_open(&file)?;
    if kind != FileType::RegularFile {
        return Ok(Seen::Other { fact: Fact::of(special(kind)), stamp: Some(stamp) });
    }
    match hash(&mut file, buffer) {
        Ok(digest) => Ok(Seen::File { stamp, content: Content::Read(digest) }),
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

fn unreadable(stamp: &Stamp) -> Seen {
    Seen::Other { fact: Fact::unreadable(Kind::UnreadableFile, stamp), stamp: Some(*stamp) }
}

/// Where a link points; it is not followed.
pub(super) fn look_at_link(at: BorrowedFd<'_>, name: impl Arg, stamp: Option<Stamp>) -> Seen {
    match rustix::fs::readlinkat(at, name, Vec::new()) {
        Ok(target) => Seen::Other { fact: Fact::link(target.as_bytes()), stamp },
        Err(Errno::NOENT | Errno::NOTDIR) => Seen::Vanished,
        Err(_) => Seen::Other { fact: Fact::of(Kind::Unknown), stamp },
    }
}

/// What is neither file, link nor folder: there is nothing in it that could be read without side effects.
pub(super) fn special(kind: FileType) -> Kind {
    match kind {
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        FileType::CharacterDevice => Kind::CharDevice,
        FileType::BlockDevice => Kind::BlockDevice,
        _ => Kind::Unknown,
    }
}
