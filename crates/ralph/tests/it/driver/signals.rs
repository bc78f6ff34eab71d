//! Signals from outside.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::scene::{DONE, STAYS, Scene, executable, is_gone, unverified, verified};
use ralph_testkit::search_path;

/// Waits in its first run, does the work in the next.
fn fixes_later() -> Scene {
    Scene::new(DONE, &format!("test $run -gt 1 && : > done.txt && exit\n{STAYS}"))
}

#[test]
fn each_signal_pauses_ends_the_agent_and_its_children_and_has_its_own_code() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let scene = fixes_later();
        let running = scene.start(&[]);
        let (agent, child) = (scene.await_process("agent"), scene.await_process("child"));
        running.signal(signal);
        unverified(running.end(), code);
        is_gone(agent);
        is_gone(child);
        scene.is_paused_because("interrupted");
        assert_eq!(scene.ends(), ["interrupted"]);
        verified(scene.resume(&[]).end());
        // The same iteration once more, and it counts once.
        scene.has_iterations(1);
        assert_eq!(scene.event_fields("agent_ended", "iteration"), [1, 1]);
        assert!(scene.prompt(2).starts_with("Iteration 1 of 15."), "{}", scene.prompt(2));
    }
}

#[test]
fn a_loop_interrupted_in_its_gates_is_judged_when_resumed() {
    let gate = r#"echo $$ > "$NOTES/gate"; test -f "$NOTES/resumed" || sleep 1000; test -f done.txt"#;
    let scene = Scene::new(gate, ": > done.txt");
    let running = scene.start(&[]);
    let gate = scene.await_process("gate");
    running.signal(Signal::INT);
    unverified(running.end(), 130);
    is_gone(gate);
    scene.is_paused_because("interrupted");
    std::fs::write(scene.note_path("resumed"), "").expect("a note");
    verified(scene.resume(&[]).end());
    scene.has_iterations(1);
    assert_eq!(scene.runs(), 1, "an agent that has ended is not run again");
}

#[test]
fn the_second_signal_ends_the_driver_at_once() {
    let agent = r#"
trap 'echo asked > "$NOTES/asked"' INT
trap '' TERM
echo $$ > "$NOTES/agent"
while :; do sleep 0.05; done"#;
    let scene = Scene::new(DONE, agent);
    let running = scene.start(&[]);
    let agent = scene.await_process("agent");
    running.signal(Signal::INT);
    scene.await_note("asked");
    let insisted = Instant::now();
    running.signal(Signal::INT);
    unverified(running.end(), 130);
    let took = insisted.elapsed();
    assert!(took < Duration::from_secs(3), "it was given its whole grace: {took:?}");
    is_gone(agent);
    scene.is_paused_because("interrupted");
}

/// Git records the tree before the agent may change it, and here git is slow.
#[test]
fn the_second_signal_does_not_wait_for_git_either() {
    let mut scene = Scene::new(DONE, STAYS);
    let bin = scene.sandbox.home().join("bin");
    fs::create_dir(&bin).expect("a folder");
    let slow = r#"#!/bin/sh
case " $* " in *" add "*) echo $$ > "$NOTES/git"; sleep 30 ;; esac
PATH=${PATH#*:} exec git "$@"
"#;
    fs::write(bin.join("git"), slow).expect("our own");
    executable(bin.join("git"));
    scene.sandbox.set("PATH", format!("{}:{}", bin.display(), search_path()));
    let running = scene.start(&[]);
    scene.await_note("git");
    let begun = Instant::now();
    running.signal(Signal::INT);
    running.signal(Signal::TERM);
    unverified(running.end(), 143);
    assert!(begun.elapsed() < Duration::from_secs(10), "it waited for git: {:?}", begun.elapsed());
    assert_eq!(scene.runs(), 0, "an agent was started after the signal");
    scene.is_paused_because("interrupted");
}

#[test]
fn an_agent_that_ignores_signals_is_killed() {
    let agent = r#"
trap '' INT TERM HUP
echo $$ > "$NOTES/agent"
while :; do sleep 0.05; done"#;
    let scene = Scene::new(DONE, agent);
    let running = scene.start(&[]);
    let agent = scene.await_process("agent");
    running.signal(Signal::TERM);
    unverified(running.end(), 143);
    is_gone(agent);
    scene.is_paused_because("interrupted");
}

#[test]
fn a_closed_pipe_changes_nothing() {
    let agent = r#"seq 20000; test $run = 3 && : > done.txt; echo $run > work"#;
    for flags in ["", "--json", "--quiet"] {
        let scene = Scene::new(DONE, agent);
        // The driver's own exit code is lost in a pipe: the ledger records how it ended.
        let line = format!(
            r#""$RALPH" loop 'shut the door' --agent command:./agent.sh {flags} 2>"$NOTES/stderr" | head -1"#
        );
        let template = scene.command(&[]);
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).env_clear().current_dir(scene.sandbox.project());
        shell.envs(template.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = shell.output().expect("a shell");
        assert!(output.status.success(), "{flags}: {output:?}");
        scene.has_iterations(3);
        scene.ended_as("verified");
        let stderr = scene.note("stderr");
        assert!(!stderr.contains("panicked"), "{flags}: {stderr}");
    }
}

#[test]
fn pipes_closed_from_the_start_change_nothing_either() {
    for flags in [&[][..], &["--json"]] {
        let scene = Scene::new(DONE, "echo hello; test $run = 2 && : > done.txt; echo $run > work");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = scene.command(flags);
        command.stdout(writer.try_clone().expect("a pipe")).stderr(writer);
        let status = command.status().expect("the binary");
        assert_eq!(status.code(), Some(0), "{flags:?}");
        scene.ended_as("verified");
    }
}
