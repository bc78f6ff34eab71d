//! Claude Code.

pub mod hook;
pub(crate) mod permission_rules;
pub(crate) mod profile;
pub(crate) mod stream;
pub mod transcript;
