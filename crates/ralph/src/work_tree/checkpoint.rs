//! Commits the work tree of each iteration under a hidden ref, `refs/ralph/LOOP/N`; 0 is the tree before the first
//! iteration.
//!
//! Branch, `HEAD`, index, work tree and reflogs are not changed: the tree is staged in an index of our own outside
//! the repository, which starts as a copy of the repository's, so that git need not reread known files. It contains
//! what `git add -A` would add below the root of the loop: tracked files, and untracked ones that are not ignored;
//! for a submodule, its commit. No program named by the repository's config or attributes is started, so a new or
//! changed file with a filter (`clean`, LFS) stays as in the index, and is reported as missing.
//!
//! A checkpoint takes a few short git calls. Only the first ones read the files, so a caller with other work waits
//! for those alone. Any call may fail, and the loop continues without a checkpoint. Git syncs its objects before it
//! updates the ref.
//!
//! If git cannot stage everything within two seconds, file sizes are checked: files over [`HUGE`] are left out, and
//! more than [`TOO_MUCH`] in total is not committed.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io, thread};

use ralph_core::model::id::{Digest, LoopId};

use crate::sys::files;
use crate::work_tree::git::{Git, GitError, NoRepository, NotToAdd, SealedGit, lines, path_of};

/// Prefix of the name of our index.
const INDEX: &str = "checkpoint-index";

/// Prefix of all our refs.
const OURS: &str = "refs/ralph/";

/// The checkpoints of this many loops are kept, plus a few: pruning for each loop is not worth its cost.
pub(crate) const LOOPS_KEPT: usize = 20;
const A_FEW_LOOPS: usize = 5;

/// For calls that only handle names.
const SHORT: Duration = Duration::from_secs(10);

/// How long git may take to stage the files.
#[derive(Clone, Copy, Debug)]
struct StagingTimeouts {
    at_ease: Duration,
    with_care: Duration,
}

const PATIENCE: StagingTimeouts =
    StagingTimeouts { at_ease: Duration::from_secs(2), with_care: Duration::from_secs(30) };

const STAGED_AGAIN: &str =
    "files staged when the gates began were lost in git; the current files were staged instead";

const HUGE: u64 = 100 << 20;
const TOO_MUCH: u64 = 1 << 30;
/// With this many huge files, something is wrong.
const TOO_MANY_HUGE: usize = 500;
/// More file names do not fit on a command line.
const TOO_MANY_LEFT_OUT: usize = 1000;

/// The checkpoints of one loop.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    git: Git,
    loop_id: LoopId,
    scratch: PathBuf,
    /// The current path of the index.
    index: PathBuf,
    /// The last checkpoint, if this process committed it.
    last: Option<Checkpoint>,
    pace: StagingSpeed,
    patience: StagingTimeouts,
}

/// How the tree is staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StagingSpeed {
    AtEase,
    /// It took too long once: sizes are checked first.
    WithCare,
    /// It took too long even with size checks.
    NotAtAll,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Checkpoint {
    number: u32,
    commit: String,
    tree: String,
}

/// The files at one moment, staged in the index; git has not written a tree yet.
#[derive(Debug)]
pub(crate) struct StagedFiles {
    number: u32,
    lacks: Option<String>,
    /// The previous checkpoint, if this process committed it.
    last: Option<Checkpoint>,
    /// False if there is nothing to commit.
    has_index: bool,
}

/// A tree that was committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommittedTree {
    pub(crate) commit: String,
    /// Files that are missing from it, in words.
    pub(crate) lacks: Option<String>,
}

/// Why a tree was not committed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CheckpointError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("cannot create the checkpoint index: {0}")]
    Index(#[from] io::Error),
    #[error(
        "{} MB in {files} new or changed files are too much for a checkpoint; add large files to .gitignore",
        bytes >> 20
    )]
    TooMuch { bytes: u64, files: usize },
    #[error(
        "{files} new or changed files are huge, are submodules or have a filter: too many for a checkpoint"
    )]
    TooManyLeftOut { files: usize },
    #[error("git timed out the last time; checkpoints are disabled for this loop")]
    GivenUp,
    #[error("git printed an invalid object name: {0:?}")]
    NoObject(String),
}

/// Sources of the index, best first; each is tried if the previous one is unusable.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// The index of the previous checkpoint.
    AsItIs,
    RepositorysIndex,
    Head,
}

