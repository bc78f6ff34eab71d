//! Follows one command from its start until none of its processes is left.
//!
//! All events arrive in one inbox, and the next deadline limits the wait. A command that exits cleanly is done when
//! its exit and the end of its output have been received: no sleeping, no polling.

use std::io::{self, PipeWriter};
use std::sync::mpsc::{Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use ralph_core::clients::stream::Channel;
use rustix::process::Signal;

use super::capture::Recording;
use super::descendants::ProcessFamily;
use super::unix::{self, Exit};
use super::{FinishedJob, Job, Program, Termination, processes, start};

const LEFTOVER_GRACE: Duration = Duration::from_millis(200);
/// How long SIGKILL is repeated. Only a process blocked inside the kernel survives the first.
const KILL_PATIENCE: Duration = Duration::from_millis(600);
/// How long the last bytes may take once all writers are gone.
const OUTPUT_PATIENCE: Duration = Duration::from_millis(200);

#[derive(Debug, Clone)]
pub(super) enum ProcessEvent {
    Exited(Exit),
    OutputEnded,
    StopAsked,
    /// Second request.
    StopInsisted,
}

/// Delays between polls of something that sends no message: short at first, since most processes end soon.
pub(super) struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(Duration::from_millis(1))
    }
}

impl Backoff {
    pub(super) fn next(&mut self) -> Duration {
        const LONGEST: Duration = Duration::from_millis(30);
        let pause = self.0;
        self.0 = (pause * 2).min(LONGEST);
        pause
    }
}

pub(super) struct Supervisor<'a> {
    job: &'a Job<'a>,
    begun: Instant,
    family: ProcessFamily,
    recording: Recording,
    inbox: Receiver<ProcessEvent>,
    exit: Option<(Exit, Instant)>,
    /// Pipes that still have a writer.
    outputs_open: usize,
    stop_asked: bool,
    stop_insisted: bool,
}

impl<'a> Supervisor<'a> {
    pub(super) fn start(
        job: &'a Job<'a>,
        begun: Instant,
        recording: Recording,
        sender: Sender<ProcessEvent>,
        inbox: Receiver<ProcessEvent>,
    ) -> Result<Self, String> {
        let listen = |channel: Channel| -> Result<(PipeWriter, u64), String> {
            let (reader, writer) =
                io::pipe().map_err(|error| format!("cannot create a pipe for the output: {error}"))?;
            processes::widen(&reader);
            let pipe = rustix::fs::fstat(&reader).map_err(|error| error.to_string())?.st_ino;
            let (drain, done) = (recording.clone(), sender.clone());
            listen_in_thread("output", move || {
                drain.drain(channel, reader);
                done.send(ProcessEvent::OutputEnded).ok();
            })?;
            Ok((writer, pipe))
        };
        let (output, pipe) = listen(Channel::Output)?;
        let apart = if job.errors_apart { Some(listen(Channel::Errors)?) } else { None };
        let (errors, other_pipe) = apart.unzip();
        let pipes: Vec<u64> = [pipe].into_iter().chain(other_pipe).collect();
        let outputs_open = pipes.len();
        let family = ProcessFamily::found(job.marker, pipes, || start::leader(job, output, errors))
            .map_err(|error| describe_start_error(job, &error))?;
        let leader = family.leader();
        let waiting = listen_in_thread("exit", move || {
            sender.send(ProcessEvent::Exited(unix::await_exit(leader))).ok();
        });
        let exit = None;
        let supervisor = Self {
            job,
            begun,
            family,
            recording,
            inbox,
            exit,
            outputs_open,
            stop_asked: false,
            stop_insisted: false,
        };
        match waiting {
            Ok(()) => Ok(supervisor),
            Err(why) => {
                supervisor.family.signal(Signal::KILL);
                supervisor.family.dissolve(true);
                Err(why)
            }
        }
    }

    pub(super) fn supervise(mut self) -> FinishedJob {
        let how = self.until_ended();
        let took = match (&how, &self.exit) {
            (Termination::TimedOut | Termination::Stopped, _) | (_, None) => self.begun.elapsed(),
            (_, Some((_, at))) => *at - self.begun,
        };
        self.family.dissolve(self.exit.is_some());
        let (output, log_error) = self.recording.take().finish();
        FinishedJob { how, took, output, log_error }
    }

    fn until_ended(&mut self) -> Termination {
        let deadline = self.begun.checked_add(self.job.timeout);
        while self.exit.is_none() {
            if self.stop_asked {
                self.end_everyone(self.job.manners.asks, self.job.manners.stop_grace);
                return Termination::Stopped;
            }
            if !self.wait_for_event(deadline) {
                self.end_everyone(self.job.manners.asks, self.job.manners.grace);
                return Termination::TimedOut;
            }
        }
        self.after_exit()
    }

