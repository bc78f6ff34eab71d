//! An agent client as a value: its hook events, its tools, and the variables it sets.

use std::ffi::OsStr;
use std::path::PathBuf;

use ralph_core::clients::hook::{HookCall, HookWire};
use ralph_core::model::id::SessionId;

use crate::clients::installation::Installation;
use crate::sys::env;

#[derive(Debug)]
pub struct Client {
    /// As in `ralph hook NAME`.
    pub name: &'static str,
    /// For display.
    pub shown_name: &'static str,
    pub wire: HookWire,
    pub tools: Tools,
    /// `None` if the client never overrides a blocking hook.
    pub block_cap: Option<BlockCap>,
    pub variables: Variables,
    pub transcript: Transcript,
    /// `None` if the client has no teams.
    pub team_tasks: Option<TeamTasks>,
    /// `None` if `ralph init` cannot install our hook.
    pub installation: Option<&'static Installation>,
}

/// What the client's tools do. A tool that is in no list may have written something.
#[derive(Clone, Copy, Debug)]
pub struct Tools {
    pub read_only: &'static [&'static str],
    pub call_an_agent: &'static [&'static str],
    pub ask_a_language_server: &'static [&'static str],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolKind {
    ReadsOnly,
    CallsAgent,
    AsksLanguageServer,
    Writes,
}

impl Tools {
    pub(crate) fn kind(&self, tool: &str) -> ToolKind {
        match tool {
            _ if self.call_an_agent.contains(&tool) => ToolKind::CallsAgent,
            _ if self.ask_a_language_server.contains(&tool) => ToolKind::AsksLanguageServer,
            _ if self.read_only.contains(&tool) => ToolKind::ReadsOnly,
            _ => ToolKind::Writes,
        }
    }
}

/// The number of consecutive blocks after which the client overrides its hooks.
#[derive(Clone, Copy, Debug)]
pub struct BlockCap {
    /// The variable that sets it; 0 there means no cap.
    pub variable: Option<&'static str>,
    /// The default value.
    pub default: u32,
}

impl BlockCap {
    /// The value set in the environment.
    pub(crate) fn set_here(&self) -> Option<u32> {
        env::text(self.variable?)?.parse().ok()
    }
}

/// The variables that the client sets.
#[derive(Clone, Copy, Debug)]
pub struct Variables {
    /// The folder of the session's project.
    pub project_dir: Option<&'static str>,
    /// The session, in the shells of its agent.
    pub session: Option<&'static str>,
    /// The client's own process.
    pub process: Option<&'static str>,
    /// The plugin whose hook is called.
    pub plugin_root: Option<&'static str>,
    /// At least one is set in every shell of an agent.
    pub shell_marks: &'static [&'static str],
    /// Variables of one session, removed for an agent that ralph runs.
    pub session_marks: &'static [&'static str],
    /// Prefixes of variables that gates must not get: the client's own and its keys.
    pub prefixes: &'static [&'static str],
}

/// Reads the tail of the client's transcript of a session.
#[derive(Clone, Copy, Debug)]
pub struct Transcript {
    /// The id of the last tool call: a tool call between two blocks resets the client's count of blocks.
    pub last_tool_call: fn(&[u8]) -> Option<String>,
    /// When the user typed `/cancel-ralph`, if the client queues it until the end of the turn.
    pub queued_cancel: fn(&[u8]) -> Option<String>,
}

impl Transcript {
    /// For a client without a readable transcript.
    pub const NONE: Self = Self { last_tool_call: |_| None, queued_cancel: |_| None };
}

/// The task lists of the client's teams.
#[derive(Clone, Copy, Debug)]
pub struct TeamTasks {
    /// Whether no other task is open once this task of the session, or of its team, is completed. If unknown, it
    /// counts as the last one: the gates then run once too often rather than too rarely.
    pub is_last: fn(session: &SessionId, team: Option<&str>, id: &str) -> bool,
}

impl Client {
    /// The folder that a hook call is about.
    pub(crate) fn folder_of(&self, call: &HookCall) -> Option<PathBuf> {
        let named = self.variables.project_dir.and_then(env::path_in);
        named.or_else(|| call.cwd.as_ref().map(PathBuf::from))
    }

    /// The client's process, from its own variable.
    pub(crate) fn process(&self) -> Option<i32> {
        env::text(self.variables.process?)?.parse().ok()
    }

    /// Whether the client calls us as the hook of a plugin.
    pub(crate) fn calls_plugin(&self) -> bool {
        self.variables.plugin_root.is_some_and(env::is_set)
    }

    /// The number of consecutive blocks after which the client overrides us; `None` if it never does.
    pub(crate) fn block_cap_here(&self) -> Option<u32> {
        let cap = self.block_cap.as_ref()?;
        Some(cap.set_here().unwrap_or(cap.default)).filter(|cap| *cap > 0)
    }

    pub(crate) fn is_last_task(&self, session: &SessionId, team: Option<&str>, id: &str) -> bool {
        self.team_tasks.is_none_or(|tasks| (tasks.is_last)(session, team, id))
    }

    /// Whether this variable must be removed for an agent that ralph runs.
    pub(crate) fn marks_session(&self, variable: &OsStr) -> bool {
        self.variables.session_marks.iter().any(|mark| variable == *mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_is_in_no_list_may_have_written() {
        let tools = Tools {
            read_only: &["look"],
            call_an_agent: &["delegate"],
            ask_a_language_server: &["definition"],
        };
        for (tool, kind) in [
            ("look", ToolKind::ReadsOnly),
            ("delegate", ToolKind::CallsAgent),
            ("definition", ToolKind::AsksLanguageServer),
            ("shell", ToolKind::Writes),
            ("", ToolKind::Writes),
        ] {
            assert_eq!(tools.kind(tool), kind, "{tool}");
        }
    }
}
