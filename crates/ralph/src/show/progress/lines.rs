//! What happens in a driven loop as lines of plain text: the one vocabulary of the log and of a loop in a pipe.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ralph_core::clients::stream::{AgentEvent, Denial, Tokens};
use ralph_core::ledger::drive::Approach;
use ralph_core::ledger::drive_plan::DrivePlan;
use ralph_core::ledger::event::{AgentEnd, AgentRun, PauseCause};
use ralph_core::ledger::loop_event::LoopEvent;
use ralph_core::ledger::state::{State, Status};
use ralph_core::model::budget::Attempts;
use ralph_core::model::gate::{GateReport, Outcome};
use ralph_core::model::secrets::Secrets;
use ralph_core::model::verdict::{LimitHit, Reason, Verdict};
use ralph_core::model::{duration, foreign_text};
use ralph_core::say::{failures, feedback};

use crate::show::progress::plan::PlanSheet;

/// Turns event into lines; knows what the event itself does not repeat.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    agent: String,
    gates: usize,
    zone: TimeZone,
}

impl Lines {
    /// `zone`: in which people are told times.
    pub(crate) fn new(plan: &DrivePlan, zone: TimeZone) -> Self {
        // A shell line is too long to stand before every line.
        let is_command = plan.profile.name.starts_with("command:");
        let agent = if is_command { "agent".into() } else { one_line(&plan.profile.name, 40) };
        Self { agent, gates: plan.required_gates(), zone }
    }

    /// What is to be told of it; nothing where a line would only be noise.
    pub(crate) fn of(&self, event: &LoopEvent) -> Vec<String> {
        match event {
            LoopEvent::Begins { plan, state } => begins(plan, state),
            LoopEvent::IterationBegan { number, of, approach } => {
                let way = if *approach == Approach::Rethink { ", in another way" } else { "" };
                vec![format!("{}{way}", iteration(*number, *of))]
            }
            LoopEvent::Agent(event) => {
                event_lines(event).into_iter().map(|line| format!("  {}: {line}", self.agent)).collect()
            }
            LoopEvent::AgentEnded { run, .. } => {
                [vec![agent_ended(run)], afterwards(run)].concat().into_iter().map(indented).collect()
            }
            LoopEvent::GateStarted { gate } => {
                vec![format!("  gate {} runs", one_line(gate.as_str(), 60))]
            }
            LoopEvent::GateEnded { .. } => Vec::new(),
            LoopEvent::GateFinished { report } => gate_finished(report).into_iter().map(indented).collect(),
            LoopEvent::TreeChanged { files } => vec![indented(tree_changed(files))],
            LoopEvent::Judged { state, .. } => vec![indented(self.judged(state))],
            LoopEvent::StrategyChanged => vec![STRATEGY_CHANGED.to_owned()],
            LoopEvent::Waits { until, why } => vec![self.waits(*until, why)],
            LoopEvent::Trouble { what } => vec![format!("note: {}", one_line(what, 300))],
            LoopEvent::Ends { state, .. } => vec![self.end(state)],
        }
    }

    pub(crate) fn agent(&self) -> &str {
        &self.agent
    }

    /// What came of the tree that an iteration left.
    pub(crate) fn judged(&self, state: &State) -> String {
        // Errors in a row are forgotten at a judgement: where there are some, this was none.
        if let Some(trouble) = state.troubles.last().filter(|_| state.errors() > 0) {
            return format!("cannot tell: {}", one_line(&trouble.what, 200));
        }
        let Some(last) = &state.last else { return "not judged".into() };
        if last.verdict == Verdict::Verified {
            return match last.reason {
                Reason::AllGatesPassed => "done: every gate passed".into(),
                ref reason => format!("done: {}", feedback::sentence(reason)),
            };
        }
        let limit = last.limit.map(|limit| format!("; {}", limit_reached(limit))).unwrap_or_default();
        let why = one_line(&self.not_done(&last.reason), 200);
        match last.verdict {
            Verdict::Claimed => format!("claimed, not verified: {why}"),
            _ => format!("not done: {why}{limit}"),
        }
    }

