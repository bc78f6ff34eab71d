//! Keeps the work tree of each iteration as a commit under a hidden ref, `refs/ralph/LOOP/N`; 0 is the tree before the
//! first iteration.
//!
//! Branch, `HEAD`, index, work tree and reflogs stay as they are: the tree is taken in by an index of our own, which lies
//! outside the repository and starts as a copy of the repository's, so that git need not read again what it knows. What
//! is kept is what `git add -A` would take, below the root of the loop: tracked files, and untracked ones that are not
//! ignored. Of a submodule that is its commit. No program that the repository's config or attributes name is started, so a
//! new or changed file with a filter (`clean`, LFS) stays as the index has it, and is named as not kept.
//!
//! To take in a whole tree costs some short calls of git. Only the first ones look at the files: the caller who keeps a tree
//! beside other work waits for those alone. Any of them may fail, and a loop continues without. Git writes whatever lies in
//! the repository, and syncs it before it names it.
//!
//! Where git did not take everything in within two seconds, sizes are looked at: files over [`HUGE`] are left out, and more
//! than [`TOO_MUCH`] in all is not kept.

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

/// What the name of our index begins with.
const INDEX: &str = "checkpoint-index";

/// All that is ours in a repository.
const OURS: &str = "refs/ralph/";

/// The checkpoints of this many loops stay, and of a few more: to look for old ones is not worth it for each loop.
pub(crate) const LOOPS_KEPT: usize = 20;
const A_FEW_LOOPS: usize = 5;

/// For calls that only handle names.
const SHORT: Duration = Duration::from_secs(10);

/// How long git may take for the files.
#[derive(Clone, Copy, Debug)]
struct Patience {
    at_ease: Duration,
    with_care: Duration,
}

const PATIENCE: Patience = Patience { at_ease: Duration::from_secs(2), with_care: Duration::from_secs(30) };

const TAKEN_IN_AGAIN: &str =
    "the files as they were when the gates began, of which git had lost some; they were taken in again later";

const HUGE: u64 = 100 << 20;
const TOO_MUCH: u64 = 1 << 30;
/// So many huge files are no accident.
const TOO_MANY_HUGE: usize = 500;
/// The names of more files fit no command line.
const TOO_MANY_LEFT_OUT: usize = 1000;

/// The checkpoints of one loop.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    git: Git,
    loop_id: LoopId,
    scratch: PathBuf,
    /// Where the index is now.
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

