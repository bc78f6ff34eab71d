//! The laws as properties and tables of the pure step. Each test is named after its law.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::claims::honest_exit::AgentAnswers;
use crate::claims::state_file::Exported;
use crate::ledger::facts::ExportSeen;
use crate::model::budget::Budget;
use crate::model::gate::Gate;
use crate::model::gate::receipt::{ObservedPass, Receipt};
use crate::model::id::{AgentId, Digest, SessionId};
use crate::model::layout::Layout;
use crate::model::limits::{Limits, Origin, WithOrigin};
use crate::model::preset;

pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).expect("a time")
}

fn gate() -> Gate {
    Gate::sample("test", "npm test")
}

fn report(outcome: GateOutcome) -> GateReport {
    GateReport {
        gate: GateName::new("test"),
        run: "npm test".into(),
        outcome,
        advisory: false,
        took: Duration::from_secs(1),
        runs: 1,
        log: None,
        excerpt: "1 failing".into(),
        results: None,
        changed: Vec::new(),
    }
}

fn environment() -> Digest {
    Digest::of("PATH")
}

fn tree(name: &str) -> TreeHash {
    TreeHash::new(name)
}

#[expect(clippy::disallowed_methods, reason = "the tests stand in for the gate runner")]
fn receipt_on(name: &str) -> Receipt {
    let seen = ObservedPass {
        environment: environment(),
        tree: tree(name),
        whole_tree: tree(name),
        at: at(0),
        took: Duration::from_secs(1),
        runs: 1,
        log: Digest::of(""),
    };
    Receipt::witness(&gate(), seen)
}

fn gates_seen(outcome: GateOutcome, receipts: Vec<Receipt>) -> Vec<Finding> {
    vec![Finding::Gates(GatesSeen {
        reports: vec![report(outcome)],
        receipts,
        required: vec![(gate(), tree("now"))],
        environment: Some(environment()),
        tree: tree("now"),
        unsettled: Vec::new(),
        moved: Vec::new(),
    })]
}

pub(super) fn gates_of(findings: Vec<Finding>) -> GatesSeen {
    let gates = findings.into_iter().find_map(|finding| match finding {
        Finding::Gates(seen) => Some(seen),
        _ => None,
    });
    gates.expect("the gates were run")
}

pub(super) fn passing() -> Vec<Finding> {
    gates_seen(GateOutcome::Passed, vec![receipt_on("now")])
}

/// On a different tree than [`passing`], because a pass on a failed tree proves nothing.
pub(super) fn failing() -> Vec<Finding> {
    failing_on("broken")
}

fn failing_on(name: &str) -> Vec<Finding> {
    let seen = gates_of(gates_seen(GateOutcome::Failed { code: 1 }, Vec::new()));
    vec![Finding::Gates(GatesSeen { tree: tree(name), ..seen })]
}

/// A failure with a different text.
pub(super) fn failing_with(text: &str) -> Vec<Finding> {
    let mut seen = gates_of(failing());
    seen.reports[0].excerpt = text.into();
    vec![Finding::Gates(seen)]
}

fn trouble() -> Vec<Finding> {
    gates_seen(GateOutcome::CouldNotStart { why: "sh: nosuch: not found".into() }, Vec::new())
}

pub(super) fn facts(findings: Vec<Finding>) -> Facts {
    Facts {
        process: 42,
        rewritten: Vec::new(),
        failed_elsewhere: Vec::new(),
        is_second_look: false,
        gates_ran_now: true,
        at_start: Vec::new(),
        proof: None,
        answers: AgentAnswers::default(),
        arrived: at(0),
        now: at(0),
        subject: Subject::SubAgent { name: "check".into(), id: AgentId::new("a1") },
        session: Some(SessionId::new("s1")),
        task: None,
        layout: Layout::Native,
        preset: &preset::CHECK,
        limits: Limits::new(&preset::CHECK, Layout::Native.data().clocks),
        definition: Some(Digest::of("verify: [npm test]")),
        definition_status: DefinitionStatus::Accepted,
        checks: vec![Check::Gates],
        export: ExportSeen::default(),
        head: None,
        session_stop: None,
        findings: Some(findings),
    }
}

/// A loop in memory, without ledger files.
#[derive(Default)]
pub(super) struct Loop {
    pub(super) state: State,
    pub(super) history: Vec<(Timestamp, Event)>,
}

