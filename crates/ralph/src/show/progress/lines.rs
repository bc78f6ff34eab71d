//! The events of a driven loop as plain text lines, for the log and for pipes.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ralph_core::clients::stream::{AgentEvent, Denial, Tokens};
use ralph_core::clients::suggested_rule::{self, NOT_SUGGESTED};
use ralph_core::ledger::drive::Approach;
use ralph_core::ledger::drive_plan::DrivePlan;
use ralph_core::ledger::event::{AgentEnd, AgentRun, PauseCause};
use ralph_core::ledger::loop_event::LoopEvent;
use ralph_core::ledger::state::{State, Status};
use ralph_core::model::budget::Attempts;
use ralph_core::model::gate::{GateOutcome, GateReport};
use ralph_core::model::limits::LimitsRaise;
use ralph_core::model::money::Micros;
use ralph_core::model::secrets::Secrets;
use ralph_core::model::short_id::ShortId;
use ralph_core::model::verdict::{LimitHit, Reason, Verdict};
use ralph_core::model::{duration, foreign_text};
use ralph_core::say::{failures, words};

use crate::show::progress::plan::PlanSheet;

/// Formats events; holds the context that the events do not repeat.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    agent: String,
    gates: usize,
    zone: TimeZone,
}

impl Lines {
    /// `zone`: for displayed times.
    pub(crate) fn new(plan: &DrivePlan, zone: TimeZone) -> Self {
        // A shell line is too long as a prefix.
        let is_command = plan.profile.name.starts_with("command:");
        let agent = if is_command { "agent".into() } else { one_line(&plan.profile.name, 40) };
        Self { agent, gates: plan.required_gates(), zone }
    }

