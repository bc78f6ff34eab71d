//! Loops that ship: what is done, waited for, and never done.

use super::tests::{at, facts, failing, passing};
use super::*;
use crate::model::preset;
use crate::model::ship::{CI_PASSED, ShipPlan, ShipSettings, ShipWait, Until};

fn plan(until: Until) -> ShipPlan {
    ShipPlan {
        until,
        settings: ShipSettings::default(),
        by_promise: false,
        branch: "ralph/x".into(),
        remote: "origin".into(),
        repository: "h/o/r".into(),
        git: None,
    }
}

fn began(until: Until, promise: Option<&str>) -> State {
    let facts = facts(Vec::new());
    let row = preset::of_drive(until);
    let goal = Goal {
        task: "x".into(),
        promise: promise.map(str::to_owned),
        list: None,
        archive: false,
        lang: None,
        ship: Some(Box::new(plan(until))),
        proof: None,
        accept: Vec::new(),
    };
    let mut state = State::default();
    state.apply(
        at(0),
        &Event::Began {
            subject: Subject::Driver,
            session: None,
            task: None,
            layout: facts.layout,
            preset: row.name.into(),
            definition: facts.definition.clone(),
            limits: limits(until),
            goal: Some(goal),
            prompt: None,
            drive: None,
            rewritten: Vec::new(),
        },
    );
    state
}

fn limits(until: Until) -> crate::model::limits::Limits {
    use crate::model::layout::Clocks;
    crate::model::limits::Limits::new(preset::of_drive(until), Clocks { stale_after: None, clock: None })
}

fn ship(check: Check, outcome: ShipOutcome) -> Finding {
    Finding::Ship { check, outcome }
}

fn shipping(mut findings: Vec<Finding>, more: Vec<Finding>) -> Facts {
    findings.extend(more);
    Facts {
        subject: Subject::Driver,
        preset: preset::of_drive(Until::Merged),
        limits: limits(Until::Merged),
        ..facts(findings)
    }
}

fn to_do(action: ShipAction) -> ShipOutcome {
    ShipOutcome::ToDo(action)
}

fn merge() -> ShipAction {
    ShipAction::Merge { number: 7, commit: "c1".into() }
}

fn commit() -> ShipAction {
    ShipAction::Commit { files: vec!["a".into()] }
}

fn ci_failed(text: &str) -> ShipOutcome {
    let mut report = super::tests::gates_of(failing()).reports[0].clone();
    report.excerpt = text.into();
    ShipOutcome::CiFailed { reports: vec![report], url: "u".into() }
}

#[test]
fn ralph_acts_only_on_what_it_would_call_verified() {
    let state = began(Until::Merged, None);
    let with = |findings: Vec<Finding>| shipping(findings, vec![ship(Check::PullRequest, to_do(commit()))]);
    assert_eq!(decide(&state, &with(passing())).decision, Decision::Act(commit()));
    assert!(matches!(decide(&state, &with(failing())).decision, Decision::Block { .. }), "a red gate");
    // A gate without a receipt, a changed definition, one accepted meanwhile, replaced files, a tree that failed before.
    let mut seen = super::tests::gates_of(passing());
    seen.receipts.clear();
    let no_receipt = decide(&state, &with(vec![Finding::Gates(seen)])).decision;
    assert!(matches!(no_receipt, Decision::Block { attempt: None, .. }), "{no_receipt:?}");
    for status in [DefinitionStatus::AcceptedSince, DefinitionStatus::Changed { difference: String::new() }] {
        let facts = Facts { definition_status: status, ..with(passing()) };
        assert!(!matches!(decide(&state, &facts).decision, Decision::Act(_)));
    }
    let mut seen = super::tests::gates_of(passing());
    seen.moved = vec!["a".into()];
    assert!(!matches!(decide(&state, &with(vec![Finding::Gates(seen)])).decision, Decision::Act(_)));
    let mut failed = state.clone();
    failed.failed_trees.push(super::tests::gates_of(passing()).tree);
    assert_eq!(decide(&failed, &with(passing())).decision, Decision::Gather, "a second look first");
    // Without a gate nothing is verified, so nothing is pushed or merged.
    let facts = shipping(Vec::new(), vec![ship(Check::Merge, to_do(merge()))]);
    let decision = decide(&state, &facts).decision;
    assert!(matches!(decision, Decision::Allow { verdict: Verdict::Claimed, .. }), "{decision:?}");
}

