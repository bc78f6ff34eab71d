//! Changes files of a view. Links on the way are never followed: an agent may have put one there that leads out of the tree.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Component, Path};

use ralph_core::model::file_change::{FileContent, ViewEdit};

/// Removes first, so that a folder can become a file and the other way round.
pub(super) fn lay_in(root: &Path, edits: &[ViewEdit]) -> io::Result<()> {
    let (writes, removals): (Vec<_>, Vec<_>) = edits.iter().partition(|edit| edit.content.is_some());
    for edit in removals {
        let path = inside(&edit.path)?;
        if parents_are_folders(root, path)? {
            remove(root, path).map_err(|error| named(path, &error))?;
        }
    }
    for edit in writes {
        let path = inside(&edit.path)?;
        let Some(content) = &edit.content else { continue };
        write(root, path, content).map_err(|error| named(path, &error))?;
    }
    Ok(())
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// A relative path without `..`.
fn inside(path: &[u8]) -> io::Result<&Path> {
    let path = Path::new(OsStr::from_bytes(path));
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    if is_plain && path.components().next().is_some() {
        return Ok(path);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{} is not a path in the tree", path.display())))
}

/// Whether all folders above the path exist; a link or file among them is an error.
fn parents_are_folders(root: &Path, path: &Path) -> io::Result<bool> {
    let mut at = root.to_owned();
    for part in path.parent().into_iter().flat_map(Path::components) {
        at.push(part);
        match fs::symlink_metadata(&at) {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => return Err(named(&at, &io::ErrorKind::NotADirectory.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Removes the file, then the folders that are empty without it.
fn remove(root: &Path, path: &Path) -> io::Result<()> {
    match fs::remove_file(root.join(path)) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    for folder in path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()) {
        if fs::remove_dir(root.join(folder)).is_err() {
            break;
        }
    }
    Ok(())
}

fn write(root: &Path, path: &Path, content: &FileContent) -> io::Result<()> {
    if !parents_are_folders(root, path)? {
        fs::create_dir_all(root.join(path).parent().unwrap_or(root))?;
    }
    let to = root.join(path);
    match fs::remove_file(&to) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    match content {
        FileContent::Link { target } => std::os::unix::fs::symlink(OsStr::from_bytes(target), &to),
        FileContent::File { mode, bytes } => {
            let mode = u32::from(*mode) & 0o777;
            let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&to)?;
            file.write_all(bytes)?;
            // The file mode creation mask may have taken bits away.
            file.set_permissions(fs::Permissions::from_mode(mode))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(path: &str, content: Option<&str>) -> ViewEdit {
        let file = |text: &str| FileContent::File { mode: 0o644, bytes: text.into() };
        ViewEdit { path: path.into(), content: content.map(file) }
    }

    #[test]
    fn files_are_written_and_removed_and_empty_folders_go() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(dir.path().join("new/deep")).expect("folders");
        fs::write(dir.path().join("new/deep/a"), "a").expect("a file");
        lay_in(dir.path(), &[edit("new", Some("a file now")), edit("new/deep/a", None)]).expect("laid in");
        assert_eq!(fs::read_to_string(dir.path().join("new")).expect("a file"), "a file now");
    }

    #[test]
    fn no_link_leads_out_of_the_tree() {
        let (dir, outside) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        fs::write(outside.path().join("kept"), "kept").expect("a file");
        std::os::unix::fs::symlink(outside.path(), dir.path().join("src")).expect("a link");
        lay_in(dir.path(), &[edit("src/kept", Some("lost"))]).expect_err("a link on the way");
        lay_in(dir.path(), &[edit("src/kept", None)]).expect_err("a link on the way");
        lay_in(dir.path(), &[edit("../up", Some("x"))]).expect_err("out of the tree");
        assert_eq!(fs::read_to_string(outside.path().join("kept")).expect("a file"), "kept");
        // The link itself can be replaced.
        lay_in(dir.path(), &[edit("src", None), edit("src/kept", Some("inside"))]).expect("laid in");
        assert_eq!(fs::read_to_string(outside.path().join("kept")).expect("a file"), "kept");
    }
}
