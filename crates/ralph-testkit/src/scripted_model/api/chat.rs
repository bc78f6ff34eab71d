//! OpenAI's Chat Completions API, as Copilot CLI and OpenCode use it: one answer is one choice, text or a tool call.

use serde_json::{Value, json};

use super::responses::text_of;
use super::{Message, Route, Spoken};
use crate::scripted_model::stage::{Conversation, Item, Voice};

/// Ends a stream instead of another event.
pub(super) const END_OF_STREAM: &str = "[DONE]";

pub(super) fn route(method: &str, path: &str) -> Route {
    match (method, path) {
        ("POST", "/v1/chat/completions") => Route::Message,
        ("GET", "/v1/models") => Route::Plain(json!({"object": "list", "data": []})),
        _ => Route::Nowhere,
    }
}

pub(super) fn conversation(body: &Value) -> Conversation {
    let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let is_system = |message: &&Value| matches!(message["role"].as_str(), Some("system" | "developer"));
    let system: Vec<String> =
        messages.iter().filter(is_system).map(|message| text_of(&message["content"])).collect();
    let has_tools = body["tools"].as_array().is_some_and(|tools| !tools.is_empty());
    Conversation::new(messages.iter().map(item), system.join("\n"), has_tools)
}

fn item(message: &Value) -> Item {
    let voice = match message["role"].as_str() {
        Some("assistant") => Voice::Model,
        Some("user" | "tool") => Voice::User,
        _ => Voice::Other,
    };
    Item { voice, text: text_of(&message["content"]) }
}

pub(super) fn whole(message: &Message) -> Value {
    json!({
        "id": format!("chatcmpl-{}", message.id), "object": "chat.completion", "created": 0, "model": message.model,
        "choices": [{"index": 0, "message": spoken(message), "finish_reason": finish(message)}],
        "usage": usage(),
    })
}

pub(super) fn events(message: &Message) -> Vec<Value> {
    let chunk = |choices: Value| {
        json!({
            "id": format!("chatcmpl-{}", message.id), "object": "chat.completion.chunk", "created": 0,
            "model": message.model, "choices": choices,
        })
    };
    let mut last = chunk(json!([]));
    last["usage"] = usage();
    vec![
        chunk(json!([{"index": 0, "delta": spoken(message), "finish_reason": null}])),
        chunk(json!([{"index": 0, "delta": {}, "finish_reason": finish(message)}])),
        last,
    ]
}

fn spoken(message: &Message) -> Value {
    match &message.spoken {
        Spoken::Text(text) => json!({"role": "assistant", "content": text}),
        Spoken::Tool { name, input } => json!({
            "role": "assistant", "content": null,
            "tool_calls": [{
                "index": 0, "id": format!("call_{}", message.id), "type": "function",
                "function": {"name": name, "arguments": input.to_string()},
            }],
        }),
    }
}

fn finish(message: &Message) -> &'static str {
    match message.spoken {
        Spoken::Text(_) => "stop",
        Spoken::Tool { .. } => "tool_calls",
    }
}

fn usage() -> Value {
    json!({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120})
}