impl Loop {
    pub(super) fn take(&mut self, event: Event) {
        self.state.apply(at(0), &event);
        self.history.push((at(0), event));
    }

    pub(super) fn happen(&mut self, transition: &crate::ledger::transition::Transition) {
        for event in crate::ledger::transition::apply(&self.state, transition) {
            self.take(event);
        }
    }

    pub(super) fn stop(&mut self, facts: &Facts) -> Decision {
        let step = decide(&self.state, facts);
        for event in step.events {
            self.state.apply(facts.now, &event);
            self.history.push((facts.now, event));
        }
        step.decision
    }

    pub(super) fn stops(&mut self, facts: &Facts, count: usize) -> Vec<Decision> {
        (0..count).map(|_| self.stop(facts)).collect()
    }
}

pub(super) fn is_block(decision: &Decision) -> bool {
    matches!(decision, Decision::Block { .. })
}

pub(super) fn verdict(decision: &Decision) -> Option<Verdict> {
    match decision {
        Decision::Allow { verdict, .. } => Some(*verdict),
        _ => None,
    }
}

#[test]
fn law_1_verify_then_decide_a_pass_on_the_last_attempt_is_a_pass() {
    let mut check = Loop::default();
    assert!(check.stops(&facts(failing()), 4).iter().all(is_block));
    assert_eq!(verdict(&check.stop(&facts(passing()))), Some(Verdict::Verified));
}

#[test]
fn law_1_exactly_n_verifications_and_n_minus_one_blocks() {
    for preset in preset::ALL {
        let Attempts::AtMost(most) = preset.attempts else { continue };
        let mut check = Loop::default();
        let mut stop = facts(failing());
        stop.limits = Limits::new(preset, Layout::Native.data().clocks);
        // Without its other limits.
        stop.limits.no_progress = WithOrigin::default(None);
        let decisions = check.stops(&stop, most as usize);
        assert_eq!(
            decisions.iter().filter(|decision| is_block(decision)).count() as u32,
            most - 1,
            "{}",
            preset.name
        );
        assert!(verdict(&decisions[most as usize - 1]).is_some_and(|verdict| verdict != Verdict::Verified));
        assert_eq!(check.state.judged_in_all, u64::from(most));
    }
}

#[test]
fn unlimited_attempts_are_still_bounded_by_equal_stops() {
    let unlimited = Budget { attempts: Some(Attempts::Unlimited), ..Budget::default() };
    let mut stop = facts(failing());
    stop.limits = stop.limits.with(&unlimited, Origin::RepoFile);
    let mut check = Loop::default();
    assert!(check.stops(&stop, 2).iter().all(is_block));
    assert_eq!(verdict(&check.stop(&stop)), Some(Verdict::Stuck));

    let mut check = Loop::default();
    for number in 0..40 {
        let mut seen = gates_of(failing());
        seen.tree = tree(&format!("tree {number}"));
        stop.findings = Some(vec![Finding::Gates(seen)]);
        assert!(is_block(&check.stop(&stop)), "work goes on");
    }
}

#[test]
fn repeated_task_changes_do_not_restart_the_count_every_time() {
    let mut check = Loop::default();
    let holds = (0..40)
        .take_while(|number| {
            let mut stop = facts(failing());
            stop.task = Some(format!("task {}", number % 2));
            is_block(&check.stop(&stop))
        })
        .count();
    assert!(holds < 10, "{holds}");
}

#[test]
fn law_1_checks_run_before_any_limit_applies() {
    let mut check = Loop::default();
    check.stops(&facts(failing()), 4);
    let mut unseen = facts(failing());
    unseen.findings = None;
    assert_eq!(check.stop(&unseen), Decision::Gather);
}

#[test]
fn law_2_markers_end_a_loop_as_claimed_and_never_as_verified() {
    let mut stop = facts(vec![Finding::Markers { missing: Vec::new() }]);
    stop.checks = vec![Check::MarkersWithoutGates];
    assert_eq!(verdict(&Loop::default().stop(&stop)), Some(Verdict::Claimed));
}

