//! `--json`: everything that happens, one object a line, for scripts. The names are an interface: a field may be added,
//! nothing is renamed or taken away. Times are seconds, money is dollars, and what is not known is null.

use std::time::Duration;

use jiff::Timestamp;
use ralph_core::clients::stream::{AgentEvent, RunResult, Tokens};
use ralph_core::ledger::drive::Approach;
use ralph_core::ledger::event::{AgentEnd, AgentRun};
use ralph_core::ledger::state::{LastJudgement, State, Status};
use ralph_core::model::budget::Attempts;
use ralph_core::model::gate::{GateReport, Outcome};
use ralph_core::model::limits::Limits;
use ralph_core::model::money::Micros;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::show::exit;
use crate::show::progress::lines::between;
use crate::show::progress::news::News;
use crate::sys::clock;
use ralph_core::ledger::drive_plan::DrivePlan;

/// One piece of news as an object.
pub(super) fn line(news: &News<'_>, at: Timestamp, signal: Option<i32>) -> String {
    let (event, fields) = match news {
        News::Begins { plan, state } => ("begins", begins(plan, state)),
        News::IterationBegan { number, of, approach } => {
            let approach = match approach {
                Approach::GoOn => "go_on",
                Approach::Rethink => "rethink",
            };
            let fields = json!({"iteration": number, "max_iterations": most(*of), "approach": approach});
            ("iteration_began", fields)
        }
        News::Agent(event) => agent(event),
        News::AgentEnded { run, state } => ("agent_ended", agent_ended(run, state)),
        News::GateStarted(gate) => ("gate_started", json!({"gate": gate.name})),
        News::GateEnded(gate) => ("gate_ended", json!({"gate": gate.name})),
        News::GateFinished(report) => ("gate_finished", gate_finished(report)),
        News::TreeChanged(files) => ("tree_changed", json!({"files": files})),
        News::Judged { number, state } => ("judged", judged(*number, state)),
        News::StrategyChanged => ("strategy_changed", json!({})),
        News::Waits { until, why } => ("waits", json!({"until": until, "why": why})),
        News::Trouble(what) => ("trouble", json!({"what": what})),
        News::Ends { plan, state } => ("ends", ends(plan, state, signal)),
    };
    serde_json::to_string(&Line { event, at, fields }).unwrap_or_default()
}

/// Nobody read, and so many lines of the agent were left out.
pub(super) fn left_out(count: u64) -> String {
    let line = Line { event: "left_out", at: clock::now(), fields: json!({"lines": count}) };
    serde_json::to_string(&line).unwrap_or_default()
}

#[derive(Serialize)]
struct Line {
    event: &'static str,
    at: Timestamp,
    #[serde(flatten)]
    fields: Value,
}

fn begins(plan: &DrivePlan, state: &State) -> Value {
    let gates: Vec<Value> = plan
        .gates
        .iter()
        .map(|gate| json!({"gate": gate.name, "run": gate.run, "advisory": gate.advisory}))
        .collect();
    let Limits { attempts, clock, cost, .. } = &plan.limits;
    json!({
        "loop": plan.loop_id,
        "task": plan.goal.task,
        "agent": plan.profile.name,
        "model": plan.wishes.model,
        "gates": gates,
        "max_iterations": most(attempts.value),
        "max_seconds": clock.value.map(|length| length.as_secs_f64()),
        "max_cost_usd": cost.value.map(dollars),
        "iterations": state.drive.iterations,
        "cost_usd": cost_so_far(plan, state),
    })
}

/// Nothing where the client does not say.
fn cost_so_far(plan: &DrivePlan, state: &State) -> Option<f64> {
    plan.profile.dialect.tells_cost().then(|| dollars(state.drive.cost))
}

fn agent(event: &AgentEvent) -> (&'static str, Value) {
    match event {
        AgentEvent::Session { id } => ("agent_session", json!({"session": id})),
        AgentEvent::Said { text } => ("agent_said", json!({"text": text})),
        AgentEvent::UsedTool { name, about } => ("agent_used_tool", json!({"tool": name, "about": about})),
        AgentEvent::Denied { tool, about } => ("agent_denied", json!({"tool": tool, "about": about})),
        AgentEvent::Retry { attempt, status, why, wait } => (
            "agent_retry",
            json!({"attempt": attempt, "status": status, "why": why, "wait_seconds": wait.map(|wait| wait.as_secs_f64())}),
        ),
        AgentEvent::LimitReached { until, why } => {
            ("agent_limit_reached", json!({"until": until, "why": why}))
        }
        AgentEvent::Result(result) => ("agent_result", agent_result(result)),
        AgentEvent::Unknown => ("agent_unknown", json!({})),
    }
}

