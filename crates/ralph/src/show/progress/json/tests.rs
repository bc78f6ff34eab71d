use ralph_core::ledger::event::Event;
use ralph_core::model::verdict::{EvaluationError, Reason};
use serde_json::json;

use super::*;
use crate::show::progress::sample;

fn sample_events() -> Vec<Value> {
    let mut events = Vec::new();
    sample::story(&mut |event| {
        let line = line(event, sample::at(0), None);
        assert!(!line.contains('\n'), "{line}");
        assert!(line.starts_with("{\"event\":\""), "{line}");
        events.push(serde_json::from_str(&line).expect("JSON"));
    });
    events
}

fn last(state: &State, signal: Option<i32>) -> Value {
    let plan = sample::plan();
    serde_json::from_str(&line(&LoopEvent::ends(&plan, state), sample::at(0), signal)).expect("JSON")
}

#[test]
fn every_event_is_an_object_with_a_name_and_a_time() {
    let events = sample_events();
    let mut names: Vec<&str> = events.iter().map(|line| line["event"].as_str().expect("a name")).collect();
    names.dedup();
    let wanted = "begins iteration_began agent_session agent_used_tool agent_denied agent_said agent_unknown agent_result \
                  agent_ended gate_started gate_ended gate_finished gate_started gate_ended gate_finished tree_changed \
                  judged strategy_changed waits iteration_began agent_ended gate_started gate_ended gate_finished \
                  gate_started gate_ended gate_finished gate_started gate_ended gate_finished judged trouble ends";
    assert_eq!(names.join(" "), wanted);
    assert!(events.iter().all(|line| line["at"] == "2026-01-02T03:04:05Z"));
}

/// The table in the guide must list every event and every field.
#[test]
fn the_guide_names_every_event_and_every_field() {
    let guide = include_str!("../../../../../../docs/driver.md");
    let row = |event: &str| {
        let name = format!("`{event}`");
        let mut rows = guide.lines().filter(|line| line.starts_with('|'));
        rows.find(|row| row.split('|').nth(1).is_some_and(|events| events.contains(&name))).map(str::to_owned)
    };
    let retry = AgentEvent::Retry { attempt: 1, status: None, why: "x".into(), wait: None };
    let limit = AgentEvent::LimitReached { until: None, why: "x".into() };
    let more = [retry, limit].map(|event| line(&LoopEvent::Agent(event.clone()), sample::at(0), None));
    let more = more.into_iter().chain([left_out(1)]).map(|line| serde_json::from_str(&line).expect("JSON"));
    for event in sample_events().into_iter().chain(more) {
        let Value::Object(fields) = event else { panic!("no object") };
        let event = fields["event"].as_str().expect("a name");
        let row = row(event).unwrap_or_else(|| panic!("{event} is not in the guide"));
        assert!(fields["at"].is_string(), "{event}");
        for field in fields.keys().filter(|field| !["event", "at"].contains(&field.as_str())) {
            assert!(row.contains(&format!("`{field}`")), "{event}: {field} is not in the guide");
        }
    }
}

#[test]
fn numbers_are_numbers() {
    let events = sample_events();
    let first = |event: &str| events.iter().find(|line| line["event"] == event).expect(event);
    let begins = first("begins");
    assert_eq!((&begins["max_iterations"], &begins["max_cost_usd"]), (&json!(15), &json!(5.0)));
    assert_eq!(begins["max_seconds"], Value::Null);
    assert_eq!(first("iteration_began")["approach"], "continue");
    let ended = first("agent_ended");
    assert_eq!(
        (&ended["how"], &ended["seconds"], &ended["cost_usd"]),
        (&json!("finished"), &json!(130.0), &json!(0.12))
    );
    assert_eq!(ended["denied"][0]["rule"], "Bash(curl:*)");
    let failed = events.iter().find(|line| line["outcome"] == "failed").expect("a failing gate");
    assert_eq!(
        (&failed["gate"], &failed["exit_code"], &failed["seconds"]),
        (&json!("test"), &json!(101), &json!(3.1))
    );
    let judged = first("judged");
    assert_eq!(
        (&judged["verdict"], &judged["code"], &judged["failing"]),
        (&json!("blocked"), &json!("gates_failed"), &json!(["test"]))
    );
    assert_eq!(first("waits")["until"], "2026-01-02T07:04:05Z");
}

#[test]
fn the_last_event_has_the_verdict_and_exit_code() {
    let fails = sample::test_fails;
    let most = Some(LimitHit::Attempts { most: 2 });
    let cost = Some(LimitHit::Cost { most: Micros::new(1) });
    let interrupted = sample::paused(PauseCause::Interrupted);
    let denied = sample::paused(PauseCause::Denied { rule: "x".into() });
    let table = [
        (
            sample::ended(Verdict::Verified, Reason::AllGatesPassed, None),
            Some(15),
            "verified",
            "all_gates_passed",
            0,
        ),
        (sample::ended(Verdict::Released, fails(), most), None, "released", "gates_failed", 1),
        (sample::ended(Verdict::Failed, fails(), cost), None, "failed", "gates_failed", 1),
        (sample::ended(Verdict::Stuck, fails(), None), None, "stuck", "gates_failed", 4),
        (
            sample::ended(Verdict::Tampered, Reason::DefinitionChanged, None),
            None,
            "tampered",
            "definition_changed",
            5,
        ),
        (interrupted.clone(), Some(2), "paused", "gates_failed", 130),
        (interrupted.clone(), Some(15), "paused", "gates_failed", 143),
        (interrupted, None, "paused", "gates_failed", 3),
        (denied, None, "paused", "gates_failed", 3),
        (sample::blocked(), Some(15), "open", "gates_failed", 143),
    ];
    for (state, signal, verdict, code, exit_code) in table {
        let line = last(&state, signal);
        assert_eq!((&line["verdict"], &line["code"]), (&json!(verdict), &json!(code)), "{line}");
        assert_eq!(line["exit_code"], exit_code, "{line}");
        assert_eq!(line["verified"], verdict == "verified");
    }
    let line = last(&sample::ended(Verdict::Released, fails(), most), None);
    assert_eq!(line["limit"], "max_iterations_reached");
    assert_eq!(
        (&line["iterations"], &line["cost_usd"], &line["seconds"]),
        (&json!(2), &json!(0.2), &json!(360.0))
    );
}

#[test]
fn a_failed_evaluation_is_not_a_judgement() {
    let mut state = sample::blocked();
    let trouble = EvaluationError::Busy { why: "busy".into() };
    state.apply(sample::at(300), &Event::NotEvaluated { trouble, in_a_row: 1, verdict: Verdict::Blocked });
    let line: Value =
        serde_json::from_str(&line(&LoopEvent::judged(2, &state), sample::at(0), None)).expect("JSON");
    assert_eq!((&line["verdict"], &line["why"]), (&json!("not_evaluated"), &json!("busy")));
}

/// Another process can follow a loop: no part of an event is lost.
#[test]
fn events_round_trip_through_json() {
    sample::story(&mut |event| {
        let text = serde_json::to_string(event).expect("JSON");
        assert_eq!(serde_json::from_str::<LoopEvent>(&text).expect("an event"), *event, "{text}");
    });
}
