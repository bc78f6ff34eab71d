//! The state of the live view: events change it, and drawing is a function of it, the time and the size.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use ralph_core::clients::stream::AgentEvent;
use ralph_core::ledger::drive::Approach;
use ralph_core::ledger::drive_plan::DrivePlan;
use ralph_core::ledger::event::{AgentEnd, AgentRun};
use ralph_core::ledger::loop_event::LoopEvent;
use ralph_core::ledger::state::{State, Status};
use ralph_core::model::budget::Attempts;
use ralph_core::model::duration;
use ralph_core::model::gate::{CheckResult, Gate, GateOutcome, GateReport};
use ralph_core::model::id::GateName;
use ralph_core::model::money::Micros;
use ralph_core::model::verdict::Verdict;
use ralph_core::say::banner::{self, TaskProgress};
use ralph_core::say::failures;

use crate::show::progress::lines::{self, Lines, one_line};
use crate::show::terminal::inline::{Size, wheel};
use crate::show::terminal::row::{TerminalRow, cells};
use crate::show::terminal::{BAD, FAINT, GOOD, ODD, STRONG};

/// One moment on both clocks: monotonic for durations, wall clock for display.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockTime {
    pub(super) tick: Instant,
    pub(super) clock: Timestamp,
}

#[derive(Clone, Debug)]
pub(super) struct ViewState {
    lines: Lines,
    task: String,
    begun: Instant,
    iteration: Option<(u32, Attempts, Approach)>,
    iteration_begun: Instant,
    phase: Phase,
    phase_begun: Instant,
    cost: Micros,
    /// Cost of the current run, as far as its client reported it.
    run_cost: Micros,
    most_cost: Option<Micros>,
    /// The agent's last actions, the newest at the end.
    actions: VecDeque<String>,
    gates: Vec<GateRow>,
    /// The result of the last iteration.
    last: Option<String>,
    told_wait: Option<Timestamp>,
    pub(super) tasks: Option<TaskProgress>,
    /// The user pressed Ctrl-C.
    pub(super) is_asked_to_end: bool,
    says_end: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Starting,
    Agent,
    Gates,
    /// Between two iterations.
    Judged,
    Waiting {
        until: Timestamp,
        why: String,
    },
}

#[derive(Clone, Debug)]
struct GateRow {
    name: String,
    stands: GateState,
}

#[derive(Clone, Debug)]
enum GateState {
    Waiting,
    Running {
        since: Instant,
    },
    /// It has ended, and the tree is being read again.
    Ended {
        took: Duration,
    },
    Finished {
        mark: &'static str,
        answer: CheckResult,
        what: String,
        /// What fails in it, in one line each.
        failures: Vec<String>,
        /// How many more fail.
        more: usize,
    },
}

/// How many failing tests and problems are named under a gate.
const FAILURES: usize = 4;

/// How many of the agent's lines are kept.
const MAX_ACTIONS: usize = 5;

impl ViewState {
    /// `says_end`: whether the view must print the final result.
    pub(super) fn new(plan: &DrivePlan, lines: Lines, says_end: bool, now: ClockTime) -> Self {
        Self {
            lines,
            task: one_line(&plan.goal.headline(), 80),
            begun: now.tick,
            iteration: None,
            iteration_begun: now.tick,
            phase: Phase::Starting,
            phase_begun: now.tick,
            cost: Micros::ZERO,
            run_cost: Micros::ZERO,
            most_cost: plan.limits.cost.value,
            actions: VecDeque::new(),
            gates: plan.gates.iter().map(GateRow::new).collect(),
            last: None,
            told_wait: None,
            tasks: None,
            is_asked_to_end: false,
            says_end,
        }
    }

