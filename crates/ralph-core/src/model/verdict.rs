//! Verdicts and reasons as codes; `say::words` turns them into text.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::config_problem::ConfigProblem;
use crate::model::evidence::NotShown;
use crate::model::hygiene::HygieneProblem;
use crate::model::id::{Digest, GateName};
use crate::model::loop_error::ErrorKind;
use crate::model::money::Micros;
use crate::model::preset::Check;
use crate::model::promise_seen::NearMiss;
use crate::model::ship::Until;

#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every required gate passed on this tree, in a run by ralph, and something shows the task: it fails without the
    /// change.
    Verified,
    /// Every required gate passed on this tree; nothing shows the task.
    Passing,
    /// Every required gate passed; no file was changed.
    Unchanged,
    /// The agent reported done and there is no gate. Shown as unverified.
    Claimed,
    Blocked,
    Waiting,
    Paused,
    /// Allowed to stop at a limit, unverified.
    Released,
    Failed,
    Stuck,
    /// Allowed to stop at a limit while the gate definition was not the accepted one.
    Tampered,
    Cancelled,
    NeedsHuman,
}

impl Verdict {
    pub fn code(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Passing => "passing",
            Self::Unchanged => "unchanged",
            Self::Claimed => "claimed",
            Self::Blocked => "blocked",
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

    /// Whether every required gate passed on the judged tree, whatever that shows.
    pub fn gates_passed(self) -> bool {
        matches!(self, Self::Verified | Self::Passing | Self::Unchanged)
    }

    /// Whether the loop has ended; the subject's next stop starts a new one.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Blocked | Self::Waiting | Self::Paused => false,
            Self::Verified
            | Self::Passing
            | Self::Unchanged
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

/// The reason for a verdict.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum Reason {
    AllGatesPassed,
    AllMarkersStated,
    /// No gate is set up; the agent gave the promise.
    Promised,
    /// No gate and no promise is set up; every box of the task list is ticked.
    AllTasksTicked,
    /// There is no gate, promise or task list.
    NothingAsked,
    /// All gates passed; the promise was requested once and not given.
    AllGatesPassedUnpromised,
    GatesFailed {
        gates: Vec<GateName>,
    },
    /// All gates passed; nothing shows the task.
    TaskNotShown {
        why: NotShown,
    },
    /// All gates passed; the agent is asked once for a test that fails without its change.
    ProofMissing {
        why: NotShown,
    },
    /// All gates passed; no file was changed.
    NothingChanged,
    /// The agent says that it cannot continue.
    AgentBlocked {
        why: String,
    },
    /// The gates change the tree on every run.
    TreeNeverSettled {
        files: Vec<String>,
    },
    MarkersMissing {
        markers: Vec<String>,
    },
    /// Added lines have problems; no gate was run.
    HygieneFailed {
        flaws: Vec<HygieneProblem>,
    },
    /// Added lines have no problems; the gates run with the last task.
    HygienePassed,
    TasksOpen {
        done: usize,
        total: usize,
    },
    PromiseMissing {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        near_miss: Option<NearMiss>,
    },
    /// The gates failed in the same way before the user's prompt.
    FailingBefore {
        gates: Vec<GateName>,
    },
    /// The gates passed, but the definition in the repo is not the one the user accepted.
    DefinitionChanged,
    /// The gates passed, but their definition was accepted after the loop or session began.
    AcceptedSince,
    /// The gates passed, and the promise is about a pull request and its CI, which were not looked at.
    ShippingNotChecked,
    /// The loop reached its goal beyond the gates.
    Shipped {
        until: Until,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
    },
    /// The first step to the goal that is missing, and the next action.
    ShipUnmet {
        check: Check,
        what: String,
        next: String,
    },
    /// CI failed for the commit whose gates passed.
    CiFailed {
        checks: Vec<String>,
        /// One digest for each failure, to recognise it at the next attempt.
        marks: Vec<Digest>,
        url: String,
    },
    /// Only the user can continue.
    ShipNeedsUser {
        check: Check,
        what: String,
        next: String,
    },
    /// The gates passed twice on the same files on which they had failed.
    PassedAfterFailing,
    /// The gates passed, but these files were replaced during the run and restored with equal content.
    FilesReplaced {
        files: Vec<String>,
    },
    /// These gates had not finished at the hook's deadline.
    DeadlineReached {
        gates: Vec<GateName>,
    },
    /// Another process wrote to the driver's ledger.
    LedgerTampered {
        what: String,
    },
    DefinitionRevoked,
    /// A limit was reached while waiting.
    NotYet {
        what: String,
    },
    NotEvaluated {
        trouble: EvaluationError,
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
            Self::HygieneFailed { .. } => "hygiene_failed",
            Self::HygienePassed => "hygiene_passed",
            Self::TasksOpen { .. } => "tasks_open",
            Self::PromiseMissing { .. } => "promise_missing",
            Self::FailingBefore { .. } => "failing_before",
            Self::GatesFailed { .. } => "gates_failed",
            Self::TaskNotShown { .. } => "task_not_shown",
            Self::ProofMissing { .. } => "proof_missing",
            Self::NothingChanged => "nothing_changed",
            Self::AgentBlocked { .. } => "agent_blocked",
            Self::TreeNeverSettled { .. } => "tree_never_settled",
            Self::MarkersMissing { .. } => "markers_missing",
            Self::DefinitionChanged => "definition_changed",
            Self::AcceptedSince => "accepted_since",
            Self::ShippingNotChecked => "shipping_not_checked",
            Self::Shipped { .. } => "shipped",
            Self::ShipUnmet { .. } => "ship_unmet",
            Self::CiFailed { .. } => "ci_failed",
            Self::ShipNeedsUser { .. } => "ship_needs_user",
            Self::PassedAfterFailing => "passed_after_failing",
            Self::FilesReplaced { .. } => "files_replaced",
            Self::DeadlineReached { .. } => "deadline_reached",
            Self::LedgerTampered { .. } => "ledger_tampered",
            Self::DefinitionRevoked => "definition_revoked",
            Self::NotYet { .. } => "not_yet",
            Self::NotEvaluated { .. } => "not_evaluated",
        }
    }
}

