//! A session of the client, as its hooks tell of it: what the person types, what the agent says when it stops.

use std::cell::Cell;
use std::fs;

use serde_json::{Value, json};

use crate::support::{Answer, Sandbox, Stop};

pub(crate) struct Talk<'a> {
    sandbox: &'a Sandbox,
    session: &'a str,
    prompts: Cell<u32>,
    tools: Cell<u32>,
}

impl<'a> Talk<'a> {
    pub(crate) fn new(sandbox: &'a Sandbox, session: &'a str) -> Self {
        Self { sandbox, session, prompts: Cell::new(0), tools: Cell::new(0) }
    }

    /// A session in which the person has given `/ralph-loop` with these words.
    #[track_caller]
    pub(crate) fn looping(sandbox: &'a Sandbox, words: &str) -> Self {
        let talk = Self::new(sandbox, "session-1");
        let answer = talk.command("ralph-loop", words);
        assert!(answer.ran.json().get("decision").is_none(), "{answer:#?}");
        talk
    }

    pub(crate) fn event(&self, name: &str, more: &Value) -> Stop<'a> {
        let mut input = json!({
            "session_id": self.session,
            "transcript_path": self.transcript(),
            "cwd": self.sandbox.project(),
            "prompt_id": format!("prompt-{}", self.prompts.get()),
            "permission_mode": "default",
            "hook_event_name": name,
        });
        for (key, value) in more.as_object().expect("an object") {
            input[key] = value.clone();
        }
        self.sandbox.event(input)
    }

    fn transcript(&self) -> std::path::PathBuf {
        self.sandbox.home().join(format!("{}.jsonl", self.session))
    }

    pub(crate) fn says(&self, prompt: &str) -> Answer {
        self.prompts.set(self.prompts.get() + 1);
        self.event("UserPromptSubmit", &json!({"prompt": prompt})).answer()
    }

    /// A slash command, as the client expands it.
    pub(crate) fn command(&self, name: &str, words: &str) -> Answer {
        self.prompts.set(self.prompts.get() + 1);
        let more = json!({
            "expansion_type": "slash_command",
            "command_name": name,
            "command_args": words,
            "command_source": "projectSettings",
            "prompt": format!("/{name} {words}"),
        });
        self.event("UserPromptExpansion", &more).answer()
    }

    /// The agent uses a tool.
    pub(crate) fn uses(&self, tool: &str) -> &Self {
        self.tools.set(self.tools.get() + 1);
        let call = json!({"type": "assistant", "message": {"content": [
            {"type": "tool_use", "id": format!("toolu_{}", self.tools.get()), "name": tool},
        ]}});
        fs::write(self.transcript(), format!("{call}\n")).expect("a transcript");
        self.event("PostToolUse", &json!({"tool_name": tool, "tool_input": {}})).answer().silent();
        self
    }

    /// What the person reads after the agent used a tool.
    pub(crate) fn uses_and_tells(&self, tool: &str) -> String {
        told(&self.event("PostToolUse", &json!({"tool_name": tool, "tool_input": {}})).answer())
    }

    /// The session stops, and that is what its agent said last.
    pub(crate) fn stop(&self, message: &str) -> Stop<'a> {
        self.event(
            "Stop",
            &json!({"stop_hook_active": false, "last_assistant_message": message, "background_tasks": []}),
        )
    }

    pub(crate) fn stops(&self, message: &str) -> Answer {
        self.stop(message).answer()
    }

    /// Other agents are called; each is one call.
    pub(crate) fn calls_agents(&self, range: std::ops::Range<u32>) {
        for number in range {
            self.agent("SubagentStart", number, "general-purpose", "").answer().silent();
        }
    }

    pub(crate) fn agent(&self, event: &str, number: u32, name: &str, message: &str) -> Stop<'a> {
        let more = json!({"agent_id": format!("agent-{number}"), "agent_type": name, "last_assistant_message": message});
        self.event(event, &more)
    }

    pub(crate) fn fails(&self, error: &str) {
        let more = json!({"error": "unknown", "last_assistant_message": error});
        self.event("StopFailure", &more).answer().silent();
    }

    pub(crate) fn starts(&self, source: &str) -> Answer {
        self.event("SessionStart", &json!({"source": source})).answer()
    }

    pub(crate) fn ends(&self, reason: &str) {
        self.event("SessionEnd", &json!({"reason": reason})).answer().silent();
    }

    /// The state of the one session loop.
    #[track_caller]
    pub(crate) fn state(&self) -> Value {
        let status = self.sandbox.status();
        let loops = status["loops"].as_array().expect("loops");
        let of_session: Vec<&Value> =
            loops.iter().filter(|entry| !entry["state"]["goal"].is_null()).collect();
        assert_eq!(of_session.len(), 1, "{status:#}");
        of_session[0]["state"].clone()
    }
}

/// What the person reads of an answer, whichever way the client is told to show it.
#[track_caller]
pub(crate) fn told(answer: &Answer) -> String {
    if answer.ran.stdout.is_empty() {
        return String::new();
    }
    let value = answer.ran.json();
    let texts = [&value["systemMessage"], &value["stopReason"], &value["reason"]];
    texts.into_iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
}

/// What the agent hears of an answer.
#[track_caller]
pub(crate) fn context(answer: &Answer) -> String {
    answer.ran.json()["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_default().to_owned()
}
