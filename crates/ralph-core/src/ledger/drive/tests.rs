use super::*;
use crate::ledger::event::{AgentEnd, AgentRun, Event};
use crate::model::drive_options::DriveOptions;
use crate::model::id::SessionId;
use crate::model::money::Micros;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).expect("in range")
}

fn driven(memory: AgentContext, events: &[Event]) -> State {
    let options = DriveOptions {
        agent: "claude".into(),
        memory,
        model: None,
        checkpoints: true,
        longest_run: Duration::from_secs(3600),
        longest_silence: Duration::from_secs(900),
        gate_timeout: None,
        no_baseline: false,
        accept_green: false,
    };
    let subject = Some(crate::ledger::event::Subject::Driver);
    let mut state = State { status: Status::Running, subject, ..State::default() };
    state.drive.options = Some(options);
    for event in events {
        state.apply(at(0), event);
    }
    state
}

fn began(iteration: u32) -> Event {
    Event::IterationBegan { iteration, fresh: true }
}

fn ended(iteration: u32, ended: AgentEnd) -> Event {
    let session = Some(SessionId::new("s"));
    Event::AgentEnded { iteration, run: AgentRun { session, ..AgentRun::new(ended, Duration::ZERO) } }
}

fn out_of_usage() -> AgentEnd {
    AgentEnd::OutOfUsage { why: "rate limit".into() }
}

fn judged(iteration: u32) -> Event {
    Event::NotEvaluated {
        trouble: crate::model::verdict::EvaluationError::Busy { why: format!("{iteration}") },
        in_a_row: 1,
        verdict: crate::model::verdict::Verdict::Blocked,
    }
}

fn run(iteration: u32) -> NextStep {
    NextStep::Run { iteration, context: Context::Fresh, approach: Approach::Continue }
}

#[test]
fn an_uncommitted_tree_is_recovered() {
    let kept = |iteration| Event::Committed { iteration, commit: "c".into() };
    let finished = |iteration| ended(iteration, AgentEnd::Finished);
    let waits = || Event::WaitingUntil { until: at(60), why: "rate limit".into() };
    // Whose tree is staged but not committed, and whose is to be staged.
    let table = [
        ("nothing yet", vec![], (Some(0), None)),
        ("the beginning", vec![kept(0)], (None, None)),
        ("killed beside the first run", vec![began(1)], (Some(0), Some(1))),
        ("killed after it", vec![began(1), finished(1)], (Some(0), Some(1))),
        ("not judged yet", vec![began(1), finished(1), kept(0)], (None, Some(1))),
        ("interrupted while the gates ran", vec![began(1), finished(1), kept(0), kept(1)], (None, None)),
        ("judged", vec![began(1), finished(1), kept(0), judged(1)], (Some(1), None)),
        ("killed beside the next run", vec![began(1), kept(0), judged(1), began(2)], (Some(1), Some(2))),
        ("kept beside it", vec![began(1), kept(0), judged(1), began(2), kept(1)], (None, Some(2))),
        ("refused by the service", vec![kept(0), began(1), ended(1, out_of_usage()), waits()], (None, None)),
        ("run again after that", vec![kept(0), began(1), kept(1), waits(), began(1)], (None, Some(1))),
    ];
    for (what, events, expected) in table {
        let drive = driven(AgentContext::Fresh, &events).drive;
        assert_eq!((drive.uncommitted_iteration(), drive.to_keep()), expected, "{what}");
    }
}

#[test]
fn each_missing_half_of_an_iteration_is_recovered_once() {
    let waits = Event::WaitingUntil { until: at(60), why: "rate limit".into() };
    let failed = AgentEnd::Failed { why: "exit 1".into() };
    let table: &[(&str, Vec<Event>, NextStep)] = &[
        ("nothing yet", vec![], run(1)),
        ("killed while the agent ran", vec![began(1)], run(1)),
        (
            "killed before it was judged",
            vec![began(1), ended(1, AgentEnd::Finished)],
            NextStep::Judge { iteration: 1 },
        ),
        ("a failed run is judged too", vec![began(1), ended(1, failed)], NextStep::Judge { iteration: 1 }),
        ("the user interrupted it", vec![began(1), ended(1, AgentEnd::Interrupted)], run(1)),
        ("judged", vec![began(1), ended(1, AgentEnd::Finished), judged(1)], run(2)),
        (
            "a usage limit",
            vec![began(1), ended(1, out_of_usage()), waits.clone()],
            NextStep::Wait { until: at(60) },
        ),
        (
            "killed before the wait was written down",
            vec![began(1), ended(1, out_of_usage())],
            NextStep::Judge { iteration: 1 },
        ),
    ];
    for (name, events, expected) in table {
        assert_eq!(next(&driven(AgentContext::Fresh, events), at(0)), *expected, "{name}");
    }
    let waited = driven(AgentContext::Fresh, &[began(1), ended(1, out_of_usage()), waits]);
    assert_eq!(next(&waited, at(60)), run(1), "the wait is over, and the iteration was not counted");
}

