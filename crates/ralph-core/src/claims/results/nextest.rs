//! cargo nextest: from `Starting 3 tests across 1 binary` to the failing tests listed below `Summary`.

use super::sections::Section;
use super::text::{counted_words, leading_number};
use super::{ResultFormat, TestCounts, TestOutcome, TestResult, detail, rust_panic};
use std::collections::HashMap;

pub(super) fn next_section(lines: &[&str], from: usize) -> Option<Section> {
    let start = (from..lines.len()).find(|&at| is_start(lines[at]))?;
    // A test that runs nextest shows its output indented.
    let summary = (start..lines.len()).find(|&at| lines[at].starts_with("     Summary ["))?;
    // The failing tests follow, with `--failure-output final` each with its output; a line at the margin ends them.
    let is_margin = |line: &&str| line.starts_with(|c: char| !c.is_whitespace());
    let end = (summary + 1..lines.len()).find(|&at| is_margin(&lines[at])).unwrap_or(lines.len());
    let mut section = Section::new(ResultFormat::Nextest, start..end);
    section.counts = counts(lines[summary]);
    let blocks = blocks(&lines[start..end]);
    for status in lines[summary + 1..end].iter().filter_map(|line| status(line)) {
        if status.outcome() == Some(TestOutcome::Failed) {
            section.tests.push(failed_test(&status, &blocks));
        }
    }
    let others = lines[start..summary].iter().filter_map(|line| status(line)).filter_map(|status| {
        let outcome = status.outcome().filter(|outcome| *outcome != TestOutcome::Failed)?;
        Some(TestResult::new(status.name, outcome))
    });
    section.tests.extend(others);
    Some(section)
}

fn is_start(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("    Starting ") else { return false };
    leading_number(rest).is_some_and(|(_, rest)| rest.contains(" across "))
}

fn counts(line: &str) -> TestCounts {
    let (_, words) = line.split_once("run: ").unwrap_or_default();
    let mut counts = TestCounts::default();
    // Words in brackets say more about the passed ones: `3 passed (1 flaky)`.
    for (count, word) in counted_words(words) {
        match word {
            "passed" => counts.passed += count,
            "failed" | "timed" | "exec" => counts.failed += count,
            "skipped" => counts.skipped += count,
            _ => {}
        }
    }
    counts
}

struct Status<'a> {
    word: &'a str,
    binary: &'a str,
    name: &'a str,
}

/// `        FAIL [   0.176s] (2/3) shop tests::half_price`; the time is right-aligned, so there is always an indentation.
fn status(line: &str) -> Option<Status<'_>> {
    let (word, rest) = line.strip_prefix("  ")?.split_once(" [")?;
    let word = word.trim_start();
    let (time, rest) = rest.split_once("] ")?;
    let time = time.trim_start_matches(['>', ' ']);
    let is_time = time.bytes().all(|b| b.is_ascii_digit() || b".s".contains(&b));
    let is_word = !word.is_empty()
        && word.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b" /-".contains(&b));
    let rest = rest.trim_start();
    let rest = rest.strip_prefix('(').and_then(|rest| rest.split_once(") ")).map_or(rest, |(_, rest)| rest);
    let (binary, name) = rest.split_once(' ')?;
    (is_time && is_word).then_some(Status { word, binary, name: name.trim() })
}

impl Status<'_> {
    /// None for a try that is not the last.
    fn outcome(&self) -> Option<TestOutcome> {
        let word = match self.word.strip_prefix("TRY ") {
            Some(rest) => rest.split_once(' ')?.1,
            None => self.word,
        };
        match word {
            "PASS" | "LEAK" => Some(TestOutcome::Passed),
            "SKIP" => Some(TestOutcome::Skipped),
            "SLOW" | "RETRY" | "DELAY" | "TERMINATING" | "START" => None,
            _ if word.starts_with("FLAKY") => Some(TestOutcome::Passed),
            _ => Some(TestOutcome::Failed),
        }
    }
}

/// What each test printed; of several tries the last.
fn blocks<'a>(lines: &'a [&'a str]) -> HashMap<(&'a str, &'a str), &'a [&'a str]> {
    let mut blocks: HashMap<(&str, &str), &[&str]> = HashMap::new();
    let statuses: Vec<(usize, Status<'_>)> =
        (0..lines.len()).filter_map(|at| Some((at, status(lines[at])?))).collect();
    let ends = statuses.iter().skip(1).map(|(at, _)| *at).chain([lines.len()]);
    // With `--no-capture` a test's output stands between its start and its end, else below its end.
    let is_live = statuses.iter().any(|(_, status)| status.word == "START");
    for ((at, status), end) in statuses.iter().zip(ends) {
        let has_output =
            if is_live { status.word == "START" } else { status.outcome() == Some(TestOutcome::Failed) };
        if has_output && end > at + 1 {
            blocks.insert((status.binary, status.name), &lines[at + 1..end]);
        }
    }
    blocks
}

fn failed_test(status: &Status<'_>, blocks: &HashMap<(&str, &str), &[&str]>) -> TestResult {
    let mut test = TestResult::failed(status.name);
    if let Some(shown) = blocks.get(&(status.binary, status.name)) {
        rust_panic::describe(&mut test, test_output(shown));
    }
    if status.word.starts_with("SIG") || status.word == "TIMEOUT" {
        test.message = detail::message([status.word]);
    }
    test
}

/// What a test printed, without what nextest says next; if it did not panic, only what the harness shows of it.
fn test_output<'a>(shown: &'a [&'a str]) -> &'a [&'a str] {
    let is_end = |line: &&str| {
        line.starts_with("────") || line.contains("Cancelling due to ") || line.contains("Canceling due to ")
    };
    let shown = &shown[..shown.iter().position(is_end).unwrap_or(shown.len())];
    if shown.iter().any(|line| line.contains(" panicked at ")) {
        return shown;
    }
    let title =
        |line: &&str| line.trim_start().starts_with("---- ") && line.trim_end().ends_with(" stdout ----");
    if let Some(start) = shown.iter().position(title) {
        let length = shown[start + 1..].iter().position(|line| line.trim() == "failures:");
        return &shown[start + 1..length.map_or(shown.len(), |length| start + 1 + length)];
    }
    let stderr = shown
        .iter()
        .position(|line| line.trim_start().starts_with("stderr ──") || line.contains("--- STDERR:"));
    &shown[stderr.map_or(0, |at| at + 1)..]
}
