//! One session of the client, event by event, with the client's turn numbers: what the user types, what the agent
//! does, and its last message when it stops.

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::client_event::{ClientEvent, HookAnswer};
use crate::sandbox::Sandbox;

/// A user and an agent in the project of a sandbox.
#[derive(Debug)]
pub struct Session<'a> {
    sandbox: &'a Sandbox,
    id: String,
    turn: Cell<u32>,
    tool_calls: Cell<u32>,
}

impl<'a> Session<'a> {
    pub fn new(sandbox: &'a Sandbox) -> Self {
        Self::named(sandbox, "session-1")
    }

    pub fn named(sandbox: &'a Sandbox, id: &str) -> Self {
        Self { sandbox, id: id.into(), turn: Cell::new(0), tool_calls: Cell::new(0) }
    }

    /// A session in which the user has typed `/ralph-loop` with these arguments.
    #[track_caller]
    pub fn looping(sandbox: &'a Sandbox, words: &str) -> Self {
        let session = Self::new(sandbox);
        let answer = session.command("ralph-loop", words);
        assert!(answer.ran.json().get("decision").is_none(), "{answer:#?}");
        session
    }

    /// Any event of this session, before it is sent.
    pub fn event(&self, name: &str) -> ClientEvent<'a> {
        self.sandbox.event(json!({
            "session_id": self.id,
            "transcript_path": self.transcript(),
            "cwd": self.sandbox.project(),
            "prompt_id": format!("{}-prompt-{}", self.id, self.turn.get()),
            "permission_mode": "default",
            "hook_event_name": name,
        }))
    }

    /// The same with these fields too.
    pub fn event_with(&self, name: &str, fields: &Value) -> ClientEvent<'a> {
        let fields = fields.as_object().expect("an object");
        fields.iter().fold(self.event(name), |event, (field, value)| event.with(field, value.clone()))
    }

    fn transcript(&self) -> PathBuf {
        self.sandbox.home().join(format!("{}.jsonl", self.id))
    }

    /// The user types this while no turn runs: a turn of its own.
    pub fn user_says(&self, words: &str) -> HookAnswer {
        self.queued_turn_begins();
        self.user_adds(words)
    }

    /// The user types this into the running turn: it has that turn's number.
    pub fn user_adds(&self, words: &str) -> HookAnswer {
        self.event("UserPromptSubmit").with("prompt", words).answer()
    }

    /// Text typed too late for a turn gets its own turn, with a number that no prompt announced.
    pub fn queued_turn_begins(&self) {
        self.turn.set(self.turn.get() + 1);
    }

    /// The client reports the end of a background task, which is a turn too.
    pub fn client_notifies(&self) -> HookAnswer {
        self.user_says("<task-notification>\n<task-id>a1</task-id>\n</task-notification>")
    }

    /// A slash command, as the client expands it.
    pub fn command(&self, name: &str, words: &str) -> HookAnswer {
        self.queued_turn_begins();
        let fields = json!({
            "expansion_type": "slash_command",
            "command_name": name,
            "command_args": words,
            "command_source": "projectSettings",
            "prompt": format!("/{name} {words}"),
        });
        self.event_with("UserPromptExpansion", &fields).answer()
    }

    /// The agent has used a tool, before that is sent.
    pub fn tool_used(&self, tool: &str) -> ClientEvent<'a> {
        self.event("PostToolUse").with("tool_name", tool).with("tool_input", json!({}))
    }

    /// The agent has used a tool; its call is in no transcript.
    pub fn agent_uses(&self, tool: &str) -> HookAnswer {
        self.tool_used(tool).answer()
    }

    /// The agent has used a tool, as its transcript shows, and the hook printed nothing.
    pub fn agent_works_with(&self, tool: &str) -> &Self {
        self.tool_calls.set(self.tool_calls.get() + 1);
        let call = json!({"type": "assistant", "message": {"content": [
            {"type": "tool_use", "id": format!("toolu_{}", self.tool_calls.get()), "name": tool},
        ]}});
        fs::write(self.transcript(), format!("{call}\n")).expect("a transcript");
        self.agent_uses(tool).silent();
        self
    }

    /// The agent writes a file with the file tool.
    pub fn agent_writes(&self, file: &str, text: &str) {
        self.sandbox.file(file, text);
        self.agent_uses("Write").silent();
    }

    /// The agent wants to stop with this last message; before it is sent.
    pub fn stop(&self, message: &str) -> ClientEvent<'a> {
        let fields = json!({
            "stop_hook_active": false,
            "last_assistant_message": message,
            "background_tasks": [],
            "session_crons": [],
        });
        self.event_with("Stop", &fields)
    }

    pub fn stops(&self, message: &str) -> HookAnswer {
        self.stop(message).answer()
    }

    pub fn agent_stops(&self) -> HookAnswer {
        self.stops("Done.")
    }

    /// Other agents are called; each is one call.
    pub fn calls_agents(&self, range: std::ops::Range<u32>) {
        for number in range {
            self.agent("SubagentStart", number, "general-purpose", "").answer().silent();
        }
    }

    /// An event of a sub-agent, before it is sent.
    pub fn agent(&self, event: &str, number: u32, name: &str, message: &str) -> ClientEvent<'a> {
        let fields = json!({"agent_id": format!("agent-{number}"), "agent_type": name, "last_assistant_message": message});
        self.event_with(event, &fields)
    }

    /// The turn ends with a client error.
    pub fn fails(&self, error: &str) {
        let fields = json!({"error": "unknown", "last_assistant_message": error});
        self.event_with("StopFailure", &fields).answer().silent();
    }

    pub fn starts(&self, source: &str) -> HookAnswer {
        self.event("SessionStart").with("source", source).answer()
    }

    pub fn ends(&self, reason: &str) {
        self.event("SessionEnd").with("reason", reason).answer().silent();
    }

    /// The state of the one session loop.
    #[track_caller]
    pub fn state(&self) -> Value {
        let status = self.sandbox.status();
        let loops = status["loops"].as_array().expect("loops");
        let of_session: Vec<&Value> =
            loops.iter().filter(|entry| !entry["state"]["goal"].is_null()).collect();
        assert_eq!(of_session.len(), 1, "{status:#}");
        of_session[0]["state"].clone()
    }
}
