//! The quick way to a checkpoint: from the one before and the paths that changed since. Git is asked at most whether what is
//! new is ignored.
//!
//! It is for the many cases in which that comes to what `git add -A` would take in, and gives way to git in all others:
//! where git sees more than we look at or goes by other rules than before, where a content is kept otherwise than it is
//! (filters, carriage returns), where names are none to git, and where there is too much of it. The tests hold the two ways
//! against each other.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::git_settings::leave_files_alone;
use super::kept_tree::{KeptFile, KeptTree, Mode};
use super::objects::{Kind, ObjectId, Objects};
use super::{SHORT, path_of};
use crate::work_tree::fingerprint::{Stamp, Tree};
use crate::work_tree::git::{Git, GitError};

/// More than these are git's: it is made for it.
const MOST_PATHS: usize = 500;
const LARGEST_FILE: u64 = 4 << 20;
const MOST_BYTES: usize = 16 << 20;

/// The last checkpoint, and the work tree that it was taken from.
#[derive(Debug)]
pub(super) struct Known {
    work: Arc<Tree>,
    kept: KeptTree,
    /// What may have been taken in otherwise than it was in `work`, since it changed in between: looked at once more.
    doubtful: BTreeSet<PathBuf>,
}

/// What there is at a path.
enum There {
    /// Nothing, or a folder, in which each file is a path of its own.
    NoFile,
    File {
        permissions: u32,
        content: Vec<u8>,
    },
    Link {
        target: Vec<u8>,
    },
}

impl Known {
    /// What `tree` was made of `work`, which was read before that; none where the quick way is not for this repository.
    pub(super) fn learn(git: &Git, tree: &str, work: Arc<Tree>) -> Option<Self> {
        if !git.is_plain() || !work.shows_all_to_git() {
            return None;
        }
        let listed = git.call(["ls-files", "-s", "-v", "-z", "--full-name", "--", ":/"], SHORT).ok()?;
        let kept = KeptTree::read(&listed, ObjectId::from_hex(tree.as_bytes())?)?;
        let below = git.root().strip_prefix(git.top()).ok()?;
        // To git a file that it once took in is not ignored by a rule that came later; to us it is.
        if !kept.files_below(below.as_os_str().as_bytes()).all(|file| work.has(&path_of(file))) {
            return None;
        }
        // There may be many: they are not resolved from the root of all each time.
        let root = File::open(git.root()).ok()?;
        let is_as_read =
            |path: &&Path| Stamp::of(&root, *path).is_ok_and(|(stamp, _)| work.is_as_read(&stamp));
        let doubtful = work.paths().filter(|path| !is_as_read(path)).map(Path::to_owned).collect();
        Some(Self { work, kept, doubtful })
    }

    /// Writes the tree that follows from `now`; none where git must look itself. Then nothing is known any more.
    pub(super) fn follow(mut self, git: &Git, now: &Arc<Tree>) -> Option<(Self, ObjectId)> {
        let mut paths = std::mem::take(&mut self.doubtful);
        paths.extend(now.paths_changed_for_git(&self.work)?.into_iter().map(Path::to_owned));
        if paths.len() > MOST_PATHS || !paths.iter().all(|path| is_a_name_like_any(path)) {
            return None;
        }
        let objects = Objects::in_repository(git.dir());
        self.take_in(paths, git, &objects, now)?;
        self.work = now.clone();
        let tree = self.kept.write(&objects).ok()?;
        Some((self, tree))
    }

    fn take_in(&mut self, paths: BTreeSet<PathBuf>, git: &Git, objects: &Objects, now: &Tree) -> Option<()> {
        let below = git.root().strip_prefix(git.top()).ok()?;
        let name_of = |path: &Path| below.join(path).into_os_string().into_vec();
        let (mut to_take, mut bytes) = (Vec::new(), 0);
        for path in paths {
            let there = look(git.root(), &path)?;
            bytes += there.content().len();
            match there {
                There::NoFile => self.kept.remove(&name_of(&path)),
                // It is there, and does not count any more.
                _ if !now.has(&path) => return None,
                _ if bytes > MOST_BYTES => return None,
                _ => {}
            }
            if !there.is_in(now, &path) {
                self.doubtful.insert(path.clone());
            }
            to_take.extend(there.mode().map(|mode| (path, mode, there)));
        }
        let is_new = |path: &Path| !self.kept.has(&name_of(path));
        let new = to_take.iter().map(|(path, ..)| path.as_path()).filter(|path| is_new(path));
        let ignored = ignored(git, new.collect())?;
        to_take.retain(|(path, ..)| !ignored.contains(path));
        let folders: BTreeSet<&Path> =
            to_take.iter().flat_map(|(path, ..)| path.ancestors().skip(1)).collect();
        let above = below.ancestors().skip(1).map(Path::to_owned);
        let mut folders = folders.into_iter().map(|folder| below.join(folder)).chain(above);
        if !folders.all(|folder| self.is_plain_in(git, &folder)) {
            return None;
        }
        for (path, mode, there) in &to_take {
            let id = objects.write(Kind::Blob, there.content()).ok()?;
            self.kept.set(&name_of(path), KeptFile { mode: *mode, id });
        }
        Some(())
    }