    /// The lines for an event; empty if they would only be noise.
    pub(crate) fn of(&self, event: &LoopEvent) -> Vec<String> {
        match event {
            LoopEvent::Begins { plan, state } => begins(plan, state),
            LoopEvent::BaselineBegan { gates } => {
                vec![format!("before the first iteration: running {}", counted(*gates, "gate"))]
            }
            LoopEvent::BaselineEnded { reports } => baseline(reports).into_iter().map(indented).collect(),
            LoopEvent::IterationBegan { number, of, approach } => {
                let way = if *approach == Approach::Rethink { ", different approach" } else { "" };
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
            LoopEvent::Warning { what } => vec![format!("note: {}", one_line(what, 300))],
            LoopEvent::Ends { state, .. } => vec![self.end(state)],
        }
    }

    pub(crate) fn agent(&self) -> &str {
        &self.agent
    }

    /// The result of an iteration.
    pub(crate) fn judged(&self, state: &State) -> String {
        // A judgement resets the consecutive errors: if there are any, nothing was judged.
        if let Some(trouble) = state.recent_errors.last().filter(|_| state.errors() > 0) {
            return format!("not evaluated: {}", one_line(&trouble.what, 200));
        }
        let Some(last) = &state.last else { return "not judged".into() };
        if last.verdict == Verdict::Verified {
            let shown = words::shown(&last.shown);
            let shown = if shown.is_empty() { shown } else { format!("; {shown}") };
            return match last.reason {
                Reason::AllGatesPassed => format!("done: every gate passed{shown}"),
                ref reason => format!("done: {}{shown}", words::reason(reason)),
            };
        }
        if last.verdict.gates_passed() {
            return format!("done, task not shown: {}", one_line(&words::reason(&last.reason), 300));
        }
        let limit = last.limit.map(|limit| format!("; {}", limit_reached(limit))).unwrap_or_default();
        let why = one_line(&self.not_done(&last.reason), 200);
        match last.verdict {
            Verdict::Claimed => format!("reported done, not verified: {why}"),
            _ => format!("not done: {why}{limit}"),
        }
    }

    fn not_done(&self, reason: &Reason) -> String {
        let Reason::GatesFailed { gates } = reason else { return words::reason(reason) };
        let names = gates.iter().map(|gate| one_line(gate.as_str(), 60)).collect::<Vec<_>>();
        let verb = if gates.len() == 1 { "fails" } else { "fail" };
        format!("{} of {} {verb}: {}", gates.len(), counted(self.gates, "gate"), shortlist(&names))
    }

    pub(crate) fn waits(&self, until: Timestamp, why: &str) -> String {
        format!("waiting until {}: {}", self.clock_time(until), one_line(why, 200))
    }

    /// Includes the day: a wait can last past midnight.
    pub(crate) fn clock_time(&self, at: Timestamp) -> String {
        at.to_zoned(self.zone.clone()).strftime("%a %H:%M:%S").to_string()
    }

    pub(crate) fn stamped(&self, at: Timestamp, line: &str) -> String {
        format!("{} {line}", at.to_zoned(self.zone.clone()).strftime("%Y-%m-%d %H:%M:%S"))
    }

    /// The final result in one line.
    pub(crate) fn end(&self, state: &State) -> String {
        let used = used_up(state);
        match state.status {
            Status::Ended { verdict: Verdict::Verified } => format!("verified after {used}"),
            Status::Ended { verdict: Verdict::Cancelled } => format!("cancelled after {used}"),
            Status::Ended { verdict } => {
                if verdict.gates_passed() {
                    let why = state.last.as_ref().map(|last| words::reason(&last.reason)).unwrap_or_default();
                    return format!("{} after {used}: {}", ended_word(verdict), one_line(&why, 400));
                }
                if let Some(Reason::AgentBlocked { why }) = state.last.as_ref().map(|last| &last.reason) {
                    let why = one_line(why, 400);
                    return format!("{} after {used}: the agent cannot continue: {why}", ended_word(verdict));
                }
                let claimed = verdict == Verdict::Claimed;
                let why = state.last.as_ref().map(|last| {
                    let why = if claimed { self.not_done(&last.reason) } else { self.judged(state) };
                    format!(": {}", one_line(&why, 400))
                });
                let suffix = if claimed { ", not verified" } else { "" };
                format!("{} after {used}{suffix}{}", ended_word(verdict), why.unwrap_or_default())
            }
            Status::Paused { .. } => {
                let why = state.paused().map_or_else(|| "on request".into(), pause_cause);
                let last = state.drive.last_failure.as_ref();
                let last = last.filter(|_| state.paused() == Some(&PauseCause::Errors));
                let why = last.map_or_else(|| why.clone(), |last| format!("{why}, the last: {last}"));
                format!("paused after {used}: {}; continue with `ralph resume`", one_line(&why, 300))
            }
            Status::Fresh | Status::Running => {
                format!("left open after {used}; continue with `ralph resume`")
            }
        }
    }
}

pub(crate) const STRATEGY_CHANGED: &str = "no progress; the next iteration tries a different approach";

fn begins(plan: &DrivePlan, state: &State) -> Vec<String> {
    if state.drive.iterations == 0 {
        return PlanSheet(plan).lines();
    }
    let task = one_line(&plan.goal.headline(), 100);
    vec![
        format!("loop {} resumed: {task}", ShortId::of(&plan.loop_id)),
        format!("  so far {}", used_up(state)),
    ]
}

pub(crate) fn iteration(number: u32, of: Attempts) -> String {
    match of {
        Attempts::AtMost(most) => format!("iteration {number} of {most}"),
        Attempts::Unlimited => format!("iteration {number}"),
    }
}

/// The lines for an agent event, without the agent's name. There can be very many; their texts are already cleaned.
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
            vec![format!("retrying (attempt {attempt}{wait}): {status}{}", short(why, 200))]
        }
        AgentEvent::LimitReached { why, .. } => {
            vec![format!("usage limit reached: {}", short(why, 200))]
        }
        AgentEvent::Result(result) if !result.ok => {
            let why = result.reason.as_deref().unwrap_or("no reason given");
            vec![format!("turn failed: {}", short(why, 200))]
        }
        // A successful result repeats what was already said.
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