    /// Handles an event; the returned lines stay on the terminal.
    pub(super) fn receive(&mut self, event: &LoopEvent, now: ClockTime) -> Vec<TerminalRow> {
        match event {
            LoopEvent::Begins { state, .. } => {
                self.cost = state.drive.cost;
                self.lines.of(event).into_iter().map(|line| TerminalRow::of(FAINT, line)).collect()
            }
            LoopEvent::BaselineBegan { .. } | LoopEvent::BaselineEnded { .. } => {
                self.lines.of(event).into_iter().map(|line| TerminalRow::of(FAINT, line)).collect()
            }
            LoopEvent::IterationBegan { number, of, approach } => {
                self.iteration = Some((*number, *of, *approach));
                self.iteration_begun = now.tick;
                self.actions.clear();
                self.gates.iter_mut().for_each(|gate| gate.stands = GateState::Waiting);
                self.enter(Phase::Agent, now);
                Vec::new()
            }
            LoopEvent::Agent(event) => {
                self.add_agent_event(event);
                Vec::new()
            }
            LoopEvent::AgentEnded { run, state } => {
                (self.cost, self.run_cost) = (state.drive.cost, Micros::ZERO);
                self.enter(Phase::Gates, now);
                run_rows(run)
            }
            LoopEvent::GateStarted { gate } => {
                self.set(gate, GateState::Running { since: now.tick });
                Vec::new()
            }
            LoopEvent::GateEnded { gate } => {
                self.gate_ended(gate, now);
                Vec::new()
            }
            LoopEvent::GateFinished { report } => {
                self.gate_finished(report);
                Vec::new()
            }
            LoopEvent::TreeChanged { files } => {
                vec![TerminalRow::of(FAINT, format!("  {}", lines::tree_changed(files)))]
            }
            LoopEvent::Judged { number, state } => {
                self.enter(Phase::Judged, now);
                let summary = self.lines.judged(state);
                let row = self.iteration_row(*number, state, &summary, now);
                self.last = Some(summary);
                vec![row]
            }
            LoopEvent::StrategyChanged => {
                vec![TerminalRow::of(ODD, format!("! {}", lines::STRATEGY_CHANGED))]
            }
            LoopEvent::Waits { until, why } => self.wait(*until, why, now),
            LoopEvent::Warning { what } => vec![TerminalRow::of(ODD, format!("! {}", one_line(what, 300)))],
            LoopEvent::Ends { .. } if !self.says_end => Vec::new(),
            LoopEvent::Ends { state, .. } => vec![end_row(state, self.lines.end(state))],
        }
    }

    fn enter(&mut self, phase: Phase, now: ClockTime) {
        (self.phase, self.phase_begun) = (phase, now.tick);
    }

    fn add_agent_event(&mut self, event: &AgentEvent) {
        if let AgentEvent::Result(result) = event {
            self.run_cost = self.run_cost.plus(result.cost_usd.unwrap_or_default());
        }
        // The session id is not useful in the view.
        if matches!(event, AgentEvent::Session { .. }) {
            return;
        }
        for line in lines::event_lines(event) {
            if self.actions.len() == MAX_ACTIONS {
                self.actions.pop_front();
            }
            self.actions.push_back(line);
        }
    }

    fn set(&mut self, gate: &GateName, stands: GateState) {
        let name = shown_name(gate.as_str());
        match self.gates.iter_mut().find(|row| row.name == name) {
            Some(row) => row.stands = stands,
            None => self.gates.push(GateRow { name, stands }),
        }
    }

    fn gate_ended(&mut self, gate: &GateName, now: ClockTime) {
        let name = shown_name(gate.as_str());
        let row = self.gates.iter_mut().find(|row| row.name == name);
        if let Some(row) = row
            && let GateState::Running { since } = row.stands
        {
            row.stands = GateState::Ended { took: now.tick.saturating_duration_since(since) };
        }
    }

    fn gate_finished(&mut self, report: &GateReport) {
        let name = shown_name(report.gate.as_str());
        let stands = finished(report);
        match self.gates.iter_mut().find(|row| row.name == name) {
            Some(row) => row.stands = stands,
            None => self.gates.push(GateRow { name, stands }),
        }
    }

