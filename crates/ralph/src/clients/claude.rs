//! Claude Code.

mod rehearsal;
mod settings;
mod team_tasks;
mod tools;
mod variables;

use ralph_core::clients::claude::{hook, transcript};

use crate::clients::client::{BlockCap, Client, TeamTasks, Transcript};

/// As in `ralph hook claude`.
const NAME: &str = "claude";

pub(super) static CLAUDE: Client = Client {
    name: NAME,
    shown_name: "Claude Code",
    wire: hook::WIRE,
    tools: tools::TOOLS,
    block_cap: Some(BlockCap { variable: Some(variables::BLOCK_CAP), default: 8 }),
    variables: variables::VARIABLES,
    transcript: Transcript {
        last_tool_call: transcript::last_tool_call,
        queued_cancel: transcript::queued_cancel,
    },
    team_tasks: Some(TeamTasks { is_last: team_tasks::is_last }),
    installation: Some(&settings::INSTALLATION),
};
