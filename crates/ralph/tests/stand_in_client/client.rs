//! A client that does not exist. Nothing of it is like the real ones: its JSON, its events, its tools, its variables, and
//! how it is blocked.

use ralph::{BlockCap, Client, Tools, Transcript, Variables};
use ralph_core::clients::hook::{
    Audience, HookCall, HookEvent, HookInputError, HookReply, HookWire, RenderedReply,
};
use ralph_core::model::id::SessionId;
use serde_json::Value;

pub(crate) static STAND_IN: Client = Client {
    name: "stand-in",
    shown_name: "The Stand-in",
    wire: HookWire { parse, render, event_name, audience },
    tools: Tools { read_only: &["peek"], call_an_agent: &["delegate"], ask_a_language_server: &[] },
    block_cap: Some(BlockCap { variable: None, default: 3 }),
    variables: Variables {
        project_dir: Some("STANDIN_WORKSPACE"),
        session: Some("STANDIN_CONVERSATION"),
        process: None,
        plugin_root: None,
        shell_marks: &["STANDIN_SHELL"],
        session_marks: &["STANDIN_SHELL", "STANDIN_CONVERSATION", "STANDIN_WORKSPACE"],
        prefixes: &["STANDIN_"],
    },
    transcript: Transcript::NONE,
    team_tasks: None,
    installation: None,
};

/// `{"kind": "turn_end", "conversation": "c1", "turn": 1, "answer": "…"}`
fn parse(bytes: &[u8]) -> Result<HookCall, HookInputError> {
    let input: Value =
        serde_json::from_slice(bytes).map_err(|error| HookInputError::NotAHookInput(error.to_string()))?;
    let text = |key: &str| input[key].as_str().unwrap_or_default().to_owned();
    let event = match input["kind"].as_str() {
        Some("turn_begin") => HookEvent::UserPromptSubmit { prompt: text("request") },
        Some("tool_done") => HookEvent::PostToolUse { tool: text("tool") },
        Some("turn_end") => HookEvent::Stop { background: Vec::new() },
        Some(other) => HookEvent::Other(other.to_owned()),
        None => return Err(HookInputError::NotAHookInput("no `kind`".into())),
    };
    Ok(HookCall {
        event,
        session: input["conversation"].as_str().map(SessionId::new),
        cwd: None,
        agent: None,
        agent_type: None,
        last_message: text("answer"),
        prompt: input["turn"].as_u64().map(|turn| turn.to_string()),
        transcript: None,
        is_planning: false,
    })
}

/// Plain lines on stdout for the user; exit code 2 and stderr send the agent back to work.
fn render(reply: &HookReply, _: &HookEvent) -> RenderedReply {
    match reply {
        HookReply::Silent | HookReply::Deny { .. } => RenderedReply::default(),
        HookReply::Notify { user, .. } => {
            RenderedReply { stdout: line(user.as_deref()), ..RenderedReply::default() }
        }
        HookReply::Answer { user } => RenderedReply { stdout: line(Some(user)), ..RenderedReply::default() },
        HookReply::Block { reason, detail, user } => RenderedReply {
            stdout: line(user.as_deref()),
            stderr: format!("{reason}\n{detail}\n"),
            exit_code: 2,
        },
    }
}

fn line(text: Option<&str>) -> Vec<u8> {
    text.map(|text| format!("{text}\n").into_bytes()).unwrap_or_default()
}

fn event_name(event: &HookEvent) -> Option<&str> {
    match event {
        HookEvent::UserPromptSubmit { .. } => Some("turn_begin"),
        HookEvent::PostToolUse { .. } => Some("tool_done"),
        HookEvent::Stop { .. } => Some("turn_end"),
        _ => None,
    }
}

/// Its user reads every answer, its agent none.
fn audience(_: &HookCall) -> Audience {
    Audience { user: true, agent: false }
}
