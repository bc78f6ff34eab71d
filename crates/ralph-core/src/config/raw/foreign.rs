//! The config file of another tool. `verify` and `enabled` stand at its top, as that tool's users know them; what else a
//! `ralph.yaml` may say stands under `ralph:`, where that tool does not look. No key of ours is passed over: at the wrong
//! place it is an error, and what is not read is listed.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{
    Named, OneOrMany, RawBudget, RawCommandAgent, RawConfig, RawGate, RawShip, RawWorktree, Scalar, Spanned,
};
use crate::config::position::Position;
use crate::model::config_problem::ConfigProblem;

#[derive(Debug, Default, Deserialize)]
struct ForeignFile {
    verify: Option<OneOrMany<RawGate>>,
    enabled: Option<bool>,
    ralph: Option<UnderRalph>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct UnderRalph {
    guard: Option<OneOrMany<String>>,
    budget: Option<Spanned<RawBudget>>,
    agents: Option<Named<RawCommandAgent>>,
    reports: Option<Spanned<Scalar>>,
    worktree: Option<Spanned<RawWorktree>>,
    ship: Option<Spanned<RawShip>>,
}

/// What is read at the top.
const READ: [&str; 3] = ["verify", "enabled", "ralph"];

/// What is read under `ralph:`.
const UNDER_RALPH: [&str; 6] = ["guard", "budget", "agents", "reports", "worktree", "ship"];

/// What the other tools read themselves.
const THEIRS: [&str; 3] = ["worktree_dir", "copy", "post_create"];

pub(super) fn read(text: &str) -> Result<RawConfig, ConfigProblem> {
    let file: ForeignFile = super::parse(text)?;
    let keys: Named<IgnoredAny> = super::parse(text)?;
    let mut not_read = Vec::new();
    for (key, _) in &keys.0 {
        check_key(key)?;
        let known = READ.iter().chain(&THEIRS).any(|known| key.value == *known);
        not_read.extend((!known).then(|| key.value.clone()));
    }
    let under = file.ralph.unwrap_or_default();
    Ok(RawConfig {
        verify: file.verify.map(|list| list.0),
        enabled: file.enabled,
        guard: under.guard.map(|list| list.0),
        budget: under.budget,
        agents: under.agents,
        reports: under.reports,
        worktree: under.worktree,
        ship: under.ship,
        not_read,
    })
}

fn check_key(key: &Spanned<String>) -> Result<(), ConfigProblem> {
    let place = Position::of(key);
    let name = key.value.as_str();
    if UNDER_RALPH.contains(&name) {
        let what = format!("`{name}` is not read here");
        return Err(
            place.problem(what, format!("in this file it goes under `ralph:`, as `ralph: {{ {name}: … }}`"))
        );
    }
    let nearly =
        |known: &&&str| name != **known && strsim::damerau_levenshtein(name, known) <= known.len() / 4;
    match READ.iter().find(nearly) {
        Some(known) => {
            Err(place.problem(format!("unknown key `{name}`"), format!("did you mean `{known}`?")))
        }
        None => Ok(()),
    }
}
