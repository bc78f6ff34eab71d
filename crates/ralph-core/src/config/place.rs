//! Where in a config something is wrong.

use serde_saphyr::Spanned;

use crate::model::problem::Problem;

/// A place in the config's text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    line: usize,
    column: usize,
}

impl Place {
    pub(crate) fn of<T>(entry: &Spanned<T>) -> Self {
        Self::at(entry.referenced)
    }

    pub(crate) fn at(location: serde_saphyr::Location) -> Self {
        Self { line: (location.line() as usize).max(1), column: (location.column() as usize).max(1) }
    }

    pub(crate) fn problem(self, what: impl Into<String>, hint: impl Into<String>) -> Problem {
        Problem { line: self.line, column: self.column, what: what.into(), hint: hint.into() }
    }
}