    /// The same wait is shown once.
    fn wait(&mut self, until: Timestamp, why: &str, now: ClockTime) -> Vec<TerminalRow> {
        self.enter(Phase::Waiting { until, why: one_line(why, 200) }, now);
        if self.told_wait.replace(until) == Some(until) {
            return Vec::new();
        }
        vec![TerminalRow::of(ODD, format!("! {}", self.lines.waits(until, why)))]
    }

    /// The final line of an iteration.
    fn iteration_row(&self, number: u32, state: &State, summary: &str, now: ClockTime) -> TerminalRow {
        let verdict = state.last.as_ref().map(|last| last.verdict).filter(|_| state.errors() == 0);
        let (mark, style) = match verdict {
            Some(Verdict::Verified) => ("✓", GOOD),
            Some(Verdict::Passing | Verdict::Unchanged) => ("•", ODD),
            Some(_) => ("✗", BAD),
            None => ("?", ODD),
        };
        let took = elapsed(self.iteration_begun, now);
        let cost = if self.cost.get() > 0 { format!(", {} so far", self.cost) } else { String::new() };
        TerminalRow::of(style, mark)
            .and(STRONG, format!(" iteration {number}"))
            .then(format!("  {summary}"))
            .and(FAINT, format!("  {took}{cost}"))
    }

    /// What to draw now.
    pub(super) fn draw(&self, now: ClockTime, turn: usize, size: Size) -> Vec<TerminalRow> {
        let width = size.columns.saturating_sub(1);
        let most = size.rows.saturating_sub(1);
        let head = [self.title(now, turn, width)];
        let tail: Vec<TerminalRow> = self.tasks_row(width).into_iter().chain([self.footer()]).collect();
        let room = most.saturating_sub(head.len() + tail.len());
        let body = self.body(now, turn, room);
        let rows = head.into_iter().chain(body).chain(tail);
        rows.take(most).map(|row| row.cut(width)).collect()
    }

    /// As much as fits; the least important parts are dropped first.
    fn title(&self, now: ClockTime, turn: usize, width: usize) -> TerminalRow {
        let in_phase = elapsed(self.phase_begun, now);
        let (phase, time) = match &self.phase {
            Phase::Starting => ("starting".to_owned(), None),
            Phase::Agent => (format!("{} works", self.lines.agent()), Some(in_phase)),
            Phase::Gates => ("gates".into(), Some(in_phase)),
            Phase::Judged => ("deciding".into(), None),
            Phase::Waiting { until, .. } => {
                let left = in_seconds(lines::between(now.clock, *until));
                (format!("waiting until {}", self.lines.clock_time(*until)), Some(left))
            }
        };
        let mut parts = Vec::new();
        if let Some((number, of, approach)) = self.iteration {
            parts.push(lines::iteration(number, of));
            parts.push(phase);
            parts.extend(time);
            parts.extend(self.cost_so_far());
            parts.push(format!("{} total", elapsed(self.begun, now)));
            parts.extend((approach == Approach::Rethink).then(|| "different approach".to_owned()));
        } else {
            parts.push(phase);
            parts.extend(time);
            parts.extend(self.cost_so_far());
        }
        let mut row = TerminalRow::of(ODD, wheel(turn));
        for (place, part) in parts.iter().enumerate() {
            let before = if place == 0 { " " } else { " · " };
            if place > 0 && row.cells() + cells(before) + cells(part) > width {
                return row;
            }
            let style = match place {
                0 => STRONG,
                1 => anstyle::Style::new(),
                _ => FAINT,
            };
            row = row.and(FAINT, before).and(style, part);
        }
        // As much of the task as fits.
        const LEAST: usize = 20;
        if row.cells() + LEAST <= width { row.and(FAINT, format!(" · {}", self.task)) } else { row }
    }

