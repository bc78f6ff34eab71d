//! How a stop or a loop ends, as codes that machines decide by. Sentences for people are made from these.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::hygiene::Flaw;
use crate::model::id::GateName;
use crate::model::loop_error::ErrorKind;
use crate::model::money::Micros;
use crate::model::problem::Problem;
use crate::model::promise_seen::NearMiss;

#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every required gate passed on this very tree, and we saw it.
    Verified,
    /// There is no gate; the agent says it is done. Shown as unverified.
    Claimed,
    Held,
    Waiting,
    Paused,
    /// Let go at a limit, unverified.
    Released,
    Failed,
    Stuck,
    /// Let go at a limit while the gate definition was not the accepted one.
    Tampered,
    Cancelled,
    NeedsHuman,
}

impl Verdict {
    pub fn code(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Claimed => "claimed",
            Self::Held => "held",
            Self::Waiting => "waiting",
            Self::Paused => "paused",
            Self::Released => "released",
            Self::Failed => "failed",
            Self::Stuck => "stuck",
            Self::Tampered => "tampered",
            Self::Cancelled => "cancelled",
            Self::NeedsHuman => "needs_human",
        }
    }

    /// A loop with this verdict is over; its subject's next stop begins a new one.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Held | Self::Waiting | Self::Paused => false,
            Self::Verified
            | Self::Claimed
            | Self::Released
            | Self::Failed
            | Self::Stuck
            | Self::Tampered
            | Self::Cancelled
            | Self::NeedsHuman => true,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// Why.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum Reason {
    AllGatesPassed,
    AllMarkersStated,
    /// No gate is set up; the agent promised that it is done.
    Promised,
    /// No gate is set up and no promise was asked for; every box of the task list is ticked.
    AllTasksTicked,
    /// Nothing was asked for that could hold anybody.
    NothingAsked,
    /// Everything passed; the promise was asked for once and not given.
    AllGatesPassedUnpromised,
    GatesFailed {
        gates: Vec<GateName>,
    },
    /// A gate kept changing the tree that it judged.
    TreeNeverSettled {
        files: Vec<String>,
    },
    MarkersMissing {
        markers: Vec<String>,
    },
    /// Something was left behind in what was added; no gate was run.
    Untidy {
        flaws: Vec<Flaw>,
    },
    /// Nothing was left behind; the gates wait for the last task.
    Tidy,
    TasksOpen {
        done: usize,
        total: usize,
    },
    PromiseMissing {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        near_miss: Option<NearMiss>,
    },
    /// The gates failed in the same way before the person's prompt.
    RedBefore {
        gates: Vec<GateName>,
    },
    /// The gates passed, but the definition in the repo is not the one a person accepted.
    DefinitionChanged,
    /// The gates passed, but their definition was accepted after the loop or session began.
    AcceptedSince,
    /// The gates passed twice on the very files on which they had failed.
    PassedAfterFailing,
    /// The gates passed, but these files were replaced while they ran and put back with equal content.
    FilesMoved {
        files: Vec<String>,
    },
    /// These gates were not finished at the hook's deadline.
    GatesDidNotFit {
        gates: Vec<GateName>,
    },
    /// Somebody else wrote to the driver's ledger.
    LedgerTampered {
        what: String,
    },
    DefinitionRevoked,
    /// A limit came before what was waited for.
    NotYet {
        what: String,
    },
    CannotTell {
        trouble: Trouble,
    },
}

impl Reason {
    pub fn code(&self) -> &'static str {
        match self {
            Self::AllGatesPassed => "all_gates_passed",
            Self::AllMarkersStated => "all_markers_stated",
            Self::Promised => "promised",
            Self::AllTasksTicked => "all_tasks_ticked",
            Self::NothingAsked => "nothing_asked",
            Self::AllGatesPassedUnpromised => "all_gates_passed_unpromised",
            Self::Untidy { .. } => "untidy",
            Self::Tidy => "tidy",
            Self::TasksOpen { .. } => "tasks_open",
            Self::PromiseMissing { .. } => "promise_missing",
            Self::RedBefore { .. } => "red_before",
            Self::GatesFailed { .. } => "gates_failed",
            Self::TreeNeverSettled { .. } => "tree_never_settled",
            Self::MarkersMissing { .. } => "markers_missing",
            Self::DefinitionChanged => "definition_changed",
            Self::AcceptedSince => "accepted_since",
            Self::PassedAfterFailing => "passed_after_failing",
            Self::FilesMoved { .. } => "files_moved",
            Self::GatesDidNotFit { .. } => "gates_did_not_fit",
            Self::LedgerTampered { .. } => "ledger_tampered",
            Self::DefinitionRevoked => "definition_revoked",
            Self::NotYet { .. } => "not_yet",
            Self::CannotTell { .. } => "cannot_tell",
        }
    }
}

/// What keeps us from telling. It is never the agent's work that is at fault here.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "trouble", rename_all = "snake_case")]
pub enum Trouble {
    #[error("`{file}` cannot be read: {problem}")]
    Config { file: String, problem: Problem },
    #[error("gate `{gate}` could not start: {why}")]
    GateCouldNotStart { gate: GateName, why: String },
    #[error("the gates did not fit before the hook's deadline; not finished: {}", names(.gates))]
    Deadline { gates: Vec<GateName> },
    #[error("the work tree cannot be read: {why}")]
    Tree { why: String },
    #[error("{why}")]
    Busy { why: String },
    #[error("gate `{gate}` passed, but there is no receipt of it for this tree")]
    NoReceipt { gate: GateName },
    #[error("the task list `{file}` is not there")]
    TaskListGone { file: String },
    #[error("the task list `{file}` has no boxes: nobody can tell what is done")]
    TaskListEmpty { file: String },
    #[error("the task list `{file}` cannot be read: {why}")]
    TaskListUnreadable { file: String, why: String },
}

impl Trouble {
    /// What kind of error it counts as.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::TaskListGone { .. } | Self::TaskListEmpty { .. } => ErrorKind::TaskNotFound,
            Self::TaskListUnreadable { .. } => ErrorKind::FileOperation,
            Self::Config { .. }
            | Self::GateCouldNotStart { .. }
            | Self::Deadline { .. }
            | Self::Tree { .. }
            | Self::Busy { .. }
            | Self::NoReceipt { .. } => ErrorKind::CannotTell,
        }
    }
}

fn names(gates: &[GateName]) -> String {
    gates.iter().map(|gate| format!("`{gate}`")).collect::<Vec<_>>().join(", ")
}

/// Which limit let a failing loop go.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "limit", rename_all = "snake_case")]
pub enum LimitHit {
    Attempts {
        most: u32,
    },
    Clock {
        after: Duration,
    },
    Errors {
        in_a_row: u32,
    },
    NoProgress {
        equal: u32,
    },
    /// Calls of other agents.
    AgentCalls {
        most: u32,
    },
    Cost {
        most: Micros,
    },
    /// The client would soon end the turn by itself, whatever we say.
    ClientCap {
        cap: u32,
    },
}

impl LimitHit {
    pub fn code(self) -> &'static str {
        match self {
            Self::Attempts { .. } => "max_iterations_reached",
            Self::Clock { .. } => "timeout_exceeded",
            Self::Errors { .. } => "errors_in_a_row",
            Self::NoProgress { .. } => "no_progress",
            Self::AgentCalls { .. } => "max_agent_calls_reached",
            Self::Cost { .. } => "max_cost_reached",
            Self::ClientCap { .. } => "client_block_cap",
        }
    }
}
