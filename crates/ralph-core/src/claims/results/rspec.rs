//! RSpec: from its dots or `Failures:` to `3 examples, 1 failure` and the commands below it.

use super::place::{self, SourcePlace, is_dependency};
use super::sections::Section;
use super::text::{indent, is_blank, leading_number};
use super::{ResultFormat, TestCounts, TestResult, detail};

pub(super) fn next_section(lines: &[&str], from: usize) -> Option<Section> {
    let summary = (from..lines.len()).find(|&at| counts(lines[at]).is_some())?;
    let start = (from..summary).find(|&at| is_start(lines, at)).unwrap_or(summary);
    let failed = lines[summary..].iter().take(4).position(|line| *line == "Failed examples:");
    let listed = failed.map_or(0, |at| {
        let rest = &lines[summary + at + 1..];
        at + 1 + rest.iter().take_while(|line| line.is_empty() || line.starts_with("rspec ")).count()
    });
    let mut section = Section::new(ResultFormat::Rspec, start..(summary + 1).max(summary + listed));
    section.counts = counts(lines[summary])?;
    let body = &lines[start..summary];
    section.tests = load_errors(body);
    section.tests.extend(failed_examples(body));
    Some(section)
}

/// `4 examples, 1 failure, 2 pending, 1 error occurred outside of examples`
fn counts(line: &str) -> Option<TestCounts> {
    let mut parts = line.split(", ");
    let (total, rest) = leading_number(parts.next()?)?;
    let (failures, word) = leading_number(parts.next()?)?;
    if !matches!(rest, " example" | " examples") || !word.starts_with(" failure") {
        return None;
    }
    let mut counts = TestCounts { passed: 0, failed: failures, skipped: 0 };
    for (count, rest) in parts.filter_map(leading_number) {
        if rest.starts_with(" pending") {
            counts.skipped = count;
        } else if rest.starts_with(" error") {
            counts.failed += count;
        }
    }
    counts.passed = total.saturating_sub(failures + counts.skipped);
    Some(counts)
}

fn is_start(lines: &[&str], at: usize) -> bool {
    let line = lines[at];
    let is_dots = || {
        !line.is_empty() && line.bytes().all(|mark| b".F*".contains(&mark)) && lines.get(at + 1) == Some(&"")
    };
    line == "Failures:"
        || line.starts_with("Pending: (Failures listed")
        || line.starts_with("An error occurred while loading ")
        || is_dots()
}

/// A file that could not be loaded.
fn load_errors(lines: &[&str]) -> Vec<TestResult> {
    let starts: Vec<usize> =
        (0..lines.len()).filter(|&at| lines[at].starts_with("An error occurred while loading ")).collect();
    let ends = starts.iter().skip(1).copied().chain([lines.len()]);
    let read = |(&at, end): (&usize, usize)| {
        let rest = lines[at].trim_start_matches("An error occurred while loading ");
        let file = rest.split(". - ").next().unwrap_or(rest).trim_end_matches('.');
        let mut test = TestResult::failed(place::tidy_path(file)).at(Some(SourcePlace::file(file)));
        describe(&mut test, &lines[at + 1..end]);
        test
    };
    starts.iter().zip(ends).map(read).collect()
}

/// Below `Failures:` each has a number and its whole name.
fn failed_examples(lines: &[&str]) -> Vec<TestResult> {
    let Some(first) = lines.iter().rposition(|line| *line == "Failures:") else { return Vec::new() };
    let mut tests = Vec::new();
    let mut begun: Option<(usize, &str)> = None;
    let mut number = 1;
    for at in first + 1..=lines.len() {
        let title = lines
            .get(at)
            .and_then(|line| line.strip_prefix("  "))
            .and_then(|line| line.strip_prefix(&format!("{number}) ")));
        let ends = at == lines.len() || lines[at].starts_with("Finished in ");
        if let Some((start, name)) = begun.filter(|_| ends || title.is_some()) {
            let mut test = TestResult::failed(name);
            describe(&mut test, &lines[start..at]);
            tests.push(test);
            begun = None;
        }
        if ends {
            break;
        }
        if let Some(title) = title {
            begun = Some((at + 1, title));
            number += 1;
        }
    }
    tests
}

fn describe(test: &mut TestResult, shown: &[&str]) {
    let frames = shown.iter().filter_map(|line| line.trim_start().strip_prefix("# "));
    let places: Vec<SourcePlace> = frames
        .filter_map(|line| place::leading(line))
        .map(|(place, _)| place)
        .filter(|place| !is_dependency(&place.file))
        .collect();
    let spec = places.iter().find(|place| place.file.ends_with("_spec.rb"));
    *test = test.clone().at(spec.or(places.first()).cloned());
    test.message = message_of(shown);
    test.detail = detail::of(shown);
}

/// What follows the source line: `expected: 2` and `got: 1`, or an error's class and message.
fn message_of(shown: &[&str]) -> String {
    let source = shown.iter().position(|line| line.contains("Failure/Error:"));
    let Some(source) = source else {
        return detail::message(shown.iter().find(|line| !is_blank(line)).copied());
    };
    let rest = &shown[source + 1..];
    let margin = indent(shown[source]);
    // The source may take several lines; a blank one ends it.
    let said = rest.iter().position(|line| is_blank(line)).map_or(0, |at| at + 1);
    let is_short = rest.first().is_some_and(|line| !is_blank(line) && indent(line) > margin && said > 2);
    let said = if is_short || said >= rest.len() { 0 } else { said };
    let words = rest[said..]
        .iter()
        .copied()
        .take_while(|line| !is_blank(line) && !line.trim_start().starts_with("# "));
    detail::message(words.take(2))
}
