//! Runs git restricted: no program configured by a repository or the user is started (hooks, signing, file watchers,
//! housekeeping, transports), inherited git variables do not redirect it, and it is killed with its whole process
//! group on a timeout. Calls that read files of the work tree are [`sealed`].

pub(crate) mod head;
pub(crate) mod locate;
mod sealed;
pub(crate) mod users;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use ralph_core::model::duration;

use self::locate::Checkout;
pub(crate) use self::sealed::{NotToAdd, SealedGit};
use crate::sys::{env, short_command};

/// Author and committer of the commits.
const AUTHOR: &str = "ralph";
const EMAIL: &str = "ralph@localhost";

/// Settings for every call, which override all config files.
const SETTINGS: [&str; 14] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "submodule.recurse=false",
    // A split index would write its other half into the repository.
    "core.splitIndex=false",
    // The index is only ours and is recreated if damaged: a checksum on every write is not worth its cost.
    "index.skipHash=true",
    // By default git does not sync loose objects: after a power cut a ref could exist without its objects.
    "core.fsync=committed",
    "core.fsyncMethod=batch",
    "core.logAllRefUpdates=false",
    // Unusual line ends must not prevent a checkpoint.
    "core.safecrlf=false",
    "commit.gpgSign=false",
    "i18n.commitEncoding=UTF-8",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.addEmbeddedRepo=false",
];

/// Not a valid protocol, so that an older git that would fetch missing objects starts no `ssh` and no helper.
const NO_PROTOCOL: &str = "none";

/// Why a git call failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GitError {
    #[error("cannot run git: {0}")]
    NotRun(io::Error),
    #[error("git {what} timed out after {}", duration::show(*.after))]
    TookTooLong { what: String, after: Duration },
    #[error("git {what}: {said}")]
    Failed { what: String, code: Option<i32>, said: String },
}

/// A git repository with a work tree, as found by git around a folder.
#[derive(Clone, Debug)]
pub(crate) struct Git {
    /// The working directory of calls: the root of the loop's tree, which may be below the top of the work tree.
    root: PathBuf,
    top: PathBuf,
    dir: PathBuf,
    common_dir: PathBuf,
    /// Folder for temporary files.
    scratch: PathBuf,
    /// Used instead of the repository's own.
    index: Option<PathBuf>,
}

/// Why there is no repository for checkpoints.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoRepository {
    #[error("git is not installed")]
    NoGit,
    #[error("not a git repository")]
    NoRepo,
    #[error("the git repository has no work tree")]
    Bare,
    /// It exists but git refuses it: it is broken, or belongs to another user.
    #[error("the git repository cannot be used: {0}")]
    Refused(String),
}

impl Git {
    /// Uses git's own discovery, so that it refuses what it would refuse its user.
    pub(crate) fn find(root: &Path, scratch: &Path) -> Result<Self, NoRepository> {
        let mut command = command(root);
        command.args(["rev-parse", "--is-inside-work-tree", "--absolute-git-dir", "--git-common-dir"]);
        command.arg("--show-toplevel");
        let answer = run(command, "rev-parse", None, scratch, Duration::from_secs(10)).map_err(refused)?;
        let lines: Vec<PathBuf> = lines(&answer).map(|line| PathBuf::from(OsStr::from_bytes(line))).collect();
        // A path with a line break would add a line.
        let [is_inside, dir, common_dir, top] = <[PathBuf; 4]>::try_from(lines)
            .map_err(|_| NoRepository::Refused("its path contains a line break".into()))?;
        if is_inside != Path::new("true") {
            return Err(NoRepository::Bare);
        }
        let common_dir = root.join(common_dir);
        Ok(Self { root: root.into(), top, dir, common_dir, scratch: scratch.into(), index: None })
    }