#[test]
fn law_3_a_pass_without_a_receipt_is_never_verified() {
    for receipts in [Vec::new(), vec![receipt_on("another tree")]] {
        let decision = Loop::default().stop(&facts(gates_seen(GateOutcome::Passed, receipts)));
        assert!(matches!(
            decision,
            Decision::Block {
                attempt: None,
                reason: Reason::NotEvaluated { trouble: EvaluationError::NoReceipt { .. } }
            }
        ));
    }
}

#[test]
fn law_4_a_paused_loop_never_blocks() {
    let mut check = Loop::default();
    check.stops(&facts(trouble()), 3);
    assert!(check.state.paused().is_some());
    assert_eq!(check.stop(&facts(failing())), Decision::Ignore(IgnoredBecause::Paused));
}

#[test]
fn law_4_a_changed_definition_is_counted_against_the_budget_and_ends_tampered() {
    let mut check = Loop::default();
    let mut stop = facts(passing());
    stop.definition_status = DefinitionStatus::Changed { difference: "-npm test\n+true".into() };
    let decisions = check.stops(&stop, 5);
    assert!(decisions[..4].iter().all(is_block), "{decisions:?}");
    assert_eq!(verdict(&decisions[4]), Some(Verdict::Tampered));
}

#[test]
fn law_4_revoking_trust_does_not_unblock_and_runs_nothing() {
    let mut check = Loop::default();
    check.stop(&facts(failing()));
    let mut stop = facts(failing());
    stop.definition_status = DefinitionStatus::Revoked;
    stop.findings = None;
    let decisions = check.stops(&stop, 4);
    assert!(decisions[..3].iter().all(is_block), "{decisions:?}");
    assert_eq!(verdict(&decisions[3]), Some(Verdict::Tampered));
}

#[test]
fn law_5_an_evaluation_error_blocks_without_an_attempt_and_the_third_pauses() {
    let mut check = Loop::default();
    let decisions = check.stops(&facts(trouble()), 3);
    assert!(matches!(decisions[0], Decision::Block { attempt: None, .. }));
    assert!(matches!(decisions[1], Decision::Block { attempt: None, .. }));
    assert_eq!(verdict(&decisions[2]), Some(Verdict::Paused));
    assert_eq!(check.state.attempts, 0);
}

#[test]
fn law_5_a_judged_stop_in_between_starts_the_count_of_errors_again() {
    let mut check = Loop::default();
    check.stops(&facts(trouble()), 2);
    check.stop(&facts(failing()));
    assert!(check.stops(&facts(trouble()), 2).iter().all(is_block));
}

#[test]
fn law_6_waiting_costs_no_attempt_and_no_error() {
    let mut check = Loop::default();
    check.stop(&facts(failing()));
    let before = (check.state.attempts, check.state.errors());
    for _ in 0..50 {
        let waiting = vec![Finding::NotYet { check: Check::Gates, what: "CI".into(), until: None }];
        assert!(matches!(check.stop(&facts(waiting)), Decision::Wait { .. }));
    }
    assert_eq!((check.state.attempts, check.state.errors()), before);
}

#[test]
fn law_7_a_tree_that_never_settles_blocks_and_is_named() {
    let mut seen = gates_of(passing());
    seen.unsettled = vec!["coverage.xml".into()];
    let decision = Loop::default().stop(&facts(vec![Finding::Gates(seen)]));
    assert!(
        matches!(decision, Decision::Block { reason: Reason::TreeNeverSettled { .. }, .. }),
        "{decision:?}"
    );
}

#[test]
fn law_11_nothing_to_judge_leaves_no_trace() {
    let mut stop = facts(failing());
    stop.checks = Vec::new();
    let step = decide(&State::default(), &stop);
    assert_eq!(
        step,
        DecisionStep { events: Vec::new(), decision: Decision::Ignore(IgnoredBecause::NothingToBlock) }
    );
}

#[test]
fn law_12_presets_are_rows_of_the_same_step() {
    for preset in preset::ALL {
        let mut stop = facts(failing());
        stop.limits = Limits::new(preset, Layout::Native.data().clocks);
        stop.limits.attempts = WithOrigin::default(Attempts::AtMost(2));
        let decisions = Loop::default().stops(&stop, 2);
        let expected = match preset.on_exhausted {
            OnExhausted::Release => Verdict::Released,
            OnExhausted::Pause => Verdict::Paused,
            OnExhausted::Fail => Verdict::Failed,
        };
        assert_eq!(verdict(&decisions[1]), Some(expected), "{}", preset.name);
    }
}

