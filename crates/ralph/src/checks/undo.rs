//! *undo*: the start's sources under everything else that the agent left (tests, settings). What should prove the task must
//! fail there, else the green does not come from the work.
//!
//! The gates run on a view of the work tree, so nothing is written to it. A control run on the unchanged view comes first: only
//! if it agrees with the run in place does the answer count.

use std::path::Path;
use std::time::Instant;

use ralph_core::model::gate::GateReport;
use ralph_core::model::id::GateName;
use ralph_core::model::undo::UndoSeen;

use crate::checks::gates::environment::GateEnvironment;
use crate::store::effective_gates::EffectiveGates;
use crate::store::start_contents::StartContents;
use crate::store::workspace::Workspace;
use crate::sys::proc::StopRequest;
use crate::work_tree::fingerprint::Tree;

/// What a run on a changed view needs. The caller must not hold this repo's gates lock: it is taken here.
pub(crate) struct UndoRequest<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) effective: &'a EffectiveGates,
    /// The gates that should prove the task; all of them passed on `now` in place.
    pub(crate) proving: &'a [GateName],
    pub(crate) start: &'a StartContents,
    /// The current files, as the verdict's process read them.
    pub(crate) now: &'a Tree,
    pub(crate) environment: &'a GateEnvironment,
    /// The prefix of the processes' marks, as for every gate of the loop.
    pub(crate) mark: &'a str,
    pub(crate) deadline: Option<Instant>,
    pub(crate) stop: &'a StopRequest,
    /// Where complete outputs are stored.
    pub(crate) logs: &'a Path,
}

/// Runs the proving gates on the unchanged view, then on the start's sources under everything else.
pub(crate) fn undo(_request: &UndoRequest<'_>) -> UndoSeen {
    UndoSeen::NotJudged { why: "runs on a changed view are not available".into() }
}

/// Runs the proving gates on the start's contents, all of them: how did they stand where the loop began? In a copy of the
/// files (where no overlay can be made) only if its control run agrees. Reports keep the failing tests; none of them
/// is a receipt.
pub(crate) fn run_on_start(_request: &UndoRequest<'_>) -> Result<Vec<GateReport>, String> {
    Err("runs on a changed view are not available".into())
}
