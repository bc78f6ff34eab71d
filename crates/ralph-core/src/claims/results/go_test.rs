//! go test: for each package its tests, then `ok  \tpackage`, `FAIL\tpackage` or `?   \tpackage`.

use super::place::{self, SourcePlace, is_dependency};
use super::sections::Section;
use super::text::{announces_command, indent, is_blank};
use super::{ResultFormat, Results, TestOutcome, TestResult, detail, problems};
use std::collections::{HashMap, HashSet};

pub(super) fn next_section(lines: &[&str], from: usize) -> Option<Section> {
    let first = (from..lines.len()).find(|&at| package_line(lines[at]).is_some())?;
    let from = (from..first).rev().find(|&at| announces_command(lines, at)).map_or(from, |at| at + 1);
    let start = start_of(lines, from, first);
    let mut section = Section::new(ResultFormat::GoTest, start..start);
    let mut begun = start;
    while let Some(at) = next_package(lines, begun) {
        read_package(&lines[begun..=at], &mut section);
        begun = at + 1;
    }
    section.lines.end = begun + usize::from(lines.get(begun) == Some(&"FAIL"));
    Some(section)
}

/// The first line that is go's. Without `-v` there is no header, and a `--- FAIL` far above may be quoted by another runner:
/// then it cannot stand before that runner's last word.
fn start_of(lines: &[&str], from: usize, first: usize) -> usize {
    let marker = |from: usize| (from..first).find(|&at| is_marker(lines[at])).unwrap_or(first);
    let start = marker(from);
    if lines[start].starts_with("=== RUN ") {
        return start;
    }
    let other = (start..first).rev().find(|&at| ends_another_run(lines[at]));
    other.map_or(start, |at| marker(at + 1))
}

fn ends_another_run(line: &str) -> bool {
    const STARTS: &[&str] =
        &["test result: ", "Ran all test suites", "   Duration  ", "ℹ duration_ms ", "Tests: "];
    const PARTS: &[&str] = &[" passing (", " examples, ", " runs, ", " tests in ", " test in "];
    let is_pytest =
        line.starts_with('=') && line.ends_with('=') && line.contains("s =") && line.contains(" in ");
    is_pytest
        || STARTS.iter().any(|start| line.starts_with(start))
        || PARTS.iter().any(|part| line.contains(part))
}

fn is_marker(line: &str) -> bool {
    line.starts_with("=== RUN ") || verdict(line).is_some() || line.starts_with("panic: ")
}

/// The next package's line, if nothing else is run before it.
fn next_package(lines: &[&str], from: usize) -> Option<usize> {
    let found = (from..lines.len()).find(|&at| package_line(lines[at]).is_some())?;
    let other = (from..found).any(|at| announces_command(lines, at) || lines[at].starts_with("{\""));
    (!other).then_some(found)
}

struct PackageLine<'a> {
    name: &'a str,
    outcome: TestOutcome,
    remark: &'a str,
}

/// `ok  \tpackage\t0.005s`, `FAIL\tpackage [build failed]`, `?   \tpackage\t[no test files]`
fn package_line(line: &str) -> Option<PackageLine<'_>> {
    let (word, rest) = line.split_once('\t')?;
    let outcome = match word.trim_end() {
        "ok" => TestOutcome::Passed,
        "FAIL" => TestOutcome::Failed,
        "?" => TestOutcome::Skipped,
        _ => return None,
    };
    let name = rest.split(['\t', ' ']).next()?;
    Some(PackageLine { name, outcome, remark: rest[name.len()..].trim() })
}

/// `    --- FAIL: TestTable/ten (0.00s)`
fn verdict(line: &str) -> Option<(TestOutcome, &str)> {
    let rest = line.trim_start().strip_prefix("--- ")?;
    let (word, name) = rest.split_once(": ")?;
    let outcome = match word {
        "PASS" => TestOutcome::Passed,
        "FAIL" => TestOutcome::Failed,
        "SKIP" => TestOutcome::Skipped,
        _ => return None,
    };
    let (name, _) = name.rsplit_once(" (")?;
    Some((outcome, name))
}

