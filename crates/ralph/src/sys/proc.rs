//! Runs one gate command reliably and leaves no process behind.
//!
//! A gate is an arbitrary shell line. It may hang, ignore signals, flood its output, leave a server running or detach
//! it from everything. [`run`] always returns within timeout, grace and a second, and by then the command and all its
//! descendants have ended.
//!
//! ```text
//!  reader thread ── end of output ─┐
//!  waiter thread ── exit ──────────┼─► one inbox ─► Supervisor ─► FinishedJob
//!  StopRequest ── asked ───────────┤                   │
//!  recv_timeout ── deadline ───────┘                   └─► ProcessFamily: list and signal the rest
//! ```
//!
//! Each command leads its own session, its [`ProcessFamily`](descendants::ProcessFamily). Its processes are identified by three facts, even when several
//! commands run at once: the session, the marker in the environment, and the output pipe. On Linux this process
//! adopts orphans ([`adopt_orphans`]), so that no process escapes by losing its parent; elsewhere only the process
//! group is killed.
//!
//! The rest of the program must keep its own children in the program's own session (a separate process group is
//! fine). A child in another session therefore belongs to a command.

mod capture;
mod descendants;
#[cfg_attr(not(target_os = "linux"), path = "proc/other_unix.rs")]
#[cfg_attr(target_os = "linux", path = "proc/linux.rs")]
mod processes;
// The other implementation is compiled for its tests.
#[cfg(all(test, target_os = "linux"))]
#[expect(dead_code, reason = "here only its tests call it")]
#[path = "proc/other_unix.rs"]
mod processes_elsewhere;
mod start;
mod stop_request;
mod supervisor;
#[cfg(test)]
mod tests;
mod unix;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

pub(crate) use capture::Captured;
use capture::Recorder;
pub(crate) use descendants::{end_everyone_left, end_marked, marker, owner_of_runs, sweep_all};
pub(crate) use processes::{
    adopt_orphans, ancestors, forbid_debuggers, identity, is_first_pid_namespace, permit_debuggers,
    pid_namespace,
};
use ralph_core::clients::stream::Channel;
use ralph_core::ledger::event::ProcessIdentity;
use rustix::process::Signal;
pub(crate) use stop_request::StopRequest;
use supervisor::Supervisor;

/// What is run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Program<'a> {
    /// A line for `sh -c`.
    Shell(&'a str),
    /// A program with its arguments, without a shell; stdin comes from a file.
    Program { program: &'a OsStr, arguments: &'a [OsString], stdin: Option<&'a Path> },
}

/// A command and its limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(crate) command: Program<'a>,
    pub(crate) dir: &'a Path,
    /// The complete environment; only the marker of the run is added.
    pub(crate) env: &'a [(OsString, OsString)],
    pub(crate) timeout: Duration,
    pub(crate) manners: ShutdownRules,
    /// Whether stderr gets a pipe of its own: this keeps stdout lines intact but loses the relative order.
    pub(crate) errors_apart: bool,
    /// Log file of the output, up to a cap. Created with mode 0600.
    pub(crate) log: &'a Path,
    /// Unique among all runs, made by [`marker`]: used to find detached processes.
    pub(crate) marker: &'a str,
}

/// How a command is stopped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShutdownRules {
    /// Sent in this order, before SIGKILL.
    pub(crate) asks: &'static [Signal],
    /// Time after each of them when the command has timed out.
    pub(crate) grace: Duration,
    /// The same when ralph itself is asked to stop.
    pub(crate) stop_grace: Duration,
    /// Processes that outlive the command by less than this are not leaks.
    pub(crate) leak_patience: Duration,
    /// Whether the command is killed when ralph is, if the system supports it.
    pub(crate) dies_with_us: bool,
}

impl ShutdownRules {
    /// For a command without state to save.
    pub(crate) const fn of_a_tool(grace: Duration) -> Self {
        Self {
            asks: &[Signal::TERM],
            grace,
            stop_grace: Duration::from_millis(200),
            leak_patience: Duration::from_millis(500),
            dies_with_us: false,
        }
    }

    /// For an agent, which has a session to save.
    pub(crate) const fn of_an_agent() -> Self {
        Self {
            asks: &[Signal::INT, Signal::TERM],
            grace: Duration::from_secs(5),
            stop_grace: Duration::from_secs(2),
            leak_patience: Duration::from_millis(50),
            dies_with_us: true,
        }
    }
}

