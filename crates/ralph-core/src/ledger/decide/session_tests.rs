//! A session's stops: how presets combine promise, task list and gates, and the limits of blocking.

use proptest::prelude::*;

use super::tests::{Loop, at, facts, failing, failing_with, gates_of, is_block, passing, verdict};
use super::*;
use crate::clients::hook::BackgroundWork;
use crate::ledger::facts::SessionStop;
use crate::ledger::transition::Transition;
use crate::model::budget::Budget;
use crate::model::id::{AgentId, SessionId};
use crate::model::layout::Clocks;
use crate::model::limits::{Limits, Origin};
use crate::model::preset::{self, Preset};
use crate::model::promise_seen::NearMiss;
use crate::model::results::{Results, TestOutcome, TestResult};

const NO_CLOCKS: Clocks = Clocks { stale_after: None, clock: None };

fn goal() -> Goal {
    Goal { promise: Some("DONE".into()), ..Goal::new("make it work") }
}

fn started(preset: &Preset, budget: &Budget) -> Loop {
    let mut begun = Loop::default();
    let limits = Limits::new(preset, NO_CLOCKS).with(budget, Origin::Flag);
    begun.take(Event::Began {
        subject: Subject::Session,
        session: Some(SessionId::new("s1")),
        task: None,
        layout: crate::model::layout::Layout::Native,
        preset: preset.name.into(),
        definition: None,
        limits,
        goal: Some(goal()),
        prompt: None,
        drive: None,
        rewritten: Vec::new(),
    });
    begun
}

/// A stop of the session with its message, task list and gate results.
fn stop(of: &Loop, mut findings: Vec<Finding>, session_stop: SessionStop) -> Facts {
    findings.extend(session_stop.tasks.clone().map(Finding::TaskList));
    findings.extend(session_stop.promise.clone().map(Finding::Promise));
    let mut facts = facts(findings);
    facts.subject = Subject::Session;
    facts.preset = &preset::SESSION;
    facts.limits = of.state.limits.clone().expect("it began");
    facts.session_stop = Some(session_stop);
    facts
}

fn promised() -> SessionStop {
    SessionStop { promise: Some(PromiseSeen::Given), ..SessionStop::default() }
}

fn silent() -> SessionStop {
    SessionStop { promise: Some(PromiseSeen::Absent), ..SessionStop::default() }
}

fn list(done: usize, total: usize) -> Option<TasksSeen> {
    Some(TasksSeen::List { done, total, next: None })
}

fn after_tool(call: &str, stop: SessionStop) -> SessionStop {
    SessionStop { tool_call: Some(call.into()), ..stop }
}

fn reason_of(decision: &Decision) -> &Reason {
    match decision {
        Decision::Block { reason, .. } | Decision::Allow { reason, .. } => reason,
        other => panic!("no verdict: {other:?}"),
    }
}

#[test]
fn promise_list_and_gates_combine_as_the_presets_say() {
    let near =
        || SessionStop { promise: Some(PromiseSeen::NearMiss(NearMiss::BareText)), ..SessionStop::default() };
    let with = |tasks, stop: SessionStop| SessionStop { tasks, ..stop };
    let nothing = SessionStop::default;
    // Gate results (none without gates), session facts, and the decision on the first stop.
    let table = [
        (Some(passing()), promised(), Ok(Verdict::Verified), "all_gates_passed"),
        (Some(failing()), promised(), Err(()), "gates_failed"),
        (Some(failing()), silent(), Err(()), "gates_failed"),
        (Some(passing()), silent(), Err(()), "promise_missing"),
        (Some(passing()), near(), Err(()), "promise_missing"),
        (Some(passing()), nothing(), Ok(Verdict::Verified), "all_gates_passed"),
        (None, promised(), Ok(Verdict::Claimed), "promised"),
        (None, silent(), Err(()), "promise_missing"),
        (None, near(), Err(()), "promise_missing"),
        (None, nothing(), Ok(Verdict::Claimed), "nothing_asked"),
        (Some(passing()), with(list(2, 3), promised()), Err(()), "tasks_open"),
        (Some(passing()), with(list(3, 3), promised()), Ok(Verdict::Verified), "all_gates_passed"),
        (Some(passing()), with(list(3, 3), silent()), Err(()), "promise_missing"),
        (Some(failing()), with(list(3, 3), promised()), Err(()), "gates_failed"),
        (Some(failing()), with(list(1, 3), silent()), Err(()), "gates_failed"),
        (None, with(list(2, 3), promised()), Err(()), "tasks_open"),
        (None, with(list(3, 3), promised()), Ok(Verdict::Claimed), "promised"),
        (None, with(list(3, 3), nothing()), Ok(Verdict::Claimed), "all_tasks_ticked"),
        (None, with(list(3, 3), silent()), Err(()), "promise_missing"),
    ];
    for (gates, session_stop, expected, code) in table {
        let mut running = started(&preset::SESSION, &Budget::default());
        let shown = format!("{gates:?} {session_stop:?}");
        let facts = stop(&running, gates.unwrap_or_default(), session_stop);
        let decision = running.stop(&facts);
        assert_eq!(reason_of(&decision).code(), code, "{shown}");
        match expected {
            Ok(expected) => assert_eq!(verdict(&decision), Some(expected), "{shown}"),
            Err(()) => assert!(is_block(&decision), "{shown}"),
        }
    }
}

