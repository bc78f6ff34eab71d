//! Each subcommand of `misbehave` does what it says. Every process that a test starts or leaves behind ends with it.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use ralph_testkit::Pty;
use rustix::process::{Pid, Signal, getsid, kill_process, test_kill_process};

const SOON: Duration = Duration::from_secs(10);
const A_MOMENT: Duration = Duration::from_millis(300);

fn misbehave(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_misbehave"));
    command.args(args).stdin(Stdio::null());
    command
}

fn output(args: &[&str]) -> Output {
    misbehave(args).output().unwrap()
}

fn exit_of(args: &[&str]) -> Option<i32> {
    output(args).status.code()
}

/// Ended when the test ends, even by a panic.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    fn is_alive_after(&mut self, time: Duration) -> bool {
        thread::sleep(time);
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// A process that `misbehave` left behind, found by its output.
struct Leftover(Pid);

impl Leftover {
    fn named_in(line: &str) -> Self {
        let number = line.trim().strip_prefix("left behind: process ").expect(line);
        Self(Pid::from_raw(number.parse().unwrap()).unwrap())
    }

    fn is_alive_in_its_own_session(&self) -> bool {
        test_kill_process(self.0).is_ok() && getsid(Some(self.0)).unwrap() == self.0
    }
}

impl Drop for Leftover {
    fn drop(&mut self) {
        kill_process(self.0, Signal::KILL).ok();
    }
}

#[test]
fn hang_hangs_and_ends_by_sigterm() {
    let mut hanging = Running::start(&mut misbehave(&["hang"]));
    assert!(hanging.is_alive_after(A_MOMENT));
    kill_process(hanging.pid(), Signal::TERM).unwrap();
    assert_eq!(hanging.0.wait().unwrap().signal(), Some(15));
}

#[test]
fn ignore_term_needs_sigkill() {
    let mut stubborn = Running::start(misbehave(&["ignore-term"]).stdout(Stdio::piped()));
    let mut line = String::new();
    BufReader::new(stubborn.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "SIGTERM is ignored\n");
    kill_process(stubborn.pid(), Signal::TERM).unwrap();
    assert!(stubborn.is_alive_after(A_MOMENT));
    kill_process(stubborn.pid(), Signal::KILL).unwrap();
    assert_eq!(stubborn.0.wait().unwrap().signal(), Some(9));
}

#[test]
fn daemon_exits_and_leaves_a_session_that_keeps_stdout_open() {
    let mut parent = Running::start(misbehave(&["daemon"]).process_group(0).stdout(Stdio::piped()));
    let mut stdout = BufReader::new(parent.0.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let leftover = Leftover::named_in(&line);
    assert_eq!(parent.0.wait().unwrap().code(), Some(0));
    assert!(leftover.is_alive_in_its_own_session());

    let end = end_of(stdout);
    assert!(end.recv_timeout(A_MOMENT).is_err(), "stdout is at its end while the daemon lives");
    drop(leftover);
    assert!(end.recv_timeout(SOON).is_ok(), "stdout is open after the daemon's end");
}

fn end_of(mut stdout: BufReader<ChildStdout>) -> mpsc::Receiver<()> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        stdout.read_to_end(&mut Vec::new()).unwrap();
        sender.send(()).ok();
    });
    receiver
}

#[test]
fn quiet_and_double_daemons_leave_a_session_and_close_stdout() {
    for subcommand in ["quiet-daemon", "double-daemon"] {
        let begun = Instant::now();
        let output = misbehave(&[subcommand]).process_group(0).output().unwrap();
        let leftover = Leftover::named_in(&String::from_utf8(output.stdout).unwrap());
        assert!(begun.elapsed() < SOON, "{subcommand} holds stdout");
        assert_eq!(output.status.code(), Some(0), "{subcommand}");
        assert!(leftover.is_alive_in_its_own_session(), "{subcommand}");
    }
}

#[test]
fn flood_writes_exactly_that_many_bytes() {
    assert_eq!(output(&["flood", "0"]).stdout.len(), 0);
    assert_eq!(output(&["flood", "100001"]).stdout.len(), 100_001);
    let begun = Instant::now();
    let many = 100_000_000;
    let mut flood = misbehave(&["flood", &many.to_string()]).stdout(Stdio::piped()).spawn().unwrap();
    let counted = std::io::copy(flood.stdout.as_mut().unwrap(), &mut std::io::sink()).unwrap();
    assert!(flood.wait().unwrap().success());
    assert_eq!(counted, many);
    assert!(begun.elapsed() < SOON);
}

#[test]
fn bytes_are_not_text() {
    let bytes = output(&["bytes"]).stdout;
    assert!(std::str::from_utf8(&bytes).is_err());
    for needle in [b"\0".as_slice(), b"\x1b[31m", b"\x1b]0;", b"\x9b", "\u{202e}".as_bytes()] {
        assert!(bytes.windows(needle.len()).any(|window| window == needle), "no {needle:?}");
    }
    let longest = bytes.split(|byte| *byte == b'\n').map(<[u8]>::len).max();
    assert_eq!(longest, Some(1_000_000));
}

