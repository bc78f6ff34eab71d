//! One session of a client, event by event, with the numbers that the client gives to prompts.

use std::cell::{Cell, RefCell};

use serde_json::{Value, json};

use crate::support::{Answer, Sandbox, Stop};

/// A person and an agent who talk in the project of a sandbox.
pub(crate) struct Conversation<'a> {
    sandbox: &'a Sandbox,
    session: String,
    /// The turn that runs.
    prompt: RefCell<String>,
    prompts: Cell<u32>,
}

impl<'a> Conversation<'a> {
    pub(crate) fn new(sandbox: &'a Sandbox) -> Self {
        Self::named(sandbox, "session-1")
    }

    pub(crate) fn named(sandbox: &'a Sandbox, session: &str) -> Self {
        let prompt = RefCell::new(format!("{session}-prompt-0"));
        Self { sandbox, session: session.into(), prompt, prompts: Cell::new(0) }
    }

    /// Any event of this session, before it is sent.
    pub(crate) fn event(&self, name: &str) -> Stop<'a> {
        self.sandbox.event(json!({
            "session_id": self.session,
            "transcript_path": "/nowhere/session.jsonl",
            "cwd": self.sandbox.project(),
            "prompt_id": *self.prompt.borrow(),
            "permission_mode": "default",
            "hook_event_name": name,
        }))
    }

    /// The person types this while nothing runs: a turn of its own.
    pub(crate) fn person_says(&self, words: &str) -> Answer {
        self.queued_turn_begins();
        self.person_adds(words)
    }

    /// The person types this into the running turn: it carries that turn's number.
    pub(crate) fn person_adds(&self, words: &str) -> Answer {
        self.event("UserPromptSubmit").with("prompt", words).answer()
    }

    /// What was typed into a turn that had no more use for it gets a turn with a number that no prompt announced.
    pub(crate) fn queued_turn_begins(&self) {
        self.prompts.set(self.prompts.get() + 1);
        self.prompt.replace(format!("{}-prompt-{}", self.session, self.prompts.get()));
    }

    /// The client tells of the end of something in the background, which is a turn too.
    pub(crate) fn client_notifies(&self) -> Answer {
        self.person_says("<task-notification>\n<task-id>a1</task-id>\n</task-notification>")
    }

    /// The agent has used a tool.
    pub(crate) fn agent_uses(&self, tool: &str) -> Answer {
        self.tool_used(tool).answer()
    }

    pub(crate) fn tool_used(&self, tool: &str) -> Stop<'a> {
        self.event("PostToolUse").with("tool_name", tool).with("tool_input", json!({}))
    }

    /// The agent writes a file with the tool for it.
    pub(crate) fn agent_writes(&self, file: &str, text: &str) {
        self.sandbox.file(file, text);
        self.agent_uses("Write").silent();
    }

    /// The agent wants to stop, before that is sent.
    pub(crate) fn stop(&self) -> Stop<'a> {
        self.event("Stop")
            .with("stop_hook_active", false)
            .with("last_assistant_message", "Done.")
            .with("background_tasks", Value::Array(Vec::new()))
            .with("session_crons", Value::Array(Vec::new()))
    }

    pub(crate) fn agent_stops(&self) -> Answer {
        self.stop().answer()
    }
}

impl Answer {
    /// The person's words were answered without the model: the answer.
    #[track_caller]
    pub(crate) fn answered(&self) -> String {
        let value = self.ran.json();
        assert_eq!(value["continue"], false, "{self:#?}");
        value["stopReason"].as_str().unwrap_or_else(|| panic!("{self:#?}")).to_owned()
    }

    /// It went on to the model, and this is what the person is told.
    #[track_caller]
    pub(crate) fn told(&self) -> String {
        self.let_go().unwrap_or_else(|| panic!("nothing told: {self:#?}"))
    }
}
