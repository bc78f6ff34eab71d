//! The limits of a loop: every number there, and where each came from.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::budget::{Attempts, Budget, OnExhausted};
use crate::model::layout::Clocks;
use crate::model::money::Micros;
use crate::model::preset::Preset;

/// Where a number came from; later ones win.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    Default,
    UserFile,
    RepoFile,
    Environment,
    Flag,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::UserFile => "your config",
            Self::RepoFile => "the repo's config",
            Self::Environment => "the environment",
            Self::Flag => "a flag",
        })
    }
}

/// A value that knows where it came from.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sourced<T> {
    pub value: T,
    pub origin: Origin,
}

impl<T> Sourced<T> {
    pub fn default(value: T) -> Self {
        Self { value, origin: Origin::Default }
    }

    fn over(self, newer: Option<T>, origin: Origin) -> Self {
        match newer {
            Some(value) => Self { value, origin },
            None => self,
        }
    }
}

/// The limits of a loop: every number there, each with its origin.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    pub attempts: Sourced<Attempts>,
    /// Consecutive stops at which nothing could be told.
    pub errors: Sourced<u32>,
    pub on_exhausted: Sourced<OnExhausted>,
    /// Since the loop began; looked at only after a failure.
    pub clock: Sourced<Option<Duration>>,
    /// Since the last activity; an older state is a fresh start.
    pub stale_after: Sourced<Option<Duration>>,
    /// Equal stops in a row: what bounds a loop without a number of attempts.
    pub no_progress: Sourced<Option<u32>>,
    /// Calls of other agents, whatever their role.
    pub agent_calls: Sourced<Option<u32>>,
    pub cost: Sourced<Option<Micros>>,
}

/// What bounds a loop whose attempts are unlimited.
const MOST_EQUAL_STOPS: u32 = 3;

impl Limits {
    pub fn new(preset: &Preset, clocks: Clocks) -> Self {
        Self {
            attempts: Sourced::default(preset.attempts),
            errors: Sourced::default(preset.errors),
            on_exhausted: Sourced::default(preset.on_exhausted),
            clock: Sourced::default(clocks.clock),
            stale_after: Sourced::default(clocks.stale_after),
            no_progress: Sourced::default(preset.no_progress),
            agent_calls: Sourced::default(preset.agent_calls),
            cost: Sourced::default(None),
        }
    }

    /// These limits with what a newer source sets on top.
    #[must_use]
    pub fn with(self, budget: &Budget, origin: Origin) -> Self {
        // Whoever takes one limit away keeps another, where there was none.
        let unlimited = budget.attempts == Some(Attempts::Unlimited) && self.no_progress.value.is_none();
        Self {
            no_progress: self.no_progress.over(unlimited.then_some(Some(MOST_EQUAL_STOPS)), origin),
            attempts: self.attempts.over(budget.attempts, origin),
            errors: self.errors.over(budget.errors, origin),
            on_exhausted: self.on_exhausted.over(budget.on_exhausted, origin),
            clock: self.clock.over(budget.clock, origin),
            stale_after: self.stale_after.over(budget.stale_after, origin),
            agent_calls: self.agent_calls.over(budget.agent_calls, origin),
            cost: self.cost.over(budget.cost, origin),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::layout::Layout;
    use crate::model::preset;

    #[test]
    fn a_later_source_wins_and_every_number_knows_where_it_came_from() {
        let user = Budget { attempts: Some(Attempts::AtMost(9)), errors: Some(4), ..Budget::default() };
        let repo = Budget { attempts: Some(Attempts::AtMost(7)), ..Budget::default() };
        let limits = Limits::new(&preset::CHECK, Layout::Native.data().clocks)
            .with(&user, Origin::UserFile)
            .with(&repo, Origin::RepoFile);
        assert_eq!(limits.attempts, Sourced { value: Attempts::AtMost(7), origin: Origin::RepoFile });
        assert_eq!(limits.errors, Sourced { value: 4, origin: Origin::UserFile });
        assert_eq!(limits.on_exhausted.origin, Origin::Default);
    }
}
