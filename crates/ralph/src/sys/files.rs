//! Small private files, written atomically.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;

/// Creates a folder that only its owner can access, with its parents.
pub(crate) fn private_dir(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Whether the file really lies below that folder, with links on the way resolved.
pub(crate) fn lies_below(path: &Path, root: &Path) -> bool {
    let folder = path.ancestors().skip(1).find(|folder| folder.exists());
    folder.and_then(|folder| fs::canonicalize(folder).ok()).is_some_and(|folder| folder.starts_with(root))
}

/// Replaces a file atomically: readers see the old or the new content.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    put_in_place(filled(path, content)?, path)
}

/// Like [`replace`], but synced, for data that only the user can provide again: after a power cut, too, it is the old
/// or the new content.
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
    // The builder creates it with mode 0600 under an unpredictable name, and removes it on failure.
    let mut file = temporary().tempfile_in(dir)?;
    file.write_all(content)?;
    Ok(file)
}

/// Prefix of files that are not in place yet.
pub(crate) fn temporary() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(TEMPORARY);
    builder
}

fn put_in_place(file: NamedTempFile, path: &Path) -> io::Result<()> {
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// Also used in folders of the user, so the name says ralph.
pub(crate) const TEMPORARY: &str = ".ralph-new-";

/// Removes what a killed writer left behind. Younger files may belong to a running writer.
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

/// Removes the oldest files of a folder that holds more than `most`, down to half of that, so that it is seldom needed.
pub(crate) fn remove_oldest(dir: &Path, most: usize) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    let mut files: Vec<_> = entries
        .flatten()
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    if files.len() <= most {
        return;
    }
    files.sort();
    for (_, path) in &files[..files.len() - most / 2] {
        let _may_be_missing = fs::remove_file(path);
    }
}

/// The file's content; `None` if it does not exist.
pub(crate) fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match read_file(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens a regular file for reading; `None` if it does not exist.
pub(crate) fn open_if_there(path: &Path) -> io::Result<Option<File>> {
    match open_without_waiting(path) {
        Ok(file) => require_regular_file(&file, path).map(|_| Some(file)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Only regular files are read, with a size limit: an agent can put a pipe or a device there.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    const LARGEST: u64 = 1 << 30;
    let file = open_without_waiting(path)?;
    let length = require_regular_file(&file, path)?;
    read_at_most(&file, length, LARGEST)
}

/// In as few calls as possible: up to the length at opening, without another call to detect the end.
fn read_at_most(file: &File, length: u64, most: u64) -> io::Result<Vec<u8>> {
    // A file of unknown length reports 0.
    let limit = if length == 0 { most } else { length.min(most) };
    let mut text = Vec::with_capacity(usize::try_from(length.min(most)).unwrap_or_default());
    file.take(limit).read_to_end(&mut text)?;
    Ok(text)
}

/// Returns the length of a regular file.
fn require_regular_file(file: &File, path: &Path) -> io::Result<u64> {
    let meta = file.metadata()?;
    if meta.is_file() {
        return Ok(meta.len());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{}: not a regular file", path.display())))
}

/// The content of a small file that anyone may have put there; `None` if it does not exist. Anything else (a folder,
/// a pipe without a writer) or an endless file is an error and never blocks.
pub(crate) fn read_foreign(path: &Path) -> io::Result<Option<Vec<u8>>> {
    const LARGEST: u64 = 4 << 20;
    let refused =
        |what: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {what}", path.display())));
    let file = match open_without_waiting(path) {
        Ok(file) => file,
        Err(error) if is_absent(&error) => return Ok(None),
        // Not openable at all, such as a socket.
        Err(_) if fs::metadata(path).is_ok_and(|meta| !meta.is_file()) => {
            return refused("not a regular file");
        }
        Err(error) => return Err(error),
    };
    let meta = file.metadata()?;
    if !meta.is_file() {
        return refused("not a regular file");
    }
    let text = read_at_most(&file, meta.len(), LARGEST + 1)?;
    if text.len() as u64 > LARGEST { refused("larger than 4 MiB") } else { Ok(Some(text)) }
}

/// Whether the path exists but really lies outside of the folders, because of a link.
pub(crate) fn leads_out(folders: &[&Path], path: &Path) -> bool {
    let Ok(meta) = fs::symlink_metadata(path) else { return false };
    if !meta.is_symlink() && path.parent().is_some_and(|parent| folders.contains(&parent)) {
        return false;
    }
    let Ok(real) = fs::canonicalize(path) else { return false };
    !folders.iter().any(|folder| fs::canonicalize(folder).is_ok_and(|folder| real.starts_with(folder)))
}

/// Opening a pipe without a writer would block forever.
pub(crate) fn open_without_waiting(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)
}

/// The tail of a possibly very long file.
pub(crate) fn end_of(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut file = open_without_waiting(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    file.seek(io::SeekFrom::Start(meta.len().saturating_sub(most)))?;
    let mut text = Vec::new();
    file.take(most).read_to_end(&mut text)?;
    Ok(text)
}

/// Whether a path is a file that can be run.
pub(crate) fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

pub(crate) fn open_private(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file =
        OpenOptions::new().read(true).append(true).create(true).mode(0o600).custom_flags(flags).open(path)?;
    require_regular_file(&file, path)?;
    Ok(file)
}

/// A lock that is released when its process ends, however it ends.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

impl Lock {
    /// Replaces the content of the lock file, for readers while it is locked.
    pub(crate) fn write(&self, text: &[u8]) -> io::Result<()> {
        self.file.set_len(0)?;
        (&self.file).write_all(text)
    }

    /// Takes the lock, waiting at most `patience`; `None` if it was held all that time.
    pub(crate) fn take(path: &Path, patience: Duration) -> io::Result<Option<Self>> {
        Self::take_unless(path, patience, || false)
    }

    /// Like [`Lock::take`], for a long wait that can be cancelled.
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