#[test]
fn a_push_and_a_merge_need_gates_that_ran_just_now() {
    let state = began(Until::Merged, None);
    let push = ShipAction::Push { branch: "b".into(), commit: "c1".into() };
    for (action, fresh) in [(push, true), (merge(), true), (commit(), false)] {
        let facts = shipping(passing(), vec![ship(Check::Merge, to_do(action.clone()))]);
        assert_eq!(decide(&state, &facts).decision, Decision::Act(action.clone()));
        let kept = Facts { gates_ran_now: false, ..facts };
        let expected = if fresh { Decision::Gather } else { Decision::Act(action) };
        assert_eq!(decide(&state, &kept).decision, expected);
    }
}

#[test]
fn waiting_counts_no_attempt_and_keeps_its_deadline() {
    let mut state = began(Until::Merged, None);
    let wait = ShipWait { step: "ci".into(), commit: "c1".into(), since: at(0), deadline: at(3_600) };
    let outcome = ShipOutcome::NotYet { what: "CI".into(), until: at(30), wait: wait.clone() };
    for round in 0..5 {
        let facts = shipping(passing(), vec![ship(Check::Ci, outcome.clone())]);
        let step = decide(&state, &facts);
        assert_eq!(step.decision, Decision::Wait { what: "CI".into(), until: Some(at(30)) });
        let began = step.events.iter().filter(|event| matches!(event, Event::ShipWaits(_))).count();
        assert_eq!(began, usize::from(round == 0), "the wait begins once");
        for event in &step.events {
            state.apply(at(round), event);
        }
        assert_eq!(state.attempts, 0);
        assert_eq!(state.ship.wait.as_ref(), Some(&wait));
    }
}

#[test]
fn the_same_ci_failure_again_and_again_is_stuck() {
    let mut state = began(Until::Merged, None);
    let judged = |state: &mut State, text: &str| {
        let facts = shipping(passing(), vec![ship(Check::Ci, ci_failed(text))]);
        // Each repair is another commit.
        let facts = Facts { head: Some(format!("c{}", state.attempts)), ..facts };
        let step = decide(state, &facts);
        for event in &step.events {
            state.apply(at(0), event);
        }
        step.decision
    };
    assert!(matches!(judged(&mut state, "error one"), Decision::Block { attempt: Some(1), .. }));
    assert!(
        matches!(judged(&mut state, "error two"), Decision::Block { attempt: Some(2), .. }),
        "a new failure"
    );
    for _ in 0..4 {
        assert!(matches!(judged(&mut state, "error one"), Decision::Block { .. }));
    }
    let end = judged(&mut state, "error two");
    let Decision::Allow { verdict: Verdict::Stuck, limit: Some(LimitHit::NoProgress { equal: 5 }), .. } = end
    else {
        panic!("{end:?}");
    };
}

#[test]
fn an_end_names_what_was_reached_and_a_promise_alone_reaches_nothing() {
    let reached = vec![
        ship(Check::PullRequest, ShipOutcome::Passed),
        ship(Check::Ci, ShipOutcome::Passed),
        ship(Check::Merge, ShipOutcome::Passed),
    ];
    let decision = decide(&began(Until::Merged, Some(CI_PASSED)), &shipping(passing(), reached)).decision;
    let Decision::Allow { verdict: Verdict::Verified, reason: Reason::Shipped { until, .. }, .. } = decision
    else {
        panic!("{decision:?}");
    };
    assert_eq!(until, Until::Merged);
    // The goal was set lower than the promise.
    let mut state = began(Until::Pr, Some(CI_PASSED));
    let decision =
        decide(&state, &shipping(passing(), vec![ship(Check::PullRequest, ShipOutcome::Passed)])).decision;
    assert!(matches!(decision, Decision::Allow { verdict: Verdict::Claimed, .. }), "{decision:?}");
    if let Some(goal) = &mut state.goal {
        goal.ship = None;
    }
    let decision = decide(&state, &shipping(passing(), Vec::new())).decision;
    assert!(matches!(decision, Decision::Allow { verdict: Verdict::Claimed, .. }), "{decision:?}");
}

#[test]
fn what_only_the_user_can_decide_and_what_cannot_be_told() {
    let state = began(Until::Merged, None);
    let user = ShipOutcome::NeedsUser { what: "closed".into(), next: "reopen it".into() };
    let decision = decide(&state, &shipping(passing(), vec![ship(Check::PullRequest, user)])).decision;
    assert!(matches!(decision, Decision::Allow { verdict: Verdict::NeedsHuman, .. }), "{decision:?}");
    let trouble = EvaluationError::Forge { what: "gh".into(), next: "log in".into() };
    let facts = shipping(passing(), vec![ship(Check::PullRequest, ShipOutcome::CannotTell(trouble))]);
    let decision = decide(&state, &facts).decision;
    assert!(matches!(decision, Decision::Block { attempt: None, .. }), "{decision:?}");
}
