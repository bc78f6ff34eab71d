//! What the live view shows, as values: event changes it, and drawing it is a function of it, the time and the size.

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
use ralph_core::model::gate::{Answer, Gate, GateReport, Outcome};
use ralph_core::model::id::GateName;
use ralph_core::model::money::Micros;
use ralph_core::model::verdict::Verdict;
use ralph_core::say::banner::{self, Progress};

use crate::show::progress::lines::{self, Lines, one_line};
use crate::show::terminal::inline::{Size, wheel};
use crate::show::terminal::row::{Row, cells};
use crate::show::terminal::{BAD, FAINT, GOOD, ODD, STRONG};

/// One moment on both clocks: how long something takes, and what people call it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) tick: Instant,
    pub(super) clock: Timestamp,
}

#[derive(Clone, Debug)]
pub(super) struct Scene {
    lines: Lines,
    task: String,
    begun: Instant,
    iteration: Option<(u32, Attempts, Approach)>,
    iteration_begun: Instant,
    phase: Phase,
    phase_begun: Instant,
    cost: Micros,
    /// Of the run that goes on, as far as its client told.
    run_cost: Micros,
    most_cost: Option<Micros>,
    /// What the agent did last, the newest at the end.
    doings: VecDeque<String>,
    gates: Vec<GateRow>,
    /// What came of the last iteration.
    last: Option<String>,
    told_wait: Option<Timestamp>,
    pub(super) tasks: Option<Progress>,
    /// The person pressed Ctrl-C.
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
    stands: Stands,
}

#[derive(Clone, Debug)]
enum Stands {
    Waiting,
    Running {
        since: Instant,
    },
    /// It has ended, and the tree is read again.
    Ended {
        took: Duration,
    },
    Finished {
        mark: &'static str,
        answer: Answer,
        what: String,
    },
}

/// How many of the agent's lines are kept.
const DOINGS: usize = 5;

