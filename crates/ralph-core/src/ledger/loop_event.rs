//! Live events of a driven loop for logs, terminals, scripts and other processes. They are only displayed; the ledger
//! has its own events.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::clients::stream::AgentEvent;
use crate::ledger::drive::Approach;
use crate::ledger::drive_plan::DrivePlan;
use crate::ledger::event::AgentRun;
use crate::ledger::state::State;
use crate::model::budget::Attempts;
use crate::model::gate::GateReport;
use crate::model::id::GateName;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "of", rename_all = "snake_case")]
pub enum LoopEvent {
    /// Before anything runs; `state` is the result of an earlier drive.
    Begins {
        plan: Box<DrivePlan>,
        state: Box<State>,
    },
    /// All gates run once before the first iteration.
    BaselineBegan {
        gates: usize,
    },
    BaselineEnded {
        reports: Vec<GateReport>,
    },
    IterationBegan {
        number: u32,
        of: Attempts,
        approach: Approach,
    },
    /// Live activity of the agent.
    Agent(AgentEvent),
    AgentEnded {
        run: Box<AgentRun>,
        state: Box<State>,
    },
    GateStarted {
        gate: GateName,
    },
    /// Its effect is known once the tree has been read again.
    GateEnded {
        gate: GateName,
    },
    GateFinished {
        report: Box<GateReport>,
    },
    /// Gates changed these files.
    TreeChanged {
        files: Vec<String>,
    },
    /// The iteration was judged; the result is in `state.last`.
    Judged {
        number: u32,
        state: Box<State>,
    },
    StrategyChanged,
    /// For a usage limit or a pending check. Sent again whenever a wait is resumed.
    Waits {
        until: Timestamp,
        why: String,
    },
    /// An error outside the loop itself; the loop continues.
    Warning {
        what: String,
    },
    /// The drive ended; `state` has the reason. An interrupted loop is paused.
    Ends {
        plan: Box<DrivePlan>,
        state: Box<State>,
    },
}

impl LoopEvent {
    pub fn begins(plan: &DrivePlan, state: &State) -> Self {
        Self::Begins { plan: Box::new(plan.clone()), state: Box::new(state.clone()) }
    }

    pub fn agent_ended(run: &AgentRun, state: &State) -> Self {
        Self::AgentEnded { run: Box::new(run.clone()), state: Box::new(state.clone()) }
    }

    pub fn gate_finished(report: &GateReport) -> Self {
        Self::GateFinished { report: Box::new(report.clone()) }
    }

    pub fn judged(number: u32, state: &State) -> Self {
        Self::Judged { number, state: Box::new(state.clone()) }
    }

    pub fn ends(plan: &DrivePlan, state: &State) -> Self {
        Self::Ends { plan: Box::new(plan.clone()), state: Box::new(state.clone()) }
    }
}
