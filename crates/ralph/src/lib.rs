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

/// The program: the hook of a client, or a command.
pub fn run() -> ExitCode {
    show::terminal::crash::explain_panics();
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    match doors::hook::options(&arguments) {
        Some(options) => {
            sys::proc::forbid_debuggers();
            doors::hook::claude(&options)
        }
        None => doors::cli::run(),
    }
}
