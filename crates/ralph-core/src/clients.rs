//! The agent clients: their hooks, their output, and how the driver runs them.

pub(crate) mod amp;
pub mod claude;
pub(crate) mod codex;
pub(crate) mod copilot;

pub(crate) mod gemini;
pub mod hook;
pub mod list;
pub(crate) mod opencode;
pub(crate) mod plain;
pub mod profile;
pub mod stream;
pub mod suggested_rule;
