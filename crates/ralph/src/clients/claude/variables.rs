//! The variables of Claude Code.

use std::path::PathBuf;

use crate::clients::client::Variables;
use crate::sys::env;

const PROJECT_DIR: &str = "CLAUDE_PROJECT_DIR";
const SESSION: &str = "CLAUDE_CODE_SESSION_ID";
const PROCESS: &str = "CLAUDE_PID";
const PLUGIN_ROOT: &str = "CLAUDE_PLUGIN_ROOT";

pub(super) const SHELL_MARK: &str = "CLAUDECODE";
pub(super) const ENTRYPOINT: &str = "CLAUDE_CODE_ENTRYPOINT";

/// Sets the client's own cap on consecutive blocks.
pub(super) const BLOCK_CAP: &str = "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP";

pub(super) const VARIABLES: Variables = Variables {
    project_dir: Some(PROJECT_DIR),
    session: Some(SESSION),
    process: Some(PROCESS),
    plugin_root: Some(PLUGIN_ROOT),
    shell_marks: &[SHELL_MARK],
    session_marks: &[SHELL_MARK, SESSION, ENTRYPOINT, PROCESS, PROJECT_DIR, PLUGIN_ROOT],
    prefixes: &["CLAUDE", "ANTHROPIC_"],
};

/// The folder of the client's user settings.
pub(super) fn config_dir() -> Option<PathBuf> {
    env::path_in("CLAUDE_CONFIG_DIR").or_else(|| Some(env::home()?.join(".claude")))
}
