//! The driver judges the work by its gates, never by the agent's claim.

use super::scene::{DONE, Scene, unverified, verified};

#[test]
fn verified_after_three_iterations_each_with_the_remaining_failures() {
    let gate = "cat work; test -f done.txt";
    let agent = r#"
case $run in
1) echo "the hinge is bent" > work ;;
2) echo "the lock is stuck" > work ;;
3) : > done.txt ;;
esac"#;
    let scene = Scene::new(gate, agent);
    verified(scene.drive(&[]));
    scene.has_iterations(3);
    assert_eq!(scene.event_fields("agent_ended", "iteration"), [1, 2, 3]);
    scene.ended_as("verified");
    let (first, second, third) = (scene.prompt(1), scene.prompt(2), scene.prompt(3));
    assert!(first.contains("shut the door") && first.contains(gate), "{first}");
    assert!(second.contains("the hinge is bent") && second.contains("shut the door"), "{second}");
    assert!(third.contains("the lock is stuck") && !third.contains("the hinge is bent"), "{third}");
}

#[test]
fn finished_work_still_takes_one_run_and_is_not_taken_for_the_agents() {
    let scene = Scene::new("true", "");
    let ran = unverified(scene.drive(&[]), 6);
    assert_eq!(scene.runs(), 1);
    assert!(ran.stdout.contains("No file was changed") && ran.stdout.ends_with("\nUNCHANGED\n"), "{ran:#?}");
    scene.ended_as("unchanged");
    let scene = Scene::new("true", "echo x > work");
    let ran = unverified(scene.drive(&["--max-iterations", "1"]), 6);
    assert!(
        !ran.stdout.contains("No file was changed") && ran.stdout.ends_with("\nGATES_PASS\n"),
        "{ran:#?}"
    );
    scene.ended_as("passing");
}

/// A file that git ignores is not part of the tree, and a gate may still read it.
#[test]
fn a_receipt_from_before_the_loop_does_not_end_it() {
    let scene = Scene::new("test \"$(cat build/out)\" = ok", "");
    scene.sandbox.file(".gitignore", "build/\n");
    scene.sandbox.file("build/out", "ok\n");
    scene.sandbox.trust();
    scene.sandbox.ralph(&["verify"]).success();
    std::fs::remove_file(scene.sandbox.path("build/out")).expect("our own");
    unverified(scene.drive(&["--max-iterations", "1"]), 1);
}

const CLAIMS: &str =
    "echo VERIFIED_DONE; echo 'not VERIFIED_DONE yet'; echo '<promise>VERIFIED_DONE</promise>'";

#[test]
fn an_agent_that_claims_and_does_nothing_is_not_believed() {
    let scene = Scene::new(DONE, CLAIMS);
    unverified(scene.drive(&["--max-iterations", "2"]), 1);
    scene.has_iterations(2);
    scene.ended_as("failed");
    let quiet = Scene::new(DONE, CLAIMS);
    unverified(quiet.drive(&["--max-iterations", "1", "--quiet"]), 1);
}

#[test]
fn without_a_limit_another_approach_is_tried_once_and_then_the_loop_is_stuck() {
    let scene = Scene::new(DONE, CLAIMS);
    unverified(scene.drive(&[]), 4);
    scene.ended_as("stuck");
    let order: Vec<String> = scene
        .sandbox
        .events()
        .into_iter()
        .map(|event| event["event"]["event"].as_str().expect("a name").to_owned())
        .filter(|name| matches!(name.as_str(), "judged" | "strategy_changed"))
        .collect();
    assert_eq!(order[..4], ["judged", "judged", "judged", "strategy_changed"]);
    assert!(order[4..].iter().all(|name| name == "judged") && order.len() <= 7, "{order:?}");
    let rethinks = |number| scene.prompt(number).contains("First find the cause");
    assert!(!rethinks(3) && rethinks(4) && !rethinks(5));
}

#[test]
fn success_in_the_last_allowed_iteration_is_success() {
    let agent = "if [ $run = 2 ]; then : > done.txt; else echo $run > work; fi";
    verified(Scene::new(DONE, agent).drive(&["--max-iterations", "2"]));
    unverified(Scene::new(DONE, agent).drive(&["--max-iterations", "1"]), 1);
}

#[test]
fn a_promise_is_requested_once_and_is_not_a_condition() {
    let scene = Scene::new(DONE, ": > done.txt");
    verified(scene.drive(&["--completion-promise", "SHUT"]));
    let reasons: Vec<String> =
        scene.event_fields("judged", "reason").iter().map(|reason| reason["code"].to_string()).collect();
    assert_eq!(reasons, ["\"promise_missing\"", "\"all_gates_passed_unpromised\""]);
    assert!(scene.prompt(1).contains("<promise>SHUT</promise>"), "{}", scene.prompt(1));
    assert!(scene.prompt(2).contains("only the promise was not given"), "{}", scene.prompt(2));
}

#[test]
fn a_given_promise_needs_no_second_run() {
    let scene = Scene::new(DONE, ": > done.txt; echo '<promise>SHUT</promise>'");
    verified(scene.drive(&["--completion-promise", "SHUT"]));
    scene.has_iterations(1);
}

#[test]
fn a_promise_on_unfinished_work_ends_nothing() {
    let scene = Scene::new(DONE, "echo '<promise>SHUT</promise>'");
    unverified(scene.drive(&["--completion-promise", "SHUT", "--max-iterations", "2"]), 1);
    assert_eq!(scene.event_fields("judged", "false_promise"), [true, true]);
}

#[test]
fn every_box_of_the_task_list_has_to_be_ticked() {
    let scene = Scene::new(
        "true",
        r#"test $run = 1 && second='[ ]' || second='[x]'; printf -- '- [x] one\n- %s two\n' "$second" > list.md"#,
    );
    scene.sandbox.file("list.md", "- [ ] one\n- [ ] two\n");
    // The gate passes from the start, so only the boxes make a second iteration.
    unverified(scene.drive(&["--tasks", "list.md"]), 6);
    scene.has_iterations(2);
    assert!(scene.prompt(2).contains("1 of 2 tasks are done"), "{}", scene.prompt(2));
}

#[test]
fn the_log_and_reports_of_a_loop_invalidate_no_receipt() {
    let scene = Scene::new(r#"printf x >> "$NOTES/gate-runs"; test -f done.txt"#, ": > done.txt");
    scene.sandbox.file("done.txt", "");
    assert_eq!(scene.sandbox.verify(&[])["verdict"], "verified");
    unverified(scene.drive(&["--no-baseline"]), 6);
    assert_eq!(scene.sandbox.verify(&[])["verdict"], "verified");
    assert_eq!(scene.note("gate-runs"), "xx", "the report of the loop changed the tree that it is about");
}
