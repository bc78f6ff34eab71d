//! How a user wants a loop to be driven.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The user's options for driving a loop, fixed for its whole life.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriveOptions {
    /// The profile's name, or `command:` and a command.
    pub agent: String,
    pub memory: AgentContext,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub checkpoints: bool,
    /// The time limit of one agent run.
    #[serde(with = "crate::model::duration::seconds")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub longest_run: Duration,
    /// How long the agent may produce no output and change no file.
    #[serde(with = "crate::model::duration::seconds")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub longest_silence: Duration,
    /// The timeout of gates without their own, if set for this loop.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "crate::model::duration::optional_seconds"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub gate_timeout: Option<Duration>,
    /// The gates are not run before the first iteration.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_baseline: bool,
    /// Acceptance commands may pass at the start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accept_green: bool,
}

/// What the agent remembers of earlier iterations.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentContext {
    /// Only the prompt, so that the context does not fill up.
    Fresh,
    /// Continues the session of the last run if the client supports it.
    Continue,
}
