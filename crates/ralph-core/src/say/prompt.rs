//! The driver's prompt for one iteration: the task, the progress, the last failures. Short, because every iteration
//! pays for it and an agent that continues its session already has most of it.

use crate::claims::promise::Promise;
use crate::clients::profile::Context;
use crate::clients::stream::Denial;
use crate::ledger::drive::Approach;
use crate::ledger::facts::{DefinitionStatus, Facts};
use crate::ledger::state::State;
use crate::model::budget::Attempts;
use crate::model::finding::{GatesSeen, TasksSeen};
use crate::model::gate::{Gate, GateReport};
use crate::model::ship::Until;
use crate::model::verdict::Reason;
use crate::say::feedback::{
    FailureDetail, HONEST_EXIT, HONEST_EXIT_FROM, MOST_CHARACTERS, PROOF_MISSING, changed_by_gates,
    changed_definition, ci_blocks, failing_blocks, gate_blocks, last_failures, since_last_time,
};
use crate::say::words;

/// Everything that goes into one iteration's prompt.
#[derive(Clone, Debug)]
pub struct PromptInput<'a> {
    pub task: &'a str,
    /// From 1.
    pub number: u32,
    pub of: Attempts,
    pub context: &'a Context,
    pub approach: Approach,
    pub gates: &'a [Gate],
    pub tasks: Option<&'a TasksSeen>,
    pub promise: Option<&'a Promise>,
    /// Where the loop ends beyond the gates.
    pub until: Until,
    /// The gates before the first iteration.
    pub at_start: &'a [GateReport],
    /// None in the first iteration.
    pub last: Option<LastIteration<'a>>,
}

/// The result of the previous iteration.
#[derive(Clone, Debug)]
pub struct LastIteration<'a> {
    /// The state before it was judged.
    pub before: &'a State,
    pub seen: &'a GatesSeen,
    pub definition_status: &'a DefinitionStatus,
    /// Tool calls that the client denied.
    pub denials: &'a [Denial],
    /// Why the run was killed: `it took longer than 30m`.
    pub cut_off: Option<&'a str>,
    /// Every gate passed, but the promise was not given.
    pub promise_missing: bool,
    /// What is missing beyond the gates.
    pub ship: Option<&'a str>,
    /// Every gate passed, but no test fails without the change.
    pub proof_missing: bool,
}

/// In characters; the rest is for the task and how it is judged.
const MOST_OF_ALL_GATES: usize = MOST_CHARACTERS - 1_000;
const MOST_DENIALS_SHOWN: usize = 5;

pub fn text(iteration: &PromptInput<'_>) -> String {
    let mut parts = vec![heading(iteration), task(iteration)];
    parts.extend(iteration.tasks.and_then(progress));
    if let Some(last) = &iteration.last {
        parts.extend(cut_off(last));
        parts.extend(failures(last, iteration.context));
        parts.extend(changed_by_gates(last.seen));
        parts.extend(since_last_time(last.before, last.seen));
        if let DefinitionStatus::Changed { difference } = last.definition_status {
            parts.push(changed_definition(difference));
        }
        parts.extend(last.ship.map(str::to_owned));
        parts.extend(denials(last.denials));
        if last.promise_missing {
            parts.push(PROMISE_MISSING.to_owned());
        }
        if last.proof_missing {
            parts.push(PROOF_MISSING.to_owned());
        }
    } else {
        parts.extend(failures_at_start(iteration.at_start));
    }
    if iteration.approach == Approach::Rethink {
        parts.push(rethink());
    }
    if iteration.number >= HONEST_EXIT_FROM {
        parts.push(HONEST_EXIT.to_owned());
    }
    parts.push(how_it_is_judged(iteration));
    let mut text = parts.join("\n\n");
    text.push('\n');
    text
}

fn heading(iteration: &PromptInput<'_>) -> String {
    let number = iteration.number;
    match iteration.of {
        Attempts::AtMost(most) => format!("Iteration {number} of {most}."),
        Attempts::Unlimited => format!("Iteration {number}."),
    }
}

/// An agent that continues its session still has the task; one that changes its approach gets it again.
fn task(iteration: &PromptInput<'_>) -> String {
    let knows_it = iteration.number > 1
        && iteration.approach == Approach::Continue
        && matches!(iteration.context, Context::Continue(_));
    if knows_it {
        return "Continue the same task; it is not done yet.".into();
    }
    let begun = if iteration.number > 1 {
        "\n\nEarlier iterations worked on it; their changes are in the files. Review them before you change anything."
    } else {
        ""
    };
    format!("The task:\n{}{begun}", iteration.task.trim())
}

fn progress(tasks: &TasksSeen) -> Option<String> {
    let TasksSeen::List { done, total, next } = tasks else { return None };
    let next = next.as_ref().map(|next| format!(" Next: {next}")).unwrap_or_default();
    Some(format!("{done} of {total} tasks are done.{next}"))
}

