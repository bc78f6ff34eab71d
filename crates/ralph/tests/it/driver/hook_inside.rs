//! Our own hook inside a driver's run: only the driver judges. Its mark alone, without the driver, has no effect.

use serde_json::json;

use super::scene::{DONE, STAYS, Scene, verified};
use ralph_testkit::Sandbox;

/// What the client sends to its hooks in one turn: a prompt, a written file, the agent's stop.
fn turn(sandbox: &Sandbox) -> String {
    let event = |name: &str| {
        json!({
            "session_id": "session-1",
            "transcript_path": "/nowhere/session-1.jsonl",
            "cwd": sandbox.project(),
            "prompt_id": "prompt-1",
            "permission_mode": "default",
            "hook_event_name": name,
            "prompt": "shut the door",
            "tool_name": "Write",
            "tool_input": {"file_path": sandbox.path("work")},
            "stop_hook_active": false,
            "last_assistant_message": "Done.",
            "background_tasks": [],
        })
    };
    ["UserPromptSubmit", "PostToolUse", "Stop"].map(|name| format!("{}\n", event(name))).concat()
}

/// Plays a turn to the hook, line by line, works between the lines, and stores the hook's answers.
const PLAYS_THE_TURN: &str = r#"
while read -r line; do
    printf '%s' "$line" | "$RALPH" hook claude
    echo x >> work
done < "$NOTES/turn" > "$NOTES/answer"
"#;

fn guarded(agent: &str) -> Scene {
    let scene = Scene::of(&format!("guard: [session]\nverify:\n  - {}\n", json!(DONE)), agent);
    std::fs::write(scene.note_path("turn"), turn(&scene.sandbox)).expect("a note");
    scene
}

/// Plays the turn outside any driver, with or without a mark.
fn play_outside(scene: &Scene, mark: Option<&str>) -> String {
    let mut template = scene.sandbox.command(&[]);
    if let Some(mark) = mark {
        template.env("RALPH_LOOP", mark);
    }
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", PLAYS_THE_TURN]).env_clear().current_dir(scene.sandbox.project());
    shell.envs(template.get_envs().filter_map(|(name, value)| Some((name, value?))));
    assert!(shell.status().expect("a shell").success());
    scene.note("answer")
}

#[test]
fn inside_a_run_the_hook_allows_the_stop() {
    let scene = guarded(&format!("{PLAYS_THE_TURN}\ntest $run = 2 && : > done.txt"));
    verified(scene.drive(&[]));
    assert_eq!(scene.note("answer"), "");
    scene.has_iterations(2);
    assert_eq!(
        scene.sandbox.status()["loops"].as_array().map(Vec::len),
        Some(1),
        "another process judged, too"
    );
}

#[test]
fn without_a_driver_the_same_turn_is_blocked() {
    let answer = play_outside(&guarded(""), None);
    assert!(answer.contains("\"decision\":\"block\""), "{answer}");
}

#[test]
fn a_forged_mark_frees_no_session() {
    for mark in ["1", "x/y", "../../x/y", "/", ""] {
        let answer = play_outside(&guarded(""), Some(mark));
        assert!(answer.contains("\"decision\":\"block\""), "{mark}: {answer}");
    }
}

#[test]
fn the_mark_of_a_running_loop_frees_no_session_outside_of_it() {
    let scene = guarded(&format!(r#"echo "$RALPH_LOOP" > "$NOTES/mark"{STAYS}"#));
    let _lives = scene.start(&[]);
    scene.await_process("child");
    let mark = scene.await_note("mark");
    assert!(mark.contains('/'), "{mark}");
    let answer = play_outside(&scene, Some(&mark));
    assert!(answer.contains("\"decision\":\"block\""), "{mark}: {answer}");
}
