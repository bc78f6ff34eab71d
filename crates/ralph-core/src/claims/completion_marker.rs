//! Completion markers that an agent must state in a repo without gates. A marker is a claim, never a verdict.

use serde::Deserialize;

use crate::claims::prose;

/// One marker that replaces all of them.
pub const ALL_CHECKS: &str = "ALL_CHECKS_FINISH";

/// The markers required by a task's `check.jsonl`: each line's `reason` in upper case, spaces as underscores, plus
/// `_FINISH`; without duplicates; unreadable lines are skipped.
pub fn expected(check_jsonl: &str) -> Vec<String> {
    #[derive(Deserialize)]
    struct Line {
        reason: Option<String>,
    }
    let mut markers: Vec<String> = Vec::new();
    for line in check_jsonl.lines() {
        let Ok(Line { reason: Some(reason) }) = serde_json::from_str(line) else { continue };
        let name = reason.split_whitespace().collect::<Vec<_>>().join("_").to_uppercase();
        let marker = format!("{name}_FINISH");
        if !name.is_empty() && !markers.contains(&marker) {
            markers.push(marker);
        }
    }
    markers
}

/// The markers missing in a message.
pub fn missing(expected: &[String], message: &str) -> Vec<String> {
    let stated: Vec<&str> = statements(message).collect();
    if stated.contains(&ALL_CHECKS) {
        return Vec::new();
    }
    expected.iter().filter(|marker| !stated.contains(&marker.as_str())).cloned().collect()
}

/// The text of lines and list items outside code and quotes, without emphasis.
fn statements(message: &str) -> impl Iterator<Item = &str> {
    prose::own_words(message).map(bare)
}

fn bare(line: &str) -> &str {
    let line = line.trim();
    let item = prose::list_item(line).unwrap_or(line);
    let item = ["[x] ", "[X] "].iter().find_map(|ticked| item.strip_prefix(ticked)).unwrap_or(item).trim();
    item.trim_start_matches("**").trim_end_matches("**").trim_matches('`')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn markers_come_from_the_reasons_once_each() {
        let text = "{\"file\":\"a\",\"reason\":\"typecheck\"}\nnot json\n{\"file\":\"b\"}\n\
                    {\"reason\":\"Backend guidelines\"}\n{\"reason\":\"typecheck\"}\n{\"reason\":\"  \"}\n[1]\n{\"reason\":7}\n";
        assert_eq!(expected(text), ["TYPECHECK_FINISH", "BACKEND_GUIDELINES_FINISH"]);
    }

    #[test]
    fn a_marker_counts_only_on_its_own_line() {
        let table = [
            ("LINT_FINISH", true),
            ("All ran.\n\nLINT_FINISH\n", true),
            ("- LINT_FINISH", true),
            ("* **LINT_FINISH**", true),
            ("1. `LINT_FINISH`", true),
            ("- [x] LINT_FINISH", true),
            ("ALL_CHECKS_FINISH", true),
            ("I did NOT run it so I will not output LINT_FINISH", false),
            ("LINT_FINISH will follow", false),
            ("```\nLINT_FINISH\n```", false),
            ("~~~\nLINT_FINISH\n~~~", false),
            ("```\n~~~\nLINT_FINISH\n```", false),
            ("    LINT_FINISH", false),
            ("> LINT_FINISH", false),
            ("- [ ] LINT_FINISH", false),
            ("LINT_FINISHED", false),
            ("lint_finish", false),
            ("", false),
        ];
        for (message, states) in table {
            assert_eq!(missing(&["LINT_FINISH".into()], message).is_empty(), states, "{message:?}");
        }
    }

    #[test]
    fn every_marker_must_be_stated() {
        let expected = ["A_FINISH".to_owned(), "B_FINISH".to_owned()];
        assert_eq!(missing(&expected, "A_FINISH"), ["B_FINISH"]);
        assert!(missing(&expected, "A_FINISH\nB_FINISH").is_empty());
    }

    proptest! {
        #[test]
        fn a_marker_inside_a_sentence_never_counts(before in "[a-z][a-z ,]{0,20}", after in "[ ,a-z]{0,20}[a-z]") {
            let message = format!("{before} LINT_FINISH {after}");
            prop_assert!(!missing(&["LINT_FINISH".into()], &message).is_empty());
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,200}") {
            let _markers = expected(&text);
            let _missing = missing(&["A_FINISH".into()], &text);
        }
    }
}
