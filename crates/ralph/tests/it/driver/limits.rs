//! The limits of a loop.

use rustix::process::Signal;

use super::scene::{DONE, STAYS, Scene, unverified};

/// Given once, it applies to the whole loop, also after a resume.
#[test]
fn the_gate_timeout_applies_after_a_resume() {
    let gate = r#"test -f "$NOTES/again" || exit 1; sleep 1000"#;
    let scene = Scene::new(gate, &format!("test $run -gt 1 && echo $run > work && exit\n{STAYS}"));
    let running = scene.start(&["--gate-timeout", "300ms", "--max-iterations", "1"]);
    scene.await_note("agent");
    running.signal(Signal::KILL);
    running.end();
    std::fs::write(scene.note_path("again"), "").expect("a note");
    unverified(scene.resume(&[]).end(), 1);
    let outcomes = scene.event_fields("gate_ran", "report");
    assert_eq!(outcomes[0]["outcome"]["kind"], "timed_out", "{outcomes:#?}");
}

#[test]
fn the_default_iteration_limit_depends_on_the_agent_wherever_its_flag_is() {
    let scene = Scene::new(DONE, "");
    let table: [(&[&str], u32); 9] = [
        (&["shut the door"], 15),
        (&["shut the door", "--agent", "codex"], 15),
        (&["--with-glm5", "shut the door"], 30),
        (&["shut the door", "--with-glm5"], 30),
        (&["--mmc", "shut the door"], 30),
        (&["shut the door", "--mmc"], 30),
        (&["shut the door", "--agent", "glm5"], 30),
        (&["--max-iterations", "4", "shut the door", "--mmc"], 4),
        (&["shut the door", "--with-glm5", "--max-iterations=7"], 7),
    ];
    for (words, most) in table {
        let ran = scene.sandbox.ralph(&[&["loop", "--dry-run"], words].concat()).exits(0);
        assert!(ran.stdout.contains(&format!("Iteration 1 of {most}.")), "{words:?}: {ran:#?}");
        assert!(ran.stdout.contains("shut the door") && ran.stdout.contains(DONE), "{words:?}: {ran:#?}");
    }
    assert_eq!((scene.runs(), scene.sandbox.status()["loops"].as_array().map(Vec::len)), (0, Some(0)));
}

#[test]
fn an_invalid_limit_is_refused() {
    let scene = Scene::new(DONE, "");
    for flag in [
        "--max-iterations=0",
        "--max-iterations=-1",
        "--max-cost=0",
        "--max-cost=NaN",
        "--max-time=soon",
        "--max-time=0s",
        "--max-run=0",
        "--max-silence=0m",
    ] {
        scene.drive(&[flag]).exits(2);
    }
    assert_eq!(scene.runs(), 0);
}

#[test]
fn the_time_limit_ends_the_loop_and_the_current_run() {
    let scene = Scene::new(DONE, &format!("echo $run > work\n{}", super::scene::STAYS));
    unverified(scene.drive(&["--max-time", "2s", "--max-iterations", "unlimited"]), 1);
    scene.ended_as("failed");
    let state = scene.sandbox.state();
    assert_eq!(state["last"]["limit"]["limit"], "clock", "{state:#}");
    assert_eq!(scene.ends(), ["timed_out"], "a run that is cut off for the clock is the last one");
}

#[test]
fn an_iteration_that_cannot_be_evaluated_counts_as_run() {
    let scene = Scene::new("./no-such-program", "echo $run > work");
    unverified(scene.drive(&["--max-iterations", "2"]), 3);
    assert_eq!(scene.runs(), 2);
    scene.is_paused_because("errors");
}

/// Prints its arguments, and a running total that continues over a resumed session, as the client does.
const COSTS: &str = r#"
echo "$@" > "$NOTES/words.$run"
total=$(echo 0.40,0.70,1.10,1.50 | cut -d, -f$run)
echo '{"type":"system","subtype":"init","session_id":"session-1"}'
echo '{"type":"result","subtype":"success","is_error":false,"session_id":"session-1","result":"Done.","total_cost_usd":'$total'}'
echo $run > work
"#;

#[test]
fn cost_is_counted_once_and_the_client_gets_the_rest() {
    let scene = Scene::of_claude(DONE, COSTS);
    unverified(scene.drive(&["--max-cost", "1", "--continue"]), 1);
    scene.has_iterations(3);
    let costs: Vec<_> =
        scene.event_fields("agent_ended", "run").iter().map(|run| run["cost"].clone()).collect();
    assert_eq!(costs, [400_000, 300_000, 400_000]);
    let state = scene.sandbox.state();
    assert_eq!(state["last"]["limit"]["limit"], "cost", "{state:#}");
    assert_eq!(state["drive"]["cost"], 1_100_000);
    let words = |run: u32| scene.note(&format!("words.{run}"));
    for (run, left) in [(1, "1"), (2, "0.6"), (3, "0.3")] {
        assert!(words(run).contains(&format!("--max-budget-usd {left} ")), "{run}: {}", words(run));
    }
    assert!(!words(1).contains("--resume") && words(2).contains("--resume session-1"), "{}", words(2));
}

#[test]
fn an_agent_that_reports_no_cost_has_no_cost_limit() {
    let scene = Scene::new(DONE, "");
    scene.drive(&["--max-cost", "1"]).exits(2).says("does not report its cost");
    assert_eq!(scene.runs(), 0);
}

#[test]
fn a_fresh_session_has_its_whole_cost_counted() {
    let scene = Scene::of_claude(DONE, COSTS);
    unverified(scene.drive(&["--max-cost", "1"]), 1);
    scene.has_iterations(2);
    assert_eq!(scene.sandbox.state()["drive"]["cost"], 1_100_000);
    assert!(!scene.note("words.2").contains("--resume"));
}
