//! What is wrong with a text that a user wrote, where, and how to fix it.

use serde::{Deserialize, Serialize};

#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("line {line}, column {column}: {what} ({hint})")]
pub struct Problem {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    pub what: String,
    pub hint: String,
}

impl Problem {
    pub(crate) fn whole_file(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { line: 1, column: 1, what: what.into(), hint: hint.into() }
    }
}

/// The nearest of the words there are, if one is near enough to be what was meant; else the list of them.
pub(crate) fn did_you_mean<'a>(word: &str, known: impl Iterator<Item = &'a str>, otherwise: &str) -> String {
    // No key is that long; comparing takes its length times theirs.
    if word.len() > 100 {
        return format!("there are: {otherwise}");
    }
    let nearest = known
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .min()
        .filter(|(distance, _)| *distance <= 2.max(word.chars().count() / 3));
    match nearest {
        Some((_, candidate)) => format!("did you mean `{candidate}`?"),
        None => format!("there are: {otherwise}"),
    }
}