    /// Whether the attributes in a folder, named from the top, leave files alone. Where there are none, git goes by those that
    /// it has.
    fn is_plain_in(&self, git: &Git, folder: &Path) -> bool {
        let name = folder.join(".gitattributes");
        let on_disk = leave_files_alone(&git.top().join(&name));
        on_disk.unwrap_or_else(|| !self.kept.has(name.as_os_str().as_bytes()))
    }
}

impl There {
    fn content(&self) -> &[u8] {
        match self {
            Self::NoFile => &[],
            Self::File { content, .. } => content,
            Self::Link { target } => target,
        }
    }

    fn mode(&self) -> Option<Mode> {
        match self {
            Self::NoFile => None,
            Self::File { permissions, .. } if permissions & 0o100 == 0 => Some(Mode::Plain),
            Self::File { .. } => Some(Mode::Executable),
            Self::Link { .. } => Some(Mode::Link),
        }
    }

    /// Whether it was the same when the tree was read.
    fn is_in(&self, tree: &Tree, path: &Path) -> bool {
        match self {
            Self::NoFile => !tree.has(path),
            Self::File { permissions, content } => tree.has_file(path, *permissions, content),
            Self::Link { target } => tree.has_link(path, target),
        }
    }
}

/// Git says no to some names, lest a file becomes somebody's repository, and hears others itself.
fn is_a_name_like_any(path: &Path) -> bool {
    path.iter().all(|name| {
        let name = name.as_bytes().to_ascii_lowercase();
        let is_odd = |byte: &u8| !byte.is_ascii_alphanumeric();
        let is_repository = name.strip_prefix(b".git").is_some_and(|rest| rest.first().is_none_or(is_odd));
        let is_short_for_another = name.windows(2).any(|pair| pair[0] == b'~' && pair[1].is_ascii_digit());
        let is_heard = [".gitattributes", ".gitmodules", ".gitignore"];
        let is_heard = is_heard.iter().any(|heard| name.starts_with(heard.as_bytes()));
        !is_repository && !is_short_for_another && !is_heard && !name.contains(&b'\\')
    })
}

/// None where it is something else, git would keep another content, or it cannot be told.
fn look(root: &Path, path: &Path) -> Option<There> {
    // Behind a link there is nothing of ours.
    for folder in path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()) {
        match fs::symlink_metadata(root.join(folder)) {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => return Some(There::NoFile),
            Err(error) => return is_gone(&error).then_some(There::NoFile),
        }
    }
    let path = root.join(path);
    match fs::symlink_metadata(&path) {
        Ok(meta) if meta.is_dir() => Some(There::NoFile),
        Ok(meta) if meta.is_symlink() => {
            Some(There::Link { target: fs::read_link(path).ok()?.into_os_string().into_vec() })
        }
        Ok(meta) if meta.is_file() => read_file(&path),
        Ok(_) => None,
        Err(error) => is_gone(&error).then_some(There::NoFile),
    }
}

fn is_gone(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Should it have become a link since, or a pipe, this fails and does not wait.
fn read_file(file: &Path) -> Option<There> {
    let file =
        File::options().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(file).ok()?;
    let meta = file.metadata().ok().filter(fs::Metadata::is_file)?;
    let mut content = Vec::new();
    let size = file.take(LARGEST_FILE + 1).read_to_end(&mut content).ok()?;
    let is_plain = size as u64 <= LARGEST_FILE && !content.contains(&b'\r');
    is_plain.then_some(There::File { permissions: meta.mode() & 0o777, content })
}

/// Those of the paths that git would leave out; none where it cannot say.
fn ignored(git: &Git, paths: Vec<&Path>) -> Option<BTreeSet<PathBuf>> {
    if paths.is_empty() {
        return Some(BTreeSet::new());
    }
    // A name that began with a colon would mean something to git.
    const HERE: &[u8] = b"./";
    let asked: Vec<u8> =
        paths.iter().flat_map(|path| [HERE, path.as_os_str().as_bytes(), b"\0"].concat()).collect();
    match git.call_with(["check-ignore", "--no-index", "-z", "--stdin"], Some(&asked), SHORT) {
        Ok(answer) => {
            let names = answer.split(|byte| *byte == 0).filter_map(|name| name.strip_prefix(HERE));
            Some(names.map(path_of).collect())
        }
        Err(GitError::Failed { code: Some(1), .. }) => Some(BTreeSet::new()),
        Err(_) => None,
    }
}
