//! PHPUnit: from its version to `OK (3 tests, …)` or `Tests: 4, Assertions: 2, Failures: 1.`

use super::place::{self, SourcePlace, is_dependency};
use super::sections::Section;
use super::text::{is_blank, leading_number};
use super::{ResultFormat, TestCounts, TestOutcome, TestResult, detail};

pub(super) fn next_section(lines: &[&str], from: usize) -> Option<Section> {
    let is_start = |line: &str| line.starts_with("PHPUnit ") && line.contains(" by Sebastian Bergmann");
    let start = (from..lines.len()).find(|&at| is_start(lines[at]))?;
    let end = (start + 1..lines.len()).find(|&at| counts(lines[at]).is_some());
    let mut section = Section::new(ResultFormat::Phpunit, start..end.map_or(lines.len(), |at| at + 1));
    section.counts = end.and_then(|at| counts(lines[at])).unwrap_or_default();
    let body = &lines[start..section.lines.end];
    section.tests = failed_tests(body);
    let described = described_tests(body);
    let has_failed = section.tests.iter().any(|test| test.outcome == TestOutcome::Failed);
    section
        .tests
        .extend(described.into_iter().filter(|test| !has_failed || test.outcome != TestOutcome::Failed));
    Some(section)
}

fn counts(line: &str) -> Option<TestCounts> {
    if line == "No tests executed!" {
        return Some(TestCounts::default());
    }
    if let Some(rest) = line.strip_prefix("OK (") {
        let (passed, rest) = leading_number(rest)?;
        return rest.starts_with(" test").then_some(TestCounts { passed, failed: 0, skipped: 0 });
    }
    let rest = line.strip_suffix('.').unwrap_or(line);
    if !rest.starts_with("Tests: ") || !rest.contains(", Assertions: ") {
        return None;
    }
    let count = |word: &str| {
        rest.split(", ")
            .find_map(|part| part.strip_prefix(word)?.strip_prefix(": ")?.parse::<usize>().ok())
            .unwrap_or(0)
    };
    let (failed, skipped) = (count("Errors") + count("Failures"), count("Skipped") + count("Incomplete"));
    Some(TestCounts { passed: count("Tests").saturating_sub(failed + skipped), failed, skipped })
}

/// `There were 3 errors:`; risky, skipped and deprecated ones have such lists too.
fn is_list_of_failures(line: &str) -> Option<bool> {
    let rest = line.strip_prefix("There was ").or_else(|| line.strip_prefix("There were "))?;
    let (_, kind) = leading_number(rest)?;
    let kind = kind.trim().strip_suffix(':')?;
    Some(matches!(kind, "error" | "errors" | "failure" | "failures"))
}

fn failed_tests(lines: &[&str]) -> Vec<TestResult> {
    let mut tests = Vec::new();
    let mut in_list = false;
    let mut number = 1;
    let mut begun: Option<(usize, &str)> = None;
    for (at, line) in lines.iter().enumerate() {
        let list = is_list_of_failures(line);
        let title = line.strip_prefix(&format!("{number}) ")).filter(|_| in_list);
        let ends =
            list.is_some() || title.is_some() || *line == "--" || *line == "FAILURES!" || *line == "ERRORS!";
        if let Some((start, name)) = begun.filter(|_| ends) {
            tests.push(failed_test(name, &lines[start..at]));
            begun = None;
        }
        if let Some(is_failures) = list {
            in_list = is_failures;
            number = 1;
        }
        if let Some(title) = title {
            begun = Some((at + 1, title));
            number += 1;
        }
    }
    if let Some((start, name)) = begun {
        // The last line is the summary, unless the output was cut at a title.
        let end = start.max(lines.len() - 1);
        tests.push(failed_test(name, &lines[start..end]));
    }
    tests
}

fn failed_test(name: &str, shown: &[&str]) -> TestResult {
    let mut test = TestResult::failed(name).at(own_place(name, shown));
    let mut said = shown.iter().copied().filter(|line| !is_blank(line));
    let first = said.next().unwrap_or_default();
    let second = said.next().filter(|line| line.starts_with("Failed asserting"));
    test.message = detail::message([first].into_iter().chain(second));
    test.detail = detail::of(shown);
    test
}

/// Frames are bare places; the one in the class's own file is where the test failed.
fn own_place(name: &str, shown: &[&str]) -> Option<SourcePlace> {
    let class = name.split("::").next().unwrap_or(name);
    let class = class.rsplit('\\').next().unwrap_or(class);
    let places: Vec<SourcePlace> = shown
        .iter()
        .filter_map(|line| place::leading(line.trim_start_matches([' ', '│'])))
        .filter(|(place, rest)| {
            rest.is_empty() && place.file.ends_with(".php") && !is_dependency(&place.file)
        })
        .map(|(place, _)| place)
        .collect();
    let own = places.iter().find(|place| place.file.ends_with(&format!("{class}.php")));
    own.or(places.first()).cloned()
}

/// With `--testdox` the class stands above its tests, ` ✔ None`, and a failure is shown behind a line.
fn described_tests(lines: &[&str]) -> Vec<TestResult> {
    let mut tests = Vec::new();
    let mut class = "";
    for (at, line) in lines.iter().enumerate() {
        let Some((outcome, name)) = described(line) else {
            let is_class = !is_blank(line) && lines.get(at + 1).is_some_and(|next| described(next).is_some());
            class = if is_class { line.split(" (").next().unwrap_or(line) } else { class };
            continue;
        };
        let shown: Vec<&str> = lines[at + 1..]
            .iter()
            .map_while(|line| line.trim_start().strip_prefix(['│', '├', '┐', '┴']))
            .collect();
        let name = format!("{class} > {name}");
        tests.push(match outcome {
            TestOutcome::Failed => failed_test(&name, &shown),
            _ => TestResult::new(name, outcome),
        });
    }
    tests
}

fn described(line: &str) -> Option<(TestOutcome, &str)> {
    let (mark, name) = line.strip_prefix(' ')?.split_once(' ')?;
    let outcome = match mark {
        "✔" => TestOutcome::Passed,
        "✘" => TestOutcome::Failed,
        "↩" | "∅" => TestOutcome::Skipped,
        _ => return None,
    };
    Some((outcome, super::text::without_duration(name).trim()))
}
