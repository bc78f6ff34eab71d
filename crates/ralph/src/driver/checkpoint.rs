//! Keeps the work tree of each iteration as a commit under a hidden ref, `refs/ralph/LOOP/N`; 0 is the tree before the
//! first iteration.
//!
//! Branch, `HEAD`, index, work tree and reflogs stay as they are: the tree is taken in by an index of our own, which lies
//! outside the repository and starts as a copy of the repository's, so that git need not read again what it knows. What
//! is kept is what `git add -A` would take, below the root of the loop: tracked files, and untracked ones that are not
//! ignored. Of a submodule that is its commit; filters (`clean`, LFS) run as they would for `git add`.
//!
//! It costs four short calls of git, and one where the caller knows that nothing changed. Any of them may fail, and a loop
//! goes on without.
//!
//! Files over [`HUGE`] are left out, and more than [`TOO_MUCH`] in all is not kept, wherever sizes are looked at: where the
//! caller says which files changed, and where git did not take everything in within two seconds.

mod git;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_core::id::{Digest, LoopId};

pub(crate) use git::{Git, GitError, NoRepository};
use git::{lines, path_of};

use crate::files;
use crate::tree::Change;

/// All that is ours in a repository.
const OURS: &str = "refs/ralph/";

/// The checkpoints of this many loops stay.
pub(crate) const LOOPS_KEPT: usize = 20;

/// For calls that only handle names.
const SHORT: Duration = Duration::from_secs(10);

/// How long git may take for the files.
#[derive(Clone, Copy, Debug)]
struct Patience {
    at_ease: Duration,
    with_care: Duration,
}

const PATIENCE: Patience = Patience { at_ease: Duration::from_secs(2), with_care: Duration::from_secs(30) };

const HUGE: u64 = 100 << 20;
const TOO_MUCH: u64 = 1 << 30;
/// So many huge files are no accident, and their names fit no command line.
const TOO_MANY_HUGE: usize = 500;

/// The checkpoints of one loop.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    git: Git,
    loop_id: LoopId,
    index: PathBuf,
    /// The last one, where this process kept it.
    last: Option<Checkpoint>,
    pace: Pace,
    patience: Patience,
}

/// How the tree is taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    AtEase,
    /// It took too long once: sizes are looked at first.
    WithCare,
    /// It took too long even so.
    NotAtAll,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Checkpoint {
    number: u32,
    commit: String,
    tree: String,
}

/// A tree that was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) commit: String,
    /// What is not in it although it should be, in words.
    pub(crate) lacks: Option<String>,
}

/// Why a tree was not kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeepError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("the checkpoints' own index cannot be made: {0}")]
    Index(#[from] io::Error),
    #[error(
        "{} MB in {files} new or changed files are too much for a checkpoint; is a rule missing in .gitignore?",
        bytes >> 20
    )]
    TooMuch { bytes: u64, files: usize },
    #[error("git took too long the last time; no more checkpoints are tried")]
    GivenUp,
    #[error("git gave an answer that is no object name: {0:?}")]
    NoObject(String),
}

/// Where the index comes from, the best first; each is tried where the one before is of no use.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// The one of the checkpoint before.
    AsItIs,
    RepositorysIndex,
    Head,
}

impl Checkpoints {
    /// The checkpoints of a loop whose tree is at `root`. In `scratch`, a folder of the loop outside the repository, lie
    /// the index and short-lived files.
    pub(crate) fn new(root: &Path, loop_id: &LoopId, scratch: &Path) -> Result<Self, NoRepository> {
        let unusable = |error: io::Error| NoRepository::Refused(format!("{}: {error}", scratch.display()));
        files::private_dir(scratch).map_err(unusable)?;
        let index = fs::canonicalize(scratch).map_err(unusable)?.join("checkpoint-index");
        let git = Git::find(root, scratch)?.with_index(index.clone());
        Ok(Self { git, loop_id: loop_id.clone(), index, last: None, pace: Pace::AtEase, patience: PATIENCE })
    }

