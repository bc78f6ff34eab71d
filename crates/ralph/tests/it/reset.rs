//! `ralph reset`: the count starts again.

use crate::support::Sandbox;

#[test]
fn a_held_agent_starts_again_at_one() {
    let sandbox = Sandbox::trellis("verify: ['false']\n");
    sandbox.stop("check").answer().held();
    sandbox.stop("check").answer().held();
    sandbox.ralph(&["reset"]).success().says("the count starts again");
    assert!(!sandbox.exists(".trellis/.ralph-state.json"));
    let (reason, _) = sandbox.stop("check").answer().held();
    assert!(reason.contains("(iteration 1/5)"), "{reason}");
    let noted = sandbox.events_named("export_noted");
    assert!(noted.is_empty(), "our own removal is no deletion: {noted:?}");
}

#[test]
fn only_the_named_loop_is_touched() {
    let sandbox = Sandbox::gated("verify: ['false']\n");
    for agent in ["a", "b"] {
        sandbox.stop("check").agent(agent).answer().held();
    }
    let status = sandbox.status();
    let newest = status["loops"][0]["id"].as_str().expect("an id").to_owned();
    sandbox.ralph(&["reset", &newest]).success();
    let iterations: Vec<bool> = ["a", "b"]
        .iter()
        .map(|agent| sandbox.stop("check").agent(agent).answer().held().0.contains("(iteration 1/5)"))
        .collect();
    assert_eq!(iterations, [false, true]);
}

#[test]
fn where_nobody_is_held_nothing_happens() {
    let sandbox = Sandbox::gated("verify: ['true']\n");
    sandbox.ralph(&["reset"]).success().says("No loop holds anybody here.");
    sandbox.ralph(&["reset", "check"]).exits(2);
    sandbox.stop("check").answer().let_go().expect("verified");
    let before = sandbox.memory();
    sandbox.ralph(&["reset"]).success().says("No loop holds anybody here.");
    assert_eq!(sandbox.memory(), before);
}
