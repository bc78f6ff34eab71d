//! The table of `ralph prove`: for the terminal, as Markdown for a pull request comment, as JUnit XML.

use crate::model::proof::{Proof, ProofKind, ProofRow, ProofVerdict};
use crate::say::junit;

/// Rows that are shown for one kind; of more, the number.
const MOST_ROWS: usize = 50;

/// The order of the table, and how each kind is worded: its name, without the change, with it.
const KINDS: [(ProofKind, &str, &str, &str); 7] = [
    (ProofKind::Fixed, "fixed", "fails", "passes"),
    (ProofKind::Broken, "broken", "passes", "fails"),
    (ProofKind::Gone, "gone", "existed", "removed, skipped or not run"),
    (ProofKind::ProvesNothing, "proves nothing", "is new and passes", "passes"),
    (ProofKind::Failing, "failing", "fails or is new", "fails"),
    (ProofKind::NotJudged, "not judged", "not known", "passes"),
    (ProofKind::Unaffected, "unaffected", "passes", "passes"),
];

/// `✓ PROVEN`, and why, in one line.
pub fn headline(proof: &Proof) -> String {
    let tests = |kind| {
        let count = proof.count(kind);
        format!("{count} {}", if count == 1 { "test" } else { "tests" })
    };
    match proof.verdict() {
        ProofVerdict::Proven => {
            let verb = if proof.count(ProofKind::Fixed) == 1 { "fails" } else { "fail" };
            format!("PROVEN  {} {verb} without the change", tests(ProofKind::Fixed))
        }
        ProofVerdict::NotProven => "NOT PROVEN  no test fails without the change".to_owned(),
        ProofVerdict::BrokenOrGone => {
            let (broken, gone) = (proof.count(ProofKind::Broken), proof.count(ProofKind::Gone));
            let mut parts = Vec::new();
            if broken > 0 {
                parts.push(format!("{} broken", tests(ProofKind::Broken)));
            }
            if gone > 0 {
                parts.push(format!("{} gone", tests(ProofKind::Gone)));
            }
            format!("BROKEN  {}", parts.join(", "))
        }
    }
}

/// The rows of each kind that occurs.
fn groups(proof: &Proof) -> impl Iterator<Item = (&'static str, [&'static str; 2], Vec<&ProofRow>)> {
    KINDS.iter().filter_map(|(kind, word, without, with)| {
        let rows: Vec<&ProofRow> = proof.rows.iter().filter(|row| row.kind == *kind).collect();
        (!rows.is_empty()).then_some((*word, [*without, *with], rows))
    })
}

fn name(row: &ProofRow) -> String {
    match (&row.test, &row.file) {
        (Some(test), Some(file)) if !test.contains(file.as_str()) => format!("{test}  ({file})"),
        (Some(test), _) => test.clone(),
        (None, _) => format!("gate `{}`", row.gate),
    }
}

fn notes(row: &ProofRow) -> String {
    let new = (row.is_new && row.kind == ProofKind::Fixed).then_some("new");
    let note = (!row.note.is_empty()).then_some(row.note.as_str());
    [new, note].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// One line per test: kind, name, note. Unaffected tests are counted.
pub fn lines(proof: &Proof) -> Vec<String> {
    let width = KINDS.iter().map(|(_, word, _, _)| word.len()).max().unwrap_or_default();
    let mut lines = Vec::new();
    for (word, _, rows) in groups(proof) {
        if rows[0].kind == ProofKind::Unaffected {
            lines.push(format!("{word:width$}  {}", counted(&rows)));
            continue;
        }
        for row in rows.iter().take(MOST_ROWS) {
            let notes = notes(row);
            let notes = if notes.is_empty() { notes } else { format!("  [{notes}]") };
            lines.push(format!("{word:width$}  {}{notes}", name(row)));
        }
        if rows.len() > MOST_ROWS {
            lines.push(format!("{word:width$}  and {} more", rows.len() - MOST_ROWS));
        }
    }
    lines
}

fn counted(rows: &[&ProofRow]) -> String {
    let gates = rows.iter().filter(|row| row.test.is_none()).count();
    let word = |count: usize, one: &str| {
        if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
    };
    match (rows.len() - gates, gates) {
        (0, gates) => word(gates, "gate"),
        (tests, 0) => word(tests, "test"),
        (tests, gates) => format!("{}, {}", word(tests, "test"), word(gates, "gate")),
    }
}

/// For a comment on a pull request.
pub fn markdown(proof: &Proof, base: &str) -> String {
    let mark = if proof.verdict() == ProofVerdict::Proven { "✅" } else { "❌" };
    let (word, why) = headline(proof)
        .split_once("  ")
        .map_or((headline(proof), String::new()), |(word, why)| (word.to_owned(), why.to_owned()));
    let mut text = format!("### {mark} {word}: {why}\n\n");
    text.push_str(&format!(
        "Compared with {base}.\n\n| | without the change | with it | tests |\n| --- | --- | --- | ---: |\n"
    ));
    for (word, [without, with], rows) in groups(proof) {
        text.push_str(&format!("| {word} | {without} | {with} | {} |\n", rows.len()));
    }
    for (word, _, rows) in groups(proof).filter(|(_, _, rows)| rows[0].kind != ProofKind::Unaffected) {
        text.push_str(&format!("\n**{word}**\n\n"));
        for row in rows.iter().take(MOST_ROWS) {
            let notes = notes(row);
            let notes = if notes.is_empty() { notes } else { format!(" ({notes})") };
            text.push_str(&format!("- {}{notes}\n", code(&name(row))));
        }
        if rows.len() > MOST_ROWS {
            text.push_str(&format!("- and {} more\n", rows.len() - MOST_ROWS));
        }
    }
    if !proof.notes.is_empty() {
        text.push('\n');
        for note in &proof.notes {
            text.push_str(&format!("> {}\n", note.replace('\n', " ")));
        }
    }
    text
}

/// A name in backticks, with a fence that it does not contain: test names are written by the author of the change.
fn code(name: &str) -> String {
    let name = name.replace('\n', " ");
    let longest = name.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest + 1);
    let pad = if longest > 0 { " " } else { "" };
    format!("{fence}{pad}{name}{pad}{fence}")
}

