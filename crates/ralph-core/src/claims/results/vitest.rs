//! vitest: from ` RUN  v3.0.0 /path` to the line of its duration.

use super::place::{self, SourcePlace, same_file};
use super::sections::Section;
use super::text::{counted_words, is_blank, is_rule, without_duration};
use super::{ResultFormat, TestCounts, TestOutcome, TestResult, detail};

pub(super) fn next_section(lines: &[&str], from: usize) -> Option<Section> {
    let start = (from..lines.len()).find(|&at| is_start(lines[at]))?;
    let end = end_of(lines, start);
    Some(read(&lines[start..end], start))
}

fn is_start(line: &str) -> bool {
    let line = line.trim_start();
    let rest = line.strip_prefix("RUN ").or_else(|| line.strip_prefix("DEV "));
    rest.is_some_and(|rest| {
        rest.trim_start().strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    })
}

fn end_of(lines: &[&str], start: usize) -> usize {
    let ends = |line: &&str| is_summary(line, "Duration") || line.starts_with("No test files found, exiting");
    let found = lines[start..].iter().position(ends);
    found.map_or(lines.len(), |at| start + at + 1)
}

/// `   Duration  513ms`
fn is_summary(line: &str, word: &str) -> bool {
    line.starts_with(' ') && line.trim_start().strip_prefix(word).is_some_and(|rest| rest.starts_with("  "))
}

fn read(lines: &[&str], start: usize) -> Section {
    let mut section = Section::new(ResultFormat::Vitest, start..start + lines.len());
    let counted = lines.iter().rev().find(|line| is_summary(line, "Tests"));
    section.counts = counted.map(|line| counts(line)).unwrap_or_default();
    section.tests = failed_tests(lines);
    section.tests.extend(lines.iter().filter_map(|line| listed_test(line)));
    section
}

fn counts(line: &str) -> TestCounts {
    let mut counts = TestCounts::default();
    for (count, word) in counted_words(line.trim_start().trim_start_matches("Tests")) {
        match word {
            "passed" => counts.passed += count,
            "failed" => counts.failed += count,
            "skipped" | "todo" => counts.skipped += count,
            _ => {}
        }
    }
    counts
}

/// Below `⎯⎯ Failed Tests 2 ⎯⎯` each failure starts with ` FAIL  file > suite > test`, and ends with a rule.
fn failed_tests(lines: &[&str]) -> Vec<TestResult> {
    let is_part = |line: &&str| {
        line.starts_with('⎯')
            && ["Failed Tests", "Failed Suites", "Unhandled"].iter().any(|w| line.contains(w))
    };
    let Some(first) = lines.iter().position(is_part) else { return Vec::new() };
    let mut tests = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    let mut begun = 0;
    for (at, line) in lines.iter().enumerate().skip(first) {
        if let Some(name) =
            line.trim_start().strip_prefix("FAIL  ").filter(|_| names.is_empty() || at == begun)
        {
            // Tests that fail in the same way share one block.
            names.push(name);
            begun = at + 1;
        } else if ends_block(line) && !names.is_empty() {
            let shown = &lines[begun..at];
            tests.extend(names.drain(..).map(|name| failed_test(name, shown)));
        }
    }
    let shown = &lines[begun.min(lines.len())..];
    tests.extend(names.drain(..).map(|name| failed_test(name, shown)));
    tests
}

/// `⎯⎯⎯⎯[1/13]⎯`, or the next part's title.
fn ends_block(line: &str) -> bool {
    line.starts_with("⎯⎯⎯") && (is_rule(line, '⎯', 3) || line.contains("]⎯") || line.contains(" Failed "))
}

fn failed_test(title: &str, shown: &[&str]) -> TestResult {
    let (file, name) = file_and_name(title);
    let mut test = TestResult::failed(name).at(Some(SourcePlace::file(file)));
    let places: Vec<SourcePlace> =
        shown.iter().filter(|line| is_frame(line)).filter_map(|line| place::of_frame(line)).collect();
    let own = places.iter().find(|place| same_file(&place.file, file));
    test.line = own.and_then(|place| place.line);
    let message = shown
        .iter()
        .copied()
        .skip_while(|line| is_blank(line))
        .take_while(|line| !is_blank(line) && !is_frame(line));
    test.message = detail::message(
        message
            .take(2)
            .enumerate()
            .filter(|(at, line)| *at == 0 || line.starts_with(' '))
            .map(|(_, line)| line.split(" // ").next().unwrap_or(line)),
    );
    test.detail = detail::of(&shown.iter().copied().filter(|line| !is_source(line)).collect::<Vec<_>>());
    test
}

fn is_frame(line: &str) -> bool {
    line.trim_start().starts_with("❯ ")
}

/// A line of the source that vitest shows with its number, `  9| expect(…)`.
fn is_source(line: &str) -> bool {
    let line = line.trim_start();
    let (number, _) = line.split_once('|').unwrap_or(("x", ""));
    line.contains('|') && number.trim().bytes().all(|byte| byte.is_ascii_digit())
}

/// `src/a.test.js > suite > test`, `src/a.test.js [ src/a.test.js ]`, `|project| src/a.test.js > test`.
fn file_and_name(title: &str) -> (&str, &str) {
    let title = title.trim();
    let title = match title.strip_prefix('|').and_then(|rest| rest.split_once('|')) {
        Some((_, rest)) => rest.trim_start(),
        None => title,
    };
    if let Some((file, _)) = title.split_once(" [ ") {
        return (file.trim(), file.trim());
    }
    match title.split_once(" > ") {
        Some((file, name)) => (file.trim(), name.trim()),
        None => (title, title),
    }
}

/// With `--reporter=verbose` each test has a line with its whole name.
fn listed_test(line: &str) -> Option<TestResult> {
    let line = line.strip_prefix(' ')?;
    let mut chars = line.chars();
    let outcome = match chars.next()? {
        '✓' => TestOutcome::Passed,
        '↓' | '□' => TestOutcome::Skipped,
        _ => return None,
    };
    let title = chars.as_str().strip_prefix(' ')?;
    if !title.contains(" > ") {
        return None;
    }
    let (file, name) = file_and_name(without_duration(title));
    super::text::has_source_extension(file)
        .then(|| TestResult::new(name, outcome).at(Some(SourcePlace::file(file))))
}
