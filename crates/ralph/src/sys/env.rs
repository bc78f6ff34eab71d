//! Where environment variables are read, and every one of our own and of the system.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `RALPH_HOME` | where ledgers, receipts and trust are kept; `~/.ralph` where it is not set |
//! | `RALPH_GATE_TIMEOUT` | time-out of gates that have none of their own |
//! | `RALPH_LOOP` | set by us for the agent that the driver runs: repo and loop |
//! | `HOME`, `XDG_CONFIG_HOME` | where the person's own files are |
//! | `RALPH_LANG`, `LC_ALL`, `LC_MESSAGES`, `LANG` | the language of what people read about a loop |
//! | `PATH` | where `openspec`, `semgrep` and language servers are looked for |
//! | `TZ` | the zone of times that people read, where it is not the system's own |
//! | `GIT_CONFIG_GLOBAL`, `GIT_CONFIG_SYSTEM` | other files in place of a person's own settings of git |
//! | `TERM` | `dumb`: a terminal on which nothing can be drawn |
//!
//! What an agent client sets is named where everything of that client is, in `clients/`, and read by that name.
//!
//! Set for others, and never read from our own environment: `INVOCATION_ID`, the mark of a run (`proc/descendants.rs`). A gate
//! gets no variable that names ralph.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

pub(crate) const LOOP: &str = "RALPH_LOOP";

#[expect(clippy::disallowed_methods, reason = "this is where variables are read")]
fn read(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// A variable of a client, by the name that the client gives.
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

/// The repo and the loop whose driver runs us, at some distance.
pub(crate) fn driven_loop() -> Option<String> {
    text(LOOP)
}

pub(crate) fn is_set(name: &str) -> bool {
    read(name).is_some()
}

/// Whether a program of that name, or at that path as seen from `folder`, can be run.
pub(crate) fn is_program(name: &str, folder: &Path) -> bool {
    let is_there = |path: PathBuf| {
        path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return is_there(folder.join(name));
    }
    std::env::split_paths(&path()).any(|dir| is_there(dir.join(name)))
}

/// A folder that a client names.
pub(crate) fn path_in(name: &str) -> Option<PathBuf> {
    read(name).map(PathBuf::from)
}

/// The language that the person reads: our own variable, then the system's.
pub(crate) fn languages() -> (Option<String>, Option<String>) {
    let system = ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().find_map(text);
    (text("RALPH_LANG"), system)
}

pub(crate) fn path() -> OsString {
    read("PATH").unwrap_or_default()
}

/// A terminal that only takes lines.
pub(crate) fn is_dumb_terminal() -> bool {
    read("TERM").is_none_or(|term| term == "dumb")
}

/// The person's home folder: `HOME`, else what the user database says.
pub(crate) fn home() -> Option<PathBuf> {
    read("HOME").map(PathBuf::from).or_else(home_of_user)
}

pub(crate) fn user_config() -> Option<PathBuf> {
    config_home().map(|base| base.join("ralph/config.yaml"))
}

fn config_home() -> Option<PathBuf> {
    read("XDG_CONFIG_HOME").map(PathBuf::from).or_else(|| Some(home()?.join(".config")))
}

fn home_of_user() -> Option<PathBuf> {
    let uid = rustix::process::getuid().as_raw().to_string();
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let user = fields.into_iter().find(|fields| fields.get(2) == Some(&uid.as_str()))?;
    user.get(5).filter(|home| !home.is_empty()).map(PathBuf::from)
}