/// One case per test: broken and gone ones fail, new ones that prove nothing fail if nothing proves the change.
pub fn junit(proof: &Proof) -> String {
    let proven = proof.verdict() == ProofVerdict::Proven;
    let fails = |row: &&ProofRow| match row.kind {
        ProofKind::Broken | ProofKind::Gone | ProofKind::Failing => true,
        ProofKind::ProvesNothing => !proven,
        ProofKind::Fixed | ProofKind::NotJudged | ProofKind::Unaffected => false,
    };
    let skipped = proof.count(ProofKind::NotJudged);
    let (tests, failures) =
        (proof.rows.len() + 1, proof.rows.iter().filter(fails).count() + usize::from(!proven));
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"ralph prove\" tests=\"{tests}\" \
         failures=\"{failures}\" errors=\"0\">\n  <testsuite name=\"ralph prove\" tests=\"{tests}\" failures=\"{failures}\" \
         errors=\"0\" skipped=\"{skipped}\">\n"
    );
    let headline = junit::attribute(&headline(proof));
    xml.push_str("    <testcase classname=\"ralph prove\" name=\"the change is proven\"");
    if proven {
        xml.push_str("/>\n");
    } else {
        xml.push_str(&format!(
            ">\n      <failure type=\"not proven\" message=\"{headline}\"/>\n    </testcase>\n"
        ));
    }
    for row in &proof.rows {
        let class = junit::attribute(row.file.as_deref().unwrap_or(row.gate.as_str()));
        let case = junit::attribute(row.test.as_deref().unwrap_or(row.gate.as_str()));
        xml.push_str(&format!("    <testcase classname=\"{class}\" name=\"{case}\""));
        let (word, note) = (word_of(row.kind), junit::attribute(&row.note));
        if fails(&row) {
            xml.push_str(&format!(
                ">\n      <failure type=\"{word}\" message=\"{note}\"/>\n    </testcase>\n"
            ));
        } else if row.kind == ProofKind::NotJudged {
            xml.push_str(&format!(">\n      <skipped message=\"{note}\"/>\n    </testcase>\n"));
        } else {
            xml.push_str("/>\n");
        }
    }
    xml.push_str("  </testsuite>\n</testsuites>\n");
    xml
}

/// The kind in words, as in the table.
pub fn word_of(kind: ProofKind) -> &'static str {
    KINDS.iter().find(|(other, ..)| *other == kind).map_or("", |(_, word, _, _)| word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::id::GateName;

    fn sample() -> Proof {
        let row = |kind, test: &str, is_new, note: &str| ProofRow {
            kind,
            gate: GateName::new("npm test"),
            test: (!test.is_empty()).then(|| test.to_owned()),
            file: (!test.is_empty()).then(|| "src/login.test.ts".to_owned()),
            is_new,
            note: note.to_owned(),
        };
        Proof {
            rows: vec![
                row(ProofKind::Broken, "logs out", false, ""),
                row(ProofKind::Gone, "keeps `the` session", false, "skipped"),
                row(ProofKind::Fixed, "logs in", true, "does not run without the change"),
                row(ProofKind::Fixed, "refuses", false, ""),
                row(ProofKind::ProvesNothing, "is <here>", true, ""),
                row(ProofKind::Unaffected, "adds", false, ""),
                row(ProofKind::Unaffected, "", false, ""),
            ],
            notes: vec!["`npm test` names only failing tests".to_owned()],
        }
    }

    #[test]
    fn the_table_is_for_people_pull_requests_and_ci() {
        let proof = sample();
        insta::assert_snapshot!(
            "proof_lines",
            format!("{}\n\n{}\n", headline(&proof), lines(&proof).join("\n"))
        );
        insta::assert_snapshot!(
            "proof_markdown",
            markdown(&proof, "`1234567` (merge base with origin/main)")
        );
        insta::assert_snapshot!("proof_junit", junit(&proof));
    }

    #[test]
    fn the_headline_says_what_was_shown() {
        let of = |kinds: &[ProofKind]| {
            let rows = sample().rows.into_iter().filter(|row| kinds.contains(&row.kind)).collect();
            headline(&Proof { rows, notes: Vec::new() })
        };
        assert_eq!(of(&[ProofKind::Fixed]), "PROVEN  2 tests fail without the change");
        assert_eq!(of(&[ProofKind::ProvesNothing]), "NOT PROVEN  no test fails without the change");
        assert_eq!(of(&[ProofKind::Gone, ProofKind::Fixed]), "BROKEN  1 test gone");
    }
}