#[test]
fn law_2_a_promise_never_verifies_and_a_false_one_is_counted() {
    let mut running = started(&preset::SESSION, &Budget::default());
    let facts = stop(&running, failing(), promised());
    assert!(is_block(&running.stop(&facts)));
    assert_eq!(running.state.false_promises, 1);
    let facts = stop(&running, failing(), after_tool("t1", silent()));
    assert!(is_block(&running.stop(&facts)));
    assert_eq!(running.state.false_promises, 1);
}

#[test]
fn the_promise_is_requested_once_when_the_gates_pass() {
    let mut running = started(&preset::SESSION, &Budget::default());
    let unpromised = stop(&running, passing(), silent());
    assert!(is_block(&running.stop(&unpromised)));
    let decision = running.stop(&unpromised);
    assert_eq!(verdict(&decision), Some(Verdict::Verified));
    assert_eq!(reason_of(&decision).code(), "all_gates_passed_unpromised");
}

#[test]
fn identical_stops_without_a_tool_call_are_stuck() {
    let mut idle = started(&preset::SESSION, &Budget::default());
    let same = stop(&idle, failing(), after_tool("t1", silent()));
    let decisions = idle.stops(&same, 3);
    assert!(decisions[..2].iter().all(is_block));
    assert_eq!(verdict(&decisions[2]), Some(Verdict::Stuck));

    let mut busy = started(&preset::SESSION, &Budget::default());
    for call in 0..40 {
        let facts = stop(&busy, failing(), after_tool(&format!("t{call}"), silent()));
        assert!(is_block(&busy.stop(&facts)), "after tool call {call}");
    }
}

#[test]
fn a_low_cap_of_the_client_makes_it_stuck_sooner_and_never_verified() {
    for (cap, holds) in [(8, 2), (4, 2), (3, 1), (2, 1), (1, 1)] {
        let mut idle = started(&preset::SESSION, &Budget::default());
        let stop_now = SessionStop { block_cap: Some(cap), ..silent() };
        let same = stop(&idle, failing(), stop_now);
        let decisions = idle.stops(&same, holds + 1);
        assert!(decisions[..holds].iter().all(is_block), "cap {cap}");
        assert!(verdict(&decisions[holds]).is_some_and(|verdict| verdict != Verdict::Verified), "cap {cap}");
    }
}

#[test]
fn different_stops_without_a_tool_call_are_allowed_before_the_clients_cap() {
    let mut idle = started(&preset::SESSION, &Budget::default());
    let mut held = 0;
    let last = loop {
        // Each failure differs, so no stops are identical.
        let stop_now = SessionStop { block_cap: Some(8), ..silent() };
        let facts = stop(&idle, failing_with(&"!".repeat(held + 1)), stop_now);
        let decision = idle.stop(&facts);
        if !is_block(&decision) {
            break decision;
        }
        held += 1;
    };
    assert_eq!(held, 7);
    let Decision::Allow { verdict, limit, .. } = last else { panic!("the stop is allowed") };
    assert_eq!((verdict, limit), (Verdict::Paused, Some(LimitHit::ClientCap { cap: 8 })));
}

