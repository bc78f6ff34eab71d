//! The real clients, offline, with a scripted model: Claude Code calls the real hook in whole sessions, and the
//! driver runs
//! Claude Code, Codex and Gemini CLI. The client's input, the model's input and the ledger must agree.
//! The clients are installed from npm once, into a cache folder, so these tests run only on request.
//!
//!   cargo test -p ralph --test e2e

mod session;

/// The binary under test.
const RALPH: &str = env!("CARGO_BIN_EXE_ralph");

mod blocked;
mod broken;
mod driver;
mod guarded;
mod installed;
mod interrupted;
mod loops;
mod openspec;
mod plugin;
mod released;
mod seeds;
mod tampered;
mod team;
mod untouched;
mod verify;
