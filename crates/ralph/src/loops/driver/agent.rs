//! One run of the agent: started, listened to, and ended with everything that it started.
//!
//! ```text
//!  output ─► tap: stream reader ─► events ─┐
//!  run_tapped ─────────────────► its end ──┼─► one channel ─► run
//!  recv_timeout ───────────────► silence ──┘
//! ```
//!
//! The channel is bounded: an agent that floods waits for us, and costs no memory.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ralph_core::clients::dialect::Dialect;
use ralph_core::clients::list;
use ralph_core::clients::profile::CommandLine;
use ralph_core::clients::stream::{AgentEvent, RunResult, StreamReader, StreamSummary};
use ralph_core::ledger::event::{AgentEnd, AgentRun};
use ralph_core::model::id::TreeHash;
use ralph_core::model::money::Micros;
use ralph_core::model::secrets::Secrets;

use crate::sys::proc::{self, Ended, How, Job, Manners, Stop, Tap, What};
use crate::sys::signals::Signals;

pub(super) struct Call<'a> {
    pub(super) line: &'a CommandLine,
    pub(super) root: &'a Path,
    /// The complete environment.
    pub(super) environment: &'a [(OsString, OsString)],
    pub(super) dialect: Dialect,
    /// What the session that is gone on with has cost so far.
    pub(super) cost_before: Micros,
    /// Where all that it prints is kept.
    pub(super) log: &'a Path,
    pub(super) marker: &'a str,
    pub(super) longest_run: Duration,
    pub(super) longest_silence: Duration,
    pub(super) signals: &'a Signals,
    /// An agent that changes files is not silent.
    pub(super) tree: &'a dyn Fn() -> Option<TreeHash>,
    /// Blotted out of everything that is shown.
    pub(super) secrets: Secrets,
}

/// What came of a run.
pub(super) struct Ran {
    pub(super) run: AgentRun,
    pub(super) summary: StreamSummary,
}

enum Heard {
    Event(AgentEvent),
    Ended(Ended),
}

/// How many events may wait for us.
const QUEUE: usize = 256;

pub(super) fn run(mut call: Call<'_>, on: &mut dyn FnMut(&AgentEvent)) -> Ran {
    let (sender, inbox) = mpsc::sync_channel(QUEUE);
    let secrets = std::mem::take(&mut call.secrets);
    let ears = Ears::new(list::stream_reader(call.dialect, call.cost_before).hiding(secrets));
    let its_time_is_over = Stop::new();
    let arguments: Vec<OsString> = call.line.arguments.iter().map(OsString::from).collect();
    let job = Job {
        command: What::Program {
            program: OsStr::new(&call.line.program),
            arguments: &arguments,
            stdin: call.line.stdin.as_deref(),
        },
        dir: call.root,
        env: call.environment,
        timeout: call.longest_run,
        manners: Manners::of_an_agent(),
        // Rows must stay whole; words of no form are read in the order they come.
        errors_apart: call.dialect != Dialect::Plain,
        log: call.log,
        marker: call.marker,
    };
    let mut silence = Silence::new(&call);
    let ended = std::thread::scope(|scope| {
        let (tap, done, stop) = (ears.tap(sender.clone()), sender, &its_time_is_over);
        let (job, signals) = (&job, call.signals);
        scope.spawn(move || {
            let ended = proc::run_tapped(job, &[&signals.stop, stop], Some(tap));
            // We listen until it has ended.
            let _never_gone = done.send(Heard::Ended(ended));
        });
        loop {
            match inbox.recv_timeout(silence.left(&ears)) {
                Ok(Heard::Event(event)) => on(&event),
                Ok(Heard::Ended(ended)) => break Some(ended),
                Err(RecvTimeoutError::Timeout) if silence.is_too_long(&ears) => its_time_is_over.ask(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break None,
            }
        }
    });
    let mut summary = ears.end(on);
    if let Some(Ended { how: How::Exited { code }, .. }) = ended {
        summary.hear_exit(call.dialect, code);
    }
    let went_silent = its_time_is_over.asked();
    let is_shell = call.line.program == "sh";
    Ran { run: agent_run((call.dialect, is_shell), ended, went_silent, &summary), summary }
}

/// Hears the output on the thread that reads it.
struct Ears {
    begun: Instant,
    reader: Arc<Mutex<Option<StreamReader>>>,
    /// Milliseconds after the beginning.
    last_byte: Arc<AtomicU64>,
}

impl Ears {
    fn new(reader: StreamReader) -> Self {
        let reader = Arc::new(Mutex::new(Some(reader)));
        Self { begun: Instant::now(), reader, last_byte: Arc::default() }
    }

    fn tap(&self, sender: mpsc::SyncSender<Heard>) -> Tap {
        let (begun, reader, last_byte) = (self.begun, self.reader.clone(), self.last_byte.clone());
        Box::new(move |channel, bytes| {
            last_byte
                .store(u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
            if let Some(reader) = reader.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
                // Nobody listens any more to somebody who holds the output after the end.
                reader.feed(channel, bytes, &mut |event| drop(sender.send(Heard::Event(event))));
            }
        })
    }

    fn silent_since(&self) -> Instant {
        self.begun + Duration::from_millis(self.last_byte.load(Ordering::Relaxed))
    }

    fn end(&self, on: &mut dyn FnMut(&AgentEvent)) -> StreamSummary {
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner).take();
        reader.map(|reader| reader.end(&mut |event| on(&event))).unwrap_or_default()
    }
}

