//! What counts as an error of a loop, as opposed to work that is not good enough yet: a reviewer's reject and a tester's
//! failing result are the loop at work and are no errors.

use serde::{Deserialize, Serialize};

#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// An agent died, or the client could not run it.
    AgentExecution,
    /// The change or the task list is gone, or there is no box in it.
    TaskNotFound,
    /// We could not read or write the task list, our state or a report. An agent's failed edit is its own affair.
    FileOperation,
    /// Whether the work is done could not be told.
    CannotTell,
}