#[test]
fn an_advisory_gate_never_blocks() {
    let mut seen = gates_of(passing());
    let mut advisory = report(GateOutcome::Failed { code: 1 });
    advisory.advisory = true;
    seen.reports.push(advisory);
    assert_eq!(verdict(&Loop::default().stop(&facts(vec![Finding::Gates(seen)]))), Some(Verdict::Verified));
}

#[test]
fn a_failing_gate_decides_even_if_another_could_not_start() {
    let mut seen = gates_of(failing());
    seen.reports.push(report(GateOutcome::CouldNotStart { why: String::new() }));
    assert!(matches!(
        Loop::default().stop(&facts(vec![Finding::Gates(seen)])),
        Decision::Block { attempt: Some(1), .. }
    ));
}

#[test]
fn a_pass_a_release_and_a_change_of_task_start_the_count_again() {
    let mut check = Loop::default();
    check.stops(&facts(failing()), 2);
    check.stop(&facts(passing()));
    assert!(matches!(check.stop(&facts(failing())), Decision::Block { attempt: Some(1), .. }));

    let mut check = Loop::default();
    check.stops(&facts(failing()), 5);
    assert!(matches!(check.stop(&facts(failing())), Decision::Block { attempt: Some(1), .. }));

    let mut check = Loop::default();
    check.stops(&facts(failing()), 3);
    let mut other_task = facts(failing());
    other_task.task = Some("another".into());
    assert!(matches!(check.stop(&other_task), Decision::Block { attempt: Some(1), .. }));
}

fn trellis(seconds: i64, findings: Vec<Finding>) -> Facts {
    let mut stop = facts(findings);
    stop.layout = Layout::Trellis;
    stop.limits = Limits::new(&preset::CHECK, Layout::Trellis.data().clocks);
    stop.task = Some("t".into());
    (stop.arrived, stop.now) = (at(seconds), at(seconds));
    stop
}

fn ideal(seconds: i64, findings: Vec<Finding>) -> Facts {
    let mut stop = trellis(seconds, findings);
    stop.layout = Layout::Ideal;
    stop.limits = Limits::new(&preset::CHECK, Layout::Ideal.data().clocks);
    stop
}

#[test]
fn trellis_a_state_idle_for_half_an_hour_is_a_fresh_start() {
    let mut check = Loop::default();
    check.stop(&trellis(0, failing()));
    check.stop(&trellis(1700, failing()));
    // 50 minutes after the start, but 20 after the last activity.
    assert!(matches!(check.stop(&trellis(3000, failing())), Decision::Block { attempt: Some(3), .. }));
    assert!(matches!(check.stop(&trellis(3000 + 1801, failing())), Decision::Block { attempt: Some(1), .. }));
}

#[test]
fn gates_that_take_longer_than_the_staleness_do_not_restart_the_count() {
    let mut check = Loop::default();
    check.stop(&trellis(0, failing()));
    let mut slow = trellis(60, failing());
    slow.now = at(60 + 4000);
    assert!(matches!(check.stop(&slow), Decision::Block { attempt: Some(2), .. }));
}

#[test]
fn ideal_half_an_hour_after_the_start_allows_the_stop_only_after_failing_again() {
    let mut check = Loop::default();
    check.stop(&ideal(0, failing()));
    let mut unseen = ideal(1900, failing());
    unseen.findings = None;
    assert_eq!(check.stop(&unseen), Decision::Gather);
    let decision = check.stop(&ideal(1900, failing()));
    assert!(
        matches!(
            decision,
            Decision::Allow { verdict: Verdict::Released, limit: Some(LimitHit::Clock { .. }), .. }
        ),
        "{decision:?}"
    );

    let mut check = Loop::default();
    check.stop(&ideal(0, failing()));
    assert_eq!(verdict(&check.stop(&ideal(1900, passing()))), Some(Verdict::Verified));
}

