//! Budgets: what a loop may use up, what happens then, and where each number came from.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::problem::{Place, Problem};
use crate::config::raw::{RawBudget, Scalar, Spanned};
use crate::model::duration;
use crate::model::layout::Clocks;
use crate::model::money::Micros;
use crate::model::preset::Preset;

/// How many attempts: a number, or spelled out that there is none.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attempts {
    AtMost(u32),
    Unlimited,
}

impl Attempts {
    pub fn used_up_by(self, attempts: u32) -> bool {
        match self {
            Self::AtMost(most) => attempts >= most,
            Self::Unlimited => false,
        }
    }
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

impl Budget {
    pub(crate) fn from_raw(entry: Spanned<RawBudget>) -> Result<Self, Problem> {
        let place = Place::of(&entry);
        let raw = entry.value;
        let errors = raw.errors.map(|errors| at_least_one(errors, "errors", place)).transpose()?;
        Ok(Self {
            attempts: raw.attempts.as_ref().map(|scalar| attempts(scalar, place)).transpose()?,
            errors,
            on_exhausted: raw.on_exhausted,
            clock: raw.clock.as_ref().map(|scalar| clock(scalar, place)).transpose()?,
            stale_after: raw.stale_after.as_ref().map(|scalar| clock(scalar, place)).transpose()?,
            agent_calls: None,
            cost: None,
        })
    }
}

fn at_least_one(number: u32, key: &str, place: Place) -> Result<u32, Problem> {
    if number == 0 {
        return Err(place.problem(format!("`{key}: 0` would let go at once"), "give at least 1"));
    }
    Ok(number)
}

fn attempts(scalar: &Scalar, place: Place) -> Result<Attempts, Problem> {
    if scalar.0 == "unlimited" {
        return Ok(Attempts::Unlimited);
    }
    match scalar.0.parse() {
        Ok(number) => at_least_one(number, "attempts", place).map(Attempts::AtMost),
        Err(_) => Err(place.problem(
            format!("`attempts: {}` is not a number", scalar.0),
            "give a number, for example 5, or the word `unlimited`",
        )),
    }
}

fn clock(scalar: &Scalar, place: Place) -> Result<Option<Duration>, Problem> {
    if scalar.0 == "off" {
        return Ok(None);
    }
    duration::parse(&scalar.0).map(Some).map_err(|hint| place.problem("a clock that cannot be read", hint))
}

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
    #[serde(default = "not_looked_at")]
    pub no_progress: Sourced<Option<u32>>,
    /// Calls of other agents, whatever their role.
    #[serde(default = "not_looked_at")]
    pub agent_calls: Sourced<Option<u32>>,
    #[serde(default = "no_price")]
    pub cost: Sourced<Option<Micros>>,
}

fn not_looked_at() -> Sourced<Option<u32>> {
    Sourced::default(None)
}

fn no_price() -> Sourced<Option<Micros>> {
    Sourced::default(None)
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
