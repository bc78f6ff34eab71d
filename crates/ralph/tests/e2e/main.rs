//! The real clients, offline, with a scripted model: Claude Code calls the real hook in whole sessions, and the driver runs
//! Claude Code, Codex and Gemini CLI. What the client is told, what the model is told and what the ledger says must be the
//! same story. `RALPH_E2E=off` leaves these tests out.

mod session;
#[path = "../it/support.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    clippy::disallowed_methods,
    reason = "the sandbox is shared; these tests need only some of it"
)]
mod support;

mod broken;
mod driver;
mod guarded;
mod held;
mod installed;
mod interrupted;
mod loops;
mod openspec;
mod plugin;
mod released;
mod tampered;
mod team;
mod untouched;
mod verify;
