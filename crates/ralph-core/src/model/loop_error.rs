//! The errors of a loop. Unfinished work, such as a reviewer's reject or failing tests, is not an error.

use serde::{Deserialize, Serialize};

#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// An agent crashed, or the client could not run it.
    AgentExecution,
    /// The change or the task list is missing or has no checkboxes.
    TaskNotFound,
    /// ralph could not read or write the task list, its state or a report.
    FileOperation,
    /// The gates could not be evaluated.
    CannotTell,
}
