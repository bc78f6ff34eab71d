//! *undo*: the start's sources under everything else that the agent left (tests, settings). What should prove the task must
//! fail there, else the green does not come from the work.
//!
//! The gates run on a view of the work tree, so nothing is written to it. A control run on the unchanged view comes first: only
//! if it agrees with the run in place does the answer count. At first only the proving gates run. If that shows nothing
//! (the control fails, or all stay green), they run once more after the gates before them, which may build what they test.

use std::path::Path;
use std::time::Instant;

use ralph_core::model::file_change::{FileChange, ViewEdit};
use ralph_core::model::gate::calls;
use ralph_core::model::gate::plan::GatePlan;
use ralph_core::model::gate::{Gate, GateOutcome, GateReport};
use ralph_core::model::id::GateName;
use ralph_core::model::protected;
use ralph_core::model::results::Results;
use ralph_core::model::undo::{GateWithoutChange, UndoSeen};

use crate::checks::gates::environment::GateEnvironment;
use crate::checks::gates_on_views::{GatesOnViews, ViewedGates, package_scripts, protected_files};
use crate::store::effective_gates::EffectiveGates;
use crate::store::start_contents::StartContents;
use crate::store::workspace::Workspace;
use crate::sys::proc::StopRequest;
use crate::sys::trace;
use crate::work_tree::fingerprint::Tree;
use crate::work_tree::view::ViewKind;

/// What a run on a changed view needs. The caller must not hold this repo's gates lock: it is taken here.
pub(crate) struct UndoRequest<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) effective: &'a EffectiveGates,
    /// The gates that should prove the task; for [`undo`], all of them passed on `now` in place.
    pub(crate) proving: &'a [GateName],
    pub(crate) start: &'a StartContents,
    /// The current files, as the verdict's process read them.
    pub(crate) now: &'a Tree,
    /// What the gates gave in place on `now`, if they ran: for [`run_on_start`] in a copy of the files, whose control run must
    /// agree with it. May be empty.
    pub(crate) in_place: &'a [GateReport],
    pub(crate) environment: &'a GateEnvironment,
    /// The prefix of the processes' marks, as for every gate of the loop.
    pub(crate) mark: &'a str,
    pub(crate) deadline: Option<Instant>,
    pub(crate) stop: &'a StopRequest,
    /// Where complete outputs are stored; an existing folder.
    pub(crate) logs: &'a Path,
}

/// Runs the proving gates on the unchanged view, then on the start's sources under everything else.
pub(crate) fn undo(request: &UndoRequest<'_>) -> UndoSeen {
    let seen = request.undo().unwrap_or_else(|why| UndoSeen::NotJudged { why });
    trace::step(|| match &seen {
        UndoSeen::Red { gates } => format!("undo: {} gates fail without the change", gates.len()),
        UndoSeen::Green { .. } => "undo: the gates pass without the change".to_owned(),
        UndoSeen::NotJudged { why } => format!("undo: not judged: {why}"),
    });
    seen
}

/// Runs the proving gates on the start's contents, all of them: how did they stand where the loop began? In a copy of the
/// files (where no overlay can be made) only if its control run agrees with `in_place`. The reports name all tests that
/// the runner names; none of them is a receipt.
pub(crate) fn run_on_start(request: &UndoRequest<'_>) -> Result<Vec<GateReport>, String> {
    let chosen = request.proving_gates()?;
    let edits: Vec<ViewEdit> = request.changes()?.iter().map(FileChange::undone).collect();
    let views = request.views()?;
    let (reports, kind) = views.run(&edits, &chosen)?;
    if kind != ViewKind::Overlay {
        let (control, _) = views.run(&[], &chosen)?;
        if !agrees(&control, request.in_place) {
            return Err(format!("the gates do not give the same result {kind}"));
        }
    }
    views.require_unchanged()?;
    Ok(reports)
}

/// Whether two runs of the same gates gave the same: outcome, and failing tests by name.
fn agrees(control: &[GateReport], in_place: &[GateReport]) -> bool {
    let failing = |report: &GateReport| {
        let mut names: Vec<String> =
            report.results.iter().flat_map(Results::failed_tests).map(|test| test.name.clone()).collect();
        names.sort();
        names
    };
    control.iter().all(|control| {
        let other = in_place.iter().find(|report| report.gate == control.gate);
        other.is_some_and(|other| other.outcome == control.outcome && failing(other) == failing(control))
    })
}

