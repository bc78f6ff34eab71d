//! OpenSpec's folders in a repo: lists changes, locates a change's tasks, and archives a finished change. A change is moved
//! completely or not at all, and never onto an existing folder.

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
use crate::sys::proc::{self, Job, Program, ShutdownRules, StopRequest, Termination};

const CHANGES: &str = "openspec/changes";

/// Where the `openspec` command archives a change, as DATE-ID.
const ARCHIVE_OF_COMMAND: &str = "openspec/changes/archive";

/// Where ralph archives it without that command.
const ARCHIVE: &str = "openspec/archive";

/// The names of all changes, sorted; empty if the repo has no OpenSpec.
pub(crate) fn changes(root: &Path) -> io::Result<Vec<String>> {
    let mut names = folders(root, CHANGES)?;
    names.retain(|name| name != "archive" && is_name(name));
    Ok(names)
}

/// The named change, or the only one.
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

/// The change's task list, relative to the repo.
pub(crate) fn tasks_file(change: &str) -> String {
    format!("{CHANGES}/{change}/tasks.md")
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum NoSuchChange {
    #[error("no change found in {CHANGES}")]
    None,
    #[error("several changes found in {CHANGES}; choose one of: {}", listed(there))]
    Several { there: Vec<String> },
    #[error("no change `{wanted}` in {CHANGES}; found: {}", listed(there))]
    NotThere { wanted: String, there: Vec<String> },
    #[error("`{wanted}` is not a valid change name; found in {CHANGES}: {}", listed(there))]
    NotAName { wanted: String, there: Vec<String> },
    #[error("cannot read {CHANGES}: {0}")]
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

/// A name stays in its folder, cannot be parsed as an option, and has no control characters.
fn is_name(text: &str) -> bool {
    let leads_elsewhere = text.contains(['/', '\\']) || text.contains("..");
    let is_deceptive = foreign_text::deceives(text) || text.contains(['\n', '\t']);
    !text.trim().is_empty() && !text.starts_with(['.', '-']) && !leads_elsewhere && !is_deceptive
}

/// The subfolders of a folder of the repo, sorted; links are skipped.
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
    #[error("{0} already exists; move it away first")]
    TargetExists(String),
    #[error("the change could not be moved to {to}: {error}")]
    NotMoved { to: String, error: io::Error },
    #[error("`openspec archive` {how}: {said}")]
    Refused { how: String, said: String },
}

/// Archives a change and returns its new path relative to the repo: with the `openspec` command if installed, which also
/// updates the specs, else by moving the folder. The caller must have checked that its tasks are done: the command runs
/// with `--yes`.
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
        None => move_to_archive(root, &change),
    }
}

/// The `openspec` command in these folders. Relative folders are skipped: they would let the repo supply its own.
fn program_in(path: &OsStr) -> Option<PathBuf> {
    let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    let mut candidates = folders.map(|folder| folder.join("openspec"));
    candidates.find(|file| {
        fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    })
}

/// Always a rename: a folder on another file system is not moved.
fn move_to_archive(root: &Path, change: &str) -> Result<String, ArchiveError> {
    let to = format!("{ARCHIVE}/{change}");
    let target = root.join(&to);
    let moved = || {
        stays_in_repo(root, &target)?;
        fs::create_dir_all(root.join(ARCHIVE))?;
        fs::rename(root.join(CHANGES).join(change), &target)
    };
    // A folder created in the meantime is safe: a rename only replaces an empty one.
    if fs::symlink_metadata(&target).is_ok() {
        return Err(ArchiveError::TargetExists(to));
    }
    match moved() {
        Ok(()) => Ok(to),
        Err(error) => Err(ArchiveError::NotMoved { to, error }),
    }
}

/// One `openspec archive` command.
struct ArchiveCommand<'a> {
    program: PathBuf,
    root: &'a Path,
    change: &'a str,
    environment: &'a [(OsString, OsString)],
}

impl ArchiveCommand<'_> {
    /// The result on disk counts, not the command's output: it moves the folder last.
    fn archive(&self, patience: Duration) -> Result<String, ArchiveError> {
        let before = self.archived()?;
        let (how, said) =
            self.run(patience).map_err(|error| refused(format!("could not be run: {error}"), ""))?;
        let still_there = fs::symlink_metadata(self.root.join(CHANGES).join(self.change)).is_ok();
        let new = self.archived()?.into_iter().find(|name| !before.contains(name));
        match new {
            Some(name) if !still_there => Ok(format!("{ARCHIVE_OF_COMMAND}/{name}")),
            _ => Err(refused(describe_end(&how, patience), &said)),
        }
    }

    fn archived(&self) -> Result<Vec<String>, ArchiveError> {
        let mut names = folders(self.root, ARCHIVE_OF_COMMAND).map_err(NoSuchChange::Unreadable)?;
        let dated = format!("-{}", self.change);
        names.retain(|name| name == self.change || name.ends_with(&dated));
        Ok(names)
    }

    fn run(&self, patience: Duration) -> io::Result<(Termination, String)> {
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
                // Passed by variables, because a path may contain any character.
                command: Program::Shell(r#"exec "$RALPH_OPENSPEC" archive "$RALPH_CHANGE" --yes"#),
                dir: self.root,
                env: &env,
                timeout: patience,
                manners: ShutdownRules::of_a_tool(Duration::from_secs(2)),
                errors_apart: false,
                log: &log.path().join("log"),
                // The folder's name is unique, and so is the run's mark.
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
    let said = if said.trim().is_empty() { "no output" } else { said.trim() };
    ArchiveError::Refused { how, said: said.to_owned() }
}

fn describe_end(how: &Termination, patience: Duration) -> String {
    match how {
        Termination::Exited { code: 0 } | Termination::Leaked { .. } => {
            "left the change where it was".to_owned()
        }
        Termination::Exited { code } => format!("failed with exit code {code}"),
        Termination::Signalled { signal } => format!("was killed by signal {signal}"),
        Termination::TimedOut => format!("timed out after {} s", patience.as_secs()),
        Termination::CouldNotStart { why } => format!("could not be started: {why}"),
        Termination::Stopped => "was stopped".to_owned(),
    }
}

#[cfg(test)]
mod tests;
