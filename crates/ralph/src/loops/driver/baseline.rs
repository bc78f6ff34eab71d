//! Where a driven loop begins: the files are stored for *undo*, and all gates are run once, past failures, so that the verdict
//! can say what went from red to green. A resumed loop trusts no earlier run: then only *undo* shows something.

use std::sync::Arc;

use ralph_core::ledger::event::{Event, Subject, TestsOfGate};
use ralph_core::ledger::loop_event::LoopEvent;
use ralph_core::ledger::state::State;
use ralph_core::model::finding::{Finding, GatesSeen};
use ralph_core::model::gate::{CheckResult, Gate, GateReport};
use ralph_core::model::id::GateName;
use ralph_core::model::preset;

use super::{ActiveDrive, DriveError};
use crate::checks::gates::GateObserver;
use crate::loops::evidence::{self, StartOfWork};
use crate::loops::judge::{EngineError, JudgeCase, JudgeOptions};
use crate::store::effective_gates::EffectiveGates;
use crate::work_tree::fingerprint::Tree;

impl ActiveDrive<'_> {
    /// Before the first iteration: runs the gates and stores the files. Later: what is stored of that.
    pub(super) fn look_at_start(&mut self, state: State) -> Result<State, DriveError> {
        if state.drive.agent_ran {
            self.resume_start(&state)?;
            return Ok(state);
        }
        let Ok(effective) = super::effective_gates(self.driver.workspace, &state) else { return Ok(state) };
        if !effective.has_gates() {
            return Ok(state);
        }
        self.driver.checkpointer.wait_until_staged();
        let mut events = Vec::new();
        if !self.driver.plan.options.no_baseline {
            match self.run_baseline(&effective) {
                Ok(Some(seen)) => events.push(self.baseline_ran(seen)),
                Ok(None) => {}
                Err(DriveError::Engine(EngineError::Interrupted(_) | EngineError::Freed)) => {
                    return Ok(self.driver.ledger.state()?);
                }
                Err(error) => return Err(error),
            }
        }
        // What the gates themselves wrote is no work of the agent's.
        self.found = self.read_tree(&effective).or(self.found.take());
        if let Some(found) = &self.found {
            let workspace = self.driver.workspace;
            match evidence::keep_start(&workspace.repo_home, &workspace.repo.root, found) {
                Ok(contents) => {
                    events.push(Event::StartRecorded { tree: contents.fingerprint() });
                    self.start.contents = Some(Arc::new(contents));
                }
                Err(error) => {
                    let what = format!("the files of the start could not be stored: {error}");
                    self.driver.follow.receive(&LoopEvent::Warning { what });
                }
            }
        }
        if events.is_empty() { Ok(state) } else { self.driver.append(&events) }
    }

    fn resume_start(&mut self, state: &State) -> Result<(), DriveError> {
        let mut start = StartOfWork::stored(&self.driver.workspace.repo_home, state.start.as_ref());
        for line in self.driver.ledger.lines()?.lines {
            if let Event::BaselineRan { reports, .. } = line.event {
                start.tests = StartOfWork::count_tests(&reports);
            }
        }
        self.start = start;
        Ok(())
    }

    fn run_baseline(&mut self, effective: &EffectiveGates) -> Result<Option<GatesSeen>, DriveError> {
        let gates: Vec<Gate> = effective.config.gates.iter().map(at_start).collect();
        self.driver.follow.receive(&LoopEvent::BaselineBegan { gates: gates.len() });
        let found = self.run_at_start(effective, &gates)?;
        let accepts = || effective.config.gates.iter().filter(|gate| gate.accepts);
        let again: Vec<Gate> = accepts().map(at_start).collect();
        let second = if again.is_empty() { None } else { self.run_at_start(effective, &again)? };
        let runs = || found.iter().chain(&second).flat_map(|seen| &seen.reports);
        let passes = |gate: &&Gate| {
            let of_gate = runs().filter(|report| report.gate == gate.name);
            of_gate.clone().count() == 0
                || of_gate.into_iter().any(|report| report.outcome.answer() != CheckResult::Fail)
        };
        if !self.driver.plan.options.accept_green
            && let Some(gate) = accepts().find(passes)
        {
            return Err(DriveError::PassesAlready { command: gate.run.clone() });
        }
        Ok(found)
    }

    fn run_at_start(
        &mut self,
        effective: &EffectiveGates,
        gates: &[Gate],
    ) -> Result<Option<GatesSeen>, DriveError> {
        let driver = &mut self.driver;
        let id = driver.plan.loop_id.clone();
        let case = JudgeCase {
            ledger: driver.ledger.clone(),
            tree_memory: self.tree_memory.clone(),
            found: self.found.clone(),
            ..JudgeCase::new(driver.workspace, effective, id, Subject::Driver, &preset::DRIVE)
        };
        let options = JudgeOptions { signals: Some(driver.signals), ..JudgeOptions::without_deadline() };
        match case.run_baseline(gates, &options, &mut SilentRun)? {
            Finding::Gates(seen) => Ok(Some(seen)),
            Finding::NotEvaluated { trouble, .. } => {
                let what = format!("the gates could not be run before the first iteration: {trouble}");
                driver.follow.receive(&LoopEvent::Warning { what });
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// Keeps the results and returns what the ledger records of them.
    fn baseline_ran(&mut self, seen: GatesSeen) -> Event {
        let names = |report: &GateReport| {
            let names = report.results.as_ref()?.whole.tests.clone()?;
            Some(TestsOfGate { gate: report.gate.clone(), names })
        };
        let event = Event::BaselineRan {
            tree: seen.tree.clone(),
            reports: seen.reports.clone(),
            tests: seen.reports.iter().filter_map(names).collect(),
        };
        self.driver.follow.receive(&LoopEvent::BaselineEnded { reports: seen.reports.clone() });
        self.start.tests = StartOfWork::count_tests(&seen.reports);
        self.start.baseline = Arc::new(seen.reports);
        event
    }

    fn read_tree(&self, effective: &EffectiveGates) -> Option<Arc<Tree>> {
        let reader = crate::loops::judge::tree_reader(self.driver.workspace, Some(effective));
        reader.remembering(&self.tree_memory).read().ok().map(Arc::new)
    }
}

/// An acceptance command is run by its exit code alone here: it must fail twice.
fn at_start(gate: &Gate) -> Gate {
    Gate { accepts: false, ..gate.clone() }
}

/// The acceptance commands of a loop as gates, after those of the repo.
pub(super) fn with_acceptance(effective: EffectiveGates, state: &State) -> EffectiveGates {
    let accept = state.goal.as_ref().map(|goal| goal.accept.as_slice()).unwrap_or_default();
    if accept.is_empty() || effective.config.gates.is_empty() {
        return effective;
    }
    let mut effective = effective;
    let timeout = effective.config.gates.iter().map(|gate| gate.timeout).max();
    effective.config.gates.extend(acceptance_gates(accept, timeout));
    effective
}

/// `accept`, `accept-2`, …
pub(crate) fn acceptance_gates(
    commands: &[String],
    timeout: Option<std::time::Duration>,
) -> impl Iterator<Item = Gate> {
    commands.iter().enumerate().map(move |(at, run)| {
        let name = if at == 0 { "accept".to_owned() } else { format!("accept-{}", at + 1) };
        let gate = Gate::acceptance(GateName::new(name), run);
        Gate { timeout: timeout.unwrap_or(gate.timeout), ..gate }
    })
}

/// The baseline reports its end as a whole.
struct SilentRun;

impl GateObserver for SilentRun {}