impl Checkpoints {
    /// The checkpoints of a loop whose tree is at `root`. `scratch`, a folder of the loop outside the repository,
    /// holds the index and temporary files.
    pub(crate) fn new(root: &Path, loop_id: &LoopId, scratch: &Path) -> Result<Self, NoRepository> {
        let unusable = |error: io::Error| NoRepository::Refused(format!("{}: {error}", scratch.display()));
        files::private_dir(scratch).map_err(unusable)?;
        let scratch = fs::canonicalize(scratch).map_err(unusable)?;
        let index = existing_index(&scratch).unwrap_or_else(|| scratch.join(INDEX));
        let mut git = Git::find(root, &scratch)?;
        git.use_index(&index);
        let (loop_id, pace, patience) = (loop_id.clone(), StagingSpeed::AtEase, PATIENCE);
        Ok(Self { git, loop_id, scratch, index, last: None, pace, patience })
    }

    /// Stages the current files for the tree of that number.
    pub(crate) fn stage(&mut self, number: u32) -> Result<StagedFiles, CheckpointError> {
        let last = self.last.take().filter(|last| last.number.checked_add(1) == Some(number));
        self.name_index(None)?;
        let lacks = self.stage_from(&[Source::AsItIs, Source::RepositorysIndex, Source::Head])?;
        self.name_index(Some(number))?;
        Ok(StagedFiles { number, lacks, last, has_index: self.index.exists() })
    }

    /// Commits the staged files. For the same number as before it replaces that checkpoint.
    pub(crate) fn commit(&mut self, staged: StagedFiles) -> Result<CommittedTree, CheckpointError> {
        let StagedFiles { number, mut lacks, last, has_index } = staged;
        let is_lost = has_index && !self.index.exists();
        let tree = match if is_lost { None } else { Some(self.write_tree()) } {
            // The index refers to missing objects, or is gone. Use the current files instead and report it.
            None | Some(Err(CheckpointError::Git(GitError::Failed { .. }))) => {
                let again = self.stage_from(&[Source::RepositorysIndex, Source::Head])?;
                lacks = joined(Some(STAGED_AGAIN.into()), again);
                self.write_tree()?
            }
            Some(tree) => tree?,
        };
        self.commit_staged_tree(number, tree, lacks, last)
    }

    /// Whether a predecessor staged the files for that number as its last one.
    pub(crate) fn has_staged(&self, number: u32) -> bool {
        self.index_of(Some(number)).exists()
    }

    /// Commits what a predecessor staged.
    pub(crate) fn finish(&mut self, number: u32) -> Result<CommittedTree, CheckpointError> {
        self.use_index(self.index_of(Some(number)));
        self.remove_lock()?;
        let tree = self.write_tree()?;
        self.commit_staged_tree(number, tree, None, None)
    }

    fn commit_staged_tree(
        &mut self,
        number: u32,
        tree: String,
        lacks: Option<String>,
        last: Option<Checkpoint>,
    ) -> Result<CommittedTree, CheckpointError> {
        let before = match last {
            None if number > 0 => self.before(number)?,
            last => last,
        };
        let commit = match &before {
            Some(before) if before.tree == tree => before.commit.clone(),
            _ => self.commit_tree(number, &tree, before.as_ref())?,
        };
        self.point(number, &commit)?;
        self.last = Some(Checkpoint { number, commit: commit.clone(), tree });
        Ok(CommittedTree { commit, lacks })
    }

    /// Removes the checkpoints of all but the newest loops, never those of this one. Not waited for; what is
    /// unfinished at exit is done the next time.
    pub(crate) fn forget_others_beside(&self, loops: usize) {
        let (git, this) = (self.git.clone(), folder_of(&self.loop_id));
        let _next_time_then = thread::Builder::new().spawn(move || {
            if loops_with_commits(&git)? > loops + A_FEW_LOOPS {
                prune(&git, &this, loops)?;
            }
            Ok::<_, GitError>(())
        });
    }

    /// Removes the index of a finished loop.
    pub(crate) fn clean_up(&self) {
        let _stays_then = self.remove_lock().and_then(|()| remove(&self.index));
    }

    /// The newest checkpoint below that number.
    fn before(&self, number: u32) -> Result<Option<Checkpoint>, GitError> {
        let all = checkpoints(&self.git, &self.loop_id)?;
        Ok(all.into_iter().rev().find(|checkpoint| checkpoint.number < number))
    }

    /// The index name contains the number it was filled for, and none while it is being filled.
    fn index_of(&self, number: Option<u32>) -> PathBuf {
        let number = number.map(|number| format!("-{number}")).unwrap_or_default();
        self.scratch.join(format!("{INDEX}{number}"))
    }

