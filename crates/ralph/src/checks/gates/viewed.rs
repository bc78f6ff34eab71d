//! Gates on a changed view of the tree. Their reports explain where a green comes from; they are never receipts and never
//! recorded as results on the tree.

use std::path::Path;
use std::time::{Duration, Instant};

use ralph_core::model::gate::plan::{GatePlan, PlanProgress};
use ralph_core::model::gate::{Gate, GateOutcome, GateReport};

use super::environment::GateEnvironment;
use super::one_gate::{self, GatePlace};
use super::report;
use crate::sys::proc::StopRequest;
use crate::work_tree::view::TreeView;

/// How the gates run on a view.
pub(crate) struct ViewRun<'a> {
    pub(crate) view: &'a TreeView,
    pub(crate) environment: &'a GateEnvironment,
    pub(crate) mark: &'a str,
    pub(crate) logs: &'a Path,
    pub(crate) excerpt: usize,
    pub(crate) stop: &'a StopRequest,
    pub(crate) deadline: Option<Instant>,
}

impl ViewRun<'_> {
    /// Runs those of `gates` that are `chosen`, one after the other in their order, past failures.
    pub(crate) fn run(&self, gates: &[Gate], chosen: &[bool]) -> Vec<GateReport> {
        let Ok(plan) = GatePlan::new(gates) else { return Vec::new() };
        let mut environment = GateEnvironment {
            variables: self.environment.variables.clone(),
            digest: self.environment.digest.clone(),
            secrets: self.environment.secrets.clone(),
        };
        environment.variables.retain(|(name, _)| name != "PWD");
        environment.variables.push(("PWD".into(), self.view.root().into()));
        let place = GatePlace {
            root: self.view.root(),
            environment: &environment,
            mark: self.mark,
            logs: self.logs,
            excerpt: self.excerpt,
            stop: self.stop,
            view: Some(self.view),
        };
        let start = |chosen: &bool| if *chosen { PlanProgress::Waiting } else { PlanProgress::Passed };
        let mut progress: Vec<PlanProgress> = chosen.iter().map(start).collect();
        let mut reports = Vec::new();
        while let Some(&at) = plan.ready(&progress, true).first() {
            progress[at] = PlanProgress::Passed;
            reports.push(self.run_one(&gates[at], &place));
        }
        reports
    }

    fn run_one(&self, gate: &Gate, place: &GatePlace<'_>) -> GateReport {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let is_cut = left.is_some_and(|left| left < gate.timeout);
        let limited = Gate { timeout: left.unwrap_or(Duration::MAX).min(gate.timeout), ..gate.clone() };
        let mut ran = one_gate::run(&limited, place);
        if is_cut && matches!(ran.outcome, GateOutcome::TimedOut { .. }) {
            ran.outcome = GateOutcome::DeadlineReached;
        }
        report(gate, ran, Vec::new())
    }
}
