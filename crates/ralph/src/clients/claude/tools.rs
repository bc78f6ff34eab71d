//! What its tools do. Whatever is not here may have written something.

use crate::clients::client::Tools;

pub(super) const TOOLS: Tools = Tools {
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
};