    fn name_index(&mut self, number: Option<u32>) -> io::Result<()> {
        self.remove_lock()?;
        let name = self.index_of(number);
        match fs::rename(&self.index, &name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.use_index(name);
        Ok(())
    }

    fn use_index(&mut self, index: PathBuf) {
        self.git.use_index(&index);
        self.index = index;
    }

    /// A stale lock of a killed git; only the driver of the loop uses this index.
    fn remove_lock(&self) -> io::Result<()> {
        remove(&with_suffix(&self.index, ".lock"))
    }

    /// Returns which files could not be staged.
    fn stage_from(&mut self, sources: &[Source]) -> Result<Option<String>, CheckpointError> {
        let mut outcome = Err(CheckpointError::GivenUp);
        for source in sources {
            if matches!(source, Source::AsItIs) && !self.index.exists() {
                continue;
            }
            self.prepare_index(*source)?;
            outcome = self.stage_once();
            // Only a damaged index can be fixed by another source.
            if !matches!(outcome, Err(CheckpointError::Git(GitError::Failed { .. }))) {
                break;
            }
        }
        outcome
    }

    fn prepare_index(&self, source: Source) -> io::Result<()> {
        self.remove_lock()?;
        let index = &self.index;
        match source {
            Source::AsItIs => Ok(()),
            Source::RepositorysIndex => {
                remove(index)?;
                self.git.copy_own_index(index)
            }
            Source::Head => {
                remove(index)?;
                if let Some(head) = self.head() {
                    let sealed = self.git.sealed(SHORT);
                    let _nothing_to_start_from =
                        sealed.and_then(|git| git.call(["read-tree", &head], None, self.patience.with_care));
                }
                Ok(())
            }
        }
    }

    fn stage_once(&mut self) -> Result<Option<String>, CheckpointError> {
        let at_ease = match self.pace {
            StagingSpeed::AtEase => self.add_all_but(&[], self.patience.at_ease),
            StagingSpeed::WithCare => self.add_with_care(),
            StagingSpeed::NotAtAll => Err(CheckpointError::GivenUp),
        };
        match at_ease {
            Err(CheckpointError::Git(GitError::TookTooLong { .. })) if self.pace == StagingSpeed::AtEase => {
                self.pace = StagingSpeed::WithCare;
                self.add_with_care()
            }
            other => other,
        }
    }

    fn write_tree(&self) -> Result<String, CheckpointError> {
        // It also writes the index, and rereads files that changed too recently for their timestamps to be reliable.
        object(&self.git.sealed(SHORT)?.call(["write-tree"], None, SHORT)?)
    }

    fn add_with_care(&mut self) -> Result<Option<String>, CheckpointError> {
        let added = self.add_all_but_huge();
        if let Err(CheckpointError::Git(GitError::TookTooLong { .. })) = added {
            self.pace = StagingSpeed::NotAtAll;
        }
        added
    }

    fn add_all_but_huge(&self) -> Result<Option<String>, CheckpointError> {
        let words = ["ls-files", "-z", "-m", "-o", "--exclude-standard"];
        let listed = self.git.sealed(SHORT)?.call(words, None, self.patience.with_care)?;
        let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        let weighed = self.sort_by_size(names.map(path_of))?;
        let lacks = self.add_all_but(&weighed.huge, self.patience.with_care)?;
        Ok(joined(weighed.left_out(), lacks))
    }

    fn sort_by_size(&self, paths: impl Iterator<Item = PathBuf>) -> Result<FilesBySize, CheckpointError> {
        let (mut weighed, mut bytes) = (FilesBySize::default(), 0);
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
            return Err(CheckpointError::TooMuch { bytes, files: weighed.usual.len() + weighed.huge.len() });
        }
        Ok(weighed)
    }

    /// Stages everything except those files and files that would need a program.
    fn add_all_but(&self, but: &[PathBuf], limit: Duration) -> Result<Option<String>, CheckpointError> {
        let git = self.git.sealed(SHORT)?;
        let NotToAdd { filtered, submodules } = git.not_to_add(limit)?;
        let left_out: Vec<&PathBuf> = but.iter().chain(&filtered).chain(&submodules).collect();
        if left_out.len() > TOO_MANY_LEFT_OUT {
            return Err(CheckpointError::TooManyLeftOut { files: left_out.len() });
        }
        let lacks = add(&git, &left_out, limit)?;
        let lacks = joined(lacks, update_submodules(&git, &submodules, limit)?);
        let names = named(&filtered, 5).map(|files| format!("with a filter (filters are not run): {files}"));
        Ok(joined(names, lacks))
    }

