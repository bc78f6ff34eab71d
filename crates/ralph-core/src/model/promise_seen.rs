//! How an agent's words stand to the promise that is asked for.

use serde::{Deserialize, Serialize};

/// How words stand to a promise.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromiseSeen {
    Given,
    NearMiss(NearMiss),
    Absent,
}

/// What came near to the promise. Where several did, the one that stands first here is told.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "near_miss", rename_all = "snake_case")]
pub enum NearMiss {
    /// The tag shares its line with something else.
    InASentence,
    /// In a code block or between backticks.
    InCode,
    InAQuote,
    InAComment,
    /// One half of the tag is missing.
    Unclosed,
    /// The text alone, without the tag.
    BareText,
    /// Something else was promised.
    Other {
        text: String,
    },
}
