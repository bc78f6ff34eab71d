//! The real clients that the driver can run as its agent, installed once, each with a home in which it knows only one
//! model.
//!
//! They exist because a profile of the driver describes a client's flags, its stdin and its stream, and only the
//! real client can confirm it. A client is a row here: its package, its service, what it needs in its home and how
//! a scripted model makes it act.
//!
//! Guarantees: one pinned version each; a dummy key; every address in the client's config is on loopback.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs, io};

use serde_json::json;

use crate::npm_install::Package;
use crate::real_claude::{CLAUDE_CODE, QUIET_CLAUDE};
use crate::real_codex::CODEX;
use crate::real_copilot::COPILOT;
use crate::real_gemini::GEMINI;
use crate::real_opencode::OPENCODE;
use crate::scripted_model::{Api, Script, ScriptedModel, Turn};

/// Where the system's programs are, for a hermetic run.
pub(crate) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The specifics of one client.
#[derive(Debug)]
pub(crate) struct Row {
    /// Its name in the driver.
    pub(crate) name: &'static str,
    pub(crate) package: &'static Package,
    pub(crate) api: Api,
    /// Sets up the client's home in a folder, and returns the variables that it needs.
    pub(crate) settle: fn(home: &Path, model: &ScriptedModel) -> io::Result<ClientVariables>,
    /// Makes it run a command in its shell.
    pub(crate) shell: fn(command: &str) -> Turn,
    /// Makes it write a new file of one line with its own file tool.
    pub(crate) write: fn(path: &Path, line: &str) -> Turn,
    proven: OnceLock<PathBuf>,
}

