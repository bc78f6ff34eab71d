//! Faults that need a tool or a permission that not every machine has: a kill or an error at any system call
//! (`strace`), a full
//! disk (`mount`), a sandbox with its own process numbers (`unshare`). They run only on request.
//!
//!   cargo test -p ralph --test faults
//!
//! `RALPH_FAULTS=full` sweeps every fault at every point, `RALPH_FAULTS_ONLY=Trust` sweeps only the scenes whose name
//! contains that word.

#![expect(clippy::disallowed_methods, reason = "a test starts programs of its own")]

#[allow(dead_code, reason = "shared with `it`, which uses more of it")]
#[path = "../it/driven.rs"]
mod driven;
#[allow(dead_code, reason = "shared with `it`, which uses more of it")]
#[path = "../it/faults/oracle.rs"]
mod oracle;
#[allow(dead_code, reason = "shared with `it`, which uses more of it")]
#[path = "../it/faults/saved.rs"]
mod saved;

mod client_sandbox;
mod disk;
mod driver_sweep;
mod sweep;

/// The binary under test.
const RALPH: &str = env!("CARGO_BIN_EXE_ralph");
