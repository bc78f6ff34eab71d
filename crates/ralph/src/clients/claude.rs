//! Claude Code.

pub(crate) mod settings;
pub(crate) mod team_tasks;
