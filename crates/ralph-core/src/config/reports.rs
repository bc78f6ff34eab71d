//! Where loop reports are written.

use super::raw::{Scalar, Spanned};
use crate::config::position::Position;
use crate::model::config_problem::{ConfigProblem, did_you_mean};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reports {
    /// `docs/actions/loop` in the repo, plus the folder that scripts read.
    #[default]
    Repo,
    /// Below `~/.ralph`, outside the repo.
    Home,
    Off,
}

impl Reports {
    const WORDS: [(&str, Self); 3] = [("repo", Self::Repo), ("home", Self::Home), ("off", Self::Off)];

    /// The spelling in the config.
    pub fn word(self) -> &'static str {
        Self::WORDS.into_iter().find(|(_, reports)| *reports == self).map_or("repo", |(word, _)| word)
    }

    pub(crate) fn from_raw(entry: Spanned<Scalar>) -> Result<Self, ConfigProblem> {
        let place = Position::of(&entry);
        let word = entry.value.0;
        let known = Self::WORDS.into_iter().find(|(name, _)| *name == word);
        known.map(|(_, reports)| reports).ok_or_else(|| {
            let shown: String = word.chars().take(100).collect();
            let names = Self::WORDS.into_iter().map(|(name, _)| name);
            let hint = did_you_mean(&word, names, "`repo`, `home`, `off`");
            place.problem(format!("`reports: {shown}` is not a place for reports"), hint)
        })
    }
}