#[test]
fn an_iteration_that_could_not_be_evaluated_still_counts_as_run() {
    let mut driven = facts(trouble());
    driven.preset = &preset::DRIVE;
    driven.limits = Limits::new(&preset::DRIVE, Layout::Native.data().clocks);
    driven.limits.attempts = WithOrigin::default(Attempts::AtMost(2));
    let iteration = |check: &mut Loop, iteration, findings| {
        check.take(Event::IterationBegan { iteration, fresh: true });
        check.stop(&Facts { findings: Some(findings), ..driven.clone() })
    };
    let mut check = Loop::default();
    check.stop(&Facts { findings: None, ..driven.clone() });
    assert!(matches!(iteration(&mut check, 1, trouble()), Decision::Block { attempt: None, .. }));
    let mut other = Loop { state: check.state.clone(), history: check.history.clone() };
    let last = iteration(&mut check, 2, failing());
    assert_eq!(verdict(&last), Some(Verdict::Failed), "{last:?}");
    let last = iteration(&mut other, 2, trouble());
    assert_eq!(verdict(&last), Some(Verdict::Paused), "{last:?}");
}

#[test]
fn ideal_max_iterations_is_checked_before_the_clock() {
    let mut check = Loop::default();
    for second in 0..4 {
        check.stop(&ideal(second, failing()));
    }
    let decision = check.stop(&ideal(1900, failing()));
    assert!(
        matches!(decision, Decision::Allow { limit: Some(LimitHit::Attempts { most: 5 }), .. }),
        "{decision:?}"
    );
}

#[test]
fn a_clock_put_back_ends_nothing_and_restarts_nothing() {
    let mut check = Loop::default();
    check.stop(&ideal(0, failing()));
    assert!(matches!(check.stop(&ideal(-100_000, failing())), Decision::Block { attempt: Some(2), .. }));
}

#[test]
fn another_tools_state_is_adopted_while_it_is_fresh_and_of_this_task() {
    let with_file = |seconds_ago: i64, task: &str| {
        let mut stop = trellis(0, failing());
        let found = Exported { task: Some(task.into()), iteration: 3, started_at: at(-seconds_ago) };
        stop.export.file = ExportFile::Foreign(found);
        stop
    };
    let first = |stop: &Facts| Loop::default().stop(stop);
    assert!(matches!(first(&with_file(60, "t")), Decision::Block { attempt: Some(4), .. }));
    assert!(matches!(first(&with_file(60, "other")), Decision::Block { attempt: Some(1), .. }));
    assert!(matches!(first(&with_file(1801, "t")), Decision::Block { attempt: Some(1), .. }));
}

#[test]
fn deleting_the_export_starts_again_once_per_agent() {
    let mut check = Loop::default();
    check.stops(&trellis(0, failing()), 3);
    let mut deleted = trellis(1, failing());
    deleted.export.deletions = 1;
    assert!(matches!(check.stop(&deleted), Decision::Block { attempt: Some(1), .. }));
    assert!(matches!(check.stop(&deleted), Decision::Block { attempt: Some(2), .. }));
    deleted.export.deletions = 2;
    assert!(matches!(check.stop(&deleted), Decision::Block { attempt: Some(3), .. }));
    let noted = |(_, event): &(Timestamp, Event)| {
        matches!(event, Event::ExportNoted { what: ExportNote::DeletedAgain { .. } })
    };
    assert_eq!(check.history.iter().filter(|entry| noted(entry)).count(), 1);
}

#[test]
fn an_edited_export_is_noted_and_the_ledger_wins() {
    let mut check = Loop::default();
    check.stops(&trellis(0, failing()), 2);
    let mut edited = trellis(1, failing());
    edited.export.file = ExportFile::Edited { found: "iteration 0".into() };
    edited.findings = None;
    assert_eq!(check.stop(&edited), Decision::Gather);
    edited.findings = Some(failing());
    assert!(matches!(check.stop(&edited), Decision::Block { attempt: Some(3), .. }));
    let notes = check.history.iter().filter(|(_, event)| matches!(event, Event::ExportNoted { .. })).count();
    assert_eq!(notes, 1);
}

/// Kinds of stops for the property tests below.
#[derive(Clone, Debug)]
enum PlayedStop {
    Pass,
    PassOnAnotherTree,
    Fail,
    Trouble,
    NotYet,
    Unsettled,
    MarkersAll,
    MarkersMissing,
    Deleted,
    TimePasses(i64),
    Changed,
    Revoked,
}