impl Scene {
    /// `says_end`: whether nobody else tells the terminal how it ended.
    pub(super) fn new(plan: &DrivePlan, lines: Lines, says_end: bool, now: Now) -> Self {
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
            doings: VecDeque::new(),
            gates: plan.gates.iter().map(GateRow::new).collect(),
            last: None,
            told_wait: None,
            tasks: None,
            is_asked_to_end: false,
            says_end,
        }
    }

    /// Takes event in; the lines that it finishes are for good.
    pub(super) fn receive(&mut self, event: &LoopEvent, now: Now) -> Vec<Row> {
        match event {
            LoopEvent::Begins { state, .. } => {
                self.cost = state.drive.cost;
                self.lines.of(event).into_iter().map(|line| Row::of(FAINT, line)).collect()
            }
            LoopEvent::IterationBegan { number, of, approach } => {
                self.iteration = Some((*number, *of, *approach));
                self.iteration_begun = now.tick;
                self.doings.clear();
                self.gates.iter_mut().for_each(|gate| gate.stands = Stands::Waiting);
                self.enter(Phase::Agent, now);
                Vec::new()
            }
            LoopEvent::Agent(event) => {
                self.hear_agent(event);
                Vec::new()
            }
            LoopEvent::AgentEnded { run, state } => {
                (self.cost, self.run_cost) = (state.drive.cost, Micros::ZERO);
                self.enter(Phase::Gates, now);
                run_rows(run)
            }
            LoopEvent::GateStarted { gate } => {
                self.set(gate, Stands::Running { since: now.tick });
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
                vec![Row::of(FAINT, format!("  {}", lines::tree_changed(files)))]
            }
            LoopEvent::Judged { number, state } => {
                self.enter(Phase::Judged, now);
                let told = self.lines.judged(state);
                let row = self.iteration_row(*number, state, &told, now);
                self.last = Some(told);
                vec![row]
            }
            LoopEvent::StrategyChanged => vec![Row::of(ODD, format!("! {}", lines::STRATEGY_CHANGED))],
            LoopEvent::Waits { until, why } => self.wait(*until, why, now),
            LoopEvent::Trouble { what } => vec![Row::of(ODD, format!("! {}", one_line(what, 300)))],
            LoopEvent::Ends { .. } if !self.says_end => Vec::new(),
            LoopEvent::Ends { state, .. } => vec![end_row(state, self.lines.end(state))],
        }
    }

    fn enter(&mut self, phase: Phase, now: Now) {
        (self.phase, self.phase_begun) = (phase, now.tick);
    }

    fn hear_agent(&mut self, event: &AgentEvent) {
        if let AgentEvent::Result(result) = event {
            self.run_cost = self.run_cost.plus(result.cost_usd.unwrap_or_default());
        }
        // Which session it is helps nobody who looks on.
        if matches!(event, AgentEvent::Session { .. }) {
            return;
        }
        for line in lines::event_lines(event) {
            if self.doings.len() == DOINGS {
                self.doings.pop_front();
            }
            self.doings.push_back(line);
        }
    }

    fn set(&mut self, gate: &GateName, stands: Stands) {
        let name = shown_name(gate.as_str());
        match self.gates.iter_mut().find(|row| row.name == name) {
            Some(row) => row.stands = stands,
            None => self.gates.push(GateRow { name, stands }),
        }
    }

    fn gate_ended(&mut self, gate: &GateName, now: Now) {
        let name = shown_name(gate.as_str());
        let row = self.gates.iter_mut().find(|row| row.name == name);
        if let Some(row) = row
            && let Stands::Running { since } = row.stands
        {
            row.stands = Stands::Ended { took: now.tick.saturating_duration_since(since) };
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

    /// The same wait is told once.
    fn wait(&mut self, until: Timestamp, why: &str, now: Now) -> Vec<Row> {
        self.enter(Phase::Waiting { until, why: one_line(why, 200) }, now);
        if self.told_wait.replace(until) == Some(until) {
            return Vec::new();
        }
        vec![Row::of(ODD, format!("! {}", self.lines.waits(until, why)))]
    }

    /// The line that an iteration leaves.
    fn iteration_row(&self, number: u32, state: &State, told: &str, now: Now) -> Row {
        let verdict = state.last.as_ref().map(|last| last.verdict).filter(|_| state.errors() == 0);
        let (mark, style) = match verdict {
            Some(Verdict::Verified) => ("✓", GOOD),
            Some(_) => ("✗", BAD),
            None => ("?", ODD),
        };
        let took = elapsed(self.iteration_begun, now);
        let cost = if self.cost.get() > 0 { format!(", {} so far", self.cost) } else { String::new() };
        Row::of(style, mark)
            .and(STRONG, format!(" iteration {number}"))
            .then(format!("  {told}"))
            .and(FAINT, format!("  {took}{cost}"))
    }

    /// What is on the terminal now.
    pub(super) fn draw(&self, now: Now, turn: usize, size: Size) -> Vec<Row> {
        let width = size.columns.saturating_sub(1);
        let most = size.rows.saturating_sub(1);
        let head = [self.title(now, turn, width)];
        let tail: Vec<Row> = self.tasks_row(width).into_iter().chain([self.footer()]).collect();
        let room = most.saturating_sub(head.len() + tail.len());
        let body = self.body(now, turn, room);
        let rows = head.into_iter().chain(body).chain(tail);
        rows.take(most).map(|row| row.cut(width)).collect()
    }

    /// As much of it as there is room for; what says less goes first.
    fn title(&self, now: Now, turn: usize, width: usize) -> Row {
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
            parts.push(format!("{} in all", elapsed(self.begun, now)));
            parts.extend((approach == Approach::Rethink).then(|| "in another way".to_owned()));
        } else {
            parts.push(phase);
            parts.extend(time);
            parts.extend(self.cost_so_far());
        }
        let mut row = Row::of(ODD, wheel(turn));
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
        // Of the task as much as there is room for.
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

    fn body(&self, now: Now, turn: usize, room: usize) -> Vec<Row> {
        match &self.phase {
            Phase::Gates => self.gate_rows(now, turn, room),
            Phase::Waiting { why, .. } => vec![Row::of(FAINT, format!("  {why}"))],
            Phase::Starting | Phase::Agent | Phase::Judged => {
                let last = self.last.iter().map(|last| Row::of(FAINT, format!("  last time: {last}")));
                let mut rows: Vec<Row> = last.take(room).collect();
                let left = room - rows.len();
                let skipped = self.doings.len().saturating_sub(left);
                rows.extend(self.doings.iter().skip(skipped).map(|line| Row::new(format!("  {line}"))));
                rows
            }
        }
        .into_iter()
        .take(room)
        .collect()
    }

    /// Where there are too many, those that run and those that fail are the ones to look at.
    fn gate_rows(&self, now: Now, turn: usize, room: usize) -> Vec<Row> {
        let width = self.gates.iter().map(|gate| cells(&gate.name)).max().unwrap_or(0).min(40);
        let fits = self.gates.len() <= room;
        let shown = self.gates.iter().filter(|gate| fits || gate.is_worth_a_look());
        let mut rows: Vec<Row> = shown.map(|gate| gate.row(width, now, turn)).collect();
        let most = if fits { room } else { room.saturating_sub(1) };
        rows.truncate(most);
        if !fits {
            let more = self.gates.len() - rows.len();
            rows.push(Row::of(FAINT, format!("  … {}", lines::counted(more, "more gate"))));
        }
        rows
    }

    fn tasks_row(&self, width: usize) -> Option<Row> {
        let progress = self.tasks.filter(|tasks| tasks.total > 0)?;
        let count = format!("  tasks {}/{}", progress.done, progress.total);
        let bar = banner::bar(progress);
        let fits = cells(&count) + 1 + cells(&bar) <= width;
        Some(if fits { Row::new(count).and(GOOD, format!(" {bar}")) } else { Row::new(count) })
    }

    fn footer(&self) -> Row {
        if self.is_asked_to_end {
            return Row::of(ODD, "  pausing; Ctrl-C once more ends everything now");
        }
        Row::of(FAINT, "  Ctrl-C to pause")
    }
}

impl GateRow {
    fn new(gate: &Gate) -> Self {
        Self { name: shown_name(gate.name.as_str()), stands: Stands::Waiting }
    }

    fn is_worth_a_look(&self) -> bool {
        match self.stands {
            Stands::Running { .. } | Stands::Ended { .. } => true,
            Stands::Finished { answer, .. } => answer != Answer::Pass,
            Stands::Waiting => false,
        }
    }

    fn row(&self, width: usize, now: Now, turn: usize) -> Row {
        let wheel = String::from(wheel(turn));
        let (mark, style, what) = match &self.stands {
            Stands::Waiting => ("·".to_owned(), FAINT, String::new()),
            Stands::Running { since } => (wheel, ODD, elapsed(*since, now)),
            Stands::Ended { took } => (wheel, ODD, format!("{}, reading the tree", duration::show(*took))),
            Stands::Finished { mark, answer, what } => {
                let style = match answer {
                    Answer::Pass if *mark == "✓" => GOOD,
                    Answer::Pass | Answer::NotYet | Answer::CannotTell => ODD,
                    Answer::Fail => BAD,
                };
                ((*mark).to_owned(), style, what.clone())
            }
        };
        let gap = " ".repeat(width.saturating_sub(cells(&self.name)));
        Row::new("  ").and(style, mark).then(format!(" {}{gap}", self.name)).and(FAINT, format!("  {what}"))
    }
}

fn finished(report: &GateReport) -> Stands {
    let (answer, outcome) = (report.answer(), &report.outcome);
    let mark = match (answer, outcome) {
        (Answer::Pass, Outcome::Passed) => "✓",
        (Answer::Pass, _) => "!",
        (Answer::Fail, _) => "✗",
        (Answer::NotYet | Answer::CannotTell, _) => "?",
    };
    let took = duration::show(report.took);
    let what = match outcome {
        Outcome::Passed if report.reused() => "passed before".into(),
        Outcome::Passed => took,
        Outcome::Failed { code } => format!("{took}, exit {code}"),
        other => format!("{took}, {}", other.word()),
    };
    Stands::Finished { mark, answer, what }
}

/// What a person should see of a run in good time: not that it ended well.
fn run_rows(run: &AgentRun) -> Vec<Row> {
    let is_odd = !matches!(run.ended, AgentEnd::Finished | AgentEnd::Interrupted);
    let ended = is_odd.then(|| lines::agent_ended(run));
    let all = ended.into_iter().chain(lines::afterwards(run));
    all.map(|line| Row::of(ODD, format!("! {line}"))).collect()
}

fn end_row(state: &State, line: String) -> Row {
    let style = match state.status {
        Status::Ended { verdict: Verdict::Verified } => GOOD,
        Status::Ended { verdict: Verdict::Cancelled }
        | Status::Paused { .. }
        | Status::Running
        | Status::Fresh => ODD,
        Status::Ended { .. } => BAD,
    };
    Row::of(style, line)
}

fn shown_name(name: &str) -> String {
    one_line(name, 60)
}

fn elapsed(since: Instant, now: Now) -> String {
    in_seconds(now.tick.saturating_duration_since(since))
}

/// Tenths that flicker say nothing.
fn in_seconds(length: Duration) -> String {
    match length.as_secs() {
        0 => "0s".into(),
        seconds => duration::show(Duration::from_secs(seconds)),
    }
}

#[cfg(test)]
mod tests;
