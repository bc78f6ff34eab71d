//! mocha: from the first test of its tree to the last of the numbered failures, around `  3 passing (12ms)`.

use super::place::{self, SourcePlace, is_dependency};
use super::sections::Section;
use super::text::{announces_command, indent, is_blank, leading_number, without_duration};
use super::{ResultFormat, TestOutcome, TestResult, detail};

pub(super) fn next_section(lines: &[&str], from: usize) -> Option<Section> {
    let summary =
        (from..lines.len()).find(|&at| counted(lines[at], "passing").is_some() || is_no_tests(lines[at]))?;
    if is_no_tests(lines[summary]) {
        return Some(Section::new(ResultFormat::Mocha, summary..summary + 1));
    }
    let start = start_of(lines, from, summary);
    let mut section = Section::new(ResultFormat::Mocha, start..summary + 1);
    section.counts.passed = counted(lines[summary], "passing").unwrap_or(0);
    let mut end = summary + 1;
    for (word, count) in [("pending", &mut section.counts.skipped), ("failing", &mut section.counts.failed)] {
        if let Some(found) = lines.get(end).and_then(|line| counted(line, word)) {
            *count = found;
            end += 1;
        }
    }
    section.tests = listed_tests(&lines[start..summary]);
    end = read_failures(lines, end, section.counts.failed, &mut section.tests);
    section.lines.end = end;
    Some(section)
}

fn is_no_tests(line: &str) -> bool {
    line.starts_with("Error: No test files found: ")
}

/// The number in `  12 passing (35ms)`.
fn counted(line: &str, word: &str) -> Option<usize> {
    let (count, rest) = leading_number(line.strip_prefix("  ")?)?;
    let rest = rest.strip_prefix(' ')?.strip_prefix(word)?;
    (rest.is_empty() || rest.starts_with(" (")).then_some(count)
}

/// The first line of the tree. It cannot be above a line by which a script runner announces a command.
fn start_of(lines: &[&str], from: usize, summary: usize) -> usize {
    let command = |at: &usize| announces_command(lines, *at);
    let first = (from..summary).rev().find(command).map_or(from, |at| at + 1);
    let Some(test) = (first..summary).find(|&at| marked(lines[at]).is_some()) else { return summary };
    // The names of its suites stand above it.
    let suites = lines[first..test].iter().rev().take_while(|line| line.starts_with("  "));
    test - suites.count()
}

/// A line of the tree: `    ✔ name (3ms)`, `    2) name`, `    - name`.
fn marked(line: &str) -> Option<(TestOutcome, &str)> {
    if indent(line) < 2 {
        return None;
    }
    let (mark, name) = line.trim_start().split_once(' ')?;
    let number = mark.strip_suffix(')');
    let outcome = match mark {
        "✔" | "✓" | "√" => TestOutcome::Passed,
        "-" => TestOutcome::Skipped,
        _ if number.is_some_and(|number| number.parse::<u32>().is_ok()) => TestOutcome::Failed,
        _ => return None,
    };
    Some((outcome, without_duration(name)))
}

fn listed_tests(lines: &[&str]) -> Vec<TestResult> {
    let mut suites: Vec<&str> = Vec::new();
    let mut tests = Vec::new();
    for line in lines {
        let depth = indent(line) / 2;
        if depth == 0 || is_blank(line) {
            continue;
        }
        suites.truncate(depth - 1);
        match marked(line) {
            // The failing ones are shown again below, with what went wrong.
            Some((TestOutcome::Failed, _)) => {}
            Some((outcome, name)) => {
                let name = suites.iter().copied().chain([name]).collect::<Vec<_>>().join(" > ");
                tests.push(TestResult::new(name, outcome));
            }
            None => suites.push(line.trim()),
        }
    }
    tests
}

/// Reads the numbered failures, and returns where they end.
fn read_failures(lines: &[&str], from: usize, count: usize, tests: &mut Vec<TestResult>) -> usize {
    let mut at = from;
    for number in 1..=count {
        let title = format!("  {number}) ");
        let Some(start) = (at..lines.len()).find(|&at| lines[at].starts_with(&title)) else { return at };
        let next = format!("  {}) ", number + 1);
        let end = (start + 1..lines.len())
            .find(|&at| is_end(lines, at, number < count, &next))
            .unwrap_or(lines.len());
        tests.push(failed_test(&lines[start..end], title.len()));
        at = end;
    }
    at
}

/// The last failure ends with two blank lines.
fn is_end(lines: &[&str], at: usize, is_followed: bool, next: &str) -> bool {
    if is_followed {
        return lines[at].starts_with(next);
    }
    let frames_end =
        lines[at - 1].trim_start().starts_with("at ") && !lines[at].trim_start().starts_with("at ");
    is_blank(lines[at]) && (lines.get(at + 1).is_none_or(|line| is_blank(line)) || frames_end)
}

fn failed_test(lines: &[&str], title: usize) -> TestResult {
    let mut names = vec![lines[0].get(title..).unwrap_or("").trim()];
    let mut at = 1;
    // Each suite and the test itself are indented by two more.
    while lines.get(at).is_some_and(|line| indent(line) == 5 + 2 * at && !names[at - 1].is_empty()) {
        names.push(lines[at].trim());
        at += 1;
    }
    let name = names.join(" > ");
    let shown = &lines[at..];
    let mut test = TestResult::failed(name.strip_suffix(':').unwrap_or(&name));
    test = test.at(own_place(shown));
    if test.file.is_none() {
        test.file = timed_out_file(shown);
    }
    let mut said = shown.iter().copied().filter(|line| !is_blank(line));
    let first = said.next().unwrap_or_default();
    let second = said.next().filter(|_| first.trim_end().ends_with(':'));
    test.message = detail::message([first].into_iter().chain(second));
    test.detail = detail::of(shown);
    test
}

/// A time-out has no frame, but names the file at its end.
fn timed_out_file(shown: &[&str]) -> Option<String> {
    let line = shown.iter().find(|line| line.contains("Timeout of "))?;
    let (_, file) = line.trim_end().strip_suffix(')')?.rsplit_once('(')?;
    super::text::has_source_extension(file).then(|| file.to_owned())
}

/// The test's own frame is called `Context.<anonymous>`; else the first that is not a dependency's.
fn own_place(shown: &[&str]) -> Option<SourcePlace> {
    let frames = || shown.iter().filter(|line| line.trim_start().starts_with("at "));
    let own = |line: &&&str| place::of_frame(line).is_some_and(|place| !is_dependency(&place.file));
    let test = frames().find(|line| line.contains("Context.<anonymous>") && own(line));
    test.or_else(|| frames().find(own)).and_then(|line| place::of_frame(line))
}
