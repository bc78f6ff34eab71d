//! What the core may know: observed by the program, given as values.

use jiff::Timestamp;

use crate::claims::state_file::Exported;
use crate::clients::hook::BackgroundWork;
use crate::ledger::event::{FailureMark, Subject};
use crate::model::finding::{Finding, GatesSeen, TasksSeen};
use crate::model::id::{Digest, SessionId, TreeHash};
use crate::model::layout::Layout;
use crate::model::limits::Limits;
use crate::model::preset::{Check, Preset};
use crate::model::promise_seen::PromiseSeen;

/// Everything about one attempt to stop.
#[derive(Clone, Debug)]
pub struct Facts {
    /// When the stop reached us. Staleness is measured from here: gates take time.
    pub arrived: Timestamp,
    pub now: Timestamp,
    pub subject: Subject,
    pub session: Option<SessionId>,
    pub task: Option<String>,
    pub layout: Layout,
    pub preset: &'static Preset,
    pub limits: Limits,
    /// The effective accepted definition; none where nothing was accepted.
    pub definition: Option<Digest>,
    pub standing: Standing,
    /// The checks to look at, in the order in which they decide; none: nothing is asked of anybody.
    pub checks: Vec<Check>,
    pub export: ExportSeen,
    /// The commit that the tree stands on, where the driver looked.
    pub head: Option<String>,
    /// What is known of a stop of the session itself; none where a sub-agent stops.
    pub session_stop: Option<SessionStop>,
    /// The process that decides.
    pub process: i32,
    /// Files that the user's own runs of the gates rewrote with equal content.
    pub rewritten: Vec<String>,
    /// Trees on which other loops of this session failed.
    pub failed_elsewhere: Vec<TreeHash>,
    /// What each check showed, in their order; none: not looked at yet.
    pub findings: Option<Vec<Finding>>,
    /// The gates were run a second time on a tree that had failed before.
    pub is_second_look: bool,
}

impl Facts {
    /// What the gates showed, where they were run.
    pub fn gates(&self) -> Option<&GatesSeen> {
        self.findings.iter().flatten().find_map(Finding::gates)
    }
}

/// What a session says and shows when it stops.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionStop {
    /// How its last message stands to the promise; none where no promise is asked for.
    pub promise: Option<PromiseSeen>,
    /// The task list; none where there is none.
    pub tasks: Option<TasksSeen>,
    /// The last tool call before the stop, where it can be told.
    pub tool_call: Option<String>,
    /// Background work that the agent may be waiting for.
    pub background: Vec<BackgroundWork>,
    /// After how many holds in a row the client ends the turn by itself; none: never.
    pub block_cap: Option<u32>,
    /// The prompt of the person that it works on.
    pub prompt: Option<String>,
    /// What is known to have failed on the tree that this prompt found.
    pub red_before: Vec<FailureMark>,
    /// The tree is the one that this prompt found: whatever fails there failed before.
    pub as_found: bool,
}

/// How the definition in the repo stands to the accepted one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    Accepted,
    /// The file says something else than what a person accepted; the difference for showing.
    Changed {
        difference: String,
    },
    /// The file is as it was accepted, but only since the loop or session began.
    AcceptedSince,
    /// Trust was revoked while the loop ran.
    Revoked,
}

/// What the state file in the repo looks like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportSeen {
    /// How often it was found deleted, this time included.
    pub deletions: u64,
    pub file: ExportFile,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ExportFile {
    /// The layout has none, or it is not there.
    #[default]
    Absent,
    AsWritten,
    /// Ours, but somebody changed it.
    Edited {
        found: String,
    },
    /// Another tool's.
    Foreign(Exported),
    /// Not ours and not readable; put aside under this name.
    Unreadable {
        kept_as: String,
    },
}
