//! Claude Code's dialect of hook input and output.
//!
//! Facts it rests on, seen with 2.1.325: the sub-agent's name is `agent_type` (there is no `subagent_type` on this event);
//! `decision: "allow"` is an error to the client; a block's `reason` reaches the model twice and `additionalContext`
//! once, so the detail goes there; text of over about 10,000 characters is cut to a preview; anything else on stdout
//! voids the answer.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::json;

use super::{HookCall, HookEvent, HookReply, Unreadable};
use crate::id::{AgentId, SessionId};

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
}

pub fn parse(bytes: &[u8]) -> Result<HookCall, Unreadable> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(Unreadable::Empty);
    }
    let input: Input<'_> =
        serde_json::from_slice(bytes).map_err(|error| Unreadable::NotAHookInput(error.to_string()))?;
    let text = |value: Option<Cow<'_, str>>| value.filter(|text| !text.is_empty()).map(Cow::into_owned);
    Ok(HookCall {
        event: event(&input.hook_event_name),
        session: text(input.session_id).map(SessionId::new),
        cwd: text(input.cwd),
        agent: text(input.agent_id).map(AgentId::new),
        agent_type: input.agent_type.map(Cow::into_owned),
        last_message: input.last_assistant_message.map(Cow::into_owned).unwrap_or_default(),
    })
}

fn event(name: &str) -> HookEvent {
    match name {
        "SubagentStop" => HookEvent::SubagentStop,
        "Stop" => HookEvent::Stop,
        "UserPromptSubmit" => HookEvent::UserPromptSubmit,
        "PostToolUse" => HookEvent::PostToolUse,
        other => HookEvent::Other(other.to_owned()),
    }
}

fn event_name(event: &HookEvent) -> &str {
    match event {
        HookEvent::SubagentStop => "SubagentStop",
        HookEvent::Stop => "Stop",
        HookEvent::UserPromptSubmit => "UserPromptSubmit",
        HookEvent::PostToolUse => "PostToolUse",
        HookEvent::Other(name) => name,
    }
}

/// What an event's answer can carry without holding anybody. Additional context on a stop event would hold.
pub fn can_tell_agent(event: &HookEvent) -> bool {
    matches!(event, HookEvent::UserPromptSubmit | HookEvent::PostToolUse)
}

/// Whether the client shows a `systemMessage` of this call; when a sub-agent stops, and inside one, it is lost.
pub fn can_tell_person(call: &HookCall) -> bool {
    let shown = matches!(call.event, HookEvent::UserPromptSubmit | HookEvent::PostToolUse | HookEvent::Stop);
    shown && call.agent.is_none()
}

/// The bytes for stdout; the exit code is 0 always.
pub fn render(reply: &HookReply, event: &HookEvent) -> Vec<u8> {
    let value = match reply {
        HookReply::Silent => return Vec::new(),
        HookReply::Tell { person, agent } => {
            let mut value = json!({});
            if let Some(person) = person {
                value["systemMessage"] = json!(person);
            }
            if let Some(agent) = agent.as_ref().filter(|_| can_tell_agent(event)) {
                value["hookSpecificOutput"] =
                    json!({"hookEventName": event_name(event), "additionalContext": shortened(agent)});
            }
            if value == json!({}) {
                return Vec::new();
            }
            value
        }
        // Context alone would hold too, but not on clients before 2.1.163.
        HookReply::Block { reason, detail } => json!({
            "decision": "block",
            "reason": reason,
            "hookSpecificOutput": {"hookEventName": event_name(event), "additionalContext": shortened(detail)},
        }),
    };
    let mut bytes = value.to_string().into_bytes();
    bytes.push(b'\n');
    bytes
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