pub(crate) type ClientVariables = Vec<(&'static str, String)>;

static CLAUDE_ROW: Row = Row {
    name: "claude",
    package: &CLAUDE_CODE,
    api: Api::Messages,
    settle: |_, model| {
        let own = [("ANTHROPIC_API_KEY", "dummy".to_owned()), ("ANTHROPIC_BASE_URL", model.base_url())];
        let quiet = QUIET_CLAUDE.map(|(name, value)| (name, value.to_owned()));
        Ok(own.into_iter().chain(quiet).collect())
    },
    shell: |command| Turn::tool("Bash", json!({"command": command, "description": "A scripted command"})),
    write: |path, line| Turn::tool("Write", json!({"file_path": path, "content": format!("{line}\n")})),
    proven: OnceLock::new(),
};

static CODEX_ROW: Row = Row {
    name: "codex",
    package: &CODEX,
    api: Api::Responses,
    settle: crate::real_codex::settle,
    shell: |command| Turn::tool("exec_command", json!({"cmd": command})),
    write: crate::real_codex::write,
    proven: OnceLock::new(),
};

static GEMINI_ROW: Row = Row {
    name: "gemini",
    package: &GEMINI,
    api: Api::Gemini,
    settle: crate::real_gemini::settle,
    shell: |command| Turn::tool("run_shell_command", json!({"command": command})),
    write: |path, line| Turn::tool("write_file", json!({"file_path": path, "content": format!("{line}\n")})),
    proven: OnceLock::new(),
};

static COPILOT_ROW: Row = Row {
    name: "copilot",
    package: &COPILOT,
    api: Api::Chat,
    settle: crate::real_copilot::settle,
    shell: |command| Turn::tool("bash", json!({"command": command, "description": "A scripted command"})),
    write: |path, line| Turn::tool("create", json!({"path": path, "file_text": format!("{line}\n")})),
    proven: OnceLock::new(),
};

static OPENCODE_ROW: Row = Row {
    name: "opencode",
    package: &OPENCODE,
    api: Api::Chat,
    settle: crate::real_opencode::settle,
    shell: |command| Turn::tool("bash", json!({"command": command, "description": "A scripted command"})),
    write: |path, line| Turn::tool("write", json!({"filePath": path, "content": format!("{line}\n")})),
    proven: OnceLock::new(),
};

/// A client that the driver can run, installed and checked to start.
#[derive(Clone, Debug)]
pub struct AgentClient {
    row: &'static Row,
    program: PathBuf,
}

impl AgentClient {
    /// Claude Code, for a test.
    ///
    /// # Panics
    ///
    /// When it cannot be installed: a test that cannot run has not passed. The same applies to the others.
    #[track_caller]
    pub fn claude() -> Self {
        Self::for_test(&CLAUDE_ROW)
    }

    /// Codex, in the folder `codex-VERSION` of the cache that [`Claude`](crate::Claude) uses.
    #[track_caller]
    pub fn codex() -> Self {
        Self::for_test(&CODEX_ROW)
    }

    /// Gemini CLI, in the folder `gemini-cli-VERSION` of that cache.
    #[track_caller]
    pub fn gemini() -> Self {
        Self::for_test(&GEMINI_ROW)
    }

    /// Copilot CLI, in the folder `copilot-VERSION` of that cache.
    #[track_caller]
    pub fn copilot() -> Self {
        Self::for_test(&COPILOT_ROW)
    }

    /// OpenCode, in the folder `opencode-VERSION` of that cache.
    #[track_caller]
    pub fn opencode() -> Self {
        Self::for_test(&OPENCODE_ROW)
    }

    #[track_caller]
    fn for_test(row: &'static Row) -> Self {
        let program = row.package.installed(&row.proven).unwrap_or_else(|error| panic!("{error}"));
        Self { row, program }
    }

    /// Its name in the driver.
    pub fn name(&self) -> &'static str {
        self.row.name
    }

    /// Starts a model with this client's API.
    pub fn model(&self, script: Script) -> io::Result<ScriptedModel> {
        ScriptedModel::start_as(self.row.api, script)
    }

    /// A turn in which it runs `command` in its shell.
    pub fn shell(&self, command: &str) -> Turn {
        (self.row.shell)(command)
    }

    /// A turn in which it creates the file `path` with one line in it, by its own file tool.
    pub fn write(&self, path: &Path, line: &str) -> Turn {
        (self.row.write)(path, line)
    }

    /// The whole environment of a program that runs this client by its name: the client is found on the `PATH`, has its
    /// home in `home`, and uses only `model`.
    ///
    /// # Panics
    ///
    /// When `home` is not writable.
    #[track_caller]
    pub fn environment(&self, home: &Path, model: &ScriptedModel) -> Vec<(String, OsString)> {
        let settled = (self.row.settle)(home, model);
        let settled = settled.unwrap_or_else(|error| panic!("cannot write into {}: {error}", home.display()));
        let own = settled.into_iter().map(|(name, value)| (name.to_owned(), OsString::from(value)));
        let folder = self.program.parent().map(Path::to_path_buf);
        [("PATH".to_owned(), search_path(folder)), ("HOME".to_owned(), home.into())]
            .into_iter()
            .chain(
                [("LANG", "C.UTF-8"), ("TERM", "dumb")].map(|(name, value)| (name.to_owned(), value.into())),
            )
            .chain(own)
            .collect()
    }
}

/// Where a program of `folder`, its interpreter and the system's own programs are.
pub(crate) fn search_path(folder: Option<PathBuf>) -> OsString {
    let folders = folder.into_iter().chain(folder_of_node()).chain(env::split_paths(PATH));
    env::join_paths(folders).expect("folders that came from a PATH or have no colon")
}

/// Node.js need not be where the system's programs are.
pub(crate) fn folder_of_node() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).find(|folder| folder.is_absolute() && folder.join("node").is_file())
}

/// A client with a clean environment, to ask for its version.
pub(crate) fn hermetic(program: &Path, home: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", search_path(None))
        .env("HOME", home)
        .env("LANG", "C.UTF-8")
        .env("TERM", "dumb");
    command
}

/// Writes a file of a client's home, with its folders.
pub(crate) fn write_into(home: &Path, relative: &str, text: &str) -> io::Result<()> {
    let path = home.join(relative);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, text)
}
