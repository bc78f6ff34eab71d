//! Locates git's files: the only reader of `.git`, apart from [`super::head`].
//!
//! An agent can write everything in there, so all reads are bounded, and results are trusted only as far as needed:
//! [`Checkout`] follows a `.git` as git does, [`home_of`] only if the git folder points back.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::path_of;
use crate::sys::files;

const DOT_GIT: &str = ".git";

/// A work tree and its git folder, as git would find them.
#[derive(Debug)]
pub(crate) struct Checkout {
    /// The top folder of the work tree.
    pub(crate) top: PathBuf,
    /// The folder of its HEAD and its index.
    pub(crate) dir: PathBuf,
}

impl Checkout {
    /// The checkout that contains `folder`.
    pub(crate) fn around(folder: &Path) -> Option<Self> {
        folder.ancestors().find_map(Self::at)
    }

    /// The checkout whose work tree starts at `top`.
    pub(crate) fn at(top: &Path) -> Option<Self> {
        let mark = top.join(DOT_GIT);
        let dir = match fs::metadata(&mark).ok()? {
            meta if meta.is_dir() => mark,
            meta if meta.is_file() => top.join(pointer(&mark)?),
            _ => return None,
        };
        // Git ignores a folder without a HEAD and continues its search above it.
        fs::symlink_metadata(dir.join("HEAD")).ok()?;
        Some(Self { top: top.to_path_buf(), dir })
    }

    pub(crate) fn index(&self) -> PathBuf {
        index_in(&self.dir)
    }

    /// A linked work tree has its own HEAD and shares everything else.
    pub(super) fn common_dir(&self) -> PathBuf {
        text(&self.dir.join("commondir"))
            .map_or_else(|| self.dir.clone(), |common| self.dir.join(common.trim()))
    }
}

/// Whether this folder has an entry named `.git`.
pub(crate) fn is_marked(folder: &Path) -> bool {
    folder.join(DOT_GIT).symlink_metadata().is_ok()
}

/// Like [`is_marked`], if its target exists.
pub(crate) fn is_checkout(folder: &Path) -> bool {
    folder.join(DOT_GIT).exists()
}

/// The git folder that a checkout shares with its linked work trees, and for a linked one the main checkout.
///
/// A checkout can point to any git folder, so only the content of that folder counts: git records a linked work tree
/// in the common folder, and a submodule's work tree in the submodule's own git folder.
pub(crate) fn home_of(checkout: &Path) -> (PathBuf, Option<PathBuf>) {
    let dot_git = checkout.join(DOT_GIT);
    match pointed_to(checkout) {
        Some(own) if own.join("commondir").symlink_metadata().is_ok() => linked_to(&own, &dot_git)
            .map(|common| {
                let main = common.parent().filter(|_| common.ends_with(DOT_GIT)).map(Path::to_owned);
                (common, main)
            })
            .unwrap_or((dot_git, None)),
        Some(own) if is_submodule_at(&own, checkout) => (own, None),
        _ => (dot_git, None),
    }
}

/// The git folder that the `.git` file of a checkout points to, canonical. Links are refused: they could use the file
/// of another checkout.
fn pointed_to(checkout: &Path) -> Option<PathBuf> {
    let dot_git = checkout.join(DOT_GIT);
    if !dot_git.symlink_metadata().ok()?.is_file() {
        return None;
    }
    fs::canonicalize(checkout.join(pointer(&dot_git)?)).ok()
}

/// The common folder of a linked work tree, if it lists the work tree and points back to this `.git`.
fn linked_to(own: &Path, dot_git: &Path) -> Option<PathBuf> {
    let common = fs::canonicalize(own.join(text(&own.join("commondir"))?.trim())).ok()?;
    let is_in_common = own.parent() == Some(&common.join("worktrees"));
    let back = own.join(text(&own.join("gitdir"))?.trim());
    let leads_back = back.file_name() == dot_git.file_name() && same(back.parent()?, dot_git.parent()?);
    (is_in_common && leads_back).then_some(common)
}

/// Whether a submodule's git folder has this checkout as its work tree.
fn is_submodule_at(own: &Path, checkout: &Path) -> bool {
    let config = text(&own.join("config")).unwrap_or_default();
    let work_tree = config.lines().find_map(|line| line.trim().strip_prefix("worktree = "));
    work_tree.is_some_and(|work_tree| same(&own.join(work_tree.trim()), checkout))
}

fn same(a: &Path, b: &Path) -> bool {
    matches!((fs::canonicalize(a), fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b)
}

/// What the `.git` file of a linked work tree or a submodule points to.
fn pointer(dot_git: &Path) -> Option<PathBuf> {
    let text = files::read_foreign(dot_git).ok()??;
    text.strip_prefix(b"gitdir:").map(|path| path_of(path.trim_ascii()))
}

/// The text of one of git's own files.
pub(super) fn text(path: &Path) -> Option<String> {
    Some(String::from_utf8_lossy(&files::read_foreign(path).ok()??).into_owned())
}

pub(super) fn index_in(dir: &Path) -> PathBuf {
    dir.join("index")
}

/// One of the `info` files that affect which files git sees.
pub(super) fn info_file(dir: &Path, name: &str) -> io::Result<Option<Vec<u8>>> {
    files::read_foreign(&dir.join("info").join(name))
}

/// The first of git's own files that is not a regular file: git would block forever on a pipe.
pub(super) fn unusable_file(dir: &Path) -> Option<String> {
    let names = ["index", "config", "HEAD", "info/attributes", "info/exclude"];
    let is_odd = |name: &&str| fs::metadata(dir.join(name)).is_ok_and(|meta| !meta.is_file());
    names.into_iter().find(is_odd).map(|name| format!("git's own {name} is not a regular file"))
}

/// Whether a ref would be written to its proper place: a link on the way leads to other refs, or out of the
/// repository.
pub(super) fn is_in_place(common_dir: &Path, reference: &str) -> bool {
    let file = common_dir.join(reference);
    let way = file.ancestors().take_while(|part| *part != common_dir);
    !way.into_iter().any(|part| part.symlink_metadata().is_ok_and(|meta| meta.is_symlink()))
}

/// Copies an index with its mtime, by which git recognises entries that are too recent to trust. Does nothing if
/// there is no index.
pub(super) fn copy_index(dir: &Path, to: &Path) -> io::Result<()> {
    let mut original = match files::open_without_waiting(&index_in(dir)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let meta = original.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let modified = meta.modified()?;
    let mut copy = File::create_new(to)?;
    io::copy(&mut original, &mut copy)?;
    copy.set_modified(modified)
}