    fn cost_so_far(&self) -> Option<String> {
        let cost = self.cost.plus(self.run_cost);
        match self.most_cost {
            Some(most) => Some(format!("{cost} of {most}")),
            None => (cost.get() > 0).then(|| cost.to_string()),
        }
    }

    fn body(&self, now: ClockTime, turn: usize, room: usize) -> Vec<TerminalRow> {
        match &self.phase {
            Phase::Gates => self.gate_rows(now, turn, room),
            Phase::Waiting { why, .. } => vec![TerminalRow::of(FAINT, format!("  {why}"))],
            Phase::Starting | Phase::Agent | Phase::Judged => {
                let last =
                    self.last.iter().map(|last| TerminalRow::of(FAINT, format!("  last time: {last}")));
                let mut rows: Vec<TerminalRow> = last.take(room).collect();
                let left = room - rows.len();
                let skipped = self.actions.len().saturating_sub(left);
                rows.extend(
                    self.actions.iter().skip(skipped).map(|line| TerminalRow::new(format!("  {line}"))),
                );
                rows
            }
        }
        .into_iter()
        .take(room)
        .collect()
    }

    /// If there are too many, running and failing gates are shown first.
    fn gate_rows(&self, now: ClockTime, turn: usize, room: usize) -> Vec<TerminalRow> {
        let width = self.gates.iter().map(|gate| cells(&gate.name)).max().unwrap_or(0).min(40);
        let fits = self.gates.len() <= room;
        let shown = self.gates.iter().filter(|gate| fits || gate.is_worth_a_look());
        let most = if fits { room } else { room.saturating_sub(1) };
        let shown: Vec<&GateRow> = shown.take(most).collect();
        // Every gate has its row; what is left of the room names failures.
        let mut left = most - shown.len();
        let mut rows: Vec<TerminalRow> = Vec::with_capacity(most);
        for gate in &shown {
            rows.push(gate.row(width, now, turn));
            let failures = gate.failure_rows(left);
            left -= failures.len();
            rows.extend(failures);
        }
        if !fits {
            let more = self.gates.len() - shown.len();
            rows.push(TerminalRow::of(FAINT, format!("  … {}", lines::counted(more, "more gate"))));
        }
        rows
    }

    fn tasks_row(&self, width: usize) -> Option<TerminalRow> {
        let progress = self.tasks.filter(|tasks| tasks.total > 0)?;
        let count = format!("  tasks {}/{}", progress.done, progress.total);
        let bar = banner::bar(progress);
        let fits = cells(&count) + 1 + cells(&bar) <= width;
        Some(if fits {
            TerminalRow::new(count).and(GOOD, format!(" {bar}"))
        } else {
            TerminalRow::new(count)
        })
    }

    fn footer(&self) -> TerminalRow {
        if self.is_asked_to_end {
            return TerminalRow::of(ODD, "  pausing; press Ctrl-C again to stop at once");
        }
        TerminalRow::of(FAINT, "  Ctrl-C to pause")
    }
}

impl GateRow {
    /// Some of what fails, in at most so many rows.
    fn failure_rows(&self, most: usize) -> Vec<TerminalRow> {
        let GateState::Finished { failures, more, .. } = &self.stands else { return Vec::new() };
        let is_cut = *more > 0 || failures.len() > most;
        let named = if is_cut { failures.len().min(most.saturating_sub(1)) } else { failures.len() };
        let rest = more + failures.len() - named;
        let and_more = (is_cut && most > 0).then(|| TerminalRow::of(FAINT, format!("      and {rest} more")));
        let rows = failures[..named].iter().map(|line| TerminalRow::new(format!("      {line}")));
        rows.chain(and_more).collect()
    }

    fn new(gate: &Gate) -> Self {
        Self { name: shown_name(gate.name.as_str()), stands: GateState::Waiting }
    }

    fn is_worth_a_look(&self) -> bool {
        match self.stands {
            GateState::Running { .. } | GateState::Ended { .. } => true,
            GateState::Finished { answer, .. } => answer != CheckResult::Pass,
            GateState::Waiting => false,
        }
    }

