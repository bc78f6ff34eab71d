//! What a headless agent prints, line by line, as events: one file per client's dialect in `stream/`.
//!
//! It is read as it comes and takes no more memory than its longest allowed line, whatever is printed. The agent's words
//! are shown and remembered and decide nothing: limits, denials and results are taken only from events that the client
//! itself writes, never from text that a model or a tool could have put there.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::id::SessionId;
use crate::model::money::Micros;
use crate::model::secrets::Secrets;

pub mod dialect;
pub(crate) mod loose;
pub(crate) mod shown;
pub(crate) mod summary;

pub use summary::{Denial, Limit, StreamSummary};

/// Something that happened in an agent's run. Every text in it is short and safe to show.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum AgentEvent {
    /// By this id the same conversation can be gone on with.
    Session {
        id: SessionId,
    },
    Said {
        text: String,
    },
    UsedTool {
        name: String,
        /// The command, the file, or what else says most in few words.
        about: String,
    },
    /// The client did not let the agent do this.
    Denied {
        tool: String,
        about: String,
    },
    /// The client asks the service again.
    Retry {
        attempt: u32,
        status: Option<u16>,
        why: String,
        wait: Option<Duration>,
    },
    /// The service gives no more for now. Nobody's work is at fault.
    LimitReached {
        until: Option<Timestamp>,
        why: String,
    },
    /// One turn of the agent is over. A run can have several; the last one counts.
    Result(RunResult),
    /// A line that means nothing to us: the log has it, and it is counted.
    Unknown,
}

/// How one turn ended, with what it used since the result before it.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunResult {
    pub ok: bool,
    /// Why it ended, in the client's own word for it.
    pub reason: Option<String>,
    /// The agent's last message, or what went wrong.
    pub text: String,
    pub cost_usd: Option<Micros>,
    pub tokens: Tokens,
    pub turns: Option<u32>,
    /// Tool and what it was about.
    pub denials: Vec<(String, String)>,
    /// The HTTP status that the service answered with, where it is the reason.
    pub status: Option<u16>,
}

#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// All that went in, what was cached included.
    pub input: u64,
    /// How many of those came from a cache.
    pub cached: u64,
    pub output: u64,
}

impl Tokens {
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            cached: self.cached.saturating_add(other.cached),
            output: self.output.saturating_add(other.output),
        }
    }
}

/// Whether a line meant something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Known,
    Unknown,
}

/// One client's dialect. It may remember a bounded amount between two lines.
pub(crate) trait ReadLines: Send {
    fn line(&mut self, line: &str, out: &mut Out<'_>) -> Line;

    /// There are no more lines.
    fn end(&mut self, _out: &mut Out<'_>) {}
}

/// Where a dialect's events go, cleaned on the way.
pub(crate) struct Out<'a> {
    pub(crate) secrets: &'a Secrets,
    on: &'a mut dyn FnMut(AgentEvent),
}

impl Out<'_> {
    pub(crate) fn put(&mut self, event: AgentEvent) {
        (self.on)(event);
    }

    pub(crate) fn said(&mut self, text: &str) {
        let text = shown::paragraph(text, self.secrets);
        if !text.is_empty() {
            self.put(AgentEvent::Said { text });
        }
    }

    pub(crate) fn used_tool(&mut self, name: &str, about: &str) {
        let event = AgentEvent::UsedTool { name: self.name(name), about: self.one_line(about) };
        self.put(event);
    }

    pub(crate) fn denied(&mut self, tool: &str, about: &str) {
        let event = AgentEvent::Denied { tool: self.name(tool), about: self.one_line(about) };
        self.put(event);
    }

    pub(crate) fn limit_reached(&mut self, until: Option<Timestamp>, why: &str) {
        let why = self.one_line(why);
        self.put(AgentEvent::LimitReached { until, why });
    }

    pub(crate) fn name(&self, text: &str) -> String {
        shown::name(text, self.secrets)
    }

    pub(crate) fn one_line(&self, text: &str) -> String {
        shown::one_line(text, self.secrets)
    }

    /// What is looked at as the agent's last message.
    pub(crate) fn message(&self, text: &str) -> String {
        shown::message(text, self.secrets)
    }
}

/// A longer line is skipped to its end. Real ones hold a whole file at most.
pub const LONGEST_LINE: usize = 4 * 1024 * 1024;

