//! cargo test: for each test binary from `running 3 tests` to `test result: …`.

use super::place::SourcePlace;
use super::sections::Section;
use super::text::leading_number;
use super::{ResultFormat, TestCounts, TestOutcome, TestResult, detail, rust_panic};
use std::collections::HashSet;

/// Headers without an end, for example quoted ones: after so many nothing is looked for, since each may read the rest.
const MOST_UNENDED: usize = 16;

pub(super) fn next_section(lines: &[&str], from: usize) -> Option<Section> {
    let headers = (from..lines.len()).filter_map(|at| Some((at, announced(lines[at])?)));
    headers.take(MOST_UNENDED).find_map(|(header, announced)| {
        // The program that ran stands a line or two above.
        let named =
            (from.max(header.saturating_sub(3))..header).rev().find(|&at| binary(lines[at]).is_some());
        let run = Run { lines, header, announced, binary: named.and_then(|at| binary(lines[at])) };
        run.read(named.unwrap_or(header))
    })
}

/// How many tests a line says are run.
fn announced(line: &str) -> Option<usize> {
    let (count, rest) = leading_number(line.strip_prefix("running ")?)?;
    matches!(rest, " test" | " tests").then_some(count)
}

/// The source file in `Running unittests src/lib.rs (target/…)` or `Running tests/prices.rs (…)`.
fn binary(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let rest = line.strip_prefix("Running ").or_else(|| line.strip_prefix("Doc-tests "))?;
    let rest = rest.strip_prefix("unittests ").unwrap_or(rest);
    rest.split(" (").next()
}

fn result_counts(line: &str) -> Option<TestCounts> {
    let rest = line.strip_prefix("test result: ")?;
    let (_, counts) = rest.split_once(". ")?;
    let mut words = super::text::counted_words(counts);
    let mut next = |name: &str| words.next().filter(|(_, word)| *word == name).map(|(count, _)| count);
    Some(TestCounts { passed: next("passed")?, failed: next("failed")?, skipped: next("ignored")? })
}

struct Run<'a> {
    lines: &'a [&'a str],
    header: usize,
    announced: usize,
    binary: Option<&'a str>,
}

