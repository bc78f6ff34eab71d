//! What happens in a driven loop, as it happens: for a log, a terminal, a script, another process. It is shown and decides
//! nothing; what is remembered are the events of the ledger.

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
    /// Before anything is run; `state` is where an earlier drive left it.
    Begins {
        plan: Box<DrivePlan>,
        state: Box<State>,
    },
    IterationBegan {
        number: u32,
        of: Attempts,
        approach: Approach,
    },
    /// What the agent does, as it does it.
    Agent(AgentEvent),
    AgentEnded {
        run: Box<AgentRun>,
        state: Box<State>,
    },
    GateStarted {
        gate: GateName,
    },
    /// What that means is known once the tree was read again.
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
    /// The tree of the iteration was judged: `state.last` is what came of it.
    Judged {
        number: u32,
        state: Box<State>,
    },
    StrategyChanged,
    /// For a usage limit, or for a check that says "not yet". It comes again whenever a wait is resumed.
    Waits {
        until: Timestamp,
        why: String,
    },
    /// Something beside the loop went wrong; the loop continues.
    Trouble {
        what: String,
    },
    /// Nothing more happens in this drive; `state` says why. An interrupted loop is paused.
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
