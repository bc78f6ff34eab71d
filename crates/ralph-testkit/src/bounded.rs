//! Runs a program that may never end, and always returns.
//!
//! Guarantees: the call returns soon after the timeout at the latest, and no process of the program's group
//! is alive afterwards. Output goes to files, not to pipes: a grandchild that keeps a pipe open would block its
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

/// The next line for the program's stdin.
pub(crate) enum Words {
    /// The program has not answered the previous line yet.
    NotYet,
    /// A line, without its newline.
    Line(String),
    /// Close stdin and do not ask again.
    NoMore,
}

/// Runs `command` with stdin on /dev/null, in its own process group, for at most `timeout`.
pub(crate) fn run(command: &mut Command, timeout: Duration) -> io::Result<Ended> {
    command.stdin(Stdio::null());
    run_with(command, timeout, |_| Words::NoMore)
}

/// The same with a pipe for stdin. `speak` is called repeatedly with everything the program has printed.
/// A line must fit into a pipe buffer: a program that does not read would block a longer write.
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
    // Reopened, not cloned: a clone would share its position with a process that still writes while we read.
    let (stdout, stderr) = (NamedTempFile::new()?, NamedTempFile::new()?);
    command.stdout(stdout.reopen()?).stderr(stderr.reopen()?).process_group(0);
    let begun = Instant::now();
    let mut child = command.spawn()?;
    let mut stdin = child.stdin.take();
    let timed_out = !ended_within(&child, timeout, || {
        if let Some(pipe) = &mut stdin
            && !write_next(pipe, speak(&fs::read(&stdout)?))
        {
            stdin = None;
        }
        Ok(())
    })?;
    if timed_out {
        signal_group(&child, Signal::TERM);
        ended_within(&child, GRACE, || Ok(()))?;
    }
    // The child is not reaped yet, so its number cannot have been reused and the group is still ours.
    signal_group(&child, Signal::KILL);
    let status = child.wait()?;
    let took = begun.elapsed();
    Ok(Ended { status, timed_out, took, stdout: fs::read(stdout)?, stderr: fs::read(stderr)? })
}

/// Writes the next line; false when there is nothing more to write. A failed write means that the program is ending.
fn write_next(pipe: &mut ChildStdin, words: Words) -> bool {
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

/// An error means that the group has no living member, which is the goal of the signal.
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
    fn a_program_gets_the_next_line_after_it_answered_the_last() {
        let mut message = 0;
        let ended = converse(
            Command::new("sh").args(["-c", "while read line; do echo \"got $line\"; done; echo end"]),
            Duration::from_secs(20),
            |printed| {
                let answered = printed.split(|byte| *byte == b'\n').count() - 1;
                match (answered == message, message) {
                    (false, _) => Words::NotYet,
                    (true, 3) => Words::NoMore,
                    (true, _) => {
                        message += 1;
                        Words::Line(message.to_string())
                    }
                }
            },
        )
        .unwrap();
        assert_eq!(ended.status.code(), Some(0));
        assert_eq!(String::from_utf8_lossy(&ended.stdout), "got 1\ngot 2\ngot 3\nend\n");
    }

    #[test]
    fn a_program_that_does_not_read_stdin_does_not_block_the_caller() {
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
    fn processes_left_in_the_group_of_a_program_end_with_it() {
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
            if !crate::is_alive(pid.trim().parse().unwrap()) {
                return true;
            }
            thread::sleep(POLL);
        }
        false
    }
}
