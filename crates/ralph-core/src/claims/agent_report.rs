//! How an agent of a team says that its part is over: one typed line, of which the last one counts. Words inside a
//! sentence are no report, so "cannot approve, REJECT" and "0 FAIL" say nothing.

use serde::{Deserialize, Serialize};

use crate::claims::prose;

#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentReport {
    /// The reviewer has nothing against it.
    Approve,
    /// The reviewer sends it back to the developer.
    Reject,
    Pass,
    Fail,
    /// The developer changed what was asked for.
    Done,
    /// The debugger knows why it fails.
    Diagnosis,
}

impl AgentReport {
    pub const ALL: [Self; 6] =
        [Self::Approve, Self::Reject, Self::Pass, Self::Fail, Self::Done, Self::Diagnosis];

    /// The line that an agent ends with.
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

/// The last report that a message makes.
pub fn read(message: &str) -> Option<AgentReport> {
    prose::own_words(message).filter_map(report).last()
}

/// A report alone on its line; a dash between spaces begins a remark.
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
            ("APPROVE", None),
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
            assert_eq!(read(message), said, "{message:?}");
        }
    }

    proptest! {
        #[test]
        fn a_report_inside_a_sentence_says_nothing(
            before in "[a-z][a-z ,]{0,20}", after in "[ ,a-z]{0,20}[a-z]", which in 0..AgentReport::ALL.len(),
        ) {
            let line = AgentReport::ALL[which].line();
            prop_assert_eq!(read(&format!("{before} {line} {after}")), None);
            prop_assert_eq!(read(&format!("{before} {line}")), None);
            prop_assert_eq!(read(&format!("{line} {after}")), None);
        }

        #[test]
        fn no_text_makes_it_panic(text in "([-*_`> \n]|REVIEW:|APPROVE|.){0,60}") {
            let _said = read(&text);
        }
    }
}
