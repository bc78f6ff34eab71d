//! Runs a program that may never end, and always comes back.
//!
//! Promises: the call returns soon after the time-out at the latest, and nothing of the program's process group
//! is alive afterwards. Output goes to files, not to pipes: a grandchild that keeps a pipe open would hold its
//! reader for as long as it lives.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

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

/// Runs `command` with stdin on /dev/null, in its own process group, for at most `timeout`.
pub(crate) fn run(command: &mut Command, timeout: Duration) -> io::Result<Ended> {
    // Reopened, not cloned: a clone would share its position with whatever still writes while we read.
    let (stdout, stderr) = (NamedTempFile::new()?, NamedTempFile::new()?);
    command.stdin(Stdio::null()).stdout(stdout.reopen()?).stderr(stderr.reopen()?).process_group(0);
    let begun = Instant::now();
    let mut child = command.spawn()?;
    let timed_out = !ended_within(&child, timeout)?;
    if timed_out {
        signal_group(&child, Signal::TERM);
        ended_within(&child, GRACE)?;
    }
    // The child is not reaped yet, so its number is still its own and the group cannot be a stranger's.
    signal_group(&child, Signal::KILL);
    let status = child.wait()?;
    let took = begun.elapsed();
    Ok(Ended { status, timed_out, took, stdout: fs::read(stdout)?, stderr: fs::read(stderr)? })
}

/// Whether the child ended in time. It is left unreaped (`NOWAIT`).
fn ended_within(child: &Child, time: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + time;
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    loop {
        if rustix::process::waitid(WaitId::Pid(Pid::from_child(child)), options)?.is_some() {
            return Ok(true);
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
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
