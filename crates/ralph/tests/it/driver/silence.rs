//! Agents that neither print nor change anything, and agents that never end.

use super::scene::{DONE, STAYS, Scene, is_gone, unverified, verified};

#[test]
fn an_agent_that_sleeps_is_ended() {
    let scene = Scene::new(DONE, STAYS);
    unverified(scene.drive(&["--max-silence", "1s", "--max-iterations", "1"]), 1);
    assert_eq!(scene.ends(), ["went_silent"]);
    is_gone(scene.await_process("child"));
}

#[test]
fn an_agent_that_works_silently_is_not_ended() {
    let agent = "for i in $(seq 40); do echo $i > work; sleep 0.1; done; : > done.txt";
    let scene = Scene::new(DONE, agent);
    verified(scene.drive(&["--max-silence", "2s"]));
    assert_eq!(scene.ends(), ["finished"]);
}

const NEVER_ENDS: &str = "while :; do echo busy; sleep 0.05; done";

#[test]
fn a_run_that_takes_too_long_is_ended_and_the_next_prompt_says_so() {
    let scene =
        Scene::new(DONE, &format!("test $run = 2 && : > done.txt && exit\necho $run > work\n{NEVER_ENDS}"));
    verified(scene.drive(&["--max-run", "2s"]));
    assert_eq!(scene.ends(), ["timed_out", "finished"]);
    let message = scene.prompt(2);
    assert!(message.contains("stopped before it finished: timed out after 2"), "{message}");
}

#[test]
fn a_run_that_took_too_long_but_finished_the_work_is_verified() {
    let scene = Scene::new(DONE, &format!(": > done.txt\n{NEVER_ENDS}"));
    verified(scene.drive(&["--max-run", "1s"]));
    assert_eq!(scene.ends(), ["timed_out"]);
}
