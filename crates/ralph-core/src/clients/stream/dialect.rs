//! How a client writes what its headless runs print, by name.

use serde::{Deserialize, Serialize};

/// How a client writes its stream.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// `stream-json` of Claude Code, and of what speaks like it.
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

    /// As a config names it.
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

    /// Whether a client that speaks it says what its runs cost.
    pub fn tells_cost(self) -> bool {
        match self {
            Self::Claude | Self::OpenCode => true,
            Self::Codex | Self::Gemini | Self::Copilot | Self::Plain => false,
        }
    }
}
