//! What the core may know: observed by the program, given as values.

use crate::clients::hook::BackgroundWork;
use jiff::Timestamp;

use crate::claims::state_file::Exported;
use crate::ledger::event::{FailureMark, Subject};
use crate::model::gate::receipt::Receipt;
use crate::model::gate::{Answer, Gate, GateReport};
use crate::model::hygiene::Flaw;
use crate::model::id::{Digest, SessionId, TreeHash};
use crate::model::layout::Layout;
use crate::model::limits::Limits;
use crate::model::preset::Preset;
use crate::model::promise_seen::PromiseSeen;
use crate::model::verdict::Trouble;

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
    /// The accepted definition in force.
    pub definition: Digest,
    pub standing: Standing,
    pub checks: Checks,
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
    /// What the checks showed; not looked at yet where it is none.
    pub evidence: Option<Evidence>,
    /// The gates were run a second time on a tree that had failed before.
    pub is_second_look: bool,
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TasksSeen {
    List { done: usize, total: usize, next: Option<String> },
    Trouble(Trouble),
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

/// Which checks there are to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checks {
    Gates,
    Markers,
    /// What was added, and no gate.
    Hygiene,
    /// No gate: the session's promise and task list alone.
    Claims,
    /// Nothing to hold anybody for.
    Nothing,
}

#[derive(Clone, Debug)]
pub enum Evidence {
    Gates(GatesSeen),
    Markers {
        missing: Vec<String>,
    },
    /// Something was left behind, so no gate was run.
    Untidy(Vec<Flaw>),
    /// Nothing was left behind, and no gate is asked for.
    Tidy,
    /// There is no gate to run.
    Claims,
    /// Something outside must happen first; nobody is at fault.
    NotYet {
        what: String,
    },
    Trouble(Trouble),
}

/// What the gate runner brought back.
#[derive(Clone, Debug)]
pub struct GatesSeen {
    pub reports: Vec<GateReport>,
    pub receipts: Vec<Receipt>,
    /// Each required gate with the fingerprint, after the last run, of what it depends on.
    pub required: Vec<(Gate, TreeHash)>,
    pub environment: Digest,
    pub tree: TreeHash,
    /// Files that still differed after the last allowed run; empty when the tree settled.
    pub unsettled: Vec<String>,
    /// Files that were touched while the gates ran, in two runs in a row, and have the same content as before.
    pub moved: Vec<String>,
}

impl GatesSeen {
    /// A failure is an answer even where another gate could not tell.
    pub fn answer(&self) -> Answer {
        let mut answer = Answer::Pass;
        for report in &self.reports {
            match report.answer() {
                Answer::Fail => return Answer::Fail,
                Answer::Pass => {}
                other => answer = other,
            }
        }
        if answer == Answer::Pass && !self.unsettled.is_empty() { Answer::Fail } else { answer }
    }

    /// A required gate for which there is no receipt on this very tree, in this environment.
    pub fn without_receipt(&self) -> Option<&Gate> {
        let has_receipt = |gate: &Gate, tree: &TreeHash| {
            self.receipts.iter().any(|receipt| receipt.speaks_for(gate, &self.environment, tree))
        };
        self.required.iter().find(|(gate, tree)| !has_receipt(gate, tree)).map(|(gate, _)| gate)
    }
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
