//! `--json`: all events, one object per line, for scripts. The names are an interface: fields may be added, but never
//! renamed or removed. Times are in seconds, costs in dollars, and unknown values are null.

use std::time::Duration;

use jiff::Timestamp;
use ralph_core::clients::stream::{AgentEvent, Denial, RunResult, Tokens};
use ralph_core::ledger::drive::Approach;
use ralph_core::ledger::drive_plan::DrivePlan;
use ralph_core::ledger::event::{AgentEnd, AgentRun, PauseCause};
use ralph_core::ledger::loop_event::LoopEvent;
use ralph_core::ledger::state::{LastJudgement, State, Status};
use ralph_core::model::budget::Attempts;
use ralph_core::model::evidence::ShownFact;
use ralph_core::model::gate::{Gate, GateOutcome, GateReport};
use ralph_core::model::id::{GateName, LoopId, SessionId, TreeHash};
use ralph_core::model::limits::Limits;
use ralph_core::model::money::Micros;
use ralph_core::model::results::Results;
use ralph_core::model::verdict::{LimitHit, Verdict};
use serde::Serialize;
use serde_json::Value;

use crate::show::exit;
use crate::show::progress::lines::between;
use crate::sys::clock;

/// One event as an object.
pub(super) fn line(event: &LoopEvent, at: Timestamp, signal: Option<i32>) -> String {
    write(at, Record::of(event, signal))
}

/// That many agent lines were dropped because the reader was too slow.
pub(super) fn left_out(count: u64) -> String {
    write(clock::now(), Record::LeftOut { lines: count })
}

fn write(at: Timestamp, record: Record<'_>) -> String {
    serde_json::to_string(&Line { record, at }).unwrap_or_default()
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    record: Record<'a>,
    at: Timestamp,
}

