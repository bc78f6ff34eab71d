//! The core's inputs, observed by the program.

use jiff::Timestamp;

use crate::claims::honest_exit::AgentAnswers;
use crate::claims::state_file::Exported;
use crate::clients::hook::BackgroundWork;
use crate::ledger::event::Subject;
use crate::model::evidence::{EvidenceFacts, RequiredProof};
use crate::model::finding::{Finding, GatesSeen, TasksSeen};
use crate::model::gate::GateReport;
use crate::model::id::{Digest, SessionId, TreeHash};
use crate::model::layout::Layout;
use crate::model::limits::Limits;
use crate::model::preset::{Check, Preset};
use crate::model::promise_seen::PromiseSeen;

/// Everything about one attempt to stop.
#[derive(Clone, Debug)]
pub struct Facts {
    /// When the stop arrived. Staleness is measured from here, because gates take time.
    pub arrived: Timestamp,
    pub now: Timestamp,
    pub subject: Subject,
    pub session: Option<SessionId>,
    pub task: Option<String>,
    pub layout: Layout,
    pub preset: &'static Preset,
    pub limits: Limits,
    /// The effective accepted definition; none if nothing was accepted.
    pub definition: Option<Digest>,
    pub definition_status: DefinitionStatus,
    /// The checks in order of precedence; none if nothing is required.
    pub checks: Vec<Check>,
    pub export: ExportSeen,
    /// The commit the tree is based on, if the driver recorded it.
    pub head: Option<String>,
    /// Facts about a stop of the session itself; none for sub-agents.
    pub session_stop: Option<SessionStop>,
    /// The process that decides.
    pub process: i32,
    /// Files that the user's own gate runs rewrote with equal content.
    pub rewritten: Vec<String>,
    /// Trees on which other loops of this session failed.
    pub failed_elsewhere: Vec<TreeHash>,
    /// Gates on the start's contents, as this process saw them: what failed there, too, does not block a guarded agent.
    pub at_start: Vec<GateReport>,
    /// The proof that was asked for; none means that the level is shown and nothing is asked.
    pub proof: Option<RequiredProof>,
    pub answers: AgentAnswers,
    /// The result of each check, in order; none before they ran.
    pub findings: Option<Vec<Finding>>,
    /// The gates were run a second time on a tree that had failed before.
    pub is_second_look: bool,
    /// The gates ran for this judgement, and not only for an earlier one of this process on the same files.
    pub gates_ran_now: bool,
}

impl Facts {
    /// The result of the gates, if they ran.
    pub fn gates(&self) -> Option<&GatesSeen> {
        self.findings.iter().flatten().find_map(Finding::gates)
    }

    /// What shows the task, once it was looked at.
    pub fn evidence(&self) -> Option<&EvidenceFacts> {
        self.findings.iter().flatten().find_map(|finding| match finding {
            Finding::Proof(evidence) => Some(evidence),
            _ => None,
        })
    }
}

/// Facts about a session at its stop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionStop {
    /// Whether its last message gave the promise; none if none is required.
    pub promise: Option<PromiseSeen>,
    /// The task list, if there is one.
    pub tasks: Option<TasksSeen>,
    /// The last tool call before the stop, if known.
    pub tool_call: Option<String>,
    /// Background work that the agent may be waiting for.
    pub background: Vec<BackgroundWork>,
    /// After how many consecutive blocks the client overrides the hook; none means never.
    pub block_cap: Option<u32>,
    /// The user's prompt that it works on.
    pub prompt: Option<String>,
    /// Whether the tree is unchanged since this prompt, so that every failure existed before.
    pub as_found: bool,
}

/// The repo's definition compared with the accepted one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefinitionStatus {
    Accepted,
    /// The file differs from what the user accepted; `difference` is for display.
    Changed {
        difference: String,
    },
    /// The file was accepted only after the loop or session began.
    AcceptedSince,
    /// Trust was revoked while the loop ran.
    Revoked,
}

/// The state file found in the repo.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportSeen {
    /// How often it was found deleted, including this time.
    pub deletions: u64,
    pub file: ExportFile,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ExportFile {
    /// The layout has none, or it is missing.
    #[default]
    Absent,
    AsWritten,
    /// Written by ralph, but edited.
    Edited {
        found: String,
    },
    /// Another tool's.
    Foreign(Exported),
    /// Unreadable; moved aside under this name.
    Unreadable {
        kept_as: String,
    },
}
