//! `ralph` keeps a coding agent working until its work is verified.
//!
//! Two entry points: the hook of an agent client, which must be fast, and the command line. The modules from the top; a
//! module uses only those below it (checked by `tests/it/rooms.rs`):
//! - `doors`: the hook and the commands
//! - `loops`: the life cycle of a loop: judged, attached to a session, driven, reported
//! - `checks`: what "done" requires: gates, task list, promise, markers, hygiene, pull request, CI, merge
//! - `forge`: the host of the repository and its pull requests
//! - `clients`: everything specific to one agent client
//! - `show`: the terminal, the progress of a loop, exit codes, the language
//! - `store`: recorded state, and files exported to a repo
//! - `work_tree`: the fingerprint of the files, git, checkpoints
//! - `sys`: processes, signals, files, the clock, the environment

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may start any program"))]

mod checks;
mod clients;
mod doors;
mod forge;
mod loops;
mod show;
mod store;
mod sys;
mod work_tree;

use std::ffi::OsString;
use std::process::ExitCode;

pub use clients::client::{BlockCap, Client, TeamTasks, Tools, Transcript, Variables};

/// Runs `ralph` with every supported client.
pub fn run() -> ExitCode {
    run_with(clients::list::ALL)
}

/// Runs `ralph` with these clients: the hook of one of them, or a command.
pub fn run_with(clients: &'static [&'static Client]) -> ExitCode {
    sys::trace::start();
    show::terminal::crash::explain_panics();
    clients::list::register(clients);
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(exit_code) = work_tree::view::called(&arguments) {
        return exit_code;
    }
    let exit_code = match doors::hook::called(&arguments) {
        Some((client, options)) => {
            sys::proc::forbid_debuggers();
            doors::hook::run(client, &options)
        }
        None => doors::cli::run(),
    };
    sys::trace::step(|| "finished".to_owned());
    exit_code
}