/// The content of a line besides its time.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Record<'a> {
    Begins(Begins<'a>),
    BaselineBegan { gates: usize },
    BaselineEnded { gates: Vec<GateFinished<'a>> },
    IterationBegan { iteration: u32, max_iterations: Option<u32>, approach: Approach },
    AgentSession { session: &'a SessionId },
    AgentSaid { text: &'a str },
    AgentUsedTool { tool: &'a str, about: &'a str },
    AgentDenied { tool: &'a str, about: &'a str },
    AgentRetry { attempt: u32, status: Option<u16>, why: &'a str, wait_seconds: Option<f64> },
    AgentLimitReached { until: Option<Timestamp>, why: &'a str },
    AgentResult(AgentResult<'a>),
    AgentUnknown,
    AgentEnded(AgentEnded<'a>),
    GateStarted { gate: &'a GateName },
    GateEnded { gate: &'a GateName },
    GateFinished(GateFinished<'a>),
    TreeChanged { files: &'a [String] },
    Judged(JudgedRecord<'a>),
    StrategyChanged,
    Waits { until: Timestamp, why: &'a str },
    Trouble { what: &'a str },
    Ends(Ends<'a>),
    LeftOut { lines: u64 },
}

impl<'a> Record<'a> {
    fn of(event: &'a LoopEvent, signal: Option<i32>) -> Self {
        match event {
            LoopEvent::Begins { plan, state } => Self::Begins(Begins::of(plan, state)),
            LoopEvent::BaselineBegan { gates } => Self::BaselineBegan { gates: *gates },
            LoopEvent::BaselineEnded { reports } => {
                Self::BaselineEnded { gates: reports.iter().map(GateFinished::of).collect() }
            }
            LoopEvent::IterationBegan { number, of, approach } => {
                Self::IterationBegan { iteration: *number, max_iterations: most(*of), approach: *approach }
            }
            LoopEvent::Agent(event) => Self::of_agent(event),
            LoopEvent::AgentEnded { run, state } => Self::AgentEnded(AgentEnded::of(run, state)),
            LoopEvent::GateStarted { gate } => Self::GateStarted { gate },
            LoopEvent::GateEnded { gate } => Self::GateEnded { gate },
            LoopEvent::GateFinished { report } => Self::GateFinished(GateFinished::of(report)),
            LoopEvent::TreeChanged { files } => Self::TreeChanged { files },
            LoopEvent::Judged { number, state } => Self::Judged(JudgedRecord::of(*number, state)),
            LoopEvent::StrategyChanged => Self::StrategyChanged,
            LoopEvent::Waits { until, why } => Self::Waits { until: *until, why },
            LoopEvent::Warning { what } => Self::Trouble { what },
            LoopEvent::Ends { plan, state } => Self::Ends(Ends::of(plan, state, signal)),
        }
    }

    fn of_agent(event: &'a AgentEvent) -> Self {
        match event {
            AgentEvent::Session { id } => Self::AgentSession { session: id },
            AgentEvent::Said { text } => Self::AgentSaid { text },
            AgentEvent::UsedTool { name, about } => Self::AgentUsedTool { tool: name, about },
            AgentEvent::Denied { tool, about } => Self::AgentDenied { tool, about },
            AgentEvent::Retry { attempt, status, why, wait } => Self::AgentRetry {
                attempt: *attempt,
                status: *status,
                why,
                wait_seconds: wait.map(|wait| wait.as_secs_f64()),
            },
            AgentEvent::LimitReached { until, why } => Self::AgentLimitReached { until: *until, why },
            AgentEvent::Result(result) => Self::AgentResult(AgentResult::of(result)),
            AgentEvent::Unknown => Self::AgentUnknown,
        }
    }
}

#[derive(Serialize)]
struct Begins<'a> {
    r#loop: &'a LoopId,
    task: &'a str,
    agent: &'a str,
    model: Option<&'a str>,
    gates: Vec<PlannedGate<'a>>,
    max_iterations: Option<u32>,
    max_seconds: Option<f64>,
    max_cost_usd: Option<f64>,
    iterations: u32,
    cost_usd: Option<f64>,
}

#[derive(Serialize)]
struct PlannedGate<'a> {
    gate: &'a GateName,
    run: &'a str,
    advisory: bool,
}

impl<'a> Begins<'a> {
    fn of(plan: &'a DrivePlan, state: &State) -> Self {
        let planned =
            |gate: &'a Gate| PlannedGate { gate: &gate.name, run: &gate.run, advisory: gate.advisory };
        let Limits { attempts, clock, cost, .. } = &plan.limits;
        Self {
            r#loop: &plan.loop_id,
            task: &plan.goal.task,
            agent: &plan.profile.name,
            model: plan.options.model.as_deref(),
            gates: plan.gates.iter().map(planned).collect(),
            max_iterations: most(attempts.value),
            max_seconds: clock.value.map(|length| length.as_secs_f64()),
            max_cost_usd: cost.value.map(dollars),
            iterations: state.drive.iterations,
            cost_usd: cost_so_far(plan, state),
        }
    }
}

/// `None` if the client does not report costs.
fn cost_so_far(plan: &DrivePlan, state: &State) -> Option<f64> {
    plan.profile.dialect.reports_cost().then(|| dollars(state.drive.cost))
}

#[derive(Serialize)]
struct AgentResult<'a> {
    ok: bool,
    reason: Option<&'a str>,
    text: &'a str,
    cost_usd: Option<f64>,
    tokens: Option<Tokens>,
    turns: Option<u32>,
    status: Option<u16>,
}

impl<'a> AgentResult<'a> {
    fn of(result: &'a RunResult) -> Self {
        Self {
            ok: result.ok,
            reason: result.reason.as_deref(),
            text: &result.text,
            cost_usd: result.cost_usd.map(dollars),
            tokens: result.tokens.known(),
            turns: result.turns,
            status: result.status,
        }
    }
}

#[derive(Serialize)]
struct AgentEnded<'a> {
    how: Value,
    why: Option<&'a str>,
    seconds: f64,
    cost_usd: Option<f64>,
    total_cost_usd: Option<f64>,
    tokens: Option<Tokens>,
    session: Option<&'a SessionId>,
    denied: &'a [Denial],
    left_running: &'a [String],
    switched_to: Option<&'a str>,
}

impl<'a> AgentEnded<'a> {
    fn of(run: &'a AgentRun, state: &State) -> Self {
        let why = match &run.ended {
            AgentEnd::Failed { why }
            | AgentEnd::OutOfUsage { why }
            | AgentEnd::CouldNotStart { why }
            | AgentEnd::LoginRefused { why } => Some(why.as_str()),
            AgentEnd::Finished | AgentEnd::TimedOut | AgentEnd::WentSilent | AgentEnd::Interrupted => None,
        };
        let total = Some(state.drive.cost).filter(|cost| cost.get() > 0 || run.cost.is_some());
        Self {
            how: tag(&run.ended, "how"),
            why,
            seconds: seconds(run.took),
            cost_usd: run.cost.map(dollars),
            total_cost_usd: total.map(dollars),
            tokens: run.tokens.known(),
            session: run.session.as_ref(),
            denied: &run.denied,
            left_running: &run.left_running,
            switched_to: run.switched_to.as_deref(),
        }
    }
}

#[derive(Serialize)]
struct GateFinished<'a> {
    gate: &'a GateName,
    outcome: Value,
    exit_code: Option<i32>,
    advisory: bool,
    seconds: f64,
    runs: u32,
    log: Option<&'a str>,
    excerpt: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    results: Option<&'a Results>,
    changed: &'a [String],
}

impl<'a> GateFinished<'a> {
    fn of(report: &'a GateReport) -> Self {
        let exit_code = match report.outcome {
            GateOutcome::Failed { code } => Some(code),
            _ => None,
        };
        Self {
            gate: &report.gate,
            outcome: tag(&report.outcome, "kind"),
            exit_code,
            advisory: report.advisory,
            seconds: seconds(report.took),
            runs: report.runs,
            log: report.log.as_deref(),
            excerpt: &report.excerpt,
            results: report.results.as_ref(),
            changed: &report.changed,
        }
    }
}

#[derive(Serialize)]
struct JudgedRecord<'a> {
    iteration: u32,
    verdict: &'static str,
    why: Option<&'a str>,
    #[serde(flatten)]
    judgement: JudgedBy<'a>,
}

impl<'a> JudgedRecord<'a> {
    fn of(iteration: u32, state: &'a State) -> Self {
        const NOT_EVALUATED: &str = "not_evaluated";
        match (state.recent_errors.last(), &state.last) {
            // A judgement resets the consecutive errors: if there are any, nothing was judged.
            (Some(trouble), _) => {
                let judgement = JudgedBy { code: Some(NOT_EVALUATED), ..JudgedBy::default() };
                Self { iteration, verdict: NOT_EVALUATED, why: Some(&trouble.what), judgement }
            }
            (None, last) => {
                let verdict = last.as_ref().map_or("open", |last| last.verdict.code());
                let judgement = last.as_ref().map(JudgedBy::of).unwrap_or_default();
                Self { iteration, verdict, why: None, judgement }
            }
        }
    }
}

#[derive(Default, Serialize)]
struct JudgedBy<'a> {
    code: Option<&'static str>,
    limit: Option<&'static str>,
    failing: Option<Vec<&'a GateName>>,
    tree: Option<&'a TreeHash>,
    /// *verified*, *passing* or *unchanged*, once the gates pass.
    level: Option<&'static str>,
    shown: &'a [ShownFact],
}

impl<'a> JudgedBy<'a> {
    fn of(last: &'a LastJudgement) -> Self {
        Self {
            code: Some(last.reason.code()),
            limit: last.limit.map(LimitHit::code),
            failing: Some(last.failures.iter().map(|failure| &failure.gate).collect()),
            tree: last.tree.as_ref(),
            level: Some(last.verdict).filter(|verdict| verdict.gates_passed()).map(Verdict::code),
            shown: &last.shown,
        }
    }
}

#[derive(Serialize)]
struct Ends<'a> {
    r#loop: &'a LoopId,
    verdict: &'static str,
    verified: bool,
    #[serde(flatten)]
    judgement: JudgedBy<'a>,
    paused: Option<&'a PauseCause>,
    iterations: u32,
    cost_usd: Option<f64>,
    seconds: Option<f64>,
    exit_code: u8,
}

impl<'a> Ends<'a> {
    fn of(plan: &'a DrivePlan, state: &'a State, signal: Option<i32>) -> Self {
        let verdict = match &state.status {
            Status::Ended { verdict } => verdict.code(),
            Status::Paused { .. } => "paused",
            Status::Running | Status::Fresh => "open",
        };
        let nothing = || JudgedBy { failing: Some(Vec::new()), ..JudgedBy::default() };
        let worked = state.started_at.zip(state.last_activity);
        Self {
            r#loop: &plan.loop_id,
            verdict,
            verified: state.status == (Status::Ended { verdict: Verdict::Verified }),
            judgement: state.last.as_ref().map_or_else(nothing, JudgedBy::of),
            paused: state.paused(),
            iterations: state.drive.iterations,
            cost_usd: cost_so_far(plan, state),
            seconds: worked.map(|(from, to)| seconds(between(from, to))),
            exit_code: exit::of_drive(state, signal),
        }
    }
}

fn most(attempts: Attempts) -> Option<u32> {
    match attempts {
        Attempts::AtMost(most) => Some(most),
        Attempts::Unlimited => None,
    }
}

fn dollars(cost: Micros) -> f64 {
    cost.get() as f64 / 1e6
}

/// Rounded to milliseconds.
fn seconds(length: Duration) -> f64 {
    length.as_millis() as f64 / 1e3
}

/// The serialized tag of a stored value.
fn tag(value: &impl Serialize, name: &str) -> Value {
    serde_json::to_value(value).map(|value| value[name].clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
