//! The level of a stop whose gates pass: proof is looked for last, asked for once, and never replaces the gates.

use super::tests::{Loop, facts, failing, is_block, passing, verdict};
use super::*;
use crate::claims::honest_exit::AgentAnswers;
use crate::model::budget::Budget;
use crate::model::evidence::{ChangedFiles, GateEvidence};
use crate::model::layout::Clocks;
use crate::model::limits::{Limits, Origin};
use crate::model::preset;
use crate::model::undo::{GateWithoutChange, UndoSeen};

fn drive(attempts: u32) -> Facts {
    let limits = Limits::new(&preset::DRIVE, Clocks { stale_after: None, clock: None });
    let budget = Budget { attempts: Some(Attempts::AtMost(attempts)), ..Budget::default() };
    Facts {
        subject: Subject::Driver,
        preset: &preset::DRIVE,
        limits: limits.with(&budget, Origin::Flag),
        checks: vec![Check::Gates, Check::Proof],
        proof: Some(RequiredProof::Test),
        ..facts(passing())
    }
}

const SOURCE: ChangedFiles = ChangedFiles { sources: 1, tests: 0, settings: 0, texts: 0 };

fn seen(changes: ChangedFiles, undo: Option<UndoSeen>) -> EvidenceFacts {
    let gate = GateEvidence { gate: GateName::new("npm test"), at_start: None, tests: None };
    EvidenceFacts { changes: Some(changes), gates: vec![gate], undo, no_test: None }
}

fn red() -> Option<UndoSeen> {
    let gates = vec![GateWithoutChange { gate: GateName::new("npm test"), failing: Vec::new() }];
    Some(UndoSeen::Red { gates })
}

fn green() -> Option<UndoSeen> {
    Some(UndoSeen::Green { gates: vec![GateName::new("npm test")] })
}

fn with(facts: &Facts, evidence: EvidenceFacts) -> Facts {
    let findings = passing().into_iter().chain([Finding::Proof(evidence)]).collect();
    Facts { findings: Some(findings), ..facts.clone() }
}

fn reason(decision: &Decision) -> &'static str {
    match decision {
        Decision::Allow { reason, .. } | Decision::Block { reason, .. } => reason.code(),
        _ => "",
    }
}

#[test]
fn proof_is_looked_for_only_when_everything_else_passes() {
    assert_eq!(Loop::default().stop(&drive(3)), Decision::Prove);
    let red = Facts { findings: Some(failing()), ..drive(3) };
    assert!(is_block(&Loop::default().stop(&red)));
    let changed = DefinitionStatus::Changed { difference: String::new() };
    assert!(is_block(&Loop::default().stop(&Facts { definition_status: changed, ..drive(3) })));
}

#[test]
fn every_preset_with_gates_asks_what_they_show() {
    for preset in preset::ALL {
        let has = |check| preset.done_when.contains(&check);
        assert_eq!(has(Check::Gates), has(Check::Proof), "{}", preset.name);
        assert!(!has(Check::Proof) || preset.done_when.last() == Some(&Check::Proof), "{}", preset.name);
    }
}

#[test]
fn the_level_decides_the_verdict() {
    let table = [
        (seen(SOURCE, red()), Verdict::Verified, "all_gates_passed"),
        (seen(SOURCE, Some(UndoSeen::NotJudged { why: "?".into() })), Verdict::Passing, "task_not_shown"),
        (seen(SOURCE, None), Verdict::Passing, "all_gates_passed"),
        (seen(ChangedFiles { sources: 0, texts: 1, ..SOURCE }, green()), Verdict::Passing, "task_not_shown"),
        (seen(ChangedFiles::default(), red()), Verdict::Unchanged, "nothing_changed"),
    ];
    for (evidence, expected, code) in table {
        let decision = Loop::default().stop(&with(&drive(3), evidence.clone()));
        assert_eq!((verdict(&decision), reason(&decision)), (Some(expected), code), "{evidence:?}");
    }
}

#[test]
fn a_test_is_requested_once_and_only_if_an_attempt_is_left() {
    let passes = |most| with(&drive(most), seen(SOURCE, green()));
    let mut asked = Loop::default();
    let first = asked.stop(&passes(3));
    assert!(is_block(&first) && reason(&first) == "proof_missing", "{first:?}");
    assert_eq!(verdict(&asked.stop(&passes(3))), Some(Verdict::Passing));
    assert_eq!(verdict(&Loop::default().stop(&passes(1))), Some(Verdict::Passing), "no attempt is left");
    let told = EvidenceFacts { no_test: Some("only colours".into()), ..seen(SOURCE, green()) };
    assert_eq!(verdict(&Loop::default().stop(&with(&drive(3), told))), Some(Verdict::Passing));
    let elsewhere = Facts { proof: None, ..passes(3) };
    assert_eq!(verdict(&Loop::default().stop(&elsewhere)), Some(Verdict::Passing), "nothing was asked for");
}

#[test]
fn the_request_can_be_answered_by_a_test() {
    let mut asked = Loop::default();
    assert!(is_block(&asked.stop(&with(&drive(3), seen(SOURCE, green())))));
    assert_eq!(verdict(&asked.stop(&with(&drive(3), seen(SOURCE, red())))), Some(Verdict::Verified));
}

#[test]
fn what_shows_the_task_is_recorded_with_the_verdict() {
    let mut shown = Loop::default();
    shown.stop(&with(&drive(3), seen(SOURCE, red())));
    let last = shown.state.last.expect("judged");
    let gate = GateName::new("npm test");
    assert_eq!(last.shown, [ShownFact::FailsWithoutChange { gate, tests: Vec::new() }]);
}

#[test]
fn a_blocked_agent_ends_its_loop_before_any_gate_runs() {
    let answers = AgentAnswers { blocked: Some("the gate needs a database".into()), no_test: None };
    for findings in [None, Some(passing()), Some(failing())] {
        let stop = Facts { findings, answers: answers.clone(), ..drive(3) };
        let decision = Loop::default().stop(&stop);
        assert_eq!((verdict(&decision), reason(&decision)), (Some(Verdict::NeedsHuman), "agent_blocked"));
    }
}
