//! The driver's part of a loop: what was asked for, which iteration is open, what is used up, and what comes next.
//!
//! An iteration is one run of the agent and one judgement of the tree that it leaves. It is open from the moment it is
//! written down until it is judged, so whoever drives on after a kill knows which half is missing: a run whose end nobody
//! saw is run again under the same number, an ended one is only judged.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::claims::promise::PromiseSeen;
use crate::clients::profile::Context;
use crate::clients::stream::Limit;
use crate::ledger::event::{AgentEnd, AgentRun, Event, Owner};
use crate::ledger::state::{State, Status};
use crate::model::id::SessionId;
use crate::model::money::Micros;
use crate::say::prompt::Approach;

/// How the person wants the loop driven; it holds for its whole life.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wishes {
    /// The name of its profile, or `command:` with what is run.
    pub agent: String,
    pub memory: Memory,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub checkpoints: bool,
    /// What one run of the agent may take.
    pub longest_run: Duration,
    /// How long it may neither print a byte nor change a file.
    pub longest_silence: Duration,
    /// What a gate may take that has no time of its own, where it was said for this loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate_timeout: Option<Duration>,
}

/// What the agent knows of the iterations before.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    /// Nothing but what the prompt says: a context that does not fill up.
    Fresh,
    /// The session of the last run is gone on with, where the client can.
    Continue,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drive {
    pub wishes: Option<Wishes>,
    /// Iterations that count, the open one included.
    pub iterations: u32,
    pub open: Option<OpenIteration>,
    pub cost: Micros,
    /// The session of the agent's last run.
    pub session: Option<SessionId>,
    /// What that session cost: some clients count on from there.
    pub session_cost: Micros,
    /// What is waited for, until a run begins again.
    pub wait: Option<UsageWait>,
    /// How often in a row.
    pub waits_in_a_row: u32,
    /// Runs in a row that failed by themselves.
    pub failed_runs: u32,
    /// Runs in a row whose login was refused.
    #[serde(default)]
    pub refused_logins: u32,
    /// Why the last of them did.
    #[serde(default)]
    pub last_failure: Option<String>,
    /// The one change of strategy has been made.
    pub strategy_changed: bool,
    /// The next iteration is the one that begins in another way.
    pub rethinks: bool,
    /// In how many iterations in a row each rule was missing.
    pub denied: BTreeMap<String, u32>,
    /// The iteration whose tree was kept last; 0 is the beginning.
    pub last_kept: Option<u32>,
    pub owner: Option<Owner>,
}

/// The service gives no more before then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageWait {
    pub until: Timestamp,
    pub why: String,
}

/// An iteration that has begun and was not judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenIteration {
    pub number: u32,
    /// How the agent's run ended; none: it goes on, or whoever watched it was killed.
    pub ended: Option<AgentEnd>,
    /// How the words of that run stand to the promise, where one is asked for.
    pub promise: Option<PromiseSeen>,
}

impl OpenIteration {
    fn new(number: u32) -> Self {
        Self { number, ended: None, promise: None }
    }

    /// Whether an agent worked on it to the end of its run. Otherwise the same iteration is run once more: the driver was
    /// killed, the user interrupted it, or the agent never came to work.
    fn was_worked_on(&self) -> bool {
        !matches!(
            self.ended,
            None | Some(
                AgentEnd::Interrupted | AgentEnd::CouldNotStart { .. } | AgentEnd::LoginRefused { .. }
            )
        )
    }
}

impl Drive {
    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::IterationBegan { iteration, .. } => {
                self.iterations = *iteration;
                // What was kept of a run that is begun again does not count.
                self.last_kept = self.last_kept.map(|kept| kept.min(iteration.saturating_sub(1)));
                self.open = Some(OpenIteration::new(*iteration));
                self.wait = None;
            }
            Event::AgentEnded { run, .. } => self.ended(run),
            Event::WaitsUntil { until, why } => {
                self.wait = Some(UsageWait { until: *until, why: why.clone() });
                self.waits_in_a_row += 1;
                // The run that the service refused is no iteration.
                if let Some(open) = self.open.take() {
                    self.iterations = open.number.saturating_sub(1);
                }
            }
            Event::Kept { iteration, .. } => self.last_kept = Some(*iteration),
            Event::StrategyChanged => {
                self.strategy_changed = true;
                self.rethinks = true;
            }
            Event::Owned { owner } => self.owner = Some(owner.clone()),
            // A person has looked at it.
            Event::Resumed { .. } => (self.failed_runs, self.refused_logins) = (0, 0),
            Event::Judged(_) | Event::CannotTell { .. } => {
                self.open = None;
                self.rethinks = false;
            }
            _ => {}
        }
    }

    fn ended(&mut self, run: &AgentRun) {
        let cost = run.cost.unwrap_or_default();
        self.cost = self.cost.plus(cost);
        if run.session.is_some() {
            let before = if run.session == self.session { self.session_cost } else { Micros::ZERO };
            self.session_cost = before.plus(cost);
            self.session.clone_from(&run.session);
        }
        (self.failed_runs, self.last_failure) = match &run.ended {
            AgentEnd::Failed { why } => (self.failed_runs + 1, Some(why.clone())),
            _ => (0, None),
        };
        self.refused_logins = match run.ended {
            AgentEnd::LoginRefused { .. } => self.refused_logins + 1,
            _ => 0,
        };
        if !matches!(run.ended, AgentEnd::OutOfUsage { .. }) {
            self.waits_in_a_row = 0;
        }
        self.denied = run
            .denied
            .iter()
            .map(|denial| (denial.rule.clone(), self.denied.get(&denial.rule).unwrap_or(&0) + 1))
            .collect();
        if let Some(open) = &mut self.open {
            open.ended = Some(run.ended.clone());
            open.promise.clone_from(&run.promise);
        }
    }

    /// The last iteration that was judged; 0 before the first.
    fn judged(&self) -> u32 {
        self.open.as_ref().map_or(self.iterations, |open| open.number.saturating_sub(1))
    }

    /// The iteration whose tree was not kept yet although it was judged, or 0 for the beginning.
    pub fn not_kept(&self) -> Option<u32> {
        Some(self.judged()).filter(|judged| self.last_kept.is_none_or(|kept| kept < *judged))
    }

    /// The open iteration, whose tree is still to be kept.
    pub fn to_keep(&self) -> Option<u32> {
        self.open.as_ref().map(|open| open.number).filter(|number| self.last_kept != Some(*number))
    }

    /// A rule that was missing so often in a row that trying on is of no use.
    pub fn hopeless_rule(&self) -> Option<&str> {
        const MOST: u32 = 3;
        self.denied.iter().find(|(_, times)| **times >= MOST).map(|(rule, _)| rule.as_str())
    }
}

/// What comes next in a loop that is driven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// A usage limit.
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
    if let Some(wait) = drive.wait.as_ref().filter(|wait| wait.until > now) {
        return Next::Wait { until: ends.map_or(wait.until, |ends| wait.until.min(ends)) };
    }
    let goes_on = drive.wishes.as_ref().is_some_and(|wishes| wishes.memory == Memory::Continue);
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
