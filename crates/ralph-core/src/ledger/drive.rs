//! What the driver does next, from the state alone: wait, run the agent, judge, or nothing.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::clients::profile::Context;
use crate::clients::stream::Limit;
use crate::ledger::state::{State, Status};
use crate::model::drive_options::Memory;

/// How to go about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approach {
    GoOn,
    /// What was tried has not helped: find the cause first.
    Rethink,
}

/// What comes next in a loop that is driven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// For a usage limit, or for a check that says "not yet".
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
    /// It is paused or over.
    Nothing,
}

pub fn next(state: &State, now: Timestamp) -> Next {
    let drive = &state.drive;
    if state.status != Status::Running {
        return Next::Nothing;
    }
    let ends = clock_ends(state);
    if ends.is_some_and(|ends| ends <= now) || is_used_up(state) {
        // Its time or its money is over: what is there is judged a last time.
        let iteration = drive.open.as_ref().map_or(drive.iterations, |open| open.number);
        return Next::Judge { iteration };
    }
    let not_yet = drive.open.as_ref().and_then(|open| open.not_yet.as_ref());
    let waits = drive.wait.as_ref().map(|wait| wait.until).or(not_yet.map(|not_yet| not_yet.until));
    if let Some(until) = waits.filter(|until| *until > now) {
        return Next::Wait { until: ends.map_or(until, |ends| until.min(ends)) };
    }
    let goes_on = drive.options.as_ref().is_some_and(|options| options.memory == Memory::Continue);
    let run = |iteration, goes_on: bool| Next::Run {
        iteration,
        context: match &drive.session {
            Some(session) if goes_on && !drive.rethinks => Context::Continue(session.clone()),
            _ => Context::Fresh,
        },
        approach: if drive.rethinks { Approach::Rethink } else { Approach::GoOn },
    };
    match &drive.open {
        None => run(drive.iterations + 1, goes_on),
        Some(open) if open.was_worked_on() => Next::Judge { iteration: open.number },
        Some(open) => run(open.number, goes_on),
    }
}

/// When its clock has certainly run out; none: never.
pub fn clock_ends(state: &State) -> Option<Timestamp> {
    let after = state.limits.as_ref()?.clock.value?.as_secs();
    let seconds = i64::try_from(after.saturating_add(state.rested).saturating_add(1)).ok()?;
    state.started_at?.checked_add(SignedDuration::from_secs(seconds)).ok()
}

/// Whether it has cost what it may. A run that ends without being judged costs, too.
fn is_used_up(state: &State) -> bool {
    state.limits.as_ref().and_then(|limits| limits.cost.value).is_some_and(|most| state.drive.cost >= most)
}

/// What is added to the stated end of a usage limit: clocks differ.
const MARGIN: SignedDuration = SignedDuration::from_secs(2);
const FIRST_WAIT: SignedDuration = SignedDuration::from_secs(30);
const LONGEST_WAIT: SignedDuration = SignedDuration::from_hours(1);
/// So many stated ends in a row are taken as stated.
const BELIEVED: u32 = 3;
/// A service that states a later end than this is not believed.
const LONGEST_STATED: SignedDuration = SignedDuration::from_hours(8 * 24);

/// Until when a usage limit is waited for: as stated, else twice as long each time up to an hour.
pub fn waits_until(limit: &Limit, waits_before: u32, now: Timestamp) -> Timestamp {
    let later = |wait: SignedDuration| now.checked_add(wait).unwrap_or(Timestamp::MAX);
    let doubled = |times: u32| {
        later(FIRST_WAIT.checked_mul(1 << times.min(10)).unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT))
    };
    match limit.until {
        Some(until) if until > now && until <= later(LONGEST_STATED) => {
            let stated = until.checked_add(MARGIN).unwrap_or(until);
            // Who states an end again and again and never keeps to it is asked less and less.
            waits_before.checked_sub(BELIEVED).map_or(stated, |times| stated.max(doubled(times)))
        }
        _ => doubled(waits_before),
    }
}

/// What is waited after a run that failed by itself, so that whatever is down can come back.
pub fn back_off(failed_runs: u32) -> Duration {
    match failed_runs {
        0 => Duration::ZERO,
        more => Duration::from_secs(1 << (more - 1).min(5)),
    }
}

#[cfg(test)]
mod tests;
