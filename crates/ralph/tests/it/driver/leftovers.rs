//! Processes that an agent leaves running.

use std::time::Duration;

use super::scene::{DONE, Scene, is_gone, verified};
use ralph_testkit::misbehave;

/// The first run leaves a process behind, the second does the work; both note when they ran.
fn leaves(something: &str) -> Scene {
    let agent = format!(
        r#"
date +%s%N > "$NOTES/time.$run"
test $run = 2 && : > done.txt && exit
{something}
until [ -s "$NOTES/left" ]; do sleep 0.01; done
date +%s%N > "$NOTES/time.$run""#
    );
    Scene::new(DONE, &agent)
}

#[track_caller]
fn is_ended_at_once(scene: &Scene, what: &str) {
    let running = scene.start(&[]);
    let left = scene.await_process("left");
    verified(running.end());
    is_gone(left);
    let nanoseconds = |run: u32| scene.note(&format!("time.{run}")).trim().parse::<u64>().expect("a time");
    let between = Duration::from_nanos(nanoseconds(2) - nanoseconds(1));
    assert!(between < Duration::from_secs(4), "{what}: the next iteration began after {between:?}");
    let runs = scene.event_fields("agent_ended", "run");
    let named = runs[0]["left_running"].as_array().map(|left| serde_json::to_string(left).expect("JSON"));
    assert!(named.as_ref().is_some_and(|named| named.contains(&left.to_string())), "{what}: {runs:#?}");
    assert!(runs[1].get("left_running").is_none(), "{what}: {runs:#?}");
    assert_eq!(scene.ends(), ["finished", "finished"], "{what}");
    scene.has_iterations(2);
}

#[test]
fn a_daemon_that_keeps_stdout_open_delays_nothing() {
    let daemon =
        r#""$MISBEHAVE" in-session sh -c 'trap "" HUP INT; echo $$ > "$NOTES/left"; exec sleep 1000' &"#;
    is_ended_at_once(&leaves(daemon), "daemon");
}

#[test]
fn a_daemon_that_ignores_sigterm_is_killed() {
    let daemon =
        r#""$MISBEHAVE" in-session sh -c 'trap "" HUP INT TERM; echo $$ > "$NOTES/left"; exec sleep 1000' &"#;
    is_ended_at_once(&leaves(daemon), "stubborn daemon");
}

#[test]
fn a_dev_server_is_ended_with_its_agent() {
    let server =
        r#"sh -c 'echo $$ > "$NOTES/left"; exec sleep 1000' > "$NOTES/server.log" 2>&1 < /dev/null &"#;
    is_ended_at_once(&leaves(server), "dev server");
}

#[test]
fn a_process_that_detaches_twice_is_found() {
    let twice = format!(
        r#"{} > "$NOTES/said"; read -r _ _ _ left < "$NOTES/said"; echo "$left" > "$NOTES/left""#,
        misbehave("double-daemon")
    );
    is_ended_at_once(&leaves(&twice), "double daemon");
}

#[test]
fn resume_ends_everything_a_killed_driver_left_running() {
    let agent = r#"
test $run -gt 1 && : > done.txt && exit
"$MISBEHAVE" in-session sh -c 'echo $$ > "$NOTES/left"; exec sleep 1000' &
echo $$ > "$NOTES/agent"
sleep 1000"#;
    let scene = Scene::new(DONE, agent);
    let running = scene.start(&[]);
    let (agent, left) = (scene.await_process("agent"), scene.await_process("left"));
    running.signal(rustix::process::Signal::KILL);
    running.end();
    verified(scene.resume(&[]).end());
    is_gone(agent);
    is_gone(left);
    scene.has_iterations(1);
}
