//! CTest: from `Test project /path` to the list of the failing tests.

use super::place;
use super::sections::Section;
use super::text::{has_source_extension, is_blank, leading_number};
use super::{ResultFormat, TestCounts, TestOutcome, TestResult, detail};
use std::collections::HashMap;

pub(super) fn next_section(lines: &[&str], from: usize) -> Option<Section> {
    let start = (from..lines.len())
        .find(|&at| lines[at].starts_with("Test project /") || lines[at].starts_with("Test project C:"))?;
    let rest = &lines[start..];
    let none = rest.iter().take(5).position(|line| *line == "No tests were found!!!");
    let summary = rest.iter().position(|line| line.contains("% tests passed, "));
    let Some(summary) = none.or(summary) else {
        return Some(Section::new(ResultFormat::Ctest, start..start + 1));
    };
    let failed_at = rest[summary..]
        .iter()
        .position(|line| *line == "The following tests FAILED:")
        .map(|at| summary + at + 1);
    let listed: Vec<(usize, &str, &str)> =
        rest[failed_at.unwrap_or(rest.len())..].iter().map_while(|line| listed_failure(line)).collect();
    let end = failed_at.map_or(summary + 1, |at| at + listed.len());
    let mut section = Section::new(ResultFormat::Ctest, start..start + end);
    let body = &rest[..summary];
    let outputs = outputs(body);
    section.tests = listed.iter().map(|failure| failed_test(failure, &outputs)).collect();
    section.tests.extend(body.iter().filter_map(|line| other_test(line)));
    section.counts = TestCounts::of(&section.tests);
    Some(section)
}

/// `\t  4 - discount.half (Failed)`
fn listed_failure(line: &str) -> Option<(usize, &str, &str)> {
    let (number, rest) = leading_number(line.trim_start())?;
    let (name, rest) = rest.strip_prefix(" - ")?.rsplit_once(" (")?;
    Some((number, name, rest.split(')').next().unwrap_or(rest)))
}

/// `2/4 Test #2: total.currency ....***Skipped   0.00 sec`: number, name, and the rest from the dots on.
fn row(line: &str) -> Option<(usize, &str, &str)> {
    let (_, rest) = leading_number(line.trim_start())?;
    let (_, rest) = leading_number(rest.strip_prefix('/')?)?;
    let (_, rest) = rest.split_once('#').filter(|(before, _)| before.trim() == "Test")?;
    let (number, rest) = leading_number(rest)?;
    let (name, rest) = rest.strip_prefix(": ")?.split_once(" ..")?;
    Some((number, name.trim(), rest.trim_start_matches('.')))
}

fn other_test(line: &str) -> Option<TestResult> {
    let (_, name, rest) = row(line)?;
    let outcome = match rest.trim_start() {
        rest if rest.starts_with("Passed") => TestOutcome::Passed,
        rest if rest.starts_with("***Skipped") || rest.starts_with("***Not Run (Disabled)") => {
            TestOutcome::Skipped
        }
        _ => return None,
    };
    Some(TestResult::new(name, outcome))
}

fn failed_test(
    &(number, name, reason): &(usize, &str, &str),
    outputs: &HashMap<usize, Vec<&str>>,
) -> TestResult {
    let shown = outputs.get(&number).map_or(&[][..], Vec::as_slice);
    let place = shown
        .iter()
        .filter_map(|line| place::leading(line.trim()))
        .find(|(place, _)| has_source_extension(&place.file));
    let mut test = TestResult::failed(name).at(place.map(|(place, _)| place));
    let informative = shown
        .iter()
        .find(|line| detail::tells_value(line))
        .or_else(|| shown.iter().rev().find(|line| !is_blank(line)));
    test.message = detail::message([reason].into_iter().chain(informative.copied()));
    test.detail = detail::of(shown);
    test
}

/// What each test printed: with `-V` its lines have its number before them; with `--output-on-failure` they follow its row.
fn outputs<'a>(body: &[&'a str]) -> HashMap<usize, Vec<&'a str>> {
    const SETTINGS: &[&str] =
        &["Test command:", "Working Directory:", "Test timeout computed", "Environment variables:"];
    let mut outputs: HashMap<usize, Vec<&str>> = HashMap::new();
    let mut last: Option<usize> = None;
    for line in body {
        let numbered =
            leading_number(line).and_then(|(number, rest)| Some((number, rest.strip_prefix(": ")?)));
        if let Some((number, text)) = numbered {
            if !SETTINGS.iter().any(|start| text.starts_with(start)) {
                outputs.entry(number).or_default().push(text);
            }
        } else if let Some((number, _, _)) = row(line) {
            last = Some(number);
        } else if let Some(rest) = line.trim_start().strip_prefix("Start ") {
            // A program that cannot be run is named before its row.
            last = leading_number(rest.trim_start()).map(|(number, _)| number);
        } else if let Some(number) = last {
            outputs.entry(number).or_default().push(line);
        }
    }
    outputs
}
