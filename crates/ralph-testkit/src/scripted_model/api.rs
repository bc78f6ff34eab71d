//! The APIs that the model can imitate: their paths, how a request is parsed, how an answer is encoded.
//! The answers come from the script; only the encoding differs, so each API is one small file of pure functions.

use serde_json::Value;

use super::stage::Conversation;

mod chat;
mod gemini;
mod messages;
mod responses;

/// The API of a [`ScriptedModel`](super::ScriptedModel).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Api {
    /// Anthropic's Messages API, for Claude Code.
    #[default]
    Messages,
    /// OpenAI's Responses API, for Codex.
    Responses,
    /// OpenAI's Chat Completions API, for Copilot CLI and OpenCode.
    Chat,
    /// Google's `generateContent`, for Gemini CLI.
    Gemini,
}

/// Where a request goes.
pub(super) enum Route {
    /// A request to the model.
    Message,
    /// A small request with a fixed answer.
    Plain(Value),
    Nowhere,
}

/// An answer of the model, before it is encoded for an API.
pub(super) struct Message {
    pub(super) id: String,
    pub(super) model: String,
    pub(super) spoken: Spoken,
}

pub(super) enum Spoken {
    Text(String),
    Tool { name: String, input: Value },
}

impl Api {
    pub(super) fn route(self, method: &str, path: &str, body_length: usize) -> Route {
        let tokens = (body_length / 4).max(1);
        match self {
            Self::Messages => messages::route(method, path, tokens),
            Self::Responses => responses::route(method, path),
            Self::Chat => chat::route(method, path),
            Self::Gemini => gemini::route(method, path, tokens),
        }
    }

    pub(super) fn model_of(self, path: &str, body: &Value) -> String {
        let named = match self {
            Self::Messages | Self::Responses | Self::Chat => body["model"].as_str(),
            Self::Gemini => gemini::model_in(path),
        };
        named.unwrap_or("scripted").to_owned()
    }

    pub(super) fn streams(self, path: &str, body: &Value) -> bool {
        match self {
            Self::Messages | Self::Responses | Self::Chat => body["stream"] == true,
            Self::Gemini => gemini::streams(path),
        }
    }

    pub(super) fn conversation(self, body: &Value) -> Conversation {
        match self {
            Self::Messages => messages::conversation(body),
            Self::Responses => responses::conversation(body),
            Self::Chat => chat::conversation(body),
            Self::Gemini => gemini::conversation(body),
        }
    }

    pub(super) fn whole(self, message: &Message) -> Value {
        match self {
            Self::Messages => messages::whole(message),
            Self::Responses => responses::whole(message),
            Self::Chat => chat::whole(message),
            Self::Gemini => gemini::whole(message),
        }
    }

    /// The same as a stream. An event's name is its `type`, if the API names events.
    pub(super) fn events(self, message: &Message) -> Vec<Value> {
        match self {
            Self::Messages => messages::events(message),
            Self::Responses => responses::events(message),
            Self::Chat => chat::events(message),
            Self::Gemini => vec![gemini::whole(message)],
        }
    }

    /// What follows the last event, if it is not an event itself.
    pub(super) fn end_of_stream(self) -> Option<&'static str> {
        (self == Self::Chat).then_some(chat::END_OF_STREAM)
    }

    pub(super) fn error(self, status: u16, kind: &str, message: &str) -> Value {
        match self {
            Self::Messages => messages::error(kind, message),
            Self::Responses | Self::Chat => responses::error(kind, message),
            Self::Gemini => gemini::error(status, kind, message),
        }
    }
}
