//! The position of an error in a config.

use serde_saphyr::Spanned;

use crate::model::config_problem::ConfigProblem;

/// A position in the config's text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    line: usize,
    column: usize,
}

impl Position {
    pub(crate) fn of<T>(entry: &Spanned<T>) -> Self {
        Self::at(entry.referenced)
    }

    pub(crate) fn at(location: serde_saphyr::Location) -> Self {
        Self { line: (location.line() as usize).max(1), column: (location.column() as usize).max(1) }
    }

    pub(crate) fn problem(self, what: impl Into<String>, hint: impl Into<String>) -> ConfigProblem {
        ConfigProblem { line: self.line, column: self.column, what: what.into(), hint: hint.into() }
    }
}
