//! One agent run: started, read, and ended together with every process it started.
//!
//! ```text
//!  output ─► tap: stream reader ─► events ─┐
//!  run_tapped ─────────────────► its end ──┼─► one channel ─► run
//!  recv_timeout ───────────────► silence ──┘
//! ```
//!
//! The channel is bounded: an agent that floods it has to wait, and memory use stays constant.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ralph_core::clients::list;
use ralph_core::clients::profile::CommandLine;
use ralph_core::clients::stream::dialect::Dialect;
use ralph_core::clients::stream::{AgentEvent, RunResult, StreamReader, StreamSummary};
use ralph_core::ledger::event::{AgentEnd, AgentRun};
use ralph_core::model::id::TreeHash;
use ralph_core::model::money::Micros;
use ralph_core::model::secrets::Secrets;

use crate::sys::proc::{self, FinishedJob, Job, OutputTap, Program, ShutdownRules, StopRequest, Termination};
use crate::sys::signals::Signals;

pub(super) struct AgentCall<'a> {
    pub(super) line: &'a CommandLine,
    pub(super) root: &'a Path,
    /// The complete environment.
    pub(super) environment: &'a [(OsString, OsString)],
    pub(super) dialect: Dialect,
    /// What the resumed session has cost so far.
    pub(super) cost_before: Micros,
    /// Where its complete output is stored.
    pub(super) log: &'a Path,
    pub(super) marker: &'a str,
    pub(super) longest_run: Duration,
    pub(super) longest_silence: Duration,
    pub(super) signals: &'a Signals,
    /// An agent that changes files is not idle.
    pub(super) tree: &'a dyn Fn() -> Option<TreeHash>,
    /// Redacted from everything that is shown.
    pub(super) secrets: Secrets,
}

/// The result of a run.
pub(super) struct AgentRan {
    pub(super) run: AgentRun,
    pub(super) summary: StreamSummary,
}

enum AgentMessage {
    Event(AgentEvent),
    Ended(FinishedJob),
}

/// How many events may be queued.
const QUEUE: usize = 256;