    fn not_done(&self, reason: &Reason) -> String {
        let Reason::GatesFailed { gates } = reason else { return feedback::sentence(reason) };
        let names = gates.iter().map(|gate| one_line(gate.as_str(), 60)).collect::<Vec<_>>();
        let verb = if gates.len() == 1 { "fails" } else { "fail" };
        format!("{} of {} {verb}: {}", gates.len(), counted(self.gates, "gate"), shortlist(&names))
    }

    pub(crate) fn waits(&self, until: Timestamp, why: &str) -> String {
        format!("waiting until {}: {}", self.clock_time(until), one_line(why, 200))
    }

    /// The day stands with it: a wait can go on past midnight.
    pub(crate) fn clock_time(&self, at: Timestamp) -> String {
        at.to_zoned(self.zone.clone()).strftime("%a %H:%M:%S").to_string()
    }

    pub(crate) fn stamped(&self, at: Timestamp, line: &str) -> String {
        format!("{} {line}", at.to_zoned(self.zone.clone()).strftime("%Y-%m-%d %H:%M:%S"))
    }

    /// How it ended, in one line.
    pub(crate) fn end(&self, state: &State) -> String {
        let used = used_up(state);
        match state.status {
            Status::Ended { verdict: Verdict::Verified } => format!("verified after {used}"),
            Status::Ended { verdict: Verdict::Cancelled } => format!("cancelled after {used}"),
            Status::Ended { verdict } => {
                let why = state.last.as_ref().map(|_| format!(": {}", self.judged(state)));
                format!("{} after {used}{}", ended_word(verdict), why.unwrap_or_default())
            }
            Status::Paused { .. } => {
                let why = state.paused().map_or_else(|| "it was told to".into(), pause_cause);
                let last = state.drive.last_failure.as_ref();
                let last = last.filter(|_| state.paused() == Some(&PauseCause::Errors));
                let why = last.map_or_else(|| why.clone(), |last| format!("{why}, the last: {last}"));
                format!("paused after {used}: {}; `ralph resume` goes on", one_line(&why, 300))
            }
            Status::Fresh | Status::Running => format!("left open after {used}; `ralph resume` goes on"),
        }
    }
}

pub(crate) const STRATEGY_CHANGED: &str = "no progress: the next iteration begins in another way";

fn begins(plan: &DrivePlan, state: &State) -> Vec<String> {
    if state.drive.iterations == 0 {
        return PlanSheet(plan).lines();
    }
    let task = one_line(&plan.goal.headline(), 100);
    vec![format!("loop {} goes on: {task}", plan.loop_id), format!("  so far {}", used_up(state))]
}

pub(crate) fn iteration(number: u32, of: Attempts) -> String {
    match of {
        Attempts::AtMost(most) => format!("iteration {number} of {most}"),
        Attempts::Unlimited => format!("iteration {number}"),
    }
}

/// An event without whose it is. There can be very many, and their texts have been cleaned once.
pub(crate) fn event_lines(event: &AgentEvent) -> Vec<String> {
    match event {
        AgentEvent::Session { id } => vec![format!("session {}", short(id.as_str(), 130))],
        AgentEvent::Said { text } => said(text),
        AgentEvent::UsedTool { name, about } => vec![short(&format!("{name} {about}"), 270)],
        AgentEvent::Denied { tool, about } => {
            vec![format!("{} (denied)", short(&format!("{tool} {about}"), 270))]
        }
        AgentEvent::Retry { attempt, status, why, wait } => {
            let status = status.map(|status| format!("{status} ")).unwrap_or_default();
            let wait = wait.map(|wait| format!(", in {}", duration::show(wait))).unwrap_or_default();
            vec![format!("asks the service again (attempt {attempt}{wait}): {status}{}", short(why, 200))]
        }
        AgentEvent::LimitReached { why, .. } => {
            vec![format!("the service gives no more: {}", short(why, 200))]
        }
        AgentEvent::Result(result) if !result.ok => {
            let why = result.reason.as_deref().unwrap_or("it does not say why");
            vec![format!("its turn failed: {}", short(why, 200))]
        }
        // What it says at the end of a good turn it has said already.
        AgentEvent::Result(_) | AgentEvent::Unknown => Vec::new(),
    }
}

