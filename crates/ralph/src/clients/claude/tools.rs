//! What its tools do. Any other tool may have written something.

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
    // Its current and its former name.
    call_an_agent: &["Agent", "Task"],
    ask_a_language_server: &["LSP"],
};
