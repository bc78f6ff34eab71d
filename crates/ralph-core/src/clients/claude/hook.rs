//! Claude Code's hook input and output.
//!
//! Observed with 2.1.325: the sub-agent's name is `agent_type` (there is no `subagent_type` on this event);
//! `decision: "allow"` is an error to the client; a block's `reason` reaches the model twice and `additionalContext`
//! once, so the detail goes there; text of over about 10,000 characters is cut to a preview; anything else on stdout
//! invalidates the answer.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::clients::hook::{
    Audience, BackgroundWork, HookCall, HookEvent, HookInputError, HookReply, HookWire, RenderedReply,
};
use crate::model::foreign_text::for_terminal;
use crate::model::id::{AgentId, SessionId};

pub const WIRE: HookWire = HookWire { parse, render, event_name: name_of, audience };

/// The client shows up to about 10,000 characters of context whole.
pub const MOST_CONTEXT: usize = 9_500;

#[derive(Deserialize)]
struct Input<'a> {
    #[serde(borrow)]
    hook_event_name: Cow<'a, str>,
    #[serde(borrow, default)]
    session_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    cwd: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    agent_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    agent_type: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    last_assistant_message: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    prompt_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    transcript_path: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    permission_mode: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    prompt: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    command_name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    command_args: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    source: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    reason: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tool_name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    error: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    task_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    task_subject: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    team_name: Option<Cow<'a, str>>,
    #[serde(default)]
    background_tasks: Vec<BackgroundTask>,
}

/// An entry of another form is ignored instead of rejecting the whole input.
#[derive(Default, Deserialize)]
#[serde(default)]
struct BackgroundTask {
    id: String,
    r#type: String,
    status: String,
    description: String,
}

/// Read only if the tool's file matters.
#[derive(Deserialize)]
struct ToolInput {
    #[serde(default)]
    tool_input: ToolFile,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ToolFile {
    #[serde(alias = "filePath", alias = "path")]
    file_path: Option<String>,
}

pub fn parse(bytes: &[u8]) -> Result<HookCall, HookInputError> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(HookInputError::Empty);
    }
    let read = |bytes| serde_json::from_slice::<Input<'_>>(bytes);
    let repaired;
    let input = match read(bytes) {
        Ok(input) => input,
        Err(error) => {
            repaired = without_lone_surrogates(bytes);
            read(&repaired).map_err(|_| HookInputError::NotAHookInput(error.to_string()))?
        }
    };
    let text = |value: Option<Cow<'_, str>>| value.filter(|text| !text.is_empty()).map(Cow::into_owned);
    let event = event(&input, bytes);
    Ok(HookCall {
        event,
        prompt: text(input.prompt_id),
        transcript: text(input.transcript_path),
        is_planning: input.permission_mode.as_deref() == Some("plan"),
        session: text(input.session_id).map(SessionId::new),
        cwd: text(input.cwd),
        agent: text(input.agent_id).map(AgentId::new),
        agent_type: input.agent_type.map(Cow::into_owned),
        last_message: input.last_assistant_message.map(Cow::into_owned).unwrap_or_default(),
    })
}

/// JavaScript writes a truncated character as a lone surrogate escape, which is replaced.
fn without_lone_surrogates(bytes: &[u8]) -> Vec<u8> {
    let code = |at: usize| -> Option<u16> {
        let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        // Other escapes are copied whole, so that an escaped backslash does not start one.
        let length = match (code(at), code(at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                out.extend_from_slice(b"\\ufffd");
                at += 6;
                continue;
            }
            _ if bytes[at] == b'\\' => 2,
            _ => 1,
        };
        let end = (at + length).min(bytes.len());
        out.extend_from_slice(&bytes[at..end]);
        at = end;
    }
    out
}

