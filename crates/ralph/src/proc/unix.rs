//! The few calls every unix has: start a session leader, learn of its exit, signal its group.

use std::fs;
use std::io::{self, PipeWriter};
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use rustix::io::{Errno, FdFlags};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus};

use super::descendants::MARK;
use super::{Job, What, processes};

/// By its full path: what `sh` is must not depend on the `PATH` a project gives its gates.
const SHELL: &str = "/bin/sh";

/// How a command's own process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Exit {
    Code(i32),
    Signal(i32),
    /// Somebody else took the status, as happens when this process was started with SIGCHLD ignored.
    Lost(String),
}

/// Starts the command as leader of a new session, with nothing of ours but one pipe for both its outputs.
pub(super) fn spawn(job: &Job<'_>, output: PipeWriter) -> io::Result<Child> {
    let mut command = match job.command {
        What::Shell(line) => {
            let mut command = Command::new(SHELL);
            command.arg0("sh").args(["-c", line]).stdin(Stdio::null());
            command
        }
        What::Program { program, arguments, stdin } => {
            let mut command = Command::new(program);
            let stdin = stdin.map(fs::File::open).transpose()?;
            command.args(arguments).stdin(stdin.map_or_else(Stdio::null, Stdio::from));
            command
        }
    };
    command
        .current_dir(job.dir)
        .env_clear()
        .envs(job.env.iter().map(|(name, value)| (name, value)))
        .env(MARK, job.marker)
        .stdout(output.try_clone()?)
        .stderr(output);
    prepare_child(&mut command, job.manners.dies_with_us);
    command.spawn()
}

/// Last steps in the child: a session of its own, so that it has no terminal to ask or to be stopped by and
/// bears a mark it can lose only by taking another; nothing open that our own starter left open for us; and no step more
/// if we were killed meanwhile, since nobody could find it by its marks yet.
#[expect(unsafe_code, reason = "std has no stable way to start a child in a new session")]
fn prepare_child(command: &mut Command, dies_with_us: bool) {
    let inherited = inherited_files();
    let us = rustix::process::getpid();
    // SAFETY: the closure runs between fork and exec, where only async-signal-safe calls are allowed. It makes
    // system calls, setsid, prctl, fcntl and getppid, and neither allocates nor takes a lock. A number that is not open any more
    // is refused by fcntl; one that is in use anew is already closed on exec, as all std opens.
    unsafe {
        command.pre_exec(move || {
            rustix::process::setsid()?;
            if dies_with_us {
                processes::die_with_parent();
            }
            for file in inherited {
                rustix::io::fcntl_setfd(BorrowedFd::borrow_raw(*file), FdFlags::CLOEXEC).ok();
            }
            if rustix::process::getppid() == Some(us) { Ok(()) } else { Err(Errno::SRCH.into()) }
        });
    }
}

/// What was open beside the three standard streams when the first command was started. Files we open ourselves
/// close on exec, but those a shell or a client left open to us would go on to every command and all it leaves.
fn inherited_files() -> &'static [RawFd] {
    static INHERITED: OnceLock<Vec<RawFd>> = OnceLock::new();
    INHERITED.get_or_init(|| {
        let Ok(open) = fs::read_dir("/dev/fd") else { return Vec::new() };
        let numbers = open.flatten().filter_map(|file| file.file_name().to_str()?.parse().ok());
        numbers.filter(|number| *number > 2).collect()
    })
}

/// Waits for the exit of `leader` and leaves it as a zombie, so that its number, which is also the number of
/// its group and session, cannot go to a stranger while we still send signals there.
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

/// Takes the status of a zombie. Does nothing if `pid` is still running.
pub(super) fn reap(pid: Pid) {
    rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG).ok();
}

/// Only while `leader` has not been reaped: see [`await_exit`].
pub(super) fn signal_group(leader: Pid, signal: Signal) {
    // An empty group is what we want in the end.
    rustix::process::kill_process_group(leader, signal).ok();
}
