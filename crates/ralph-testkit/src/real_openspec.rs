//! The real OpenSpec command, installed once and run hermetically.
//!
//! It exists because a change is what that command says it is: how it lays a change out, counts its tasks and puts it
//! away is learnt from the program, not from its documentation.
//!
//! Promises: one pinned version, no telemetry, no question asked, a home directory that the caller names.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use crate::npm_install::{InstallError, Package};
use crate::real_agent::{folder_of_node, search_path};
use crate::real_claude::wanted_by;

/// The one version the tests speak of.
pub const OPENSPEC_VERSION: &str = "1.13.2";

const OPENSPEC: Package = Package {
    title: "OpenSpec",
    name: "@fission-ai/openspec",
    version: OPENSPEC_VERSION,
    folder: "openspec",
    needs: "Node.js 20.19 or newer and npm",
    programs: |modules| vec![modules.join(".bin/openspec")],
    start: hermetic,
};

/// The installed command, known to start.
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

    /// The command for the test `test`, or `None` when the real-client tests are switched off, which is said on stderr.
    ///
    /// # Panics
    ///
    /// When it is wanted and cannot be had: a test that cannot run has not passed.
    #[track_caller]
    pub fn for_test(test: &str) -> Option<Self> {
        wanted_by(test, Self::installed)
    }

    /// Runs it in `project`, with `home` as its home directory.
    ///
    /// # Panics
    ///
    /// When it cannot be started; how it ends is told by the output.
    #[track_caller]
    pub fn run(&self, project: &Path, home: &Path, arguments: &[&str]) -> Output {
        let mut command = hermetic(&self.program, home);
        let output = command.args(arguments).current_dir(project).stdin(Stdio::null()).output();
        output.unwrap_or_else(|error| panic!("cannot run {}: {error}", self.program.display()))
    }

    /// What another program needs on its `PATH` to find the command, and the command its own interpreter.
    pub fn folders(&self) -> Vec<PathBuf> {
        self.program.parent().map(Path::to_path_buf).into_iter().chain(folder_of_node()).collect()
    }

    /// What another program that calls the command needs in its environment, so that it tells nobody of it.
    pub const QUIET: [(&'static str, &'static str); 2] = [("OPENSPEC_TELEMETRY", "0"), ("CI", "1")];
}

/// Nothing of this machine's in its environment but where its interpreter is.
fn hermetic(program: &Path, home: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", search_path(None))
        .env("HOME", home)
        .env("LANG", "C.UTF-8")
        .envs(OpenSpec::QUIET);
    command
}
