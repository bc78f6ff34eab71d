//! Anthropic's Messages API.

use serde_json::{Value, json};

use super::{Message, Route, Spoken};
use crate::scripted_model::stage::{Conversation, Item, Voice};

pub(super) fn route(method: &str, path: &str, tokens: usize) -> Route {
    match (method, path) {
        ("POST", "/v1/messages") => Route::Message,
        ("POST", "/v1/messages/count_tokens") => Route::Plain(json!({"input_tokens": tokens})),
        (method, "/" | "/api/hello") if method != "POST" => Route::Plain(json!({"message": "hello"})),
        _ => Route::Nowhere,
    }
}

pub(super) fn conversation(body: &Value) -> Conversation {
    let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let items = messages.iter().map(|message| {
        let voice = match message["role"].as_str() {
            Some("assistant") => Voice::Model,
            Some("user") => Voice::User,
            _ => Voice::Other,
        };
        Item { voice, text: text_of(&message["content"]) }
    });
    let has_tools = body["tools"].as_array().is_some_and(|tools| !tools.is_empty());
    Conversation::new(items, text_of(&body["system"]), has_tools)
}

/// All the text in a message's content: a string, or a list of blocks, of which tool results hold content again.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().map(text_of_block).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}

fn text_of_block(block: &Value) -> String {
    match block["type"].as_str() {
        Some("text") => text_of(&block["text"]),
        Some("tool_result") => text_of(&block["content"]),
        _ => String::new(),
    }
}

pub(super) fn error(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}})
}

pub(super) fn whole(message: &Message) -> Value {
    let mut whole = opening(message);
    whole["content"] = json!([block(message)]);
    whole["stop_reason"] = stop_reason(message).into();
    whole["usage"]["output_tokens"] = 20.into();
    whole
}

fn opening(message: &Message) -> Value {
    json!({
        "id": format!("msg_{}", message.id), "type": "message", "role": "assistant", "model": message.model,
        "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": 100, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
                  "output_tokens": 1},
    })
}

fn block(message: &Message) -> Value {
    match &message.spoken {
        Spoken::Text(text) => json!({"type": "text", "text": text}),
        Spoken::Tool { name, input } => {
            json!({"type": "tool_use", "id": format!("toolu_{}", message.id), "name": name, "input": input})
        }
    }
}

fn stop_reason(message: &Message) -> &'static str {
    match message.spoken {
        Spoken::Text(_) => "end_turn",
        Spoken::Tool { .. } => "tool_use",
    }
}

pub(super) fn events(message: &Message) -> Vec<Value> {
    let mut empty = block(message);
    let delta = match &message.spoken {
        Spoken::Text(text) => {
            empty["text"] = "".into();
            json!({"type": "text_delta", "text": text})
        }
        Spoken::Tool { input, .. } => {
            empty["input"] = json!({});
            json!({"type": "input_json_delta", "partial_json": input.to_string()})
        }
    };
    vec![
        json!({"type": "message_start", "message": opening(message)}),
        json!({"type": "content_block_start", "index": 0, "content_block": empty}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": stop_reason(message), "stop_sequence": null},
               "usage": {"output_tokens": 20}}),
        json!({"type": "message_stop"}),
    ]
}