fn said(text: &str) -> Vec<String> {
    const MOST: usize = 40;
    let mut lines: Vec<String> =
        text.lines().map(|line| short(line, 500)).filter(|line| !line.is_empty()).collect();
    if lines.len() > MOST {
        let more = lines.len() - MOST;
        lines.truncate(MOST);
        lines.push(format!("… {}", counted(more, "more line")));
    }
    lines
}

pub(crate) fn agent_ended(run: &AgentRun) -> String {
    let used = run.cost.map(|cost| cost.to_string()).or_else(|| tokens(run.tokens));
    let used = used.map(|used| format!(", {used}")).unwrap_or_default();
    one_line(&format!("{} after {}{used}", agent_end(&run.ended), duration::show(run.took)), 400)
}

/// For clients that name no price.
fn tokens(Tokens { input, output, .. }: Tokens) -> Option<String> {
    let thousands = |count: u64| match count {
        0..1000 => count.to_string(),
        _ => format!("{}k", count.saturating_add(500) / 1000),
    };
    (input > 0 || output > 0).then(|| format!("{} tokens in, {} out", thousands(input), thousands(output)))
}

/// What a person should know of a run besides how it ended.
pub(crate) fn afterwards(run: &AgentRun) -> Vec<String> {
    let mut lines: Vec<String> = run.denied.iter().map(denied).collect();
    if !run.left_running.is_empty() {
        lines.push(format!("ended what it left running: {}", shortlist(&cleaned(&run.left_running))));
    }
    if let Some(branch) = &run.switched_to {
        lines.push(format!("it switched to branch {}", one_line(branch, 100)));
    }
    lines
}

fn denied(denial: &Denial) -> String {
    let times = if denial.count > 1 { format!(", {} times", denial.count) } else { String::new() };
    let what = one_line(&format!("{} {}", denial.tool, denial.about), 100);
    format!("denied: {what}{times} (allow: {})", one_line(&denial.rule, 250))
}

/// How a run of the agent ended.
pub(crate) fn agent_end(ended: &AgentEnd) -> String {
    match ended {
        AgentEnd::Finished => "agent ended".into(),
        AgentEnd::Failed { why } => format!("agent failed ({why})"),
        AgentEnd::TimedOut => "agent took too long and was ended".into(),
        AgentEnd::WentSilent => "agent went silent and was ended".into(),
        AgentEnd::OutOfUsage { why } => format!("agent ended, the service gave no more ({why})"),
        AgentEnd::CouldNotStart { why } => format!("agent could not be started ({why})"),
        AgentEnd::LoginRefused { why } => format!("agent's login was refused ({why})"),
        AgentEnd::Interrupted => "agent was interrupted".into(),
    }
}

/// Why a loop waits for a person.
pub(crate) fn pause_cause(why: &PauseCause) -> String {
    match why {
        PauseCause::Word => "the person said so".into(),
        PauseCause::Command => "`ralph pause`".into(),
        PauseCause::SessionEnded { reason } => format!("its session ended ({reason})"),
        PauseCause::Cleared { .. } => "its session was cleared".into(),
        PauseCause::Errors => "too many errors in a row".into(),
        PauseCause::Limit { limit } => limit_reached(*limit),
        PauseCause::Interrupted => "interrupted".into(),
        PauseCause::Denied { rule } => format!("the agent needs what it may not do; `allow:` lacks {rule}"),
        PauseCause::NotSignedIn { why } => format!("the agent is not signed in ({why})"),
        PauseCause::AgentCouldNotStart { why } => format!("the agent could not be started ({why})"),
        PauseCause::Unproven => "the gates proved nothing".into(),
        PauseCause::StillRunning { processes } => {
            format!("what the agent left running could not be ended: {}", shortlist(&cleaned(processes)))
        }
        PauseCause::NoGates => "no gate is accepted here any more".into(),
    }
}

fn limit_reached(limit: LimitHit) -> String {
    match limit {
        LimitHit::Attempts { most } => {
            format!("the limit of {} is reached", counted(most as usize, "iteration"))
        }
        LimitHit::Clock { after } => format!("the limit of {} is reached", duration::show(after)),
        LimitHit::Errors { in_a_row } => format!("{in_a_row} errors in a row"),
        LimitHit::NoProgress { equal } => format!("{equal} equal iterations in a row"),
        LimitHit::AgentCalls { most } => format!("the limit of {most} calls of agents is reached"),
        LimitHit::Cost { most } => format!("the limit of {most} is reached"),
        LimitHit::ClientCap { cap } => format!("the client's own cap of {cap} comes next"),
    }
}

