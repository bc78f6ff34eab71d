//! Adds our hook to a client's settings and removes it again, without losing existing content.
//!
//! The previous and the written text are stored outside the repo. Uninstalling restores the old bytes if the file is
//! unchanged, else it removes exactly our entries.

use std::path::{Path, PathBuf};
use std::{fs, io};

use ralph_core::model::gate::Gate;
use ralph_core::model::id::Digest;
use serde::{Deserialize, Serialize};

use crate::store::home::RepoHome;
use crate::sys::files;

/// Removes our entries from a settings file, given its text and the previous text; `None` if there are none.
type RemoveEntries = fn(&str, Option<&str>) -> Option<String>;

/// What was written into the repo, for uninstalling it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Installed {
    #[serde(default)]
    files: Vec<WrittenFile>,
}

#[derive(Debug, Serialize, Deserialize)]
struct WrittenFile {
    /// Relative to the repo root.
    path: PathBuf,
    /// The previous text; `None` if there was no file.
    before: Option<String>,
    after: Digest,
}

impl Installed {
    pub(crate) fn load(home: &RepoHome) -> io::Result<Self> {
        let text = files::read_if_there(&home.install_record())?.unwrap_or_default();
        Ok(serde_json::from_slice(&text).unwrap_or_default())
    }

    fn save(&self, home: &RepoHome) -> io::Result<()> {
        home.create()?;
        files::replace(&home.install_record(), &serde_json::to_vec(self).map_err(io::Error::other)?)
    }

    /// Writes a file of the repo, and records what it replaces.
    pub(crate) fn write(
        &mut self,
        home: &RepoHome,
        root: &Path,
        (path, text): (&str, &str),
        take_out: RemoveEntries,
    ) -> io::Result<()> {
        let full = root.join(path);
        if !files::lies_below(&full, root) {
            let what = format!("{}: a symbolic link leads out of the project", full.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let now = read_text(&full)?;
        let ours = self.files.iter().position(|file| file.path == Path::new(path));
        let before = match (ours.map(|at| self.files.swap_remove(at)), now) {
            // Written by us and unchanged since: the recorded text is still the previous one.
            (Some(file), Some(now)) if Digest::of(&now) == file.after => file.before,
            // Changed since: the previous text is the current one without our entries.
            (Some(file), Some(now)) => Some(take_out(&now, file.before.as_deref()).unwrap_or(now)),
            (_, now) => now,
        };
        self.files.push(WrittenFile { path: path.into(), before, after: Digest::of(text) });
        // Recorded first: a file without a record could not be uninstalled.
        self.save(home)?;
        if let Some(folder) = full.parent() {
            fs::create_dir_all(folder)?;
        }
        replace_keeping_mode(&full, text)
    }

    /// Whether we wrote this file and it is unchanged.
    pub(crate) fn is_as_we_wrote_it(&self, root: &Path, path: &str) -> bool {
        let written = self.files.iter().find(|file| file.path == Path::new(path));
        let now = read_text(&root.join(path)).ok().flatten();
        written.zip(now).is_some_and(|(file, now)| Digest::of(now) == file.after)
    }

    /// Restores everything; returns the result for each file.
    pub(crate) fn undo(
        &mut self,
        home: &RepoHome,
        root: &Path,
        take_out: RemoveEntries,
    ) -> io::Result<Vec<(PathBuf, Uninstalled)>> {
        let mut warned = Vec::new();
        for file in std::mem::take(&mut self.files) {
            let undone = undo_one(&root.join(&file.path), &file, take_out)?;
            if undone == Uninstalled::Removed {
                remove_empty_folders(root, &file.path);
            }
            warned.push((file.path, undone));
        }
        self.save(home)?;
        Ok(warned)
    }
}

/// The result for a file that is uninstalled.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Uninstalled {
    PutBack,
    Removed,
    /// It was changed since; only our entries were removed.
    EntriesTakenOut,
    /// It was changed since, and is kept.
    LeftAsItIs,
    GoneAlready,
}

fn undo_one(path: &Path, file: &WrittenFile, take_out: RemoveEntries) -> io::Result<Uninstalled> {
    let Some(now) = read_text(path)? else { return Ok(Uninstalled::GoneAlready) };
    let untouched = Digest::of(&now) == file.after;
    match (&file.before, untouched) {
        (Some(before), true) => {
            replace_keeping_mode(path, before)?;
            Ok(Uninstalled::PutBack)
        }
        (None, true) => {
            fs::remove_file(path)?;
            Ok(Uninstalled::Removed)
        }
        (before, false) => match take_out(&now, before.as_deref()) {
            Some(rest) => {
                replace_keeping_mode(path, &rest)?;
                Ok(Uninstalled::EntriesTakenOut)
            }
            None => Ok(Uninstalled::LeftAsItIs),
        },
    }
}

/// Removes the empty folders of a removed file.
fn remove_empty_folders(root: &Path, path: &Path) {
    let folders = path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    for folder in folders {
        if fs::remove_dir(root.join(folder)).is_err() {
            return;
        }
    }
}

fn read_text(path: &Path) -> io::Result<Option<String>> {
    let Some(bytes) = files::read_if_there(path)? else { return Ok(None) };
    let not_text = || io::Error::new(io::ErrorKind::InvalidData, format!("{} is not text", path.display()));
    String::from_utf8(bytes).map(Some).map_err(|_| not_text())
}

/// Replaces a user's file, keeping its mode.
fn replace_keeping_mode(path: &Path, text: &str) -> io::Result<()> {
    let mode = fs::metadata(path).map(|meta| meta.permissions()).ok();
    files::replace(path, text.as_bytes())?;
    let plain = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    fs::set_permissions(path, mode.unwrap_or(plain))
}

/// How long the client waits for the hook, and the hook's own deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timeouts {
    pub(crate) client: u64,
    pub(crate) deadline: u64,
}

