//! jest: from the first `PASS file` or `FAIL file` to `Ran all test suites`.

use super::place::{self, SourcePlace, is_dependency, same_file};
use super::sections::Section;
use super::text::{counted_words, has_source_extension, indent, is_blank, without_duration};
use super::{ResultFormat, TestCounts, TestOutcome, TestResult, detail};

pub(super) fn next_section(lines: &[&str], from: usize) -> Option<Section> {
    let start = (from..lines.len()).find(|&at| file_header(lines[at]).is_some() || is_no_tests(lines, at))?;
    if is_no_tests(lines, start) {
        return Some(Section::new(ResultFormat::Jest, start..start + 1));
    }
    let rest = &lines[start..];
    // Nothing but jest sums up like this: other tools print `PASS file` too.
    let summary = rest.iter().position(|line| line.starts_with("Test Suites: "))?;
    let end = rest[summary..].iter().take(8).position(|line| line.starts_with("Ran all test suites"));
    let end = start + summary + end.map_or(1, |at| at + 1);
    Some(read(&lines[start..end], start))
}

fn is_no_tests(lines: &[&str], at: usize) -> bool {
    lines[at].starts_with("No tests found, exiting with code")
        && lines.get(at + 1).is_some_and(|line| line.contains("--passWithNoTests"))
}

/// The file in `FAIL src/a.test.js (5.1 s)`, also with a project's name before it.
fn file_header(line: &str) -> Option<&str> {
    // With colours there is a space on both sides of the word.
    let line = line.strip_prefix(' ').unwrap_or(line);
    let rest = line.strip_prefix("PASS ").or_else(|| line.strip_prefix("FAIL "))?;
    let rest = without_duration(rest.trim());
    let file = rest.rsplit(' ').next()?;
    (has_source_extension(file) && !file.contains(':')).then_some(file)
}

fn read(lines: &[&str], start: usize) -> Section {
    let mut section = Section::new(ResultFormat::Jest, start..start + lines.len());
    let counted = lines.iter().rev().find_map(|line| line.strip_prefix("Tests:"));
    section.counts = counted.map(counts).unwrap_or_default();
    // With many failures jest shows all of them again at the end.
    let again = lines.iter().position(|line| line.starts_with("Summary of all failing tests"));
    let lines = &lines[..again.unwrap_or(lines.len())];
    let mut headers = (0..lines.len()).filter_map(|at| Some((at, file_header(lines[at])?))).peekable();
    while let Some((at, file)) = headers.next() {
        let end = headers.peek().map_or(lines.len(), |(next, _)| *next);
        read_file(file, &lines[at + 1..end], &mut section.tests);
    }
    section
}

fn counts(text: &str) -> TestCounts {
    let mut counts = TestCounts::default();
    for (count, word) in counted_words(text) {
        match word {
            "passed" => counts.passed += count,
            "failed" => counts.failed += count,
            "skipped" | "todo" | "pending" => counts.skipped += count,
            _ => {}
        }
    }
    counts
}

fn read_file(file: &str, lines: &[&str], tests: &mut Vec<TestResult>) {
    tests.extend(verbose_tests(file, lines));
    let mut titles: Vec<(usize, &str)> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if let Some(title) = line.strip_prefix("  ● ") {
            titles.push((at, title));
        }
    }
    let ends = titles.iter().skip(1).map(|(at, _)| *at).chain([lines.len()]);
    for ((at, title), end) in titles.iter().zip(ends) {
        if *title != "Console" && !title.starts_with("Cannot log after tests are done") {
            tests.push(failed_test(file, title, block(&lines[at + 1..end])));
        }
    }
}

