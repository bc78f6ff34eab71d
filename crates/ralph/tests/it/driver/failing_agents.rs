//! Agents that die or report failure: their work is judged anyway.

use rustix::process::Signal;

use super::scene::{DONE, RECORDED, Scene, unverified, verified};
use ralph_testkit::{misbehave, wait_until};

#[test]
fn finished_work_is_verified_however_its_agent_ended() {
    let segfault = misbehave("kill-self SEGV");
    for how in ["exit 1", "kill -SEGV $$", &format!("exec {segfault}"), "exit 127"] {
        let scene = Scene::new(DONE, &format!(": > done.txt\n{how}"));
        verified(scene.drive(&[]));
        assert_eq!(scene.ends(), ["failed"], "{how}");
        scene.has_iterations(1);
    }
}

#[test]
fn a_client_with_unreadable_output_is_judged_by_its_work() {
    let scene = Scene::of_claude(DONE, ": > done.txt; echo 'command not understood'");
    verified(scene.drive(&[]));
    assert_eq!(scene.ends(), ["failed"]);
    assert_eq!(
        scene.event_fields("agent_ended", "run")[0]["ended"]["why"],
        "the agent ended without a result"
    );
}

#[test]
fn binary_and_excessive_output_are_only_output() {
    let scene =
        Scene::new(DONE, &format!("{}\n{}\n: > done.txt", misbehave("bytes"), misbehave("flood 3000000")));
    verified(scene.drive(&[]));
    assert_eq!(scene.ends(), ["finished"]);
}

#[test]
fn an_agent_that_does_not_read_stdin_still_runs() {
    let scene = Scene::new(DONE, "");
    scene.sandbox.file("agent.sh", "#!/bin/sh\nexec <&-\n: > done.txt\n");
    verified(scene.drive(&[]));
}

#[test]
fn three_failing_runs_in_a_row_pause_for_the_user() {
    let scene = Scene::new(DONE, "echo $run > work; echo 'no network' >&2; exit 1");
    unverified(scene.drive(&[]), 3);
    scene.is_paused_because("errors");
    scene.has_iterations(3);
    let ends = scene.event_fields("agent_ended", "run");
    assert_eq!(ends[2]["ended"]["why"], "exit code 1: no network", "{ends:#?}");
}

#[test]
fn a_successful_run_resets_the_failure_count() {
    let scene = Scene::new(DONE, "echo $run > work; test $run = 2 || exit 1");
    unverified(scene.drive(&["--max-iterations", "3"]), 1);
    assert_eq!(scene.ends(), ["failed", "finished", "failed"]);
}

#[test]
fn a_denied_permission_is_reported_and_the_third_one_pauses_for_the_user() {
    let scene = Scene::of_claude(DONE, &format!("cat {RECORDED}/claude.denied.jsonl; echo $run > work"));
    unverified(scene.drive(&[]), 3);
    scene.is_paused_because("denied");
    scene.has_iterations(3);
    let rule = scene.sandbox.state()["paused"]["rule"].clone();
    let denied = scene.event_fields("agent_ended", "run")[2]["denied"].clone();
    assert!(
        denied.as_array().is_some_and(|all| all.iter().any(|one| one["rule"] == rule)),
        "{rule}: {denied:#}"
    );
    assert!(scene.prompt(2).contains("These tool calls were denied"), "{}", scene.prompt(2));
}

#[test]
fn a_key_that_the_service_refuses_twice_pauses_for_the_user() {
    let agent = r#"echo '{"type":"result","subtype":"success","is_error":true,"api_error_status":401,"result":"Invalid API key"}'"#;
    let scene = Scene::of_claude(DONE, agent);
    unverified(scene.drive(&[]), 3);
    scene.is_paused_because("not_signed_in");
    assert_eq!(scene.runs(), 2);
}

/// A killed driver loses nothing that the next prompt needs.
#[test]
fn a_denied_permission_is_reported_after_a_kill_too() {
    let agent = format!("cat {RECORDED}/claude.denied.jsonl; test $run = 1 || : > done.txt");
    let scene = Scene::of_claude(&format!("sleep 0.3; {DONE}"), &agent);
    let running = scene.start(&[]);
    wait_until("the gates", || !scene.sandbox.events_named("run_started").is_empty());
    running.signal(Signal::KILL);
    running.end();
    verified(scene.resume(&[]).end());
    let prompt = scene.prompt(2);
    assert!(prompt.contains("These tool calls were denied") && prompt.contains("- Bash: curl"), "{prompt}");
    scene.has_iterations(2);
}
