//! The real OpenSpec command, installed once and run hermetically.
//!
//! It exists because the command defines what a change is: how it lays a change out, counts its tasks and archives
//! it is taken from the program, not from its documentation.
//!
//! Guarantees: one pinned version, no telemetry, no prompts, a home directory chosen by the caller.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use crate::npm_install::{InstallError, Package};
use crate::real_agent::{folder_of_node, hermetic};

/// The one version that the tests support.
pub const OPENSPEC_VERSION: &str = "1.13.2";

const OPENSPEC: Package = Package {
    title: "OpenSpec",
    name: "@fission-ai/openspec",
    version: OPENSPEC_VERSION,
    folder: "openspec",
    needs: "Node.js 20.19 or newer and npm",
    programs: |modules| vec![modules.join(".bin/openspec")],
    start: quiet,
};

/// The installed command, checked to start.
#[derive(Debug, Clone)]
pub struct OpenSpec {
    program: PathBuf,
}

impl OpenSpec {
    /// The pinned version, in the folder `openspec-VERSION` of the cache that [`Claude`](crate::Claude) uses.
    pub fn installed() -> Result<Self, InstallError> {
        static PROVEN: OnceLock<PathBuf> = OnceLock::new();
        OPENSPEC.installed(&PROVEN).map(|program| Self { program })
    }

    /// The command that a test needs.
    ///
    /// # Panics
    ///
    /// When it cannot be installed: a test that cannot run has not passed.
    #[track_caller]
    pub fn for_test() -> Self {
        Self::installed().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Runs it in `project`, with `home` as its home directory.
    ///
    /// # Panics
    ///
    /// When it cannot be started; its exit status is in the output.
    #[track_caller]
    pub fn run(&self, project: &Path, home: &Path, arguments: &[&str]) -> Output {
        let mut command = quiet(&self.program, home);
        let output = command.args(arguments).current_dir(project).stdin(Stdio::null()).output();
        output.unwrap_or_else(|error| panic!("cannot run {}: {error}", self.program.display()))
    }

    /// The folders that another program needs on its `PATH` to find the command and its interpreter.
    pub fn folders(&self) -> Vec<PathBuf> {
        self.program.parent().map(Path::to_path_buf).into_iter().chain(folder_of_node()).collect()
    }

    /// The variables that another program needs to call the command without telemetry.
    pub const QUIET: [(&'static str, &'static str); 2] = [("OPENSPEC_TELEMETRY", "0"), ("CI", "1")];
}

/// A clean environment that only contains the path of its interpreter.
fn quiet(program: &Path, home: &Path) -> Command {
    let mut command = hermetic(program, home);
    command.envs(OpenSpec::QUIET);
    command
}
