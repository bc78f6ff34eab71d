//! What test runners, compilers and linters print, as data: every test by name, place and outcome, every problem by place
//! and message.
//!
//! A gate's output is cleaned first (`text`): colours, progress that was overwritten, and the prefixes that monorepo
//! tools and CI logs put before each line. Then every reader of a test runner looks for its next *section*, the lines from
//! its first to its last word; the earliest section wins and covers what it quotes, so a runner's output inside another
//! runner's failing test is never read (`sections`). What no section covers is read for compiler and linter problems.
//!
//! Only so much is read: of more than 3 MB the head and the tail, and [`Results::partial`] says so.

mod cargo_test;
mod ctest;
mod detail;
mod eslint;
mod exunit;
mod flake8;
mod formatters;
mod gcc;
mod generic;
mod go_json;
mod go_test;
mod go_vet;
mod javac;
mod jest;
mod junit;
pub mod kept;
mod minitest;
mod mocha;
mod mypy;
mod nextest;
mod node_test;
mod phpunit;
mod place;
mod problems;
mod pyright;
mod pytest;
mod rspec;
mod ruff;
mod rust_panic;
mod rustc;
mod sarif;
mod sections;
mod shellcheck;
mod tap;
mod text;
mod thrown_at;
mod trx;
mod tsc;
mod unittest;
mod vitest;
mod xml;

#[cfg(test)]
mod tests;

use crate::model::result_format::ResultFormat;
use crate::model::results::{CodeProblem, Results, Severity, TestCounts, TestOutcome, TestResult};
use std::collections::{HashMap, HashSet};

impl TestResult {
    fn new(name: impl Into<String>, outcome: TestOutcome) -> Self {
        Self {
            name: name.into(),
            file: None,
            line: None,
            outcome,
            message: String::new(),
            detail: String::new(),
        }
    }

    fn failed(name: impl Into<String>) -> Self {
        Self::new(name, TestOutcome::Failed)
    }

    fn at(mut self, place: Option<place::SourcePlace>) -> Self {
        if let Some(place) = place {
            self.file = Some(place.file);
            self.line = place.line;
        }
        self
    }
}

impl TestCounts {
    fn of(tests: &[TestResult]) -> Self {
        let count = |outcome| tests.iter().filter(|test| test.outcome == outcome).count();
        Self {
            passed: count(TestOutcome::Passed),
            failed: count(TestOutcome::Failed),
            skipped: count(TestOutcome::Skipped),
        }
    }

