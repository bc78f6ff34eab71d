//! The limits of a loop, each with its origin.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::budget::{Attempts, Budget, OnExhausted};
use crate::model::layout::Clocks;
use crate::model::money::Micros;
use crate::model::preset::Preset;
use crate::model::verdict::LimitHit;

/// Where a value came from; later variants win.
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

/// A value with its origin.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WithOrigin<T> {
    pub value: T,
    pub origin: Origin,
}

/// A limit in time: its value in seconds.
mod seconds_with_origin {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{Origin, WithOrigin};
    use crate::model::duration::optional_seconds;

    #[derive(Serialize, Deserialize)]
    struct InSeconds {
        #[serde(with = "optional_seconds")]
        value: Option<Duration>,
        origin: Origin,
    }

    pub(super) fn serialize<S: Serializer>(
        limit: &WithOrigin<Option<Duration>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        InSeconds { value: limit.value, origin: limit.origin }.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<WithOrigin<Option<Duration>>, D::Error> {
        let InSeconds { value, origin } = InSeconds::deserialize(deserializer)?;
        Ok(WithOrigin { value, origin })
    }
}

impl<T> WithOrigin<T> {
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

/// The limits of a loop, each with its origin.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    pub attempts: WithOrigin<Attempts>,
    /// Consecutive stops at which the gates could not be evaluated.
    pub errors: WithOrigin<u32>,
    pub on_exhausted: WithOrigin<OnExhausted>,
    /// Since the loop began; checked only after a failure.
    #[serde(with = "seconds_with_origin")]
    #[cfg_attr(feature = "schema", schemars(with = "WithOrigin<Option<f64>>"))]
    pub clock: WithOrigin<Option<Duration>>,
    /// Since the last activity; an older state is discarded.
    #[serde(with = "seconds_with_origin")]
    #[cfg_attr(feature = "schema", schemars(with = "WithOrigin<Option<f64>>"))]
    pub stale_after: WithOrigin<Option<Duration>>,
    /// Identical stops in a row; bounds a loop with unlimited attempts.
    pub no_progress: WithOrigin<Option<u32>>,
    /// Calls of other agents in any role.
    pub agent_calls: WithOrigin<Option<u32>>,
    pub cost: WithOrigin<Option<Micros>>,
}

/// Bounds a loop with unlimited attempts.
const MOST_EQUAL_STOPS: u32 = 3;

impl Limits {
    pub fn new(preset: &Preset, clocks: Clocks) -> Self {
        Self {
            attempts: WithOrigin::default(preset.attempts),
            errors: WithOrigin::default(preset.errors),
            on_exhausted: WithOrigin::default(preset.on_exhausted),
            clock: WithOrigin::default(clocks.clock),
            stale_after: WithOrigin::default(clocks.stale_after),
            no_progress: WithOrigin::default(preset.no_progress),
            agent_calls: WithOrigin::default(preset.agent_calls),
            cost: WithOrigin::default(None),
        }
    }

    /// These limits with the values of a later source applied.
    #[must_use]
    pub fn with(self, budget: &Budget, origin: Origin) -> Self {
        // Unlimited attempts get the no-progress limit unless one is set.
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

/// What the user grants a loop on top of its limits.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitsRaise {
    #[serde(default)]
    pub iterations: u32,
    #[serde(default)]
    pub cost: Micros,
    #[serde(default, with = "crate::model::duration::seconds")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub time: Duration,
}

impl LimitsRaise {
    /// Whether it gives more of what this limit bounds.
    pub fn lifts(&self, limit: LimitHit) -> bool {
        match limit {
            LimitHit::Attempts { .. } => self.iterations > 0,
            LimitHit::Cost { .. } => self.cost > Micros::ZERO,
            LimitHit::Clock { .. } => self.time > Duration::ZERO,
            LimitHit::AgentCalls { .. }
            | LimitHit::Errors { .. }
            | LimitHit::NoProgress { .. }
            | LimitHit::ClientCap { .. } => false,
        }
    }
}

impl Limits {
    /// With more granted; what has no limit stays without one.
    #[must_use]
    pub fn raised(mut self, by: &LimitsRaise) -> Self {
        let origin = Origin::Flag;
        if let (Attempts::AtMost(most), 1..) = (self.attempts.value, by.iterations) {
            self.attempts =
                WithOrigin { value: Attempts::AtMost(most.saturating_add(by.iterations)), origin };
        }
        if let Some(most) = self.cost.value.filter(|_| by.cost > Micros::ZERO) {
            self.cost = WithOrigin { value: Some(most.plus(by.cost)), origin };
        }
        if let Some(most) = self.clock.value.filter(|_| by.time > Duration::ZERO) {
            self.clock = WithOrigin { value: Some(most.saturating_add(by.time)), origin };
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::layout::Layout;
    use crate::model::preset;

    #[test]
    fn a_later_source_wins_and_origins_are_recorded() {
        let user = Budget { attempts: Some(Attempts::AtMost(9)), errors: Some(4), ..Budget::default() };
        let repo = Budget { attempts: Some(Attempts::AtMost(7)), ..Budget::default() };
        let limits = Limits::new(&preset::CHECK, Layout::Native.data().clocks)
            .with(&user, Origin::UserFile)
            .with(&repo, Origin::RepoFile);
        assert_eq!(limits.attempts, WithOrigin { value: Attempts::AtMost(7), origin: Origin::RepoFile });
        assert_eq!(limits.errors, WithOrigin { value: 4, origin: Origin::UserFile });
        assert_eq!(limits.on_exhausted.origin, Origin::Default);
    }

    #[test]
    fn what_is_granted_is_added_and_what_is_unlimited_stays_so() {
        let clocks = Layout::Native.data().clocks;
        let flags = Budget {
            attempts: Some(Attempts::AtMost(3)),
            cost: Some(Some(Micros::new(7))),
            clock: Some(Some(Duration::from_secs(60))),
            ..Budget::default()
        };
        let limits = Limits::new(&preset::DRIVE, clocks).with(&flags, Origin::RepoFile);
        let more = LimitsRaise { iterations: 2, cost: Micros::new(5), time: Duration::from_secs(1) };
        let raised = limits.clone().raised(&more);
        assert_eq!(raised.attempts, WithOrigin { value: Attempts::AtMost(5), origin: Origin::Flag });
        assert_eq!(raised.cost.value, Some(Micros::new(12)));
        assert_eq!(raised.clock.value, Some(Duration::from_secs(61)));
        assert_eq!(limits.clone().raised(&LimitsRaise::default()), limits);
        let unlimited = Budget { attempts: Some(Attempts::Unlimited), ..Budget::default() };
        let unlimited = Limits::new(&preset::DRIVE, Clocks { stale_after: None, clock: None })
            .with(&unlimited, Origin::Flag);
        assert_eq!(unlimited.clone().raised(&more), unlimited);
    }
}
