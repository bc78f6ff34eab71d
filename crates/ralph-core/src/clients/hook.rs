//! Client-independent types for hook calls and answers. Each client's format is a [`HookWire`] in its own file.

use crate::model::id::{AgentId, SessionId};

/// One hook call. The client's `stop_hook_active` is deliberately ignored: a hook that allows a stop because of it
/// retries only once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookCall {
    pub event: HookEvent,
    pub session: Option<SessionId>,
    pub cwd: Option<String>,
    pub agent: Option<AgentId>,
    /// The name of the sub-agent; empty during compaction.
    pub agent_type: Option<String>,
    pub last_message: String,
    /// The client's id of the current prompt.
    pub prompt: Option<String>,
    /// The client's transcript file.
    pub transcript: Option<String>,
    /// Whether the session is in plan mode.
    pub is_planning: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookEvent {
    SubagentStop,
    SubagentStart,
    Stop {
        /// Background work the session's agent may be waiting for.
        background: Vec<BackgroundWork>,
    },
    /// The turn ended with an error of the client or its model.
    StopFailure {
        error: String,
    },
    UserPromptSubmit {
        prompt: String,
    },
    /// The user ran a command; its arguments are as typed.
    UserPromptExpansion {
        command: String,
        arguments: String,
    },
    SessionStart {
        source: String,
    },
    SessionEnd {
        reason: String,
    },
    PreToolUse {
        tool: String,
        /// The file the tool operates on.
        file: Option<String>,
    },
    PostToolUse {
        tool: String,
    },
    PostToolUseFailure {
        tool: String,
        error: String,
    },
    /// A member of the session's team is about to go idle.
    TeammateIdle,
    /// A task is reported completed.
    TaskCompleted {
        id: String,
        subject: String,
        /// The task's team; none for the session's own tasks.
        team: Option<String>,
    },
    /// Any event that is not handled.
    Other(String),
}

/// An unreadable hook input, which never blocks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HookInputError {
    #[error("the hook input is empty")]
    Empty,
    #[error("the hook input is not a valid JSON object: {0}")]
    NotAHookInput(String),
}

/// The answer, before it is rendered for a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookReply {
    /// Allow without a message.
    Silent,
    /// Allow, with messages if the event supports them.
    Notify { user: Option<String>, agent: Option<String> },
    /// Block the stop.
    Block { reason: String, detail: String, user: Option<String> },
    /// Treat the user's input as answered; it does not reach the model.
    Answer { user: String },
    /// Deny the tool call and give the agent the reason.
    Deny { reason: String },
}

impl HookReply {
    /// One word, for a trace.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Silent => "nothing",
            Self::Notify { .. } => "notify",
            Self::Block { .. } => "block",
            Self::Answer { .. } => "answer",
            Self::Deny { .. } => "deny",
        }
    }
}

/// Who receives an answer's messages. Messages for others would be lost, so they wait for a call that reaches them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Audience {
    pub user: bool,
    pub agent: bool,
}

/// An answer in the client's format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RenderedReply {
    pub stdout: Vec<u8>,
    pub stderr: String,
    /// 0, or the code by which the client blocks.
    pub exit_code: u8,
}

/// The hook protocol of one client as a table of functions, so that a client can be passed as a value.
#[derive(Clone, Copy, Debug)]
pub struct HookWire {
    pub parse: fn(&[u8]) -> Result<HookCall, HookInputError>,
    pub render: fn(&HookReply, &HookEvent) -> RenderedReply,
    /// The client's name of an event; none if it is unsupported or not answered.
    pub event_name: fn(&HookEvent) -> Option<&str>,
    /// Who receives the answer to a call that does not block.
    pub audience: fn(&HookCall) -> Audience,
}

/// Work of the agent that continues after its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundWork {
    pub id: String,
    pub what: String,
}
