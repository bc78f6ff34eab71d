//! Starts a command as leader of a new session, with nothing of ours but what it prints into.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, PipeWriter};
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::OnceLock;

use rustix::process::Pid;

use super::descendants::MARK;
use super::{Job, What};

#[cfg_attr(target_os = "linux", path = "start/by_clone.rs")]
#[cfg_attr(not(target_os = "linux"), path = "start/by_fork.rs")]
mod way;

/// By its full path: what `sh` is must not depend on the `PATH` a project gives its gates.
const SHELL: &str = "/bin/sh";

/// A command in the words of the system.
struct Leader<'a> {
    program: &'a OsStr,
    /// With the name it goes by.
    words: Vec<&'a OsStr>,
    /// All of it.
    environment: Vec<(&'a OsStr, &'a OsStr)>,
    dir: &'a Path,
    stdin: File,
    output: PipeWriter,
    errors: PipeWriter,
    /// Killed when we are, where the system can.
    dies_with_us: bool,
}

/// Without a pipe of their own, errors go where the output goes.
pub(super) fn leader(job: &Job<'_>, output: PipeWriter, errors: Option<PipeWriter>) -> io::Result<Pid> {
    let (program, words, stdin) = match job.command {
        What::Shell(line) => (OsStr::new(SHELL), ["sh", "-c", line].map(OsStr::new).into(), None),
        What::Program { program, arguments, stdin } => {
            let words = [program].into_iter().chain(arguments.iter().map(OsString::as_os_str)).collect();
            (program, words, stdin)
        }
    };
    let own = job.env.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()));
    let mark = (OsStr::new(MARK), OsStr::new(job.marker));
    way::start(Leader {
        program,
        words,
        environment: own.filter(|(name, _)| *name != mark.0).chain([mark]).collect(),
        dir: job.dir,
        stdin: File::open(stdin.unwrap_or(Path::new("/dev/null")))?,
        errors: errors.map_or_else(|| output.try_clone(), Ok)?,
        output,
        dies_with_us: job.manners.dies_with_us,
    })
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
