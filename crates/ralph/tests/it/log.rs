//! `ralph log`: the past, event by event.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use ralph_testkit::Sandbox;

/// `ralph log -f`, and its lines as they arrive.
fn following(sandbox: &Sandbox, more: &[&str]) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut command = sandbox.command(&[&["log", "-f"], more].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("the binary");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    (child, lines.map(|line| line.expect("text")))
}

#[track_caller]
fn ends_well(mut child: Child) {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match child.try_wait().expect("a process") {
            Some(status) => return assert!(status.success(), "{status}"),
            None if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(10)),
            None => {
                child.kill().expect("it is ours");
                panic!("it did not end");
            }
        }
    }
}

fn event_of(line: &str) -> String {
    serde_json::from_str::<Value>(line).expect("JSON")["event"]["event"].as_str().expect("a name").to_owned()
}

#[test]
fn a_loop_is_followed_until_it_is_over() {
    let sandbox = Sandbox::gated("verify: [test -e done.txt]\n");
    sandbox.stop("check").answer().blocked();
    let (child, mut lines) = following(&sandbox, &["--json"]);
    let first: Vec<String> = lines.by_ref().take(4).map(|line| event_of(&line)).collect();
    assert_eq!(first, ["began", "run_started", "gate_ran", "judged"]);
    sandbox.file("done.txt", "");
    sandbox.stop("check").answer().allowed().expect("verified");
    let rest: Vec<String> = lines.map(|line| event_of(&line)).collect();
    assert_eq!(rest, ["run_started", "gate_ran", "judged"]);
    ends_well(child);
}

#[test]
fn log_follow_ends_with_its_reader() {
    let sandbox = Sandbox::gated("verify: ['false']\n");
    sandbox.stop("check").answer().blocked();
    let (child, mut lines) = following(&sandbox, &[]);
    lines.next().expect("a line");
    // No more lines are written, and the closed pipe is still detected.
    drop(lines);
    ends_well(child);
}

#[test]
fn verify_runs_are_followed_one_after_the_other() {
    let sandbox = Sandbox::gated("verify: ['true']\n");
    sandbox.ralph(&["verify"]).success();
    let (mut child, mut lines) = following(&sandbox, &["verify", "--json"]);
    let judged = |line: &String| event_of(line) == "judged";
    assert!(lines.by_ref().any(|line| judged(&line)));
    sandbox.ralph(&["verify", "--fresh"]).success();
    assert!(lines.by_ref().any(|line| judged(&line)));
    assert!(child.try_wait().expect("a process").is_none(), "it ended by itself");
    drop(lines);
    ends_well(child);
}

#[test]
fn the_story_of_a_loop_can_be_read() {
    let sandbox = Sandbox::gated("verify: [test -e done.txt]\n");
    sandbox.stop("check").answer().blocked();
    sandbox.file("done.txt", "");
    sandbox.stop("check").answer().allowed().expect("verified");
    let message = sandbox.ralph(&["log"]).success().stdout;
    let mut from = 0;
    for part in [
        "began: `check`",
        "gate `test -e done.txt` failed with exit code 1",
        "attempt 1: blocked: gate",
        "gate `test -e done.txt` passed",
        "attempt 2: passing: All verify commands passed",
    ] {
        let at = message[from..]
            .find(part)
            .unwrap_or_else(|| panic!("`{part}` is not there or not in order:\n{message}"));
        from += at;
    }
    let names: Vec<String> = sandbox
        .ralph(&["log", "--json"])
        .success()
        .stdout
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).expect("JSON")["event"]["event"]
                .as_str()
                .expect("a name")
                .to_owned()
        })
        .collect();
    assert_eq!(names, ["began", "run_started", "gate_ran", "judged", "run_started", "gate_ran", "judged"]);
}

#[test]
fn the_lines_are_numbered_and_chained() {
    let sandbox = Sandbox::gated("verify: ['false']\n");
    sandbox.stop("check").answer().blocked();
    let events = sandbox.events();
    for (at, event) in events.iter().enumerate() {
        assert_eq!(event["seq"], at as u64 + 1, "{event}");
        assert_eq!(event["hash"].as_str().expect("a hash").len(), 64);
    }
}

#[test]
fn without_a_loop_there_is_nothing_to_log() {
    Sandbox::gated("verify: ['true']\n").ralph(&["log"]).exits(2).says("no loop in this repo yet");
}