/// A block is indented by four; what is not is printed by something else.
fn block<'a>(lines: &'a [&'a str]) -> &'a [&'a str] {
    let end = lines.iter().position(|line| !is_blank(line) && indent(line) < 4).unwrap_or(lines.len());
    &lines[..end]
}

fn failed_test(file: &str, title: &str, shown: &[&str]) -> TestResult {
    let name = if title == "Test suite failed to run" { file } else { title };

    let mut test = TestResult::failed(name).at(Some(SourcePlace::file(file)));
    let own = shown
        .iter()
        .filter(|line| line.trim_start().starts_with("at "))
        .filter_map(|line| place::of_frame(line));
    test.line = own
        .filter(|place| same_file(&place.file, file) && !is_dependency(&place.file))
        .find_map(|place| place.line);
    test.line = test.line.or_else(|| inline_place(file, shown));
    test.message = message_of(shown);
    test.detail = detail::of(&shown.iter().copied().filter(|line| !is_source(line)).collect::<Vec<_>>());
    test
}

/// A syntax error names its place in the text: `SyntaxError: /project/a.js: Unexpected token (3:9)`, or `a.ts:3:9 - error`.
fn inline_place(file: &str, shown: &[&str]) -> Option<u32> {
    shown.iter().find_map(|line| {
        let line = line.trim();
        if let Some((place, _)) = place::leading(line).filter(|(place, _)| same_file(&place.file, file)) {
            return place.line;
        }
        let (before, numbers) = line.strip_suffix(')')?.rsplit_once('(')?;
        let (line, _) = numbers.split_once(':')?;
        before.contains(file).then(|| line.parse().ok())?
    })
}

/// The first line, with the values if they stand on one line each.
fn message_of(shown: &[&str]) -> String {
    // A file that cannot be parsed is explained at length; what is wrong in it stands below `Details:`.
    let details = shown.iter().position(|line| line.trim() == "Details:").map_or(0, |at| at + 1);
    let mut said = shown[details..].iter().copied().skip_while(|line| is_blank(line));
    let first = said.next().unwrap_or_default();
    let first = first.split(" // ").next().unwrap_or(first);
    let values = shown.iter().copied().filter(|line| {
        let line = line.trim_start();
        (line.starts_with("Expected") || line.starts_with("Received")) && line.contains(": ")
    });
    let more = said.next().filter(|line| indent(line) > 4);
    detail::message([first].into_iter().chain(more).chain(values.take(2)))
}

/// A line of the source around the one that failed, with its number: `    8 | expect(…)`.
fn is_source(line: &str) -> bool {
    // The line that failed stays.
    let line = line.trim_start();
    let (number, _) = line.split_once('|').unwrap_or(("x", ""));
    number.trim().bytes().all(|byte| byte.is_ascii_digit())
}

/// With `--verbose` the tests of a file are a tree, indented by two for each suite.
fn verbose_tests(file: &str, lines: &[&str]) -> Vec<TestResult> {
    let mut suites: Vec<&str> = Vec::new();
    let mut tests = Vec::new();
    for line in lines.iter().take_while(|line| !line.starts_with("  ● ")) {
        let depth = indent(line) / 2;
        let text = line.trim();
        if depth == 0 || text.is_empty() {
            break;
        }
        suites.truncate(depth - 1);
        let Some((outcome, name)) = marked(text) else {
            suites.push(text);
            continue;
        };
        if outcome != TestOutcome::Failed {
            let name = suites.iter().copied().chain([without_duration(name)]).collect::<Vec<_>>().join(" › ");
            tests.push(TestResult::new(name, outcome).at(Some(SourcePlace::file(file))));
        }
    }
    tests
}

fn marked(text: &str) -> Option<(TestOutcome, &str)> {
    let (mark, name) = text.split_once(' ')?;
    let outcome = match mark {
        "✓" | "√" => TestOutcome::Passed,
        "✕" | "×" => TestOutcome::Failed,
        "○" | "✎" => TestOutcome::Skipped,
        _ => return None,
    };
    Some((outcome, name.strip_prefix("skipped ").or_else(|| name.strip_prefix("todo ")).unwrap_or(name)))
}
