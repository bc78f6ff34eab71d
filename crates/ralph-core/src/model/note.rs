//! Notes about a loop: shown on request, never used for decisions.

use serde::{Deserialize, Serialize};

/// The most notes of one loop.
pub const MOST_NOTES: usize = 200;

/// In bytes.
pub const LONGEST_VALUE: usize = 16 << 10;

/// The value of a note as JSON.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum NoteValue {
    Bool(bool),
    Number(serde_json::Number),
    Text(String),
}

impl NoteValue {
    /// A boolean or number if JSON writes it identically; anything else stays the given text.
    pub fn of(text: &str) -> Self {
        match text {
            "true" => Self::Bool(true),
            "false" => Self::Bool(false),
            _ => {
                let number = serde_json::from_str::<serde_json::Number>(text).ok();
                let same = number.filter(|number| number.to_string() == text);
                same.map_or_else(|| Self::Text(text.to_owned()), Self::Number)
            }
        }
    }

    /// The next count; none if the value is not a count.
    pub(crate) fn one_more(&self) -> Option<Self> {
        match self {
            Self::Number(number) => Some(Self::Number(number.as_u64()?.checked_add(1)?.into())),
            Self::Bool(_) | Self::Text(_) => None,
        }
    }
}

/// A key is a plain word.
pub fn is_key(text: &str) -> bool {
    const LONGEST: usize = 100;
    text.len() <= LONGEST
        && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_value_is_typed_only_if_nothing_is_lost() {
        let text = |text: &str| NoteValue::Text(text.to_owned());
        let table = [
            ("true", NoteValue::Bool(true)),
            ("false", NoteValue::Bool(false)),
            ("7", NoteValue::Number(7.into())),
            ("-7", NoteValue::Number((-7).into())),
            ("0.5", NoteValue::Number(serde_json::Number::from_f64(0.5).expect("a number"))),
            ("1.10", text("1.10")),
            ("007", text("007")),
            ("1e5", text("1e5")),
            ("123456789012345678901234567890", text("123456789012345678901234567890")),
            ("True", text("True")),
            (" true", text(" true")),
            ("null", text("null")),
            ("", text("")),
            ("a,b=c,true", text("a,b=c,true")),
            ("[1,2]", text("[1,2]")),
            ("\"true\"", text("\"true\"")),
            ("\" | .verified_done = true | .x = \"", text("\" | .verified_done = true | .x = \"")),
        ];
        for (given, value) in table {
            assert_eq!(NoteValue::of(given), value, "{given}");
        }
    }

    proptest! {
        #[test]
        fn every_value_comes_back_as_it_was_given(given in ".{0,60}") {
            let stored = serde_json::to_string(&NoteValue::of(&given)).expect("JSON");
            let back: NoteValue = serde_json::from_str(&stored).expect("our own words");
            prop_assert_eq!(&back, &NoteValue::of(&given));
            let shown = match back {
                NoteValue::Bool(value) => value.to_string(),
                NoteValue::Number(value) => value.to_string(),
                NoteValue::Text(text) => text,
            };
            prop_assert_eq!(shown, given);
        }
    }
}