#[test]
fn s1_r2_and_r7_agent_calls_pause_at_the_limit_and_resuming_grants_as_many_again() {
    let mut running = started(&preset::TASKS, &Budget::default());
    let call = |running: &mut Loop, number: u32| {
        let (agent, name) = (AgentId::new(format!("a{number}")), "ralph-coder".into());
        running.happen(&Transition::AgentCalled { agent, name, leads: false, tree: None });
    };
    for (from, to) in [(0, 100), (100, 200)] {
        for number in from..to {
            call(&mut running, number);
            // The same agent again is no further call.
            call(&mut running, number);
            let facts = stop(
                &running,
                Vec::new(),
                SessionStop { tasks: list(1, 5), ..after_tool(&number.to_string(), silent()) },
            );
            if number + 1 < to {
                assert!(is_block(&running.stop(&facts)), "with {number} calls");
            }
        }
        let facts =
            stop(&running, Vec::new(), SessionStop { tasks: list(1, 5), ..after_tool("z", silent()) });
        let decision = running.stop(&facts);
        assert_eq!(verdict(&decision), Some(Verdict::Paused));
        assert_eq!(running.state.agent_calls(), to);
        assert_eq!(running.stop(&facts), Decision::Ignore(IgnoredBecause::Paused));
        running.happen(&Transition::Resume { by: None });
        assert!(running.state.is_running());
    }
    assert_eq!(running.state.granted(100), 300);
}

#[test]
fn law_1_a_pass_on_the_last_attempt_of_a_loop_is_a_pass() {
    let budget = Budget { attempts: Some(Attempts::AtMost(3)), ..Budget::default() };
    let mut running = started(&preset::SESSION, &budget);
    for call in ["t1", "t2"] {
        let facts = stop(&running, failing(), after_tool(call, silent()));
        assert!(is_block(&running.stop(&facts)));
    }
    let mut other = Loop { state: running.state.clone(), history: Vec::new() };
    let facts = stop(&running, passing(), after_tool("t3", promised()));
    assert_eq!(verdict(&running.stop(&facts)), Some(Verdict::Verified));
    let facts = stop(&other, failing(), after_tool("t3", promised()));
    assert_eq!(verdict(&other.stop(&facts)), Some(Verdict::Paused));
}

#[test]
fn law_6_background_work_excuses_three_stops_and_costs_no_attempt() {
    let mut running = started(&preset::SESSION, &Budget::default());
    let work = BackgroundWork { id: "a1".into(), what: "tests".into() };
    let stop_now = SessionStop { background: vec![work], ..silent() };
    let mut facts = stop(&running, failing(), stop_now);
    for _ in 0..3 {
        facts.findings = None;
        assert!(matches!(running.stop(&facts), Decision::Wait { .. }));
    }
    assert_eq!(running.state.attempts, 0);
    facts.findings = None;
    assert_eq!(running.stop(&facts), Decision::Gather);
}

#[test]
fn an_unusable_task_list_is_an_error_and_the_third_pauses() {
    let mut running = started(&preset::TASKS, &Budget::default());
    let gone = Some(TasksSeen::Trouble(EvaluationError::TaskListGone { file: "tasks.md".into() }));
    let facts = stop(&running, passing(), SessionStop { tasks: gone, ..promised() });
    let decisions = running.stops(&facts, 3);
    assert!(decisions[..2].iter().all(is_block));
    assert_eq!(verdict(&decisions[2]), Some(Verdict::Paused));
    assert_eq!(running.state.attempts, 0);
    let kinds: Vec<_> = running.state.recent_errors.iter().map(|error| error.kind).collect();
    assert_eq!(kinds, [crate::model::loop_error::ErrorKind::TaskNotFound; 3]);
}

#[test]
fn an_ended_or_paused_loop_never_blocks() {
    let mut over = started(&preset::SESSION, &Budget::default());
    let facts = stop(&over, passing(), promised());
    assert_eq!(verdict(&over.stop(&facts)), Some(Verdict::Verified));
    let red = stop(&over, failing(), silent());
    assert_eq!(over.stop(&red), Decision::Ignore(IgnoredBecause::Over));
}

