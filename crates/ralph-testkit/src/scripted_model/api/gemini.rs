//! Google's `generateContent`: the model and the method are in the path, and a stream is the whole answer in one event.

use serde_json::{Value, json};

use super::{Message, Route, Spoken};
use crate::scripted_model::stage::{Conversation, Item, Voice};

pub(super) fn route(method: &str, path: &str, tokens: usize) -> Route {
    match (method, verb(path)) {
        ("POST", Some("generateContent" | "streamGenerateContent")) => Route::Message,
        ("POST", Some("countTokens")) => Route::Plain(json!({"totalTokens": tokens})),
        _ => Route::Nowhere,
    }
}

/// `/v1beta/models/MODEL:VERB`.
fn verb(path: &str) -> Option<&str> {
    path.rsplit_once(':').map(|(_, verb)| verb)
}

pub(super) fn streams(path: &str) -> bool {
    verb(path) == Some("streamGenerateContent")
}

pub(super) fn model_in(path: &str) -> Option<&str> {
    let (before, _) = path.rsplit_once(':')?;
    before.rsplit('/').next()
}

pub(super) fn conversation(body: &Value) -> Conversation {
    let contents = body["contents"].as_array().map_or(&[][..], Vec::as_slice);
    let items = contents.iter().map(|content| {
        let voice = if content["role"] == "model" { Voice::Model } else { Voice::User };
        Item { voice, text: text_of(&content["parts"]) }
    });
    let declared =
        |tool: &Value| tool["functionDeclarations"].as_array().is_some_and(|tools| !tools.is_empty());
    let has_tools = body["tools"].as_array().is_some_and(|tools| tools.iter().any(declared));
    Conversation::new(items, text_of(&body["systemInstruction"]["parts"]), has_tools)
}

fn text_of(parts: &Value) -> String {
    let parts = parts.as_array().map_or(&[][..], Vec::as_slice);
    parts.iter().map(text_of_part).collect::<Vec<_>>().join("\n")
}

/// The result of a tool is an object of texts, usually one.
fn text_of_part(part: &Value) -> String {
    let said = part["text"].as_str().into_iter();
    let given = part["functionResponse"]["response"].as_object().into_iter().flatten();
    let given = given.filter_map(|(_, value)| value.as_str());
    said.chain(given).collect::<Vec<_>>().join("\n")
}

pub(super) fn error(status: u16, kind: &str, message: &str) -> Value {
    json!({"error": {"code": status, "message": message, "status": kind}})
}

pub(super) fn whole(message: &Message) -> Value {
    let part = match &message.spoken {
        Spoken::Text(text) => json!({"text": text}),
        Spoken::Tool { name, input } => json!({"functionCall": {"name": name, "args": input}}),
    };
    json!({
        "candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120},
        "modelVersion": message.model, "responseId": message.id,
    })
}
