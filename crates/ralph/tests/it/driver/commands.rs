//! The user at another terminal: pause, resume, cancel.

use std::time::{Duration, Instant};

use super::scene::{DONE, STAYS, Scene, is_gone, unverified, verified};
use ralph_testkit::Finished;

/// The agent waits in its first run and fixes the work in the next; the gate waits until then.
fn stays_in_the_agent() -> Scene {
    Scene::new(DONE, &format!("test $run -gt 1 && : > done.txt && exit\n{STAYS}"))
}

fn stays_in_the_gate() -> Scene {
    let gate = r#"test -f "$NOTES/resumed" || { echo $$ > "$NOTES/agent"; sh -c 'echo $$ > "$NOTES/child"; exec sleep 1000'; }; test -f done.txt"#;
    Scene::new(gate, ": > done.txt")
}

fn short_id(scene: &Scene) -> String {
    let list = scene.sandbox.ralph(&["ls", "--json"]).success().json();
    list[0]["short"].as_str().expect("a loop").to_owned()
}

/// Runs a command at another terminal in the meantime; returns how the driver ended, which has to be soon.
#[track_caller]
fn while_it_lasts(scene: &Scene, word: &str) -> Finished {
    let running = scene.start(&[]);
    let (one, other) = (scene.await_process("agent"), scene.await_process("child"));
    let said = Instant::now();
    scene.sandbox.ralph(&[word]).exits(0).says(&short_id(scene));
    let ran = running.end();
    assert!(said.elapsed() < Duration::from_secs(5), "`{word}` took effect after {:?}", said.elapsed());
    is_gone(one);
    is_gone(other);
    std::fs::write(scene.note_path("resumed"), "").expect("a note");
    ran
}

#[test]
fn pause_ends_the_agent_and_resume_continues() {
    let scene = stays_in_the_agent();
    unverified(while_it_lasts(&scene, "pause"), 3);
    scene.is_paused_because("command");
    verified(scene.resume(&[]).end());
    scene.has_iterations(1);
}

#[test]
fn pause_ends_the_gates_and_resume_judges_the_work_of_the_agent() {
    let scene = stays_in_the_gate();
    unverified(while_it_lasts(&scene, "pause"), 3);
    scene.is_paused_because("command");
    verified(scene.resume(&[]).end());
    scene.has_iterations(1);
    assert_eq!(scene.runs(), 1);
}

#[test]
fn cancel_ends_agent_and_gates_for_good() {
    for scene in [stays_in_the_agent(), stays_in_the_gate()] {
        unverified(while_it_lasts(&scene, "cancel"), 3);
        scene.ended_as("cancelled");
        let id = scene.loop_id();
        unverified(scene.resume(&[&id]).end(), 2).says("has ended");
        unverified(scene.resume(&[]).end(), 3);
        assert!(scene.runs() <= 1, "a cancelled loop was resumed");
    }
}

#[test]
fn a_paused_loop_can_be_cancelled() {
    let scene = stays_in_the_agent();
    unverified(while_it_lasts(&scene, "pause"), 3);
    scene.sandbox.ralph(&["cancel"]).exits(0);
    scene.ended_as("cancelled");
    scene.sandbox.ralph(&["cancel"]).exits(0).says("No active Ralph loop found.");
}

#[test]
fn a_finished_loop_is_not_restarted() {
    let scene = Scene::new(DONE, ": > done.txt");
    verified(scene.drive(&[]));
    let id = scene.loop_id();
    // A recorded verdict is not repeated: the gates run again.
    for words in [&[id.as_str()][..], &[]] {
        verified(scene.resume(words).end()).says("its gates were run again");
    }
    assert_eq!(scene.runs(), 1);
    let failed = Scene::new(DONE, "true");
    unverified(failed.drive(&["--max-iterations", "1"]), 1);
    unverified(failed.resume(&[&failed.loop_id()]).end(), 2).says("has ended");
    unverified(failed.resume(&[]).end(), 1).says("No active Ralph loop found.");
    assert_eq!(failed.runs(), 1);
}

#[test]
fn resume_keeps_the_limits_of_the_loop() {
    let scene = Scene::new(DONE, &format!("echo $run > work; test $run -gt 1 && exit\n{STAYS}"));
    let running = scene.start(&["--max-iterations", "2"]);
    scene.await_process("child");
    scene.sandbox.ralph(&["pause"]).exits(0);
    unverified(running.end(), 3);
    unverified(scene.resume(&[]).end(), 1);
    scene.has_iterations(2);
}

#[test]
fn an_agent_may_not_end_its_own_loop() {
    let agent = r#"
for word in pause cancel; do "$RALPH" $word; echo "$word $?"; done > "$NOTES/codes" 2>&1
: > done.txt"#;
    let scene = Scene::new(DONE, agent);
    verified(scene.drive(&[]));
    let codes = scene.note("codes");
    assert!(codes.contains("pause 3\n") && codes.contains("cancel 3\n"), "{codes}");
}