/// The files as they were at a moment, in the index; git has not made a tree of them yet.
#[derive(Debug)]
pub(crate) struct TakenIn {
    number: u32,
    lacks: Option<String>,
    /// The one before, where this process kept it.
    last: Option<Checkpoint>,
    /// Where there is nothing to keep there is none.
    has_index: bool,
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
    #[error(
        "{files} new or changed files are huge, submodules, or have a filter, which is too many for a checkpoint"
    )]
    TooManyLeftOut { files: usize },
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
        let scratch = fs::canonicalize(scratch).map_err(unusable)?;
        let index = existing_index(&scratch).unwrap_or_else(|| scratch.join(INDEX));
        let mut git = Git::find(root, &scratch)?;
        git.use_index(&index);
        let (loop_id, pace, patience) = (loop_id.clone(), Pace::AtEase, PATIENCE);
        Ok(Self { git, loop_id, scratch, index, last: None, pace, patience })
    }

    /// Takes the files in as they are now, for the tree of that number.
    pub(crate) fn take_in(&mut self, number: u32) -> Result<TakenIn, KeepError> {
        let last = self.last.take().filter(|last| last.number.checked_add(1) == Some(number));
        self.name_index(None)?;
        let lacks = self.take_in_from(&[Source::AsItIs, Source::RepositorysIndex, Source::Head])?;
        self.name_index(Some(number))?;
        Ok(TakenIn { number, lacks, last, has_index: self.index.exists() })
    }

    /// Keeps what was taken in. For the same number as before it replaces that checkpoint.
    pub(crate) fn keep(&mut self, taken_in: TakenIn) -> Result<Kept, KeepError> {
        let TakenIn { number, mut lacks, last, has_index } = taken_in;
        let is_lost = has_index && !self.index.exists();
        let tree = match if is_lost { None } else { Some(self.write_tree()) } {
            // It names what is not there any more, or is gone. Better the files as they are by now than none, if it is said.
            None | Some(Err(KeepError::Git(GitError::Failed { .. }))) => {
                let again = self.take_in_from(&[Source::RepositorysIndex, Source::Head])?;
                lacks = joined(Some(TAKEN_IN_AGAIN.into()), again);
                self.write_tree()?
            }
            Some(tree) => tree?,
        };
        self.keep_tree(number, tree, lacks, last)
    }

    /// Whether a predecessor took the files in for that number, and not for another one since.
    pub(crate) fn has_taken_in(&self, number: u32) -> bool {
        self.index_of(Some(number)).exists()
    }

    /// Keeps what it took in.
    pub(crate) fn finish(&mut self, number: u32) -> Result<Kept, KeepError> {
        self.use_index(self.index_of(Some(number)));
        self.remove_lock()?;
        let tree = self.write_tree()?;
        self.keep_tree(number, tree, None, None)
    }

    fn keep_tree(
        &mut self,
        number: u32,
        tree: String,
        lacks: Option<String>,
        last: Option<Checkpoint>,
    ) -> Result<Kept, KeepError> {
        let before = match last {
            None if number > 0 => self.before(number)?,
            last => last,
        };
        let commit = match &before {
            Some(before) if before.tree == tree => before.commit.clone(),
            _ => self.commit(number, &tree, before.as_ref())?,
        };
        self.point(number, &commit)?;
        self.last = Some(Checkpoint { number, commit: commit.clone(), tree });
        Ok(Kept { commit, lacks })
    }

    /// Forgets the checkpoints of all but the newest loops, and never those of this one. Nobody waits for it, and what is not
    /// done when we end is done the next time.
    pub(crate) fn forget_others_beside(&self, loops: usize) {
        let (git, this) = (self.git.clone(), folder_of(&self.loop_id));
        let _next_time_then = thread::Builder::new().spawn(move || {
            if loops_kept(&git)? > loops + A_FEW_LOOPS {
                prune(&git, &this, loops)?;
            }
            Ok::<_, GitError>(())
        });
    }

    /// No more will be taken in: the index of a loop that is over serves nobody.
    pub(crate) fn put_away(&self) {
        let _stays_then = self.remove_lock().and_then(|()| remove(&self.index));
    }

    /// The newest checkpoint below that number.
    fn before(&self, number: u32) -> Result<Option<Checkpoint>, GitError> {
        let all = checkpoints(&self.git, &self.loop_id)?;
        Ok(all.into_iter().rev().find(|checkpoint| checkpoint.number < number))
    }

    /// The index bears the number that it was filled for, and none while it is being filled.
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

    /// Left by a git that was killed; whoever owns the loop is the only one who uses this index.
    fn remove_lock(&self) -> io::Result<()> {
        remove(&with_suffix(&self.index, ".lock"))
    }

    /// Tells what could not be taken in.
    fn take_in_from(&mut self, sources: &[Source]) -> Result<Option<String>, KeepError> {
        let mut outcome = Err(KeepError::GivenUp);
        for source in sources {
            if matches!(source, Source::AsItIs) && !self.index.exists() {
                continue;
            }
            self.prepare_index(*source)?;
            outcome = self.take_in_once();
            // Of all that can be wrong, only a damaged index is mended by another one.
            if !matches!(outcome, Err(KeepError::Git(GitError::Failed { .. }))) {
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

    fn take_in_once(&mut self) -> Result<Option<String>, KeepError> {
        let at_ease = match self.pace {
            Pace::AtEase => self.add_all_but(&[], self.patience.at_ease),
            Pace::WithCare => self.add_with_care(),
            Pace::NotAtAll => Err(KeepError::GivenUp),
        };
        match at_ease {
            Err(KeepError::Git(GitError::TookTooLong { .. })) if self.pace == Pace::AtEase => {
                self.pace = Pace::WithCare;
                self.add_with_care()
            }
            other => other,
        }
    }

    fn write_tree(&self) -> Result<String, KeepError> {
        // It also writes the index, and reads files that changed too recently to be told by their times.
        object(&self.git.sealed(SHORT)?.call(["write-tree"], None, SHORT)?)
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
        let listed = self.git.sealed(SHORT)?.call(words, None, self.patience.with_care)?;
        let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        let weighed = self.weigh(names.map(path_of))?;
        let lacks = self.add_all_but(&weighed.huge, self.patience.with_care)?;
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

    /// Takes everything into our index but those files, and but those that git would need a program for.
    fn add_all_but(&self, but: &[PathBuf], limit: Duration) -> Result<Option<String>, KeepError> {
        let git = self.git.sealed(SHORT)?;
        let NotToAdd { filtered, submodules } = git.not_to_add(limit)?;
        let left_out: Vec<&PathBuf> = but.iter().chain(&filtered).chain(&submodules).collect();
        if left_out.len() > TOO_MANY_LEFT_OUT {
            return Err(KeepError::TooManyLeftOut { files: left_out.len() });
        }
        let lacks = add(&git, &left_out, limit)?;
        let lacks = joined(lacks, update_submodules(&git, &submodules, limit)?);
        let names = named(&filtered, 5).map(|files| format!("with a filter, which is not run: {files}"));
        Ok(joined(names, lacks))
    }

    fn commit(&self, number: u32, tree: &str, before: Option<&Checkpoint>) -> Result<String, KeepError> {
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

    /// None before the first commit.
    fn head(&self) -> Option<String> {
        let head = self.git.call(["rev-parse", "--quiet", "--verify", "HEAD^{commit}"], SHORT);
        object(&head.ok()?).ok()
    }

    /// Of a ref.
    fn name_of(&self, number: u32) -> String {
        format!("{}{number}", folder_of(&self.loop_id))
    }

    fn point(&self, number: u32, commit: &str) -> Result<(), GitError> {
        let name = self.name_of(number);
        if !self.git.keeps_in_place(&name) {
            let said = format!("{name} would be written elsewhere: there is a link on the way");
            return Err(GitError::Failed { what: "update-ref".into(), code: None, said });
        }
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

/// What cannot be taken in (unreadable, a repository without a commit) does not keep the rest out; it is told.
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

/// The commits that submodules are at, without a look at their files.
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

/// Only refs that have the form of a checkpoint are touched.
fn prune(git: &Git, this: &str, loops: usize) -> Result<(), GitError> {
    let format = "--format=%(committerdate:unix) %(refname)";
    let listed = git.call(["for-each-ref", format, OURS], SHORT)?;
    let mut by_loop: BTreeMap<&str, (u64, Vec<&str>)> = BTreeMap::new();
    for line in lines(&listed).filter_map(|line| str::from_utf8(line).ok()) {
        let Some((date, name)) = line.split_once(' ') else { continue };
        let Some((folder, _)) = numbered(name) else { continue };
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

/// Of how many loops there are checkpoints. Their dates cost a look at every commit.
fn loops_kept(git: &Git) -> Result<usize, GitError> {
    let listed = git.call(["for-each-ref", "--format=%(refname)", OURS], SHORT)?;
    let names = lines(&listed).filter_map(|line| str::from_utf8(line).ok());
    Ok(names.filter_map(|name| Some(numbered(name)?.0)).collect::<BTreeSet<_>>().len())
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

/// The checkpoints of a loop that are there: number and commit.
pub(crate) fn kept(git: &Git, loop_id: &LoopId) -> Result<BTreeMap<u32, String>, GitError> {
    let all = checkpoints(git, loop_id)?;
    Ok(all.into_iter().map(|checkpoint| (checkpoint.number, checkpoint.commit)).collect())
}

/// The files in which a checkpoint differs from the beginning of its loop; none where that cannot be told.
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

/// What a predecessor left.
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
