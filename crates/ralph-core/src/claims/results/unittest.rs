//! Python's unittest: from the first test to `OK` or `FAILED (…)` below `Ran 5 tests in 0.001s`.

use super::place::{self, SourcePlace, is_dependency};
use super::sections::Section;
use super::text::{indent, is_blank, is_rule, leading_number};
use super::{ResultFormat, TestCounts, TestOutcome, TestResult, detail};

pub(super) fn next_section(lines: &[&str], from: usize) -> Option<Section> {
    let ran = (from..lines.len())
        .find(|&at| tests_run(lines[at]).is_some() && at > 0 && is_rule(lines[at - 1], '-', 70))?;
    let start = (from..ran).find(|&at| is_start(lines, at)).unwrap_or(ran - 1).max(from);
    let result = (ran + 1..lines.len().min(ran + 4))
        .find(|&at| lines[at].starts_with("OK") || lines[at].starts_with("FAILED ("));
    let end = result.map_or(ran + 1, |at| at + 1);
    let mut section = Section::new(ResultFormat::Unittest, start..end);
    section.counts = counts(tests_run(lines[ran])?, lines[end - 1]);
    section.tests = failed_tests(&lines[start..ran]);
    section.tests.extend(lines[start..ran].iter().filter_map(|line| listed_test(line)));
    Some(section)
}

/// The number in `Ran 5 tests in 0.001s`.
fn tests_run(line: &str) -> Option<usize> {
    let (count, rest) = leading_number(line.strip_prefix("Ran ")?)?;
    (rest.starts_with(" test in ") || rest.starts_with(" tests in ")).then_some(count)
}

fn is_start(lines: &[&str], at: usize) -> bool {
    let is_dots = || {
        let line = lines[at];
        let next = lines.get(at + 1).is_some_and(|next| is_rule(next, '-', 70) || is_rule(next, '=', 70));
        !line.is_empty() && next && line.bytes().all(|mark| b".FEsxu".contains(&mark))
    };
    is_header(lines, at)
        || full_name(lines[at]).is_some_and(|(_, rest)| rest.starts_with(" ..."))
        || is_dots()
}

/// A rule, then `FAIL: name (module.Class)`.
fn is_header(lines: &[&str], at: usize) -> bool {
    is_rule(lines[at], '=', 70)
        && lines.get(at + 1).is_some_and(|next| next.starts_with("FAIL: ") || next.starts_with("ERROR: "))
}

fn counts(total: usize, result: &str) -> TestCounts {
    let count = |word: &str| {
        let (_, listed) = result.split_once('(').unwrap_or_default();
        let found = listed.split(", ").find_map(|part| part.strip_prefix(word)?.strip_prefix('='));
        found.and_then(leading_number).map_or(0, |(count, _)| count)
    };
    let failed = count("failures") + count("errors") + count("unexpected successes");
    let skipped = count("skipped") + count("expected failures");
    TestCounts { passed: total.saturating_sub(failed + skipped), failed, skipped }
}

/// `test_half (test_discount.DiscountTest.test_half)`, in older versions without the name inside, as `module.Class.name`.
fn full_name(text: &str) -> Option<(String, &str)> {
    let (name, rest) = text.split_once(" (")?;
    let (class, rest) = rest.split_once(')')?;
    if name.contains(' ') || class.contains(' ') || class.is_empty() {
        return None;
    }
    let class =
        class.strip_prefix("unittest.loader._FailedTest").map_or(class, |rest| rest.trim_start_matches('.'));
    let is_whole = class == name || class.ends_with(&format!(".{name}"));
    let whole = if is_whole {
        class.to_owned()
    } else {
        format!("{class}.{name}").trim_start_matches('.').to_owned()
    };
    Some((whole, rest))
}

fn failed_tests(lines: &[&str]) -> Vec<TestResult> {
    let headers: Vec<usize> = (0..lines.len()).filter(|&at| is_header(lines, at)).collect();
    let ends = headers.iter().skip(1).copied().chain([lines.len()]);
    headers.iter().zip(ends).map(|(&at, end)| failed_test(&lines[at + 1..end])).collect()
}

fn failed_test(lines: &[&str]) -> TestResult {
    let title = lines[0].split_once(": ").map_or(lines[0], |(_, title)| title);
    // A subtest's values follow the name.
    let (mut name, rest) = full_name(title).unwrap_or_else(|| (title.to_owned(), ""));
    name.push_str(rest);
    let rule = lines.iter().position(|line| is_rule(line, '-', 70)).unwrap_or(0);
    let shown = &lines[rule + 1..];
    let output = shown.iter().position(|line| matches!(*line, "Stdout:" | "Stderr:")).unwrap_or(shown.len());
    let end = shown.iter().rposition(|line| is_rule(line, '-', 70)).unwrap_or(shown.len());
    let shown = &shown[..output.min(end)];
    let mut test = TestResult::failed(name.as_str()).at(own_place(&name, shown));
    test.message = message_of(shown);
    test.detail = detail::of(shown);
    test
}

/// The last frame in the test's own module, else the last one in the project.
fn own_place(name: &str, shown: &[&str]) -> Option<SourcePlace> {
    let own: Vec<SourcePlace> = shown
        .iter()
        .filter_map(|line| place::of_frame(line))
        .filter(|place| !is_dependency(&place.file))
        .collect();
    let in_module = own.iter().rev().find(|place| {
        let stem = place.file.rsplit('/').next().and_then(|file| file.strip_suffix(".py"));
        stem.is_some_and(|stem| name.split('.').any(|part| part == stem))
    });
    in_module.or(own.last()).cloned()
}

/// What stands below the frames of the last traceback. With `--locals` the lines of a long value stand there too, so the
/// first line that names an exception is preferred.
fn message_of(shown: &[&str]) -> String {
    let start = shown.iter().rposition(|line| line.starts_with("Traceback (most recent")).unwrap_or(0);
    let below = &shown[start..];
    let last_frame = below.iter().rposition(|line| line.starts_with("  File \"")).unwrap_or(0);
    let mut said = below[last_frame..].iter().skip(1).filter(|line| !is_blank(line) && indent(line) == 0);
    let said = said.clone().find(|line| names_exception(line)).or_else(|| said.next());
    detail::message(said.or(shown.first()).copied())
}

/// `AssertionError: 1 != 2`, `json.decoder.JSONDecodeError: …`, or the name alone.
fn names_exception(line: &str) -> bool {
    let name = line.split_once(": ").map_or(line, |(name, _)| name);
    let class = name.rsplit('.').next().unwrap_or_default();
    class.starts_with(|first: char| first.is_ascii_uppercase())
        && name.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '.'))
}

/// With `-v` every test has a line, `test_empty (test_total.TotalTest.test_empty) ... ok`.
fn listed_test(line: &str) -> Option<TestResult> {
    let (name, rest) = full_name(line)?;
    let outcome = match rest.rsplit_once(" ... ")?.1 {
        "ok" => TestOutcome::Passed,
        word if word.starts_with("skipped") || word == "expected failure" => TestOutcome::Skipped,
        _ => return None,
    };
    Some(TestResult::new(name, outcome))
}
