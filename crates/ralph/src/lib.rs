//! `ralph` keeps a coding agent working until its work is verified.
//!
//! Two doors: the hook of an agent client, which must cost next to nothing, and the command line. The map, from the top; a
//! room uses only those below it (`tests/it/rooms.rs` keeps that):
//! - `doors`: the hook and the commands
//! - `loops`: what a loop is and how it lives: judged, carried by a session, driven, reported
//! - `checks`: what "done" is made of: gates, task list, promise, markers, hygiene
//! - `clients`: everything that is one agent client's
//! - `show`: the terminal, the progress of a loop, exit codes, the language
//! - `store`: what is remembered, and what is left in a repo for others to read
//! - `work_tree`: the fingerprint of the files, git, checkpoints
//! - `sys`: processes, signals, files, the clock, the environment

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start programs as they like"))]

mod checks;
mod clients;
mod doors;
mod loops;
mod show;
mod store;
mod sys;
mod work_tree;

use std::ffi::OsString;
use std::process::ExitCode;

pub use clients::client::{BlockCap, Client, TeamTasks, Tools, Transcript, Variables};

/// The program `ralph`, with every client that it knows.
pub fn run() -> ExitCode {
    run_with(clients::list::ALL)
}

/// The program with these clients: the hook of one of them, or a command.
pub fn run_with(clients: &'static [&'static Client]) -> ExitCode {
    show::terminal::crash::explain_panics();
    clients::list::register(clients);
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    match doors::hook::called(&arguments) {
        Some((client, options)) => {
            sys::proc::forbid_debuggers();
            doors::hook::run(client, &options)
        }
        None => doors::cli::run(),
    }
}
