//! Starts a command as leader of a new session, with no inherited files except its output pipes.

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
use super::{Job, Program};

/// With its full path: `sh` must not depend on the `PATH` that a project sets for its gates.
const SHELL: &str = "/bin/sh";

/// Without a pipe of its own, stderr goes to the output pipe.
#[expect(clippy::disallowed_methods, reason = "this is where gates and agents start")]
#[expect(unsafe_code, reason = "std has no stable way to start a child in a new session")]
pub(super) fn leader(job: &Job<'_>, output: PipeWriter, errors: Option<PipeWriter>) -> io::Result<Pid> {
    let (mut command, stdin) = match job.command {
        Program::Shell(line) => {
            let mut shell = Command::new(SHELL);
            shell.arg0("sh").args(["-c", line]);
            (shell, None)
        }
        Program::Program { program, arguments, stdin } => {
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
    // SAFETY: the closure runs between fork and exec, where only async-signal-safe calls are allowed. It only makes
    // the system calls setsid, prctl, fcntl and getppid, and neither allocates nor takes a lock. fcntl refuses a
    // descriptor that is no longer open; one that was reused is already close-on-exec, like all that std opens.
    unsafe {
        command.pre_exec(move || {
            // Without a controlling terminal it cannot prompt or be stopped by one, and its session identifies it.
            rustix::process::setsid()?;
            #[cfg(target_os = "linux")]
            if dies_with_us {
                rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
            }
            for file in inherited {
                rustix::io::fcntl_setfd(BorrowedFd::borrow_raw(*file), FdFlags::CLOEXEC).ok();
            }
            // If ralph was killed meanwhile, the new process could not be found by its marker yet.
            if rustix::process::getppid() == Some(us) { Ok(()) } else { Err(Errno::SRCH.into()) }
        });
    }
    #[cfg(not(target_os = "linux"))]
    let _only_linux_can = dies_with_us;
    // The caller waits for it by PID.
    Ok(Pid::from_child(&command.spawn()?))
}

/// Descriptors that were open besides stdin, stdout and stderr when the first command started. Files we open are
/// close-on-exec, but those inherited from a shell or a client would leak into every command and its descendants.
fn inherited_files() -> &'static [RawFd] {
    static INHERITED: OnceLock<Vec<RawFd>> = OnceLock::new();
    INHERITED.get_or_init(|| {
        let Ok(open) = fs::read_dir("/dev/fd") else { return Vec::new() };
        let numbers = open.flatten().filter_map(|file| file.file_name().to_str()?.parse().ok());
        numbers.filter(|number| *number > 2).collect()
    })
}