fn event(input: &Input<'_>, bytes: &[u8]) -> HookEvent {
    let owned = |text: &Option<Cow<'_, str>>| text.as_deref().unwrap_or_default().to_owned();
    let tool = || owned(&input.tool_name);
    match &*input.hook_event_name {
        "SubagentStop" => HookEvent::SubagentStop,
        "SubagentStart" => HookEvent::SubagentStart,
        "Stop" => HookEvent::Stop { background: waited_for(&input.background_tasks) },
        "StopFailure" => HookEvent::StopFailure { error: owned(&input.error) },
        "UserPromptSubmit" => HookEvent::UserPromptSubmit { prompt: owned(&input.prompt) },
        "UserPromptExpansion" => HookEvent::UserPromptExpansion {
            command: owned(&input.command_name),
            arguments: owned(&input.command_args),
        },
        "SessionStart" => HookEvent::SessionStart { source: owned(&input.source) },
        "SessionEnd" => HookEvent::SessionEnd { reason: owned(&input.reason) },
        "PreToolUse" => HookEvent::PreToolUse { tool: tool(), file: tools_file(bytes) },
        "PostToolUse" => HookEvent::PostToolUse { tool: tool() },
        "PostToolUseFailure" => HookEvent::PostToolUseFailure { tool: tool(), error: owned(&input.error) },
        "TeammateIdle" => HookEvent::TeammateIdle,
        "TaskCompleted" => HookEvent::TaskCompleted {
            id: owned(&input.task_id),
            subject: owned(&input.task_subject),
            team: input.team_name.as_deref().filter(|name| !name.is_empty()).map(str::to_owned),
        },
        other => HookEvent::Other(other.to_owned()),
    }
}

