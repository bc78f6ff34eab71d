//! How a user wants a loop to be driven.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How the person wants the loop driven; it holds for its whole life.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriveOptions {
    /// The name of its profile, or `command:` with what is run.
    pub agent: String,
    pub memory: Memory,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub checkpoints: bool,
    /// What one run of the agent may take.
    pub longest_run: Duration,
    /// How long it may neither print a byte nor change a file.
    pub longest_silence: Duration,
    /// What a gate may take that has no time of its own, where it was said for this loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate_timeout: Option<Duration>,
}

/// What the agent knows of the iterations before.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    /// Nothing but what the prompt says: a context that does not fill up.
    Fresh,
    /// The session of the last run is continued, where the client can.
    Continue,
}
