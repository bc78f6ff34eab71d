use ralph_core::clients::stream::RunResult;
use ralph_core::ledger::event::{CancelCause, Event};
use ralph_core::model::verdict::EvaluationError;

use super::*;
use crate::show::progress::sample;

#[test]
fn a_complete_loop_as_lines() {
    let (lines, mut printed) = (sample::lines(), Vec::new());
    sample::story(&mut |event| {
        if !matches!(event, LoopEvent::Begins { .. }) {
            printed.extend(lines.of(event));
        }
    });
    insta::assert_snapshot!("complete_loop", printed.join("\n"));
}

#[test]
fn every_way_a_run_ends_has_a_line() {
    let table = [
        (AgentEnd::Finished, "agent ended after 3s, $0.0024"),
        (AgentEnd::Failed { why: "exit 1".into() }, "agent failed (exit 1) after 3s, $0.0024"),
        (AgentEnd::TimedOut, "agent timed out and was stopped after 3s, $0.0024"),
        (AgentEnd::WentSilent, "agent was silent for too long and was stopped after 3s, $0.0024"),
        (AgentEnd::Interrupted, "agent was interrupted after 3s, $0.0024"),
    ];
    for (ended, line) in table {
        assert_eq!(agent_ended(&sample::run(ended, 3, 2_400)), line);
    }
    let out = AgentEnd::OutOfUsage { why: "5-hour limit".into() };
    let mut run = sample::run(out, 3, 0);
    (run.cost, run.tokens) = (None, Tokens { input: 12_600, cached: 0, output: 300 });
    assert_eq!(
        agent_ended(&run),
        "agent stopped at a usage limit (5-hour limit) after 3s, 13k tokens in, 300 out"
    );
    run.left_running = vec!["77 node\nserver.js".into()];
    run.switched_to = Some("else\u{1b}[2Jwhere".into());
    assert_eq!(
        afterwards(&run),
        ["killed leftover processes: 77 node server.js", "it switched to branch elsewhere"]
    );
}

#[test]
fn every_way_a_loop_ends_has_a_line() {
    let lines = sample::lines();
    let fails = sample::test_fails;
    let most = Some(LimitHit::Attempts { most: 2 });
    let mut cancelled = sample::blocked();
    cancelled.apply(sample::at(240), &Event::Cancelled { why: CancelCause::Command });
    let states = [
        sample::ended(Verdict::Released, fails(), most),
        sample::ended(Verdict::Stuck, fails(), Some(LimitHit::NoProgress { equal: 3 })),
        sample::ended(Verdict::Failed, fails(), Some(LimitHit::Cost { most: Micros::new(200_000) })),
        sample::ended(Verdict::Tampered, Reason::DefinitionChanged, None),
        sample::ended(Verdict::Claimed, Reason::Promised, None),
        sample::paused(PauseCause::Interrupted),
        sample::paused(PauseCause::Denied { rule: "Bash(curl:*)".into() }),
        sample::blocked(),
        cancelled,
    ];
    let ends = states.map(|state| lines.end(&state));
    insta::assert_snapshot!("loop_endings", ends.join("\n"));
}

#[test]
fn an_evaluation_error_does_not_show_the_previous_judgement() {
    let mut state = sample::blocked();
    let trouble = EvaluationError::Busy { why: "another process runs the gates".into() };
    state.apply(sample::at(300), &Event::NotEvaluated { trouble, in_a_row: 1, verdict: Verdict::Blocked });
    assert_eq!(sample::lines().judged(&state), "not evaluated: another process runs the gates");
}

#[test]
fn gate_results_as_lines() {
    let flaky = GateReport { runs: 2, ..sample::report("test", GateOutcome::Passed, 900) };
    let reused = GateReport { runs: 0, ..sample::report("test", GateOutcome::Passed, 900) };
    let advisory = GateReport {
        advisory: true,
        log: None,
        ..sample::report("lint", GateOutcome::Failed { code: 2 }, 900)
    };
    let slow = GateOutcome::TimedOut { after: Duration::from_secs(120) };
    let table = [
        (flaky, "gate test passed at run 2 in 900ms"),
        (reused, "gate test already passed on this tree"),
        (advisory, "gate lint failed (exit 2) in 900ms (advisory)"),
        (
            GateReport { log: None, ..sample::report("e2e", slow, 120_000) },
            "gate e2e timed out after 2m and was killed with all its processes",
        ),
        (
            GateReport { log: None, ..sample::report("a\n\u{1b}[31mb", GateOutcome::Passed, 1) },
            "gate a b passed in 1ms",
        ),
    ];
    for (report, line) in table {
        assert_eq!(gate_finished(&report), [line]);
    }
}

#[test]
fn agent_events_as_lines() {
    let failed = RunResult { ok: false, reason: Some("max_turns".into()), ..RunResult::default() };
    let retry = AgentEvent::Retry {
        attempt: 2,
        status: Some(529),
        why: "overloaded".into(),
        wait: Some(Duration::from_secs(3)),
    };
    let limit = AgentEvent::LimitReached { until: None, why: "5-hour limit".into() };
    let table = [
        (retry, vec!["retrying (attempt 2, in 3s): 529 overloaded"]),
        (limit, vec!["usage limit reached: 5-hour limit"]),
        (AgentEvent::Result(failed), vec!["turn failed: max_turns"]),
        (AgentEvent::Result(RunResult { ok: true, ..RunResult::default() }), vec![]),
        (AgentEvent::Unknown, vec![]),
    ];
    for (event, lines) in table {
        assert_eq!(event_lines(&event), lines, "{event:?}");
    }
    let many = AgentEvent::Said { text: "line\n".repeat(100) };
    let lines = event_lines(&many);
    assert_eq!((lines.len(), lines[40].as_str()), (41, "… 60 more lines"));
}

#[test]
fn a_resumed_loop_shows_its_progress() {
    let (plan, state) = (sample::plan(), sample::blocked());
    assert_eq!(
        sample::lines().of(&LoopEvent::begins(&plan, &state)),
        ["loop dws7 resumed: Fix the tests of the parser: 測試 must pass", "  so far 1 iteration, 3m, $0.12"]
    );
}

#[test]
fn an_unlimited_loop_shows_no_limit() {
    let event =
        LoopEvent::IterationBegan { number: 7, of: Attempts::Unlimited, approach: Approach::Continue };
    assert_eq!(sample::lines().of(&event), ["iteration 7"]);
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(32))]

    #[test]
    fn every_line_is_one_line_and_bounded(text in "(.|\n|\u{1b}|\r){0,600}") {
        let lines = sample::lines();
        let events = [
            AgentEvent::Said { text: text.clone() },
            AgentEvent::UsedTool { name: text.clone(), about: text.clone() },
            AgentEvent::LimitReached { until: None, why: text.clone() },
        ];
        let files = vec![text.clone(); 20];
        let run = sample::run(AgentEnd::Failed { why: text.clone() }, 1, 1);
        let state = sample::blocked();
        let mut printed: Vec<String> = events.iter().flat_map(|event| lines.of(&LoopEvent::Agent(event.clone()))).collect();
        printed.extend(lines.of(&LoopEvent::TreeChanged { files: files.clone() }));
        printed.extend(lines.of(&LoopEvent::agent_ended(&run, &state)));
        printed.extend(lines.of(&LoopEvent::Waits { until: sample::at(0), why: text.clone() }));
        for line in printed {
            proptest::prop_assert!(!line.contains(char::is_control), "{line:?}");
            proptest::prop_assert!(line.chars().count() <= 1_200, "{line:?}");
        }
    }
}
