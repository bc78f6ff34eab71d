//! Codex's `exec --json`, as 0.166.0 writes it. It reports no cost, and a failed turn only by its message; that message
//! is the client's own, so limits are read only from it.

use std::collections::VecDeque;

use jiff::Timestamp;
use serde::Deserialize;

use crate::clients::profile::{Argument, Profile, resume, with_places};
use crate::clients::stream::dialect::Dialect;
use crate::clients::stream::loose::{FirstObjects, Number, Object, Text, object};
use crate::clients::stream::{
    AgentEvent, EventSink, LineMeaning, ReadLines, RunResult, Tokens, is_limit, is_session_id,
};
use crate::model::id::SessionId;

/// How the driver runs it.
pub(crate) fn profile() -> Profile {
    Profile {
        arguments: with_places(
            &["exec", "--json", "--skip-git-repo-check", "-s", "workspace-write"],
            // A lone dash reads the prompt from stdin.
            &[Argument::Model, Argument::Session, Argument::Literal("-".into())],
        ),
        resume: resume(&["resume", "{session}"]),
        model_flag: Some("-m".into()),
        may: "edit files in the project and run any command in the client's own sandbox".into(),
        how_to_get: "npm install -g @openai/codex".into(),
        ..Profile::of_client("codex", Dialect::Codex)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Row {
    r#type: Text,
    thread_id: Text,
    item: Object<Item>,
    usage: Object<Usage>,
    error: Object<Failure>,
    message: Text,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Item {
    id: Text,
    r#type: Text,
    text: Text,
    command: Text,
    status: Text,
    tool: Text,
    server: Text,
    query: Text,
    prompt: Text,
    changes: FirstObjects<Change>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Change {
    path: Text,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Usage {
    input_tokens: Number,
    cached_input_tokens: Number,
    output_tokens: Number,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Failure {
    message: Text,
    r#type: Text,
    code: Text,
    resets_at: Number,
}

const REMEMBERED: usize = 64;
const LONGEST_ID: usize = 128;

#[derive(Default)]
pub(crate) struct CodexReader {
    /// Items already reported when they began.
    begun: VecDeque<String>,
    last_said: String,
    turns: u32,
}

impl CodexReader {
    fn item(&mut self, item: &Item, begins: bool, out: &mut EventSink<'_>) -> LineMeaning {
        match item.r#type.as_str() {
            "agent_message" if !begins => {
                self.last_said = out.message(item.text.as_str());
                out.said(item.text.as_str());
            }
            "command_execution" => {
                self.tool(item, "shell", item.command.as_str(), out);
                if !begins && item.status.as_str() == "declined" {
                    out.denied("shell", item.command.as_str());
                }
            }
            "file_change" => {
                let paths: Vec<&str> = item.changes.0.iter().map(|change| change.path.as_str()).collect();
                self.tool(item, "edit", &paths.join(", "), out);
            }
            "mcp_tool_call" => {
                let name = format!("{}.{}", item.server.as_str(), item.tool.as_str());
                self.tool(item, &name, "", out);
            }
            "web_search" => self.tool(item, "web_search", item.query.as_str(), out),
            "collab_tool_call" => self.tool(item, item.tool.as_str(), item.prompt.as_str(), out),
            // An `error` here is a warning; the turn continues.
            "agent_message" | "reasoning" | "todo_list" | "error" => {}
            _ => return LineMeaning::Unknown,
        }
        LineMeaning::Known
    }

    /// Reports each item once: when it begins, otherwise when it ends.
    fn tool(&mut self, item: &Item, name: &str, about: &str, out: &mut EventSink<'_>) {
        let id = item.id.as_str();
        if self.begun.iter().any(|begun| begun == id) {
            return;
        }
        if id.len() <= LONGEST_ID {
            if self.begun.len() >= REMEMBERED {
                self.begun.pop_front();
            }
            self.begun.push_back(id.to_owned());
        }
        out.used_tool(name, about);
    }

    fn completed(&mut self, usage: Option<&Usage>, out: &mut EventSink<'_>) {
        let count = |number: Number| number.count().unwrap_or(0);
        let tokens = usage.map(|usage| Tokens {
            input: count(usage.input_tokens),
            cached: count(usage.cached_input_tokens),
            output: count(usage.output_tokens),
        });
        self.turns = self.turns.saturating_add(1);
        out.put(AgentEvent::Result(RunResult {
            ok: true,
            reason: Some("completed".into()),
            text: std::mem::take(&mut self.last_said),
            tokens: tokens.unwrap_or_default(),
            turns: Some(self.turns),
            ..RunResult::default()
        }));
    }

    fn failed(&mut self, failure: &Failure, out: &mut EventSink<'_>) {
        let message = failure.message.as_str();
        let status = status_in(message);
        let kind = failure.code.filled().or(failure.r#type.filled());
        let is_named = [kind.unwrap_or_default(), message].iter().any(|text| names_limit(text));
        if status.is_some_and(is_limit) || is_named {
            let until =
                failure.resets_at.count().and_then(|at| Timestamp::from_second(i64::try_from(at).ok()?).ok());
            out.limit_reached(until, message);
        }
        out.put(AgentEvent::Result(RunResult {
            ok: false,
            reason: Some(kind.map_or_else(|| "turn_failed".to_owned(), |kind| out.name(kind))),
            text: out.message(message),
            status,
            ..RunResult::default()
        }));
    }
}

impl ReadLines for CodexReader {
    fn line(&mut self, line: &str, out: &mut EventSink<'_>) -> LineMeaning {
        let Some(row) = object::<Row>(line) else { return LineMeaning::Unknown };
        match (row.r#type.as_str(), &row.item.0) {
            ("thread.started", _) => {
                if let Some(id) = row.thread_id.filled().filter(|id| is_session_id(id)) {
                    out.put(AgentEvent::Session { id: SessionId::new(id) });
                }
            }
            ("item.started", Some(item)) => return self.item(item, true, out),
            ("item.completed", Some(item)) => return self.item(item, false, out),
            ("turn.completed", _) => self.completed(row.usage.0.as_ref(), out),
            ("turn.failed", _) => self.failed(&row.error.0.unwrap_or_default(), out),
            ("error", _) => {
                if let Some(attempt) = reconnecting(row.message.as_str()) {
                    let why = out.one_line(row.message.as_str());
                    out.put(AgentEvent::Retry { attempt, status: None, why, wait: None });
                }
            }
            ("turn.started" | "item.updated", _) => {}
            _ => return LineMeaning::Unknown,
        }
        LineMeaning::Known
    }
}

/// `… last status: 429 Too Many Requests`.
fn status_in(message: &str) -> Option<u16> {
    let (_, after) = message.split_once("status: ").or_else(|| message.split_once("status "))?;
    let digits = after.get(..3)?;
    let ends = after[3..].chars().next().is_none_or(|next| !next.is_ascii_alphanumeric());
    digits.parse().ok().filter(|status| ends && (100..600).contains(status))
}

/// Matches the client's messages for an exhausted plan and an overloaded service.
fn names_limit(text: &str) -> bool {
    const WORDS: [&str; 4] = ["usage_limit", "usage limit", "model is at capacity", "experiencing high"];
    let text = text.to_ascii_lowercase();
    WORDS.iter().any(|words| text.contains(words))
}

/// `Reconnecting... 2/5`.
fn reconnecting(message: &str) -> Option<u32> {
    let rest = message.strip_prefix("Reconnecting")?.trim_start_matches(['.', '…', ' ']);
    rest.split_once('/')?.0.parse().ok()
}