/// For clients that do not report costs.
fn tokens(Tokens { input, output, .. }: Tokens) -> Option<String> {
    let thousands = |count: u64| match count {
        0..1000 => count.to_string(),
        _ => format!("{}k", count.saturating_add(500) / 1000),
    };
    (input > 0 || output > 0).then(|| format!("{} tokens in, {} out", thousands(input), thousands(output)))
}

/// Further information about a run besides how it ended.
pub(crate) fn afterwards(run: &AgentRun) -> Vec<String> {
    let mut lines: Vec<String> = run.denied.iter().map(denied).collect();
    if !run.left_running.is_empty() {
        lines.push(format!("killed leftover processes: {}", shortlist(&cleaned(&run.left_running))));
    }
    if let Some(branch) = &run.switched_to {
        lines.push(format!("it switched to branch {}", one_line(branch, 100)));
    }
    lines
}

fn denied(denial: &Denial) -> String {
    let times = if denial.count > 1 { format!(", {} times", denial.count) } else { String::new() };
    let what = one_line(&format!("{} {}", denial.tool, denial.about), 100);
    if !suggested_rule::is_narrow(&denial.rule) {
        return format!("{what}{times}: {NOT_SUGGESTED}");
    }
    format!("denied: {what}{times} (allow: {})", one_line(&denial.rule, 250))
}

/// How a run of the agent ended.
pub(crate) fn agent_end(ended: &AgentEnd) -> String {
    match ended {
        AgentEnd::Finished => "agent ended".into(),
        AgentEnd::Failed { why } => format!("agent failed ({why})"),
        AgentEnd::TimedOut => "agent timed out and was stopped".into(),
        AgentEnd::WentSilent => "agent was silent for too long and was stopped".into(),
        AgentEnd::OutOfUsage { why } => format!("agent stopped at a usage limit ({why})"),
        AgentEnd::CouldNotStart { why } => format!("agent could not be started ({why})"),
        AgentEnd::LoginRefused { why } => format!("agent's login was refused ({why})"),
        AgentEnd::Interrupted => "agent was interrupted".into(),
    }
}

/// What the user granted on top of the limits.
pub(crate) fn granted(by: &LimitsRaise) -> String {
    let mut parts = Vec::new();
    if by.iterations > 0 {
        parts.push(format!("{} more", counted(by.iterations as usize, "iteration")));
    }
    if by.cost > Micros::ZERO {
        parts.push(format!("{} more", by.cost));
    }
    if !by.time.is_zero() {
        parts.push(format!("{} more", duration::show(by.time)));
    }
    parts.join(", ")
}

/// Why a loop is paused.
pub(crate) fn pause_cause(why: &PauseCause) -> String {
    match why {
        PauseCause::Word => "you paused it".into(),
        PauseCause::Command => "`ralph pause`".into(),
        PauseCause::SessionEnded { reason } => format!("its session ended ({reason})"),
        PauseCause::Cleared { .. } => "its session was cleared".into(),
        PauseCause::Errors => "too many errors in a row".into(),
        PauseCause::Limit { limit } => limit_reached(*limit),
        PauseCause::Interrupted => "interrupted".into(),
        PauseCause::Denied { rule } if !suggested_rule::is_narrow(rule) => format!("{rule}: {NOT_SUGGESTED}"),
        PauseCause::Denied { rule } => format!("the agent lacks a permission; add {rule} to `allow:`"),
        PauseCause::NotSignedIn { why } => format!("the agent is not signed in ({why})"),
        PauseCause::AgentCouldNotStart { why } => format!("the agent could not be started ({why})"),
        PauseCause::Unproven => "the gate results are inconclusive".into(),
        PauseCause::StillRunning { processes } => {
            format!("leftover processes of the agent could not be killed: {}", shortlist(&cleaned(processes)))
        }
        PauseCause::NoGates => "no accepted gates left".into(),
    }
}