#[test]
fn the_session_is_continued_unless_the_approach_changes() {
    let events = [began(1), ended(1, AgentEnd::Finished), judged(1)];
    let going_on = NextStep::Run {
        iteration: 2,
        context: Context::Continue(SessionId::new("s")),
        approach: Approach::Continue,
    };
    assert_eq!(next(&driven(AgentContext::Continue, &events), at(0)), going_on);
    assert_eq!(next(&driven(AgentContext::Fresh, &events), at(0)), run(2));
    let mut state = driven(AgentContext::Continue, &events);
    state.apply(at(0), &Event::StrategyChanged);
    let anew = NextStep::Run { iteration: 2, context: Context::Fresh, approach: Approach::Rethink };
    assert_eq!(next(&state, at(0)), anew);
    for event in [began(2), ended(2, AgentEnd::Finished), judged(2)] {
        state.apply(at(0), &event);
    }
    assert!(matches!(next(&state, at(0)), NextStep::Run { iteration: 3, approach: Approach::Continue, .. }));
}

#[test]
fn a_usage_limit_waits_as_stated_or_with_backoff() {
    let limit = |until| UsageLimit { until, why: String::new() };
    let table = [
        (Some(at(600)), 0, at(602)),
        (Some(at(600)), 2, at(602)),
        (Some(at(600)), 5, at(602)),
        (Some(at(1)), 2, at(3)),
        (Some(at(1)), 3, at(30)),
        (Some(at(1)), 6, at(240)),
        (Some(at(1)), 4_000, at(3600)),
        // A past or absurd end counts as not stated.
        (Some(at(-5)), 0, at(30)),
        (Some(at(100 * 24 * 3600)), 0, at(30)),
        (None, 0, at(30)),
        (None, 1, at(60)),
        (None, 6, at(1920)),
        (None, 7, at(3600)),
        (None, 4_000, at(3600)),
    ];
    for (until, waits, expected) in table {
        assert_eq!(waits_until(&limit(until), waits, at(0)), expected, "{until:?} after {waits}");
    }
}

#[test]
fn a_loop_at_its_cost_limit_is_judged_however_its_run_ended() {
    let costs = |dollars: f64, how: AgentEnd| {
        let cost = Micros::from_dollars(dollars);
        Event::AgentEnded { iteration: 1, run: AgentRun { cost, ..AgentRun::new(how, Duration::ZERO) } }
    };
    let waits = || Event::WaitingUntil { until: at(-1), why: "rate limit".into() };
    let table = [
        ("less", vec![began(1), costs(4.9, out_of_usage()), waits()], run(1)),
        ("refused", vec![began(1), costs(5.0, out_of_usage()), waits()], NextStep::Judge { iteration: 0 }),
        ("interrupted", vec![began(1), costs(7.0, AgentEnd::Interrupted)], NextStep::Judge { iteration: 1 }),
        (
            "judged",
            vec![began(1), costs(7.0, AgentEnd::Finished), judged(1)],
            NextStep::Judge { iteration: 1 },
        ),
    ];
    for (what, events, expected) in table {
        let mut state = driven(AgentContext::Fresh, &events);
        let clocks = crate::model::layout::Clocks { clock: None, stale_after: None };
        let mut limits = crate::model::limits::Limits::new(&crate::model::preset::DRIVE, clocks);
        limits.cost = crate::model::limits::WithOrigin::default(Micros::from_dollars(5.0));
        state.limits = Some(limits);
        assert_eq!(next(&state, at(0)), expected, "{what}");
    }
}

