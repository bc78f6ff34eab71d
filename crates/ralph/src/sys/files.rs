//! Small files of our own: private, written whole or not at all.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;

/// A folder that only its owner can look into, with its parents.
pub(crate) fn private_dir(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Whether a file would really lie below that folder: a linked folder on the way leads somewhere else.
pub(crate) fn lies_below(path: &Path, root: &Path) -> bool {
    let folder = path.ancestors().skip(1).find(|folder| folder.exists());
    folder.and_then(|folder| fs::canonicalize(folder).ok()).is_some_and(|folder| folder.starts_with(root))
}

/// Replaces a file in one step: whoever reads sees the old or the new one, never half.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    put_in_place(filled(path, content)?, path)
}

/// The same for what only a person can give again: after a power cut, too, it is the old or the new one.
pub(crate) fn replace_for_good(path: &Path, content: &[u8]) -> io::Result<()> {
    let file = filled(path, content)?;
    file.as_file().sync_all()?;
    put_in_place(file, path)?;
    if let Some(Ok(dir)) = path.parent().map(File::open) {
        let _in_place_already = dir.sync_all();
    }
    Ok(())
}

fn filled(path: &Path, content: &[u8]) -> io::Result<NamedTempFile> {
    let dir = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    // The builder makes it with mode 0600 under a name nobody can guess, and removes it if we fail.
    let mut file = temporary().tempfile_in(dir)?;
    file.write_all(content)?;
    Ok(file)
}

/// How files begin that are not in their place yet.
pub(crate) fn temporary() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(TEMPORARY);
    builder
}

fn put_in_place(file: NamedTempFile, path: &Path) -> io::Result<()> {
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// Also in folders that are not ours, so it says whose it is.
pub(crate) const TEMPORARY: &str = ".ralph-new-";

/// Removes what a killed writer left behind. Younger files may belong to a writer at work.
pub(crate) fn sweep_temporary(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let ours = entry.file_name().to_string_lossy().starts_with(TEMPORARY);
        let old = || {
            let modified = entry.metadata().and_then(|meta| meta.modified()).ok();
            modified.and_then(|at| at.elapsed().ok()).is_some_and(|age| age > Duration::from_secs(60))
        };
        if ours && old() {
            let _gone = fs::remove_file(entry.path());
        }
    }
}

/// The file's text; none where there is no such file.
pub(crate) fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match read_file(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens a file, and only a file, to be read; none where there is none.
pub(crate) fn open_if_there(path: &Path) -> io::Result<Option<File>> {
    match open_without_waiting(path) {
        Ok(file) => must_be_a_file(&file, path).map(|_| Some(file)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Only files are read, and not without end: an agent can put a pipe or a device there.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    const LARGEST: u64 = 1 << 30;
    let file = open_without_waiting(path)?;
    let length = must_be_a_file(&file, path)?;
    read_at_most(&file, length, LARGEST)
}

/// In as few calls as there can be: without room for all of it, a file is read in small parts.
fn read_at_most(file: &File, length: u64, most: u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(usize::try_from(length.min(most)).unwrap_or_default() + 1);
    file.take(most).read_to_end(&mut text)?;
    Ok(text)
}

/// Its length, where it is one.
fn must_be_a_file(file: &File, path: &Path) -> io::Result<u64> {
    let meta = file.metadata()?;
    if meta.is_file() {
        return Ok(meta.len());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{}: it is not a file", path.display())))
}

/// The text of a small file that anybody may have put there; none where there is no such file. What is no file at all (a
/// folder, a pipe that nobody writes to) or has no end is an error, never a reason to wait.
pub(crate) fn read_foreign(path: &Path) -> io::Result<Option<Vec<u8>>> {
    const LARGEST: u64 = 4 << 20;
    let refused =
        |what: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {what}", path.display())));
    let file = match open_without_waiting(path) {
        Ok(file) => file,
        Err(error) if is_absent(&error) => return Ok(None),
        // What cannot be opened for reading at all, such as a socket.
        Err(_) if fs::metadata(path).is_ok_and(|meta| !meta.is_file()) => return refused("it is not a file"),
        Err(error) => return Err(error),
    };
    let meta = file.metadata()?;
    if !meta.is_file() {
        return refused("it is not a file");
    }
    let text = read_at_most(&file, meta.len(), LARGEST + 1)?;
    if text.len() as u64 > LARGEST { refused("it is larger than 4 MiB") } else { Ok(Some(text)) }
}

/// Whether there is something at that path, and it really lies in none of the folders: a link leads there.
pub(crate) fn leads_out(folders: &[&Path], path: &Path) -> bool {
    let Ok(real) = fs::canonicalize(path) else { return false };
    !folders.iter().any(|folder| fs::canonicalize(folder).is_ok_and(|folder| real.starts_with(folder)))
}

/// Opening a pipe that nobody writes to would wait for ever.
pub(crate) fn open_without_waiting(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)
}

/// The end of a file that may be very long.
pub(crate) fn end_of(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut file = open_without_waiting(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    file.seek(io::SeekFrom::Start(meta.len().saturating_sub(most)))?;
    let mut text = Vec::new();
    file.take(most).read_to_end(&mut text)?;
    Ok(text)
}

pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

pub(crate) fn open_private(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file =
        OpenOptions::new().read(true).append(true).create(true).mode(0o600).custom_flags(flags).open(path)?;
    must_be_a_file(&file, path)?;
    Ok(file)
}

/// A lock that goes with its process: however the holder ends, the lock is free.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

impl Lock {
    /// Replaces what stands in the file, for those who read it while it is locked.
    pub(crate) fn write(&self, text: &[u8]) -> io::Result<()> {
        self.file.set_len(0)?;
        (&self.file).write_all(text)
    }

    /// Takes the lock, waiting at most `patience`; none when somebody held it all that time.
    pub(crate) fn take(path: &Path, patience: Duration) -> io::Result<Option<Self>> {
        Self::take_unless(path, patience, || false)
    }

    /// The same, for a wait so long that somebody may want it to end.
    pub(crate) fn take_unless(
        path: &Path,
        patience: Duration,
        ended: impl Fn() -> bool,
    ) -> io::Result<Option<Self>> {
        let file = open_private(path)?;
        let until = Instant::now() + patience;
        let mut pause = Duration::from_micros(200);
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(Self { file })),
                Err(fs::TryLockError::Error(error)) => return Err(error),
                Err(fs::TryLockError::WouldBlock) if Instant::now() >= until || ended() => return Ok(None),
                Err(fs::TryLockError::WouldBlock) => {}
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        }
    }
}
