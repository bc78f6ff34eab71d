//! The real Claude Code calls the real hook: whole sessions, offline, with a scripted model. What the client is told, what
//! the model is told and what the ledger says must be the same story. `RALPH_E2E=off` leaves these tests out.

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
mod guarded;
mod held;
mod installed;
mod interrupted;
mod loops;
mod openspec;
mod plugin;
mod released;
mod tampered;
mod untouched;
mod verify;
