//! Exit codes: part of the interface, the same for every command that judges.

use std::process::ExitCode;

use ralph_core::ledger::event::PauseCause;
use ralph_core::ledger::state::{State, Status};
use ralph_core::model::evidence::Proof;
use ralph_core::model::verdict::Verdict;

pub(crate) const VERIFIED: u8 = 0;
pub(crate) const NOT_VERIFIED: u8 = 1;
/// Usage or config error, no gates at all.
pub(crate) const USAGE: u8 = 2;
/// Paused, cancelled, untrusted, or needs your review.
pub(crate) const NEEDS_PERSON: u8 = 3;
pub(crate) const STUCK: u8 = 4;
pub(crate) const TAMPERED: u8 = 5;
/// The gates pass; nothing shows the task.
pub(crate) const GATES_PASS: u8 = 6;

pub(crate) fn of_verdict(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Verified => VERIFIED,
        Verdict::Passing | Verdict::Unchanged => GATES_PASS,
        Verdict::Claimed | Verdict::Blocked | Verdict::Waiting | Verdict::Released | Verdict::Failed => {
            NOT_VERIFIED
        }
        Verdict::Paused | Verdict::Cancelled | Verdict::NeedsHuman => NEEDS_PERSON,
        Verdict::Stuck => STUCK,
        Verdict::Tampered => TAMPERED,
    }
}

/// For a driven loop in its final state. A verdict before the signal stands.
pub(crate) fn of_drive(state: &State, signal: Option<i32>) -> u8 {
    match (&state.status, signal) {
        // The user asked for nothing more.
        (Status::Ended { verdict: Verdict::Passing }, _) if asks_for_no_proof(state) => VERIFIED,
        (Status::Ended { verdict }, _) => of_verdict(*verdict),
        (_, Some(signal)) => code_of_signal(signal),
        (Status::Paused { why: PauseCause::AgentCouldNotStart { .. }, .. }, None) => USAGE,
        (_, None) => NEEDS_PERSON,
    }
}

fn asks_for_no_proof(state: &State) -> bool {
    state.goal.as_ref().is_some_and(|goal| goal.proof == Some(Proof::Off))
}

/// Like shells report termination by a signal.
pub(crate) fn by_signal(signal: i32) -> ExitCode {
    ExitCode::from(code_of_signal(signal))
}

fn code_of_signal(signal: i32) -> u8 {
    128u8.saturating_add(u8::try_from(signal).unwrap_or(0))
}
