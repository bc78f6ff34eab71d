//! Money as whole millionths of a dollar, because float sums drift.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Millionths of a US dollar.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Micros(u64);

impl Micros {
    pub const ZERO: Self = Self(0);

    pub const fn new(micros: u64) -> Self {
        Self(micros)
    }

    pub const fn get(self) -> u64 {
        self.0
    }

    /// From a client's number; none if it is negative or not finite.
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        if !dollars.is_finite() || dollars < 0.0 {
            return None;
        }
        // Too large a float saturates, which is still over any limit.
        let micros = (dollars * 1e6).round() as u64;
        Some(Self(micros))
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, at least zero.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// A plain number of dollars for a client's flag.
    pub fn in_dollars(self) -> String {
        let text = format!("{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

impl fmt::Display for Micros {
    /// `$1.24`; a sum below a cent shows its digits instead of zeros.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 || self.0 >= 10_000 {
            let cents = self.0.saturating_add(5_000) / 10_000;
            write!(f, "${}.{:02}", cents / 100, cents % 100)
        } else {
            write!(f, "${}", self.in_dollars())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reported_costs_become_whole_millionths() {
        let table = [
            (0.0024000000000000002, Some(2_400)),
            (0.0, Some(0)),
            (12.345_678_4, Some(12_345_678)),
            (1e300, Some(u64::MAX)),
            (-0.5, None),
            (f64::NAN, None),
            (f64::INFINITY, None),
        ];
        for (dollars, micros) in table {
            assert_eq!(Micros::from_dollars(dollars).map(Micros::get), micros, "{dollars}");
        }
    }

    #[test]
    fn sums_are_shown_to_people_and_given_to_clients() {
        let table = [
            (0, "$0.00", "0"),
            (2_400, "$0.0024", "0.0024"),
            (10_000, "$0.01", "0.01"),
            (1_239_999, "$1.24", "1.239999"),
            (5_000_000, "$5.00", "5"),
            (120_000_000, "$120.00", "120"),
        ];
        for (micros, shown, flag) in table {
            assert_eq!(
                (Micros::new(micros).to_string(), Micros::new(micros).in_dollars()),
                (shown.into(), flag.into())
            );
        }
        assert_eq!(Micros::new(3).minus(Micros::new(5)), Micros::ZERO);
    }
}
