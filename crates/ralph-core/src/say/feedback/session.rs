//! Feedback for the agent of a session loop: progress, the next task, and how to finish. Short, because the client
//! still has the task and tokens cost money.

use super::{
    Feedback, HONEST_EXIT, HONEST_EXIT_FROM, changed_by_gates, changed_definition, next_step, one_line,
    since_last_time, with_gates,
};
use crate::claims::agent_report::AgentReport;
use crate::claims::promise::{self, Promise};
use crate::ledger::facts::{DefinitionStatus, Facts, SessionStop};
use crate::ledger::state::State;
use crate::model::budget::Attempts;
use crate::model::finding::TasksSeen;
use crate::model::goal::Goal;
use crate::model::promise_seen::PromiseSeen;
use crate::model::verdict::Reason;
use crate::say::words;

/// Feedback for a blocked session.
pub(super) fn for_blocked(
    goal: &Goal,
    facts: &Facts,
    before: &State,
    attempt: Option<u32>,
    reason: &Reason,
) -> Feedback {
    let nothing = SessionStop::default();
    let stop = facts.session_stop.as_ref().unwrap_or(&nothing);
    let line = match attempt {
        Some(attempt) => {
            format!("Not done yet ({}): {}", iteration(facts, before, attempt), words::reason(reason))
        }
        None => format!("The gates could not be evaluated: {}", words::reason(reason)),
    };
    let mut start = vec![format!("ralph keeps this session working on the task: {}", goal.headline())];
    start.extend(progress_line(stop, before, Some(reason)));
    let mut end = Vec::new();
    if let Some(seen) = facts.gates() {
        end.extend(changed_by_gates(seen));
        end.extend(since_last_time(before, seen));
    }
    if let DefinitionStatus::Changed { difference } = &facts.definition_status {
        end.push(changed_definition(difference));
    }
    end.extend(about_promise(goal, stop, reason));
    match reason {
        Reason::GatesFailed { .. } | Reason::TasksOpen { .. } | Reason::PromiseMissing { .. } => {}
        other => end.push(next_step(other)),
    }
    if attempt.is_some_and(|attempt| attempt >= HONEST_EXIT_FROM) {
        end.push(HONEST_EXIT.to_owned());
    }
    end.push(how_to_finish(goal, facts.gates().is_some()));
    Feedback { reason: one_line(&line), detail: with_gates(start, facts, before, end) }
}

/// `iteration 3 of 20`, and in a task loop what counts against its limit.
fn iteration(facts: &Facts, before: &State, attempt: u32) -> String {
    let mut text = match facts.limits.attempts.value {
        Attempts::AtMost(most) => format!("iteration {attempt} of {}", before.granted(most)),
        Attempts::Unlimited => format!("iteration {attempt}"),
    };
    if let Some(most) = facts.limits.agent_calls.value {
        let (n, most) = (before.task_iterations_with_this_stop(), before.granted(most));
        text.push_str(&format!(", {n} of {most} agent calls and stops without one"));
    }
    text
}

/// The task list and the next role, without what the reason already says.
fn progress_line(stop: &SessionStop, before: &State, reason: Option<&Reason>) -> Option<String> {
    let mut lines = Vec::new();
    match &stop.tasks {
        Some(TasksSeen::List { done, total, next }) => {
            lines.push(format!("{done} of {total} tasks are done."));
            lines.extend(next.as_ref().map(|next| format!("Next task: {next}")));
        }
        Some(TasksSeen::Trouble(trouble)) => {
            let is_reason =
                matches!(reason, Some(Reason::NotEvaluated { trouble: stated }) if stated == trouble);
            lines.extend((!is_reason).then(|| format!("Also: {trouble}.")));
        }
        None => {}
    }
    lines.extend(next_role(before.last_report).map(str::to_owned));
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// The role that continues after the last agent's report.
pub fn next_role(report: Option<AgentReport>) -> Option<&'static str> {
    match report? {
        AgentReport::Reject => Some("The reviewer rejected it: the developer (ralph-coder) fixes that next."),
        AgentReport::Fail => Some(
            "The tester's tests fail: the debugger (ralph-debugger) finds the cause next, then the developer (ralph-coder) fixes it.",
        ),
        AgentReport::Diagnosis => Some("The cause is found: the developer (ralph-coder) fixes it next."),
        AgentReport::Approve | AgentReport::Pass | AgentReport::Done => None,
    }
}

fn about_promise(goal: &Goal, stop: &SessionStop, reason: &Reason) -> Option<String> {
    let promise = Promise::new(goal.promise.as_deref()?)?;
    match (&stop.promise, reason) {
        (Some(PromiseSeen::Given), _) => Some(format!(
            "You promised {}, but the work is not done. This was counted as a false promise.",
            promise.tag()
        )),
        (Some(PromiseSeen::NearMiss(near_miss)), _) => Some(promise::explain(near_miss, &promise)),
        (Some(PromiseSeen::Absent) | None, _) => None,
    }
}

fn how_to_finish(goal: &Goal, has_gates: bool) -> String {
    let mut conditions = Vec::new();
    if let Some(list) = &goal.list {
        conditions.push(format!("every task in `{}` is really done and ticked", list.file));
    }
    if has_gates {
        conditions
            .push("the gates pass (run the tests you need; ralph runs all gates when you stop)".to_owned());
    }
    let promise = goal.promise.as_deref().and_then(Promise::new);
    let done =
        if conditions.is_empty() { "the task is really done".to_owned() } else { conditions.join(" and ") };
    match promise {
        Some(promise) => format!(
            "To finish: when {done}, and only then, end your message with this alone on a line:\n{}",
            promise.tag()
        ),
        None => format!("To finish: continue until {done}, then stop."),
    }
}

/// The agent's briefing when a loop starts or a session attaches to it.
pub fn briefing(goal: &Goal, state: &State, tasks: Option<&TasksSeen>, has_gates: bool) -> String {
    let stop = SessionStop { tasks: tasks.cloned(), ..SessionStop::default() };
    let mut parts = vec![format!(
        "ralph keeps this session working until the task is verified. The task:\n{}",
        goal.task.trim()
    )];
    if state.attempts > 0 {
        parts.push(format!("Stops judged so far: {}.", state.attempts));
    }
    parts.extend(progress_line(&stop, state, None));
    if let Some(last) = state.last.as_ref().filter(|_| state.attempts > 0) {
        parts.push(format!("Last time: {}.", words::reason(&last.reason)));
    }
    parts.push(how_to_finish(goal, has_gates));
    parts.push("Never weaken a gate, a test or the task list to get there.".to_owned());
    parts.join("\n\n")
}