    pub(crate) fn use_index(&mut self, index: &Path) {
        self.index = Some(index.to_owned());
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Copies the repository's own index, which is only read.
    pub(crate) fn copy_own_index(&self, to: &Path) -> io::Result<()> {
        locate::copy_index(&self.dir, to)
    }

    /// Whether a ref would be written to its proper place.
    pub(crate) fn keeps_in_place(&self, reference: &str) -> bool {
        locate::is_in_place(&self.common_dir, reference)
    }

    /// The lock file of a loose ref.
    pub(crate) fn lock_of(&self, reference: &str) -> PathBuf {
        self.common_dir.join(format!("{reference}.lock"))
    }

    pub(crate) fn call<S: AsRef<OsStr>>(
        &self,
        words: impl IntoIterator<Item = S>,
        limit: Duration,
    ) -> Result<Vec<u8>, GitError> {
        self.call_with(words, None, limit)
    }

    /// Like [`Git::call`], with input on stdin.
    pub(crate) fn call_with<S: AsRef<OsStr>>(
        &self,
        words: impl IntoIterator<Item = S>,
        input: Option<&[u8]>,
        limit: Duration,
    ) -> Result<Vec<u8>, GitError> {
        let words: Vec<OsString> = words.into_iter().map(|word| word.as_ref().to_owned()).collect();
        let what = words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
        if let Some(said) = locate::unusable_file(&self.dir) {
            return Err(GitError::Failed { what, code: None, said });
        }
        let mut command = command(&self.root);
        command.env("GIT_DIR", &self.dir).env("GIT_WORK_TREE", &self.top).args(words);
        if let Some(index) = &self.index {
            command.env("GIT_INDEX_FILE", index);
        }
        run(command, &what, input, &self.scratch, limit)
    }

    /// A `git diff` for the user in this repository, with their pager, colours and terminal. No program from the
    /// repository's config is started: `GIT_PAGER` overrides every configured pager.
    pub(crate) fn diff_for_the_user(&self) -> Command {
        let mut command = program();
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE"] {
            command.env_remove(name);
        }
        let pager = pager_of_the_user(&self.scratch).unwrap_or_else(|| "less".into());
        command.env("GIT_PAGER", pager).env("GIT_NO_LAZY_FETCH", "1").env("GIT_ALLOW_PROTOCOL", NO_PROTOCOL);
        command.args(["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"]);
        command.args(["diff", "--no-ext-diff", "--no-textconv", "--submodule=short"]);
        command.current_dir(&self.root);
        command
    }
}

/// The pager of `git diff` outside any repository: from the user's environment, their config, or git's default.
fn pager_of_the_user(scratch: &Path) -> Option<OsString> {
    let folder = tempfile::Builder::new().prefix("git-").tempdir_in(scratch).ok()?;
    let ask = |words: [&str; 2]| {
        let mut command = program();
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR"] {
            command.env_remove(name);
        }
        command.env("GIT_CEILING_DIRECTORIES", scratch).args(words).current_dir(folder.path());
        let answer = run(command, words[0], None, scratch, Duration::from_secs(10)).ok()?;
        Some(OsStr::from_bytes(answer.trim_ascii_end()).to_owned())
    };
    // This setting may also be a boolean.
    let is_program = |value: &OsString| {
        !["true", "yes", "on", "1", "false", "no", "off", "0", ""].iter().any(|word| value == word)
    };
    let from_environment = env::all().find(|(name, _)| name == "GIT_PAGER").map(|(_, value)| value);
    from_environment
        .or_else(|| ask(["config", "pager.diff"]).filter(is_program))
        .or_else(|| ask(["var", "GIT_PAGER"]))
}

/// Calls git in a folder of our own that may not be a repository yet.
pub(crate) fn call_in(folder: &Path, words: &[&str], limit: Duration) -> Result<Vec<u8>, GitError> {
    let mut command = command(folder);
    command.args(words);
    run(command, words.first().unwrap_or(&""), None, &std::env::temp_dir(), limit)
}