fn cut_off(last: &LastIteration<'_>) -> Option<String> {
    last.cut_off
        .map(|why| format!("The last run was stopped before it finished: {why}. Work in smaller steps."))
}

fn failures(last: &LastIteration<'_>, context: &Context) -> Option<String> {
    let detail = FailureDetail {
        last: last_failures(last.before),
        advisory_at_start: &last.before.advisory_at_start,
        remembers: matches!(context, Context::Continue(_)),
        most: MOST_OF_ALL_GATES,
        most_of_one: MOST_OF_ALL_GATES,
    };
    let blocks = gate_blocks(last.seen, &detail);
    let heading = "Gate failures on the current files:";
    (!blocks.is_empty()).then(|| format!("{heading}\n\n{}", blocks.join("\n\n")))
}

/// How the gates stood before anything was changed.
fn failures_at_start(reports: &[GateReport]) -> Option<String> {
    let detail = FailureDetail {
        last: &[],
        advisory_at_start: &[],
        remembers: false,
        most: MOST_OF_ALL_GATES,
        most_of_one: MOST_OF_ALL_GATES,
    };
    let required: Vec<GateReport> = reports.iter().filter(|report| !report.advisory).cloned().collect();
    let blocks = failing_blocks(&required, &detail);
    let heading = "At the start of this loop, before any change, these gates fail:";
    (!blocks.is_empty()).then(|| format!("{heading}\n\n{}", blocks.join("\n\n")))
}

/// Keeps the agent from trying the same again.
fn denials(denials: &[Denial]) -> Option<String> {
    if denials.is_empty() {
        return None;
    }
    let lines: Vec<String> = denials
        .iter()
        .take(MOST_DENIALS_SHOWN)
        .map(|denial| match denial.about.as_str() {
            "" => format!("- {}", denial.tool),
            about => format!("- {}: {about}", denial.tool),
        })
        .collect();
    Some(format!(
        "These tool calls were denied, and no user is present to allow them; do without them:\n{}",
        lines.join("\n")
    ))
}

/// What is missing beyond the gates, with what the logs of CI say.
pub fn ship_feedback(facts: &Facts, reason: Option<&Reason>) -> Option<String> {
    let text = ship_reason(reason?)?;
    let blocks = ci_blocks(facts.findings.as_deref().unwrap_or_default(), MOST_OF_ALL_GATES);
    Some([text].into_iter().chain(blocks).collect::<Vec<_>>().join("\n\n"))
}

/// The same from the reason alone.
pub fn ship_reason(reason: &Reason) -> Option<String> {
    match reason {
        Reason::ShipUnmet { what, next, .. } => Some(format!("Not done yet: {what}.\nNext: {next}.")),
        Reason::CiFailed { checks, url, .. } => Some(format!(
            "The commands passed here, but CI failed on the pushed commit: {}. {url}\nFind the cause, fix it and commit; ralph pushes it and waits for CI.",
            words::shortlist(checks)
        )),
        _ => None,
    }
}

const PROMISE_MISSING: &str = "Every command passed on the current files; only the promise was not given. Check once more whether the task is really done. If it is, give the promise as below; if not, continue.";

fn rethink() -> String {
    "The approach so far has not worked: several iterations ended the same way. Do not repeat it. First find the cause: reproduce the failure, read the code it comes from, explain in two sentences why it fails, and only then change something."
        .into()
}

