//! What one check showed. A stop is judged by a list of these, folded in the preset's order: the first that does not pass
//! decides.

use jiff::Timestamp;

use crate::model::gate::receipt::Receipt;
use crate::model::gate::{Answer, Gate, GateReport};
use crate::model::hygiene::Flaw;
use crate::model::id::{Digest, TreeHash};
use crate::model::preset::Check;
use crate::model::promise_seen::PromiseSeen;
use crate::model::verdict::Trouble;

#[derive(Clone, Debug)]
pub enum Finding {
    Gates(GatesSeen),
    TaskList(TasksSeen),
    Promise(PromiseSeen),
    Markers {
        missing: Vec<String>,
    },
    /// What was left behind in what was added.
    Hygiene {
        flaws: Vec<Flaw>,
    },
    /// Something outside must happen first; nobody is at fault. It is looked at again then, or after a while.
    NotYet {
        check: Check,
        what: String,
        until: Option<Timestamp>,
    },
    CannotTell {
        check: Check,
        trouble: Trouble,
    },
}

impl Finding {
    pub fn answer(&self) -> Answer {
        let passes = |does: bool| if does { Answer::Pass } else { Answer::Fail };
        match self {
            Self::Gates(seen) => seen.answer(),
            Self::TaskList(TasksSeen::List { done, total, .. }) => passes(done >= total),
            Self::Promise(promise) => passes(*promise == PromiseSeen::Given),
            Self::Markers { missing } => passes(missing.is_empty()),
            Self::Hygiene { flaws } => passes(flaws.is_empty()),
            Self::NotYet { .. } => Answer::NotYet,
            Self::TaskList(TasksSeen::Trouble(_)) | Self::CannotTell { .. } => Answer::CannotTell,
        }
    }

    pub fn gates(&self) -> Option<&GatesSeen> {
        match self {
            Self::Gates(seen) => Some(seen),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TasksSeen {
    List { done: usize, total: usize, next: Option<String> },
    Trouble(Trouble),
}

/// What the gate runner brought back.
#[derive(Clone, Debug)]
pub struct GatesSeen {
    pub reports: Vec<GateReport>,
    pub receipts: Vec<Receipt>,
    /// Each required gate with the fingerprint, after the last run, of what it depends on.
    pub required: Vec<(Gate, TreeHash)>,
    /// None where the gates were run by an earlier process, whose receipts count for nothing.
    pub environment: Option<Digest>,
    pub tree: TreeHash,
    /// Files that still differed after the last allowed run; empty when the tree settled.
    pub unsettled: Vec<String>,
    /// Files that were touched while the gates ran, in two runs in a row, and have the same content as before.
    pub moved: Vec<String>,
}

impl GatesSeen {
    /// A failure is an answer even where another gate could not be evaluated.
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
            self.environment.as_ref().is_some_and(|environment| {
                self.receipts.iter().any(|receipt| receipt.speaks_for(gate, environment, tree))
            })
        };
        self.required.iter().find(|(gate, tree)| !has_receipt(gate, tree)).map(|(gate, _)| gate)
    }
}
