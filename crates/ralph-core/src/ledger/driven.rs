//! The driver's part of a loop's state: the open iteration and what was used.
//!
//! An iteration is one run of the agent and one judgement of the resulting tree. It is open until it is judged, so a
//! driver that continues after a kill knows which half is missing: an unfinished run is repeated under the same number,
//! a finished one is only judged.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::claims::honest_exit::AgentAnswers;
use crate::ledger::event::{AgentEnd, AgentRun, Event, Owner};
use crate::model::drive_options::DriveOptions;
use crate::model::id::SessionId;
use crate::model::money::Micros;
use crate::model::promise_seen::PromiseSeen;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DriveState {
    pub options: Option<DriveOptions>,
    /// Whether an agent was ever run: the tree may differ from the start since.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub agent_ran: bool,
    /// Counted iterations, including the open one.
    pub iterations: u32,
    pub open: Option<OpenIteration>,
    pub cost: Micros,
    /// The session of the agent's last run.
    pub session: Option<SessionId>,
    /// The cost of that session; some clients report running totals.
    pub session_cost: Micros,
    /// The current wait, until a run begins again.
    pub wait: Option<UsageWait>,
    /// How many waits in a row.
    pub waits_in_a_row: u32,
    /// Consecutive failed runs.
    pub failed_runs: u32,
    /// Consecutive runs whose login was refused.
    pub refused_logins: u32,
    /// The reason of the last one.
    pub last_failure: Option<String>,
    /// Whether the strategy has been changed.
    pub strategy_changed: bool,
    /// Whether the next iteration tries a different approach.
    pub rethinks: bool,
    /// How many iterations in a row each rule was missing.
    pub denied: BTreeMap<String, u32>,
    /// The iteration whose tree was committed last; 0 is the initial tree.
    pub last_kept: Option<u32>,
    pub owner: Option<Owner>,
}

/// A usage limit was reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageWait {
    pub until: Timestamp,
    pub why: String,
}

/// A pending check, and when it is evaluated again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingCheck {
    pub until: Timestamp,
    pub what: String,
}

/// An iteration that has begun but was not judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenIteration {
    pub number: u32,
    /// How the agent's run ended; none if it still runs or the driver was killed.
    pub ended: Option<AgentEnd>,
    /// Whether that run gave the promise, if one is required.
    pub promise: Option<PromiseSeen>,
    /// What that run's last message answered.
    #[serde(default, skip_serializing_if = "AgentAnswers::is_empty")]
    pub answers: AgentAnswers,
    /// The pending check of its judgement.
    pub not_yet: Option<PendingCheck>,
}

impl OpenIteration {
    fn new(number: u32) -> Self {
        Self { number, ended: None, promise: None, answers: AgentAnswers::default(), not_yet: None }
    }

    /// Whether an agent's run completed. Otherwise the same iteration is repeated: the driver was killed, the user
    /// interrupted it, or the agent did not start working.
    pub(crate) fn was_worked_on(&self) -> bool {
        !matches!(
            self.ended,
            None | Some(
                AgentEnd::Interrupted | AgentEnd::CouldNotStart { .. } | AgentEnd::LoginRefused { .. }
            )
        )
    }
}

impl DriveState {
    /// The current wait: a usage limit or a pending check.
    pub fn waits_for(&self) -> Option<&str> {
        let not_yet = || self.open.as_ref()?.not_yet.as_ref().map(|not_yet| not_yet.what.as_str());
        self.wait.as_ref().map(|wait| wait.why.as_str()).or_else(not_yet)
    }

    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::IterationBegan { iteration, .. } => {
                self.iterations = *iteration;
                self.agent_ran = true;
                // A repeated run discards the commit of the earlier one.
                self.last_kept = self.last_kept.map(|kept| kept.min(iteration.saturating_sub(1)));
                self.open = Some(OpenIteration::new(*iteration));
                self.wait = None;
            }
            Event::AgentEnded { run, .. } => self.ended(run),
            Event::WaitingUntil { until, why } => {
                self.wait = Some(UsageWait { until: *until, why: why.clone() });
                self.waits_in_a_row += 1;
                // A run refused by a usage limit is no iteration.
                if let Some(open) = self.open.take() {
                    self.iterations = open.number.saturating_sub(1);
                }
            }
            Event::Waited { what, until: Some(until), .. } => {
                if let Some(open) = &mut self.open {
                    open.not_yet = Some(PendingCheck { until: *until, what: what.clone() });
                }
            }
            Event::Committed { iteration, .. } => self.last_kept = Some(*iteration),
            Event::StrategyChanged => {
                self.strategy_changed = true;
                self.rethinks = true;
            }
            Event::DriverStarted { owner } => self.owner = Some(owner.clone()),
            // The user has resumed it.
            Event::Resumed { .. } => (self.failed_runs, self.refused_logins) = (0, 0),
            Event::Judged(_) | Event::NotEvaluated { .. } => {
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
            open.answers.clone_from(&run.answers);
        }
    }

    /// The last judged iteration; 0 before the first.
    fn judged(&self) -> u32 {
        self.open.as_ref().map_or(self.iterations, |open| open.number.saturating_sub(1))
    }

    /// The judged iteration whose tree is not committed yet; 0 is the initial tree.
    pub fn uncommitted_iteration(&self) -> Option<u32> {
        Some(self.judged()).filter(|judged| self.last_kept.is_none_or(|kept| kept < *judged))
    }

    /// The open iteration whose tree is still to be committed.
    pub fn to_keep(&self) -> Option<u32> {
        self.open.as_ref().map(|open| open.number).filter(|number| self.last_kept != Some(*number))
    }

    /// A rule that was missing in so many iterations that retrying is pointless.
    pub fn repeatedly_denied_rule(&self) -> Option<&str> {
        const MOST: u32 = 3;
        self.denied.iter().find(|(_, times)| **times >= MOST).map(|(rule, _)| rule.as_str())
    }
}
