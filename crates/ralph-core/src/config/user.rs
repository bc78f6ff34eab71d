//! What a person's own config file may say.

use std::time::Duration;

use serde::Deserialize;

use super::problem::Problem;
use super::raw::{self, RawBudget, Scalar, Spanned};
use crate::budget::Budget;
use crate::duration;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserFile {
    pub gate_timeout: Option<Duration>,
    pub budget: Budget,
    pub keep_env: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawUserFile {
    gate_timeout: Option<Spanned<Scalar>>,
    budget: Option<Spanned<RawBudget>>,
    #[serde(default)]
    keep_env: Vec<String>,
}

impl UserFile {
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let raw: RawUserFile = raw::parse(text)?;
        let gate_timeout = raw.gate_timeout.map(|entry| {
            let place = super::problem::Place::of(&entry);
            duration::parse(&entry.value.0)
                .map_err(|hint| place.problem("a `gate_timeout` that cannot be read", hint))
        });
        Ok(Self {
            gate_timeout: gate_timeout.transpose()?,
            budget: raw.budget.map(Budget::from_raw).transpose()?.unwrap_or_default(),
            keep_env: raw.keep_env,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Attempts;

    #[test]
    fn numbers_and_kept_variables_are_read_and_typos_named() {
        let file = UserFile::parse("gate_timeout: 5m\nbudget: {attempts: 9}\nkeep_env: [NODE_OPTIONS]\n")
            .expect("valid");
        assert_eq!(file.gate_timeout, Some(Duration::from_secs(300)));
        assert_eq!(file.budget.attempts, Some(Attempts::AtMost(9)));
        assert_eq!(file.keep_env, ["NODE_OPTIONS"]);
        let problem = UserFile::parse("gate_timout: 5m\n").expect_err("a typo");
        assert_eq!(problem.hint, "did you mean `gate_timeout`?");
    }
}
