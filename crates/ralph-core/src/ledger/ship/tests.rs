use super::*;
use crate::model::ship::{CiState, ShipSettings, Until};

fn plan() -> ShipPlan {
    ShipPlan {
        until: Until::Merged,
        settings: ShipSettings::default(),
        by_promise: false,
        branch: "ralph/x".into(),
        remote: "origin".into(),
        repository: "github.com/o/r".into(),
        git: None,
    }
}

fn pull(number: u64, state: PullRequestState, head: &str) -> PullRequest {
    PullRequest {
        number,
        url: format!("https://github.com/o/r/pull/{number}"),
        state,
        head: head.into(),
        base: "main".into(),
        is_draft: false,
        merge_state: MergeState::Clean,
    }
}

fn checkout(branch: &str) -> CheckoutSeen {
    CheckoutSeen {
        branch: Some(branch.into()).filter(|branch: &String| !branch.is_empty()),
        head: Some("c1".into()),
        uncommitted: Vec::new(),
        remote: "origin".into(),
        repository: "github.com/o/r".into(),
    }
}

fn forge(pull_requests: Vec<PullRequest>) -> ForgeSeen {
    ForgeSeen { default_branch: "main".into(), pull_requests, ..ForgeSeen::default() }
}

/// One scene, and a word for each outcome.
struct Scene {
    plan: ShipPlan,
    by: ShippedBy,
    checkout: CheckoutSeen,
    forge: ForgeSeen,
    state: ShipState,
    now: i64,
}

impl Scene {
    fn new(by: ShippedBy, branch: &str, pulls: Vec<PullRequest>) -> Self {
        let (plan, state) = (plan(), ShipState::default());
        Self { plan, by, checkout: checkout(branch), forge: forge(pulls), state, now: 1_000 }
    }

    fn view(&self) -> ShipView<'_> {
        ShipView {
            plan: &self.plan,
            by: self.by,
            checkout: &self.checkout,
            forge: &self.forge,
            state: &self.state,
            title: "x",
            has_gates: true,
            now: Timestamp::from_second(self.now).expect("a time"),
        }
    }
}

fn word(outcome: &ShipOutcome) -> &'static str {
    match outcome {
        ShipOutcome::Passed => "passed",
        ShipOutcome::Unmet { .. } => "unmet",
        ShipOutcome::CiFailed { .. } => "ci failed",
        ShipOutcome::ToDo(ShipAction::SwitchBranch { .. }) => "switch",
        ShipOutcome::ToDo(ShipAction::Commit { .. }) => "commit",
        ShipOutcome::ToDo(ShipAction::Push { .. }) => "push",
        ShipOutcome::ToDo(ShipAction::OpenPullRequest { .. }) => "open",
        ShipOutcome::ToDo(ShipAction::Merge { .. }) => "merge",
        ShipOutcome::NotYet { .. } => "wait",
        ShipOutcome::NeedsUser { .. } => "user",
        ShipOutcome::CannotTell(_) => "error",
    }
}

#[test]
fn the_next_step_to_a_pull_request() {
    use PullRequestState::{Closed, Merged, Open};
    use ShippedBy::{Agent, Ralph};
    let dirty = |mut scene: Scene| {
        scene.checkout.uncommitted = vec!["a".into()];
        scene
    };
    let pushed = |mut scene: Scene| {
        scene.state.pushed = Some("c1".into());
        scene
    };
    let of_loop = |mut scene: Scene| {
        scene.state.pull_request = Some(7);
        scene
    };
    let topic = |by, pulls| Scene::new(by, "topic", pulls);
    let table = [
        (Scene::new(Ralph, "main", vec![]), "switch"),
        (Scene::new(Ralph, "", vec![]), "switch"),
        (Scene::new(Agent, "main", vec![]), "unmet"),
        (dirty(topic(Ralph, vec![])), "commit"),
        (dirty(topic(Agent, vec![])), "unmet"),
        (dirty(topic(Ralph, vec![pull(7, Merged, "c1")])), "commit"),
        (topic(Ralph, vec![]), "push"),
        (pushed(topic(Ralph, vec![])), "open"),
        (topic(Agent, vec![]), "unmet"),
        (topic(Ralph, vec![pull(7, Open, "c1")]), "passed"),
        (topic(Agent, vec![pull(7, Open, "c1")]), "passed"),
        (topic(Ralph, vec![pull(7, Open, "c0")]), "push"),
        (pushed(topic(Ralph, vec![pull(7, Open, "c0")])), "wait"),
        (topic(Agent, vec![pull(7, Open, "c0")]), "unmet"),
        (topic(Ralph, vec![pull(7, Closed, "c1")]), "user"),
        (topic(Agent, vec![pull(7, Closed, "c1")]), "user"),
        (topic(Ralph, vec![pull(7, Merged, "c1")]), "passed"),
        // Merged before this loop, with other work on the same branch since.
        (topic(Ralph, vec![pull(7, Merged, "c0")]), "push"),
        (of_loop(topic(Ralph, vec![pull(7, Merged, "c0")])), "user"),
        (topic(Ralph, vec![pull(8, Open, "c1"), pull(7, Closed, "c0")]), "passed"),
        (topic(Ralph, vec![pull(8, Closed, "c0"), pull(7, Merged, "c0")]), "user"),
    ];
    for (number, (scene, expected)) in table.iter().enumerate() {
        assert_eq!(word(&scene.view().pull_request()), *expected, "row {number}");
    }
}

