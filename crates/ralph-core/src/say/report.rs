//! The report of a loop for people and scripts: a fold over its ledger, and its renderings.
//!
//! Status, recommendations and next steps follow from codes in the ledger, never from an agent's words. Untrusted text
//! is cleaned, so that it cannot break the Markdown or forge its `Status:` line.

use std::time::Duration;

use jiff::Timestamp;

use crate::clients::stream::{Denial, Tokens};
use crate::ledger::event::{AgentEnd, AgentRun, CancelCause, Event, Judgement, PauseCause, Subject};
use crate::ledger::ship::short;
use crate::ledger::state::{State, Status};
use crate::model::budget::Attempts;
use crate::model::evidence::ShownFact;
use crate::model::foreign_text;
use crate::model::gate::{CheckResult, GateReport};
use crate::model::id::{GateName, LoopId};
use crate::model::money::Micros;
use crate::model::secrets::Secrets;
use crate::model::verdict::{LimitHit, Reason, Verdict};
use crate::say::words;

mod advice;
mod failing;
mod json;
mod manual;
mod markdown;
mod phrase;
mod terminal;
#[cfg(test)]
mod tests;

pub use failing::FailingList;
pub use manual::{ManualOutcome, ManualReport};
pub use terminal::{StyledLine, StyledSpan, Tone};

/// One loop, from its first to its latest event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopReport {
    pub id: LoopId,
    pub kind: LoopKind,
    pub task: String,
    /// The agent that the driver runs.
    pub agent: Option<String>,
    pub began: Timestamp,
    /// When it ended or paused; while it runs, the time of the latest event.
    pub ended: Timestamp,
    /// The iteration limit, with everything granted on top.
    pub most_iterations: Option<u32>,
    pub iterations: Vec<ReportIteration>,
    /// Errors other than failing gates.
    pub errors: Vec<ReportedError>,
    pub waits: Vec<UsageLimitWait>,
    /// What was committed, pushed, opened and merged, and what it waits for.
    pub shipped: Vec<String>,
    /// The iteration after which the strategy was changed.
    pub strategy_changed_after: Option<u32>,
    /// What shows the task, at *verified*.
    pub shown: Vec<ShownFact>,
    /// How often the agent gave the promise too early.
    pub false_promises: u32,
    pub ending: LoopEnding,
    /// Files changed since the loop began; none if unknown.
    pub files: Option<Vec<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopKind {
    /// `ralph loop`
    Driver,
    /// `/ralph-loop`
    Session,
}

/// One run of the agent with its result, or one judged stop of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportIteration {
    pub number: u32,
    /// How the agent's last run ended; none for sessions and for unfinished runs.
    pub agent: Option<AgentEnd>,
    /// All runs of this iteration together.
    pub took: Option<Duration>,
    pub cost: Option<Micros>,
    pub tokens: Tokens,
    pub denied: Vec<Denial>,
    pub left_running: Vec<String>,
    pub switched_to: Option<String>,
    pub gates: Vec<GateInIteration>,
    pub end: Option<(Verdict, Reason)>,
    /// The commit of its tree.
    pub commit: Option<String>,
}

/// A gate in one iteration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateInIteration {
    pub gate: GateName,
    pub mark: GateMark,
    pub advisory: bool,
    pub flaky: bool,
    pub log: Option<String>,
    pub failing: FailingList,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateMark {
    Passed,
    Failed,
    NotEvaluated,
    NotRun,
}

impl GateMark {
    pub fn code(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::NotEvaluated => "not_evaluated",
            Self::NotRun => "not_run",
        }
    }
}

/// An error and its iteration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedError {
    pub iteration: u32,
    pub what: String,
}

/// A wait for a usage limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageLimitWait {
    pub from: Timestamp,
    pub until: Timestamp,
    pub why: String,
}

/// How a loop ended or why it is paused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopEnding {
    /// No end is recorded: it runs, or its driver was killed.
    Open,
    Paused(PauseCause),
    Cancelled(CancelCause),
    Judged {
        verdict: Verdict,
        reason: Reason,
        limit: Option<LimitHit>,
    },
}

