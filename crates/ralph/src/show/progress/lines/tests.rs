use ralph_core::clients::stream::RunResult;
use ralph_core::ledger::event::{CancelCause, Event};
use ralph_core::model::money::Micros;
use ralph_core::model::verdict::Trouble;

use super::*;
use crate::show::progress::sample;

#[test]
fn a_loop_is_told_in_short_lines() {
    let (lines, mut told) = (sample::lines(), Vec::new());
    sample::story(&mut |event| {
        if !matches!(event, LoopEvent::Begins { .. }) {
            told.extend(lines.of(event));
        }
    });
    let wanted = "\
iteration 1 of 15
  claude: session s-1
  claude: Edit src/lib.rs
  claude: Bash curl http://example.invalid (denied)
  claude: I have mended 測試.
  claude: All tests pass.
  agent ended after 2m 10s, $0.12
  denied: Bash curl http://example.invalid, 2 times (allow: Bash(curl:*))
  gate fmt runs
  gate fmt passed in 3.1s
  gate test runs
  gate test failed (exit 101) in 3.1s
    whole output: /logs/test
  gates changed src/lib.rs
  not done: 1 of 2 gates fails: test
no progress: the next iteration begins in another way
waiting until Fri 07:04:05: rate limit
waiting until Fri 07:04:05: rate limit
iteration 2 of 15, in another way
  agent ended after 1m, $0.08
  gate fmt runs
  gate fmt passed in 800ms
  gate test runs
  gate test passed in 800ms
  gate lint runs
  gate lint passed in 800ms
  done: every gate passed
note: the tree could not be kept: no git
verified after 2 iterations, 6m, $0.20";
    assert_eq!(told.join("\n"), wanted);
}

#[test]
fn every_way_a_run_ends_has_a_line() {
    let table = [
        (AgentEnd::Finished, "agent ended after 3s, $0.0024"),
        (AgentEnd::Failed { why: "exit 1".into() }, "agent failed (exit 1) after 3s, $0.0024"),
        (AgentEnd::TimedOut, "agent took too long and was ended after 3s, $0.0024"),
        (AgentEnd::WentSilent, "agent went silent and was ended after 3s, $0.0024"),
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
        "agent ended, the service gave no more (5-hour limit) after 3s, 13k tokens in, 300 out"
    );
    run.left_running = vec!["77 node\nserver.js".into()];
    run.switched_to = Some("else\u{1b}[2Jwhere".into());
    assert_eq!(
        afterwards(&run),
        ["ended what it left running: 77 node server.js", "it switched to branch elsewhere"]
    );
}

#[test]
fn every_way_a_loop_ends_has_a_line() {
    let lines = sample::lines();
    let fails = sample::test_fails;
    let most = Some(LimitHit::Attempts { most: 2 });
    let table = [
        (
            sample::ended(Verdict::Released, fails(), most),
            "not verified after 2 iterations, 6m, $0.20: not done: 1 of 2 gates fails: test; the limit of 2 iterations is \
             reached",
        ),
        (
            sample::ended(Verdict::Stuck, fails(), Some(LimitHit::NoProgress { equal: 3 })),
            "stuck after 2 iterations, 6m, $0.20: not done: 1 of 2 gates fails: test; 3 equal iterations in a row",
        ),
        (
            sample::ended(Verdict::Failed, fails(), Some(LimitHit::Cost { most: Micros::new(200_000) })),
            "not verified after 2 iterations, 6m, $0.20: not done: 1 of 2 gates fails: test; the limit of $0.20 is reached",
        ),
        (
            sample::ended(Verdict::Tampered, Reason::DefinitionChanged, None),
            "tampered with: not verified after 2 iterations, 6m, $0.20: not done: the gate definition in the repo is not \
             the one a person accepted; nothing ends verified with it",
        ),
        (
            sample::ended(Verdict::Claimed, Reason::Promised, None),
            "over, claimed and not verified, after 2 iterations, 6m, $0.20: claimed, not verified: the promise was given, \
             and no gate is set up",
        ),
        (
            sample::paused(PauseCause::Interrupted),
            "paused after 1 iteration, 3m 20s, $0.12: interrupted; `ralph resume` goes on",
        ),
        (
            sample::paused(PauseCause::Denied { rule: "Bash(curl:*)".into() }),
            "paused after 1 iteration, 3m 20s, $0.12: the agent needs what it may not do; `allow:` lacks Bash(curl:*); \
             `ralph resume` goes on",
        ),
        (sample::held(), "left open after 1 iteration, 3m, $0.12; `ralph resume` goes on"),
        (
            {
                let mut state = sample::held();
                state.apply(sample::at(240), &Event::Cancelled { why: CancelCause::Command });
                state
            },
            "cancelled after 1 iteration, 4m, $0.12",
        ),
    ];
    for (state, line) in table {
        assert_eq!(lines.end(&state), line);
    }
}