impl<'a> UndoRequest<'a> {
    fn root(&self) -> &'a Path {
        &self.workspace.repo.root
    }

    fn gates(&self) -> &'a [Gate] {
        &self.effective.config.gates
    }

    fn changes(&self) -> Result<Vec<FileChange>, String> {
        self.start.changes(self.root(), self.now).map_err(|error| error.to_string())
    }

    /// Which gates prove and may run again.
    fn proving_gates(&self) -> Result<Vec<bool>, String> {
        let is_proving = |gate: &Gate| self.proving.contains(&gate.name);
        let chosen: Vec<bool> = self.gates().iter().map(|gate| is_proving(gate) && gate.rerun).collect();
        let kept_out = self.gates().iter().find(|gate| is_proving(gate) && !gate.rerun);
        match (chosen.contains(&true), kept_out) {
            (true, _) => Ok(chosen),
            (false, Some(gate)) => Err(format!("`{}` must not run twice (`rerun: false`)", gate.name)),
            (false, None) => Err("no gate could prove the task".into()),
        }
    }

    fn undo(&self) -> Result<UndoSeen, String> {
        let proving = self.proving_gates()?;
        let undone = protected::undo_sources(&self.changes()?, &protected_files(self.root(), self.gates()));
        if let Some(file) = undone.inseparable.first() {
            return Err(format!("the tests and the source in {file} cannot be separated"));
        }
        let names = || {
            self.gates()
                .iter()
                .zip(&proving)
                .filter(|(_, is)| **is)
                .map(|(gate, _)| gate.name.clone())
                .collect()
        };
        if undone.edits.is_empty() {
            // Only tests, settings and dependencies changed.
            return Ok(UndoSeen::Green { gates: names() });
        }
        let views = self.views()?;
        let with_earlier = with_earlier_gates(self.gates(), &proving);
        let attempts: &[&[bool]] =
            if with_earlier == proving { &[&proving] } else { &[&proving, &with_earlier] };
        let mut last = Err("nothing was run".to_owned());
        for chosen in attempts {
            last = self.undo_with(&views, &undone.edits, chosen, &proving);
            if matches!(last, Ok(UndoSeen::Red { .. })) || self.stop.is_requested() {
                break;
            }
        }
        views.require_unchanged()?;
        last
    }

    fn undo_with(
        &self,
        views: &GatesOnViews<'_>,
        edits: &[ViewEdit],
        chosen: &[bool],
        proving: &[bool],
    ) -> Result<UndoSeen, String> {
        let proves = |report: &&GateReport| {
            self.gates().iter().zip(proving).any(|(gate, is)| *is && gate.name == report.gate)
        };
        let (control, kind) = views.run(&[], chosen)?;
        if let Some(failed) =
            control.iter().filter(proves).find(|report| report.outcome != GateOutcome::Passed)
        {
            let outcome = failed.outcome.word();
            return Err(format!("the control run of `{}` {kind}: {outcome}, unlike in place", failed.gate));
        }
        let (without, _) = views.run(edits, chosen)?;
        let earlier_failed = without
            .iter()
            .find(|report| !proves(report) && report.outcome != GateOutcome::Passed && !report.advisory);
        let (mut red, mut green) = (Vec::new(), Vec::new());
        let mut unknown = None;
        for report in without.iter().filter(proves) {
            match WithoutChange::of(report) {
                WithoutChange::Red(gate) => red.push(gate),
                WithoutChange::Green => green.push(report.gate.clone()),
                WithoutChange::Unknown(why) => unknown = Some(why),
            }
        }
        if !red.is_empty() {
            return Ok(UndoSeen::Red { gates: red });
        }
        if let Some(why) = unknown {
            return Err(why);
        }
        if let Some(earlier) = earlier_failed {
            let what = "which runs before it, fails without the change";
            return Err(format!("`{}`, {what}, so the others may have tested old outputs", earlier.gate));
        }
        let scripts = package_scripts(self.root());
        for gate in self.gates().iter().filter(|gate| green.contains(&gate.name)) {
            if let Some(daemon) =
                scripts.behind(&gate.run).iter().find_map(|command| calls::daemon_in(command))
            {
                return Err(format!("`{}` works through {daemon}, which does not see the view", gate.name));
            }
        }
        Ok(UndoSeen::Green { gates: green })
    }

    fn views(&self) -> Result<GatesOnViews<'_>, String> {
        let viewed = ViewedGates {
            workspace: self.workspace,
            gates: self.gates(),
            now: self.now,
            environment: self.environment,
            mark: self.mark,
            excerpt: self.effective.layout.data().excerpt,
            deadline: self.deadline,
            stop: self.stop,
            logs: self.logs,
        };
        viewed.begin()
    }
}

/// The chosen gates and all required ones that run before them.
fn with_earlier_gates(gates: &[Gate], chosen: &[bool]) -> Vec<bool> {
    let mut with_earlier = chosen.to_vec();
    let Ok(plan) = GatePlan::new(gates) else { return with_earlier };
    let mut next: Vec<usize> = (0..gates.len()).filter(|&at| chosen[at]).collect();
    while let Some(at) = next.pop() {
        for &before in plan.before(at) {
            if !with_earlier[before] && !gates[before].advisory && gates[before].rerun {
                with_earlier[before] = true;
                next.push(before);
            }
        }
    }
    with_earlier
}

/// What a gate on the start's sources says.
enum WithoutChange {
    Red(GateWithoutChange),
    Green,
    Unknown(String),
}

impl WithoutChange {
    fn of(report: &GateReport) -> Self {
        /// How many failing tests are named.
        const MOST_NAMED: usize = 40;
        /// A shell reports a program that a signal ended so.
        const ENDED_BY_SIGNAL: std::ops::RangeInclusive<i32> = 129..=159;
        let tests = report.results.iter().flat_map(Results::failed_tests);
        let failing: Vec<String> = tests.map(|test| test.name.clone()).take(MOST_NAMED).collect();
        let gate = &report.gate;
        match &report.outcome {
            GateOutcome::Passed => Self::Green,
            GateOutcome::Failed { code } if ENDED_BY_SIGNAL.contains(code) && failing.is_empty() => {
                Self::Unknown(format!("`{gate}` crashed without the change (exit code {code})"))
            }
            GateOutcome::Failed { .. } => Self::Red(GateWithoutChange { gate: gate.clone(), failing }),
            GateOutcome::CouldNotStart { why } => {
                Self::Unknown(format!("`{gate}` could not start without the change: {why}"))
            }
            other => Self::Unknown(format!("`{gate}` without the change: {}", other.word())),
        }
    }
}

#[cfg(test)]
mod tests;