fn gate_finished(report: &GateReport) -> Vec<String> {
    let name = one_line(report.gate.as_str(), 60);
    let took = duration::show(report.took);
    let what = match &report.outcome {
        Outcome::Passed if report.reused() => "passed before on this very tree".into(),
        Outcome::Passed if report.flaky() => format!("passed at run {} in {took}", report.runs),
        Outcome::Passed => format!("passed in {took}"),
        Outcome::Failed { code } => format!("failed (exit {code}) in {took}"),
        other => one_line(&other.sentence(), 300),
    };
    let advisory = if report.advisory { " (advisory)" } else { "" };
    let mut lines = vec![format!("gate {name} {what}{advisory}")];
    if report.outcome != Outcome::Passed {
        lines.extend(what_fails(report));
    }
    if let Some(log) = report.log.as_ref().filter(|_| report.outcome != Outcome::Passed) {
        lines.push(format!("  whole output: {}", one_line(log, 500)));
    }
    lines
}

/// Some failing tests and problems by name and place; where none was read, the end of the output.
fn what_fails(report: &GateReport) -> Vec<String> {
    const MOST: usize = 4;
    let failures = report.failures();
    if failures.is_empty() {
        return last_lines(&report.excerpt);
    }
    let shown =
        failures.iter().take(MOST).map(|failure| format!("  | {}", one_line(&failures::line(failure), 160)));
    let left_out = report.results.as_ref().map_or(0, |results| results.left_out);
    let more = failures.len().saturating_sub(MOST) + left_out;
    shown.chain((more > 0).then(|| format!("  | and {more} more"))).collect()
}

/// Where most tools say what is wrong; all of it is in the log.
fn last_lines(excerpt: &str) -> Vec<String> {
    const MOST: usize = 4;
    let lines: Vec<&str> = excerpt.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(MOST)..];
    last.iter().map(|line| format!("  | {}", one_line(line, 160))).collect()
}

pub(crate) fn tree_changed(files: &[String]) -> String {
    format!("gates changed {}", shortlist(&cleaned(files)))
}

/// Iterations, time and money.
fn used_up(state: &State) -> String {
    let iterations = counted(state.drive.iterations as usize, "iteration");
    let rested = Duration::from_secs(state.rested);
    let at_work = |(from, to)| between(from, to).saturating_sub(rested);
    let time = state.started_at.zip(state.last_activity).map(at_work);
    let time = time.map(|time| format!(", {}", duration::show(time))).unwrap_or_default();
    let cost = state.drive.cost;
    let cost = if cost.get() > 0 { format!(", {cost}") } else { String::new() };
    format!("{iterations}{time}{cost}")
}

/// No time where the clock was set back between them.
pub(crate) fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

fn ended_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Verified => "verified",
        Verdict::Claimed => "over, claimed and not verified,",
        Verdict::Stuck => "stuck",
        Verdict::Tampered => "tampered with: not verified",
        Verdict::Cancelled => "cancelled",
        Verdict::NeedsHuman => "needs a person",
        Verdict::Held | Verdict::Waiting | Verdict::Paused | Verdict::Released | Verdict::Failed => {
            "not verified"
        }
    }
}

pub(crate) fn counted(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

fn shortlist(items: &[String]) -> String {
    const MOST: usize = 8;
    let shown = items.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
    match items.len().saturating_sub(MOST) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn cleaned(texts: &[String]) -> Vec<String> {
    texts.iter().take(200).map(|text| one_line(text, 120)).collect()
}

fn indented(line: String) -> String {
    format!("  {line}")
}

/// Somebody else's text so that it can stand in a line of ours: without escapes, of one line, not too long.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let clean = foreign_text::clean(text.as_bytes(), &Secrets::default());
    short(&clean, most)
}

/// Clean text in one line, not too long.
fn short(text: &str, most: usize) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line = words.collect::<Vec<_>>().join(" ");
    if line.char_indices().nth(most).is_none() {
        return line;
    }
    let head: String = line.chars().take(most.saturating_sub(1)).collect();
    format!("{head}…")
}

#[cfg(test)]
mod tests;
