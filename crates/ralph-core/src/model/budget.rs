//! Budgets: the limits of a loop and what happens when one is reached.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::money::Micros;

/// The attempt limit: a number, or explicitly none.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attempts {
    AtMost(u32),
    Unlimited,
}

impl std::fmt::Display for Attempts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtMost(most) => write!(f, "{most}"),
            Self::Unlimited => f.write_str("unlimited"),
        }
    }
}

/// What happens to a failing loop at a limit.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnExhausted {
    /// The loop ends; the stop is allowed, marked unverified.
    Release,
    /// The stop is allowed; the loop is paused until the user continues it.
    Pause,
    Fail,
}

/// The values one source sets; the others come from lower sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    pub attempts: Option<Attempts>,
    pub errors: Option<u32>,
    pub on_exhausted: Option<OnExhausted>,
    pub clock: Option<Option<Duration>>,
    pub stale_after: Option<Option<Duration>>,
    pub agent_calls: Option<Option<u32>>,
    pub cost: Option<Option<Micros>>,
}
