//! Claude Code's `stream-json`, as 2.1.325 writes it.
//!
//! Observed: one run can print several results, each with the usage since the previous one; the running total continues
//! over a resumed session; a refused request is a *success* with `is_error`; a denial is printed when it happens, and
//! again with its input in the result.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;

use crate::clients::stream::loose::{Add, FirstObjects, FirstText, Flag, Number, Object, Sum, Text, object};
use crate::clients::stream::{
    AgentEvent, EventSink, LineMeaning, ReadLines, RunResult, Tokens, is_limit, is_session_id,
};
use crate::model::id::SessionId;
use crate::model::money::Micros;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Row {
    r#type: Text,
    subtype: Text,
    session_id: Text,
    message: Object<Message>,
    parent_tool_use_id: Text,
    is_api_error_message: Flag,
    // api_retry
    attempt: Number,
    max_retries: Number,
    retry_delay_ms: Number,
    error_status: Number,
    error: Text,
    // permission_denied
    tool_name: Text,
    tool_use_id: Text,
    // rate_limit_event
    rate_limit_info: Object<RateLimit>,
    // result
    is_error: Flag,
    result: Text,
    errors: FirstText,
    terminal_reason: Text,
    num_turns: Number,
    total_cost_usd: Number,
    usage: Object<Usage>,
    model_usage_since_last_result: Object<Sum<ModelUsage>>,
    permission_denials: FirstObjects<PermissionDenial>,
    api_error_status: Number,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Message {
    content: FirstObjects<Block>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Block {
    r#type: Text,
    text: Text,
    id: Text,
    name: Text,
    input: Object<Input>,
}

/// The most informative keys of a tool's input.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Input {
    command: Text,
    file_path: Text,
    notebook_path: Text,
    path: Text,
    pattern: Text,
    url: Text,
    query: Text,
    description: Text,
    prompt: Text,
}

impl Input {
    fn about(&self) -> &str {
        let keys = [
            &self.command,
            &self.file_path,
            &self.notebook_path,
            &self.pattern,
            &self.path,
            &self.url,
            &self.query,
            &self.description,
            &self.prompt,
        ];
        keys.into_iter().find_map(Text::filled).unwrap_or_default()
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PermissionDenial {
    tool_name: Text,
    tool_use_id: Text,
    tool_input: Object<Input>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Usage {
    input_tokens: Number,
    cache_creation_input_tokens: Number,
    cache_read_input_tokens: Number,
    output_tokens: Number,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ModelUsage {
    input_tokens: Number,
    output_tokens: Number,
    cache_read_input_tokens: Number,
    cache_creation_input_tokens: Number,
    #[serde(rename = "costUSD")]
    cost_usd: Number,
}

impl Add for ModelUsage {
    fn add(&mut self, other: Self) {
        let add = |sum: &mut Number, more: Number| sum.0 = Some(sum.0.unwrap_or(0.0) + more.0.unwrap_or(0.0));
        add(&mut self.input_tokens, other.input_tokens);
        add(&mut self.output_tokens, other.output_tokens);
        add(&mut self.cache_read_input_tokens, other.cache_read_input_tokens);
        add(&mut self.cache_creation_input_tokens, other.cache_creation_input_tokens);
        add(&mut self.cost_usd, other.cost_usd);
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RateLimit {
    status: Text,
    resets_at: Number,
    rate_limit_type: Text,
}

/// Pending tool calls and reported denials.
const REMEMBERED: usize = 256;
const LONGEST_ID: usize = 128;

pub(crate) struct ClaudeReader {
    session: Option<String>,
    /// The running total at the last result.
    total: Micros,
    calls: VecDeque<(String, String)>,
    denied: VecDeque<String>,
    /// A reported limit that nothing has followed.
    limit: Option<Pending>,
}

struct Pending {
    until: Option<Timestamp>,
    why: String,
}

impl ClaudeReader {
    pub(crate) fn new(cost_before: Micros) -> Self {
        Self {
            session: None,
            total: cost_before,
            calls: VecDeque::new(),
            denied: VecDeque::new(),
            limit: None,
        }
    }

    fn meet(&mut self, session: &Text, out: &mut EventSink<'_>) {
        if let Some(id) = session.filled().filter(|id| is_session_id(id))
            && self.session.as_deref() != Some(id)
        {
            self.session = Some(id.to_owned());
            out.put(AgentEvent::Session { id: SessionId::new(id) });
        }
    }

    fn system(&mut self, row: &Row, out: &mut EventSink<'_>) -> LineMeaning {
        match row.subtype.as_str() {
            "api_retry" => self.retry(row, out),
            "permission_denied" => self.deny(row, out),
            "init"
            | "hook_started"
            | "hook_progress"
            | "hook_response"
            | "informational"
            | "notification"
            | "status"
            | "compact_boundary"
            | "task_started"
            | "task_progress"
            | "task_updated"
            | "task_notification"
            | "background_tasks_changed" => {}
            _ => return LineMeaning::Unknown,
        }
        LineMeaning::Known
    }

    fn retry(&mut self, row: &Row, out: &mut EventSink<'_>) {
        let status: Option<u16> = row.error_status.small();
        let why = out.name(row.error.as_str());
        // The last retry: if nothing follows, the limit ended the run.
        let is_last = row.attempt.count() >= row.max_retries.count();
        if status.is_some_and(is_limit) && is_last && self.limit.is_none() {
            self.limit = Some(Pending { until: None, why: why.clone() });
        }
        out.put(AgentEvent::Retry {
            attempt: row.attempt.small().unwrap_or(1),
            status,
            why,
            wait: row.retry_delay_ms.count().map(Duration::from_millis),
        });
    }

    fn deny(&mut self, row: &Row, out: &mut EventSink<'_>) {
        let id = row.tool_use_id.as_str();
        let about = self.calls.iter().find(|(call, _)| call == id).map(|(_, about)| about.clone());
        remember(&mut self.denied, id.to_owned(), id.len());
        out.denied(row.tool_name.as_str(), &about.unwrap_or_default());
    }

    fn rate_limit(&mut self, row: &Row) {
        let Some(info) = &row.rate_limit_info.0 else { return };
        self.limit = (info.status.as_str() == "rejected").then(|| Pending {
            until: info.resets_at.0.and_then(moment),
            why: info.rate_limit_type.filled().unwrap_or("usage limit").to_owned(),
        });
    }

    fn assistant(&mut self, row: &Row, out: &mut EventSink<'_>) {
        if !row.is_api_error_message.0 {
            self.limit = None;
        }
        let is_main_agent = row.parent_tool_use_id.0.is_none();
        for block in row.message.0.iter().flat_map(|message| &message.content.0) {
            match block.r#type.as_str() {
                // A sub-agent's messages go to the agent, not to the user.
                "text" if is_main_agent => out.said(block.text.as_str()),
                "tool_use" => self.call(block, out),
                _ => {}
            }
        }
    }

    fn call(&mut self, block: &Block, out: &mut EventSink<'_>) {
        let about = block.input.0.as_ref().map(Input::about).unwrap_or_default();
        let id = block.id.as_str();
        remember(&mut self.calls, (id.to_owned(), out.one_line(about)), id.len());
        out.used_tool(block.name.as_str(), about);
    }

    fn result(&mut self, row: &Row, out: &mut EventSink<'_>) {
        let is_error = row.is_error.0 || row.subtype.as_str().starts_with("error");
        let status: Option<u16> = row.api_error_status.small();
        let text = row.result.filled().unwrap_or(row.errors.0.as_str());
        let reason = row.terminal_reason.filled().or(row.subtype.filled());
        let denials = self.denials(row, out);
        let result = RunResult {
            ok: !is_error,
            reason: reason.map(|reason| out.name(reason)),
            text: out.message(text),
            cost_usd: self.cost(row),
            tokens: tokens(row),
            turns: row.num_turns.small(),
            denials,
            status,
        };
        let limit = self.limit.take();
        if is_error && status.is_some_and(is_limit) {
            out.limit_reached(limit.and_then(|limit| limit.until), &result.text);
        }
        out.put(AgentEvent::Result(result));
    }

    /// Reports the denials in this result that were not reported before.
    fn denials(&mut self, row: &Row, out: &mut EventSink<'_>) -> Vec<(String, String)> {
        let mut denials = Vec::new();
        for denial in &row.permission_denials.0 {
            let about = denial.tool_input.0.as_ref().map(Input::about).unwrap_or_default();
            let id = denial.tool_use_id.as_str();
            if !self.denied.iter().any(|told| told == id) {
                remember(&mut self.denied, id.to_owned(), id.len());
                out.denied(denial.tool_name.as_str(), about);
            }
            denials.push((out.name(denial.tool_name.as_str()), out.one_line(about)));
        }
        denials
    }

    /// The cost since the last result: as reported, otherwise the growth of the running total.
    fn cost(&mut self, row: &Row) -> Option<Micros> {
        let total = row.total_cost_usd.0.and_then(Micros::from_dollars);
        let before = self.total;
        self.total = total.unwrap_or(before);
        match &row.model_usage_since_last_result.0 {
            Some(usage) => Micros::from_dollars(usage.0.cost_usd.0.unwrap_or(0.0)),
            // A smaller total means that it was reset.
            None => total.map(|total| if total < before { total } else { total.minus(before) }),
        }
    }
}

impl ReadLines for ClaudeReader {
    fn line(&mut self, line: &str, out: &mut EventSink<'_>) -> LineMeaning {
        let Some(row) = object::<Row>(line) else { return LineMeaning::Unknown };
        let kind = row.r#type.as_str();
        if matches!(kind, "system" | "assistant" | "user" | "result") {
            self.meet(&row.session_id, out);
        }
        match kind {
            "system" => return self.system(&row, out),
            "assistant" => self.assistant(&row, out),
            "result" => self.result(&row, out),
            "rate_limit_event" => self.rate_limit(&row),
            "user" | "stream_event" | "tool_progress" | "tool_use_summary" => {}
            _ => return LineMeaning::Unknown,
        }
        LineMeaning::Known
    }

    fn end(&mut self, out: &mut EventSink<'_>) {
        if let Some(Pending { until, why }) = self.limit.take() {
            out.limit_reached(until, &why);
        }
    }
}

fn remember<T>(list: &mut VecDeque<T>, entry: T, id_length: usize) {
    if id_length > LONGEST_ID {
        return;
    }
    if list.len() >= REMEMBERED {
        list.pop_front();
    }
    list.push_back(entry);
}

/// A timestamp in seconds, or in milliseconds if it is too large.
fn moment(number: f64) -> Option<Timestamp> {
    let seconds = if number > 1e11 { number / 1e3 } else { number };
    (seconds > 0.0).then(|| Timestamp::from_second(seconds as i64).ok()).flatten()
}

/// The tokens of all agents if reported, otherwise of the main one.
fn tokens(row: &Row) -> Tokens {
    let sum = |input: Number, written: Number, read: Number, output: Number| {
        let count = |number: Number| number.count().unwrap_or(0);
        Tokens {
            input: count(input).saturating_add(count(written)).saturating_add(count(read)),
            cached: count(read),
            output: count(output),
        }
    };
    match (&row.model_usage_since_last_result.0, &row.usage.0) {
        (Some(Sum(all)), _) => sum(
            all.input_tokens,
            all.cache_creation_input_tokens,
            all.cache_read_input_tokens,
            all.output_tokens,
        ),
        (None, Some(main)) => sum(
            main.input_tokens,
            main.cache_creation_input_tokens,
            main.cache_read_input_tokens,
            main.output_tokens,
        ),
        (None, None) => Tokens::default(),
    }
}