#[test]
fn kill_self_dies_by_the_signal() {
    let scratch = tempfile::tempdir().unwrap();
    for (name, number) in [("TERM", 15), ("SIGKILL", 9), ("9", 9), ("SEGV", 11), ("ABRT", 6)] {
        // In a scratch folder: some of these signals may leave a core file.
        let status = misbehave(&["kill-self", name]).current_dir(&scratch).status().unwrap();
        assert_eq!(status.signal(), Some(number), "{name}");
    }
}

#[test]
fn kill_parent_kills_the_shell_that_started_it() {
    let script = r#""$0" kill-parent; echo survived"#;
    let shell = Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_misbehave")]).output().unwrap();
    assert_eq!(shell.status.signal(), Some(9));
    assert_eq!(shell.stdout, b"");
}

#[test]
fn kill_parent_that_replaced_a_shell_kills_the_parent_of_the_shell() {
    let script = r#"sh -c 'exec "$0" kill-parent' "$0"; echo survived"#;
    let shell = Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_misbehave")]).output().unwrap();
    assert_eq!(shell.status.signal(), Some(9));
    assert_eq!(shell.stdout, b"");
}

#[test]
fn tty_finds_no_terminal_in_a_session_without_one() {
    assert_eq!(exit_of(&["detached", "tty"]), Some(0));
}

#[test]
fn tty_finds_the_terminal_it_is_given() {
    let on_terminal = Pty::open().start(&misbehave(&["tty"]));
    assert_eq!(on_terminal.finish().code, Some(3));
}

#[test]
fn stdin_at_its_end_is_fine_and_anything_else_is_not() {
    assert_eq!(exit_of(&["stdin"]), Some(0));

    let mut blocking = Running::start(misbehave(&["stdin"]).stdin(Stdio::piped()));
    let held_open = blocking.0.stdin.take();
    assert_eq!(blocking.0.wait().unwrap().code(), Some(3));
    drop(held_open);

    let mut given = Running::start(misbehave(&["stdin"]).stdin(Stdio::piped()));
    given.0.stdin.take().unwrap().write_all(b"x").unwrap();
    assert_eq!(given.0.wait().unwrap().code(), Some(3));
}

#[test]
fn flaky_passes_from_the_nth_call_on() {
    let folder = tempfile::tempdir().unwrap();
    let counter = folder.path().join("calls");
    let call = || exit_of(&["flaky", counter.to_str().unwrap(), "3"]);
    assert_eq!([call(), call(), call(), call()], [Some(1), Some(1), Some(0), Some(0)]);
}

#[test]
fn touch_tree_changes_its_file_every_time() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    for lines in 1..=3 {
        assert_eq!(exit_of(&["touch-tree", file.to_str().unwrap()]), Some(0));
        assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), lines);
    }
}

#[test]
fn format_once_settles_on_the_second_call() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "some text\n").unwrap();
    assert_eq!(exit_of(&["format-once", file.to_str().unwrap()]), Some(0));
    assert_eq!(fs::read_to_string(&file).unwrap(), "SOME TEXT\n");
    let settled = File::open(&file).unwrap().metadata().unwrap().modified().unwrap();
    assert_eq!(exit_of(&["format-once", file.to_str().unwrap()]), Some(0));
    assert_eq!(File::open(&file).unwrap().metadata().unwrap().modified().unwrap(), settled);
}

#[test]
fn env_is_sorted_and_complete() {
    let output = misbehave(&["env"]).env_clear().env("B", "2").env("A", "one two").output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "A=one two\nB=2\n");
}

#[test]
fn lines_come_before_the_exit_code() {
    let output = output(&["print-out", "to stdout", "print-err", "to stderr", "exit", "7"]);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(output.stdout, b"to stdout\n");
    assert_eq!(output.stderr, b"to stderr\n");
    assert_eq!(exit_of(&["print-out", "only this"]), Some(0));
}

#[test]
fn sleep_sleeps_that_long() {
    let begun = Instant::now();
    assert_eq!(exit_of(&["sleep", "0.2"]), Some(0));
    assert!((Duration::from_millis(200)..SOON).contains(&begun.elapsed()));
}

#[test]
fn anything_else_is_a_usage_error() {
    for args in [
        &[][..],
        &["dance"],
        &["exit"],
        &["exit", "256"],
        &["hang", "now"],
        &["flood", "many"],
        &["sleep", "-1"],
        &["kill-self", "SIGNOTHING"],
        &["print-out", "text", "dance"],
    ] {
        let output = output(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("usage: misbehave"), "{args:?}");
    }
}

#[test]
fn the_library_knows_where_the_binary_is() {
    let program = ralph_testkit::misbehave_program();
    assert_eq!(Command::new(program).args(["exit", "5"]).status().unwrap().code(), Some(5));
}
