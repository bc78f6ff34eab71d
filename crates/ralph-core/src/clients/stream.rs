//! Parses a headless agent's output into events, line by line; each client has its own dialect.
//!
//! Memory is bounded by the longest allowed line. The agent's messages are never used for decisions: limits, denials
//! and results come only from the client's own events, never from text that a model or a tool could have produced.

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

pub use summary::{Denial, StreamSummary, UsageLimit};

/// An event of an agent's run. Its texts are short and safe to show.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum AgentEvent {
    /// The id to continue the same conversation.
    Session {
        id: SessionId,
    },
    Said {
        text: String,
    },
    UsedTool {
        name: String,
        /// The command, the file or another short summary.
        about: String,
    },
    /// The client denied this tool call.
    Denied {
        tool: String,
        about: String,
    },
    /// The client retries a request.
    Retry {
        attempt: u32,
        status: Option<u16>,
        why: String,
        wait: Option<Duration>,
    },
    /// A usage limit was reached.
    LimitReached {
        until: Option<Timestamp>,
        why: String,
    },
    /// A turn of the agent ended. A run can have several; the last one counts.
    Result(RunResult),
    /// An unrecognised line, which is only counted.
    Unknown,
}

/// How one turn ended, with the usage since the previous result.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunResult {
    pub ok: bool,
    /// Why it ended, as reported by the client.
    pub reason: Option<String>,
    /// The agent's last message or the error.
    pub text: String,
    pub cost_usd: Option<Micros>,
    pub tokens: Tokens,
    pub turns: Option<u32>,
    /// The tool and its summary.
    pub denials: Vec<(String, String)>,
    /// The HTTP status of the service, if it is the reason.
    pub status: Option<u16>,
}

#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// All input tokens, including cached ones.
    pub input: u64,
    /// Input tokens read from a cache.
    pub cached: u64,
    pub output: u64,
}

impl Tokens {
    /// None where the client counted nothing.
    pub fn known(self) -> Option<Self> {
        Some(self).filter(|tokens| *tokens != Self::default())
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            cached: self.cached.saturating_add(other.cached),
            output: self.output.saturating_add(other.output),
        }
    }
}

/// Clients that do not count their tokens report none: unknown is null in JSON, not zero.
pub mod tokens_or_null {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::Tokens;

    pub fn serialize<S: Serializer>(tokens: &Tokens, serializer: S) -> Result<S::Ok, S::Error> {
        tokens.known().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Tokens, D::Error> {
        Ok(Option::<Tokens>::deserialize(deserializer)?.unwrap_or_default())
    }
}

/// Whether a line was recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineMeaning {
    Known,
    Unknown,
}

/// One client's dialect. It may keep bounded state between lines.
pub(crate) trait ReadLines: Send {
    fn line(&mut self, line: &str, out: &mut EventSink<'_>) -> LineMeaning;

    /// Called at the end of the stream.
    fn end(&mut self, _out: &mut EventSink<'_>) {}
}

/// Collects a dialect's events and cleans their texts.
pub(crate) struct EventSink<'a> {
    pub(crate) secrets: &'a Secrets,
    on: &'a mut dyn FnMut(AgentEvent),
}

impl EventSink<'_> {
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

    /// The agent's last message, bounded.
    pub(crate) fn message(&self, text: &str) -> String {
        shown::message(text, self.secrets)
    }
}

/// Longer lines are skipped; real ones contain at most a whole file.
pub const LONGEST_LINE: usize = 4 * 1024 * 1024;

/// HTTP statuses for rate limits and overload.
pub(crate) fn is_limit(status: u16) -> bool {
    matches!(status, 429 | 503 | 529)
}

/// Whether a text is safe as a session id on a command line: it must not look like a flag or a path.
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

/// The two output streams, kept apart so that a warning cannot split a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    Output,
    Errors,
}

/// The unfinished last line.
#[derive(Default)]
struct Unfinished {
    line: Vec<u8>,
    /// Whether the current line is too long and skipped.
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

    /// Redacts these secrets in every event.
    #[must_use]
    pub fn hiding(self, secrets: Secrets) -> Self {
        Self { secrets, ..self }
    }

    /// Processes the next bytes, split at any point.
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

    /// The summary of the whole run. A last line without a line end counts.
    pub fn end(mut self, on: &mut dyn FnMut(AgentEvent)) -> StreamSummary {
        for channel in [Channel::Output, Channel::Errors] {
            if !self.unfinished(channel).is_nothing() {
                self.end_line(channel, on);
            }
        }
        let Self { reader, secrets, summary, .. } = &mut self;
        reader.end(&mut EventSink { secrets, on: &mut |event| emit(summary, event, on) });
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
            emit(&mut self.summary, AgentEvent::Unknown, on);
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
        let known = reader.line(line, &mut EventSink { secrets, on: &mut |event| emit(summary, event, on) });
        if known == LineMeaning::Unknown {
            self.summary.last_unknown = shown::one_line(line, &self.secrets);
            emit(&mut self.summary, AgentEvent::Unknown, on);
        }
    }
}

fn emit(summary: &mut StreamSummary, event: AgentEvent, on: &mut dyn FnMut(AgentEvent)) {
    summary.apply(&event);
    on(event);
}

#[cfg(test)]
mod tests;
