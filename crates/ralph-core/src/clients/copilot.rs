//! Copilot's `--output-format json`, as 1.0.102 writes it. It reports neither cost nor tokens, only requests.

use serde::Deserialize;

use crate::clients::profile::{Argument, Profile, resume, with_places};
use crate::clients::stream::dialect::Dialect;
use crate::clients::stream::loose::{FirstObjects, Number, Object, Text, object};
use crate::clients::stream::{
    AgentEvent, EventSink, LineMeaning, ReadLines, RunResult, is_limit, is_session_id,
};
use crate::model::id::SessionId;

/// How the driver runs it.
pub(crate) fn profile() -> Profile {
    Profile {
        arguments: with_places(
            &["--output-format", "json", "--allow-all", "--no-ask-user"],
            &[Argument::Model, Argument::Session],
        ),
        resume: resume(&["--resume={session}"]),
        model_flag: Some("--model".into()),
        may: "everything the client can do (`--allow-all`)".into(),
        how_to_get: "npm install -g @github/copilot".into(),
        ..Profile::of_client("copilot", Dialect::Copilot)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Row {
    r#type: Text,
    data: Object<Data>,
    #[serde(rename = "sessionId")]
    session_id: Text,
    #[serde(rename = "exitCode")]
    exit_code: Number,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Data {
    content: Text,
    tool_requests: FirstObjects<ToolRequest>,
    /// Set on a sub-agent's messages.
    parent_tool_call_id: Text,
    error_type: Text,
    message: Text,
    status_code: Number,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ToolRequest {
    name: Text,
    arguments: Object<Arguments>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Arguments {
    command: Text,
    path: Text,
    pattern: Text,
    query: Text,
    description: Text,
    prompt: Text,
}

impl Arguments {
    fn about(&self) -> &str {
        let keys = [&self.command, &self.path, &self.pattern, &self.query, &self.description, &self.prompt];
        keys.into_iter().find_map(Text::filled).unwrap_or_default()
    }
}

#[derive(Default)]
pub(crate) struct CopilotReader {
    last_said: String,
    error: Option<Failure>,
    turns: u32,
}

struct Failure {
    kind: String,
    text: String,
    status: Option<u16>,
}

impl CopilotReader {
    fn message(&mut self, data: &Data, out: &mut EventSink<'_>) {
        if data.content.filled().is_some() && data.parent_tool_call_id.0.is_none() {
            self.last_said = out.message(data.content.as_str());
            out.said(data.content.as_str());
        }
        for request in &data.tool_requests.0 {
            let about = request.arguments.0.as_ref().map(Arguments::about).unwrap_or_default();
            out.used_tool(request.name.as_str(), about);
        }
    }

    fn fail(&mut self, data: &Data, out: &mut EventSink<'_>) {
        let status: Option<u16> = data.status_code.small();
        let kind = data.error_type.as_str();
        if matches!(kind, "quota" | "rate_limit") || status.is_some_and(is_limit) {
            out.limit_reached(None, data.message.as_str());
        }
        self.error = Some(Failure { kind: out.name(kind), text: out.message(data.message.as_str()), status });
    }

    fn result(&mut self, row: &Row, out: &mut EventSink<'_>) {
        if let Some(id) = row.session_id.filled().filter(|id| is_session_id(id)) {
            out.put(AgentEvent::Session { id: SessionId::new(id) });
        }
        let is_ok = row.exit_code.count() == Some(0);
        let said = std::mem::take(&mut self.last_said);
        let result = match self.error.take().filter(|_| !is_ok) {
            Some(Failure { kind, text, status }) => {
                RunResult { reason: Some(kind), text, status, ..RunResult::default() }
            }
            None => RunResult {
                ok: is_ok,
                reason: Some(if is_ok { "completed" } else { "failed" }.to_owned()),
                text: said,
                ..RunResult::default()
            },
        };
        out.put(AgentEvent::Result(RunResult { turns: Some(self.turns), ..result }));
    }
}

impl ReadLines for CopilotReader {
    fn line(&mut self, line: &str, out: &mut EventSink<'_>) -> LineMeaning {
        let Some(row) = object::<Row>(line) else { return LineMeaning::Unknown };
        match (row.r#type.as_str(), &row.data.0) {
            ("assistant.message", Some(data)) => self.message(data, out),
            ("assistant.turn_start", _) => self.turns = self.turns.saturating_add(1),
            ("session.error", Some(data)) => self.fail(data, out),
            ("result", _) => self.result(&row, out),
            (kind, _) if is_familiar(kind) => {}
            _ => return LineMeaning::Unknown,
        }
        LineMeaning::Known
    }
}

/// Known events that add nothing.
fn is_familiar(kind: &str) -> bool {
    ["session.", "user.", "assistant.", "model.", "subagent.", "tool.", "hook.", "permission."]
        .iter()
        .any(|family| kind.starts_with(family))
}