/// The word on the `Status:` line, English in every language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportStatus {
    Completed,
    /// The gates pass; nothing shows the task.
    CompletedNotShown,
    /// The gates pass; no file was changed.
    CompletedUnchanged,
    CompletedUnverified,
    Failed,
    Partial,
}

impl ReportStatus {
    pub fn word(self) -> &'static str {
        match self {
            Self::Completed => "COMPLETED",
            Self::CompletedNotShown => "COMPLETED (gates pass, task not shown)",
            Self::CompletedUnchanged => "COMPLETED (gates pass, nothing changed)",
            Self::CompletedUnverified => "COMPLETED (unverified)",
            Self::Failed => "FAILED",
            Self::Partial => "PARTIAL",
        }
    }
}

impl LoopEnding {
    pub fn status(&self) -> ReportStatus {
        match self {
            // A loop at its limit has failed, even if more is granted later.
            Self::Paused(PauseCause::Limit { .. }) | Self::Cancelled(CancelCause::Failed { .. }) => {
                ReportStatus::Failed
            }
            Self::Open | Self::Paused(_) | Self::Cancelled(_) => ReportStatus::Partial,
            Self::Judged { verdict, .. } => match verdict {
                Verdict::Verified => ReportStatus::Completed,
                Verdict::Passing => ReportStatus::CompletedNotShown,
                Verdict::Unchanged => ReportStatus::CompletedUnchanged,
                Verdict::Claimed => ReportStatus::CompletedUnverified,
                Verdict::Released | Verdict::Failed | Verdict::Stuck | Verdict::Tampered => {
                    ReportStatus::Failed
                }
                Verdict::Blocked
                | Verdict::Waiting
                | Verdict::Paused
                | Verdict::Cancelled
                | Verdict::NeedsHuman => ReportStatus::Partial,
            },
        }
    }

    /// The limit that was reached.
    pub fn limit(&self) -> Option<LimitHit> {
        match self {
            Self::Paused(PauseCause::Limit { limit }) => Some(*limit),
            Self::Judged { limit, .. } => *limit,
            Self::Open | Self::Paused(_) | Self::Cancelled(_) => None,
        }
    }
}

impl LoopReport {
    /// The report of a loop that was started for a task. None for guarded agents and plain runs of the gates.
    pub fn fold<'a>(id: &LoopId, events: impl IntoIterator<Item = (Timestamp, &'a Event)>) -> Option<Self> {
        let mut folding = Folding { id, state: State::default(), report: None, cancelled: None };
        for (at, event) in events {
            folding.take(at, event);
        }
        folding.done()
    }

    #[must_use]
    pub fn with_files(self, files: Option<Vec<String>>) -> Self {
        let files = files.map(|files| files.iter().map(|name| plain(name)).collect());
        Self { files, ..self }
    }

    /// Shortens paths below the user's home to `~/…`, because a report may be committed.
    #[must_use]
    pub fn with_home(mut self, home: &str) -> Self {
        let logs =
            self.iterations.iter_mut().flat_map(|row| &mut row.gates).filter_map(|seen| seen.log.as_mut());
        for log in logs {
            if let Some(below) = log.strip_prefix(home).and_then(|rest| rest.strip_prefix('/')) {
                *log = format!("~/{below}");
            }
        }
        self
    }

    pub fn status(&self) -> ReportStatus {
        self.ending.status()
    }

    pub fn duration(&self) -> Duration {
        Duration::try_from(self.ended.duration_since(self.began)).unwrap_or_default()
    }

    /// None if no run reported its cost.
    pub fn cost(&self) -> Option<Micros> {
        self.iterations.iter().filter_map(|iteration| iteration.cost).reduce(Micros::plus)
    }

    pub fn tokens(&self) -> Tokens {
        self.iterations.iter().fold(Tokens::default(), |sum, iteration| sum.plus(iteration.tokens))
    }

    /// The commit of the latest committed tree.
    pub fn last_commit(&self) -> Option<&str> {
        self.iterations.iter().rev().find_map(|iteration| iteration.commit.as_deref())
    }

    /// The number of iterations, without runs that a usage limit refused.
    pub fn iterations_run(&self) -> usize {
        let is_refused = |row: &&ReportIteration| {
            row.end.is_none() && matches!(row.agent, Some(AgentEnd::OutOfUsage { .. }))
        };
        self.iterations.iter().filter(|row| !is_refused(row)).count()
    }

    /// Every gate of the loop, in order of appearance.
    fn gates(&self) -> Vec<&GateName> {
        let mut names: Vec<&GateName> = Vec::new();
        for seen in self.iterations.iter().flat_map(|iteration| &iteration.gates) {
            if !names.contains(&&seen.gate) {
                names.push(&seen.gate);
            }
        }
        names
    }

    /// Adds the gates that did not run because an earlier one failed; they are known from other iterations.
    fn note_gates_not_run(&mut self) {
        let mut all: Vec<GateInIteration> = Vec::new();
        for seen in self.iterations.iter().flat_map(|row| &row.gates) {
            if !all.iter().any(|known| known.gate == seen.gate) {
                let failing = FailingList::default();
                all.push(GateInIteration {
                    mark: GateMark::NotRun,
                    flaky: false,
                    log: None,
                    failing,
                    ..seen.clone()
                });
            }
        }
        for row in self.iterations.iter_mut().filter(|row| row.end.is_some() && !row.gates.is_empty()) {
            row.gates = all.iter().map(|gate| row.gate(&gate.gate).unwrap_or(gate).clone()).collect();
        }
    }

    /// The last iteration in which gates ran.
    fn last_judged(&self) -> Option<&ReportIteration> {
        self.iterations.iter().rev().find(|iteration| !iteration.gates.is_empty())
    }
}

