use super::*;

fn pull_request(state: PullRequestState) -> PullRequest {
    PullRequest {
        number: 7,
        url: "https://forge.example/o/r/pull/7".into(),
        state,
        head: "c1".into(),
        base: "main".into(),
        is_draft: false,
        merge_state: MergeState::Clean,
    }
}

fn run(status: &str, conclusion: &str) -> CiState {
    CiState::of_run(status, Some(conclusion).filter(|word| !word.is_empty()))
}

fn seen(states: &[PullRequestState], checks: Vec<CiState>, starting: &[&str]) -> ForgeSeen {
    let check = |(at, state): (usize, CiState)| CiCheck {
        name: format!("check {at}"),
        state,
        url: None,
        job: None,
        about: String::new(),
    };
    ForgeSeen {
        default_branch: "main".into(),
        pull_requests: states.iter().map(|state| pull_request(*state)).collect(),
        checks: checks.into_iter().enumerate().map(check).collect(),
        starting: starting.iter().map(|name| (*name).to_owned()).collect(),
    }
}

#[test]
fn the_phase_of_every_state() {
    use PullRequestState::{Closed, Merged, Open};
    use ShipPhase::{Merged as Done, P0, P1, P2, Pending, Unknown};
    let (good, bad) = (|| run("COMPLETED", "SUCCESS"), || run("COMPLETED", "FAILURE"));
    let waits = || run("IN_PROGRESS", "");
    type Row = (&'static [PullRequestState], Vec<CiState>, &'static [&'static str], bool, ShipPhase);
    let table: Vec<Row> = vec![
        (&[], vec![], &[], false, P0),
        (&[], vec![good()], &[], false, P0),
        (&[Closed], vec![], &[], false, P0),
        (&[Closed], vec![good()], &[], false, P0),
        (&[Merged], vec![], &[], false, Done),
        (&[Merged], vec![bad()], &[], false, Done),
        (&[Merged, Closed], vec![], &[], false, Done),
        (&[Closed, Merged], vec![], &[], false, P0),
        (&[Open, Merged], vec![good()], &[], false, P2),
        (&[Merged, Open], vec![good()], &[], false, P2),
        (&[Open], vec![], &[], false, Pending),
        (&[Open], vec![], &[], true, P2),
        (&[Open], vec![], &["CI"], true, Pending),
        (&[Open], vec![good()], &[], false, P2),
        (&[Open], vec![good(), good()], &[], false, P2),
        (&[Open], vec![good()], &["CI"], false, Pending),
        (&[Open], vec![bad()], &[], false, P1),
        (&[Open], vec![good(), bad()], &[], false, P1),
        (&[Open], vec![good(), bad(), waits()], &[], false, P1),
        (&[Open], vec![good(), waits()], &[], false, Pending),
        (&[Open], vec![waits()], &[], false, Pending),
        (&[Open], vec![run("QUEUED", "")], &[], false, Pending),
        (&[Open], vec![run("COMPLETED", "")], &[], false, Pending),
        (&[Open], vec![run("WAITING", "SUCCESS")], &[], false, Pending),
        (&[Open], vec![good(), run("COMPLETED", "SKIPPED")], &[], false, P2),
        (&[Open], vec![good(), run("COMPLETED", "NEUTRAL")], &[], false, P2),
        (&[Open], vec![good(), run("COMPLETED", "CANCELLED")], &[], false, P1),
        (&[Open], vec![good(), run("COMPLETED", "TIMED_OUT")], &[], false, P1),
        (&[Open], vec![run("COMPLETED", "ACTION_REQUIRED")], &[], false, P1),
        (&[Open], vec![run("COMPLETED", "STARTUP_FAILURE")], &[], false, P1),
        (&[Open], vec![CiState::of_status("SUCCESS")], &[], false, P2),
        (&[Open], vec![good(), CiState::of_status("PENDING")], &[], false, Pending),
        (&[Open], vec![good(), CiState::of_status("EXPECTED")], &[], false, Pending),
        (&[Open], vec![good(), CiState::of_status("ERROR")], &[], false, P1),
    ];
    for (states, checks, starting, no_ci, phase) in table {
        let seen = seen(states, checks, starting);
        assert_eq!(ShipPhase::of(Some(&seen), no_ci), phase, "{seen:?}");
    }
    assert_eq!(ShipPhase::of(None, false), Unknown, "a failing forge is never `p0`");
    assert_eq!(ShipPhase::of(None, true), Unknown);
}

#[test]
fn every_phase_is_found_by_its_name() {
    for phase in ShipPhase::ALL {
        assert_eq!(ShipPhase::named(phase.code()), Some(phase));
    }
    assert_eq!(ShipPhase::named(" P1 "), Some(ShipPhase::P1));
    assert_eq!(ShipPhase::named("p3"), None);
}

#[test]
fn a_promise_implies_its_goal() {
    assert_eq!(Until::implied_by("QUALITY_GATE_PASSED"), Some(Until::Pr));
    assert_eq!(Until::implied_by("CI_PASSED"), Some(Until::Merged));
    assert_eq!(Until::implied_by("DONE"), None);
    for until in Until::ALL {
        assert_eq!(until.code().parse(), Ok(until));
    }
    assert!("main".parse::<Until>().is_err());
}
