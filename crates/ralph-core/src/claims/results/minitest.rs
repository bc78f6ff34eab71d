//! Minitest, also as Rails prints it: from `# Running:` to `3 runs, 2 assertions, 1 failures, 0 errors, 1 skips`.

use super::place::{self, SourcePlace, is_dependency};
use super::sections::Section;
use super::text::{is_blank, leading_number};
use super::{ResultFormat, TestCounts, TestOutcome, TestResult, detail};

pub(super) fn next_section(lines: &[&str], from: usize) -> Option<Section> {
    let summary = (from..lines.len()).find(|&at| counts(lines[at]).is_some())?;
    let is_start = |at: &usize| lines[*at] == "# Running:" || lines[*at].starts_with("Run options: ");
    let start =
        (from..summary).find(is_start).or_else(|| (from..summary).find(|&at| header(lines[at]).is_some()));
    let start = start.unwrap_or(summary);
    let mut section = Section::new(ResultFormat::Minitest, start..summary + 1);
    section.counts = counts(lines[summary])?;
    let body = &lines[start..summary];
    section.tests = failed_tests(body);
    section.tests.extend(body.iter().filter_map(|line| listed_test(line)));
    Some(section)
}

fn counts(line: &str) -> Option<TestCounts> {
    let mut parts = line.split(", ").map(leading_number);
    let mut next = |word: &str| {
        parts.next()?.filter(|(_, rest)| rest.trim_start().starts_with(word)).map(|(count, _)| count)
    };
    let total = next("run").or_else(|| {
        leading_number(line).filter(|(_, rest)| rest.starts_with(" tests,")).map(|(count, _)| count)
    })?;
    next("assertion")?;
    let failed = next("failure")? + next("error")?;
    let skipped = next("skip").unwrap_or(0);
    Some(TestCounts { passed: total.saturating_sub(failed + skipped), failed, skipped })
}

/// `  1) Failure:`, or in Rails `Failure:` alone.
fn header(line: &str) -> Option<&str> {
    let text = line.trim_start();
    let word = match leading_number(text) {
        Some((_, rest)) => rest.strip_prefix(") ")?,
        None => text,
    };
    ["Failure:", "Error:", "Skipped:"].into_iter().find(|known| *known == word)
}

fn failed_tests(lines: &[&str]) -> Vec<TestResult> {
    let headers: Vec<(usize, &str)> =
        (0..lines.len()).filter_map(|at| Some((at, header(lines[at])?))).collect();
    let ends = headers.iter().skip(1).map(|(at, _)| *at).chain([lines.len()]);
    let blocks = headers.iter().zip(ends).filter(|((_, word), _)| *word != "Skipped:");
    blocks.filter_map(|((at, _), end)| failed_test(&lines[at + 1..end])).collect()
}

fn failed_test(lines: &[&str]) -> Option<TestResult> {
    let title = lines.first()?.trim_end().strip_suffix(':')?;
    // Rails ends each with the command that runs it again; then its progress goes on.
    let is_end = |line: &&str| {
        line.starts_with("bin/rails test ")
            || line.starts_with("rails test ")
            || line.starts_with("Finished in ")
    };
    let end = lines.iter().position(is_end).unwrap_or(lines.len());
    let shown = &lines[1..end.max(1)];
    let (name, place) = match title.strip_suffix(']').and_then(|title| title.rsplit_once(" [")) {
        Some((name, place)) => (name, place::leading(place).map(|(place, _)| place)),
        None => (title, own_frame(shown)),
    };
    let mut test = TestResult::failed(name).at(place);
    let mut said = shown.iter().copied().filter(|line| !is_blank(line));
    let first = said.next().unwrap_or_default();
    let second = said.next().filter(|line| {
        first.starts_with("Expected:") || line.starts_with("Expected") || line.starts_with("+++")
    });
    let third = said
        .next()
        .filter(|line| line.trim_start().starts_with("Actual:") && !first.starts_with("Expected:"));
    // A difference of texts has no line that sums it up.
    let differs =
        |line: &&str| line.starts_with(['-', '+']) && !line.starts_with("---") && !line.starts_with("+++");
    let changes =
        shown.iter().copied().filter(differs).take(if first.starts_with("--- expected") { 2 } else { 0 });
    test.message = detail::message([first].into_iter().chain(second).chain(third).chain(changes));
    test.detail = detail::of(shown);
    Some(test)
}

fn own_frame(shown: &[&str]) -> Option<SourcePlace> {
    let frames = shown
        .iter()
        .filter(|line| line.contains(":in "))
        .filter_map(|line| place::leading(line.trim_start()));
    frames.map(|(place, _)| place).find(|place| !is_dependency(&place.file))
}

/// With `-v` each test has a line, `TotalTest#test_none = 0.00 s = .`.
fn listed_test(line: &str) -> Option<TestResult> {
    let (rest, mark) = line.rsplit_once(" s = ")?;
    let (name, _) = rest.rsplit_once(" = ")?;
    let outcome = match mark {
        "." => TestOutcome::Passed,
        "S" => TestOutcome::Skipped,
        _ => return None,
    };
    name.contains('#').then(|| TestResult::new(name, outcome))
}