impl ReportIteration {
    fn new(number: u32) -> Self {
        Self {
            number,
            agent: None,
            took: None,
            cost: None,
            tokens: Tokens::default(),
            denied: Vec::new(),
            left_running: Vec::new(),
            switched_to: None,
            gates: Vec::new(),
            end: None,
            commit: None,
        }
    }

    fn gate(&self, name: &GateName) -> Option<&GateInIteration> {
        self.gates.iter().find(|seen| seen.gate == *name)
    }

    /// An iteration whose gates could not be evaluated is repeated under the same number.
    fn is_open(&self) -> bool {
        matches!(self.end, None | Some((_, Reason::NotEvaluated { .. })))
    }

    fn agent_ended(&mut self, run: &AgentRun) {
        self.agent = Some(cleaned_end(&run.ended));
        self.took = Some(self.took.unwrap_or_default() + run.took);
        self.cost = match (self.cost, run.cost) {
            (Some(before), Some(now)) => Some(before.plus(now)),
            (before, now) => before.or(now),
        };
        self.tokens = self.tokens.plus(run.tokens);
        self.denied.extend(run.denied.iter().map(|denial| Denial {
            tool: plain(&denial.tool),
            about: plain(&denial.about),
            rule: plain(&denial.rule),
            count: denial.count,
        }));
        self.left_running.extend(run.left_running.iter().map(|process| plain(process)));
        if let Some(branch) = &run.switched_to {
            self.switched_to = Some(plain(branch));
        }
    }

    fn gate_ran(&mut self, report: &GateReport) {
        let mark = match report.outcome.answer() {
            CheckResult::Pass => GateMark::Passed,
            CheckResult::Fail => GateMark::Failed,
            CheckResult::NotYet | CheckResult::CannotTell => GateMark::NotEvaluated,
        };
        let seen = GateInIteration {
            gate: GateName::new(plain(report.gate.as_str())),
            mark,
            advisory: report.advisory,
            flaky: report.flaky(),
            log: report.log.as_deref().map(plain),
            failing: FailingList::of(report),
        };
        match self.gates.iter_mut().find(|known| known.gate == seen.gate) {
            Some(known) => *known = seen,
            None => self.gates.push(seen),
        }
    }
}

/// A report under construction, beside the state of the same events.
struct Folding<'a> {
    id: &'a LoopId,
    state: State,
    report: Option<LoopReport>,
    cancelled: Option<CancelCause>,
}

