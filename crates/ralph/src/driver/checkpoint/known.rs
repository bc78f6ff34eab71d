//! The quick way to a checkpoint: from the one before and the paths that changed since, without git.
//!
//! It is for the many cases in which that comes to what `git add -A` would take in, and gives way to git in all others:
//! where git sees more than we look at or goes by other rules than before, where a content is kept otherwise than it is
//! (filters, carriage returns), where names are none to git, and where there is too much of it. Only what is new is asked
//! of git: whether it is ignored. A test holds the two ways against each other.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::git::{Git, GitError};
use super::git_settings::leave_files_alone;
use super::kept_tree::{KeptFile, KeptTree, Mode};
use super::objects::{Kind, ObjectId, Objects};
use super::{SHORT, path_of};
use crate::tree::Tree;

/// More than these are git's: it is made for it.
const MOST_PATHS: usize = 500;
const LARGEST_FILE: u64 = 4 << 20;

/// The last checkpoint, and the work tree that it was taken from.
#[derive(Debug)]
pub(super) struct Known {
    work: Arc<Tree>,
    kept: KeptTree,
    /// What changed the last time is looked at once more: it may have changed again after our look at the tree, and back.
    recent: BTreeSet<PathBuf>,
}

/// What there is at a path.
enum There {
    File,
    Link,
    /// No file: nothing, or a folder, in which each file is a path of its own.
    Nothing,
}

impl Known {
    /// What `tree` was made of `work`, which was read before that; none where the quick way is not for this repository.
    pub(super) fn learn(git: &Git, tree: &str, work: Arc<Tree>) -> Option<Self> {
        let is_plain = |attributes: &Path| leave_files_alone(&git.root().join(attributes));
        if !(git.is_plain() && work.shows_all_to_git() && work.files_named(".gitattributes").all(is_plain)) {
            return None;
        }
        let listed = git.call(["ls-tree", "-r", "-t", "-z", "--full-tree", tree], SHORT).ok()?;
        let kept = KeptTree::read(&listed)?;
        let below = git.root().strip_prefix(git.top()).ok()?;
        // To git a file that it once took in is not ignored by a rule that came later; to us it is.
        let counts_all = kept.files_below(below.as_os_str().as_bytes()).all(|file| work.has(&path_of(file)));
        counts_all.then(|| Self { work, kept, recent: BTreeSet::new() })
    }

    /// Writes the tree that follows from `now`; none where git must look itself. Then nothing is known any more.
    pub(super) fn go_on(mut self, git: &Git, now: &Arc<Tree>) -> Option<(Self, ObjectId)> {
        let changed = now.paths_changed_for_git(&self.work)?.into_iter().map(Path::to_owned).collect();
        let again = std::mem::replace(&mut self.recent, changed);
        let paths: Vec<PathBuf> = self.recent.union(&again).cloned().collect();
        if paths.len() > MOST_PATHS || !paths.iter().all(|path| is_a_name_like_any(path)) {
            return None;
        }
        let objects = Objects::in_repository(git.dir());
        self.take_in(paths, git, &objects, now)?;
        self.work = now.clone();
        let tree = self.kept.write(&objects).ok()?;
        Some((self, tree))
    }

    fn take_in(&mut self, paths: Vec<PathBuf>, git: &Git, objects: &Objects, now: &Tree) -> Option<()> {
        let below = git.root().strip_prefix(git.top()).ok()?;
        let name_of = |path: &Path| below.join(path).into_os_string().into_vec();
        let mut to_take = Vec::new();
        for path in paths {
            match look(git.root(), &path)? {
                There::Nothing => self.kept.remove(&name_of(&path)),
                // It is there, and does not count any more.
                _ if !now.has(&path) => return None,
                there => to_take.push((path, there)),
            }
        }
        let is_new = |path: &Path| !self.kept.has(&name_of(path));
        let new = to_take.iter().map(|(path, _)| path.as_path()).filter(|path| is_new(path));
        let ignored = ignored(git, new.collect())?;
        for (path, there) in to_take.into_iter().filter(|(path, _)| !ignored.contains(path)) {
            let (mode, content) = read(&git.root().join(&path), &there)?;
            let id = objects.write(Kind::Blob, &content).ok()?;
            self.kept.set(&name_of(&path), KeptFile { mode, id });
        }
        Some(())
    }
}

/// Git says no to some names, lest a file becomes somebody's repository, and hears others itself.
fn is_a_name_like_any(path: &Path) -> bool {
    path.iter().all(|name| {
        let name = name.as_bytes().to_ascii_lowercase();
        let is_odd = |byte: &u8| !byte.is_ascii_alphanumeric();
        let after_git = name.strip_prefix(b".git");
        !name.starts_with(b"git~")
            && !after_git.is_some_and(|rest| rest.first().is_none_or(is_odd))
            && !name.contains(&b'\\')
            && ![&b".gitattributes"[..], b".gitmodules", b".gitignore"].contains(&name.as_slice())
    })
}

/// None where it is something else, or cannot be told.
fn look(root: &Path, path: &Path) -> Option<There> {
    // Behind a link there is nothing of ours.
    for folder in path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()) {
        match fs::symlink_metadata(root.join(folder)) {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => return Some(There::Nothing),
            Err(error) if is_gone(&error) => return Some(There::Nothing),
            Err(_) => return None,
        }
    }
    match fs::symlink_metadata(root.join(path)) {
        Ok(meta) if meta.is_dir() => Some(There::Nothing),
        Ok(meta) if meta.is_symlink() => Some(There::Link),
        Ok(meta) if meta.is_file() => Some(There::File),
        Err(error) if is_gone(&error) => Some(There::Nothing),
        _ => None,
    }
}

fn is_gone(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// None where git would keep another content, or may.
fn read(file: &Path, there: &There) -> Option<(Mode, Vec<u8>)> {
    match there {
        There::Nothing => None,
        There::Link => Some((Mode::Link, fs::read_link(file).ok()?.into_os_string().into_vec())),
        There::File => read_file(file),
    }
}

/// Should it have become a link since, or a pipe, this fails and does not wait.
fn read_file(file: &Path) -> Option<(Mode, Vec<u8>)> {
    let file =
        File::options().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(file).ok()?;
    let meta = file.metadata().ok().filter(fs::Metadata::is_file)?;
    let mode = if meta.mode() & 0o100 == 0 { Mode::Plain } else { Mode::Executable };
    let mut content = Vec::new();
    let size = file.take(LARGEST_FILE + 1).read_to_end(&mut content).ok()?;
    (size as u64 <= LARGEST_FILE && !content.contains(&b'\r')).then_some((mode, content))
}

/// Those of the paths that git would leave out; none where it cannot say.
fn ignored(git: &Git, paths: Vec<&Path>) -> Option<BTreeSet<PathBuf>> {
    if paths.is_empty() {
        return Some(BTreeSet::new());
    }
    let asked: Vec<u8> =
        paths.iter().flat_map(|path| [path.as_os_str().as_bytes(), b"\0"].concat()).collect();
    match git.call_with(["check-ignore", "--no-index", "-z", "--stdin"], Some(&asked), SHORT) {
        Ok(answer) => {
            let names = answer.split(|byte| *byte == 0).filter(|name| !name.is_empty());
            Some(names.map(path_of).collect())
        }
        Err(GitError::Failed { code: Some(1), .. }) => Some(BTreeSet::new()),
        Err(_) => None,
    }
}