/// An agent waits only for other agents; shells and monitors may run indefinitely.
fn waited_for(tasks: &[BackgroundTask]) -> Vec<BackgroundWork> {
    let waits = |task: &&BackgroundTask| {
        task.status == "running" && matches!(task.r#type.as_str(), "subagent" | "teammate" | "workflow")
    };
    let work = |task: &BackgroundTask| BackgroundWork { id: task.id.clone(), what: task.description.clone() };
    tasks.iter().filter(waits).map(work).collect()
}

fn tools_file(bytes: &[u8]) -> Option<String> {
    serde_json::from_slice::<ToolInput>(bytes).ok()?.tool_input.file_path
}

/// The client's name of an answered event.
fn name_of(event: &HookEvent) -> Option<&str> {
    Some(event_name(event)).filter(|_| !matches!(event, HookEvent::Other(_)))
}

fn event_name(event: &HookEvent) -> &str {
    match event {
        HookEvent::SubagentStop => "SubagentStop",
        HookEvent::SubagentStart => "SubagentStart",
        HookEvent::Stop { .. } => "Stop",
        HookEvent::StopFailure { .. } => "StopFailure",
        HookEvent::UserPromptSubmit { .. } => "UserPromptSubmit",
        HookEvent::UserPromptExpansion { .. } => "UserPromptExpansion",
        HookEvent::SessionStart { .. } => "SessionStart",
        HookEvent::SessionEnd { .. } => "SessionEnd",
        HookEvent::PreToolUse { .. } => "PreToolUse",
        HookEvent::PostToolUse { .. } => "PostToolUse",
        HookEvent::PostToolUseFailure { .. } => "PostToolUseFailure",
        HookEvent::TeammateIdle => "TeammateIdle",
        HookEvent::TaskCompleted { .. } => "TaskCompleted",
        HookEvent::Other(name) => name,
    }
}

/// Whether the answer may contain context for the session's agent or for the agent that starts.
fn takes_context(event: &HookEvent) -> bool {
    reaches_agent(event) || matches!(event, HookEvent::SubagentStart)
}

/// Whether the answer can reach the agent without blocking; additional context on a stop event would block.
pub fn reaches_agent(event: &HookEvent) -> bool {
    matches!(
        event,
        HookEvent::UserPromptSubmit { .. }
            | HookEvent::UserPromptExpansion { .. }
            | HookEvent::SessionStart { .. }
            | HookEvent::PostToolUse { .. }
    )
}

/// Whether the client shows a `systemMessage` of this call; it is lost inside a sub-agent and when one stops.
fn reaches_user(call: &HookCall) -> bool {
    let shown = matches!(
        call.event,
        HookEvent::UserPromptSubmit { .. }
            | HookEvent::UserPromptExpansion { .. }
            | HookEvent::PostToolUse { .. }
            | HookEvent::Stop { .. }
    );
    shown && call.agent.is_none()
}

fn audience(call: &HookCall) -> Audience {
    Audience { user: reaches_user(call), agent: reaches_agent(&call.event) }
}

pub fn render(reply: &HookReply, event: &HookEvent) -> RenderedReply {
    match (reply, event) {
        // For these events the client only reads the exit code and stderr.
        (
            HookReply::Block { reason, detail, .. },
            HookEvent::TeammateIdle | HookEvent::TaskCompleted { .. },
        ) => RenderedReply {
            stderr: format!("{reason}\n\n{}\n", shortened(detail)),
            exit_code: 2,
            ..RenderedReply::default()
        },
        _ => RenderedReply { stdout: in_json(reply, event), ..RenderedReply::default() },
    }
}

fn in_json(reply: &HookReply, event: &HookEvent) -> Vec<u8> {
    let value = match reply {
        HookReply::Silent => return Vec::new(),
        HookReply::Notify { user, agent } => {
            let mut value = json!({});
            if let Some(user) = user {
                value["systemMessage"] = json!(for_terminal(user, &[]));
            }
            if let Some(agent) = agent.as_ref().filter(|_| takes_context(event)) {
                value["hookSpecificOutput"] =
                    json!({"hookEventName": event_name(event), "additionalContext": shortened(agent)});
            }
            if value == json!({}) {
                return Vec::new();
            }
            value
        }
        // Context alone blocks too, but only since 2.1.163.
        HookReply::Block { reason, detail, user } => {
            let mut value = json!({
                "decision": "block",
                "reason": for_terminal(reason, &[]),
                "hookSpecificOutput": {"hookEventName": event_name(event), "additionalContext": shortened(detail)},
            });
            if let Some(user) = user {
                value["systemMessage"] = json!(for_terminal(user, &[]));
            }
            value
        }
        // Blocking removes a command from the session, but would leave plain text in the input box.
        HookReply::Answer { user } if matches!(event, HookEvent::UserPromptExpansion { .. }) => json!({
            "decision": "block",
            "reason": for_terminal(user, &[]),
            "hookSpecificOutput": {"hookEventName": event_name(event), "suppressOriginalPrompt": true},
        }),
        HookReply::Answer { user } => json!({"continue": false, "stopReason": for_terminal(user, &[])}),
        HookReply::Deny { reason } => json!({"hookSpecificOutput": {
            "hookEventName": event_name(event),
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
        }}),
    };
    let mut bytes = value.to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}

/// Parses an answer on stdout like the client, the inverse of [`render`], for `ralph doctor` and `ralph demo`.
pub fn read_answer(stdout: &[u8]) -> HookReply {
    let Ok(answer) = serde_json::from_slice::<Value>(stdout) else { return HookReply::Silent };
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let own = &answer["hookSpecificOutput"];
    let user = text(&answer["systemMessage"]);
    let agent = text(&own["additionalContext"]);
    let reason = text(&answer["reason"]).unwrap_or_default();
    if own["permissionDecision"] == "deny" {
        return HookReply::Deny { reason: text(&own["permissionDecisionReason"]).unwrap_or_default() };
    }
    if let (true, Some(user)) = (answer["continue"] == false, text(&answer["stopReason"])) {
        return HookReply::Answer { user };
    }
    match (answer["decision"] == "block", own["suppressOriginalPrompt"] == true) {
        (true, true) => HookReply::Answer { user: reason },
        (true, false) => HookReply::Block { reason, detail: agent.unwrap_or_default(), user },
        (false, _) if user.is_none() && agent.is_none() => HookReply::Silent,
        (false, _) => HookReply::Notify { user, agent },
    }
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= MOST_CONTEXT {
        return text.to_owned();
    }
    let head: String = text.chars().take(MOST_CONTEXT - 20).collect();
    format!("{head}\n[cut to fit]")
}

#[cfg(test)]
mod tests;
