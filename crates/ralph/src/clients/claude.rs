//! Claude Code.

mod rehearsal;
mod settings;
mod team_tasks;
mod variables;

use ralph_core::clients::claude::{hook, transcript};

use crate::clients::client::{BlockCap, Client, TeamTasks, Tools, Transcript};

/// As in `ralph hook claude`.
const NAME: &str = "claude";

pub(super) static CLAUDE: Client = Client {
    name: NAME,
    shown_name: "Claude Code",
    wire: hook::WIRE,
    tools: Tools {
        read_only: &[
            "Read",
            "Glob",
            "Grep",
            "LS",
            "WebFetch",
            "WebSearch",
            "TodoWrite",
            "TaskOutput",
            "AskUserQuestion",
            "EnterPlanMode",
            "ExitPlanMode",
            "Skill",
            "ToolSearch",
            "TaskCreate",
            "TaskUpdate",
            "TaskList",
            "TaskGet",
        ],
        // By its name now and before.
        call_an_agent: &["Agent", "Task"],
        ask_a_language_server: &["LSP"],
    },
    block_cap: Some(BlockCap { variable: Some(variables::BLOCK_CAP), default: 8 }),
    variables: variables::VARIABLES,
    transcript: Transcript {
        last_tool_call: transcript::last_tool_call,
        queued_cancel: transcript::queued_cancel,
    },
    team_tasks: Some(TeamTasks { is_last: team_tasks::is_last }),
    installation: Some(&settings::INSTALLATION),
};