fn read_package(lines: &[&str], section: &mut Section) {
    let Some(package) = lines.last().and_then(|line| package_line(line)) else { return };
    let lines = &lines[..lines.len() - 1];
    let mut tests = read_tests(lines);
    let failed = tests.iter().any(|test| test.outcome == TestOutcome::Failed);
    if package.outcome == TestOutcome::Failed && !failed {
        let mut found = Results::default();
        problems::read(lines, &mut found);
        section.problems.append(&mut found.problems);
        tests.push(failed_package(&package, lines));
    }
    if package.outcome == TestOutcome::Passed
        && tests.is_empty()
        && !package.remark.contains("[no tests to run]")
    {
        // A passing package lists its tests only with `-v`; that it ran is still known.
        section.counts.passed += 1;
    }
    section.counts.add(super::TestCounts::of(&tests));
    section.tests.append(&mut tests);
}

/// A package that fails without a failing test: it does not build, or the program ended early.
fn failed_package(package: &PackageLine<'_>, lines: &[&str]) -> TestResult {
    let mut test = TestResult::failed(package.name);
    let said = lines
        .iter()
        .rev()
        .copied()
        .find(|line| !is_blank(line) && *line != "FAIL" && !line.starts_with("exit status"));
    let remark = package.remark.trim_matches(['[', ']']);
    let remark =
        if package.remark.starts_with('[') { remark } else { said.unwrap_or("the test program failed") };
    test.message = detail::message([remark]);
    test.detail = detail::of(lines);
    test
}

/// The tests of one package, each with the lines that belong to it.
pub(super) fn read_tests(lines: &[&str]) -> Vec<TestResult> {
    let mut shown = Shown::default();
    // A test is spoken about until another one is, with `-v` before its verdict and without it after it.
    let mut current: Option<usize> = None;
    let mut margin = 0;
    // With `-v` every test is announced: a verdict on another one is something a test printed.
    let is_verbose = lines.iter().any(|line| line.starts_with("=== RUN "));
    for line in lines {
        if let Some(name) = announced(line) {
            current = Some(shown.entry(name));
            margin = 4;
        } else if let Some((outcome, name)) =
            verdict(line).filter(|(_, name)| !is_verbose || shown.index.contains_key(name))
        {
            let at = shown.entry(name);
            shown.tests[at].outcome = Some(outcome);
            current = Some(at);
            margin = indent(line) + 4;
        } else if let Some(at) = current.and_then(|at| shown.owner(at, line, margin)) {
            shown.tests[at].has_panic |= line.starts_with("panic: ");
            shown.tests[at].lines.push(line);
        }
    }
    let parents = failed_parents(
        shown.tests.iter().filter(|test| test.outcome == Some(TestOutcome::Failed)).map(|test| test.name),
    );
    shown.tests.iter().filter_map(|test| test.result(parents.contains(test.name))).collect()
}

/// The tests that have a failing subtest.
pub(super) fn failed_parents<'a>(failed: impl Iterator<Item = &'a str>) -> HashSet<&'a str> {
    let slashes = |name: &'a str| name.match_indices('/').map(move |(at, _)| &name[..at]);
    failed.flat_map(slashes).collect()
}

struct ShownTest<'a> {
    name: &'a str,
    outcome: Option<TestOutcome>,
    lines: Vec<&'a str>,
    has_panic: bool,
}

#[derive(Default)]
struct Shown<'a> {
    tests: Vec<ShownTest<'a>>,
    index: HashMap<&'a str, usize>,
}

impl<'a> Shown<'a> {
    fn entry(&mut self, name: &'a str) -> usize {
        *self.index.entry(name).or_insert_with(|| {
            self.tests.push(ShownTest { name, outcome: None, lines: Vec::new(), has_panic: false });
            self.tests.len() - 1
        })
    }

    /// Which test a line belongs to, if the one at `current` is spoken about.
    fn owner(&self, current: usize, line: &str, margin: usize) -> Option<usize> {
        let test = &self.tests[current];
        if line.starts_with("panic: ") || (test.has_panic && line != "FAIL") || indent(line) >= margin {
            return Some(current);
        }
        // Without `-v` a line that is indented less belongs to a test further out.
        let depth = indent(line) / 4;
        if depth == 0 || is_blank(line) {
            return None;
        }
        let end = test.name.match_indices('/').nth(depth - 1).map_or(test.name.len(), |(at, _)| at);
        self.index.get(&test.name[..end]).copied()
    }
}