fn agent_result(result: &RunResult) -> Value {
    json!({
        "ok": result.ok,
        "reason": result.reason,
        "text": result.text,
        "cost_usd": result.cost_usd.map(dollars),
        "tokens": tokens(result.tokens),
        "turns": result.turns,
        "status": result.status,
    })
}

fn agent_ended(run: &AgentRun, state: &State) -> Value {
    let why = match &run.ended {
        AgentEnd::Failed { why }
        | AgentEnd::OutOfUsage { why }
        | AgentEnd::CouldNotStart { why }
        | AgentEnd::LoginRefused { why } => Some(why),
        AgentEnd::Finished | AgentEnd::TimedOut | AgentEnd::WentSilent | AgentEnd::Interrupted => None,
    };
    json!({
        "how": tag(&run.ended, "how"),
        "why": why,
        "seconds": seconds(run.took),
        "cost_usd": run.cost.map(dollars),
        "total_cost_usd": Some(state.drive.cost).filter(|cost| cost.get() > 0 || run.cost.is_some()).map(dollars),
        "tokens": tokens(run.tokens),
        "session": run.session,
        "denied": run.denied,
        "left_running": run.left_running,
        "switched_to": run.switched_to,
    })
}

fn gate_finished(report: &GateReport) -> Value {
    let exit_code = match report.outcome {
        Outcome::Failed { code } => Some(code),
        _ => None,
    };
    json!({
        "gate": report.gate,
        "outcome": tag(&report.outcome, "kind"),
        "exit_code": exit_code,
        "advisory": report.advisory,
        "seconds": seconds(report.took),
        "runs": report.runs,
        "log": report.log,
        "excerpt": report.excerpt,
        "changed": report.changed,
    })
}

fn judged(number: u32, state: &State) -> Value {
    // Errors in a row are forgotten at a judgement: where there are some, this was none.
    if let Some(trouble) = state.troubles.last().filter(|_| state.errors() > 0) {
        return json!({
            "iteration": number, "verdict": "cannot_tell", "code": "cannot_tell", "limit": null, "failing": null,
            "tree": null, "why": trouble.what,
        });
    }
    let mut fields = json!({"iteration": number, "why": null});
    if let (Some(last), Value::Object(fields)) = (&state.last, &mut fields) {
        fields.insert("verdict".into(), last.verdict.code().into());
        fields.extend(judgement(last));
    }
    fields
}

fn judgement(last: &LastJudgement) -> Map<String, Value> {
    let failing: Vec<&str> = last.failures.iter().map(|failure| failure.gate.as_str()).collect();
    let fields = [
        ("code", json!(last.reason.code())),
        ("limit", json!(last.limit.map(ralph_core::model::verdict::LimitHit::code))),
        ("failing", json!(failing)),
        ("tree", json!(last.tree)),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn ends(plan: &DrivePlan, state: &State, signal: Option<i32>) -> Value {
    let verdict = match state.status {
        Status::Ended { verdict } => verdict.code(),
        Status::Paused { .. } => "paused",
        Status::Running | Status::Fresh => "open",
    };
    let seconds = state.started_at.zip(state.last_activity).map(|(from, to)| seconds(between(from, to)));
    let mut fields = json!({
        "loop": plan.loop_id,
        "verdict": verdict,
        "verified": state.status == (Status::Ended { verdict: ralph_core::model::verdict::Verdict::Verified }),
        "code": Value::Null,
        "limit": Value::Null,
        "failing": [],
        "tree": Value::Null,
        "paused": state.paused(),
        "iterations": state.drive.iterations,
        "cost_usd": cost_so_far(plan, state),
        "seconds": seconds,
        "exit_code": exit::of_drive(state, signal),
    });
    if let (Some(last), Value::Object(fields)) = (&state.last, &mut fields) {
        fields.extend(judgement(last));
    }
    fields
}

fn most(attempts: Attempts) -> Option<u32> {
    match attempts {
        Attempts::AtMost(most) => Some(most),
        Attempts::Unlimited => None,
    }
}

/// Nothing where the client does not say.
fn tokens(tokens: Tokens) -> Option<Value> {
    let told = json!({"input": tokens.input, "cached": tokens.cached, "output": tokens.output});
    (tokens != Tokens::default()).then_some(told)
}

fn dollars(cost: Micros) -> f64 {
    cost.get() as f64 / 1e6
}

/// To the millisecond.
fn seconds(length: Duration) -> f64 {
    length.as_millis() as f64 / 1e3
}

/// The name by which a stored value says which one it is.
fn tag(value: &impl Serialize, name: &str) -> Value {
    serde_json::to_value(value).map(|value| value[name].clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
