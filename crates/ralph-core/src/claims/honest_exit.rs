//! The agent's honest answers: `<blocked>why</blocked>` (the gate is wrong or the task impossible) and
//! `<no-test>why</no-test>` (no test can show this change), each alone on a line of its own words. Neither ever verifies
//! anything.

use serde::{Deserialize, Serialize};

use crate::claims::prose;
use crate::model::foreign_text;
use crate::model::secrets::Secrets;

/// The longest reason that is kept, in characters.
const LONGEST: usize = 500;

/// What the last message of an agent answers.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentAnswers {
    /// Why it cannot continue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<String>,
    /// Why no test shows the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_test: Option<String>,
}

impl AgentAnswers {
    pub fn of(message: &str) -> Self {
        Self { blocked: answer(message, "blocked"), no_test: answer(message, "no-test") }
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The reason in the last line that is this tag and nothing else.
fn answer(message: &str, tag: &str) -> Option<String> {
    let (opening, closing) = (format!("<{tag}>"), format!("</{tag}>"));
    let lines = prose::own_words(message).map(|line| prose::without_emphasis(line.trim()));
    let inner = lines.filter_map(|line| line.strip_prefix(&opening)?.strip_suffix(&closing));
    inner.filter_map(reason).last()
}

/// A reason in one line; none if it is empty or a placeholder.
pub fn reason(text: &str) -> Option<String> {
    let clean = foreign_text::clean_for_agent(text.as_bytes(), &Secrets::default());
    let line = clean.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_placeholder = matches!(line.as_str(), "why" | "..." | "…" | "WHY");
    let short = line.chars().take(LONGEST).collect::<String>();
    (!line.is_empty() && !is_placeholder).then_some(short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_line_of_its_own_words_answers() {
        let table = [
            ("<blocked>the gate needs a database</blocked>", Some("the gate needs a database")),
            ("I tried.\n\n**<blocked>no network</blocked>**\n", Some("no network")),
            ("<blocked>a</blocked>\n<blocked>b  c</blocked>", Some("b c")),
            ("say <blocked>x</blocked> if so", None),
            ("> <blocked>x</blocked>", None),
            ("```\n<blocked>x</blocked>\n```", None),
            ("`<blocked>x</blocked>`", None),
            ("<blocked></blocked>", None),
            ("<blocked>why</blocked>", None),
            ("<blocked>x", None),
            ("", None),
        ];
        for (message, blocked) in table {
            let expected = AgentAnswers { blocked: blocked.map(str::to_owned), no_test: None };
            assert_eq!(AgentAnswers::of(message), expected, "{message}");
        }
        let no_test = AgentAnswers::of("<no-test>only the colours changed</no-test>");
        assert_eq!(no_test.no_test.as_deref(), Some("only the colours changed"));
        assert_eq!(no_test.blocked, None);
    }

    #[test]
    fn a_long_reason_is_cut() {
        let long = format!("<blocked>{}</blocked>", "x".repeat(10_000));
        assert_eq!(AgentAnswers::of(&long).blocked.map(|why| why.len()), Some(LONGEST));
    }
}
