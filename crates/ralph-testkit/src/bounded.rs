//! Runs a program that may never end, and always comes back.
//!
//! Promises: the call returns soon after the time-out at the latest, and nothing of the program's process group
//! is alive afterwards. Output goes to files, not to pipes: a grandchild that keeps a pipe open would hold its
//! reader for as long as it lives.

use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use tempfile::NamedTempFile;

/// How long a program may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(20);

pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) timed_out: bool,
    pub(crate) took: Duration,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

/// What a program is told on its stdin next.
pub(crate) enum Words {
    /// It has yet to answer what it was told before.
    NotYet,
    /// A line, without its end.
    Line(String),
    /// Its stdin is closed, and nobody is asked again.
    NoMore,
}

/// Runs `command` with stdin on /dev/null, in its own process group, for at most `timeout`.
pub(crate) fn run(command: &mut Command, timeout: Duration) -> io::Result<Ended> {
    command.stdin(Stdio::null());
    run_with(command, timeout, |_| Words::NoMore)
}

/// The same with a pipe for stdin. What goes into it is asked over and over, with all that the program has printed.
/// A line must fit into a pipe: a program that reads nothing holds whoever writes more.
pub(crate) fn converse(
    command: &mut Command,
    timeout: Duration,
    speak: impl FnMut(&[u8]) -> Words,
) -> io::Result<Ended> {
    command.stdin(Stdio::piped());
    run_with(command, timeout, speak)
}

fn run_with(
    command: &mut Command,
    timeout: Duration,
    mut speak: impl FnMut(&[u8]) -> Words,
) -> io::Result<Ended> {
    // Reopened, not cloned: a clone would share its position with whatever still writes while we read.
    let (stdout, stderr) = (NamedTempFile::new()?, NamedTempFile::new()?);
    command.stdout(stdout.reopen()?).stderr(stderr.reopen()?).process_group(0);
    let begun = Instant::now();
    let mut child = command.spawn()?;
    let mut stdin = child.stdin.take();
    let timed_out = !ended_within(&child, timeout, || {
        if let Some(pipe) = &mut stdin
            && !goes_on(pipe, speak(&fs::read(&stdout)?))
        {
            stdin = None;
        }
        Ok(())
    })?;
    if timed_out {
        signal_group(&child, Signal::TERM);
        ended_within(&child, GRACE, || Ok(()))?;
    }
    // The child is not reaped yet, so its number is still its own and the group cannot be a stranger's.
    signal_group(&child, Signal::KILL);
    let status = child.wait()?;
    let took = begun.elapsed();
    Ok(Ended { status, timed_out, took, stdout: fs::read(stdout)?, stderr: fs::read(stderr)? })
}

/// Says it, and tells whether there is more to come. Who does not listen any more is about to end.
fn goes_on(pipe: &mut ChildStdin, words: Words) -> bool {
    match words {
        Words::NotYet => true,
        Words::Line(line) => pipe.write_all(format!("{line}\n").as_bytes()).is_ok(),
        Words::NoMore => false,
    }
}

/// Whether the child ended in time. It is left unreaped (`NOWAIT`).
fn ended_within(
    child: &Child,
    time: Duration,
    mut meanwhile: impl FnMut() -> io::Result<()>,
) -> io::Result<bool> {
    let deadline = Instant::now() + time;
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    loop {
        if rustix::process::waitid(WaitId::Pid(Pid::from_child(child)), options)?.is_some() {
            return Ok(true);
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
        meanwhile()?;
        thread::sleep(POLL);
    }
}

/// An error here is a group without a living member, which is what the signal was for.
fn signal_group(child: &Child, signal: Signal) {
    rustix::process::kill_process_group(Pid::from_child(child), signal).ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_ends_gives_its_status_and_both_streams() {
        let ended =
            run(Command::new("sh").args(["-c", "echo out; echo err >&2; exit 7"]), Duration::from_secs(20))
                .unwrap();
        assert_eq!(ended.status.code(), Some(7));
        assert!(!ended.timed_out);
        assert_eq!(ended.stdout, b"out\n");
        assert_eq!(ended.stderr, b"err\n");
    }

    #[test]
    fn a_program_is_told_the_next_line_when_it_has_answered_the_last() {
        let mut told = 0;
        let ended = converse(
            Command::new("sh").args(["-c", "while read line; do echo \"got $line\"; done; echo end"]),
            Duration::from_secs(20),
            |printed| {
                let answered = printed.split(|byte| *byte == b'\n').count() - 1;
                match (answered == told, told) {
                    (false, _) => Words::NotYet,
                    (true, 3) => Words::NoMore,
                    (true, _) => {
                        told += 1;
                        Words::Line(told.to_string())
                    }
                }
            },
        )
        .unwrap();
        assert_eq!(ended.status.code(), Some(0));
        assert_eq!(String::from_utf8_lossy(&ended.stdout), "got 1\ngot 2\ngot 3\nend\n");
    }

    #[test]
    fn a_program_that_does_not_listen_holds_nobody() {
        let begun = Instant::now();
        let ended =
            converse(&mut Command::new("true"), Duration::from_secs(20), |_| Words::Line("hello".into()));
        assert_eq!(ended.unwrap().status.code(), Some(0));
        assert!(begun.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_program_that_hangs_is_ended_with_its_whole_group() {
        let begun = Instant::now();
        let ended =
            run(Command::new("sh").args(["-c", "sleep 30 & echo $!; wait"]), Duration::from_millis(300))
                .unwrap();
        assert!(ended.timed_out);
        assert!(begun.elapsed() < Duration::from_secs(10));
        assert!(is_gone(&ended.stdout));
    }

    #[test]
    fn what_a_program_leaves_in_its_group_ends_with_it() {
        let ended =
            run(Command::new("sh").args(["-c", "sleep 30 & echo $!"]), Duration::from_secs(20)).unwrap();
        assert!(!ended.timed_out);
        assert!(is_gone(&ended.stdout));
    }

    /// Gone, or a zombie that its new parent has not collected yet.
    fn is_gone(pid: &[u8]) -> bool {
        let pid = String::from_utf8_lossy(pid);
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline {
            let state = Command::new("ps").args(["-o", "stat=", "-p", pid.trim()]).output().unwrap().stdout;
            if state.is_empty() || state.starts_with(b"Z") {
                return true;
            }
            thread::sleep(POLL);
        }
        false
    }
}
