//! OpenSpec's folders in a repo: which changes there are, where a change keeps its tasks, and how a finished one is put
//! away. What is put away is moved whole or not at all, and never onto something else.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_core::model::foreign_text;
use ralph_core::model::secrets::Secrets;
use ralph_core::say::excerpt::excerpt;

use crate::sys::files;
use crate::sys::proc::{self, How, Job, Manners, StopRequest, What};

const CHANGES: &str = "openspec/changes";

/// Where the `openspec` command puts a change away, as DATE-ID.
const ARCHIVE_OF_COMMAND: &str = "openspec/changes/archive";

/// Where we do, without that command.
const ARCHIVE: &str = "openspec/archive";

/// The names of all changes, sorted; none where the repo has no OpenSpec.
pub(crate) fn changes(root: &Path) -> io::Result<Vec<String>> {
    let mut names = folders(root, CHANGES)?;
    names.retain(|name| name != "archive" && is_name(name));
    Ok(names)
}

/// The change that is meant: the one named, or the only one there is.
pub(crate) fn resolve(root: &Path, wanted: Option<&str>) -> Result<String, NoSuchChange> {
    let mut there = changes(root).map_err(NoSuchChange::Unreadable)?;
    match wanted {
        Some(wanted) if !is_name(wanted) => Err(NoSuchChange::NotAName { wanted: shown(wanted), there }),
        Some(wanted) if there.iter().any(|name| name == wanted) => Ok(wanted.to_owned()),
        Some(wanted) => Err(NoSuchChange::NotThere { wanted: shown(wanted), there }),
        None if there.len() > 1 => Err(NoSuchChange::Several { there }),
        None => there.pop().ok_or(NoSuchChange::None),
    }
}

