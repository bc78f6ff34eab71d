//! An error in a file that the user wrote: what, where, and how to fix it.

use serde::{Deserialize, Serialize};

#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("line {line}, column {column}: {what} ({hint})")]
pub struct ConfigProblem {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    pub what: String,
    pub hint: String,
}

impl ConfigProblem {
    pub(crate) fn whole_file(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { line: 1, column: 1, what: what.into(), hint: hint.into() }
    }
}

/// Suggests the closest candidate if one is close enough, otherwise lists them all.
pub fn did_you_mean<'a>(word: &str, known: impl Iterator<Item = &'a str>, otherwise: &str) -> String {
    // The comparison is quadratic, and no key is that long.
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
