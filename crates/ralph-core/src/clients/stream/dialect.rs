//! The output formats of headless clients, by name.

use serde::{Deserialize, Serialize};

/// The output format of a client.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// `stream-json` of Claude Code and compatible clients.
    Claude,
    Codex,
    Gemini,
    Copilot,
    OpenCode,
    /// Lines of text.
    Plain,
}

impl Dialect {
    pub const ALL: [Self; 6] =
        [Self::Claude, Self::Codex, Self::Gemini, Self::Copilot, Self::OpenCode, Self::Plain];

    /// The name in a config.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Copilot => "copilot",
            Self::OpenCode => "opencode",
            Self::Plain => "plain",
        }
    }

    /// Whether the format reports the cost of a run.
    pub fn reports_cost(self) -> bool {
        match self {
            Self::Claude | Self::OpenCode => true,
            Self::Codex | Self::Gemini | Self::Copilot | Self::Plain => false,
        }
    }
}
