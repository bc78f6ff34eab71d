//! `ralph`: holds a coding agent until its work is shown to be done.
//!
//! Two doors: `hook`, which must cost next to nothing, and everything else.

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