    /// Keeps the tree as it is now. Calling it again for the same number replaces that checkpoint.
    ///
    /// Who knows how the tree differs from what it was when the number before was kept says so in `changed`, and git
    /// need not look at every file. It is not heard where that number was not kept by this process.
    pub(crate) fn keep(
        &mut self,
        number: u32,
        message: &str,
        changed: Option<&[Change]>,
    ) -> Result<Kept, KeepError> {
        let last = self.last.take().filter(|last| last.number.checked_add(1) == Some(number));
        let changed = changed.filter(|_| last.is_some() && self.pace == Pace::AtEase);
        let before = match last {
            Some(last) => Some(last),
            None => self.before(number)?,
        };
        let (tree, lacks) = match (changed, &before) {
            (Some([]), Some(before)) => (before.tree.clone(), None),
            (changed, _) => self.take_in(changed)?,
        };
        let commit = match &before {
            Some(before) if before.tree == tree => before.commit.clone(),
            _ => self.commit(&tree, before.as_ref(), message)?,
        };
        self.point(number, &commit)?;
        self.last = Some(Checkpoint { number, commit: commit.clone(), tree });
        Ok(Kept { commit, lacks })
    }

    /// Removes the checkpoints of all but the newest loops, and never those of this one. Only refs that have the form of
    /// a checkpoint are touched.
    pub(crate) fn prune(&self, loops: usize) -> Result<(), GitError> {
        let format = "--format=%(committerdate:unix) %(refname)";
        let listed = self.git.call(["for-each-ref", format, OURS], SHORT)?;
        let mut by_loop: BTreeMap<&str, (u64, Vec<&str>)> = BTreeMap::new();
        for line in lines(&listed).filter_map(|line| str::from_utf8(line).ok()) {
            let Some((date, name)) = line.split_once(' ') else { continue };
            let Some((folder, _)) = numbered(name) else { continue };
            let (newest, names) = by_loop.entry(folder).or_default();
            *newest = (*newest).max(date.parse().unwrap_or(0));
            names.push(name);
        }
        let this = folder_of(&self.loop_id);
        by_loop.remove(this.as_str());
        let mut others: Vec<_> = by_loop.into_values().collect();
        others.sort_by_key(|(newest, _)| std::cmp::Reverse(*newest));
        let old = others.iter().skip(loops.saturating_sub(1)).flat_map(|(_, names)| names);
        let orders: String = old.map(|name| format!("delete {name}\n")).collect();
        if !orders.is_empty() {
            self.git.call_with(["update-ref", "--no-deref", "--stdin"], Some(orders.as_bytes()), SHORT)?;
        }
        Ok(())
    }

    /// The newest checkpoint below that number.
    fn before(&self, number: u32) -> Result<Option<Checkpoint>, GitError> {
        let all = checkpoints(&self.git, &self.loop_id)?;
        Ok(all.into_iter().rev().find(|checkpoint| checkpoint.number < number))
    }

    /// The tree of the files as they are, and what is missing in it.
    fn take_in(&mut self, changed: Option<&[Change]>) -> Result<(String, Option<String>), KeepError> {
        let sources = match self.index.exists() {
            true => &[Source::AsItIs, Source::RepositorysIndex, Source::Head][..],
            false => &[Source::RepositorysIndex, Source::Head],
        };
        let mut outcome = Err(KeepError::GivenUp);
        for source in sources {
            self.prepare_index(*source)?;
            // What changed since the last one says nothing about an index that was not there.
            let changed = changed.filter(|_| matches!(source, Source::AsItIs));
            outcome = self.take_in_once(changed);
            // Of all that can be wrong, only a damaged index is mended by another one.
            if !matches!(outcome, Err(KeepError::Git(GitError::Failed { .. }))) {
                break;
            }
        }
        outcome
    }

    fn prepare_index(&self, source: Source) -> io::Result<()> {
        // Left by a git that was killed; whoever owns the loop is the only one who uses this index.
        remove(&with_suffix(&self.index, ".lock"))?;
        match source {
            Source::AsItIs => Ok(()),
            Source::RepositorysIndex => {
                remove(&self.index)?;
                copy_with_its_time(&self.git.own_index(), &self.index)
            }
            Source::Head => {
                remove(&self.index)?;
                // Before the first commit there is nothing to start from.
                let _unborn = self.git.call(["read-tree", "HEAD"], self.patience.with_care);
                Ok(())
            }
        }
    }

