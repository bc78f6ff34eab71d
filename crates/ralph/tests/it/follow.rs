//! How a driven loop can be followed: the log, plain lines, JSON lines, the view on a terminal.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::Value;

use ralph_testkit::{Pty, Sandbox};

/// Done in the second iteration.
const AGENT: &str = "command:echo I am at work; if test -e begun; then touch done.txt; else touch begun; fi";

fn sandbox() -> Sandbox {
    Sandbox::gated("verify:\n  - name: door\n    run: test -e done.txt\n")
}

const LOOP: [&str; 4] = ["loop", "open the door", "--agent", AGENT];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&LOOP[..], more].concat()
}

#[test]
fn in_a_pipe_progress_is_plain_lines_and_the_log_has_the_same() {
    let sandbox = sandbox();
    let ran = sandbox.ralph(&LOOP).success();
    let logs = sandbox.ralph_home().join("logs");
    let log = fs::read_to_string(logs.join("loop-latest.log")).expect("the log");
    let mut from = 0;
    for line in [
        "task      open the door\n",
        "iteration 1 of 15\n",
        "  agent: I am at work\n",
        "  gate door failed (exit 1) in ",
        "  not done: 1 of 1 gate fails: door\n",
        "iteration 2 of 15\n",
        "  done: every gate passed; `door` red → green\n",
        "verified after 2 iterations, ",
    ] {
        let at =
            ran.stderr[from..].find(line).unwrap_or_else(|| panic!("{line:?} in order in:\n{}", ran.stderr));
        from += at;
        assert!(log.contains(line), "{line:?} in:\n{log}");
    }
    assert!(!ran.stderr.contains('\u{1b}'), "{:?}", ran.stderr);
    assert_eq!(ran.stdout.lines().last(), Some("VERIFIED_DONE"));
    assert_eq!(fs::read_dir(&logs).expect("the folder").count(), 2, "one log and the link to it");
}

#[test]
fn scripts_get_one_json_object_per_line_and_nothing_else() {
    let sandbox = sandbox();
    let ran = sandbox.ralph(&with(&["--json"])).success();
    let lines: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let last = lines.last().expect("an end");
    assert_eq!((&last["event"], &last["verdict"]), (&"ends".into(), &"verified".into()), "{last}");
    assert_eq!((&last["exit_code"], &last["iterations"]), (&0.into(), &2.into()), "{last}");
    assert_eq!(lines.iter().filter(|line| line["event"] == "judged").count(), 2);
    assert_eq!(ran.stderr, "");
}

#[test]
fn a_reader_that_closes_the_pipe_does_not_end_the_loop() {
    let sandbox = sandbox();
    for arguments in [with(&["--json"]), LOOP.to_vec()] {
        fs::remove_file(sandbox.path("done.txt")).ok();
        fs::remove_file(sandbox.path("begun")).ok();
        let mut command = sandbox.command(&arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary");
        let stdout = child.stdout.take().expect("a pipe");
        let stderr = child.stderr.take().expect("a pipe");
        let mut first = String::new();
        if arguments.contains(&"--json") {
            BufReader::new(stdout).read_line(&mut first).expect("a line");
        } else {
            BufReader::new(stderr).read_line(&mut first).expect("a line");
        }
        assert!(!first.is_empty());
        let status = child.wait().expect("an end");
        assert_eq!(status.code(), Some(0), "{arguments:?}");
        assert!(sandbox.exists("done.txt"));
    }
}

#[test]
fn quiet_prints_only_the_result() {
    let sandbox = sandbox();
    let ran = sandbox.ralph(&with(&["--quiet"])).success();
    assert_eq!(ran.stdout, "VERIFIED_DONE\n");
    assert!(ran.stderr.starts_with("verified after 2 iterations, "), "{}", ran.stderr);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
}

#[test]
fn a_log_that_cannot_be_written_is_reported_once_and_stops_nothing() {
    let sandbox = sandbox();
    fs::write(sandbox.ralph_home().join("logs"), "in the way").expect("a file");
    let ran = sandbox.ralph(&LOOP).success();
    assert_eq!(ran.stderr.matches("cannot write the log of this loop").count(), 1, "{}", ran.stderr);
}

/// The output on a terminal of this kind.
fn at_a_terminal(sandbox: &Sandbox, term: &str) -> String {
    let terminal = Pty::open();
    let mut command = sandbox.command(&LOOP);
    command.env("TERM", term).stdout(Stdio::null()).stderr(terminal.stream());
    terminal.spawn(command).finish().success().stdout
}

#[test]
fn on_a_terminal_the_live_view_leaves_a_line_for_each_iteration() {
    let said = at_a_terminal(&sandbox(), "xterm-256color");
    assert!(said.contains("\u{1b}[?7l"), "nothing was drawn: {said:?}");
    let (_, end) = said.rsplit_once("\u{1b}[?7l").expect("drawn");
    assert!(end.starts_with("\u{1b}[?7h\u{1b}[J"), "the terminal is left as it was: {end:?}");
    for part in [
        "Ctrl-C to pause",
        " iteration 1",
        "not done: 1 of 1 gate fails: door",
        "verified after 2 iterations",
    ] {
        assert!(said.contains(part), "{part:?} in {said:?}");
    }
}

#[test]
fn on_a_dumb_terminal_there_are_only_lines() {
    let said = at_a_terminal(&sandbox(), "dumb");
    assert!(!said.contains('\u{1b}'), "{said:?}");
    assert!(said.contains("iteration 2 of 15\r\n"), "{said:?}");
}
