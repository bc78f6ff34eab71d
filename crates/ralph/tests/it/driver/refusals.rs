//! Loops that are refused, and the message that explains it.

use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;

use super::scene::{DONE, Running, STAYS, Scene, unverified, verified};
use ralph_testkit::{Sandbox, search_path};

const COMMAND: [&str; 4] = ["loop", "shut the door", "--agent", "command:touch ran"];

#[track_caller]
fn nothing_ran(sandbox: &Sandbox) {
    assert!(!sandbox.exists("ran"), "the agent was run");
    assert_eq!(sandbox.status()["loops"].as_array().map(Vec::len), Some(0));
}

#[test]
fn without_gates_the_command_to_run_is_named_and_nothing_is_written() {
    let sandbox = Sandbox::new();
    sandbox.file("package.json", r#"{"scripts": {"test": "true"}}"#);
    for more in [&[][..], &["--json"], &["--dry-run"], &["--quiet"]] {
        sandbox.ralph(&[&COMMAND, more].concat()).exits(3).says("ralph init");
    }
    assert_eq!(sandbox.git(&["status", "--porcelain", "--ignored"]), "?? package.json\n");
    assert_eq!(sandbox.remembered(), Vec::<String>::new());
}

#[test]
fn zero_gates_are_never_called_verified() {
    for config in ["verify: []\n", "enabled: false\nverify: [\"true\"]\n"] {
        let sandbox = Sandbox::gated(config);
        let ran = sandbox.ralph(&COMMAND);
        assert!(matches!(ran.code, Some(2 | 3)), "{config}: {ran:#?}");
        nothing_ran(&sandbox);
    }
}

#[test]
fn unaccepted_gates_are_not_run() {
    let sandbox = Sandbox::new();
    sandbox.file("ralph.yaml", "verify: [\"touch gate-ran\"]\n");
    sandbox.ralph(&COMMAND).exits(3).says("ralph trust");
    assert!(!sandbox.exists("gate-ran"));
    nothing_ran(&sandbox);
}

/// Waits in its first run until it is signalled, and leaves the work undone.
const WAITS: &str =
    r#"echo $$ > "$NOTES/agent"; until test -f "$NOTES/go"; do sleep 0.02; done; echo $run > work"#;

#[test]
fn revoking_the_gates_during_a_loop_pauses_it_until_they_are_accepted_again() {
    let scene = Scene::new(DONE, &format!("test $run -gt 1 && : > done.txt && exit\n{WAITS}"));
    let running = scene.start(&[]);
    scene.await_note("agent");
    scene.sandbox.ralph(&["trust", "--revoke"]).success();
    fs::write(scene.note_path("go"), "").expect("a note");
    let paused = unverified(running.end(), 3);
    assert!(paused.stderr.contains("no accepted gates left"), "{paused:#?}");
    scene.is_paused_because("no_gates");
    let refused = scene.resume(&[]).end().exits(3);
    assert!(refused.stderr.contains("ralph trust"), "{refused:#?}");
    assert_eq!(scene.runs(), 1, "the agent was run for nothing");

    scene.sandbox.trust();
    verified(scene.resume(&[]).end());
    assert_eq!(scene.event_fields("judged", "attempt"), [1, 2], "what the first run left is judged first");
    assert_eq!(scene.runs(), 2);
}

#[test]
fn an_agent_of_the_repo_is_found_from_anywhere_in_it() {
    let scene = Scene::new(DONE, ": > done.txt");
    let config = format!("{}agents:\n  mine:\n    command: [./agent.sh]\n", scene.sandbox.read("ralph.yaml"));
    scene.sandbox.file("ralph.yaml", &config);
    scene.sandbox.trust();
    scene.sandbox.file("deep/down/file", "");
    let mut command = scene.sandbox.command(&["loop", "shut the door", "--agent", "mine"]);
    command.current_dir(scene.sandbox.path("deep/down"));
    verified(Running::of(command).end());
}

#[test]
fn a_definition_that_is_not_accepted_starts_nothing() {
    let sandbox = Sandbox::gated("verify: [\"false\"]\n");
    sandbox.file("ralph.yaml", "verify: [\"true\"]\n");
    sandbox.ralph(&COMMAND).exits(3);
    nothing_ran(&sandbox);
}

#[test]
fn a_config_that_cannot_be_read_is_shown() {
    let sandbox = Sandbox::gated("verify: [\"true\"]\n");
    sandbox.file("ralph.yaml", "verify: [\"true\"\nbudget: {");
    sandbox.ralph(&COMMAND).exits(2).says("ralph.yaml");
    nothing_ran(&sandbox);
}

#[test]
fn a_loop_without_a_task_is_refused() {
    let sandbox = Sandbox::gated("verify: [\"true\"]\n");
    for words in
        [&["loop", "--agent", "command:touch ran"][..], &["loop", " ", "--agent", "command:touch ran"]]
    {
        sandbox.ralph(words).exits(2).says("no task");
    }
    sandbox.ralph(&[&COMMAND[..], &["--tasks", "nowhere.md"]].concat()).exits(2).says("nowhere.md");
    nothing_ran(&sandbox);
}

/// A search path with only `git` and `sh`.
fn bare_path(sandbox: &Sandbox) -> String {
    let bin = sandbox.home().join("bare");
    fs::create_dir(&bin).expect("a folder");
    for name in ["git", "sh"] {
        let found =
            search_path().split(':').map(|dir| PathBuf::from(dir).join(name)).find(|path| path.exists());
        std::os::unix::fs::symlink(found.expect(name), bin.join(name)).expect("a link");
    }
    bin.to_str().expect("a readable path").to_owned()
}

#[test]
fn a_missing_program_is_reported_with_how_to_install_it() {
    let mut sandbox = Sandbox::gated("verify: [\"true\"]\n");
    let path = bare_path(&sandbox);
    sandbox.set("PATH", path);
    let table =
        [("claude", "npm install -g @anthropic-ai/claude-code"), ("codex", "npm install -g @openai/codex")];
    for (agent, how) in table {
        let ran = sandbox.ralph(&["loop", "x", "--agent", agent]).exits(2).says(how);
        assert!(ran.stderr.contains(&format!("`{agent}`")), "{ran:#?}");
    }
    nothing_ran(&sandbox);
}

#[test]
fn a_missing_key_is_reported_before_anything_runs() {
    let scene = Scene::of_claude("touch gate-ran", "");
    let loop_with = |flag: &str| scene.sandbox.ralph(&["loop", "x", flag]);
    loop_with("--with-glm5").exits(2).says("ZAI_API_KEY");
    loop_with("--mmc").exits(2).says("MINIMAX_API_KEY");
    assert_eq!(scene.runs(), 0);
    assert!(!scene.sandbox.exists("gate-ran"));
    nothing_ran(&scene.sandbox);
}

#[test]
fn an_unknown_agent_is_refused_with_a_suggestion() {
    let sandbox = Sandbox::gated("verify: [\"true\"]\n");
    sandbox.ralph(&["loop", "x", "--agent", "cluade"]).exits(2).says("did you mean `claude`");
    sandbox.ralph(&["loop", "x", "--agent", "command:"]).exits(2).says("command:./agent.sh");
    sandbox.ralph(&["loop", "x", "--with-glm5", "--mmc"]).exits(2);
    nothing_ran(&sandbox);
}

/// Tries to start a loop of its own, and notes the result.
const NESTED: &str =
    r#"{ "$RALPH" loop nested --agent 'command:touch nested' 2>&1; echo "code $?"; } > "$NOTES/inner""#;

#[test]
fn a_loop_inside_a_loop_is_refused() {
    let scene = Scene::new(DONE, &format!("{NESTED}; : > done.txt"));
    verified(scene.drive(&[]));
    let inner = scene.note("inner");
    assert!(inner.contains("already running inside a ralph loop") && inner.ends_with("code 2\n"), "{inner}");
    assert!(!scene.sandbox.exists("nested"));
    scene.has_iterations(1);
}

#[test]
fn a_gate_cannot_start_a_loop() {
    let scene = Scene::new(&format!("{NESTED}; test -f done.txt"), ": > done.txt");
    verified(scene.drive(&[]));
    let inner = scene.note("inner");
    assert!(inner.contains("a gate cannot start a loop") && inner.ends_with("code 2\n"), "{inner}");
    assert!(!scene.sandbox.exists("nested"));
}

#[test]
fn an_agent_that_removes_its_mark_cannot_start_a_loop_either() {
    let scene = Scene::new(DONE, &format!("unset RALPH_LOOP; {NESTED}; : > done.txt"));
    verified(scene.drive(&[]));
    let inner = scene.note("inner");
    assert!(inner.contains("already running inside a ralph loop"), "{inner}");
    assert!(!scene.sandbox.exists("nested"));
}

#[test]
fn two_drivers_never_share_a_work_tree() {
    let scene = Scene::new(DONE, &format!("test $run -gt 1 && : > done.txt && exit\n{STAYS}"));
    let second = |words: &[&str]| Running::of(scene.sandbox.command(words)).end();
    let first = scene.start(&[]);
    scene.await_process("child");
    let id = scene.loop_id();
    for words in [&COMMAND[..], &["resume", &id], &["resume"]] {
        second(words).exits(3).says("already running in this work tree");
    }
    assert_eq!(scene.runs(), 1, "another process ran the agent");
    // A dead process has no lock.
    first.signal(Signal::KILL);
    first.end();
    verified(scene.resume(&[]).end());
    scene.has_iterations(1);
    assert!(!scene.sandbox.exists("ran"));
}