impl Timeouts {
    /// The sum of all gate timeouts plus a minute, between ten minutes and an hour; our own deadline is earlier.
    pub(crate) fn for_gates(gates: &[Gate]) -> Self {
        let client = (longest(gates) + 60).clamp(600, 3600);
        Self { client, deadline: client - 30 }
    }

    /// A warning if the timeouts of the gates add up to more than the hook's deadline.
    pub(crate) fn warning(gates: &[Gate], deadline: u64) -> Option<String> {
        let longest = longest(gates);
        (longest > deadline).then(|| {
            format!(
                "the timeouts of the gates add up to {longest} s, more than the hook's deadline of {deadline} s: a stop \
                 whose gates do not finish before it is allowed UNVERIFIED. Lower their `timeout`, or use `ralph loop`, \
                 which has no deadline"
            )
        })
    }
}

/// The sum of all gate timeouts, in seconds.
fn longest(gates: &[Gate]) -> u64 {
    gates.iter().map(|gate| gate.timeout.as_secs() * u64::from(gate.retries + 1)).sum()
}

#[cfg(test)]
mod tests {
    use ralph_core::config::{Config, Defaults};
    use ralph_core::model::layout::Layout;

    use super::*;

    #[test]
    fn the_client_timeout_covers_all_gates_within_bounds() {
        let timeouts = |text: &str| {
            let config = Config::parse(text, Layout::Native, &Defaults::default()).expect("valid");
            let Timeouts { client, deadline } = Timeouts::for_gates(&config.gates);
            (client, deadline)
        };
        assert_eq!(timeouts("verify: [a]"), (600, 570));
        assert_eq!(timeouts("verify: [{run: a, timeout: 10m}, {run: b, timeout: 5m}]"), (960, 930));
        assert_eq!(timeouts("verify: [{run: a, timeout: 5h}]"), (3600, 3570));
        let warning = |text: &str| {
            let config = Config::parse(text, Layout::Native, &Defaults::default()).expect("valid");
            Timeouts::warning(&config.gates, Timeouts::for_gates(&config.gates).deadline)
        };
        assert_eq!(warning("verify: [{run: a, timeout: 59m}]"), None);
        let warned = warning("verify: [{run: a, timeout: 30m, retries: 1}]").expect("a warning");
        assert!(warned.contains("3600 s") && warned.contains("3570 s"), "{warned}");
    }
}