impl ShownTest<'_> {
    fn result(&self, is_parent: bool) -> Option<TestResult> {
        let outcome = self.outcome.or(self.has_panic.then_some(TestOutcome::Failed))?;
        let mut test = TestResult::new(self.name, outcome);
        if outcome == TestOutcome::Failed {
            describe(&mut test, &self.lines);
            // A test that only fails because its subtests do adds nothing to them.
            if is_parent && test.message.is_empty() {
                return None;
            }
        }
        Some(test)
    }
}

/// `=== RUN   TestTotal`
fn announced(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("=== ")?;
    let (word, name) = rest.split_once(' ')?;
    matches!(word, "RUN" | "CONT" | "PAUSE" | "NAME").then(|| name.trim_start())
}

pub(super) fn describe(test: &mut TestResult, lines: &[&str]) {
    let logged: Vec<(usize, SourcePlace, &str)> = lines
        .iter()
        .enumerate()
        .filter_map(|(at, line)| log_line(line).map(|(place, text)| (at, place, text)))
        .collect();
    if let Some(panic) = lines.iter().position(|line| line.starts_with("panic: ")) {
        let message = lines[panic].trim_end_matches(" [recovered]");
        test.message = detail::message([message]);
        *test = test.clone().at(panic_place(&lines[panic..]));
        test.detail = detail::of(&without_go_frames(lines));
        return;
    }
    // The last of several lines is the one that failed, unless there is a better word for it.
    let fitting = logged
        .iter()
        .find(|(_, _, text)| detail::tells_value(text) || text.contains("want") || text.contains("got"));
    let logged_message = fitting.or(logged.last());
    if let Some((at, place, text)) = logged_message {
        let assertion = testify(&lines[*at..]);
        *test = test
            .clone()
            .at(assertion.as_ref().and_then(|(place, _)| place.clone()).or_else(|| Some(place.clone())));
        let below = lines[at + 1..].iter().copied().take_while(|line| log_line(line).is_none());
        let values = below.filter(|line| detail::tells_value(line)).take(2);
        test.message = match assertion {
            Some((_, error)) => error,
            None => detail::message([*text].into_iter().chain(values)),
        };
    } else if let Some(line) = lines.iter().find(|line| !is_blank(line)) {
        test.message = detail::message([*line]);
    }
    test.detail = detail::of(lines);
}

/// `    discount_test.go:11: got 1, want 2`
fn log_line(line: &str) -> Option<(SourcePlace, &str)> {
    let (place, rest) = place::leading(line.trim_start_matches([' ', '\t']))?;
    let text = rest.strip_prefix(':')?;
    place.file.ends_with(".go").then(|| (place, text.trim()))
}

/// testify prints a block of its own: `Error Trace:` with the place, `Error:` with what is wrong.
fn testify(lines: &[&str]) -> Option<(Option<SourcePlace>, String)> {
    let field = |name: &str| lines.iter().position(|line| line.trim_start().starts_with(name));
    let trace = field("Error Trace:")?;
    let error = field("Error:")?;
    let value = |at: usize| lines[at].split_once(':').map_or("", |(_, rest)| rest.trim());
    let place = place::leading(value(trace)).map(|(place, _)| place);
    let below = lines[error + 1..]
        .iter()
        .map(|line| line.trim())
        .filter(|line| line.starts_with("expected:") || line.starts_with("actual"));
    Some((place, detail::message([value(error).trim_end_matches(':')].into_iter().chain(below.take(2)))))
}

fn panic_place(lines: &[&str]) -> Option<SourcePlace> {
    lines.iter().filter_map(|line| line.strip_prefix('\t')).find_map(|line| {
        let (place, _) = place::leading(line.split(" +0x").next()?)?;
        (!is_dependency(&place.file)).then_some(place)
    })
}

/// A frame is two lines: the function, and its place behind a tab.
fn without_go_frames<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let mut kept: Vec<&str> = Vec::new();
    for line in lines {
        let is_foreign = line.strip_prefix('\t').is_some_and(is_dependency);
        if is_foreign {
            kept.pop();
        } else {
            kept.push(line);
        }
    }
    kept
}