/// Why the gates could not be evaluated; never the fault of the agent's work.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "trouble", rename_all = "snake_case")]
pub enum EvaluationError {
    Config {
        file: String,
        problem: ConfigProblem,
    },
    GateCouldNotStart {
        gate: GateName,
        why: String,
    },
    Deadline {
        gates: Vec<GateName>,
    },
    Tree {
        why: String,
    },
    Busy {
        why: String,
    },
    NoReceipt {
        gate: GateName,
    },
    TaskListGone {
        file: String,
    },
    TaskListEmpty {
        file: String,
    },
    TaskListUnreadable {
        file: String,
        why: String,
    },
    /// The forge or git could not be asked; never the same as "there is none".
    Forge {
        what: String,
        next: String,
    },
}

impl EvaluationError {
    /// The error kind it counts as.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::TaskListGone { .. } | Self::TaskListEmpty { .. } => ErrorKind::TaskNotFound,
            Self::TaskListUnreadable { .. } => ErrorKind::FileOperation,
            Self::Config { .. }
            | Self::GateCouldNotStart { .. }
            | Self::Deadline { .. }
            | Self::Tree { .. }
            | Self::Busy { .. }
            | Self::NoReceipt { .. }
            | Self::Forge { .. } => ErrorKind::CannotTell,
        }
    }
}

/// The limit that released a failing loop.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "limit", rename_all = "snake_case")]
pub enum LimitHit {
    Attempts {
        most: u32,
    },
    Clock {
        #[serde(with = "crate::model::duration::seconds")]
        #[cfg_attr(feature = "schema", schemars(with = "f64"))]
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
    /// The client is about to override the hook.
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