    fn row(&self, width: usize, now: ClockTime, turn: usize) -> TerminalRow {
        let wheel = String::from(wheel(turn));
        let (mark, style, what) = match &self.stands {
            GateState::Waiting => ("·".to_owned(), FAINT, String::new()),
            GateState::Running { since } => (wheel, ODD, elapsed(*since, now)),
            GateState::Ended { took } => (wheel, ODD, format!("{}, reading the tree", duration::show(*took))),
            GateState::Finished { mark, answer, what, .. } => {
                let style = match answer {
                    CheckResult::Pass if *mark == "✓" => GOOD,
                    CheckResult::Pass | CheckResult::NotYet | CheckResult::CannotTell => ODD,
                    CheckResult::Fail => BAD,
                };
                ((*mark).to_owned(), style, what.clone())
            }
        };
        let gap = " ".repeat(width.saturating_sub(cells(&self.name)));
        TerminalRow::new("  ")
            .and(style, mark)
            .then(format!(" {}{gap}", self.name))
            .and(FAINT, format!("  {what}"))
    }
}

fn finished(report: &GateReport) -> GateState {
    let (answer, outcome) = (report.answer(), &report.outcome);
    let mark = match (answer, outcome) {
        (CheckResult::Pass, GateOutcome::Passed) => "✓",
        (CheckResult::Pass, _) => "!",
        (CheckResult::Fail, _) => "✗",
        (CheckResult::NotYet | CheckResult::CannotTell, _) => "?",
    };
    let took = duration::show(report.took);
    let what = match outcome {
        GateOutcome::Passed if report.reused() => "passed before".into(),
        GateOutcome::Passed => took,
        GateOutcome::Failed { code } => format!("{took}, exit {code}"),
        other => format!("{took}, {}", other.word()),
    };
    let has_passed = *outcome == GateOutcome::Passed;
    let results = report.results.as_ref().filter(|_| !has_passed);
    let counts = results.and_then(failures::counts);
    let what = counts.map_or_else(|| what.clone(), |counts| format!("{what}, {counts}"));
    let all = if has_passed { Vec::new() } else { report.failures() };
    let named = all.iter().take(FAILURES).map(|failure| one_line(&failures::line(failure), 160)).collect();
    let left_out = results.map_or(0, |results| results.left_out);
    GateState::Finished {
        mark,
        answer,
        what,
        failures: named,
        more: all.len().saturating_sub(FAILURES) + left_out,
    }
}

/// What the user should see early about a run; a normal end is omitted.
fn run_rows(run: &AgentRun) -> Vec<TerminalRow> {
    let is_odd = !matches!(run.ended, AgentEnd::Finished | AgentEnd::Interrupted);
    let ended = is_odd.then(|| lines::agent_ended(run));
    let all = ended.into_iter().chain(lines::afterwards(run));
    all.map(|line| TerminalRow::of(ODD, format!("! {line}"))).collect()
}

fn end_row(state: &State, line: String) -> TerminalRow {
    let style = match state.status {
        Status::Ended { verdict: Verdict::Verified } => GOOD,
        Status::Ended { verdict: Verdict::Cancelled | Verdict::Passing | Verdict::Unchanged }
        | Status::Paused { .. }
        | Status::Running
        | Status::Fresh => ODD,
        Status::Ended { .. } => BAD,
    };
    TerminalRow::of(style, line)
}

fn shown_name(name: &str) -> String {
    one_line(name, 60)
}

fn elapsed(since: Instant, now: ClockTime) -> String {
    in_seconds(now.tick.saturating_duration_since(since))
}

/// Flickering tenths are not useful.
fn in_seconds(length: Duration) -> String {
    match length.as_secs() {
        0 => "0s".into(),
        seconds => duration::show(Duration::from_secs(seconds)),
    }
}

#[cfg(test)]
mod tests;
