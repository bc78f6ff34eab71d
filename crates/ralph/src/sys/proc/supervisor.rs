//! Follows one command from its start to the point where nothing of it is left.
//!
//! All that happens comes in through one inbox, and the next deadline is how long we listen. A command that
//! exits cleanly is done when its exit and the end of its output have been heard: no sleeping, no looking again.

use std::io::{self, PipeWriter};
use std::sync::mpsc::{Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use ralph_core::clients::stream::Channel;
use rustix::process::Signal;

use super::capture::Recording;
use super::descendants::Family;
use super::unix::{self, Exit};
use super::{Ended, How, Job, What, processes, start};

const LEFTOVER_GRACE: Duration = Duration::from_millis(200);
/// How long SIGKILL is repeated. Only a process the kernel itself holds up survives the first.
const KILL_PATIENCE: Duration = Duration::from_millis(600);
/// How long the last bytes may take once all who wrote them are gone.
const OUTPUT_PATIENCE: Duration = Duration::from_millis(200);

#[derive(Debug, Clone)]
pub(super) enum ProcessEvent {
    Exited(Exit),
    OutputEnded,
    StopAsked,
    /// For the second time.
    StopInsisted,
}

/// Waits between looks at something that sends no message: short at first, since most things end soon.
pub(super) struct Pauses(Duration);

impl Default for Pauses {
    fn default() -> Self {
        Self(Duration::from_millis(1))
    }
}

impl Pauses {
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
    family: Family,
    recording: Recording,
    inbox: Receiver<ProcessEvent>,
    exit: Option<(Exit, Instant)>,
    /// Pipes that somebody may still print into.
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
            let (reader, writer) = io::pipe().map_err(|error| format!("no pipe for the output: {error}"))?;
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
        let family = Family::found(job.marker, pipes, || start::leader(job, output, errors))
            .map_err(|error| why_not_started(job, &error))?;
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

    pub(super) fn supervise(mut self) -> Ended {
        let how = self.until_ended();
        let took = match (&how, &self.exit) {
            (How::TimedOut | How::Stopped, _) | (_, None) => self.begun.elapsed(),
            (_, Some((_, at))) => *at - self.begun,
        };
        self.family.dissolve(self.exit.is_some());
        let (output, log_error) = self.recording.take().finish();
        Ended { how, took, output, log_error }
    }

    fn until_ended(&mut self) -> How {
        let deadline = self.begun.checked_add(self.job.timeout);
        while self.exit.is_none() {
            if self.stop_asked {
                self.end_everyone(self.job.manners.asks, self.job.manners.stop_grace);
                return How::Stopped;
            }
            if !self.hear(deadline) {
                self.end_everyone(self.job.manners.asks, self.job.manners.grace);
                return How::TimedOut;
            }
        }
        self.after_exit()
    }

    /// The command is gone; is that all?
    fn after_exit(&mut self) -> How {
        let Some((exit, at)) = self.exit.clone() else { unreachable!("called once the exit is known") };
        if self.clean_within(at + self.job.manners.leak_patience) {
            return own_end(exit);
        }
        let processes = self.family.names();
        self.end_everyone(&[Signal::TERM], LEFTOVER_GRACE);
        match exit {
            // Whether it would have leaked we did not wait to see: that is no pass.
            Exit::Code(0) if self.stop_asked => How::Stopped,
            Exit::Code(0) => How::Leaked { code: 0, processes },
            failed => own_end(failed),
        }
    }

    /// Whether output and descendants end by themselves before `deadline`, and before somebody asks to stop.
    fn clean_within(&mut self, deadline: Instant) -> bool {
        let mut pauses = Pauses::default();
        loop {
            if self.outputs_open == 0 && !self.family.others_left() {
                return true;
            }
            if self.stop_asked || Instant::now() >= deadline {
                return false;
            }
            // The end of the output is announced; that of a silent process is not.
            let next_look = if self.outputs_open == 0 { Instant::now() + pauses.next() } else { deadline };
            self.hear(Some(next_look.min(deadline)));
        }
    }

    /// Asks all to go, in each way, waits for `grace` each time, then makes them.
    fn end_everyone(&mut self, asks: &[Signal], grace: Duration) {
        let gone = asks.iter().any(|ask| {
            self.family.signal(*ask);
            self.gone_within(grace, Family::others_left)
        });
        if !gone {
            self.stop_insisted = false;
            self.gone_within(KILL_PATIENCE, |family| family.signal(Signal::KILL));
        }
        let deadline = Instant::now() + OUTPUT_PATIENCE;
        while self.outputs_open > 0 && self.hear(Some(deadline)) {}
    }

    /// Whether the command and all its descendants are gone in time; `look` tells of the descendants, and may do
    /// more to hurry them.
    fn gone_within(&mut self, patience: Duration, look: impl Fn(&Family) -> bool) -> bool {
        let deadline = Instant::now().checked_add(patience);
        let mut pauses = Pauses::default();
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
            self.hear(Some(deadline.map_or(next_look, |deadline| next_look.min(deadline))));
        }
    }

    /// Takes in one event; false if there was none before `deadline`.
    fn hear(&mut self, deadline: Option<Instant>) -> bool {
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

fn own_end(exit: Exit) -> How {
    match exit {
        Exit::Code(code) => How::Exited { code },
        Exit::Signal(signal) => How::Signalled { signal },
        Exit::Lost(why) => How::CouldNotStart { why: format!("its exit status was lost: {why}") },
    }
}

/// The system has one answer for a missing shell and a missing folder; people need to know which.
fn why_not_started(job: &Job<'_>, error: &io::Error) -> String {
    if job.dir.is_dir() {
        let program = match job.command {
            What::Shell(_) => "sh".into(),
            What::Program { program, .. } => program.to_string_lossy(),
        };
        format!("cannot start {program}: {error}")
    } else {
        format!("cannot enter `{}`: {error}", job.dir.display())
    }
}

/// A thread that is never joined: each ends by itself with the processes it listens to.
fn listen_in_thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), String> {
    const STACK: usize = 128 * 1024;
    match thread::Builder::new().name(name.to_owned()).stack_size(STACK).spawn(work) {
        Ok(_detached) => Ok(()),
        Err(error) => Err(format!("no thread to follow the command: {error}")),
    }
}
