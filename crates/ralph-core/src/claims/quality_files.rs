//! Claims about the quality of the code, in files: the agent's audit, its evidence, and another tool's gate file.
//!
//! The agent that wrote the code can write all of them. A claim can block a loop; it never verifies one.

/// What is wrong with an audit report; none if it states PASS and no finding of the levels that must be fixed.
///
/// ```text
/// Decision: PASS             | Level | Count |
/// Summary:                   | L1    | 0     |
///   L1: 0                    | L2    | 0     |
///   L2: 0
/// ```
pub fn audit_problem(text: &str) -> Option<String> {
    let lines: Vec<String> = text.lines().map(plain).collect();
    let decisions: Vec<&str> =
        lines.iter().filter_map(|line| value_of(line, "decision")).filter(|word| !word.is_empty()).collect();
    match decisions.as_slice() {
        [] => return Some("it has no line `Decision: PASS`".into()),
        [decision] if decision.eq_ignore_ascii_case("pass") => {}
        [decision] => return Some(format!("its decision is {}", shown(decision))),
        several => return Some(format!("it states {} decisions", several.len())),
    }
    for level in ["L1", "L2"] {
        let counts = lines.iter().filter_map(|line| count_of(line, level));
        if let Some(count) = counts.max().filter(|count| *count > 0) {
            return Some(format!("it counts {count} {level} findings"));
        }
    }
    None
}

/// A line without the marks of a list, emphasis and headings.
fn plain(line: &str) -> String {
    let text: String = line.chars().filter(|c| !matches!(c, '*' | '`' | '_')).collect();
    text.trim().trim_start_matches(['#', '-', '>', ' ']).trim().to_owned()
}

/// The value of `name: value` or of a table row `| name | value |`.
fn value_of<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let is_name = |text: &str| text.trim().eq_ignore_ascii_case(name);
    if let Some(row) = line.strip_prefix('|') {
        let mut cells = row.split('|');
        let first = cells.next()?;
        return is_name(first).then(|| cells.next().unwrap_or_default().trim());
    }
    let (before, after) = line.split_once([':', '：'])?;
    is_name(before).then(|| after.trim())
}