impl Folding<'_> {
    fn take(&mut self, at: Timestamp, event: &Event) {
        if let Event::Began { .. } = event {
            self.report = self.begun(at, event);
        }
        let was_at_rest = self.is_at_rest();
        self.look_at(at, event);
        self.state.apply(at, event);
        if let Some(report) = &mut self.report
            && !was_at_rest
        {
            report.ended = at;
        }
    }

    fn is_at_rest(&self) -> bool {
        matches!(self.state.status, Status::Paused { .. } | Status::Ended { .. })
    }

    fn begun(&self, at: Timestamp, event: &Event) -> Option<LoopReport> {
        let Event::Began { subject, goal: Some(goal), drive, .. } = event else { return None };
        let kind = match subject {
            Subject::Driver => LoopKind::Driver,
            Subject::Session => LoopKind::Session,
            Subject::SubAgent { .. }
            | Subject::Teammate { .. }
            | Subject::TeamTask { .. }
            | Subject::Plain => return None,
        };
        Some(LoopReport {
            id: self.id.clone(),
            kind,
            task: plain(&goal.task),
            agent: drive.as_ref().map(|options| plain(&options.agent)),
            began: at,
            ended: at,
            most_iterations: None,
            iterations: Vec::new(),
            errors: Vec::new(),
            waits: Vec::new(),
            shipped: Vec::new(),
            strategy_changed_after: None,
            shown: Vec::new(),
            false_promises: 0,
            ending: LoopEnding::Open,
            files: None,
        })
    }

    fn shipped(&mut self, step: String) {
        if let Some(report) = &mut self.report {
            report.shipped.push(step);
        }
    }

    fn look_at(&mut self, at: Timestamp, event: &Event) {
        match event {
            Event::IterationBegan { iteration, .. } => drop(self.iteration(*iteration)),
            Event::AgentEnded { iteration, run } => self.agent_ended(*iteration, run),
            Event::Committed { iteration, commit } => self.kept(*iteration, commit),
            Event::Shipped(step) => self.shipped(plain(&words::ship_step(step))),
            Event::ShipWaits(wait) => self.shipped(format!(
                "waited for {} of {}, until {} at the latest",
                plain(&wait.step),
                plain(short(&wait.commit)),
                wait.deadline.strftime("%Y-%m-%d %H:%M UTC")
            )),
            Event::WaitingUntil { until, why } => {
                if let Some(report) = &mut self.report {
                    report.waits.push(UsageLimitWait { from: at, until: *until, why: plain(why) });
                }
            }
            Event::StrategyChanged => {
                let number = self.current_number();
                if let Some(report) = &mut self.report {
                    report.strategy_changed_after = Some(number);
                }
            }
            Event::RunStarted { .. } => {
                if let Some(row) = self.current() {
                    row.gates.clear();
                }
            }
            Event::GateRan { report, .. } => {
                if let Some(row) = self.current() {
                    row.gate_ran(report);
                }
            }
            Event::Judged(judgement) => self.judged(judgement),
            Event::NotEvaluated { trouble, verdict, .. } => {
                self.err(&trouble.to_string());
                let end = (*verdict, Reason::NotEvaluated { trouble: trouble.clone() });
                if let Some(row) = self.current() {
                    row.end = Some(end);
                }
            }
            Event::ErrorSeen { error, .. } => self.err(&error.what),
            Event::Cancelled { why } => self.cancelled = Some(why.clone()),
            _ => {}
        }
    }

    fn agent_ended(&mut self, iteration: u32, run: &AgentRun) {
        if let Some(row) = self.iteration(iteration) {
            row.agent_ended(run);
        }
        match &run.ended {
            AgentEnd::Failed { why } => self.err(&format!("the agent failed: {why}")),
            AgentEnd::CouldNotStart { why } => self.err(&format!("the agent could not be started: {why}")),
            AgentEnd::LoginRefused { why } => self.err(&format!("the agent's login was refused: {why}")),
            AgentEnd::TimedOut => self.err("the agent exceeded its time limit and was killed"),
            AgentEnd::WentSilent => {
                self.err("the agent produced no output or change for too long and was killed");
            }
            AgentEnd::Finished | AgentEnd::OutOfUsage { .. } | AgentEnd::Interrupted => {}
        }
    }

    /// A commit from before the first iteration belongs to no row.
    fn kept(&mut self, iteration: u32, commit: &str) {
        let rows = self.report.iter_mut().flat_map(|report| &mut report.iterations);
        if let Some(row) = rows.rev().find(|row| row.number == iteration) {
            row.commit = Some(plain(commit));
        }
    }

    fn judged(&mut self, judgement: &Judgement) {
        // Every gate passed; gates that did not run again have a receipt for this tree.
        let all_passed = judgement.tree.is_some() && judgement.failures.is_empty();
        let known: Vec<GateInIteration> = self
            .report
            .iter()
            .flat_map(|report| &report.iterations)
            .flat_map(|row| row.gates.clone())
            .collect();
        let Some(row) = self.current() else { return };
        if all_passed && !matches!(judgement.reason, Reason::TreeNeverSettled { .. }) {
            for seen in known {
                if row.gate(&seen.gate).is_none() && !seen.advisory {
                    let failing = FailingList::default();
                    row.gates.push(GateInIteration {
                        mark: GateMark::Passed,
                        flaky: false,
                        log: None,
                        failing,
                        ..seen
                    });
                }
            }
        }
        row.end = Some((judgement.verdict, judgement.reason.clone()));
    }

    fn err(&mut self, what: &str) {
        let fault = ReportedError { iteration: self.current_number(), what: plain(what) };
        if let Some(report) = &mut self.report
            && report.errors.last() != Some(&fault)
        {
            report.errors.push(fault);
        }
    }

    /// The iteration of an event that names none.
    fn current_number(&self) -> u32 {
        let rows = self.report.as_ref().map(|report| (report.kind, report.iterations.last()));
        match rows {
            Some((LoopKind::Driver, Some(last))) => last.number,
            Some((LoopKind::Driver, None)) | None => 1,
            Some((LoopKind::Session, _)) => self.state.attempts.saturating_add(1),
        }
    }

    fn current(&mut self) -> Option<&mut ReportIteration> {
        self.iteration(self.current_number())
    }

    fn iteration(&mut self, number: u32) -> Option<&mut ReportIteration> {
        let rows = &mut self.report.as_mut()?.iterations;
        if !rows.last().is_some_and(|row| row.number == number && row.is_open()) {
            rows.push(ReportIteration::new(number));
        }
        rows.last_mut()
    }

    fn done(self) -> Option<LoopReport> {
        let state = self.state;
        let mut report = self.report?;
        report.false_promises = state.false_promises;
        report.most_iterations = match state.limits.as_ref().map(|limits| limits.attempts.value) {
            Some(Attempts::AtMost(most)) => Some(state.granted(most)),
            Some(Attempts::Unlimited) | None => None,
        };
        report.shown = state.last.as_ref().map(|last| last.shown.clone()).unwrap_or_default();
        report.ending = match (state.status, self.cancelled, state.last) {
            (Status::Paused { why, .. }, ..) => LoopEnding::Paused(why),
            (Status::Ended { .. }, Some(why), _) => LoopEnding::Cancelled(why),
            (Status::Ended { verdict }, _, Some(last)) => {
                LoopEnding::Judged { verdict, reason: last.judgement.reason, limit: last.judgement.limit }
            }
            (Status::Ended { .. } | Status::Running | Status::Fresh, ..) => LoopEnding::Open,
        };
        report.note_gates_not_run();
        Some(report)
    }
}

/// The agent's end with its texts cleaned.
fn cleaned_end(ended: &AgentEnd) -> AgentEnd {
    match ended {
        AgentEnd::Failed { why } => AgentEnd::Failed { why: plain(why) },
        AgentEnd::OutOfUsage { why } => AgentEnd::OutOfUsage { why: plain(why) },
        AgentEnd::CouldNotStart { why } => AgentEnd::CouldNotStart { why: plain(why) },
        AgentEnd::LoginRefused { why } => AgentEnd::LoginRefused { why: plain(why) },
        other => other.clone(),
    }
}

/// Untrusted text without escapes, secrets and hidden characters.
fn plain(text: &str) -> String {
    foreign_text::clean(text.as_bytes(), &Secrets::default())
}
