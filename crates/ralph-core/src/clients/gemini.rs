//! Gemini's `stream-json`, as 0.61.0 writes it. Messages arrive in pieces and are reported whole.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use crate::clients::profile::{Argument, Profile, resume, with_places};
use crate::clients::stream::dialect::Dialect;
use crate::clients::stream::loose::{Flag, Number, Object, Text, object};
use crate::clients::stream::shown::MOST_MESSAGE;
use crate::clients::stream::{
    AgentEvent, EventSink, LineMeaning, ReadLines, RunResult, Tokens, is_limit, is_session_id,
};
use crate::model::id::SessionId;

/// How the driver runs it.
pub(crate) fn profile() -> Profile {
    Profile {
        // It refuses to run unattended in an unknown folder; the user has already trusted this one.
        arguments: with_places(
            &["-o", "stream-json", "-y", "--skip-trust"],
            &[Argument::Model, Argument::Session],
        ),
        resume: resume(&["--resume", "{session}"]),
        model_flag: Some("-m".into()),
        may: "everything the client can do (`-y`), in a folder that it takes as trusted (`--skip-trust`)"
            .into(),
        how_to_get: "npm install -g @google/gemini-cli".into(),
        ..Profile::of_client("gemini", Dialect::Gemini)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Row {
    r#type: Text,
    timestamp: Text,
    session_id: Text,
    role: Text,
    content: Text,
    delta: Flag,
    tool_name: Text,
    parameters: Object<Parameters>,
    status: Text,
    stats: Object<Stats>,
    error: Object<Failure>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Parameters {
    command: Text,
    file_path: Text,
    absolute_path: Text,
    path: Text,
    pattern: Text,
    query: Text,
    prompt: Text,
    description: Text,
}

impl Parameters {
    fn about(&self) -> &str {
        let keys = [
            &self.command,
            &self.file_path,
            &self.absolute_path,
            &self.pattern,
            &self.path,
            &self.query,
            &self.prompt,
            &self.description,
        ];
        keys.into_iter().find_map(Text::filled).unwrap_or_default()
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Stats {
    input_tokens: Number,
    output_tokens: Number,
    cached: Number,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Failure {
    r#type: Text,
    message: Text,
    code: Number,
}

/// The most bytes of an unfinished message.
const MOST_KEPT: usize = 4 * MOST_MESSAGE;

#[derive(Default)]
pub(crate) struct GeminiReader {
    /// The unfinished message, or its end.
    saying: String,
    last_said: String,
}

impl GeminiReader {
    fn read_row(&mut self, row: &Row, out: &mut EventSink<'_>) {
        if !row.delta.0 {
            self.finish_message(out);
        }
        self.saying.push_str(row.content.as_str());
        // Only the end is needed. It is trimmed by halves, because an endless message grows a few letters at a time.
        if self.saying.len() > 2 * MOST_KEPT {
            let from = self.saying.len() - MOST_KEPT;
            let start = (from..).find(|at| self.saying.is_char_boundary(*at)).unwrap_or(from);
            self.saying.drain(..start);
        }
        if !row.delta.0 {
            self.finish_message(out);
        }
    }

    fn finish_message(&mut self, out: &mut EventSink<'_>) {
        if !self.saying.is_empty() {
            self.last_said = out.message(&self.saying);
            out.said(&self.saying);
            self.saying.clear();
        }
    }

    fn result(&mut self, row: &Row, out: &mut EventSink<'_>) {
        let count = |number: Number| number.count().unwrap_or(0);
        let stats = row.stats.0.as_ref();
        let failure = row.error.0.as_ref();
        let is_ok = row.status.as_str() == "success";
        if let Some(failure) = failure.filter(|failure| !is_ok && is_quota(failure)) {
            out.limit_reached(reset(row, failure), failure.message.as_str());
        }
        let said = std::mem::take(&mut self.last_said);
        out.put(AgentEvent::Result(RunResult {
            ok: is_ok,
            reason: failure
                .and_then(|failure| failure.r#type.filled())
                .or(row.status.filled())
                .map(|reason| out.name(reason)),
            text: failure.map_or(said, |failure| out.message(failure.message.as_str())),
            tokens: stats.map_or_else(Tokens::default, |stats| Tokens {
                input: count(stats.input_tokens),
                cached: count(stats.cached),
                output: count(stats.output_tokens),
            }),
            status: failure
                .and_then(|failure| failure.code.small())
                .filter(|status| (100..600).contains(status)),
            ..RunResult::default()
        }));
    }
}

impl ReadLines for GeminiReader {
    fn line(&mut self, line: &str, out: &mut EventSink<'_>) -> LineMeaning {
        let Some(row) = object::<Row>(line) else { return LineMeaning::Unknown };
        if (row.r#type.as_str(), row.role.as_str()) == ("message", "assistant") {
            self.read_row(&row, out);
            return LineMeaning::Known;
        }
        self.finish_message(out);
        match row.r#type.as_str() {
            "init" => {
                if let Some(id) = row.session_id.filled().filter(|id| is_session_id(id)) {
                    out.put(AgentEvent::Session { id: SessionId::new(id) });
                }
            }
            "tool_use" => {
                let about = row.parameters.0.as_ref().map(Parameters::about).unwrap_or_default();
                out.used_tool(row.tool_name.as_str(), about);
            }
            "result" => self.result(&row, out),
            "message" | "tool_result" | "error" => {}
            _ => return LineMeaning::Unknown,
        }
        LineMeaning::Known
    }

    fn end(&mut self, out: &mut EventSink<'_>) {
        self.finish_message(out);
    }
}

/// Matches the error's type or status, or the line that the client appends to a 429 response. The quoted response in
/// the brackets before it is ignored.
fn is_quota(failure: &Failure) -> bool {
    const ADVICE: [&str; 2] = ["Please wait and try again later.", "Possible quota limitations in place"];
    let message = failure.message.as_str();
    let added = message.strip_prefix("[API Error: ").and_then(|rest| rest.rsplit_once("]\n"));
    failure.r#type.as_str().ends_with("QuotaError")
        || failure.code.small().is_some_and(is_limit)
        || added.is_some_and(|(_, line)| ADVICE.iter().any(|advice| line.starts_with(advice)))
}

/// `… will reset after 2h36m24s.` or `Please retry in 34.07s.`, relative to the line's timestamp.
fn reset(row: &Row, failure: &Failure) -> Option<Timestamp> {
    let message = failure.message.as_str();
    let words = ["reset after ", "retry in ", "retry after "];
    let (_, after) = words.iter().find_map(|words| message.split_once(words))?;
    let length = after.split(|c: char| !c.is_ascii_alphanumeric() && c != '.').next()?;
    let length: SignedDuration = length.trim_end_matches('.').parse().ok()?;
    let written: Timestamp = row.timestamp.as_str().parse().ok()?;
    written.checked_add(length).ok().filter(|until| *until > written)
}