/// Neither a byte nor a changed file for too long. Reading a tree costs something, so it is looked at half way through a
/// silence and again at its end.
struct Silence<'a> {
    call: &'a Call<'a>,
    /// When the tree was last seen to move.
    moved: Instant,
    /// When it was looked at, and how it was then.
    looked: Option<(Instant, Option<TreeHash>)>,
    over: bool,
}

impl<'a> Silence<'a> {
    fn new(call: &'a Call<'a>) -> Self {
        Self { call, moved: Instant::now(), looked: None, over: false }
    }

    fn since(&self, ears: &Ears) -> Instant {
        ears.silent_since().max(self.moved)
    }

    /// The look half way, where it was taken in this silence.
    fn half_way(&self, ears: &Ears) -> Option<&Option<TreeHash>> {
        self.looked.as_ref().filter(|(at, _)| *at > self.since(ears)).map(|(_, tree)| tree)
    }

    /// How long until the tree has to be looked at.
    fn left(&self, ears: &Ears) -> Duration {
        const LONG: Duration = Duration::from_secs(3600);
        let longest = self.call.longest_silence;
        let wait = if self.half_way(ears).is_some() { longest } else { longest / 2 };
        let until = self.since(ears).checked_add(wait).filter(|_| !self.over);
        until.map_or(LONG, |until| until.saturating_duration_since(Instant::now()))
    }

    /// Looks; whether it has been silent for too long now.
    fn is_too_long(&mut self, ears: &Ears) -> bool {
        if self.over || !self.left(ears).is_zero() {
            return false;
        }
        // Who looks half a silence late was stopped itself, and has not seen what happened in between.
        let is_late = self.since(ears).elapsed() > self.call.longest_silence * 3 / 2;
        let now = (self.call.tree)();
        match self.half_way(ears) {
            _ if is_late => self.moved = Instant::now(),
            Some(before) if *before == now => self.over = true,
            Some(_) => self.moved = Instant::now(),
            None => {}
        }
        self.looked = Some((Instant::now(), now));
        self.over
    }
}