/// The files that a checkout tracks below a folder, with names relative to it, as listed by `git ls-files --stage
/// -z`. The repository is passed explicitly, so that git neither searches for one nor refuses another user's.
pub(crate) fn list_tracked(folder: &Path, checkout: &Checkout, limit: Duration) -> Result<Vec<u8>, GitError> {
    let (Checkout { top, dir }, what) = (checkout, "ls-files");
    if let Some(said) = locate::unusable_file(dir) {
        return Err(GitError::Failed { what: what.into(), code: None, said });
    }
    let mut command = command(folder);
    without_outer_config(&mut command);
    command.env("GIT_DIR", dir).env("GIT_WORK_TREE", top).args([what, "-z", "--stage"]);
    run(command, what, None, &std::env::temp_dir(), limit)
}

/// The lines of the output.
pub(crate) fn lines(answer: &[u8]) -> impl Iterator<Item = &[u8]> {
    answer.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

fn refused(error: GitError) -> NoRepository {
    match error {
        GitError::NotRun(error) if error.kind() == io::ErrorKind::NotFound => NoRepository::NoGit,
        GitError::Failed { said, .. } if said.contains("not a git repository") => NoRepository::NoRepo,
        GitError::Failed { said, .. } if said.contains("must be run in a work tree") => NoRepository::Bare,
        GitError::Failed { said, .. } => NoRepository::Refused(said),
        other => NoRepository::Refused(other.to_string()),
    }
}

/// Git variables that affect how it works, not which repository it uses.
pub(crate) fn may_stay(name: &OsStr) -> bool {
    let name = name.as_bytes();
    !name.starts_with(b"GIT_") || name.starts_with(b"GIT_CONFIG_") || name == b"GIT_EXEC_PATH"
}

#[expect(clippy::disallowed_methods, reason = "this is where git starts")]
fn program() -> Command {
    Command::new("git")
}

fn command(root: &Path) -> Command {
    let mut command = program();
    for (name, _) in env::all().filter(|(name, _)| !may_stay(name)) {
        command.env_remove(name);
    }
    for (name, value) in [("NAME", AUTHOR), ("EMAIL", EMAIL)] {
        command.env(format!("GIT_AUTHOR_{name}"), value).env(format!("GIT_COMMITTER_{name}"), value);
    }
    command.env("GIT_NO_LAZY_FETCH", "1").env("GIT_ALLOW_PROTOCOL", NO_PROTOCOL);
    command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_OPTIONAL_LOCKS", "0").env("LC_ALL", "C");
    command.args(SETTINGS.iter().flat_map(|setting| ["-c", setting])).current_dir(root);
    command
}

/// Disables config from the environment and the system.
fn without_outer_config(command: &mut Command) {
    for (name, _) in env::all().filter(|(name, _)| name.as_bytes().starts_with(b"GIT_CONFIG")) {
        command.env_remove(name);
    }
    command.env("GIT_CONFIG_NOSYSTEM", "1");
}

fn run(
    command: Command,
    what: &str,
    input: Option<&[u8]>,
    scratch: &Path,
    limit: Duration,
) -> Result<Vec<u8>, GitError> {
    match short_command::run(command, input, scratch, limit).map_err(GitError::NotRun)? {
        None => Err(GitError::TookTooLong { what: what.into(), after: limit }),
        Some(answer) if answer.status.success() => Ok(answer.stdout),
        Some(answer) => {
            let said = describe_failure(&answer.stderr, answer.status);
            Err(GitError::Failed { what: what.into(), code: answer.status.code(), said })
        }
    }
}

/// The last lines of git's messages, which contain the reason, on one line.
fn describe_failure(said: &[u8], status: ExitStatus) -> String {
    let said = String::from_utf8_lossy(said);
    let informative = |line: &&str| !line.starts_with("hint:") && !line.starts_with("warning:");
    let lines: Vec<&str> =
        said.lines().map(str::trim).filter(|line| !line.is_empty()).filter(informative).collect();
    let last = &lines[lines.len().saturating_sub(3)..];
    match (last, status.signal()) {
        ([], Some(signal)) => format!("was killed by signal {signal}"),
        ([], None) => format!("failed with exit code {}", status.code().unwrap_or_default()),
        (last, _) => last.join("; "),
    }
}

/// A path printed by git.
pub(crate) fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}