    fn commit_tree(
        &self,
        number: u32,
        tree: &str,
        before: Option<&Checkpoint>,
    ) -> Result<String, CheckpointError> {
        let parent = match before {
            Some(before) => Some(before.commit.clone()),
            None => self.head(),
        };
        let message = format!("ralph: iteration {number} of {}", self.loop_id).replace('\0', " ");
        let mut words = vec!["commit-tree", tree, "-m", &message];
        if let Some(parent) = &parent {
            words.extend(["-p", parent]);
        }
        object(&self.git.call(words, SHORT)?)
    }

    /// `None` before the first commit.
    fn head(&self) -> Option<String> {
        let head = self.git.call(["rev-parse", "--quiet", "--verify", "HEAD^{commit}"], SHORT);
        object(&head.ok()?).ok()
    }

    /// The name of the ref.
    fn name_of(&self, number: u32) -> String {
        format!("{}{number}", folder_of(&self.loop_id))
    }

    fn point(&self, number: u32, commit: &str) -> Result<(), GitError> {
        let name = self.name_of(number);
        if !self.git.keeps_in_place(&name) {
            let said = format!("{name}: a symbolic link on the way leads elsewhere");
            return Err(GitError::Failed { what: "update-ref".into(), code: None, said });
        }
        let words = ["update-ref", "--no-deref", &name, commit];
        let lock = self.git.lock_of(&name);
        let pointed = self.git.call(words, SHORT);
        match pointed {
            // Only this driver writes the refs of its loop, so the lock was left by a killed git.
            Err(GitError::Failed { .. }) if lock.exists() && fs::remove_file(&lock).is_ok() => {
                self.git.call(words, SHORT).map(drop)
            }
            other => other.map(drop),
        }
    }
}

/// Files that cannot be staged (unreadable, a repository without a commit) are reported and do not prevent the rest.
fn add(git: &SealedGit<'_>, but: &[&PathBuf], limit: Duration) -> Result<Option<String>, GitError> {
    let mut words: Vec<OsString> = ["add", "--all", "--ignore-errors", "--", "."].map(OsString::from).into();
    words.extend(but.iter().map(|path| {
        let mut word = OsString::from(":(exclude,literal)");
        word.push(path);
        word
    }));
    match git.call(words, None, limit) {
        Ok(_) => Ok(None),
        Err(GitError::Failed { code: Some(1), said, .. }) => Ok(Some(said)),
        Err(error) => Err(error),
    }
}

/// The commits of submodules, without reading their files.
fn update_submodules(
    git: &SealedGit<'_>,
    submodules: &[PathBuf],
    limit: Duration,
) -> Result<Option<String>, GitError> {
    if submodules.is_empty() {
        return Ok(None);
    }
    let names: Vec<u8> =
        submodules.iter().flat_map(|path| [path.as_os_str().as_bytes(), b"\0"].concat()).collect();
    match git.call(["update-index", "--add", "--remove", "-z", "--stdin"], Some(&names), limit) {
        Ok(_) => Ok(None),
        Err(GitError::Failed { said, .. }) => Ok(Some(said)),
        Err(error) => Err(error),
    }
}

/// Only refs in the form of a checkpoint are touched.
fn prune(git: &Git, this: &str, loops: usize) -> Result<(), GitError> {
    let format = "--format=%(committerdate:unix) %(refname)";
    let listed = git.call(["for-each-ref", format, OURS], SHORT)?;
    let mut by_loop: BTreeMap<&str, (u64, Vec<&str>)> = BTreeMap::new();
    for line in lines(&listed).filter_map(|line| str::from_utf8(line).ok()) {
        let Some((date, name)) = line.split_once(' ') else { continue };
        let Some((folder, _)) = parse_ref_name(name) else { continue };
        let (newest, names) = by_loop.entry(folder).or_default();
        *newest = (*newest).max(date.parse().unwrap_or(0));
        names.push(name);
    }
    by_loop.remove(this);
    let mut others: Vec<_> = by_loop.into_values().collect();
    others.sort_by_key(|(newest, _)| std::cmp::Reverse(*newest));
    let old = others.iter().skip(loops.saturating_sub(1)).flat_map(|(_, names)| names);
    let old = old.filter(|name| git.keeps_in_place(name));
    let orders: String = old.map(|name| format!("delete {name}\n")).collect();
    if !orders.is_empty() {
        git.call_with(["update-ref", "--no-deref", "--stdin"], Some(orders.as_bytes()), SHORT)?;
    }
    Ok(())
}

