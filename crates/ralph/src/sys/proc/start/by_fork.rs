//! The way that every unix has: a copy of us, which becomes the command.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::io::{Errno, FdFlags};
use rustix::process::Pid;

use super::{Leader, inherited_files};

#[expect(unsafe_code, reason = "std has no stable way to start a child in a new session")]
pub(super) fn start(leader: Leader<'_>) -> io::Result<Pid> {
    let mut command = Command::new(leader.program);
    command
        .arg0(leader.words[0])
        .args(&leader.words[1..])
        .current_dir(leader.dir)
        .env_clear()
        .envs(leader.environment)
        .stdin(leader.stdin)
        .stdout(leader.output)
        .stderr(leader.errors);
    let _only_linux_can = leader.dies_with_us;
    let inherited = inherited_files();
    let us = rustix::process::getpid();
    // SAFETY: the closure runs between fork and exec, where only async-signal-safe calls are allowed. It makes
    // system calls, setsid, fcntl and getppid, and neither allocates nor takes a lock. A number that is not open any
    // more is refused by fcntl; one that is in use anew is already closed on exec, as all std opens.
    unsafe {
        command.pre_exec(move || {
            rustix::process::setsid()?;
            for file in inherited {
                rustix::io::fcntl_setfd(BorrowedFd::borrow_raw(*file), FdFlags::CLOEXEC).ok();
            }
            if rustix::process::getppid() == Some(us) { Ok(()) } else { Err(Errno::SRCH.into()) }
        });
    }
    // It is waited for by its number.
    Ok(Pid::from_child(&command.spawn()?))
}
