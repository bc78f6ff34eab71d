//! Where the reports of loops are written.

use super::raw::{Scalar, Spanned};
use crate::config::position::Position;
use crate::model::problem::{Problem, did_you_mean};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reports {
    /// `docs/actions/loop` in the repo, and beside it the folder that scripts read.
    #[default]
    Repo,
    /// Below `~/.ralph`, for whoever wants none in the repo.
    Home,
    Off,
}

impl Reports {
    const WORDS: [(&str, Self); 3] = [("repo", Self::Repo), ("home", Self::Home), ("off", Self::Off)];

    /// As the config spells it.
    pub fn word(self) -> &'static str {
        Self::WORDS.into_iter().find(|(_, reports)| *reports == self).map_or("repo", |(word, _)| word)
    }

    pub(crate) fn from_raw(entry: Spanned<Scalar>) -> Result<Self, Problem> {
        let place = Position::of(&entry);
        let word = entry.value.0;
        let known = Self::WORDS.into_iter().find(|(name, _)| *name == word);
        known.map(|(_, reports)| reports).ok_or_else(|| {
            let shown: String = word.chars().take(100).collect();
            let names = Self::WORDS.into_iter().map(|(name, _)| name);
            let hint = did_you_mean(&word, names, "`repo`, `home`, `off`");
            place.problem(format!("`reports: {shown}` is no place for reports"), hint)
        })
    }
}