/// The always-on guard: the `check` budget for each prompt of the user.
fn guarded(prompt: &str, findings: Vec<Finding>) -> Facts {
    let mut facts = facts(findings);
    facts.subject = Subject::Session;
    facts.session_stop = Some(SessionStop { prompt: Some(prompt.into()), ..SessionStop::default() });
    facts
}

#[test]
fn every_prompt_of_a_guarded_session_has_a_budget_of_its_own() {
    let mut guard = Loop::default();
    assert!(guard.stops(&guarded("p1", failing()), 4).iter().all(is_block));
    assert!(guard.stops(&guarded("p2", failing()), 4).iter().all(is_block));
    assert_eq!(verdict(&guard.stop(&guarded("p2", failing()))), Some(Verdict::Released));
    assert!(is_block(&guard.stop(&guarded("p3", failing()))));
}

#[test]
fn a_guarded_session_is_not_blocked_for_earlier_failures() {
    let tests = |names: &[&str]| {
        let mut seen = gates_of(failing());
        let test = |name: &&str| TestResult {
            name: (*name).to_owned(),
            file: None,
            line: None,
            outcome: TestOutcome::Failed,
            message: String::new(),
            detail: String::new(),
        };
        seen.reports[0].results =
            Some(Results { tests: names.iter().map(test).collect(), ..Results::default() });
        seen
    };
    let stop = |now: GatesSeen, start: Vec<GateReport>| {
        let facts = Facts { at_start: start, ..guarded("p1", vec![Finding::Gates(now)]) };
        Loop::default().stop(&facts)
    };
    let reports = |names: &[&str]| tests(names).reports;
    for (now, start) in [(&["a"][..], &["a"][..]), (&["a"], &["a", "b"]), (&["b", "a"], &["a", "b"])] {
        let decision = stop(tests(now), reports(start));
        assert_eq!(verdict(&decision), Some(Verdict::Released), "{now:?} {start:?}");
        assert_eq!(reason_of(&decision).code(), "failing_before");
    }
    // A new failure of the same gate blocks, and so does everything that is unknown.
    assert!(is_block(&stop(tests(&["a", "c"]), reports(&["a"]))));
    assert!(is_block(&stop(tests(&["a"]), Vec::new())));
    assert!(is_block(&stop(gates_of(failing()), gates_of(failing()).reports)), "unreadable results");
    assert!(is_block(&stop(tests(&["a"]), gates_of(failing()).reports)), "a set-up crash at the start");
}

#[test]
fn a_pause_by_the_user_turns_the_guard_off_until_resumed() {
    let mut guard = Loop::default();
    guard.happen(&Transition::Pause(PauseCause::Word));
    assert_eq!(guard.stop(&guarded("p1", failing())), Decision::Ignore(IgnoredBecause::Paused));
    assert_eq!(guard.stop(&guarded("p2", failing())), Decision::Ignore(IgnoredBecause::Paused));
    guard.happen(&Transition::Resume { by: None });
    assert!(is_block(&guard.stop(&guarded("p2", failing()))));
    // An automatic pause ends with the next prompt.
    let trouble = vec![Finding::NotEvaluated {
        check: Check::Gates,
        trouble: EvaluationError::Busy { why: "busy".into() },
    }];
    assert_eq!(verdict(&guard.stops(&guarded("p2", trouble.clone()), 3)[2]), Some(Verdict::Paused));
    assert_eq!(guard.stop(&guarded("p2", failing())), Decision::Ignore(IgnoredBecause::Paused));
    assert!(is_block(&guard.stop(&guarded("p3", failing()))));
}

fn arbitrary_stop() -> impl Strategy<Value = (SessionStop, u8)> {
    let promise = prop_oneof![
        Just(None),
        Just(Some(PromiseSeen::Given)),
        Just(Some(PromiseSeen::Absent)),
        Just(Some(PromiseSeen::NearMiss(NearMiss::InCode))),
    ];
    let tasks = prop_oneof![Just(None), (0..3_usize).prop_map(|done| list(done, 2.max(done)))];
    let call = prop_oneof![Just(None), (0..3_u8).prop_map(|call| Some(call.to_string()))];
    let findings = 0..5_u8;
    (promise, tasks, call, findings).prop_map(|(promise, tasks, tool_call, findings)| {
        let cap = Some(8);
        (SessionStop { promise, tasks, tool_call, block_cap: cap, ..SessionStop::default() }, findings)
    })
}

