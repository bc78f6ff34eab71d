//! The user's own config file.

use std::time::Duration;

use serde::Deserialize;

use super::agents;
use super::raw::{self, Named, OneOrMany, RawAgent, RawBudget, Scalar, Spanned};
use super::reports::Reports;
use crate::clients::profile::{self, Profile};
use crate::config::budget;
use crate::config::position::Position;
use crate::model::budget::Budget;
use crate::model::config_problem::ConfigProblem;
use crate::model::evidence::Proof;
use crate::model::{duration, foreign_text};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserFile {
    pub gate_timeout: Option<Duration>,
    pub budget: Budget,
    /// Variables that gates keep although they would be removed.
    pub keep_env: Vec<String>,
    /// Additional agents and overrides of built-in ones.
    pub agents: Vec<Profile>,
    /// Additional permissions of the driver's agent, as rules of its client.
    pub allow: Vec<String>,
    pub reports: Option<Reports>,
    /// The proof that loops require.
    pub proof: Option<Proof>,
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
    proof: Option<Spanned<Scalar>>,
}

impl UserFile {
    pub fn parse(text: &str) -> Result<Self, ConfigProblem> {
        let raw: RawUserFile = raw::parse(text)?;
        let gate_timeout = raw.gate_timeout.map(|entry| {
            let place = Position::of(&entry);
            duration::parse(&entry.value.0).map_err(|hint| place.problem("an invalid `gate_timeout`", hint))
        });
        let proof = raw.proof.map(|entry| {
            let place = Position::of(&entry);
            entry.value.0.parse().map_err(|hint: String| place.problem("an invalid `proof`", hint))
        });
        Ok(Self {
            gate_timeout: gate_timeout.transpose()?,
            budget: raw.budget.map(budget::read).transpose()?.unwrap_or_default(),
            keep_env: raw.keep_env,
            agents: agents::from_user_file(raw.agents.unwrap_or_default())?,
            allow: raw.allow.map_or(Ok(Vec::new()), |list| list.0.into_iter().map(rule).collect())?,
            reports: raw.reports.map(Reports::from_raw).transpose()?,
            proof: proof.transpose()?,
        })
    }
}

/// One line of `allow:`. Reports rules that the client would misread.
fn rule(entry: Spanned<String>) -> Result<String, ConfigProblem> {
    let place = Position::of(&entry);
    let text = entry.value.trim();
    if text.contains('\n') || foreign_text::deceives(text) {
        return Err(place.problem("`allow`: a hidden or control character", "write plain rules"));
    }
    if !profile::is_rule(text) {
        let hint = "a rule begins with a tool's name: `WebFetch`, `Bash(git commit:*)`";
        return Err(place.problem("`allow`: not a valid rule", hint));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::budget::Attempts;

    #[test]
    fn the_proof_is_one_of_three_words() {
        let file = UserFile::parse("proof: behaviour-kept\n").expect("valid");
        assert_eq!(file.proof, Some(Proof::BehaviourKept));
        let problem = UserFile::parse("proof: none\n").expect_err("no such word");
        assert_eq!((problem.line, problem.what.as_str()), (1, "an invalid `proof`"));
    }

    #[test]
    fn the_user_config_is_parsed_and_typos_are_reported() {
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
