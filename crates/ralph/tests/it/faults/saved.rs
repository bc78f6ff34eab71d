//! A folder kept in memory, to be restored before each fault.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};

pub(crate) struct Saved {
    root: PathBuf,
    folders: Vec<PathBuf>,
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Saved {
    pub(crate) fn of(root: &Path) -> Self {
        let mut saved = Self { root: root.to_owned(), folders: Vec::new(), files: Vec::new() };
        if root.is_dir() {
            saved.folders.push(root.to_owned());
        }
        for path in below(root) {
            if path.is_dir() {
                saved.folders.push(path);
            } else if path.is_file() {
                let text = fs::read(&path).expect("a file");
                saved.files.push((path, text));
            }
        }
        saved
    }

    pub(crate) fn put_back(&self) {
        match fs::remove_dir_all(&self.root) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                panic!("{}: {error}", self.root.display())
            }
            _ => {}
        }
        for folder in &self.folders {
            fs::create_dir_all(folder).expect("a folder");
            fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).expect("our own folder");
        }
        for (path, text) in &self.files {
            fs::write(path, text).expect("a file");
        }
    }

    pub(crate) fn text(&self, path: &Path) -> Option<&[u8]> {
        self.files.iter().find(|(own, _)| own == path).map(|(_, text)| text.as_slice())
    }
}

/// Everything below a folder, folders before their content. Links are not followed.
pub(crate) fn below(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(root) else { return found };
    for path in entries.flatten().map(|entry| entry.path()) {
        found.push(path.clone());
        if path.is_dir() && !path.is_symlink() {
            found.extend(below(&path));
        }
    }
    found
}

/// Temporary files that a writer meant to rename into place.
pub(crate) fn unfinished(root: &Path) -> Vec<PathBuf> {
    let is_unfinished = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with(".new-") || name.starts_with(".ralph-new-") || name.ends_with(".draft")
    };
    below(root).into_iter().filter(is_unfinished).collect()
}

/// Makes the leftovers of a killed writer look too old to belong to a running one.
pub(crate) fn age(paths: &[PathBuf]) {
    let long_ago = Timespec { tv_sec: 1_000_000_000, tv_nsec: 0 };
    let times = Timestamps { last_access: long_ago, last_modification: long_ago };
    for path in paths {
        // The link itself, not its target.
        utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).expect("a file of ours");
    }
}