#[test]
fn used_budget_is_never_given_back() {
    let events = [began(1), ended(1, AgentEnd::Finished), judged(1), began(2)];
    let mut state = driven(AgentContext::Fresh, &events);
    let before = state.drive.clone();
    state.apply(at(5), &Event::Reset { why: crate::ledger::event::ResetCause::Command });
    assert_eq!(state.drive, before);
}

#[test]
fn resuming_clears_failed_runs() {
    let failed = || ended(1, AgentEnd::Failed { why: "no network".into() });
    let mut state = driven(AgentContext::Fresh, &[failed(), failed(), failed()]);
    assert_eq!(state.drive.failed_runs, 3);
    state.apply(at(0), &Event::Resumed { renewed: false });
    state.apply(at(0), &failed());
    assert_eq!(state.drive.failed_runs, 1);
}

#[test]
fn a_rule_denied_three_times_in_a_row_is_reported() {
    let denied = |rules: &[&str]| {
        let denied = rules
            .iter()
            .map(|rule| crate::clients::stream::Denial {
                tool: "Bash".into(),
                about: String::new(),
                rule: (*rule).to_owned(),
                count: 2,
            })
            .collect();
        let run = AgentRun { denied, ..AgentRun::new(AgentEnd::Finished, Duration::ZERO) };
        Event::AgentEnded { iteration: 1, run }
    };
    let table: &[(&[&[&str]], Option<&str>)] = &[
        (&[&["a"], &["a", "b"]], None),
        (&[&["a"], &["a", "b"], &["b", "a"]], Some("a")),
        (&[&["a"], &["a"], &[], &["a"]], None),
    ];
    for (runs, expected) in table {
        let events: Vec<Event> = runs.iter().map(|rules| denied(rules)).collect();
        assert_eq!(
            driven(AgentContext::Fresh, &events).drive.repeatedly_denied_rule(),
            *expected,
            "{runs:?}"
        );
    }
}

#[test]
fn a_loop_at_its_time_limit_is_judged_and_paused_time_does_not_count() {
    let limits = |state: &mut State| {
        let mut limits = crate::model::limits::Limits::new(
            &crate::model::preset::DRIVE,
            crate::model::layout::Clocks { clock: Some(Duration::from_secs(100)), stale_after: None },
        );
        limits.attempts =
            crate::model::limits::WithOrigin::default(crate::model::budget::Attempts::Unlimited);
        (state.limits, state.started_at) = (Some(limits), Some(at(0)));
    };
    let mut state = driven(AgentContext::Fresh, &[began(1), ended(1, AgentEnd::Finished), judged(1)]);
    limits(&mut state);
    assert_eq!(next(&state, at(100)), run(2));
    assert_eq!(next(&state, at(101)), NextStep::Judge { iteration: 1 });
    state.apply(at(50), &Event::WaitingUntil { until: at(5_000), why: String::new() });
    assert_eq!(next(&state, at(50)), NextStep::Wait { until: at(101) }, "no longer than its own clock");
    state.apply(at(50), &Event::Paused { why: crate::ledger::event::PauseCause::Interrupted });
    assert_eq!(state.seconds_at_work(at(2_000)), 50);
    state.apply(at(3_050), &Event::Resumed { renewed: false });
    assert_eq!(state.seconds_at_work(at(3_060)), 60);
    assert_eq!(next(&state, at(3_060)), NextStep::Wait { until: at(3_101) });
}

#[test]
fn a_pending_check_is_evaluated_again_without_running_the_agent() {
    let waited = |until| Event::Waited { what: "CI".into(), entries: Vec::new(), until: Some(at(until)) };
    let events = [began(1), ended(1, AgentEnd::Finished), waited(60)];
    let state = driven(AgentContext::Fresh, &events);
    assert_eq!(next(&state, at(10)), NextStep::Wait { until: at(60) });
    assert_eq!(next(&state, at(60)), NextStep::Judge { iteration: 1 });
    let again = driven(AgentContext::Fresh, &[&events[..], &[waited(90)]].concat());
    assert_eq!(next(&again, at(61)), NextStep::Wait { until: at(90) });
    assert_eq!(again.attempts, 0, "no attempt is counted");
    assert_eq!(again.drive.iterations, 1, "no iteration is used up");
}