pub(super) fn run(mut call: AgentCall<'_>, on: &mut dyn FnMut(&AgentEvent)) -> AgentRan {
    let (sender, inbox) = mpsc::sync_channel(QUEUE);
    let secrets = std::mem::take(&mut call.secrets);
    let listener = OutputListener::new(list::stream_reader(call.dialect, call.cost_before).hiding(secrets));
    let silence_stop = StopRequest::new();
    let arguments: Vec<OsString> = call.line.arguments.iter().map(OsString::from).collect();
    let job = Job {
        command: Program::Program {
            program: OsStr::new(&call.line.program),
            arguments: &arguments,
            stdin: call.line.stdin.as_deref(),
        },
        dir: call.root,
        env: call.environment,
        timeout: call.longest_run,
        manners: ShutdownRules::of_an_agent(),
        // JSON lines must stay whole; plain text is read in the order it arrives.
        errors_apart: call.dialect != Dialect::Plain,
        log: call.log,
        marker: call.marker,
    };
    let mut silence = SilenceWatch::new(&call);
    let ended = std::thread::scope(|scope| {
        let (tap, done, stop) = (listener.tap(sender.clone()), sender, &silence_stop);
        let (job, signals) = (&job, call.signals);
        scope.spawn(move || {
            let ended = proc::run_tapped(job, &[&signals.stop, stop], Some(tap));
            // The receiver lives until the run has ended.
            let _sent = done.send(AgentMessage::Ended(ended));
        });
        loop {
            match inbox.recv_timeout(silence.left(&listener)) {
                Ok(AgentMessage::Event(event)) => on(&event),
                Ok(AgentMessage::Ended(ended)) => break Some(ended),
                Err(RecvTimeoutError::Timeout) if silence.is_too_long(&listener) => silence_stop.ask(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break None,
            }
        }
    });
    let mut summary = listener.end(on);
    if let Some(FinishedJob { how: Termination::Exited { code }, .. }) = ended {
        summary.add_exit(call.dialect, code);
    }
    let went_silent = silence_stop.is_requested();
    let is_shell = call.line.program == "sh";
    AgentRan { run: agent_run((call.dialect, is_shell), ended, went_silent, &summary), summary }
}

/// Receives the output on the thread that reads it.
struct OutputListener {
    begun: Instant,
    reader: Arc<Mutex<Option<StreamReader>>>,
    /// Milliseconds since the start.
    last_byte: Arc<AtomicU64>,
}

impl OutputListener {
    fn new(reader: StreamReader) -> Self {
        let reader = Arc::new(Mutex::new(Some(reader)));
        Self { begun: Instant::now(), reader, last_byte: Arc::default() }
    }

    fn tap(&self, sender: mpsc::SyncSender<AgentMessage>) -> OutputTap {
        let (begun, reader, last_byte) = (self.begun, self.reader.clone(), self.last_byte.clone());
        Box::new(move |channel, bytes| {
            last_byte
                .store(u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
            if let Some(reader) = reader.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
                // The receiver is gone: a process kept the output open after the agent's end.
                reader.feed(channel, bytes, &mut |event| drop(sender.send(AgentMessage::Event(event))));
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

/// Detects too long a time without output or file changes. Reading a tree is expensive, so it is read only half way through
/// a silence and at its end.
struct SilenceWatch<'a> {
    call: &'a AgentCall<'a>,
    /// When the tree last changed.
    moved: Instant,
    /// When the tree was read, and its hash.
    looked: Option<(Instant, Option<TreeHash>)>,
    over: bool,
}

impl<'a> SilenceWatch<'a> {
    fn new(call: &'a AgentCall<'a>) -> Self {
        Self { call, moved: Instant::now(), looked: None, over: false }
    }

    fn since(&self, listener: &OutputListener) -> Instant {
        listener.silent_since().max(self.moved)
    }

    /// The reading half way through the current silence.
    fn half_way_reading(&self, listener: &OutputListener) -> Option<&Option<TreeHash>> {
        self.looked.as_ref().filter(|(at, _)| *at > self.since(listener)).map(|(_, tree)| tree)
    }

    /// How long until the tree has to be read.
    fn left(&self, listener: &OutputListener) -> Duration {
        const LONG: Duration = Duration::from_secs(3600);
        let longest = self.call.longest_silence;
        let wait = if self.half_way_reading(listener).is_some() { longest } else { longest / 2 };
        let until = self.since(listener).checked_add(wait).filter(|_| !self.over);
        until.map_or(LONG, |until| until.saturating_duration_since(Instant::now()))
    }

    /// Reads the tree; returns whether the silence has lasted too long.
    fn is_too_long(&mut self, listener: &OutputListener) -> bool {
        if self.over || !self.left(listener).is_zero() {
            return false;
        }
        // A check that is half a silence late means that this process was suspended and missed what happened meanwhile.
        let is_late = self.since(listener).elapsed() > self.call.longest_silence * 3 / 2;
        let now = (self.call.tree)();
        match self.half_way_reading(listener) {
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
    ended: Option<FinishedJob>,
    went_silent: bool,
    summary: &StreamSummary,
) -> AgentRun {
    let took = ended.as_ref().map(|ended| ended.took).unwrap_or_default();
    let how = ended
        .map_or(Termination::CouldNotStart { why: "its output could not be read".into() }, |ended| ended.how);
    let end = match (&how, &summary.limit) {
        (Termination::Stopped, _) if went_silent => AgentEnd::WentSilent,
        (Termination::Stopped, _) => AgentEnd::Interrupted,
        (Termination::TimedOut, _) => AgentEnd::TimedOut,
        (_, Some(limit)) => AgentEnd::OutOfUsage { why: limit.why.clone() },
        (Termination::Exited { .. } | Termination::Leaked { .. }, None) if ended_by_own_limit(summary) => {
            AgentEnd::Finished
        }
        (_, None) if refused_login(summary) => {
            AgentEnd::LoginRefused { why: with_last_words("login refused", summary) }
        }
        (Termination::Exited { code: code @ (126 | 127) }, None)
            if is_shell && is_command_missing(summary) =>
        {
            AgentEnd::CouldNotStart { why: with_last_words(&format!("exit code {code}"), summary) }
        }
        (Termination::Exited { code: 0 } | Termination::Leaked { .. }, None) => {
            end_from_result(dialect, summary.result.as_ref())
        }
        (Termination::Exited { code }, None) => {
            AgentEnd::Failed { why: with_last_words(&format!("exit code {code}"), summary) }
        }
        (Termination::Signalled { signal }, None) => AgentEnd::Failed { why: format!("signal {signal}") },
        (Termination::CouldNotStart { why }, None) => AgentEnd::CouldNotStart { why: why.clone() },
    };
    let left_running = match how {
        Termination::Leaked { processes, .. } => processes,
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

/// Whether the service rejected the user's credentials.
fn refused_login(summary: &StreamSummary) -> bool {
    let result = summary.result.as_ref();
    result.is_some_and(|result| !result.ok && matches!(result.status, Some(401 | 403)))
}

/// Whether the shell reports that the command cannot be run.
fn is_command_missing(summary: &StreamSummary) -> bool {
    const WORDS: [&str; 3] = ["not found", "Permission denied", "No such file"];
    last_line(summary)
        .is_some_and(|line| line.starts_with("sh: ") && WORDS.iter().any(|words| line.contains(words)))
}

/// A limit of the client's own (turns, dollars) is not a failure, whatever the exit code: the work is judged.
fn ended_by_own_limit(summary: &StreamSummary) -> bool {
    const OWN_LIMITS: [&str; 4] =
        ["max_turns", "budget_exhausted", "error_max_turns", "error_max_budget_usd"];
    let reason = summary.result.as_ref().and_then(|result| result.reason.as_deref());
    reason.is_some_and(|reason| OWN_LIMITS.contains(&reason))
}

/// A client that exits with 0 can still report a failure.
fn end_from_result(dialect: Dialect, result: Option<&RunResult>) -> AgentEnd {
    match result {
        Some(result) if result.ok => AgentEnd::Finished,
        Some(result) => {
            let reason = result.reason.clone().unwrap_or_else(|| "the agent reported a failure".into());
            let text = result.text.lines().next().unwrap_or_default();
            AgentEnd::Failed { why: if text.is_empty() { reason } else { format!("{reason}: {text}") } }
        }
        None if dialect == Dialect::Plain => AgentEnd::Finished,
        None => AgentEnd::Failed { why: "the agent ended without a result".into() },
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
    // An agent that fails before it starts reports the reason only on stderr.
    let words = if said.trim().is_empty() { summary.last_unknown.as_str() } else { said };
    words.lines().rev().map(str::trim).find(|line| !line.is_empty())
}