fn agent_run(
    (dialect, is_shell): (Dialect, bool),
    ended: Option<Ended>,
    went_silent: bool,
    summary: &StreamSummary,
) -> AgentRun {
    let took = ended.as_ref().map(|ended| ended.took).unwrap_or_default();
    let how = ended.map_or(How::CouldNotStart { why: "nobody could follow it".into() }, |ended| ended.how);
    let end = match (&how, &summary.limit) {
        (How::Stopped, _) if went_silent => AgentEnd::WentSilent,
        (How::Stopped, _) => AgentEnd::Interrupted,
        (How::TimedOut, _) => AgentEnd::TimedOut,
        (_, Some(limit)) => AgentEnd::OutOfUsage { why: limit.why.clone() },
        (How::Exited { .. } | How::Leaked { .. }, None) if ended_by_own_limit(summary) => AgentEnd::Finished,
        (_, None) if refused_login(summary) => {
            AgentEnd::LoginRefused { why: with_last_words("login refused", summary) }
        }
        (How::Exited { code: code @ (126 | 127) }, None) if is_shell && shell_found_nothing(summary) => {
            AgentEnd::CouldNotStart { why: with_last_words(&format!("exit code {code}"), summary) }
        }
        (How::Exited { code: 0 } | How::Leaked { .. }, None) => own_word(dialect, summary.result.as_ref()),
        (How::Exited { code }, None) => {
            AgentEnd::Failed { why: with_last_words(&format!("exit code {code}"), summary) }
        }
        (How::Signalled { signal }, None) => AgentEnd::Failed { why: format!("signal {signal}") },
        (How::CouldNotStart { why }, None) => AgentEnd::CouldNotStart { why: why.clone() },
    };
    let left_running = match how {
        How::Leaked { processes, .. } => processes,
        _ => Vec::new(),
    };
    AgentRun {
        cost: summary.cost,
        tokens: summary.tokens,
        session: summary.session.clone(),
        denied: summary.denials.clone(),
        left_running,
        ..AgentRun::new(end, took)
    }
}

/// Whether the service refused the user's key.
fn refused_login(summary: &StreamSummary) -> bool {
    let result = summary.result.as_ref();
    result.is_some_and(|result| !result.ok && matches!(result.status, Some(401 | 403)))
}

/// Whether the shell itself says that there is nothing to run.
fn shell_found_nothing(summary: &StreamSummary) -> bool {
    const WORDS: [&str; 3] = ["not found", "Permission denied", "No such file"];
    last_line(summary)
        .is_some_and(|line| line.starts_with("sh: ") && WORDS.iter().any(|words| line.contains(words)))
}

/// A limit of the client's own (its turns, its dollars) is no failure, whatever it exits with: the work is judged.
fn ended_by_own_limit(summary: &StreamSummary) -> bool {
    const OWN_LIMITS: [&str; 4] =
        ["max_turns", "budget_exhausted", "error_max_turns", "error_max_budget_usd"];
    let reason = summary.result.as_ref().and_then(|result| result.reason.as_deref());
    reason.is_some_and(|reason| OWN_LIMITS.contains(&reason))
}

/// A client that exits with 0 can still say that it failed.
fn own_word(dialect: Dialect, result: Option<&RunResult>) -> AgentEnd {
    match result {
        Some(result) if result.ok => AgentEnd::Finished,
        Some(result) => {
            let reason = result.reason.clone().unwrap_or_else(|| "it says that it failed".into());
            let text = result.text.lines().next().unwrap_or_default();
            AgentEnd::Failed { why: if text.is_empty() { reason } else { format!("{reason}: {text}") } }
        }
        None if dialect == Dialect::Plain => AgentEnd::Finished,
        None => AgentEnd::Failed { why: "it ended without a result".into() },
    }
}

fn with_last_words(what: &str, summary: &StreamSummary) -> String {
    const MOST: usize = 200;
    match last_line(summary) {
        Some(line) => format!("{what}: {}", line.chars().take(MOST).collect::<String>()),
        None => what.to_owned(),
    }
}

fn last_line(summary: &StreamSummary) -> Option<&str> {
    let said = summary.result.as_ref().map_or(summary.last_words.as_str(), |result| result.text.as_str());
    // Who gives up before it begins says why on stderr alone.
    let words = if said.trim().is_empty() { summary.last_unknown.as_str() } else { said };
    words.lines().rev().map(str::trim).find(|line| !line.is_empty())
}
