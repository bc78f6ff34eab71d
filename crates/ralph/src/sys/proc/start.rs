//! Starts a command as leader of a new session, with nothing of ours but what it prints into.

use std::fs::{self, File};
use std::io::{self, PipeWriter};
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use rustix::io::{Errno, FdFlags};
use rustix::process::Pid;

use super::descendants::MARK;
use super::{Job, What};

/// By its full path: what `sh` is must not depend on the `PATH` a project gives its gates.
const SHELL: &str = "/bin/sh";

/// Without a pipe of their own, errors go where the output goes.
#[expect(clippy::disallowed_methods, reason = "this is where gates and agents start")]
#[expect(unsafe_code, reason = "std has no stable way to start a child in a new session")]
pub(super) fn leader(job: &Job<'_>, output: PipeWriter, errors: Option<PipeWriter>) -> io::Result<Pid> {
    let (mut command, stdin) = match job.command {
        What::Shell(line) => {
            let mut shell = Command::new(SHELL);
            shell.arg0("sh").args(["-c", line]);
            (shell, None)
        }
        What::Program { program, arguments, stdin } => {
            let mut command = Command::new(program);
            command.args(arguments);
            (command, stdin)
        }
    };
    command
        .current_dir(job.dir)
        .env_clear()
        .envs(job.env.iter().map(|(name, value)| (name, value)))
        .env(MARK, job.marker)
        .stdin(File::open(stdin.unwrap_or(Path::new("/dev/null")))?)
        .stderr(errors.map_or_else(|| output.try_clone(), Ok)?)
        .stdout(output);
    let (inherited, us) = (inherited_files(), rustix::process::getpid());
    let dies_with_us = job.manners.dies_with_us;
    // SAFETY: the closure runs between fork and exec, where only async-signal-safe calls are allowed. It makes
    // system calls, setsid, prctl, fcntl and getppid, and neither allocates nor takes a lock. A number that is not open
    // any more is refused by fcntl; one that is in use anew is already closed on exec, as all std opens.
    unsafe {
        command.pre_exec(move || {
            // So it has no terminal to ask or to be stopped by, and bears a mark that it can only exchange for another.
            rustix::process::setsid()?;
            #[cfg(target_os = "linux")]
            if dies_with_us {
                rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
            }
            for file in inherited {
                rustix::io::fcntl_setfd(BorrowedFd::borrow_raw(*file), FdFlags::CLOEXEC).ok();
            }
            // If we were killed meanwhile, nothing could find it by its marks yet.
            if rustix::process::getppid() == Some(us) { Ok(()) } else { Err(Errno::SRCH.into()) }
        });
    }
    #[cfg(not(target_os = "linux"))]
    let _only_linux_can = dies_with_us;
    // It is waited for by its number.
    Ok(Pid::from_child(&command.spawn()?))
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
