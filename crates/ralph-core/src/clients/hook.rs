//! One vocabulary for every agent client: what a hook call says, and what a hook may answer. How a client writes it is a
//! [`HookWire`], in a file of its own.

use crate::model::id::{AgentId, SessionId};

/// One hook call, as far as anybody here needs it. The client's own `stop_hook_active` is not in it on purpose: a hook
/// that lets go on it retries exactly once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookCall {
    pub event: HookEvent,
    pub session: Option<SessionId>,
    pub cwd: Option<String>,
    pub agent: Option<AgentId>,
    /// The name of the sub-agent; empty where the client compacts.
    pub agent_type: Option<String>,
    pub last_message: String,
    /// The prompt that the session works on, as the client numbers them.
    pub prompt: Option<String>,
    /// Where the client writes down what was said.
    pub transcript: Option<String>,
    /// The person lets the agent plan, and nothing else.
    pub is_planning: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookEvent {
    SubagentStop,
    SubagentStart,
    Stop {
        /// What the session's agent may be waiting for.
        background: Vec<BackgroundWork>,
    },
    /// The turn ended by an error of the client or its model.
    StopFailure {
        error: String,
    },
    UserPromptSubmit {
        prompt: String,
    },
    /// The person gave a command; its words come as they were typed.
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
        /// The file that the tool is asked about.
        file: Option<String>,
    },
    PostToolUse {
        tool: String,
    },
    PostToolUseFailure {
        tool: String,
        error: String,
    },
    /// A member of the session's team is about to rest.
    TeammateIdle,
    /// Somebody calls a task completed.
    TaskCompleted {
        id: String,
        subject: String,
        /// The team whose task it is; none: the session's own.
        team: Option<String>,
    },
    /// Any event nobody here does anything about.
    Other(String),
}

/// A hook input that cannot be read. Never a reason to hold anybody.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error("the hook input is empty")]
    Empty,
    #[error("the hook input is not the JSON object of a hook: {0}")]
    NotAHookInput(String),
}

/// What we answer, before it is put into a client's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookReply {
    /// Let it stop; say nothing.
    Silent,
    /// Let it go on as it was; tell somebody something where the event can.
    Tell { person: Option<String>, agent: Option<String> },
    /// Hold it.
    Block { reason: String, detail: String, person: Option<String> },
    /// Take what the person typed as answered: no model hears it.
    Answer { person: String },
    /// The tool may not run; the agent hears why.
    Deny { reason: String },
}

/// Who reads what an answer says beside a decision. Words for anyone else are lost, so they wait for a call that has
/// such a reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Audience {
    pub user: bool,
    pub agent: bool,
}

/// An answer as the client takes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    pub stdout: Vec<u8>,
    pub stderr: String,
    /// 0, or what makes the client block where it takes an exit code for that.
    pub exit_code: u8,
}

/// How one client's hooks are spoken to: a row of functions, so that a client can be passed around as a value.
#[derive(Clone, Copy, Debug)]
pub struct HookWire {
    pub parse: fn(&[u8]) -> Result<HookCall, Unreadable>,
    pub render: fn(&HookReply, &HookEvent) -> Rendered,
    /// What the client calls an event; none for one that it does not have or that is not answered.
    pub event_name: fn(&HookEvent) -> Option<&str>,
    /// Who reads the answer to a call, where it blocks nothing.
    pub audience: fn(&HookCall) -> Audience,
}

/// Work of the agent that goes on after its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundWork {
    pub id: String,
    pub what: String,
}