    fn take_in_once(&mut self, changed: Option<&[Change]>) -> Result<(String, Option<String>), KeepError> {
        let at_ease = match (self.pace, changed) {
            (Pace::AtEase, Some(changed)) => self.add_changed(changed),
            (Pace::AtEase, None) => self.add(&[], self.patience.at_ease).map_err(KeepError::from),
            (Pace::WithCare, _) => self.add_with_care(),
            (Pace::NotAtAll, _) => Err(KeepError::GivenUp),
        };
        let lacks = match at_ease {
            Err(KeepError::Git(GitError::TookTooLong { .. })) if self.pace == Pace::AtEase => {
                self.pace = Pace::WithCare;
                self.add_with_care()?
            }
            other => other?,
        };
        let tree = object(&self.git.call(["write-tree"], SHORT)?)?;
        Ok((tree, lacks))
    }

    /// Only these. Where git knows better, everything.
    fn add_changed(&self, changed: &[Change]) -> Result<Option<String>, KeepError> {
        let weighed = self.weigh(changed.iter().map(|change| PathBuf::from(&change.path)))?;
        if weighed.usual.is_empty() {
            return Ok(weighed.left_out());
        }
        let words = ["add", "--all", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul"];
        let mut names = Vec::new();
        for path in &weighed.usual {
            names.extend_from_slice(b":(literal)");
            names.extend_from_slice(path.as_os_str().as_bytes());
            names.push(0);
        }
        let limit = self.patience.at_ease;
        let lacks = match self.git.call_with(words, Some(&names), limit) {
            Ok(_) => None,
            Err(GitError::Failed { code: Some(1), said, .. }) => Some(said),
            Err(GitError::Failed { .. }) => self.add(&weighed.huge, limit)?,
            Err(error) => return Err(error.into()),
        };
        Ok(joined(weighed.left_out(), lacks))
    }

    fn add_with_care(&mut self) -> Result<Option<String>, KeepError> {
        let added = self.add_all_but_huge();
        if let Err(KeepError::Git(GitError::TookTooLong { .. })) = added {
            self.pace = Pace::NotAtAll;
        }
        added
    }

    fn add_all_but_huge(&self) -> Result<Option<String>, KeepError> {
        let words = ["ls-files", "-z", "-m", "-o", "--exclude-standard"];
        let listed = self.git.call(words, self.patience.with_care)?;
        let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        let weighed = self.weigh(names.map(path_of))?;
        let lacks = self.add(&weighed.huge, self.patience.with_care)?;
        Ok(joined(weighed.left_out(), lacks))
    }

    fn weigh(&self, paths: impl Iterator<Item = PathBuf>) -> Result<Weighed, KeepError> {
        let (mut weighed, mut bytes) = (Weighed::default(), 0);
        for path in paths {
            match fs::symlink_metadata(self.git.root().join(&path)).map_or(0, |meta| meta.len()) {
                size if size > HUGE => weighed.huge.push(path),
                size => {
                    bytes += size;
                    weighed.usual.push(path);
                }
            }
        }
        if bytes > TOO_MUCH || weighed.huge.len() > TOO_MANY_HUGE {
            return Err(KeepError::TooMuch { bytes, files: weighed.usual.len() + weighed.huge.len() });
        }
        Ok(weighed)
    }

    /// Takes everything into our index but those files. What cannot be taken in (unreadable, a repository without a
    /// commit) does not keep the rest out; it is told.
    fn add(&self, but: &[PathBuf], limit: Duration) -> Result<Option<String>, GitError> {
        let mut words: Vec<OsString> =
            ["add", "--all", "--ignore-errors", "--", "."].map(OsString::from).into();
        words.extend(but.iter().map(|path| {
            let mut word = OsString::from(":(exclude,literal)");
            word.push(path);
            word
        }));
        match self.git.call(words, limit) {
            Ok(_) => Ok(None),
            Err(GitError::Failed { code: Some(1), said, .. }) => Ok(Some(said)),
            Err(error) => Err(error),
        }
    }

    fn commit(&self, tree: &str, before: Option<&Checkpoint>, message: &str) -> Result<String, KeepError> {
        let parent = match before {
            Some(before) => Some(before.commit.clone()),
            // Before the first commit there is none.
            None => {
                let head = self.git.call(["rev-parse", "--quiet", "--verify", "HEAD^{commit}"], SHORT);
                head.ok().map(|head| object(&head)).transpose()?
            }
        };
        let message = message.replace('\0', " ");
        let mut words = vec!["commit-tree", tree, "-m", &message];
        if let Some(parent) = &parent {
            words.extend(["-p", parent]);
        }
        object(&self.git.call(words, SHORT)?)
    }

    fn point(&self, number: u32, commit: &str) -> Result<(), GitError> {
        let name = format!("{}{number}", folder_of(&self.loop_id));
        let words = ["update-ref", "--no-deref", &name, commit];
        let lock = self.git.lock_of(&name);
        let pointed = self.git.call(words, SHORT);
        match pointed {
            // Nobody else writes the refs of a loop that we own: this lock was left by a git that was killed.
            Err(GitError::Failed { .. }) if lock.exists() && fs::remove_file(&lock).is_ok() => {
                self.git.call(words, SHORT).map(drop)
            }
            other => other.map(drop),
        }
    }
}

/// New and changed files by what they weigh.
#[derive(Debug, Default)]
struct Weighed {
    usual: Vec<PathBuf>,
    huge: Vec<PathBuf>,
}

impl Weighed {
    /// What is not taken in, in words.
    fn left_out(&self) -> Option<String> {
        let first = self.huge.first()?.display();
        Some(match self.huge.len() - 1 {
            0 => format!("over {} MB: {first}", HUGE >> 20),
            more => format!("over {} MB: {first} and {more} more", HUGE >> 20),
        })
    }
}

fn joined(one: Option<String>, other: Option<String>) -> Option<String> {
    match (one, other) {
        (Some(one), Some(other)) => Some(format!("{one}; {other}")),
        (one, other) => one.or(other),
    }
}

/// The checkpoints of a loop that are there: number and commit.
pub(crate) fn kept(git: &Git, loop_id: &LoopId) -> Result<BTreeMap<u32, String>, GitError> {
    let all = checkpoints(git, loop_id)?;
    Ok(all.into_iter().map(|checkpoint| (checkpoint.number, checkpoint.commit)).collect())
}

/// Sorted by number.
fn checkpoints(git: &Git, loop_id: &LoopId) -> Result<Vec<Checkpoint>, GitError> {
    let format = "--format=%(objectname) %(tree) %(refname)";
    let listed = git.call(["for-each-ref", format, &folder_of(loop_id)], SHORT)?;
    let read = |line: &[u8]| {
        let mut words = str::from_utf8(line).ok()?.split(' ');
        let (commit, tree, name) = (words.next()?, words.next()?, words.next()?);
        let (_, number) = numbered(name)?;
        Some(Checkpoint { number, commit: commit.into(), tree: tree.into() })
    };
    let mut all: Vec<Checkpoint> = lines(&listed).filter_map(read).collect();
    all.sort_by_key(|checkpoint| checkpoint.number);
    Ok(all)
}

/// The folder of a checkpoint's ref, with its slash, and the number.
fn numbered(name: &str) -> Option<(&str, u32)> {
    let at = name.rfind('/')? + 1;
    let (folder, number) = name.split_at(at);
    let loop_name = folder.strip_prefix(OURS)?.strip_suffix('/')?;
    let is_plain = !loop_name.is_empty() && !loop_name.contains('/');
    Some((folder, number.parse().ok().filter(|_| is_plain)?))
}

/// Where the refs of a loop are. A loop id is any text, the name of a ref is not.
fn folder_of(loop_id: &LoopId) -> String {
    let id = loop_id.as_str();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !id.is_empty() && id.len() <= 100 && !id.starts_with('-') && id.chars().all(is_plain) {
        return format!("{OURS}{id}/");
    }
    format!("{OURS}loop-{}/", Digest::of(id).short())
}

/// The name of an object, as git prints it.
fn object(answer: &[u8]) -> Result<String, KeepError> {
    let text = String::from_utf8_lossy(answer).trim().to_owned();
    match text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => Ok(text),
        false => Err(KeepError::NoObject(text)),
    }
}

/// With the time of the original, by which git knows which of its entries are too young to be believed. No original,
/// no copy.
fn copy_with_its_time(from: &Path, to: &Path) -> io::Result<()> {
    let mut original = match File::open(from) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let modified = original.metadata()?.modified()?;
    let mut copy = File::create_new(to)?;
    io::copy(&mut original, &mut copy)?;
    copy.set_modified(modified)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
