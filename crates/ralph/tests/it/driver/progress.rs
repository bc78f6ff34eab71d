//! What counts as progress.

use super::scene::{DONE, Scene, unverified};

const COMMIT: &str = "git -c user.name=t -c user.email=t@example.invalid commit -q --allow-empty -m try";

fn committed(agent: &str) -> Scene {
    let scene = Scene::new(DONE, agent);
    scene.sandbox.git(&["add", "."]);
    scene.sandbox.git(&["commit", "-q", "-m", "begin"]);
    scene
}

#[test]
fn a_commit_that_changes_no_file_is_progress() {
    let scene = committed(COMMIT);
    unverified(scene.drive(&["--max-iterations", "5"]), 1);
    scene.has_iterations(5);
    assert!(scene.sandbox.events_named("strategy_changed").is_empty());
}

#[test]
fn the_same_failure_on_another_tree_is_progress() {
    let scene = Scene::new(DONE, "echo $run > work");
    unverified(scene.drive(&["--max-iterations", "5"]), 1);
    assert!(scene.sandbox.events_named("strategy_changed").is_empty());
}

#[test]
fn another_failure_on_the_same_tree_is_progress() {
    let words = ["", "a", "ab", "abc", "abcd", "abcde"];
    let gate = r#"cat "$NOTES/word"; exit 1"#;
    let scene = Scene::new(gate, &format!(r#"echo {} | cut -d, -f$run > "$NOTES/word""#, words.join(",")));
    unverified(scene.drive(&["--max-iterations", "5"]), 1);
    assert!(scene.sandbox.events_named("strategy_changed").is_empty());
}

#[test]
fn a_branch_that_the_agent_switched_to_is_noted() {
    let scene = committed("if [ $run = 1 ]; then git checkout -q -b feature/door; fi");
    unverified(scene.drive(&["--max-iterations", "2"]), 1);
    let runs = scene.event_fields("agent_ended", "run");
    assert_eq!(runs[0]["switched_to"], "feature/door", "{runs:#?}");
    assert!(runs[1].get("switched_to").is_none(), "{runs:#?}");
}
