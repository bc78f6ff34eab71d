//! Everything we remember: the ledger's vocabulary. State is a fold over it.
//!
//! Stored data is an API: a variant may be added, a field may be added with a default, nothing is ever renamed or removed.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::budget::Limits;
use crate::gate::GateReport;
use crate::gate::receipt::Receipt;
use crate::id::{AgentId, Digest, GateName, SessionId, TreeHash};
use crate::layout::Layout;
use crate::verdict::{LimitHit, Reason, Trouble, Verdict};

/// Who is trying to stop.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Subject {
    SubAgent {
        name: String,
        id: AgentId,
    },
    /// Nobody: a person, an agent or CI wants to know now.
    Plain,
}

impl Subject {
    /// What a person calls it.
    pub fn name(&self) -> &str {
        match self {
            Self::SubAgent { name, .. } => name,
            Self::Plain => "verify",
        }
    }
}

#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    Began {
        subject: Subject,
        session: Option<SessionId>,
        task: Option<String>,
        layout: Layout,
        preset: String,
        /// The accepted definition in force.
        definition: Digest,
        limits: Limits,
    },
    /// A state file of another tool was found and is carried on.
    Adopted {
        iteration: u32,
        started_at: Timestamp,
    },
    /// The count starts again.
    Reset {
        why: ResetCause,
    },
    /// Something about the exported state that changes nothing but must be seen.
    ExportNoted {
        what: ExportOddity,
    },
    RunStarted {
        tree: TreeHash,
        #[serde(default)]
        files: usize,
        /// The process that runs the gates; 0 where it is not known.
        #[serde(default)]
        pid: i32,
        /// What was odd about reading the tree.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    GateRan {
        report: GateReport,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        receipt: Option<Receipt>,
    },
    /// The run was cut off from outside: a signal, the person, the client's time-out.
    Interrupted {
        why: String,
    },
    Judged(Judgement),
    CannotTell {
        trouble: Trouble,
        in_a_row: u32,
        /// Held, or paused when it was one too many.
        verdict: Verdict,
    },
    Waited {
        what: String,
    },
    /// Gates were run without judging anybody: some of them, or to see whether they work.
    Looked {
        gates: Vec<GateName>,
    },
    /// The ledger's end was torn or its middle damaged; what could be read was kept, the rest put aside.
    LedgerMended {
        what: String,
    },
}

/// One judged attempt to stop.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    pub attempt: u32,
    pub verdict: Verdict,
    pub reason: Reason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitHit>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeHash>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailureMark>,
}

/// Enough of a failure to tell at the next attempt whether it is still the same one.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureMark {
    pub gate: GateName,
    pub outcome: String,
    pub text: Digest,
}

#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum ResetCause {
    TaskChanged { from: Option<String>, to: Option<String> },
    Stale { idle_seconds: u64 },
    ExportDeleted { deletions: u64 },
    Command,
}

#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "oddity", rename_all = "snake_case")]
pub enum ExportOddity {
    /// Deleting resets once; this is the second time for the same agent.
    DeletedAgain { deletions: u64 },
    /// Somebody edited it. The ledger wins.
    Disagrees { ledger: u32, found: String },
    /// It could not be read and was put aside.
    Unreadable { kept_as: String },
}
