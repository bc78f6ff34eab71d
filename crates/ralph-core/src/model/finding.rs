//! The result of one check. A stop is judged by a list of these in the preset's order: the first that does not pass
//! decides.

use jiff::Timestamp;

use crate::model::evidence::EvidenceFacts;
use crate::model::gate::receipt::Receipt;
use crate::model::gate::{CheckResult, Gate, GateReport};
use crate::model::hygiene::HygieneProblem;
use crate::model::id::{Digest, TreeHash};
use crate::model::preset::Check;
use crate::model::promise_seen::PromiseSeen;
use crate::model::ship::{ShipAction, ShipWait};
use crate::model::verdict::EvaluationError;

#[derive(Clone, Debug)]
pub enum Finding {
    Gates(GatesSeen),
    TaskList(TasksSeen),
    Promise(PromiseSeen),
    Markers {
        missing: Vec<String>,
    },
    /// Problems in added lines.
    Hygiene {
        flaws: Vec<HygieneProblem>,
    },
    /// What shows the task; it fails nothing by itself.
    Proof(EvidenceFacts),
    /// An external condition is pending; it is checked again later.
    NotYet {
        check: Check,
        what: String,
        until: Option<Timestamp>,
    },
    NotEvaluated {
        check: Check,
        trouble: EvaluationError,
    },
    /// A step on the way to a merged pull request.
    Ship {
        check: Check,
        outcome: ShipOutcome,
    },
}

impl Finding {
    pub fn answer(&self) -> CheckResult {
        let passes = |does: bool| if does { CheckResult::Pass } else { CheckResult::Fail };
        match self {
            Self::Gates(seen) => seen.answer(),
            Self::TaskList(TasksSeen::List { done, total, .. }) => passes(done >= total),
            Self::Promise(promise) => passes(*promise == PromiseSeen::Given),
            Self::Markers { missing } => passes(missing.is_empty()),
            Self::Hygiene { flaws } => passes(flaws.is_empty()),
            Self::Proof(_) => CheckResult::Pass,
            Self::NotYet { .. } => CheckResult::NotYet,
            Self::TaskList(TasksSeen::Trouble(_)) | Self::NotEvaluated { .. } => CheckResult::CannotTell,
            Self::Ship { outcome, .. } => match outcome {
                ShipOutcome::Passed => CheckResult::Pass,
                ShipOutcome::Unmet { .. } | ShipOutcome::CiFailed { .. } | ShipOutcome::ToDo(_) => {
                    CheckResult::Fail
                }
                ShipOutcome::NotYet { .. } => CheckResult::NotYet,
                ShipOutcome::NeedsUser { .. } | ShipOutcome::CannotTell(_) => CheckResult::CannotTell,
            },
        }
    }

    pub fn gates(&self) -> Option<&GatesSeen> {
        match self {
            Self::Gates(seen) => Some(seen),
            _ => None,
        }
    }
}

/// The state of one step on the way to its goal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShipOutcome {
    Passed,
    /// The agent can change it: what is missing, and the next action.
    Unmet {
        what: String,
        next: String,
    },
    /// CI failed; the reports hold what its logs say.
    CiFailed {
        reports: Vec<GateReport>,
        url: String,
    },
    /// ralph does this itself.
    ToDo(ShipAction),
    /// Somebody else has to finish first, at the latest by the wait's deadline.
    NotYet {
        what: String,
        until: Timestamp,
        wait: ShipWait,
    },
    /// Only the user can decide.
    NeedsUser {
        what: String,
        next: String,
    },
    CannotTell(EvaluationError),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TasksSeen {
    List { done: usize, total: usize, next: Option<String> },
    Trouble(EvaluationError),
}

/// The result of the gate runner.
#[derive(Clone, Debug)]
pub struct GatesSeen {
    pub reports: Vec<GateReport>,
    pub receipts: Vec<Receipt>,
    /// Each required gate with the fingerprint of its inputs after the last run.
    pub required: Vec<(Gate, TreeHash)>,
    /// None if an earlier process ran the gates; its receipts do not count.
    pub environment: Option<Digest>,
    pub tree: TreeHash,
    /// Files that still differed after the last allowed run; empty when the tree settled.
    pub unsettled: Vec<String>,
    /// Files that were touched during two consecutive runs of the gates but have the same content as before.
    pub moved: Vec<String>,
}

#[cfg(test)]
impl GatesSeen {
    /// These reports of one tree, without receipts.
    pub(crate) fn sample(reports: Vec<GateReport>) -> Self {
        Self {
            reports,
            receipts: Vec::new(),
            required: Vec::new(),
            environment: None,
            tree: TreeHash::new("t"),
            unsettled: Vec::new(),
            moved: Vec::new(),
        }
    }
}

impl GatesSeen {
    /// A failing gate decides even if another one could not be evaluated.
    pub fn answer(&self) -> CheckResult {
        let mut answer = CheckResult::Pass;
        for report in &self.reports {
            match report.answer() {
                CheckResult::Fail => return CheckResult::Fail,
                CheckResult::Pass => {}
                other => answer = other,
            }
        }
        if answer == CheckResult::Pass && !self.unsettled.is_empty() { CheckResult::Fail } else { answer }
    }

    /// A gate that may stay red (`red: keep`) and fails with nothing but what it failed with at the start blocks nothing.
    pub fn excuse(&mut self, at_start: &[GateReport]) {
        for report in &mut self.reports {
            let is_excused = at_start.iter().any(|start| report.fails_as_at_start(start));
            if is_excused && self.required.iter().any(|(gate, _)| gate.name == report.gate && gate.keeps_red)
            {
                report.advisory = true;
                self.required.retain(|(gate, _)| gate.name != report.gate);
            }
        }
    }

    /// A required gate without a receipt for this tree and environment.
    pub fn without_receipt(&self) -> Option<&Gate> {
        let has_receipt = |gate: &Gate, tree: &TreeHash| {
            self.environment.as_ref().is_some_and(|environment| {
                self.receipts.iter().any(|receipt| receipt.speaks_for(gate, environment, tree))
            })
        };
        self.required.iter().find(|(gate, tree)| !has_receipt(gate, tree)).map(|(gate, _)| gate)
    }
}
