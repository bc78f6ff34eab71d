//! Runs one gate command so that its result can be relied on: what we start, we end.
//!
//! A gate is somebody's shell line. It may hang, ignore signals, flood its output, leave a server running or
//! detach it from everything. [`run`] always comes back, within its time-out, its grace and a second, and when it does the
//! command and all it started are gone.
//!
//! ```text
//!  reader thread ── end of output ─┐
//!  waiter thread ── exit ──────────┼─► one inbox ─► Supervisor ─► Ended
//!  Stop ────────── asked ──────────┤                   │
//!  recv_timeout ── deadline ───────┘                   └─► Family: who is left? signal them
//! ```
//!
//! Each command leads a session of its own, its `Family`. Three facts let us find all of one family even when
//! several commands run at once: the session, the mark in the environment, and the output pipe.
//! On Linux this process adopts orphans ([`adopt_orphans`]), so that nobody leaves by losing a parent; elsewhere
//! only the process group is ended.
//!
//! One thing is asked of the rest of the program: children it starts elsewhere stay in the program's own session
//! (a group of their own is fine). A child of ours in another session therefore came out of a command.

mod capture;
mod descendants;
#[cfg_attr(not(target_os = "linux"), path = "proc/other_unix.rs")]
#[cfg_attr(target_os = "linux", path = "proc/linux.rs")]
mod processes;
// The other one is built for its tests.
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
pub(crate) use stop_request::Stop;
use supervisor::Supervisor;

/// What is run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum What<'a> {
    /// A line for `sh -c`.
    Shell(&'a str),
    /// A program by its own words, without a shell; what it reads comes from a file.
    Program { program: &'a OsStr, arguments: &'a [OsString], stdin: Option<&'a Path> },
}

/// A command and the bounds it runs in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(crate) command: What<'a>,
    pub(crate) dir: &'a Path,
    /// The complete environment; only the mark of the run is added.
    pub(crate) env: &'a [(OsString, OsString)],
    pub(crate) timeout: Duration,
    pub(crate) manners: Manners,
    /// Whether what it prints as errors comes by a pipe of its own: nothing is torn by it, and the order is lost.
    pub(crate) errors_apart: bool,
    /// Where the output is kept, up to a cap. Created with mode 0600.
    pub(crate) log: &'a Path,
    /// Unique among all runs, made by [`marker`]: by it detached processes are found again.
    pub(crate) marker: &'a str,
}

/// How a command that has to end is told so.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manners {
    /// Sent one after the other, before SIGKILL.
    pub(crate) asks: &'static [Signal],
    /// What it is given after each of them when its time is over.
    pub(crate) grace: Duration,
    /// The same when we ourselves are asked to end.
    pub(crate) stop_grace: Duration,
    /// What outlives the command's own exit by this much is on its way out, not leaked.
    pub(crate) leak_patience: Duration,
    /// Whether the command is killed when we are, where the system can.
    pub(crate) dies_with_us: bool,
}

impl Manners {
    /// For a command that has nothing to save.
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

/// What became of a job. Nothing of it is running any more.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) how: How,
    /// From the start to the command's own exit, or to the end of its processes when we ended it.
    pub(crate) took: Duration,
    pub(crate) output: Captured,
    /// Why the log is missing or incomplete. It never changes `how`.
    pub(crate) log_error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum How {
    Exited {
        code: i32,
    },
    Signalled {
        signal: i32,
    },
    TimedOut,
    /// Exited with 0 but left processes behind, or its output held open; they have been ended. A command that
    /// failed and leaked is reported as failed: that matters more.
    Leaked {
        code: i32,
        /// "pid command line". Empty when the output was held by somebody we could not name.
        processes: Vec<String>,
    },
    CouldNotStart {
        why: String,
    },
    /// Ended early, or not begun, because [`Stop`] was asked.
    Stopped,
}

/// Hears what is printed as it comes, on the thread that reads it.
pub(crate) type Tap = Box<dyn FnMut(Channel, &[u8]) + Send>;

/// Runs `job` to its end. Blocks; may be called from several threads at once.
pub(crate) fn run(job: &Job<'_>, stop: &Stop) -> Ended {
    run_tapped(job, &[stop], None)
}

/// The same, with somebody who hears the output as it comes, and several who may end it.
pub(crate) fn run_tapped(job: &Job<'_>, stops: &[&Stop], tap: Option<Tap>) -> Ended {
    let begun = Instant::now();
    let recorder = Recorder::new(job.log, tap);
    let (sender, inbox) = mpsc::channel();
    let _listening: Vec<_> = stops.iter().map(|stop| stop.listen(sender.clone())).collect();
    if stops.iter().any(|stop| stop.asked()) {
        return not_begun(How::Stopped, begun, recorder);
    }
    let recording = recorder.shared();
    match Supervisor::start(job, begun, recording.clone(), sender, inbox) {
        Ok(supervisor) => supervisor.supervise(),
        Err(why) => not_begun(How::CouldNotStart { why }, begun, recording.take()),
    }
}

/// A process that we came out of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ancestor {
    pub(crate) process: i32,
    /// As in [`ProcessIdentity`].
    pub(crate) started: u64,
    /// What its program is called, as the system shows it.
    pub(crate) name: String,
    /// Whether it leads the session of a terminal, as the shell does that a user types into.
    pub(crate) leads_a_terminal: bool,
}

impl Ancestor {
    pub(crate) fn is(&self, recorded: &ProcessIdentity) -> bool {
        (self.process, self.started) == (recorded.process, recorded.started)
            && recorded.boot == processes::boot()
    }
}

/// Whether we came out of that process.
pub(crate) fn is_ancestor(pid: i32) -> bool {
    ancestors().iter().any(|ancestor| ancestor.process == pid)
}

/// More processes above us than this are not looked at.
const MOST_ANCESTORS: usize = 200;

/// What became of a recorded process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Liveness {
    Running,
    Gone,
    /// It was recorded in another namespace of this machine, whose processes we do not see.
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

/// Whether a process of that number is there; a number that means nothing counts as one that is.
pub(crate) fn is_alive(pid: i32) -> bool {
    let named = if pid > 0 { rustix::process::Pid::from_raw(pid) } else { None };
    named.is_none_or(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

fn not_begun(how: How, begun: Instant, recorder: Recorder) -> Ended {
    let (output, log_error) = recorder.finish();
    Ended { how, took: begun.elapsed(), output, log_error }
}
