//! The driver's next step, from the state alone: wait, run the agent, judge, or nothing.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::clients::profile::Context;
use crate::clients::stream::UsageLimit;
use crate::ledger::state::{State, Status};
use crate::model::drive_options::AgentContext;

/// The approach of the next iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approach {
    Continue,
    /// The earlier approach did not work: find the cause first.
    Rethink,
}

/// The next step of a driven loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// For a usage limit or a pending check.
    Wait {
        until: Timestamp,
    },
    Run {
        iteration: u32,
        context: Context,
        approach: Approach,
    },
    Judge {
        iteration: u32,
    },
    /// It is paused or has ended.
    Nothing,
}

pub fn next(state: &State, now: Timestamp) -> NextStep {
    let drive = &state.drive;
    if state.status != Status::Running {
        return NextStep::Nothing;
    }
    let ends = clock_ends(state);
    if ends.is_some_and(|ends| ends <= now) || is_used_up(state) {
        // The time or cost limit is reached: the current tree is judged a last time.
        let iteration = drive.open.as_ref().map_or(drive.iterations, |open| open.number);
        return NextStep::Judge { iteration };
    }
    let not_yet = drive.open.as_ref().and_then(|open| open.not_yet.as_ref());
    let waits = drive.wait.as_ref().map(|wait| wait.until).or(not_yet.map(|not_yet| not_yet.until));
    if let Some(until) = waits.filter(|until| *until > now) {
        return NextStep::Wait { until: ends.map_or(until, |ends| until.min(ends)) };
    }
    let goes_on = drive.options.as_ref().is_some_and(|options| options.memory == AgentContext::Continue);
    let run = |iteration, goes_on: bool| NextStep::Run {
        iteration,
        context: match &drive.session {
            Some(session) if goes_on && !drive.rethinks => Context::Continue(session.clone()),
            _ => Context::Fresh,
        },
        approach: if drive.rethinks { Approach::Rethink } else { Approach::Continue },
    };
    match &drive.open {
        None => run(drive.iterations + 1, goes_on),
        Some(open) if open.was_worked_on() => NextStep::Judge { iteration: open.number },
        Some(open) => run(open.number, goes_on),
    }
}

/// When its time limit is reached; none means never.
pub fn clock_ends(state: &State) -> Option<Timestamp> {
    let after = state.limits.as_ref()?.clock.value?.as_secs();
    let seconds = i64::try_from(after.saturating_add(state.paused_seconds).saturating_add(1)).ok()?;
    state.started_at?.checked_add(SignedDuration::from_secs(seconds)).ok()
}

/// Whether the cost limit is reached. Runs without a verdict count too.
fn is_used_up(state: &State) -> bool {
    state.limits.as_ref().and_then(|limits| limits.cost.value).is_some_and(|most| state.drive.cost >= most)
}

/// Added to the stated end of a usage limit, because clocks differ.
const MARGIN: SignedDuration = SignedDuration::from_secs(2);
const FIRST_WAIT: SignedDuration = SignedDuration::from_secs(30);
const LONGEST_WAIT: SignedDuration = SignedDuration::from_hours(1);
/// How many stated ends in a row are trusted.
const BELIEVED: u32 = 3;
/// Stated ends later than this are ignored.
const LONGEST_STATED: SignedDuration = SignedDuration::from_hours(8 * 24);

/// When the wait for a usage limit ends: as stated, otherwise with exponential backoff up to an hour.
pub fn waits_until(limit: &UsageLimit, waits_before: u32, now: Timestamp) -> Timestamp {
    let later = |wait: SignedDuration| now.checked_add(wait).unwrap_or(Timestamp::MAX);
    let doubled = |times: u32| {
        later(FIRST_WAIT.checked_mul(1 << times.min(10)).unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT))
    };
    match limit.until {
        Some(until) if until > now && until <= later(LONGEST_STATED) => {
            let stated = until.checked_add(MARGIN).unwrap_or(until);
            // A service that keeps missing its stated end is retried with backoff.
            waits_before.checked_sub(BELIEVED).map_or(stated, |times| stated.max(doubled(times)))
        }
        _ => doubled(waits_before),
    }
}

/// The delay after a failed run, so that an outage can pass.
pub fn back_off(failed_runs: u32) -> Duration {
    match failed_runs {
        0 => Duration::ZERO,
        more => Duration::from_secs(1 << (more - 1).min(5)),
    }
}

#[cfg(test)]
mod tests;