fn how_it_is_judged(iteration: &PromptInput<'_>) -> String {
    let gates: Vec<String> = iteration
        .gates
        .iter()
        .filter(|gate| !gate.advisory)
        .map(|gate| format!("- {}", gate.run.trim()))
        .collect();
    let mut text = format!(
        "When you stop, ralph runs these commands on the files as you leave them; the task is done when all of them pass. Only gate results count:\n{}\nNever weaken a test or a command to get there.",
        gates.join("\n")
    );
    if iteration.until > Until::Verified {
        text.push_str(
            "\nCommit your work. Do not push, open a pull request or merge: ralph does that when the commands pass, waits for CI and reports its failures to you.",
        );
    }
    if let Some(promise) = iteration.promise {
        text.push_str(&format!(
            "\nWhen it is really done, and only then, end your message with this alone on a line:\n{}",
            promise.tag()
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::gate::GateOutcome;
    use crate::model::id::{GateName, SessionId};

    fn gate(run: &str) -> Gate {
        Gate::sample(run, run)
    }

    fn report(run: &str, outcome: GateOutcome, excerpt: &str) -> GateReport {
        GateReport {
            gate: GateName::new(run),
            run: run.into(),
            outcome,
            advisory: false,
            took: Duration::from_secs(2),
            runs: 1,
            log: None,
            excerpt: excerpt.into(),
            results: None,
            changed: Vec::new(),
        }
    }

    fn seen(reports: Vec<GateReport>) -> GatesSeen {
        GatesSeen::sample(reports)
    }

    fn last<'a>(state: &'a State, seen: &'a GatesSeen) -> LastIteration<'a> {
        LastIteration {
            before: state,
            seen,
            definition_status: &DefinitionStatus::Accepted,
            denials: &[],
            cut_off: None,
            promise_missing: false,
            ship: None,
            proof_missing: false,
        }
    }

    const FRESH: Context = Context::Fresh;

    fn first<'a>(gates: &'a [Gate]) -> PromptInput<'a> {
        PromptInput {
            task: "Fix the login.\n",
            number: 1,
            of: Attempts::AtMost(15),
            context: &FRESH,
            approach: Approach::Continue,
            gates,
            tasks: None,
            promise: None,
            until: Until::Verified,
            at_start: &[],
            last: None,
        }
    }

    #[test]
    fn the_first_prompt_is_the_task_and_how_it_is_judged() {
        let gates = [gate("cargo test"), Gate { advisory: true, ..gate("cargo audit") }];
        insta::assert_snapshot!("first_prompt", text(&first(&gates)));
    }

    #[test]
    fn failures_are_framed_as_untrusted() {
        let gates = [gate("cargo test"), gate("cargo fmt")];
        let reports = vec![
            report("cargo fmt", GateOutcome::Passed, "all fine"),
            report("cargo test", GateOutcome::Failed { code: 101 }, "expected 200, found 500"),
        ];
        let (state, seen) = (State::default(), seen(reports));
        let prompt = text(&PromptInput { number: 2, last: Some(last(&state, &seen)), ..first(&gates) });
        insta::assert_snapshot!("prompt_after_a_failure", prompt);
    }

    #[test]
    fn a_continuing_agent_gets_the_task_again_only_with_a_new_approach() {
        let gates = [gate("make")];
        let (state, seen) =
            (State::default(), seen(vec![report("make", GateOutcome::Failed { code: 2 }, "no rule")]));
        let continuing = Context::Continue(SessionId::new("s"));
        let table = [
            (&FRESH, Approach::Continue, true, false),
            (&continuing, Approach::Continue, false, false),
            (&continuing, Approach::Rethink, true, true),
            (&FRESH, Approach::Rethink, true, true),
        ];
        for (context, approach, task, rethinks) in table {
            let last = Some(last(&state, &seen));
            let prompt = text(&PromptInput { number: 5, context, approach, last, ..first(&gates) });
            assert_eq!(prompt.contains("Fix the login."), task, "{prompt}");
            assert_eq!(prompt.contains("First find the cause"), rethinks, "{prompt}");
            assert!(prompt.contains("no rule") && prompt.contains("- make\n"), "{prompt}");
        }
    }

    #[test]
    fn denials_timeouts_tasks_and_the_promise_are_included() {
        let gates = [gate("make")];
        let (state, seen) = (State::default(), seen(Vec::new()));
        let denial = |tool: &str, about: &str| Denial {
            tool: tool.into(),
            about: about.into(),
            rule: String::new(),
            count: 2,
        };
        let denials = [denial("Bash", "curl x"), denial("WebSearch", "")];
        let definition_status = DefinitionStatus::Changed { difference: "-test".into() };
        let last = LastIteration {
            denials: &denials,
            definition_status: &definition_status,
            cut_off: Some("it took longer than 30m"),
            ..last(&state, &seen)
        };
        let tasks = TasksSeen::List { done: 2, total: 3, next: Some("2.1 Log out".into()) };
        let promise = Promise::new("DONE").expect("a promise");
        let iteration = PromptInput {
            number: 2,
            of: Attempts::Unlimited,
            tasks: Some(&tasks),
            promise: Some(&promise),
            last: Some(last),
            ..first(&gates)
        };
        insta::assert_snapshot!("prompt_with_everything", text(&iteration));
    }

    #[test]
    fn a_prompt_stays_short_however_much_fails() {
        let gates = [gate("make")];
        let reports = (0..40)
            .map(|number| {
                report(
                    &format!("gate {number}"),
                    GateOutcome::Failed { code: 1 },
                    &"error: no\n".repeat(5_000),
                )
            })
            .collect();
        let (state, seen) = (State::default(), seen(reports));
        let prompt = text(&PromptInput { number: 2, last: Some(last(&state, &seen)), ..first(&gates) });
        assert!(prompt.chars().count() < 6_000, "{}", prompt.chars().count());
        assert!(
            prompt.contains("Also failing: `gate 4`, `gate 5`") && prompt.contains("`gate 39`."),
            "{prompt}"
        );
    }
}