/// Statuses by which a service says "not now": too much asked, or too much to do.
pub(crate) fn is_limit(status: u16) -> bool {
    matches!(status, 429 | 503 | 529)
}

/// Whether a text can stand on a command line as the id of a session: it is printed by the client, and what looks like a
/// flag or a path must not come back as one.
pub fn is_session_id(text: &str) -> bool {
    text.len() <= 128
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// Reads the stream of one run.
pub struct StreamReader {
    reader: Box<dyn ReadLines>,
    secrets: Secrets,
    summary: StreamSummary,
    output: Unfinished,
    errors: Unfinished,
}

/// Where a client prints. A warning in the middle of a row must not tear it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    Output,
    Errors,
}

/// The beginning of a line whose end has not come yet.
#[derive(Default)]
struct Unfinished {
    line: Vec<u8>,
    /// Inside a line that is too long.
    skipping: bool,
}

impl Unfinished {
    fn is_nothing(&self) -> bool {
        self.line.is_empty() && !self.skipping
    }

    /// Adds to the line, unless that makes it too long.
    fn keep(&mut self, part: &[u8]) {
        if self.skipping || self.line.len() + part.len() > LONGEST_LINE {
            self.skipping = true;
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(part);
        }
    }
}

impl StreamReader {
    pub(crate) fn of(reader: Box<dyn ReadLines>) -> Self {
        Self {
            reader,
            secrets: Secrets::default(),
            summary: StreamSummary::default(),
            output: Unfinished::default(),
            errors: Unfinished::default(),
        }
    }

    /// Blots these out of everything that is shown.
    #[must_use]
    pub fn hiding(self, secrets: Secrets) -> Self {
        Self { secrets, ..self }
    }

    /// Takes the next bytes, cut anywhere.
    pub fn feed(&mut self, channel: Channel, mut bytes: &[u8], on: &mut dyn FnMut(AgentEvent)) {
        self.summary.bytes += bytes.len() as u64;
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (part, rest) = (&bytes[..end], &bytes[end + 1..]);
            bytes = rest;
            if self.unfinished(channel).is_nothing() && part.len() <= LONGEST_LINE {
                self.read(part, on);
                continue;
            }
            self.unfinished(channel).keep(part);
            self.end_line(channel, on);
        }
        self.unfinished(channel).keep(bytes);
    }

    /// What the whole run came to. A last line without an end counts.
    pub fn end(mut self, on: &mut dyn FnMut(AgentEvent)) -> StreamSummary {
        for channel in [Channel::Output, Channel::Errors] {
            if !self.unfinished(channel).is_nothing() {
                self.end_line(channel, on);
            }
        }
        let Self { reader, secrets, summary, .. } = &mut self;
        reader.end(&mut Out { secrets, on: &mut |event| tell(summary, event, on) });
        self.summary
    }

    fn unfinished(&mut self, channel: Channel) -> &mut Unfinished {
        match channel {
            Channel::Output => &mut self.output,
            Channel::Errors => &mut self.errors,
        }
    }

    fn end_line(&mut self, channel: Channel, on: &mut dyn FnMut(AgentEvent)) {
        let Unfinished { mut line, skipping } = std::mem::take(self.unfinished(channel));
        if skipping {
            self.summary.lines += 1;
            tell(&mut self.summary, AgentEvent::Unknown, on);
            return;
        }
        self.read(&line, on);
        line.clear();
        self.unfinished(channel).line = line;
    }

    fn read(&mut self, line: &[u8], on: &mut dyn FnMut(AgentEvent)) {
        let line = String::from_utf8_lossy(line);
        let line = line.trim();
        if line.is_empty() {
            return;
        }
        self.summary.lines += 1;
        let Self { reader, secrets, summary, .. } = self;
        let known = reader.line(line, &mut Out { secrets, on: &mut |event| tell(summary, event, on) });
        if known == Line::Unknown {
            self.summary.last_unknown = shown::one_line(line, &self.secrets);
            tell(&mut self.summary, AgentEvent::Unknown, on);
        }
    }
}

fn tell(summary: &mut StreamSummary, event: AgentEvent, on: &mut dyn FnMut(AgentEvent)) {
    summary.apply(&event);
    on(event);
}

#[cfg(test)]
mod tests;
