//! Test tools of ralph. Six ways to be told that we are wrong by something real:
//!
//! - [`misbehave`]: the path of a program that hangs, floods, leaks a daemon, kills its parent… one subcommand a
//!   fault, to be used as a gate command;
//! - [`ScriptedModel`]: a model that says what a [`Script`] says, and checks what it is told;
//! - [`Claude`]: the real Claude Code, run hermetically against that model;
//! - [`ClaudeTerminal`]: the same in a terminal, as a person uses it;
//! - [`AgentClient`]: the real Claude Code, Codex, Gemini CLI, Copilot or OpenCode, as another program finds and runs it;
//! - [`OpenSpec`]: the real OpenSpec command, for repos that are made by it.
//!
//! Unix only, as the faults are: sessions, process groups, signals.

mod bounded;
mod claude_terminal;
mod dice;
mod npm_install;
mod real_agent;
mod real_claude;
mod real_codex;
mod real_copilot;
mod real_gemini;
mod real_opencode;
mod real_openspec;
mod scripted_model;

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

pub use claude_terminal::ClaudeTerminal;
pub use dice::Dice;
pub use npm_install::InstallError;
pub use real_agent::AgentClient;
pub use real_claude::{CLAUDE_CODE_VERSION, Claude, ClaudeOutput, ClaudeRun, e2e_switched_off};
pub use real_codex::CODEX_VERSION;
pub use real_copilot::COPILOT_VERSION;
pub use real_gemini::GEMINI_CLI_VERSION;
pub use real_opencode::OPENCODE_VERSION;
pub use real_openspec::{OPENSPEC_VERSION, OpenSpec};
pub use scripted_model::{Api, Lane, MAX_REQUESTS, Request, Script, ScriptedModel, Served, Turn};
use serde_json::Value;

/// The path of the `misbehave` binary. Cargo builds it for this crate's own tests only, so it is built here, once a
/// process, where it is not beside the running test yet.
///
/// # Panics
///
/// When it cannot be built.
pub fn misbehave() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| beside_this_test().unwrap_or_else(build_misbehave)).clone()
}

/// A test runs from `target/PROFILE/deps`, the binaries are in `target/PROFILE`.
fn beside_this_test() -> Option<PathBuf> {
    let test = env::current_exe().ok()?;
    let program = test.parent()?.parent()?.join("misbehave");
    program.is_file().then_some(program)
}

fn build_misbehave() -> PathBuf {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(&cargo)
        .args(["build", "-p", "ralph-testkit", "--bin", "misbehave", "--message-format=json"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null())
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => panic!("cannot start {} to build misbehave: {error}", Path::new(&cargo).display()),
    };
    // Asked of cargo, not guessed: the target folder may be set in more places than we know.
    let built = output.stdout.split(|byte| *byte == b'\n').find_map(executable_of);
    built.unwrap_or_else(|| {
        panic!("cargo did not build misbehave:\n{}", String::from_utf8_lossy(&output.stderr))
    })
}

fn executable_of(message: &[u8]) -> Option<PathBuf> {
    let message: Value = serde_json::from_slice(message).ok()?;
    message["executable"].as_str().map(PathBuf::from)
}