#[test]
fn what_could_not_be_told_is_not_taken_for_the_judgement_before_it() {
    let mut state = sample::held();
    let trouble = Trouble::Busy { why: "somebody else runs the gates".into() };
    state.apply(sample::at(300), &Event::CannotTell { trouble, in_a_row: 1, verdict: Verdict::Held });
    assert_eq!(sample::lines().judged(&state), "cannot tell: somebody else runs the gates");
}

#[test]
fn gates_say_what_became_of_them() {
    let flaky = GateReport { runs: 2, ..sample::report("test", Outcome::Passed, 900) };
    let reused = GateReport { runs: 0, ..sample::report("test", Outcome::Passed, 900) };
    let advisory =
        GateReport { advisory: true, log: None, ..sample::report("lint", Outcome::Failed { code: 2 }, 900) };
    let slow = Outcome::TimedOut { after: Duration::from_secs(120) };
    let table = [
        (flaky, "gate test passed at run 2 in 900ms"),
        (reused, "gate test passed before on this very tree"),
        (advisory, "gate lint failed (exit 2) in 900ms (advisory)"),
        (
            GateReport { log: None, ..sample::report("e2e", slow, 120_000) },
            "gate e2e timed out after 2m and was ended with all its processes",
        ),
        (
            GateReport { log: None, ..sample::report("a\n\u{1b}[31mb", Outcome::Passed, 1) },
            "gate a b passed in 1ms",
        ),
    ];
    for (report, line) in table {
        assert_eq!(gate_finished(&report), [line]);
    }
}

#[test]
fn what_an_agent_does_is_told_unless_it_says_nothing() {
    let failed = RunResult { ok: false, reason: Some("max_turns".into()), ..RunResult::default() };
    let retry = AgentEvent::Retry {
        attempt: 2,
        status: Some(529),
        why: "overloaded".into(),
        wait: Some(Duration::from_secs(3)),
    };
    let limit = AgentEvent::LimitReached { until: None, why: "5-hour limit".into() };
    let table = [
        (retry, vec!["asks the service again (attempt 2, in 3s): 529 overloaded"]),
        (limit, vec!["the service gives no more: 5-hour limit"]),
        (AgentEvent::Result(failed), vec!["its turn failed: max_turns"]),
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
fn a_loop_that_goes_on_says_how_far_it_is() {
    let (plan, state) = (sample::plan(), sample::held());
    assert_eq!(
        sample::lines().of(&LoopEvent::begins(&plan, &state)),
        [
            "loop fix-the-tests-1a2b3c goes on: Fix the tests of the parser: 測試 must pass",
            "  so far 1 iteration, 3m, $0.12"
        ]
    );
}

#[test]
fn an_iteration_without_a_limit_names_none() {
    let event = LoopEvent::IterationBegan { number: 7, of: Attempts::Unlimited, approach: Approach::GoOn };
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
        let state = sample::held();
        let mut told: Vec<String> = events.iter().flat_map(|event| lines.of(&LoopEvent::Agent(event.clone()))).collect();
        told.extend(lines.of(&LoopEvent::TreeChanged { files: files.clone() }));
        told.extend(lines.of(&LoopEvent::agent_ended(&run, &state)));
        told.extend(lines.of(&LoopEvent::Waits { until: sample::at(0), why: text.clone() }));
        for line in told {
            proptest::prop_assert!(!line.contains(char::is_control), "{line:?}");
            proptest::prop_assert!(line.chars().count() <= 1_200, "{line:?}");
        }
    }
}
