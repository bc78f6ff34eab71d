//! System calls available on every Unix: wait for a command's exit, signal its group, reap it.

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus};

/// How a command's own process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Exit {
    Code(i32),
    Signal(i32),
    /// Another part of the process took the status, as happens if ralph was started with SIGCHLD ignored.
    Lost(String),
}

/// Waits for the exit of `leader` and leaves it as a zombie, so that its PID, which is also its group and session id,
/// cannot be reused while we still send signals to it.
pub(super) fn await_exit(leader: Pid) -> Exit {
    loop {
        match rustix::process::waitid(WaitId::Pid(leader), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Ok(Some(status)) => return exit_of(&status),
            Ok(None) | Err(Errno::INTR) => {}
            Err(error) => return Exit::Lost(error.to_string()),
        }
    }
}

fn exit_of(status: &WaitIdStatus) -> Exit {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Lost(format!("unexpected wait status {}", status.raw_code())),
    }
}

/// Reaps a zombie. Does nothing if `pid` is still running.
pub(super) fn reap(pid: Pid) {
    rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG).ok();
}

/// Reaps a child that is exiting.
pub(super) fn wait_and_reap(pid: Pid) {
    while matches!(rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED), Err(Errno::INTR)) {}
}

/// Only while `leader` has not been reaped: see [`await_exit`].
pub(super) fn signal_group(leader: Pid, signal: Signal) {
    // An empty group is the goal.
    rustix::process::kill_process_group(leader, signal).ok();
}
