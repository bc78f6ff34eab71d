//! `ralph reset`: count reset.

use ralph_testkit::Sandbox;

#[test]
fn a_blocked_agent_restarts_at_one() {
    let sandbox = Sandbox::trellis("verify: ['false']\n");
    sandbox.stop("check").answer().blocked();
    sandbox.stop("check").answer().blocked();
    sandbox.ralph(&["reset"]).success().says("count reset");
    assert!(!sandbox.exists(".trellis/.ralph-state.json"));
    let (reason, _) = sandbox.stop("check").answer().blocked();
    assert!(reason.contains("(iteration 1/5)"), "{reason}");
    let noted = sandbox.events_named("export_noted");
    assert!(noted.is_empty(), "our own removal is no deletion: {noted:?}");
}

#[test]
fn only_the_named_loop_is_touched() {
    let sandbox = Sandbox::gated("verify: ['false']\n");
    for agent in ["a", "b"] {
        sandbox.stop("check").agent(agent).answer().blocked();
    }
    let status = sandbox.status();
    let newest = status["loops"][0]["id"].as_str().expect("an id").to_owned();
    sandbox.ralph(&["reset", &newest]).success();
    let iterations: Vec<bool> = ["a", "b"]
        .iter()
        .map(|agent| sandbox.stop("check").agent(agent).answer().blocked().0.contains("(iteration 1/5)"))
        .collect();
    assert_eq!(iterations, [false, true]);
}

#[test]
fn reset_without_a_blocked_agent_changes_nothing() {
    let sandbox = Sandbox::gated("verify: ['true']\n");
    sandbox.ralph(&["reset"]).success().says("No active or paused loop in this repo.");
    sandbox.ralph(&["reset", "check"]).exits(2);
    sandbox.stop("check").answer().allowed().expect("verified");
    let before = sandbox.memory();
    sandbox.ralph(&["reset"]).success().says("No active or paused loop in this repo.");
    assert_eq!(sandbox.memory(), before);
}