/// The result of a job. None of its processes is running any more.
#[derive(Debug)]
pub(crate) struct FinishedJob {
    pub(crate) how: Termination,
    /// From the start to the command's own exit, or to the end of its processes if it was stopped.
    pub(crate) took: Duration,
    pub(crate) output: Captured,
    /// Why the log is missing or incomplete. It never affects `how`.
    pub(crate) log_error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Termination {
    Exited {
        code: i32,
    },
    Signalled {
        signal: i32,
    },
    TimedOut,
    /// Exited with 0 but left processes or an open output pipe behind; they have been killed. A command that failed
    /// and leaked is reported as failed, which matters more.
    Leaked {
        code: i32,
        /// "pid command line". Empty if the holder of the output pipe could not be identified.
        processes: Vec<String>,
    },
    CouldNotStart {
        why: String,
    },
    /// Stopped early, or not started, because of a [`StopRequest`].
    Stopped,
}

/// Receives the output as it arrives, on the reader thread.
pub(crate) type OutputTap = Box<dyn FnMut(Channel, &[u8]) + Send>;

/// Runs `job` to its end. Blocks; may be called from several threads at once.
pub(crate) fn run(job: &Job<'_>, stop: &StopRequest) -> FinishedJob {
    run_tapped(job, &[stop], None)
}

/// Like [`run`], with a callback for the output and several stop requests.
pub(crate) fn run_tapped(job: &Job<'_>, stops: &[&StopRequest], tap: Option<OutputTap>) -> FinishedJob {
    let begun = Instant::now();
    let recorder = Recorder::new(job.log, tap);
    let (sender, inbox) = mpsc::channel();
    let _listening: Vec<_> = stops.iter().map(|stop| stop.listen(sender.clone())).collect();
    if stops.iter().any(|stop| stop.is_requested()) {
        return finish_without_start(Termination::Stopped, begun, recorder);
    }
    let recording = recorder.shared();
    match Supervisor::start(job, begun, recording.clone(), sender, inbox) {
        Ok(supervisor) => supervisor.supervise(),
        Err(why) => finish_without_start(Termination::CouldNotStart { why }, begun, recording.take()),
    }
}

/// An ancestor of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ancestor {
    pub(crate) process: i32,
    /// As in [`ProcessIdentity`].
    pub(crate) started: u64,
    /// The program name as the system shows it.
    pub(crate) name: String,
    /// Whether it leads a terminal session, like the shell that a user types into.
    pub(crate) leads_a_terminal: bool,
}

impl Ancestor {
    pub(crate) fn is(&self, recorded: &ProcessIdentity) -> bool {
        (self.process, self.started) == (recorded.process, recorded.started)
            && recorded.boot == processes::boot()
    }
}

/// Whether that process is an ancestor of this one.
pub(crate) fn is_ancestor(pid: i32) -> bool {
    ancestors().iter().any(|ancestor| ancestor.process == pid)
}

/// Limit on the number of ancestors that are examined.
const MOST_ANCESTORS: usize = 200;

/// Status of a recorded process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Liveness {
    Running,
    Gone,
    /// It was recorded in another PID namespace of this machine, whose processes are not visible.
    OutOfSight,
}

pub(crate) fn liveness(recorded: &ProcessIdentity) -> Liveness {
    let is_it = |found: ProcessIdentity| found.started == recorded.started && found.boot == recorded.boot;
    if identity(recorded.process).is_some_and(is_it) {
        Liveness::Running
    } else if recorded.boot == processes::boot() && recorded.pid_namespace != pid_namespace() {
        Liveness::OutOfSight
    } else {
        Liveness::Gone
    }
}

/// Whether a process with that PID exists; an invalid PID counts as alive.
pub(crate) fn is_alive(pid: i32) -> bool {
    let named = if pid > 0 { rustix::process::Pid::from_raw(pid) } else { None };
    named.is_none_or(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

fn finish_without_start(how: Termination, begun: Instant, recorder: Recorder) -> FinishedJob {
    let (output, log_error) = recorder.finish();
    FinishedJob { how, took: begun.elapsed(), output, log_error }
}
