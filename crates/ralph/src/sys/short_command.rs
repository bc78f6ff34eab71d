//! Runs one short command for its output: limited in time and size, and killed with its whole process group on a
//! timeout. Gates and agents use `proc`; this is for querying tools.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

/// Time for a process to remove its lock files after SIGTERM.
const GRACE: Duration = Duration::from_secs(1);

/// Limit on the size of the output.
const LONGEST_ANSWER: u64 = 64 << 20;

pub(crate) struct CommandOutput {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

/// A command for [`run`].
#[expect(clippy::disallowed_methods, reason = "what is started here is bounded by `run`")]
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}

/// `None` if it took too long. Its output goes to files instead of pipes, so a process that keeps one open does not
/// block us.
pub(crate) fn run(
    mut command: Command,
    input: Option<&[u8]>,
    scratch: &Path,
    limit: Duration,
) -> io::Result<Option<CommandOutput>> {
    let (mut stdout, mut stderr) = (scratch_file(scratch)?, scratch_file(scratch)?);
    let stdin = match input {
        Some(input) => Stdio::from(filled(scratch_file(scratch)?, input)?),
        None => Stdio::null(),
    };
    command.stdin(stdin).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
    // A process group but no session of its own: `proc` treats processes in another session as part of a gate.
    let child = command.process_group(0).spawn()?;
    let Some(status) = ended(child, limit)? else { return Ok(None) };
    Ok(Some(CommandOutput { status, stdout: read(&mut stdout)?, stderr: read(&mut stderr)? }))
}

/// An unnamed file: in memory if possible, since creating files on disk is slow.
fn scratch_file(scratch: &Path) -> io::Result<File> {
    #[cfg(target_os = "linux")]
    if let Ok(file) = rustix::fs::memfd_create("ralph-answer", rustix::fs::MemfdFlags::CLOEXEC) {
        return Ok(file.into());
    }
    tempfile::tempfile_in(scratch)
}

fn filled(mut file: File, content: &[u8]) -> io::Result<File> {
    file.write_all(content)?;
    file.rewind()?;
    Ok(file)
}

fn read(file: &mut File) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    file.rewind()?;
    let length = file.take(LONGEST_ANSWER + 1).read_to_end(&mut content)?;
    if length as u64 > LONGEST_ANSWER {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "its output is too long"));
    }
    Ok(content)
}

/// The exit status; `None` if it had to be killed. No process of its group is left.
fn ended(mut child: Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let Some(leader) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
        return child.wait().map(Some);
    };
    let (sender, exited) = mpsc::channel();
    thread::Builder::new().stack_size(64 * 1024).spawn(move || {
        await_exit(leader);
        sender.send(()).ok();
    })?;
    let in_time = exited.recv_timeout(limit).is_ok();
    if !in_time {
        let _gone_already = rustix::process::kill_process_group(leader, Signal::TERM);
        let _then_it_is_killed = exited.recv_timeout(GRACE);
    }
    // Until it is reaped, its PID cannot be reused: this signals only its own group.
    let _group_gone = rustix::process::kill_process_group(leader, Signal::KILL);
    let status = child.wait()?;
    Ok(in_time.then_some(status))
}

/// Leaves the process as a zombie, so that its PID is not reused.
fn await_exit(leader: Pid) {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while matches!(rustix::process::waitid(WaitId::Pid(leader), options), Ok(None) | Err(Errno::INTR)) {}
}
