//! How an agent of a team says that its part is over: one typed line, of which the last one counts. Users' own agents have
//! words of their own for it, alone on a line: `REJECT`, `### Verdict: ❌ REJECTED`, `**❌ FAIL**`. Words inside a sentence are
//! no report, so "cannot approve, REJECT" and "0 FAIL" say nothing.

use serde::{Deserialize, Serialize};

use crate::claims::prose;

#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentReport {
    /// The reviewer approves.
    Approve,
    /// The reviewer sends it back to the developer.
    Reject,
    Pass,
    Fail,
    /// The developer is done with the change.
    Done,
    /// The debugger found the cause.
    Diagnosis,
}

impl AgentReport {
    pub const ALL: [Self; 6] =
        [Self::Approve, Self::Reject, Self::Pass, Self::Fail, Self::Done, Self::Diagnosis];

    /// The line as an agent writes it.
    pub fn line(self) -> &'static str {
        match self {
            Self::Approve => "REVIEW: APPROVE",
            Self::Reject => "REVIEW: REJECT",
            Self::Pass => "TESTS: PASS",
            Self::Fail => "TESTS: FAIL",
            Self::Done => "CODE: DONE",
            Self::Diagnosis => "DIAGNOSIS: DONE",
        }
    }
}

impl AgentReport {
    /// Whether the agent sends the task back instead of calling its part done: it has nothing to fix itself.
    pub fn hands_back(self) -> bool {
        matches!(self, Self::Reject | Self::Fail | Self::Diagnosis)
    }

    /// A reviewer's FAIL is a REJECT and a tester's REJECT a FAIL: who says it decides whose turn is next.
    fn said_by(self, agent: &str) -> Self {
        let agent = agent.to_ascii_lowercase();
        match self {
            Self::Fail if agent.contains("review") => Self::Reject,
            Self::Reject if agent.contains("test") => Self::Fail,
            Self::Pass if agent.contains("review") => Self::Approve,
            Self::Approve if agent.contains("test") => Self::Pass,
            other => other,
        }
    }
}

/// The last report that a message of the agent with that name makes.
pub fn read(agent: &str, message: &str) -> Option<AgentReport> {
    let own_words = |line: &str| verdict_word(line).map(|word| word.said_by(agent));
    prose::own_words(message).filter_map(|line| report(line).or_else(|| own_words(line))).last()
}

/// What may stand before the word, with a colon.
const LABELS: [&str; 9] =
    ["verdict", "decision", "result", "status", "conclusion", "結論", "結果", "结论", "结果"];

/// The words themselves, in capitals.
const WORDS: [(&str, AgentReport); 8] = [
    ("REJECTED", AgentReport::Reject),
    ("REJECT", AgentReport::Reject),
    ("FAILED", AgentReport::Fail),
    ("FAIL", AgentReport::Fail),
    ("APPROVED", AgentReport::Approve),
    ("APPROVE", AgentReport::Approve),
    ("PASSED", AgentReport::Pass),
    ("PASS", AgentReport::Pass),
];

/// A verdict alone on its line: a heading, a label, a sign and a remark may stand around it.
fn verdict_word(line: &str) -> Option<AgentReport> {
    let plain = line.trim().trim_start_matches('#').replace("**", "").replace("__", "");
    let plain = prose::without_emphasis(plain.trim());
    let said = without_label(plain).trim_start_matches(is_sign);
    let length = said.bytes().take_while(u8::is_ascii_uppercase).count();
    let (word, after) = said.split_at(length);
    let is_remark = [" - ", " — ", " – ", ": ", "：", " ("].iter().any(|sign| after.starts_with(sign));
    let is_alone = after.trim_matches(|c| is_sign(c) || matches!(c, '.' | '!')).is_empty();
    let known = WORDS.into_iter().find(|(known, _)| *known == word);
    known.filter(|_| is_alone || is_remark).map(|(_, report)| report)
}

fn without_label(line: &str) -> &str {
    let Some((label, rest)) = line.split_once([':', '：']) else { return line };
    let label = label.trim_matches(|c: char| is_sign(c) || c == '#').to_lowercase();
    if LABELS.contains(&label.as_str()) { rest } else { line }
}

fn is_sign(c: char) -> bool {
    c.is_whitespace() || matches!(c, '❌' | '✅' | '✗' | '✘' | '✔' | '✓' | '⛔' | '🔴' | '🟢' | '\u{fe0f}')
}

