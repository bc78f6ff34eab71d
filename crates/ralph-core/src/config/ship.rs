//! The `ship:` settings: how a loop beyond the gates pushes, waits and merges.

use std::time::Duration;

use super::position::Position;
use super::raw::{OneOrMany, RawShip, Scalar, Spanned};
use crate::model::config_problem::ConfigProblem;
use crate::model::ship::ShipSettings;
use crate::model::{duration, foreign_text};

pub(super) fn settings(entry: Spanned<RawShip>) -> Result<ShipSettings, ConfigProblem> {
    let place = Position::of(&entry);
    let raw = entry.value;
    let defaults = ShipSettings::default();
    let length = |value: Option<Scalar>, name: &str, default: Duration| match value {
        None => Ok(default),
        Some(text) => duration::parse_some(&text.0)
            .map_err(|hint| place.problem(format!("`ship`: an invalid `{name}`"), hint)),
    };
    let texts = |list: Option<OneOrMany<String>>| {
        let items = list.map(|list| list.0).unwrap_or_default();
        items.into_iter().map(|item| item.value).collect::<Vec<String>>()
    };
    let (labels, reviewers) = (texts(raw.labels), texts(raw.reviewers));
    let names = labels.iter().chain(&reviewers).chain(&raw.base);
    let is_odd =
        |text: &&String| text.trim().is_empty() || text.contains('\n') || foreign_text::deceives(text);
    if let Some(odd) = names.clone().find(is_odd) {
        let shown: String = odd.chars().filter(|c| !c.is_control()).take(60).collect();
        return Err(place.problem(
            format!("`ship`: `{shown}` is not a name"),
            "names of labels, reviewers and branches are one line without hidden characters",
        ));
    }
    Ok(ShipSettings {
        merge: raw.merge.unwrap_or(defaults.merge),
        delete_branch: raw.delete_branch.unwrap_or(defaults.delete_branch),
        draft: raw.draft.unwrap_or(defaults.draft),
        labels,
        reviewers,
        base: raw.base,
        poll: length(raw.poll, "poll", defaults.poll)?,
        ci_timeout: length(raw.ci_timeout, "ci_timeout", defaults.ci_timeout)?,
        no_ci: raw.no_ci.unwrap_or(defaults.no_ci),
        require: raw.require.unwrap_or(defaults.require),
        audit: raw.audit.unwrap_or(defaults.audit),
    })
}
