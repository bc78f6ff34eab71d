//! What Claude Code sends, for `ralph doctor` and `ralph demo`.

use std::path::Path;

use ralph_core::clients::claude::hook;
use serde_json::{Value, json};

use crate::clients::claude::variables::{ENTRYPOINT, SHELL_MARK};
use crate::clients::installation::{HookTrial, SampleStop};

/// A sub-agent stop recorded from Claude Code 2.1.325.
const RECORDED_STOP: &str = include_str!("../../../../ralph-core/fixtures/claude/subagent_stop.first.json");

pub(super) const REHEARSAL: HookTrial = HookTrial {
    stop,
    command,
    read_answer: hook::read_answer,
    variables: &[(SHELL_MARK, "1"), (ENTRYPOINT, "cli")],
};

fn stop(sample: &SampleStop<'_>) -> String {
    let mut input: Value = serde_json::from_str(RECORDED_STOP).expect("recorded JSON");
    input["cwd"] = json!(sample.root);
    input["session_id"] = json!(sample.session);
    input["agent_type"] = json!(sample.agent_name);
    input["last_assistant_message"] = json!(sample.message);
    input.to_string()
}

fn command(root: &Path) -> String {
    json!({
        "session_id": "doctor",
        "hook_event_name": "UserPromptExpansion",
        "expansion_type": "slash_command",
        "command_name": "ralph-status",
        "command_args": "",
        "prompt": "/ralph-status",
        "cwd": root,
    })
    .to_string()
}
