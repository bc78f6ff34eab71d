//! The driver's part of a loop's state: which iteration is open and what is used up.
//!
//! An iteration is one run of the agent and one judgement of the tree that it leaves. It is open from the moment it is
//! written down until it is judged, so whoever drives on after a kill knows which half is missing: a run whose end nobody
//! saw is run again under the same number, an ended one is only judged.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ledger::event::{AgentEnd, AgentRun, Event, Owner};
use crate::model::drive_options::DriveOptions;
use crate::model::id::SessionId;
use crate::model::money::Micros;
use crate::model::promise_seen::PromiseSeen;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Drive {
    pub options: Option<DriveOptions>,
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
    pub refused_logins: u32,
    /// Why the last of them did.
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

/// A check said "not yet": what is waited for, and when it is looked at again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotYet {
    pub until: Timestamp,
    pub what: String,
}

/// An iteration that has begun and was not judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenIteration {
    pub number: u32,
    /// How the agent's run ended; none: it goes on, or whoever watched it was killed.
    pub ended: Option<AgentEnd>,
    /// How the words of that run stand to the promise, where one is asked for.
    pub promise: Option<PromiseSeen>,
    /// What its judgement waits for.
    pub not_yet: Option<NotYet>,
}

impl OpenIteration {
    fn new(number: u32) -> Self {
        Self { number, ended: None, promise: None, not_yet: None }
    }

    /// Whether an agent worked on it to the end of its run. Otherwise the same iteration is run once more: the driver was
    /// killed, the user interrupted it, or the agent never came to work.
    pub(crate) fn was_worked_on(&self) -> bool {
        !matches!(
            self.ended,
            None | Some(
                AgentEnd::Interrupted | AgentEnd::CouldNotStart { .. } | AgentEnd::LoginRefused { .. }
            )
        )
    }
}

impl Drive {
    /// What is waited for now: a usage limit, or a check that says "not yet".
    pub fn waits_for(&self) -> Option<&str> {
        let not_yet = || self.open.as_ref()?.not_yet.as_ref().map(|not_yet| not_yet.what.as_str());
        self.wait.as_ref().map(|wait| wait.why.as_str()).or_else(not_yet)
    }

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
            Event::Waited { what, until: Some(until), .. } => {
                if let Some(open) = &mut self.open {
                    open.not_yet = Some(NotYet { until: *until, what: what.clone() });
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
