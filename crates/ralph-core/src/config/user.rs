//! What a person's own config file may say.

use std::time::Duration;

use serde::Deserialize;

use super::agents;
use super::raw::{self, Named, OneOrMany, RawAgent, RawBudget, Scalar, Spanned};
use super::reports::Reports;
use crate::clients::profile::{self, Profile};
use crate::config::budget;
use crate::config::place::Place;
use crate::model::budget::Budget;
use crate::model::problem::Problem;
use crate::model::{duration, foreign_text};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserFile {
    pub gate_timeout: Option<Duration>,
    pub budget: Budget,
    pub keep_env: Vec<String>,
    /// What the driver may run besides the agents that it knows, and what it knows otherwise.
    pub agents: Vec<Profile>,
    /// What the driver's agent may do beyond its profile, in its client's own words.
    pub allow: Vec<String>,
    pub reports: Option<Reports>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawUserFile {
    gate_timeout: Option<Spanned<Scalar>>,
    budget: Option<Spanned<RawBudget>>,
    #[serde(default)]
    keep_env: Vec<String>,
    agents: Option<Named<RawAgent>>,
    allow: Option<OneOrMany<String>>,
    reports: Option<Spanned<Scalar>>,
}

impl UserFile {
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let raw: RawUserFile = raw::parse(text)?;
        let gate_timeout = raw.gate_timeout.map(|entry| {
            let place = Place::of(&entry);
            duration::parse(&entry.value.0)
                .map_err(|hint| place.problem("a `gate_timeout` that cannot be read", hint))
        });
        Ok(Self {
            gate_timeout: gate_timeout.transpose()?,
            budget: raw.budget.map(budget::read).transpose()?.unwrap_or_default(),
            keep_env: raw.keep_env,
            agents: agents::of_person(raw.agents.unwrap_or_default())?,
            allow: raw.allow.map_or(Ok(Vec::new()), |list| list.0.into_iter().map(rule).collect())?,
            reports: raw.reports.map(Reports::from_raw).transpose()?,
        })
    }
}

/// One line of `allow:`. What the client would take for something else must not stay silent.
fn rule(entry: Spanned<String>) -> Result<String, Problem> {
    let place = Place::of(&entry);
    let text = entry.value.trim();
    if text.contains('\n') || foreign_text::deceives(text) {
        return Err(place.problem("`allow`: a character that hides what is written", "write plain rules"));
    }
    if !profile::is_rule(text) {
        let hint = "a rule begins with the name of a tool: `WebFetch`, `Bash(git commit:*)`";
        return Err(place.problem("`allow`: this is no rule", hint));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::budget::Attempts;

    #[test]
    fn numbers_and_kept_variables_are_read_and_typos_named() {
        let text = "gate_timeout: 5m\nbudget: {attempts: 9}\nkeep_env: [NODE_OPTIONS]\nreports: home\n";
        let file = UserFile::parse(text).expect("valid");
        assert_eq!(file.reports, Some(Reports::Home));
        assert_eq!(file.gate_timeout, Some(Duration::from_secs(300)));
        assert_eq!(file.budget.attempts, Some(Attempts::AtMost(9)));
        assert_eq!(file.keep_env, ["NODE_OPTIONS"]);
        let problem = UserFile::parse("gate_timout: 5m\n").expect_err("a typo");
        assert_eq!(problem.hint, "did you mean `gate_timeout`?");
    }
}