    /// The larger of each: a summary counts tests that are not listed, and a list has crashes that no summary counts.
    fn or_more(self, other: Self) -> Self {
        Self {
            passed: self.passed.max(other.passed),
            failed: self.failed.max(other.failed),
            skipped: self.skipped.max(other.skipped),
        }
    }

    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl Results {
    fn is_empty(&self) -> bool {
        self.formats.is_empty()
    }

    /// Only what one format said; with several in one output the others are dropped.
    fn only(mut self, format: ResultFormat) -> Self {
        if !self.formats.contains(&format) {
            return Self::default();
        }
        self.formats = vec![format];
        self
    }

    fn add_format(&mut self, format: ResultFormat) {
        if !self.formats.contains(&format) {
            self.formats.push(format);
        }
    }

    fn add_problem(&mut self, format: ResultFormat, problem: CodeProblem) {
        self.add_format(format);
        self.problems.push(problem);
    }

    /// Compilers repeat a problem for each target that is built from the file.
    fn drop_repeated_problems(&mut self) {
        let mut seen = HashSet::new();
        let is_first: Vec<bool> = self.problems.iter().map(|problem| seen.insert(problem)).collect();
        let mut is_first = is_first.into_iter();
        self.problems.retain(|_| is_first.next().unwrap_or(true));
        self.drop_repeated_without_code();
    }

    /// Some tools say on the side what they list with its code as well.
    fn drop_repeated_without_code(&mut self) {
        let mut coded: HashMap<Option<u32>, Vec<&CodeProblem>> = HashMap::new();
        for problem in self.problems.iter().filter(|problem| problem.code.is_some()) {
            coded.entry(problem.line).or_default().push(problem);
        }
        let is_listed = |problem: &CodeProblem| {
            let file = problem.file.as_deref().unwrap_or_default();
            let at_same_line = coded.get(&problem.line).into_iter().flatten().take(100);
            let is_same = |other: &&CodeProblem| {
                other.message.ends_with(&problem.message)
                    && other.file.as_deref().is_some_and(|other| place::same_file(other, file))
            };
            problem.code.is_none()
                && problem.line.is_some()
                && at_same_line.copied().any(|other| is_same(&other))
        };
        let keeps: Vec<bool> = self.problems.iter().map(|problem| !is_listed(problem)).collect();
        let mut keeps = keeps.into_iter();
        self.problems.retain(|_| keeps.next().unwrap_or(true));
    }

    /// In CI some runners repeat each failing test as an annotation. What it says more, the line, goes to the test.
    fn drop_annotations_of_tests(&mut self) {
        if self.counts.failed == 0 {
            return;
        }
        let tests = &mut self.tests;
        self.problems.retain(|problem| {
            let file = problem.file.as_deref().unwrap_or_default();
            let is_same = |test: &TestResult| {
                let said = !test.message.is_empty() && problem.message.starts_with(&test.message);
                let is_there = test.file.as_deref().is_some_and(|known| place::same_file(known, file));
                // It may point into the code that threw, and not into the test.
                let is_said_elsewhere = said && test.message.len() > 12;
                let is_at_same_line = is_there && test.line == problem.line && problem.code.is_none();
                test.outcome == TestOutcome::Failed
                    && (is_said_elsewhere || said && is_there || is_at_same_line)
            };
            // Only so many are compared: a run with thousands of failures is not explained by its annotations.
            let Some(test) = tests.iter_mut().take(1_000).find(|test| is_same(test)) else { return true };
            let is_there = test.file.as_deref().is_some_and(|known| place::same_file(known, file));
            test.line = test.line.or(problem.line.filter(|_| is_there));
            false
        });
    }

    /// Adds what another report file says.
    pub fn merge(&mut self, other: Self) {
        for format in other.formats {
            self.add_format(format);
        }
        self.tests.extend(other.tests);
        self.problems.extend(other.problems);
        self.counts.add(other.counts);
        self.partial |= other.partial;
        self.left_out += other.left_out;
    }

    fn add_section(&mut self, section: sections::Section) {
        self.add_format(section.format);
        self.counts.add(section.counts.or_more(TestCounts::of(&section.tests)));
        if self.tests.is_empty() {
            self.tests = section.tests;
        } else {
            self.tests.extend(section.tests);
        }
        for problem in section.problems {
            self.add_problem(section.format, problem);
        }
    }
}

/// Reads a gate's output, whatever tools it ran. `None` if nothing in it was recognised.
pub fn read(output: &str) -> Option<Results> {
    if let Some(results) = read_report(output) {
        return Some(results);
    }
    let streams = text::Streams::of(output);
    let mut results = Results { partial: streams.partial, ..Results::default() };
    for lines in streams.lists() {
        read_stream(&lines, &mut results);
    }
    results.drop_repeated_problems();
    results.drop_annotations_of_tests();
    results.tests.iter_mut().for_each(thrown_at::complete);
    (!results.is_empty()).then_some(results)
}

/// Reads a report file or an output that is known to be in one format. `None` if it is not.
pub fn read_as(format: ResultFormat, text: &str) -> Option<Results> {
    let (report, partial) = text::bounded_report(text);
    let mut results = Results { partial, ..Results::default() };
    match format {
        ResultFormat::Junit => results.tests = junit::tests(report),
        ResultFormat::Trx => results.tests = trx::tests(report),
        ResultFormat::Sarif => results.problems = sarif::problems(report)?,
        _ => return read(text).map(|results| results.only(format)).filter(|results| !results.is_empty()),
    }
    let is_report =
        format == ResultFormat::Sarif || report.contains("<testsuite") || report.contains("<TestRun");
    results.counts = TestCounts::of(&results.tests);
    results.formats = vec![format];
    is_report.then_some(results)
}

/// An output that is a report and nothing else.
fn read_report(output: &str) -> Option<Results> {
    let start = output.trim_start_matches(['\u{feff}', ' ', '\n', '\r', '\t']);
    let head = &start[..start.floor_char_boundary(2_000)];
    if start.starts_with('{') && head.contains("\"runs\"") || head.contains("sarif") && start.starts_with('{')
    {
        return read_as(ResultFormat::Sarif, start);
    }
    if !start.starts_with('<') {
        return None;
    }
    let format = if head.contains("<TestRun") { ResultFormat::Trx } else { ResultFormat::Junit };
    let is_known = head.contains("<TestRun") || head.contains("<testsuite");
    is_known.then(|| read_as(format, start))?
}

fn read_stream(lines: &[&str], results: &mut Results) {
    let mut free_from = 0;
    let sections = sections::all(lines);
    let has_failure =
        |section: &sections::Section| section.tests.iter().any(|test| test.outcome == TestOutcome::Failed);
    let last_failing = sections.iter().rposition(has_failure);
    for (at, section) in sections.into_iter().enumerate() {
        let range = section.lines.clone();
        let free = &lines[free_from..range.start];
        if last_failing.is_some_and(|last| at <= last) {
            problems::read_before_failing_tests(free, results);
        } else {
            problems::read(free, results);
        }
        results.add_section(section);
        free_from = range.end;
    }
    problems::read(&lines[free_from..], results);
}