fn any_stop() -> impl Strategy<Value = PlayedStop> {
    prop_oneof![
        1 => Just(PlayedStop::Pass),
        1 => Just(PlayedStop::PassOnAnotherTree),
        4 => Just(PlayedStop::Fail),
        2 => Just(PlayedStop::Trouble),
        1 => Just(PlayedStop::NotYet),
        1 => Just(PlayedStop::Unsettled),
        1 => Just(PlayedStop::MarkersAll),
        1 => Just(PlayedStop::MarkersMissing),
        1 => Just(PlayedStop::Deleted),
        1 => (-4000i64..4000).prop_map(PlayedStop::TimePasses),
        1 => Just(PlayedStop::Changed),
        1 => Just(PlayedStop::Revoked),
    ]
}

/// Plays a sequence of stops and checks the invariants after each.
fn play(layout: Layout, story: &[PlayedStop]) -> Loop {
    let mut check = Loop::default();
    let (mut seconds, mut deletions) = (0, 0);
    let mut consecutive_blocks = 0;
    for what in story {
        let mut stop = facts(failing());
        stop.layout = layout;
        stop.limits = Limits::new(&preset::CHECK, layout.data().clocks);
        match what {
            PlayedStop::Pass => stop.findings = Some(passing()),
            PlayedStop::PassOnAnotherTree => {
                stop.findings = Some(gates_seen(GateOutcome::Passed, vec![receipt_on("then")]));
            }
            PlayedStop::Fail => {}
            PlayedStop::Trouble => stop.findings = Some(trouble()),
            PlayedStop::NotYet => {
                stop.findings =
                    Some(vec![Finding::NotYet { check: Check::Gates, what: "CI".into(), until: None }]);
            }
            PlayedStop::Unsettled => {
                let mut seen = gates_of(passing());
                seen.unsettled = vec!["x".into()];
                stop.findings = Some(vec![Finding::Gates(seen)]);
            }
            PlayedStop::MarkersAll => stop.findings = Some(vec![Finding::Markers { missing: Vec::new() }]),
            PlayedStop::MarkersMissing => {
                stop.findings = Some(vec![Finding::Markers { missing: vec!["A_FINISH".into()] }]);
            }
            PlayedStop::Deleted => deletions += 1,
            PlayedStop::TimePasses(length) => seconds += length,
            PlayedStop::Changed => {
                stop.findings = Some(passing());
                stop.definition_status = DefinitionStatus::Changed { difference: String::new() };
            }
            PlayedStop::Revoked => stop.definition_status = DefinitionStatus::Revoked,
        }
        (stop.arrived, stop.now) = (at(seconds), at(seconds));
        stop.export.deletions = deletions;
        let paused = check.state.paused().is_some();
        let decision = check.stop(&stop);
        assert_eq!(
            paused,
            decision == Decision::Ignore(IgnoredBecause::Paused),
            "laws 4: a paused loop never blocks"
        );
        if verdict(&decision) == Some(Verdict::Verified) {
            assert!(
                matches!(what, PlayedStop::Pass),
                "laws 2, 3, 7: verified only on a receipt for this tree: {what:?}"
            );
        }
        if matches!(what, PlayedStop::Pass) && !paused {
            assert_eq!(verdict(&decision), Some(Verdict::Verified), "law 1: a pass is a pass at any attempt");
        }
        consecutive_blocks = if is_block(&decision) { consecutive_blocks + 1 } else { 0 };
        // 4 blocks and, before each and after the last, at most 2 stops that could not be evaluated; twice for one
        // deletion and any number of times for a stale state.
        let stale = story.iter().filter(|what| matches!(what, PlayedStop::TimePasses(_))).count();
        assert!(consecutive_blocks <= 14 * (2 + stale), "law 4: blocking is bounded");
    }
    check
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn laws_1_to_7_hold_in_every_sequence(story in proptest::collection::vec(any_stop(), 0..60)) {
        for layout in Layout::ALL {
            play(layout, &story);
        }
    }

    #[test]
    fn law_9_replaying_the_ledger_gives_the_state(story in proptest::collection::vec(any_stop(), 0..60)) {
        let check = play(Layout::Trellis, &story);
        let replayed = State::fold(check.history.iter().map(|(at, event)| (*at, event)));
        prop_assert_eq!(replayed, check.state);
    }

    #[test]
    fn events_survive_being_written_down(story in proptest::collection::vec(any_stop(), 0..30)) {
        for (_, event) in play(Layout::Ideal, &story).history {
            let text = serde_json::to_string(&event).expect("JSON");
            prop_assert_eq!(serde_json::from_str::<Event>(&text).expect("our own words"), event);
        }
    }
}