    /// The command has exited; are any descendants left?
    fn after_exit(&mut self) -> Termination {
        let Some((exit, at)) = self.exit.clone() else { unreachable!("called once the exit is known") };
        if self.clean_within(at + self.job.manners.leak_patience) {
            return termination_of(exit);
        }
        let processes = self.family.names();
        self.end_everyone(&[Signal::TERM], LEFTOVER_GRACE);
        match exit {
            // We stopped before a leak could be detected, so this is not a pass.
            Exit::Code(0) if self.stop_asked => Termination::Stopped,
            Exit::Code(0) => Termination::Leaked { code: 0, processes },
            failed => termination_of(failed),
        }
    }

    /// Whether output and descendants end on their own before `deadline` and before a stop request.
    fn clean_within(&mut self, deadline: Instant) -> bool {
        let mut pauses = Backoff::default();
        loop {
            if self.outputs_open == 0 && !self.family.others_left() {
                return true;
            }
            if self.stop_asked || Instant::now() >= deadline {
                return false;
            }
            // The end of the output is announced; that of a silent process is not.
            let next_look = if self.outputs_open == 0 { Instant::now() + pauses.next() } else { deadline };
            self.wait_for_event(Some(next_look.min(deadline)));
        }
    }

    /// Sends each signal to all processes, waits for `grace` after each, then kills them.
    fn end_everyone(&mut self, asks: &[Signal], grace: Duration) {
        let gone = asks.iter().any(|ask| {
            self.family.signal(*ask);
            self.gone_within(grace, ProcessFamily::others_left)
        });
        if !gone {
            self.stop_insisted = false;
            self.gone_within(KILL_PATIENCE, |family| family.signal(Signal::KILL));
        }
        let deadline = Instant::now() + OUTPUT_PATIENCE;
        while self.outputs_open > 0 && self.wait_for_event(Some(deadline)) {}
    }

    /// Whether the command and all its descendants are gone in time; `look` returns whether descendants are left, and
    /// may signal them again.
    fn gone_within(&mut self, patience: Duration, look: impl Fn(&ProcessFamily) -> bool) -> bool {
        let deadline = Instant::now().checked_add(patience);
        let mut pauses = Backoff::default();
        loop {
            let others_left = look(&self.family);
            if self.exit.is_some() && !others_left {
                return true;
            }
            let now = Instant::now();
            if self.stop_insisted || deadline.is_some_and(|deadline| now >= deadline) {
                return false;
            }
            let next_look = now + pauses.next();
            self.wait_for_event(Some(deadline.map_or(next_look, |deadline| next_look.min(deadline))));
        }
    }

    /// Handles one event; returns false if there was none before `deadline`.
    fn wait_for_event(&mut self, deadline: Option<Instant>) -> bool {
        let event = match deadline {
            Some(deadline) => {
                self.inbox.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()
            }
            None => self.inbox.recv().ok(),
        };
        match event {
            Some(ProcessEvent::Exited(exit)) => self.exit = Some((exit, Instant::now())),
            Some(ProcessEvent::OutputEnded) => self.outputs_open = self.outputs_open.saturating_sub(1),
            Some(ProcessEvent::StopAsked) => self.stop_asked = true,
            Some(ProcessEvent::StopInsisted) => self.stop_insisted = true,
            None => return false,
        }
        true
    }
}

fn termination_of(exit: Exit) -> Termination {
    match exit {
        Exit::Code(code) => Termination::Exited { code },
        Exit::Signal(signal) => Termination::Signalled { signal },
        Exit::Lost(why) => Termination::CouldNotStart { why: format!("its exit status was lost: {why}") },
    }
}

/// The system returns the same error for a missing shell and a missing folder; the message tells them apart.
fn describe_start_error(job: &Job<'_>, error: &io::Error) -> String {
    if job.dir.is_dir() {
        let program = match job.command {
            Program::Shell(_) => "sh".into(),
            Program::Program { program, .. } => program.to_string_lossy(),
        };
        format!("cannot start {program}: {error}")
    } else {
        format!("cannot enter `{}`: {error}", job.dir.display())
    }
}

/// Never joined: each thread ends on its own together with the processes it follows.
fn listen_in_thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), String> {
    const STACK: usize = 128 * 1024;
    match thread::Builder::new().name(name.to_owned()).stack_size(STACK).spawn(work) {
        Ok(_detached) => Ok(()),
        Err(error) => Err(format!("cannot start a thread for the command: {error}")),
    }
}
