//! Whether an agent's message gives the required promise.

use serde::{Deserialize, Serialize};

/// Whether a message gives the promise.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromiseSeen {
    Given,
    NearMiss(NearMiss),
    Absent,
}

/// A near miss of the promise. Of several, the first variant here is reported.
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
    /// A different promise was given.
    Other {
        text: String,
    },
}