/// The change's list of tasks, relative to the repo.
pub(crate) fn tasks_file(change: &str) -> String {
    format!("{CHANGES}/{change}/tasks.md")
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum NoSuchChange {
    #[error("there is no change in {CHANGES}")]
    None,
    #[error("there are several changes in {CHANGES}, name one of them: {}", listed(there))]
    Several { there: Vec<String> },
    #[error("there is no change `{wanted}` in {CHANGES}; there are: {}", listed(there))]
    NotThere { wanted: String, there: Vec<String> },
    #[error("`{wanted}` is not a name in {CHANGES}; there are: {}", listed(there))]
    NotAName { wanted: String, there: Vec<String> },
    #[error("{CHANGES} cannot be read: {0}")]
    Unreadable(io::Error),
}

fn listed(names: &[String]) -> String {
    const MOST: usize = 20;
    let first: Vec<&str> = names.iter().take(MOST).map(String::as_str).collect();
    match names.len() {
        0 => "none".to_owned(),
        all if all > MOST => format!("{} and {} more", first.join(", "), all - MOST),
        _ => first.join(", "),
    }
}

fn shown(text: &str) -> String {
    text.chars().take(60).flat_map(char::escape_debug).collect()
}

/// A name stays in its folder, is no option to a command, and shows as what it is.
fn is_name(text: &str) -> bool {
    let leads_elsewhere = text.contains(['/', '\\']) || text.contains("..");
    let deceives = foreign_text::deceives(text) || text.contains(['\n', '\t']);
    !text.trim().is_empty() && !text.starts_with(['.', '-']) && !leads_elsewhere && !deceives
}

/// The folders in a folder of the repo, sorted; links are none, wherever they lead.
fn folders(root: &Path, below: &str) -> io::Result<Vec<String>> {
    let folder = root.join(below);
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    stays_in_repo(root, &folder.join("entry"))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            names.extend(entry.file_name().into_string().ok());
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn stays_in_repo(root: &Path, path: &Path) -> io::Result<()> {
    if files::lies_below(path, &fs::canonicalize(root)?) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(path);
    Err(io::Error::new(ErrorKind::InvalidInput, format!("{} leads out of the repo", folder.display())))
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ArchiveError {
    #[error(transparent)]
    NoSuchChange(#[from] NoSuchChange),
    #[error("{0} is there already; move it away first")]
    TargetExists(String),
    #[error("the change could not be moved to {to}: {error}")]
    NotMoved { to: String, error: io::Error },
    #[error("`openspec archive` {how}: {said}")]
    Refused { how: String, said: String },
}

/// Puts a change away and says where to, relative to the repo: by the `openspec` command where the environment has one,
/// for that also folds the change into the specs, else by moving its folder. That its tasks are done is the caller's to
/// know: the command is told not to ask.
pub(crate) fn archive(
    root: &Path,
    change: &str,
    environment: &[(OsString, OsString)],
) -> Result<String, ArchiveError> {
    const PATIENCE: Duration = Duration::from_secs(60);
    let change = resolve(root, Some(change))?;
    let path = environment.iter().find(|(name, _)| name == "PATH");
    match path.and_then(|(_, path)| program_in(path)) {
        Some(program) => ArchiveCommand { program, root, change: &change, environment }.archive(PATIENCE),
        None => move_away(root, &change),
    }
}

/// The `openspec` command in these folders. Relative ones do not count: they would let the repo bring its own.
fn program_in(path: &OsStr) -> Option<PathBuf> {
    let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    let mut candidates = folders.map(|folder| folder.join("openspec"));
    candidates.find(|file| {
        fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    })
}

/// Only ever a rename: a folder that lies on another disk stays where it is.
fn move_away(root: &Path, change: &str) -> Result<String, ArchiveError> {
    let to = format!("{ARCHIVE}/{change}");
    let target = root.join(&to);
    let moved = || {
        stays_in_repo(root, &target)?;
        fs::create_dir_all(root.join(ARCHIVE))?;
        fs::rename(root.join(CHANGES).join(change), &target)
    };
    // What comes there in between is not lost either: a rename replaces no folder but an empty one.
    if fs::symlink_metadata(&target).is_ok() {
        return Err(ArchiveError::TargetExists(to));
    }
    match moved() {
        Ok(()) => Ok(to),
        Err(error) => Err(ArchiveError::NotMoved { to, error }),
    }
}

/// `openspec archive` of one change.
struct ArchiveCommand<'a> {
    program: PathBuf,
    root: &'a Path,
    change: &'a str,
    environment: &'a [(OsString, OsString)],
}

impl ArchiveCommand<'_> {
    /// What the disk says counts, not what the command says: it moves the folder last.
    fn archive(&self, patience: Duration) -> Result<String, ArchiveError> {
        let before = self.archived()?;
        let (how, said) =
            self.run(patience).map_err(|error| refused(format!("could not be run: {error}"), ""))?;
        let still_there = fs::symlink_metadata(self.root.join(CHANGES).join(self.change)).is_ok();
        let new = self.archived()?.into_iter().find(|name| !before.contains(name));
        match new {
            Some(name) if !still_there => Ok(format!("{ARCHIVE_OF_COMMAND}/{name}")),
            _ => Err(refused(in_words(&how, patience), &said)),
        }
    }

    fn archived(&self) -> Result<Vec<String>, ArchiveError> {
        let mut names = folders(self.root, ARCHIVE_OF_COMMAND).map_err(NoSuchChange::Unreadable)?;
        let dated = format!("-{}", self.change);
        names.retain(|name| name == self.change || name.ends_with(&dated));
        Ok(names)
    }

    fn run(&self, patience: Duration) -> io::Result<(How, String)> {
        let log = tempfile::Builder::new().prefix("ralph-openspec-").tempdir()?;
        let ours: [(&str, &OsStr); 8] = [
            ("RALPH_OPENSPEC", self.program.as_os_str()),
            ("RALPH_CHANGE", self.change.as_ref()),
            ("OPENSPEC_TELEMETRY", "0".as_ref()),
            ("OPENSPEC_NO_UPDATE_CHECK", "1".as_ref()),
            ("DO_NOT_TRACK", "1".as_ref()),
            ("CI", "1".as_ref()),
            ("NO_COLOR", "1".as_ref()),
            ("TERM", "dumb".as_ref()),
        ];
        let inherited =
            self.environment.iter().filter(|(name, _)| ours.iter().all(|(own, _)| name != own)).cloned();
        let env: Vec<_> =
            inherited.chain(ours.map(|(name, value)| (name.into(), value.to_owned()))).collect();
        proc::adopt_orphans();
        let ended = proc::run(
            &Job {
                // By variables: a path may have any character in it, and the shell takes them as they are.
                command: What::Shell(r#"exec "$RALPH_OPENSPEC" archive "$RALPH_CHANGE" --yes"#),
                dir: self.root,
                env: &env,
                timeout: patience,
                manners: Manners::of_a_tool(Duration::from_secs(2)),
                errors_apart: false,
                log: &log.path().join("log"),
                // The folder's name is like no other, so the run's mark is.
                marker: &log.path().file_name().unwrap_or_default().to_string_lossy(),
            },
            &StopRequest::new(),
        );
        let texts = env.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
        let secrets = Secrets::from_variables(texts.collect::<Vec<_>>());
        let output = [ended.output.head, ended.output.tail].concat();
        Ok((ended.how, excerpt(&foreign_text::clean_for_agent(&output, &secrets), 600)))
    }
}

fn refused(how: String, said: &str) -> ArchiveError {
    let said = if said.trim().is_empty() { "it said nothing" } else { said.trim() };
    ArchiveError::Refused { how, said: said.to_owned() }
}

fn in_words(how: &How, patience: Duration) -> String {
    match how {
        How::Exited { code: 0 } | How::Leaked { .. } => "left the change where it was".to_owned(),
        How::Exited { code } => format!("failed with exit code {code}"),
        How::Signalled { signal } => format!("was ended by signal {signal}"),
        How::TimedOut => format!("took longer than {} s", patience.as_secs()),
        How::CouldNotStart { why } => format!("could not be started: {why}"),
        How::Stopped => "was stopped".to_owned(),
    }
}

#[cfg(test)]
mod tests;
