//! What must hold when the world fails: a kill or an error at any system call, a full disk, torn files, a stopped lock
//! holder, a hostile environment. After each of them one oracle looks at everything that ralph keeps.
//!
//! `RALPH_FAULTS=full` sweeps every fault at every point, `RALPH_FAULTS=off` leaves the sweep out, `RALPH_FAULTS_ONLY=Trust`
//! sweeps only the scenes whose name has that word in it.

#![expect(clippy::disallowed_methods, reason = "a test starts programs of its own")]

#[allow(
    dead_code,
    unreachable_pub,
    clippy::disallowed_methods,
    reason = "shared with the transcripts, which use more of it"
)]
#[path = "../it/support.rs"]
mod support;

#[allow(dead_code, reason = "shared with the transcripts, which use more of it")]
#[path = "../it/driven.rs"]
mod driven;

mod corpus;
mod disk;
mod driver_sweep;
mod environment;
mod kill;
mod lock;
mod oracle;
mod saved;
mod sweep;
mod torn;

use std::io::Write as _;

/// To the terminal itself: the harness keeps what a passing test prints.
fn note(line: impl std::fmt::Display) {
    let _nobody_listens = writeln!(std::io::stderr(), "faults: {line}");
}