/// The number of loops with checkpoints. Reading their dates would load every commit.
fn loops_with_commits(git: &Git) -> Result<usize, GitError> {
    let listed = git.call(["for-each-ref", "--format=%(refname)", OURS], SHORT)?;
    let names = lines(&listed).filter_map(|line| str::from_utf8(line).ok());
    Ok(names.filter_map(|name| Some(parse_ref_name(name)?.0)).collect::<BTreeSet<_>>().len())
}

/// New and changed files by size.
#[derive(Debug, Default)]
struct FilesBySize {
    usual: Vec<PathBuf>,
    huge: Vec<PathBuf>,
}

impl FilesBySize {
    /// The files left out, in words.
    fn left_out(&self) -> Option<String> {
        named(&self.huge, 1).map(|files| format!("over {} MB: {files}", HUGE >> 20))
    }
}

/// `a.txt, b.txt and 2 more`.
fn named(paths: &[PathBuf], most: usize) -> Option<String> {
    let shown: Vec<String> = paths.iter().take(most).map(|path| path.display().to_string()).collect();
    match paths.len() - shown.len() {
        _ if shown.is_empty() => None,
        0 => Some(shown.join(", ")),
        more => Some(format!("{} and {more} more", shown.join(", "))),
    }
}

fn joined(one: Option<String>, other: Option<String>) -> Option<String> {
    match (one, other) {
        (Some(one), Some(other)) => Some(format!("{one}; {other}")),
        (one, other) => one.or(other),
    }
}

/// The existing checkpoints of a loop: number and commit.
pub(crate) fn commits_of(git: &Git, loop_id: &LoopId) -> Result<BTreeMap<u32, String>, GitError> {
    let all = checkpoints(git, loop_id)?;
    Ok(all.into_iter().map(|checkpoint| (checkpoint.number, checkpoint.commit)).collect())
}

/// The files in which a checkpoint differs from the start of its loop; `None` if that cannot be determined.
pub(crate) fn changed_files(git: &Git, loop_id: &LoopId, commit: &str) -> Option<Vec<String>> {
    let commit = object(commit.as_bytes()).ok()?;
    let beginning = format!("{}0", folder_of(loop_id));
    let words = ["diff-tree", "-r", "-z", "--name-only", "--relative", &beginning, &commit];
    let listed = git.call(words, SHORT).ok()?;
    let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Some(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

/// Sorted by number.
fn checkpoints(git: &Git, loop_id: &LoopId) -> Result<Vec<Checkpoint>, GitError> {
    let format = "--format=%(objectname) %(tree) %(refname)";
    let listed = git.call(["for-each-ref", format, &folder_of(loop_id)], SHORT)?;
    let read = |line: &[u8]| {
        let mut words = str::from_utf8(line).ok()?.split(' ');
        let (commit, tree, name) = (words.next()?, words.next()?, words.next()?);
        let (_, number) = parse_ref_name(name)?;
        Some(Checkpoint { number, commit: commit.into(), tree: tree.into() })
    };
    let mut all: Vec<Checkpoint> = lines(&listed).filter_map(read).collect();
    all.sort_by_key(|checkpoint| checkpoint.number);
    Ok(all)
}

/// The folder of a checkpoint's ref, with its slash, and the number.
fn parse_ref_name(name: &str) -> Option<(&str, u32)> {
    let at = name.rfind('/')? + 1;
    let (folder, number) = name.split_at(at);
    let loop_name = folder.strip_prefix(OURS)?.strip_suffix('/')?;
    let is_plain = !loop_name.is_empty() && !loop_name.contains('/');
    Some((folder, number.parse().ok().filter(|_| is_plain)?))
}

/// The folder of a loop's refs. A loop id may contain characters that a ref name cannot.
fn folder_of(loop_id: &LoopId) -> String {
    let id = loop_id.as_str();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !id.is_empty() && id.len() <= 100 && !id.starts_with('-') && id.chars().all(is_plain) {
        return format!("{OURS}{id}/");
    }
    format!("{OURS}loop-{}/", Digest::of(id).short())
}

/// An object name as printed by git.
fn object(answer: &[u8]) -> Result<String, CheckpointError> {
    let text = String::from_utf8_lossy(answer).trim().to_owned();
    match text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => Ok(text),
        false => Err(CheckpointError::NoObject(text)),
    }
}

/// The index that a predecessor left.
fn existing_index(scratch: &Path) -> Option<PathBuf> {
    let names = fs::read_dir(scratch).ok()?.flatten().map(|entry| entry.file_name());
    let mut names = names.filter_map(|name| name.into_string().ok());
    names.find(|name| name.starts_with(INDEX) && !name.ends_with(".lock")).map(|name| scratch.join(name))
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