/// The same findings from a second run.
fn second_look(findings: Vec<Finding>) -> Facts {
    Facts { is_second_look: true, ..facts(findings) }
}

#[test]
fn a_pass_on_a_failed_tree_is_repeated_and_verifies_nothing() {
    for (preset, ends_as) in [
        (&preset::CHECK, Verdict::Released),
        (&preset::SESSION, Verdict::Paused),
        (&preset::DRIVE, Verdict::Failed),
    ] {
        let with = |facts: Facts| Facts {
            preset,
            limits: Limits::new(preset, crate::model::layout::Clocks { stale_after: None, clock: None }),
            ..facts
        };
        let mut check = Loop::default();
        assert!(is_block(&check.stop(&with(facts(failing_on("now"))))));
        assert_eq!(check.stop(&with(facts(passing()))), Decision::Gather);
        let reason = Reason::PassedAfterFailing;
        let allowed = Decision::Allow { verdict: ends_as, attempt: 1, reason, limit: None };
        assert_eq!(check.stop(&with(second_look(passing()))), allowed, "no attempt is used");
        // Failing again the second time is an ordinary failure.
        let mut check = Loop::default();
        assert!(is_block(&check.stop(&with(facts(failing_on("now"))))));
        assert!(is_block(&check.stop(&with(second_look(failing_on("now"))))));
    }
    // It failed in another loop of the session.
    let elsewhere = Facts { failed_elsewhere: vec![tree("now")], ..facts(passing()) };
    assert_eq!(Loop::default().stop(&elsewhere), Decision::Gather);
    // A plain run reports the current results.
    let plain = |findings| Facts { subject: Subject::Plain, ..facts(findings) };
    let mut look = Loop::default();
    look.stop(&plain(failing_on("now")));
    assert_eq!(verdict(&look.stop(&plain(passing()))), Some(Verdict::Verified));
}

#[test]
fn files_replaced_while_the_gates_ran_verify_nothing() {
    let mut seen = gates_of(passing());
    seen.moved = vec!["test.sh".into()];
    let decision = Loop::default().stop(&facts(vec![Finding::Gates(seen)]));
    let reason = Reason::FilesReplaced { files: vec!["test.sh".into()] };
    assert_eq!(decision, Decision::Allow { verdict: Verdict::Released, attempt: 0, reason, limit: None });
}

#[test]
fn gates_accepted_after_the_beginning_need_review() {
    let since = |findings| Facts { definition_status: DefinitionStatus::AcceptedSince, ..facts(findings) };
    let mut check = Loop::default();
    assert!(is_block(&check.stop(&since(failing()))));
    assert_eq!(verdict(&check.stop(&since(passing()))), Some(Verdict::NeedsHuman));
}

#[test]
fn gates_that_exceed_the_deadline_allow_the_stop_without_an_attempt() {
    let decision = Loop::default().stop(&facts(gates_seen(GateOutcome::DeadlineReached, Vec::new())));
    let reason = Reason::DeadlineReached { gates: vec![GateName::new("test")] };
    assert_eq!(decision, Decision::Allow { verdict: Verdict::Released, attempt: 0, reason, limit: None });
}

#[test]
fn a_plain_run_is_judged_independent_of_earlier_runs() {
    let plain = |findings| Facts { subject: Subject::Plain, session: None, ..facts(findings) };
    let paused = |why| Event::Paused { why };
    let cancelled = Event::Cancelled { why: crate::ledger::event::CancelCause::Command };
    for event in [paused(PauseCause::Command), paused(PauseCause::Errors), cancelled] {
        let mut looks = Loop::default();
        assert!(is_block(&looks.stop(&plain(failing()))));
        looks.take(event.clone());
        assert!(is_block(&looks.stop(&plain(failing()))), "{event:?}");
        looks.take(event.clone());
        assert_eq!(verdict(&looks.stop(&plain(passing()))), Some(Verdict::Verified), "{event:?}");
    }
}
