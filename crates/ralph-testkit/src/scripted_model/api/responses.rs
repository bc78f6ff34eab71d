//! OpenAI's Responses API, as Codex uses it: one answer is one item, a message or a function call.

use serde_json::{Value, json};

use super::{Message, Route, Spoken};
use crate::scripted_model::stage::{Conversation, Item, Voice};

pub(super) fn route(method: &str, path: &str) -> Route {
    match (method, path) {
        ("POST", "/v1/responses") => Route::Message,
        ("GET", "/v1/models") => Route::Plain(json!({"object": "list", "models": [], "data": []})),
        _ => Route::Nowhere,
    }
}

pub(super) fn conversation(body: &Value) -> Conversation {
    let input = body["input"].as_array().map_or(&[][..], Vec::as_slice);
    let has_tools = body["tools"].as_array().is_some_and(|tools| !tools.is_empty());
    Conversation::new(input.iter().map(item), text_of(&body["instructions"]), has_tools)
}

fn item(item: &Value) -> Item {
    match item["type"].as_str() {
        Some("function_call" | "custom_tool_call" | "reasoning") => {
            Item { voice: Voice::Model, text: String::new() }
        }
        Some("function_call_output" | "custom_tool_call_output") => {
            Item { voice: Voice::User, text: text_of(&item["output"]) }
        }
        _ => {
            let voice = match item["role"].as_str() {
                Some("assistant") => Voice::Model,
                Some("user") => Voice::User,
                _ => Voice::Other,
            };
            Item { voice, text: text_of(&item["content"]) }
        }
    }
}

/// A string, or a list of parts that have a text each.
pub(super) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(|part| text_of(&part["text"])).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}

pub(super) fn error(kind: &str, message: &str) -> Value {
    json!({"error": {"type": kind, "code": kind, "message": message}})
}

pub(super) fn whole(message: &Message) -> Value {
    json!({
        "id": format!("resp_{}", message.id), "object": "response", "created_at": 0, "model": message.model,
        "status": "completed", "output": [spoken(message)],
        "usage": {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 20,
                  "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 120},
    })
}

fn spoken(message: &Message) -> Value {
    let id = &message.id;
    match &message.spoken {
        Spoken::Text(text) => json!({
            "type": "message", "id": format!("msg_{id}"), "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }),
        Spoken::Tool { name, input } => json!({
            "type": "function_call", "id": format!("fc_{id}"), "call_id": format!("call_{id}"), "name": name,
            "arguments": input.to_string(), "status": "completed",
        }),
    }
}

pub(super) fn events(message: &Message) -> Vec<Value> {
    let done = spoken(message);
    let mut begun = done.clone();
    begun["status"] = "in_progress".into();
    let at = json!({"item_id": done["id"], "output_index": 0});
    let inside = match &message.spoken {
        Spoken::Text(text) => {
            begun["content"] = json!([]);
            vec![json!({"type": "response.output_text.delta", "content_index": 0, "delta": text})]
        }
        Spoken::Tool { input, .. } => {
            begun["arguments"] = "".into();
            vec![json!({"type": "response.function_call_arguments.delta", "delta": input.to_string()})]
        }
    };
    let mut opening = whole(message);
    opening["status"] = "in_progress".into();
    opening["output"] = json!([]);
    opening["usage"] = Value::Null;
    let mut events = vec![
        json!({"type": "response.created", "response": opening}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": begun}),
    ];
    events.extend(inside.into_iter().map(|event| merged(event, &at)));
    events.push(json!({"type": "response.output_item.done", "output_index": 0, "item": done}));
    events.push(json!({"type": "response.completed", "response": whole(message)}));
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = number.into();
    }
    events
}

fn merged(mut event: Value, more: &Value) -> Value {
    for (key, value) in more.as_object().into_iter().flatten() {
        event[key] = value.clone();
    }
    event
}