/// A report on its own line; a dash between spaces begins a remark.
fn report(line: &str) -> Option<AgentReport> {
    let line = prose::without_emphasis(line.trim());
    let said = [" - ", " — "].iter().fold(line, |said, dash| said.split(dash).next().unwrap_or(said));
    let said = prose::without_emphasis(said.trim());
    AgentReport::ALL.into_iter().find(|report| said.split_whitespace().eq(report.line().split_whitespace()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_last_typed_line_counts() {
        let table = [
            ("REVIEW: APPROVE", Some(AgentReport::Approve)),
            ("REVIEW: REJECT", Some(AgentReport::Reject)),
            ("TESTS: PASS", Some(AgentReport::Pass)),
            ("TESTS: FAIL", Some(AgentReport::Fail)),
            ("CODE: DONE", Some(AgentReport::Done)),
            ("DIAGNOSIS: DONE", Some(AgentReport::Diagnosis)),
            ("I read it all.\r\n\r\n  REVIEW:  APPROVE  \r\n", Some(AgentReport::Approve)),
            ("**REVIEW: REJECT**", Some(AgentReport::Reject)),
            ("_TESTS: PASS_", Some(AgentReport::Pass)),
            ("TESTS: FAIL - 2 of 7", Some(AgentReport::Fail)),
            ("TESTS: FAIL — 2 of 7 - see above", Some(AgentReport::Fail)),
            ("TESTS: FAIL - PASS — REVIEW: APPROVE", Some(AgentReport::Fail)),
            ("**REVIEW: REJECT** - the lock is never freed", Some(AgentReport::Reject)),
            ("**REVIEW: REJECT - the lock is never freed**", Some(AgentReport::Reject)),
            ("REVIEW: APPROVE\n\nNo, wait.\n\nREVIEW: REJECT", Some(AgentReport::Reject)),
            ("REVIEW: REJECT\n```\nREVIEW: APPROVE\n```\n> REVIEW: APPROVE", Some(AgentReport::Reject)),
            ("TESTS: PASS\nThat is all that I found.", Some(AgentReport::Pass)),
            ("I cannot approve, REJECT", None),
            ("cannot approve, REVIEW: REJECT", None),
            ("REVIEW: APPROVE if the tests pass", None),
            ("REVIEW: APPROVE or REVIEW: REJECT", None),
            ("REVIEW: APPROVED", None),
            ("REVIEW: PASS", None),
            ("review: approve", None),
            ("REJECT", Some(AgentReport::Reject)),
            ("FAIL", Some(AgentReport::Fail)),
            ("**FAIL**", Some(AgentReport::Fail)),
            ("**❌ FAIL**", Some(AgentReport::Fail)),
            ("❌ **FAIL** - 2 of 7", Some(AgentReport::Fail)),
            ("### Verdict: ❌ REJECTED", Some(AgentReport::Reject)),
            ("### ❌ Verdict: REJECTED (no tests)", Some(AgentReport::Reject)),
            ("**Verdict:** ❌ REJECTED: the lock is never freed", Some(AgentReport::Reject)),
            ("Result: FAILED.", Some(AgentReport::Fail)),
            ("結果：✅ PASS", Some(AgentReport::Pass)),
            ("APPROVED", Some(AgentReport::Approve)),
            ("## Verdict: ✅ APPROVED", Some(AgentReport::Approve)),
            ("### Verdict: ❌ REJECTED\n\nFixed since.\n\nREVIEW: APPROVE", Some(AgentReport::Approve)),
            ("```\nFAIL\n```", None),
            ("> REJECT", None),
            ("FAIL src/login.test.ts", None),
            ("FAILURE", None),
            ("fail", None),
            ("Verdict: I would REJECT", None),
            ("PASS/FAIL", None),
            ("REJECT or APPROVE", None),
            ("12 passed, 0 FAIL", None),
            ("測試失敗", None),
            ("TESTS: 失敗", None),
            ("TESTS: FAIL-safe", None),
            ("- TESTS: PASS", None),
            ("`TESTS: PASS`", None),
            ("    TESTS: PASS", None),
            ("~~~\nTESTS: PASS", None),
            ("<!--\nTESTS: PASS\n-->", None),
            ("", None),
        ];
        for (message, said) in table {
            assert_eq!(read("general-purpose", message), said, "{message:?}");
        }
    }

    #[test]
    fn the_same_word_is_another_report_of_another_role() {
        for (agent, message, said) in [
            ("code-reviewer", "FAIL", AgentReport::Reject),
            ("reviewer", "❌ REJECTED", AgentReport::Reject),
            ("tester", "REJECT", AgentReport::Fail),
            ("ralph-tester", "**❌ FAIL**", AgentReport::Fail),
            ("tester", "APPROVED", AgentReport::Pass),
            ("reviewer", "✅ PASS", AgentReport::Approve),
            // A typed line says itself whose it is.
            ("tester", "REVIEW: REJECT", AgentReport::Reject),
        ] {
            assert_eq!(read(agent, message), Some(said), "{agent}: {message}");
        }
    }

    proptest! {
        #[test]
        fn a_report_inside_a_sentence_is_ignored(
            before in "[a-z][a-z ,]{0,20}", after in "[ ,a-z]{0,20}[a-z]", which in 0..AgentReport::ALL.len(),
        ) {
            let line = AgentReport::ALL[which].line();
            prop_assert_eq!(read("x", &format!("{before} {line} {after}")), None);
            prop_assert_eq!(read("x", &format!("{before} {line}")), None);
            prop_assert_eq!(read("x", &format!("{line} {after}")), None);
        }

        #[test]
        fn no_text_makes_it_panic(text in "([-*_`> \n]|REVIEW:|APPROVE|.){0,60}") {
            let _said = read("x", &text);
        }
    }
}
