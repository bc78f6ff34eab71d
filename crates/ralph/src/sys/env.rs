//! The only module that reads environment variables. It lists ralph's own and those of the system.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `RALPH_HOME` | folder of ledgers, receipts and trust; default `~/.ralph` |
//! | `RALPH_GATE_TIMEOUT` | timeout of gates without their own |
//! | `RALPH_LOOP` | set by ralph for the agent that the driver runs: repo and loop |
//! | `HOME`, `XDG_CONFIG_HOME`, `XDG_STATE_HOME` | location of the user's own files |
//! | `RALPH_LANG`, `LC_ALL`, `LC_MESSAGES`, `LANG` | language of messages to the user |
//! | `PATH` | searched for `openspec`, `semgrep` and language servers |
//! | `TZ` | time zone of displayed times; default: the system's |
//! | `GIT_CONFIG_GLOBAL`, `GIT_CONFIG_SYSTEM` | replace the user's git config files |
//! | `TERM` | `dumb`: a terminal without cursor control |
//!
//! Variables set by an agent client are named in `clients/` and read by that name.
//!
//! Set for child processes, never read from our own environment: `INVOCATION_ID`, the marker of a run
//! (`proc/descendants.rs`). Gates get no variable that names ralph.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

pub(crate) const LOOP: &str = "RALPH_LOOP";

#[expect(clippy::disallowed_methods, reason = "this is where variables are read")]
fn read(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// A variable set by a client.
pub(crate) fn text(name: &str) -> Option<String> {
    read(name)?.into_string().ok()
}

#[expect(clippy::disallowed_methods, reason = "this is where variables are read")]
pub(crate) fn all() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os()
}

pub(crate) fn ralph_home() -> Option<PathBuf> {
    read("RALPH_HOME").map(PathBuf::from)
}

pub(crate) fn gate_timeout() -> Option<String> {
    text("RALPH_GATE_TIMEOUT")
}

/// The repo and the loop of the driver among our ancestors.
pub(crate) fn driven_loop() -> Option<String> {
    text(LOOP)
}

pub(crate) fn is_set(name: &str) -> bool {
    read(name).is_some()
}

/// Whether a program of that name, or at that path relative to `folder`, is executable.
pub(crate) fn is_program(name: &str, folder: &Path) -> bool {
    let is_there = |path: PathBuf| {
        path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return is_there(folder.join(name));
    }
    std::env::split_paths(&path()).any(|dir| is_there(dir.join(name)))
}

/// A folder that a client sets in a variable.
pub(crate) fn path_in(name: &str) -> Option<PathBuf> {
    read(name).map(PathBuf::from)
}

/// The user's languages: our own variable, then the system's.
pub(crate) fn languages() -> (Option<String>, Option<String>) {
    let system = ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().find_map(text);
    (text("RALPH_LANG"), system)
}

pub(crate) fn path() -> OsString {
    read("PATH").unwrap_or_default()
}

/// A terminal without cursor control.
pub(crate) fn is_dumb_terminal() -> bool {
    read("TERM").is_none_or(|term| term == "dumb")
}

/// The user's home folder: `HOME`, else from the user database.
pub(crate) fn home() -> Option<PathBuf> {
    read("HOME").map(PathBuf::from).or_else(home_of_user)
}

pub(crate) fn user_config() -> Option<PathBuf> {
    config_home().map(|base| base.join("ralph/config.yaml"))
}

fn config_home() -> Option<PathBuf> {
    read("XDG_CONFIG_HOME").map(PathBuf::from).or_else(|| Some(home()?.join(".config")))
}

/// Where programs keep state that is not worth a backup.
pub(crate) fn state_home() -> Option<PathBuf> {
    let given = read("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    given.or_else(|| Some(home()?.join(".local/state")))
}

fn home_of_user() -> Option<PathBuf> {
    let uid = rustix::process::getuid().as_raw().to_string();
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let user = fields.into_iter().find(|fields| fields.get(2) == Some(&uid.as_str()))?;
    user.get(5).filter(|home| !home.is_empty()).map(PathBuf::from)
}
