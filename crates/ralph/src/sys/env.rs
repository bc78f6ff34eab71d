//! Every environment variable that ralph reads, in one place.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `RALPH_HOME` | where ledgers, receipts and trust are kept; `~/.ralph` where it is not set |
//! | `RALPH_GATE_TIMEOUT` | time-out of gates that have none of their own |
//! | `RALPH_LOOP` | set by us for the agent that the driver runs: repo and loop |
//! | `HOME`, `XDG_CONFIG_HOME` | where the person's own files are |
//! | `CLAUDE_PROJECT_DIR` | the project of the session, set by the client for its hooks |
//! | `CLAUDE_CODE_STOP_HOOK_BLOCK_CAP` | the client's cap on holds in a row |
//! | `CLAUDE_PLUGIN_ROOT` | the plugin whose hook we are called as |
//! | `CLAUDE_PID` | the client's own process, set by the client for its hooks; where it is not set, `ancestry` looks |
//! | `CLAUDE_CONFIG_DIR` | where the client keeps its user's settings; `~/.claude` where it is not set |
//! | `RALPH_LANG`, `LC_ALL`, `LC_MESSAGES`, `LANG` | the language of what people read about a loop |
//! | `PATH` | where `openspec`, `semgrep` and language servers are looked for |
//! | `TZ` | the zone of times that people read, where it is not the system's own |
//! | `GIT_CONFIG_GLOBAL`, `GIT_CONFIG_SYSTEM` | other files in place of a person's own settings of git |
//! | `TERM` | `dumb`: a terminal on which nothing can be drawn |
//! | `CLAUDE_CODE_SESSION_ID` | the session of an agent's shell |
//! | `CLAUDECODE`, `CODEX_…`, `GEMINI_CLI`, `COPILOT_…` | an agent's shell |
//!
//! Set for others, and never read from our own environment: `INVOCATION_ID`, the mark of a run (`proc/descendants.rs`). A gate
//! gets no variable that names ralph.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use ralph_core::model::id::SessionId;

pub(crate) const LOOP: &str = "RALPH_LOOP";

#[expect(clippy::disallowed_methods, reason = "this is where variables are read")]
fn read(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn text(name: &str) -> Option<String> {
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

/// What an agent client sets for everything in one of its sessions: an agent that we run is in none of them.
pub(crate) fn is_mark_of_a_session(name: &OsStr) -> bool {
    const MARKS: [&str; 6] = [
        "CLAUDECODE",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_PID",
        "CLAUDE_PROJECT_DIR",
        "CLAUDE_PLUGIN_ROOT",
    ];
    MARKS.iter().any(|mark| name == *mark)
}

pub(crate) fn claude_project_dir() -> Option<PathBuf> {
    read("CLAUDE_PROJECT_DIR").map(PathBuf::from)
}

/// Where the client keeps what is its person's own.
pub(crate) fn claude_config_dir() -> Option<PathBuf> {
    read("CLAUDE_CONFIG_DIR").map(PathBuf::from).or_else(|| Some(home()?.join(".claude")))
}

/// Set by the client for the hooks of a plugin.
pub(crate) fn plugin_root() -> Option<PathBuf> {
    read("CLAUDE_PLUGIN_ROOT").map(PathBuf::from)
}

/// The process of the client that called us, as it names itself.
pub(crate) fn client_process() -> Option<i32> {
    text("CLAUDE_PID")?.parse().ok()
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

/// The client's cap on holds in a row, where the environment sets it.
pub(crate) fn block_cap() -> Option<u32> {
    text("CLAUDE_CODE_STOP_HOOK_BLOCK_CAP")?.parse().ok()
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

/// The session of the agent client in whose shell we run.
pub(crate) fn agent_session() -> Option<SessionId> {
    text("CLAUDE_CODE_SESSION_ID").map(SessionId::new)
}

/// The agent client in whose shell we run, if the environment says so. Where it says nothing, `ancestry` may know more.
pub(crate) fn agent_shell() -> Option<&'static str> {
    const MARKS: [(&str, &str); 6] = [
        (LOOP, "run by `ralph loop`"),
        ("CLAUDECODE", "claude"),
        ("CODEX_THREAD_ID", "codex"),
        ("CODEX_SANDBOX", "codex"),
        ("GEMINI_CLI", "gemini"),
        ("COPILOT_CLI", "copilot"),
    ];
    MARKS.into_iter().find(|(name, _)| read(name).is_some()).map(|(_, client)| client)
}
