//! OpenCode's `run --format json`, as 1.18.33 writes it. It prints no result line; the result is built from the last
//! step when the stream ends.

use serde::Deserialize;

use crate::clients::profile::{Argument, Profile, resume, with_places};
use crate::clients::stream::dialect::Dialect;
use crate::clients::stream::loose::{Number, Object, Text, object};
use crate::clients::stream::{
    AgentEvent, EventSink, LineMeaning, ReadLines, RunResult, Tokens, is_limit, is_session_id,
};
use crate::model::id::SessionId;
use crate::model::money::Micros;

/// How the driver runs it.
pub(crate) fn profile() -> Profile {
    Profile {
        arguments: with_places(&["run", "--format", "json", "--auto"], &[Argument::Model, Argument::Session]),
        resume: resume(&["-s", "{session}"]),
        model_flag: Some("-m".into()),
        may: "everything the client can do (`--auto`)".into(),
        how_to_get: "npm install -g opencode-ai".into(),
        ..Profile::of_client("opencode", Dialect::OpenCode)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Row {
    r#type: Text,
    #[serde(rename = "sessionID")]
    session_id: Text,
    part: Object<Part>,
    error: Object<Failure>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Part {
    text: Text,
    reason: Text,
    tokens: Object<Counts>,
    cost: Number,
    tool: Text,
    state: Object<ToolState>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Counts {
    input: Number,
    output: Number,
    cache: Object<Cache>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Cache {
    read: Number,
    write: Number,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ToolState {
    input: Object<ToolInput>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ToolInput {
    command: Text,
    #[serde(rename = "filePath")]
    file_path: Text,
    pattern: Text,
    path: Text,
    url: Text,
    description: Text,
}

impl ToolInput {
    fn about(&self) -> &str {
        let keys = [&self.command, &self.file_path, &self.pattern, &self.path, &self.url, &self.description];
        keys.into_iter().find_map(Text::filled).unwrap_or_default()
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Failure {
    name: Text,
    data: Object<FailureData>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FailureData {
    message: Text,
    #[serde(rename = "statusCode")]
    status_code: Number,
}

#[derive(Default)]
pub(crate) struct OpenCodeReader {
    session: Option<String>,
    last_said: String,
    /// The totals of the steps so far.
    so_far: Option<RunResult>,
}

impl OpenCodeReader {
    fn meet(&mut self, session: &Text, out: &mut EventSink<'_>) {
        if let Some(id) = session.filled().filter(|id| is_session_id(id))
            && self.session.as_deref() != Some(id)
        {
            self.session = Some(id.to_owned());
            out.put(AgentEvent::Session { id: SessionId::new(id) });
        }
    }

    fn finish_step(&mut self, part: &Part, out: &mut EventSink<'_>) {
        let count = |number: Number| number.count().unwrap_or(0);
        let counts = part.tokens.0.as_ref();
        let cache = counts.and_then(|counts| counts.cache.0.as_ref());
        let read = cache.map_or(0, |cache| count(cache.read));
        let written = cache.map_or(0, |cache| count(cache.write));
        let tokens = counts.map_or_else(Tokens::default, |counts| Tokens {
            input: count(counts.input).saturating_add(read).saturating_add(written),
            cached: read,
            output: count(counts.output),
        });
        let before = self.so_far.take().unwrap_or_default();
        let cost = part.cost.0.and_then(Micros::from_dollars);
        self.so_far = Some(RunResult {
            ok: part.reason.as_str() == "stop",
            reason: part.reason.filled().map(|reason| out.name(reason)),
            cost_usd: match (before.cost_usd, cost) {
                (Some(before), Some(more)) => Some(before.plus(more)),
                (before, more) => before.or(more),
            },
            tokens: before.tokens.plus(tokens),
            turns: Some(before.turns.unwrap_or(0).saturating_add(1)),
            ..RunResult::default()
        });
    }

    fn fail(&mut self, failure: &Failure, out: &mut EventSink<'_>) {
        let data = failure.data.0.as_ref();
        let message = data.map(|data| data.message.as_str()).unwrap_or_default();
        let status: Option<u16> = data.and_then(|data| data.status_code.small());
        if status.is_some_and(is_limit) {
            out.limit_reached(None, message);
        }
        self.last_said = out.message(message);
        let before = self.so_far.take().unwrap_or_default();
        let reason = failure.name.filled().map_or_else(|| "error".to_owned(), |name| out.name(name));
        self.so_far = Some(RunResult { ok: false, reason: Some(reason), status, ..before });
    }
}

impl ReadLines for OpenCodeReader {
    fn line(&mut self, line: &str, out: &mut EventSink<'_>) -> LineMeaning {
        let Some(row) = object::<Row>(line) else { return LineMeaning::Unknown };
        let part = row.part.0.unwrap_or_default();
        match row.r#type.as_str() {
            "step_start" | "reasoning" => {}
            "text" => {
                self.last_said = out.message(part.text.as_str());
                out.said(part.text.as_str());
            }
            "tool_use" => {
                let input = part.state.0.as_ref().and_then(|state| state.input.0.as_ref());
                out.used_tool(part.tool.as_str(), input.map(ToolInput::about).unwrap_or_default());
            }
            "step_finish" => self.finish_step(&part, out),
            "error" => self.fail(&row.error.0.unwrap_or_default(), out),
            _ => return LineMeaning::Unknown,
        }
        self.meet(&row.session_id, out);
        LineMeaning::Known
    }

    fn end(&mut self, out: &mut EventSink<'_>) {
        if let Some(result) = self.so_far.take() {
            let text = std::mem::take(&mut self.last_said);
            out.put(AgentEvent::Result(RunResult { text, ..result }));
        }
    }
}
