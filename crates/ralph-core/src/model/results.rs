//! Tests and problems from a gate's output or report files, as data. The parsers are in `claims::results`.

use crate::model::result_format::ResultFormat;
use serde::{Deserialize, Serialize};

/// How a test ended; to-do and expected failures count as skipped.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestOutcome {
    Passed,
    Failed,
    Skipped,
}

/// One test of a run. A test file or package that failed to load counts as a failed test of that name.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestResult {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    pub outcome: TestOutcome,
    /// The failure in one line; empty if there is none or nothing was printed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The runner's output about it, with expected and actual values but without stack frames in dependencies.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// The severity reported by the tool, the worst first.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Error,
    Warning,
    Note,
}

/// A compiler's or linter's finding in a file.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CodeProblem {
    /// None for problems with the tool's own settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    pub severity: Severity,
    /// The rule or error number, for example `E0308` or `no-unused-vars`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    pub message: String,
}

/// Test counts by outcome.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestCounts {
    pub passed: usize,
    pub failed: usize,
    pub skipped: usize,
}

impl TestCounts {
    pub fn total(self) -> usize {
        self.passed + self.failed + self.skipped
    }
}

/// Everything recognised in an output or a report file.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Results {
    /// The tools whose output was recognised, each once, in order of appearance.
    pub formats: Vec<ResultFormat>,
    /// All failing tests; passing and skipped ones if the runner lists them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<TestResult>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<CodeProblem>,
    /// As printed by the runners; many list only the failing tests.
    pub counts: TestCounts,
    /// Whether the middle of a very long output was skipped.
    #[serde(default, skip_serializing_if = "is_false")]
    pub partial: bool,
    /// Failing tests and problems that were left out to keep the list short.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: usize,
    /// Everything that ran, by name: only in the memory of the process that ran it.
    #[serde(skip)]
    pub whole: WholeRun,
}

/// The names of a whole run, which are too many for a ledger line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WholeRun {
    /// Every test that ran, passed or failed; none if the runner does not list them all.
    pub tests: Option<Vec<String>>,
    /// Every failing test and problem by its identity.
    pub failing: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(value: &bool) -> bool {
    !value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(value: &usize) -> bool {
    *value == 0
}

/// A failing test or a problem: one entry of a failure list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure<'a> {
    pub file: Option<&'a str>,
    pub line: Option<u32>,
    pub column: Option<u32>,
    /// The test's name, or the problem's code.
    pub name: Option<&'a str>,
    pub message: &'a str,
    pub detail: &'a str,
    pub severity: Severity,
    kind: FailureKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FailureKind {
    Test,
    Problem,
}

impl<'a> Failure<'a> {
    fn of_test(test: &'a TestResult) -> Self {
        Self {
            file: test.file.as_deref(),
            line: test.line,
            column: None,
            name: Some(&test.name),
            message: &test.message,
            detail: &test.detail,
            severity: Severity::Error,
            kind: FailureKind::Test,
        }
    }

    fn of_problem(problem: &'a CodeProblem) -> Self {
        Self {
            file: problem.file.as_deref(),
            line: problem.line,
            column: problem.column,
            name: problem.code.as_deref(),
            message: &problem.message,
            detail: "",
            severity: problem.severity,
            kind: FailureKind::Problem,
        }
    }

    pub fn is_test(&self) -> bool {
        self.kind == FailureKind::Test
    }

    /// Identifies the failure across attempts, without line numbers, which move with every edit.
    pub fn identity(&self) -> String {
        match self.kind {
            FailureKind::Test => self.name.unwrap_or_default().to_owned(),
            FailureKind::Problem => {
                let parts = [self.file, self.name, Some(self.message)];
                parts.into_iter().flatten().collect::<Vec<_>>().join(": ")
            }
        }
    }

    /// `src/a.rs:12:5`, without unknown parts.
    pub fn place(&self) -> Option<String> {
        let numbers = [self.line, self.line.and(self.column)].into_iter().flatten();
        self.file.map(|file| numbers.fold(file.to_owned(), |place, number| format!("{place}:{number}")))
    }
}

impl Results {
    pub fn failed_tests(&self) -> impl Iterator<Item = &TestResult> {
        self.tests.iter().filter(|test| test.outcome == TestOutcome::Failed)
    }

    /// Every failing test, then the problems that can have failed the command: warnings only if there are no errors.
    pub fn failures(&self) -> Vec<Failure<'_>> {
        let tests = self.failed_tests().map(Failure::of_test);
        let problems = self.decisive_problems().map(Failure::of_problem);
        tests.chain(problems).collect()
    }

    /// Whether a failing test or an error explains the failure; warnings do not.
    pub fn explain_failure(&self) -> bool {
        let has_error = self.problems.iter().any(|problem| problem.severity == Severity::Error);
        has_error || self.failed_tests().next().is_some()
    }

    fn decisive_problems(&self) -> impl Iterator<Item = &CodeProblem> {
        let worst = if self.explain_failure() {
            Some(Severity::Error)
        } else {
            self.problems.iter().map(|problem| problem.severity).min()
        };
        self.problems.iter().filter(move |problem| Some(problem.severity) == worst)
    }

    /// Makes absolute paths below a folder relative to it.
    pub fn name_files_from(&mut self, folder: &str) {
        let folder = folder.trim_end_matches('/');
        for test in &mut self.tests {
            test.message = test.message.replace(&format!("(at {folder}/"), "(at ");
        }
        let tests = self.tests.iter_mut().map(|test| &mut test.file);
        let problems = self.problems.iter_mut().map(|problem| &mut problem.file);
        for file in tests.chain(problems).flatten() {
            if let Some(inside) = file.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/')) {
                *file = inside.to_owned();
            }
        }
    }

    /// Every failing test and problem by its identity; as many as are known.
    pub fn failing_identities(&self) -> Vec<String> {
        if self.left_out == 0 || self.whole.failing.is_empty() {
            return self.failures().iter().map(Failure::identity).collect();
        }
        self.whole.failing.clone()
    }

    /// Keeps the names of everything, before entries are left out.
    pub fn remember_whole_run(&mut self) {
        let ran = || self.tests.iter().filter(|test| test.outcome != TestOutcome::Skipped);
        let counted = self.counts.passed + self.counts.failed;
        let is_whole = !self.partial && counted > 0 && ran().count() == counted;
        self.whole = WholeRun {
            tests: is_whole.then(|| ran().map(|test| test.name.clone()).collect()),
            failing: self.failures().iter().map(Failure::identity).collect(),
        };
    }

    /// Keeps at most `most` entries that can have failed the command; none if it passed.
    pub fn keep_failures(&mut self, passed: bool, most: usize) {
        if passed {
            self.tests.clear();
            self.problems.clear();
            return;
        }
        let problems: Vec<CodeProblem> = self.decisive_problems().cloned().collect();
        self.problems = problems;
        self.tests.retain(|test| test.outcome == TestOutcome::Failed);
        let all = self.tests.len().max(self.counts.failed) + self.problems.len();
        self.tests.truncate(most);
        self.problems.truncate(most - self.tests.len());
        self.left_out = all - self.tests.len() - self.problems.len();
    }
}
