//! Test tools of ralph.
//!
//! Scenes:
//!
//! - [`Sandbox`]: a temporary repo, a home of its own, the real `ralph` with a clean environment;
//! - [`Session`]: one session of a client in it, event by event, sent to the real hook by a [`StandInClient`];
//! - [`Pty`]: a terminal to run a program on;
//! - [`OrdinaryUser`]: a sandbox whose user is not root.
//!
//! Real programs to test against:
//!
//! - [`misbehave`]: a program that hangs, floods, leaks a daemon, kills its parent… one subcommand per fault, to be used as a
//!   gate command;
//! - [`ScriptedModel`]: a model that answers from a [`Script`] and checks its requests;
//! - [`Claude`]: the real Claude Code, run hermetically against that model;
//! - [`ClaudeTerminal`]: the same in a terminal, as a user has it;
//! - [`AgentClient`]: the real Claude Code, Codex, Gemini CLI, Copilot or OpenCode, as another program finds and runs it;
//! - [`ScriptedForge`]: a GitHub on loopback for the real `gh`, with faults;
//! - [`OpenSpec`]: the real OpenSpec command, for repos that are made by it.
//!
//! Unix only, as the faults are: sessions, process groups, signals.

mod bounded;
mod claude_terminal;
mod client_event;
mod dice;
mod finished;
mod git;
mod npm_install;
mod ordinary_user;
mod pty;
mod real_agent;
mod real_claude;
mod real_codex;
mod real_copilot;
mod real_gemini;
mod real_opencode;
mod real_openspec;
mod sandbox;
mod scripted_forge;
mod scripted_model;
mod session;
mod stand_in_client;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use std::{env, fmt, fs, io, thread};

pub use claude_terminal::ClaudeTerminal;
pub use client_event::{ClientEvent, HookAnswer};
pub use dice::Dice;
pub use finished::Finished;
pub use git::add_submodule;
pub use npm_install::InstallError;
pub use ordinary_user::OrdinaryUser;
pub use pty::{OnTerminal, Pty};
pub use real_agent::AgentClient;
pub use real_claude::{CLAUDE_CODE_VERSION, Claude, ClaudeOutput, ClaudeRun};
pub use real_codex::CODEX_VERSION;
pub use real_copilot::COPILOT_VERSION;
pub use real_gemini::GEMINI_CLI_VERSION;
pub use real_opencode::OPENCODE_VERSION;
pub use real_openspec::{OPENSPEC_VERSION, OpenSpec};
pub use sandbox::{MAKE, Sandbox};
pub use scripted_forge::{
    CiQuestion, FORGE_URL, ForgeFault, KillMoment, ScriptedCheck, ScriptedForge, ScriptedPull,
};
pub use scripted_model::{Api, Lane, MAX_REQUESTS, Request, Script, ScriptedModel, Served, Turn};
use serde_json::Value;
pub use session::Session;
pub use stand_in_client::StandInClient;

/// The path of the `ralph` binary, which cargo builds for the tests of its crate.
///
/// # Panics
///
/// When it was not built.
pub fn ralph() -> &'static str {
    static FOUND: OnceLock<String> = OnceLock::new();
    FOUND.get_or_init(|| {
        let program = beside_this_test("ralph").expect("`ralph`, built for this test");
        program.into_os_string().into_string().expect("a path in UTF-8")
    })
}

/// The search path of gates.
pub fn search_path() -> String {
    env::var("PATH").expect("a PATH")
}

/// A command line that calls `misbehave`.
pub fn misbehave(words: &str) -> String {
    format!("{} {words}", misbehave_program().display())
}

/// A native config whose gates are these commands, each quoted.
pub fn verify_list(commands: &[&str]) -> String {
    let lines: Vec<String> =
        commands.iter().map(|command| format!("  - {}\n", Value::from(*command))).collect();
    format!("verify:\n{}", lines.concat())
}

/// Prints a line to the terminal itself: the test harness captures the output of a passing test.
pub fn note(line: impl fmt::Display) {
    let _nobody_listens = writeln!(io::stderr(), "{line}");
}

/// Waits until the condition holds; panics with the description otherwise.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < deadline, "it never was so: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process exists and is not a zombie.
pub fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// The path of the `misbehave` binary. Cargo builds it for this crate's own tests only, so it is built here, once per
/// process, if it is not beside the running test yet.
///
/// # Panics
///
/// When it cannot be built.
pub fn misbehave_program() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| beside_this_test("misbehave").unwrap_or_else(build_misbehave)).clone()
}

/// A test runs from `target/PROFILE/deps`, the binaries are in `target/PROFILE`.
fn beside_this_test(name: &str) -> Option<PathBuf> {
    let test = env::current_exe().ok()?;
    let folder = test.parent()?;
    // `misbehave` itself is there already.
    let program = [folder.parent()?.join(name), folder.join(name)];
    program.into_iter().find(|program| program.is_file())
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
    // Cargo is asked because the target folder can be configured in several places.
    let built = output.stdout.split(|byte| *byte == b'\n').find_map(executable_of);
    built.unwrap_or_else(|| {
        panic!("cargo did not build misbehave:\n{}", String::from_utf8_lossy(&output.stderr))
    })
}

fn executable_of(message: &[u8]) -> Option<PathBuf> {
    let message: Value = serde_json::from_slice(message).ok()?;
    message["executable"].as_str().map(PathBuf::from)
}
