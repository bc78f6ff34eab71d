//! A copy of the counted files, with dependency folders linked in: a view where no overlay can be made.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ralph_core::model::file_change::{FileContent, ViewEdit};

use super::{ViewPlace, lay_in};
use crate::sys::files;
use crate::work_tree::fingerprint::CountedKind;

/// Installed dependencies: not counted, and needed by most gates. Build outputs are not linked: they would be those of the
/// current files.
const DEPENDENCIES: [&str; 8] =
    ["node_modules", ".venv", "venv", "vendor", "bower_components", ".bundle", "deps", ".yarn"];

const PREFIX: &str = "copy-";

/// A copied tree, removed with this value. Its name has the process that made it.
#[derive(Debug)]
pub(crate) struct CopiedTree {
    folder: PathBuf,
    root: PathBuf,
}

impl CopiedTree {
    pub(super) fn make(place: &ViewPlace<'_>, edits: &[ViewEdit]) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix(&own_prefix()).tempdir_in(&place.scratch)?.keep();
        // Some tools name their output after the folder.
        let name = place.root.file_name().map_or_else(|| OsString::from("tree"), OsStr::to_owned);
        let root = fs::canonicalize(&folder)?.join(name);
        let copied = Self { folder, root };
        copied.fill(place)?;
        lay_in::lay_in(&copied.root, edits)?;
        Ok(copied)
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    fn fill(&self, place: &ViewPlace<'_>) -> io::Result<()> {
        fs::create_dir(&self.root)?;
        let files = place.tree.file_list();
        let mut folders: BTreeSet<PathBuf> = BTreeSet::from([PathBuf::new()]);
        for file in files.iter() {
            let (from, to) = (place.root.join(file.path), self.root.join(file.path));
            if let Some(parent) = file.path.parent().filter(|parent| !folders.contains(*parent)) {
                fs::create_dir_all(self.root.join(parent))?;
                folders.extend(parent.ancestors().map(Path::to_owned));
            }
            match file.kind {
                // Shares the blocks where the file system can.
                CountedKind::File => drop(fs::copy(&from, &to)?),
                CountedKind::Link => std::os::unix::fs::symlink(fs::read_link(&from)?, &to)?,
                CountedKind::Other => {
                    let what = format!("{} cannot be copied", file.path.display());
                    return Err(io::Error::new(io::ErrorKind::Unsupported, what));
                }
            }
        }
        for folder in &folders {
            for name in DEPENDENCIES {
                let path = folder.join(name);
                if !folders.contains(&path) && place.root.join(&path).is_dir() {
                    let _may_exist =
                        std::os::unix::fs::symlink(place.root.join(&path), self.root.join(&path));
                }
            }
        }
        Ok(())
    }
}

impl Drop for CopiedTree {
    fn drop(&mut self) {
        remove(&self.folder);
    }
}

fn own_prefix() -> String {
    format!("{PREFIX}{}-", std::process::id())
}

/// Removes the copies of other processes: a process that makes views of a repo holds the lock of its gates, so they were left by a kill.
pub(super) fn sweep(scratch: &Path) {
    let own = own_prefix();
    for entry in fs::read_dir(scratch).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_own = name.as_bytes().starts_with(own.as_bytes());
        if name.as_bytes().starts_with(PREFIX.as_bytes()) && !is_own {
            remove(&entry.path());
        }
    }
}

/// A gate may have left folders that cannot be written to.
fn remove(folder: &Path) {
    if fs::remove_dir_all(folder).is_ok() {
        return;
    }
    make_writable(folder);
    let _left_for_the_next_sweep = fs::remove_dir_all(folder);
}

fn make_writable(folder: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let _best_effort = fs::set_permissions(folder, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            make_writable(&entry.path());
        }
    }
}

/// The most that report files of a gate may hold.
const MOST_BYTES: u64 = 64 << 20;
const MOST_FILES: usize = 2_000;

/// Copies the files below `path` of `root`, or that file, to the same path below `to`.
pub(super) fn copy_out(root: &Path, path: &Path, to: &Path) -> io::Result<()> {
    let mut next = vec![path.to_owned()];
    let (mut bytes, mut count) = (0, 0);
    while let Some(path) = next.pop() {
        let from = root.join(&path);
        let Ok(meta) = fs::symlink_metadata(&from) else { continue };
        if meta.is_dir() {
            for entry in fs::read_dir(&from)?.flatten() {
                next.push(path.join(entry.file_name()));
            }
        } else if meta.is_file() {
            bytes += meta.len();
            count += 1;
            if bytes > MOST_BYTES || count > MOST_FILES {
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, "too many report files"));
            }
            let to = to.join(&path);
            files::private_dir(to.parent().unwrap_or(&to))?;
            fs::copy(&from, &to)?;
            fs::File::options().write(true).open(&to)?.set_modified(meta.modified()?)?;
        }
    }
    Ok(())
}

/// Reads and writes edits for the process that holds an overlay.
pub(super) mod wire {
    use super::{FileContent, ViewEdit};
    use std::io::{self, Read, Write};

    pub(in super::super) fn write_bytes(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
        to.write_all(&(bytes.len() as u64).to_le_bytes())?;
        to.write_all(bytes)
    }

    pub(in super::super) fn read_bytes(from: &mut impl Read) -> io::Result<Vec<u8>> {
        let mut length = [0; 8];
        from.read_exact(&mut length)?;
        let mut bytes = Vec::new();
        let length = u64::from_le_bytes(length);
        if from.take(length).read_to_end(&mut bytes)? as u64 != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(bytes)
    }

    pub(in super::super) fn write_edit(to: &mut impl Write, edit: &ViewEdit) -> io::Result<()> {
        write_bytes(to, &edit.path)?;
        let (kind, mode, bytes): (u8, u16, &[u8]) = match &edit.content {
            None => (0, 0, &[]),
            Some(FileContent::File { mode, bytes }) => (1, *mode, bytes),
            Some(FileContent::Link { target }) => (2, 0, target),
        };
        to.write_all(&[kind])?;
        to.write_all(&mode.to_le_bytes())?;
        write_bytes(to, bytes)
    }

    pub(in super::super) fn read_edit(from: &mut impl Read) -> io::Result<ViewEdit> {
        let path = read_bytes(from)?;
        let mut head = [0; 3];
        from.read_exact(&mut head)?;
        let bytes = read_bytes(from)?;
        let content = match head[0] {
            0 => None,
            1 => Some(FileContent::File { mode: u16::from_le_bytes([head[1], head[2]]), bytes }),
            _ => Some(FileContent::Link { target: bytes }),
        };
        Ok(ViewEdit { path, content })
    }
}