#[test]
fn the_agent_is_told_the_exact_command() {
    let scene = Scene::new(ShippedBy::Agent, "it's; a branch", vec![]);
    let ShipOutcome::Unmet { next, .. } = scene.view().pull_request() else { panic!("not unmet") };
    assert!(
        next.contains("gh pr create --repo github.com/o/r --head 'it'\\''s; a branch' --base main"),
        "{next}"
    );
}

#[test]
fn a_wait_keeps_its_deadline_and_is_polled_less_often() {
    let mut scene = Scene::new(ShippedBy::Ralph, "topic", vec![pull(7, PullRequestState::Open, "c1")]);
    let mut looks = 0;
    let mut deadline = None;
    loop {
        match scene.view().ci(|_| Vec::new()) {
            ShipOutcome::NotYet { until, wait, .. } => {
                assert_eq!(*deadline.get_or_insert(wait.deadline), wait.deadline);
                assert!(until <= wait.deadline && until.as_second() > scene.now);
                scene.now = until.as_second();
                // A process that is resumed has it from the ledger.
                scene.state.apply(&Event::ShipWaits(wait));
            }
            ShipOutcome::NeedsUser { .. } => break,
            other => panic!("{other:?}"),
        }
        looks += 1;
    }
    assert_eq!(scene.now, 1_000 + 3_600);
    assert!((20..60).contains(&looks), "{looks}");
    // Another commit gets a time of its own.
    scene.checkout.head = Some("c2".into());
    assert_eq!(word(&scene.view().ci(|_| Vec::new())), "wait");
}

#[test]
fn a_merge_is_done_only_where_the_forge_would() {
    let open = |state: MergeState, is_draft: bool| PullRequest {
        merge_state: state,
        is_draft,
        ..pull(7, PullRequestState::Open, "c1")
    };
    let table = [
        (vec![open(MergeState::Clean, false)], MergeMethod::Squash, "merge"),
        (vec![open(MergeState::Unknown, false)], MergeMethod::Rebase, "merge"),
        (vec![open(MergeState::Blocked, false)], MergeMethod::Squash, "wait"),
        (vec![open(MergeState::Conflicts, false)], MergeMethod::Squash, "unmet"),
        (vec![open(MergeState::Clean, true)], MergeMethod::Squash, "user"),
        (vec![open(MergeState::Clean, false)], MergeMethod::Never, "wait"),
        (vec![pull(7, PullRequestState::Merged, "c1")], MergeMethod::Never, "passed"),
        (vec![pull(7, PullRequestState::Merged, "c0")], MergeMethod::Squash, "user"),
        (vec![], MergeMethod::Squash, "user"),
    ];
    for (number, (pulls, method, expected)) in table.into_iter().enumerate() {
        let mut scene = Scene::new(ShippedBy::Ralph, "topic", pulls);
        scene.plan.settings.merge = method;
        assert_eq!(word(&scene.view().merge()), expected, "row {number}");
    }
}

#[test]
fn ci_counts_for_this_commit_unless_there_is_none() {
    let check =
        |state: CiState| CiCheck { name: "a".into(), state, url: None, job: None, about: String::new() };
    let table = [
        (vec![], false, "wait"),
        (vec![], true, "passed"),
        (vec![check(CiState::Passed)], false, "passed"),
        (vec![check(CiState::Passed), check(CiState::Pending)], true, "wait"),
        (vec![check(CiState::Pending), check(CiState::Failed("failure".into()))], true, "ci failed"),
    ];
    for (number, (checks, no_ci, expected)) in table.into_iter().enumerate() {
        let mut scene = Scene::new(ShippedBy::Ralph, "topic", vec![pull(7, PullRequestState::Open, "c1")]);
        scene.forge.checks = checks;
        scene.plan.settings.no_ci = no_ci;
        assert_eq!(word(&scene.view().ci(|_| Vec::new())), expected, "row {number}");
    }
}