proptest! {
    #[test]
    fn law_3_no_session_ends_verified_without_passing_gates_and_replay_agrees(
        stops in proptest::collection::vec(arbitrary_stop(), 1..30)
    ) {
        let mut running = started(&preset::SESSION, &Budget::default());
        for (session_stop, findings) in stops {
            let green = findings == 0;
            let findings = match findings {
                0 => passing(),
                1 | 2 => failing(),
                3 => Vec::new(),
                _ => vec![Finding::NotEvaluated { check: Check::Gates, trouble: EvaluationError::Busy { why: "busy".into() } }],
            };
            let facts = stop(&running, findings, session_stop);
            let decision = running.stop(&facts);
            if verdict(&decision) == Some(Verdict::Verified) {
                prop_assert!(green, "{decision:?}");
            }
            let replayed = State::fold(running.history.iter().map(|(at, event)| (*at, event)));
            prop_assert_eq!(&replayed, &running.state);
        }
    }

    #[test]
    fn law_4_an_idle_session_is_allowed_to_stop(stop_now in arbitrary_stop(), from in 0..5_i64) {
        let mut running = started(&preset::SESSION, &Budget::default());
        let (session_stop, findings) = stop_now;
        let findings = if findings % 2 == 0 { failing() } else { Vec::new() };
        let mut facts = stop(&running, findings, session_stop);
        facts.now = at(from);
        let held = (0..20).take_while(|_| is_block(&running.stop(&facts))).count();
        prop_assert!(held < 8, "blocked {held} times");
    }
}

/// An agent that works alone, calls of agents, or both: the cap binds, and the count is the real one.
#[test]
fn s1_r2_stops_without_an_agent_call_count_as_well() {
    for (calls_before, blocked) in
        [(vec![0; 9], 4), (vec![1; 9], 4), (vec![2, 0, 0, 0], 3), (vec![0, 3, 1], 2), (vec![5], 0)]
    {
        let budget = Budget { agent_calls: Some(Some(5)), ..Budget::default() };
        let mut running = started(&preset::TASKS, &budget);
        let mut called = 0;
        for (at, calls) in calls_before.iter().enumerate() {
            for _ in 0..*calls {
                called += 1;
                let (agent, name) = (AgentId::new(format!("a{called}")), "ralph-coder".into());
                running.happen(&Transition::AgentCalled { agent, name, leads: false, tree: None });
            }
            let tool = at.to_string();
            let facts =
                stop(&running, Vec::new(), SessionStop { tasks: list(1, 5), ..after_tool(&tool, silent()) });
            let decision = running.stop(&facts);
            if at < blocked {
                assert!(is_block(&decision), "{calls_before:?}: stop {at}");
            } else {
                assert_eq!(verdict(&decision), Some(Verdict::Paused), "{calls_before:?}: stop {at}");
                break;
            }
        }
        assert_eq!(running.state.task_iterations(), 5, "{calls_before:?}");
    }
}

#[test]
fn a_stuck_loop_of_the_user_waits_and_is_resumed_with_a_fresh_count() {
    let mut running = started(&preset::SESSION, &Budget::default());
    for _ in 0..2 {
        for _ in 0..2 {
            let facts = stop(&running, failing(), silent());
            assert!(is_block(&running.stop(&facts)));
        }
        let facts = stop(&running, failing(), silent());
        assert_eq!(verdict(&running.stop(&facts)), Some(Verdict::Stuck));
        assert!(running.state.paused().is_some());
        running.happen(&Transition::Resume { by: None });
    }
}

#[test]
fn a_promise_about_a_pull_request_never_verifies() {
    for promise in ["QUALITY_GATE_PASSED", "CI_PASSED", "DONE"] {
        let mut running = started(&preset::SESSION, &Budget::default());
        running.state.goal.as_mut().expect("a goal").promise = Some(promise.into());
        let facts = stop(&running, passing(), promised());
        let expected = if promise == "DONE" { Verdict::Verified } else { Verdict::Claimed };
        assert_eq!(verdict(&running.stop(&facts)), Some(expected), "{promise}");
    }
}
