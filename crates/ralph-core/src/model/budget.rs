//! Budgets: what a loop may use up, and what happens then.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::money::Micros;

/// How many attempts: a number, or spelled out that there is none.
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
    /// It ends; the subject goes free, loudly unverified.
    Release,
    /// The subject goes free; the loop waits for a person.
    Pause,
    Fail,
}

/// What some source sets; the rest comes from the sources below it.
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