impl Run<'_> {
    fn read(&self, start: usize) -> Option<Section> {
        let progress_end = self.progress_end();
        let seen = self.progress(progress_end);
        // With `--nocapture` what a test prints may look like the end of the progress: then all lines are asked.
        let found =
            self.end(&self.started(progress_end)).or_else(|| self.end(&self.started(self.lines.len())));
        let Some((end, listed)) = found else { return self.aborted(start) };
        let mut section = Section::new(ResultFormat::CargoTest, start..end + 1);
        section.counts = result_counts(self.lines[end]).unwrap_or_default();
        let details = self.details(progress_end, end, &listed);
        for &name in &listed {
            let shown = details.iter().find(|(title, _)| *title == name);
            // With `--nocapture` there is no block: the panic stands among the lines of the tests.
            let all = &self.lines[self.header + 1..end];
            section
                .tests
                .push(self.failed_test(name, shown.map_or_else(|| panic_of(name, all), |(_, lines)| lines)));
        }
        let others = seen.iter().filter(|(_, outcome)| *outcome != TestOutcome::Failed);
        section.tests.extend(others.map(|(name, outcome)| TestResult::new(*name, *outcome)));
        Some(section)
    }

    /// The tests that have a line before `end`, whatever their outcome, sorted by name.
    fn started(&self, end: usize) -> Vec<&str> {
        let mut names: Vec<&str> =
            self.lines[self.header + 1..end].iter().filter_map(|line| started(line)).collect();
        names.sort_unstable();
        names
    }

    /// Where the lines of single tests end: at the first `failures:` or result.
    fn progress_end(&self) -> usize {
        let rest = &self.lines[self.header + 1..];
        let ends = |line: &&str| **line == *"failures:" || self.is_result(line);
        self.header + 1 + rest.iter().position(ends).unwrap_or(rest.len())
    }

    fn is_result(&self, line: &str) -> bool {
        result_counts(line)
            .is_some_and(|counts| counts.total() <= self.announced && counts.total() + 9 >= self.announced)
    }

    /// The tests that have a line of their own, `test name ... ok`.
    fn progress(&self, end: usize) -> Vec<(&str, TestOutcome)> {
        self.lines[self.header + 1..end].iter().filter_map(|line| progress_line(line)).collect()
    }

    /// The line of the result, and the failing tests listed before it. A result that a test quotes has another number of
    /// tests, or lists tests that this run did not report.
    fn end(&self, started: &[&str]) -> Option<(usize, Vec<&str>)> {
        (self.header + 1..self.lines.len()).find_map(|at| {
            let counts = result_counts(self.lines[at])?;
            let listed = self.listed(at);
            let is_known =
                started.is_empty() || listed.iter().all(|name| started.binary_search(name).is_ok());
            let is_whole = counts.total() == self.announced && listed.len() == counts.failed;
            (is_whole && is_known).then_some((at, listed))
        })
    }

    /// The names below the last `failures:` before a result.
    fn listed(&self, result: usize) -> Vec<&str> {
        let above = &self.lines[self.header + 1..result];
        let mut names: Vec<&str> = Vec::new();
        for line in above.iter().rev() {
            if *line == "failures:" {
                names.reverse();
                return names;
            }
            if let Some(name) = line.strip_prefix("    ") {
                names.push(name);
            } else if !line.is_empty() {
                break;
            }
        }
        Vec::new()
    }

    fn details(&self, start: usize, end: usize, listed: &[&str]) -> Vec<(&str, &[&str])> {
        let listed: HashSet<&str> = listed.iter().copied().collect();
        let mut titles: Vec<(usize, &str)> = Vec::new();
        let last = (start..end).rev().find(|&at| self.lines[at] == "failures:").unwrap_or(end);
        for at in start..last {
            let title = self.lines[at].strip_prefix("---- ").and_then(|line| line.strip_suffix(" ----"));
            let name = title
                .and_then(|title| title.strip_suffix(" stdout").or_else(|| title.strip_suffix(" stderr")));
            if let Some(name) = name.filter(|name| listed.contains(name)) {
                titles.push((at, name));
            }
        }
        let ends = titles.iter().skip(1).map(|(at, _)| *at).chain([last]);
        titles.iter().zip(ends).map(|((at, name), end)| (*name, &self.lines[at + 1..end])).collect()
    }

    fn failed_test(&self, name: &str, shown: &[&str]) -> TestResult {
        let mut test = TestResult::failed(name);
        rust_panic::describe(&mut test, shown);
        if let Some((file, line)) = doc_test_place(name) {
            test.file = Some(file.to_owned());
            test.line = Some(line);
        } else if test.file.is_none() {
            test.file = self.binary.filter(|path| path.ends_with(".rs")).map(str::to_owned);
        }
        test
    }

    /// The program ended before its result: it was killed, or a test ended the process.
    fn aborted(&self, start: usize) -> Option<Section> {
        let rest = &self.lines[self.header + 1..];
        let length = rest.iter().position(|line| line.starts_with("error: test failed"))?;
        let below = &rest[length..];
        let cause = below.iter().take(5).position(|line| line.contains("process didn't exit successfully"));
        let end = (self.header + 1 + length + cause.map_or(1, |at| at + 1)).min(self.lines.len());
        let mut section = Section::new(ResultFormat::CargoTest, start..end);
        section.tests.extend(
            self.progress(self.header + 1 + length)
                .into_iter()
                .map(|(name, outcome)| TestResult::new(name, outcome)),
        );
        if let (Some(cause), Some(binary)) = (cause, self.binary) {
            let mut test = TestResult::failed(binary).at(Some(SourcePlace::file(binary)));
            test.message = detail::message([below[cause]]);
            test.detail = detail::of(&rest[..length]);
            section.tests.push(test);
        }
        Some(section)
    }
}

/// The name in `test name ...`, whatever follows, or in the quiet `name --- FAILED`.
fn started(line: &str) -> Option<&str> {
    if let Some(name) = line.strip_suffix(" --- FAILED") {
        return Some(name);
    }
    let rest = line.strip_prefix("test ")?;
    let name = rest.strip_suffix(" ...").or_else(|| rest.split_once(" ... ").map(|(name, _)| name))?;
    Some(without_remark(name))
}

fn without_remark(name: &str) -> &str {
    let remarks = [" - should panic", " - compile fail", " - compile"];
    remarks.iter().find_map(|remark| name.strip_suffix(remark)).unwrap_or(name)
}

/// The lines of one test's panic among those of others.
fn panic_of<'a>(name: &str, lines: &'a [&'a str]) -> &'a [&'a str] {
    let title = format!("thread '{name}'");
    let Some(start) = lines.iter().position(|line| line.starts_with(&title)) else { return &[] };
    let rest = &lines[start + 1..];
    let is_other = |line: &&str| line.starts_with("test ") || **line == *"FAILED";
    let length = rest.iter().position(is_other).unwrap_or(rest.len());
    &lines[start..=start + length]
}

fn progress_line(line: &str) -> Option<(&str, TestOutcome)> {
    // The quiet form names only the failing ones.
    if let Some(name) = line.strip_suffix(" --- FAILED") {
        return Some((name, TestOutcome::Failed));
    }
    let (name, word) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let name = without_remark(name);
    let outcome = match word.split([' ', ',']).next()? {
        "ok" => TestOutcome::Passed,
        "FAILED" => TestOutcome::Failed,
        "ignored" => TestOutcome::Skipped,
        _ => return None,
    };
    Some((name, outcome))
}

/// `src/lib.rs - discount (line 5)`
fn doc_test_place(name: &str) -> Option<(&str, u32)> {
    let (file, rest) = name.split_once(" - ")?;
    let (_, line) = rest.strip_suffix(')')?.rsplit_once("(line ")?;
    Some((file, line.parse().ok()?))
}