fn limit_reached(limit: LimitHit) -> String {
    match limit {
        LimitHit::Attempts { most } => {
            format!("the limit of {} is reached", counted(most as usize, "iteration"))
        }
        LimitHit::Clock { after } => format!("the limit of {} is reached", duration::show(after)),
        LimitHit::Errors { in_a_row } => format!("{in_a_row} errors in a row"),
        LimitHit::NoProgress { equal } => format!("{equal} identical iterations in a row"),
        LimitHit::AgentCalls { most } => format!("the limit of {most} agent calls is reached"),
        LimitHit::Cost { most } => format!("the limit of {most} is reached"),
        LimitHit::ClientCap { cap } => format!("the client's cap of {cap} consecutive blocks is next"),
    }
}

fn gate_finished(report: &GateReport) -> Vec<String> {
    let name = one_line(report.gate.as_str(), 60);
    let took = duration::show(report.took);
    let what = match &report.outcome {
        GateOutcome::Passed if report.reused() => "already passed on this tree".into(),
        GateOutcome::Passed if report.flaky() => format!("passed at run {} in {took}", report.runs),
        GateOutcome::Passed => format!("passed in {took}"),
        GateOutcome::Failed { code } => format!("failed (exit {code}) in {took}"),
        other => one_line(&other.sentence(), 300),
    };
    let advisory = if report.advisory { " (advisory)" } else { "" };
    let counts = report.results.as_ref().filter(|_| report.outcome != GateOutcome::Passed);
    let counts = counts.and_then(failures::counts).map(|counts| format!(": {counts}")).unwrap_or_default();
    let mut lines = vec![format!("gate {name} {what}{advisory}{counts}")];
    if report.outcome != GateOutcome::Passed {
        lines.extend(failing_gates(report));
    }
    if let Some(log) = report.log.as_ref().filter(|_| report.outcome != GateOutcome::Passed) {
        lines.push(format!("  full output: {}", one_line(log, 500)));
    }
    lines
}

/// How the gates stand before the first iteration: those that fail, with what fails.
fn baseline(reports: &[GateReport]) -> Vec<String> {
    let failing = reports.iter().filter(|report| report.outcome != GateOutcome::Passed);
    let lines: Vec<String> = failing.flat_map(gate_finished).collect();
    if lines.is_empty() { vec!["every gate passes".to_owned()] } else { lines }
}

/// Some failing tests and problems by name and place; if none was recognised, the end of the output.
fn failing_gates(report: &GateReport) -> Vec<String> {
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

/// Most tools report errors at the end; the log has the rest.
fn last_lines(excerpt: &str) -> Vec<String> {
    const MOST: usize = 4;
    let lines: Vec<&str> = excerpt.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(MOST)..];
    last.iter().map(|line| format!("  | {}", one_line(line, 160))).collect()
}

pub(crate) fn tree_changed(files: &[String]) -> String {
    format!("gates changed {}", shortlist(&cleaned(files)))
}

/// Iterations, time and cost.
fn used_up(state: &State) -> String {
    let iterations = counted(state.drive.iterations as usize, "iteration");
    let rested = Duration::from_secs(state.paused_seconds);
    let at_work = |(from, to)| between(from, to).saturating_sub(rested);
    let time = state.started_at.zip(state.last_activity).map(at_work);
    let time = time.map(|time| format!(", {}", duration::show(time))).unwrap_or_default();
    let cost = state.drive.cost;
    let cost = if cost.get() > 0 { format!(", {cost}") } else { String::new() };
    format!("{iterations}{time}{cost}")
}

/// Zero if the clock was set back in between.
pub(crate) fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

fn ended_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Verified => "verified",
        Verdict::Passing => "gates pass, task not shown,",
        Verdict::Unchanged => "unchanged",
        Verdict::Claimed => "finished",
        Verdict::Stuck => "stuck",
        Verdict::Tampered => "tampered with: not verified",
        Verdict::Cancelled => "cancelled",
        Verdict::NeedsHuman => "needs your review",
        Verdict::Blocked | Verdict::Waiting | Verdict::Paused | Verdict::Released | Verdict::Failed => {
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

/// Foreign text for use in our own line: without escape sequences, on one line, limited in length.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let clean = foreign_text::clean(text.as_bytes(), &Secrets::default());
    short(&clean, most)
}

/// Clean text on one line, limited in length.
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