fn count_of(line: &str, level: &str) -> Option<u64> {
    let row = line.strip_prefix('|').map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    let value = match row {
        Some(cells) if cells.first().is_some_and(|first| is_level(first, level)) => {
            return cells[1..].iter().filter_map(|cell| cell.parse().ok()).max();
        }
        Some(_) => return None,
        None => {
            let (before, after) = line.split_once([':', '：'])?;
            is_level(before.trim(), level).then_some(after)?
        }
    };
    let digits: String = value.trim().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// `L1`, `L1 (blocking)`, `L1 issues`; not `L10`.
fn is_level(text: &str, level: &str) -> bool {
    let text = text.to_ascii_uppercase();
    text.strip_prefix(level).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
}

/// What is wrong with an evidence file: it needs one list item, table row or code block.
pub fn evidence_problem(text: &str) -> Option<String> {
    let mut in_code = false;
    let mut table_rows = 0;
    for line in text.lines().map(str::trim) {
        if line.starts_with("```") || line.starts_with("~~~") {
            in_code = !in_code;
            continue;
        }
        if in_code && !line.is_empty() {
            return None;
        }
        let item = line.strip_prefix(['-', '*', '+']).or_else(|| {
            let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
            (rest.len() < line.len()).then(|| rest.strip_prefix(['.', ')']))?
        });
        if item.is_some_and(|rest| rest.starts_with(' ') && has_words(rest)) {
            return None;
        }
        if line.starts_with('|') && has_words(line) {
            table_rows += 1;
        }
    }
    // The first row of a table is its heading.
    (table_rows < 2).then(|| "it has no item (a list item, table row or code block)".to_owned())
}

fn has_words(text: &str) -> bool {
    text.chars().any(char::is_alphanumeric)
}

/// What is wrong with another tool's gate file: a check in it did not pass, or it states none.
pub fn gate_file_problem(text: &str) -> Option<String> {
    const GOOD: [&str; 8] = ["pass", "passed", "ok", "success", "succeeded", "true", "✅", "green"];
    const BAD: [&str; 9] = ["fail", "failed", "failure", "error", "false", "❌", "red", "skipped", "skip"];
    let mut passed = 0;
    for line in text.lines().map(plain) {
        let line = line.trim_matches(['{', '}', ',', ' ']).replace('"', "");
        let Some((name, value)) = line.split_once([':', '=']) else {
            let words: Vec<String> = line.split_whitespace().map(str::to_ascii_lowercase).collect();
            if words.iter().any(|word| BAD.contains(&word.trim_matches(['.', '!', ',']))) {
                return Some(format!("it says: {}", shown(&line)));
            }
            continue;
        };
        let value = value.trim().to_ascii_lowercase();
        let first = value.split(|c: char| c.is_whitespace() || c == ',').next().unwrap_or_default();
        if BAD.contains(&first) {
            return Some(format!("it says `{}: {}`", shown(name), shown(&value)));
        }
        passed += usize::from(GOOD.contains(&first));
    }
    (passed == 0).then(|| "it names no check that passed".to_owned())
}

fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_audit_passes_with_one_decision_and_no_serious_finding() {
        let good = [
            "Decision: PASS",
            "# Audit\n\n**Decision**: PASS\n",
            "**Decision: PASS**",
            "- Decision: pass",
            "Decision: PASS\nSummary:\n  L1: 0\n  L2: 0\n  L3: 4\n",
            "Decision: PASS\n| Level | Count |\n| --- | --- |\n| L1 | 0 |\n| L2 | 0 |\n| L3 | 9 |\n",
            "| Decision | PASS |",
            "Decision：PASS",
            "Decision: PASS\nL10: 3",
            "Decision: PASS\nL1 findings: 0",
        ];
        for text in good {
            assert_eq!(audit_problem(text), None, "{text}");
        }
        let bad = [
            ("", "no line"),
            ("looks good, PASS", "no line"),
            ("Decision: FAIL", "FAIL"),
            ("Decision: PASS or FAIL", "PASS or FAIL"),
            ("Decision: PASS (with remarks)", "with remarks"),
            ("Decision: PASS\n\nDecision: FAIL", "2 decisions"),
            ("Decision: PASS\nDecision: PASS", "2 decisions"),
            ("Decision:", "no line"),
            ("Decision: PASS\nSummary:\n  L1: 0\n  L2: 3\n", "3 L2"),
            ("Decision: PASS\n| L1 | 2 |\n| L2 | 0 |", "2 L1"),
            ("Decision: PASS\n**L1**: 1", "1 L1"),
            ("Decision: PASS\nL2 (functional): 2 open", "2 L2"),
            ("Decision: PASS\nL2: 0\nL2: 1", "1 L2"),
        ];
        for (text, why) in bad {
            let problem = audit_problem(text).unwrap_or_else(|| panic!("passes: {text}"));
            assert!(problem.contains(why), "{text}: {problem}");
        }
    }

    #[test]
    fn evidence_is_at_least_one_item() {
        for text in [
            "- ran `npm test`: 12 passed",
            "1. curl answered 200",
            "| what | result |\n| --- | --- |\n| login | ok |",
            "```\n$ npm test\nok\n```",
            "# Evidence\n\n* screenshot.png",
        ] {
            assert_eq!(evidence_problem(text), None, "{text}");
        }
        for text in [
            "",
            "# Evidence",
            "nothing yet",
            "```\n```",
            "-",
            "- ",
            "| what | result |\n| --- | --- |",
            "---",
        ] {
            assert!(evidence_problem(text).is_some(), "{text}");
        }
    }

    #[test]
    fn a_gate_file_states_what_passed() {
        for text in [
            "typecheck: PASS\ntest: PASS\nbuild: PASS\n",
            "{\"typecheck\": \"pass\", \n\"test\": true}",
            "# Quality gate\n- test: passed (12)\ncommit: abc\n",
        ] {
            assert_eq!(gate_file_problem(text), None, "{text}");
        }
        for text in [
            "",
            "2026-01-27",
            "typecheck: PASS\ntest: FAIL\n",
            "tests failed",
            "test: passed\nbuild: skipped",
            "test=error",
        ] {
            assert!(gate_file_problem(text).is_some(), "{text}");
        }
    }
}
