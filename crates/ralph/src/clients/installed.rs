//! Putting our hook into a client's settings and taking it out again, without losing anything that is there.
//!
//! What was there before and what we wrote is remembered outside the repo. Where nothing else changed, taking out gives
//! the old bytes back; where somebody edited the file since, exactly our entries go.

use std::path::{Path, PathBuf};
use std::{fs, io};

use ralph_core::model::gate::Gate;
use ralph_core::model::id::Digest;
use serde::{Deserialize, Serialize};

use crate::store::home::RepoHome;
use crate::sys::files;

/// Takes our entries out of a settings file, given its text and what was there before us; none where there are none.
type TakeOut = fn(&str, Option<&str>) -> Option<String>;

/// What was written into the repo, for taking it out again.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Installed {
    #[serde(default)]
    files: Vec<WrittenFile>,
}

#[derive(Debug, Serialize, Deserialize)]
struct WrittenFile {
    /// From the repo root.
    path: PathBuf,
    /// The text that was there before us; none where there was no file.
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

    /// Writes a file of the repo, remembering what it replaces.
    pub(crate) fn write(
        &mut self,
        home: &RepoHome,
        root: &Path,
        (path, text): (&str, &str),
        take_out: TakeOut,
    ) -> io::Result<()> {
        let full = root.join(path);
        if !files::lies_below(&full, root) {
            let what = format!("{}: a link leads out of the project", full.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let now = read_text(&full)?;
        let ours = self.files.iter().position(|file| file.path == Path::new(path));
        let before = match (ours.map(|at| self.files.swap_remove(at)), now) {
            // Written by us and untouched since: what was there first is still what was there before.
            (Some(file), Some(now)) if Digest::of(&now) == file.after => file.before,
            // Somebody changed it since: what is theirs is what is there without ours.
            (Some(file), Some(now)) => Some(take_out(&now, file.before.as_deref()).unwrap_or(now)),
            (_, now) => now,
        };
        self.files.push(WrittenFile { path: path.into(), before, after: Digest::of(text) });
        // First the memory of it: a file that we do not remember could not be taken out again.
        self.save(home)?;
        if let Some(folder) = full.parent() {
            fs::create_dir_all(folder)?;
        }
        replace_keeping_mode(&full, text)
    }

    /// Whether we wrote this file and nobody changed it since.
    pub(crate) fn is_as_we_wrote_it(&self, root: &Path, path: &str) -> bool {
        let written = self.files.iter().find(|file| file.path == Path::new(path));
        let now = read_text(&root.join(path)).ok().flatten();
        written.zip(now).is_some_and(|(file, now)| Digest::of(now) == file.after)
    }

    /// Puts everything back; tells of each file what became of it.
    pub(crate) fn undo(
        &mut self,
        home: &RepoHome,
        root: &Path,
        take_out: TakeOut,
    ) -> io::Result<Vec<(PathBuf, Undone)>> {
        let mut told = Vec::new();
        for file in std::mem::take(&mut self.files) {
            let undone = undo_one(&root.join(&file.path), &file, take_out)?;
            if undone == Undone::Removed {
                remove_empty_folders(root, &file.path);
            }
            told.push((file.path, undone));
        }
        self.save(home)?;
        Ok(told)
    }
}

/// What became of a file that is taken out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Undone {
    PutBack,
    Removed,
    /// Somebody changed it since; only our entries went.
    EntriesTakenOut,
    /// Somebody changed it since, and it is theirs now.
    LeftAsItIs,
    GoneAlready,
}

fn undo_one(path: &Path, file: &WrittenFile, take_out: TakeOut) -> io::Result<Undone> {
    let Some(now) = read_text(path)? else { return Ok(Undone::GoneAlready) };
    let untouched = Digest::of(&now) == file.after;
    match (&file.before, untouched) {
        (Some(before), true) => {
            replace_keeping_mode(path, before)?;
            Ok(Undone::PutBack)
        }
        (None, true) => {
            fs::remove_file(path)?;
            Ok(Undone::Removed)
        }
        (before, false) => match take_out(&now, before.as_deref()) {
            Some(rest) => {
                replace_keeping_mode(path, &rest)?;
                Ok(Undone::EntriesTakenOut)
            }
            None => Ok(Undone::LeftAsItIs),
        },
    }
}

/// The folders of a file that is gone go too, where we made them: only an empty one can be removed.
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

/// Replaces a file of the person's, whose mode is theirs to choose.
fn replace_keeping_mode(path: &Path, text: &str) -> io::Result<()> {
    let mode = fs::metadata(path).map(|meta| meta.permissions()).ok();
    files::replace(path, text.as_bytes())?;
    let plain = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    fs::set_permissions(path, mode.unwrap_or(plain))
}

/// How long the client waits for the hook, and how long the hook takes at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timeouts {
    pub(crate) client: u64,
    pub(crate) deadline: u64,
}

impl Timeouts {
    /// All gates one after the other and a minute, at least ten minutes, at most an hour; our own deadline is earlier.
    pub(crate) fn for_gates(gates: &[Gate]) -> Self {
        let client = (longest(gates) + 60).clamp(600, 3600);
        Self { client, deadline: client - 30 }
    }

    /// What to tell the user where the time-outs of the gates add up to more than the hook's deadline.
    pub(crate) fn warning(gates: &[Gate], deadline: u64) -> Option<String> {
        let longest = longest(gates);
        (longest > deadline).then(|| {
            format!(
                "the time-outs of the gates add up to {longest} s, more than the hook's deadline of {deadline} s: a stop \
                 whose gates do not finish before it is allowed UNVERIFIED. Lower their `timeout`, or use `ralph loop`, \
                 which has no deadline"
            )
        })
    }
}

/// What the gates may take together, in seconds.
fn longest(gates: &[Gate]) -> u64 {
    gates.iter().map(|gate| gate.timeout.as_secs() * u64::from(gate.retries + 1)).sum()
}

#[cfg(test)]
mod tests {
    use ralph_core::config::{Config, Defaults};
    use ralph_core::model::layout::Layout;

    use super::*;

    #[test]
    fn the_clients_time_out_fits_all_gates_within_bounds() {
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
        let told = warning("verify: [{run: a, timeout: 30m, retries: 1}]").expect("a warning");
        assert!(told.contains("3600 s") && told.contains("3570 s"), "{told}");
    }
}
