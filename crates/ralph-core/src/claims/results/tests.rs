//! Recordings of the real tools, each with what a person reads in it: `recorded/TOOL/CASE.txt` and `CASE.expected`.
//!
//! An expected file has a line for each fact: `counts PASSED FAILED SKIPPED`, `failed PLACE | NAME | MESSAGE`,
//! `problem SEVERITY PLACE CODE | MESSAGE` (`-` where there is none), and indented below a test `has TEXT` or `lacks TEXT`
//! about its detail. A message is the start of what was read. All failing tests and problems are listed.

use super::*;
use crate::model::result_format::UnknownResultFormat;
use std::path::{Path, PathBuf};

mod properties;
mod quoting;

const FEWEST_OF_A_RUNNER: usize = 6;
const FEWEST_OF_A_LINTER: usize = 5;

const RUNNERS: &[&str] = &[
    "cargo_test",
    "ctest",
    "exunit",
    "go_test",
    "jest",
    "minitest",
    "mocha",
    "nextest",
    "node_test",
    "phpunit",
    "pytest",
    "rspec",
    "tape",
    "unittest",
    "vitest",
];
const LINTERS: &[&str] = &[
    "clang",
    "eslint",
    "flake8",
    "gcc",
    "go_vet",
    "javac",
    "mypy",
    "pyright",
    "ruff",
    "rustc",
    "shellcheck",
    "tsc",
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/claims/results/recorded")
}

#[expect(clippy::disallowed_methods, reason = "the recordings are files beside the tests")]
fn contents(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).expect("a recording")).into_owned()
}

#[expect(clippy::disallowed_methods, reason = "the recordings are files beside the tests")]
fn listed(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder of recordings");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

/// All recordings of a tool.
fn recordings(tool: &str) -> Vec<PathBuf> {
    let is_expected = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "expected");
    listed(&folder().join(tool)).into_iter().filter(|path| !is_expected(path)).collect()
}

fn all_recordings() -> Vec<PathBuf> {
    let is_folder = |path: &PathBuf| path.is_dir();
    let tools = listed(&folder()).into_iter().filter(is_folder);
    tools.flat_map(|path| recordings(&path.file_name().expect("a name").to_string_lossy())).collect()
}

/// What was read, in the words of an expected file.
struct ReadResults {
    counts: String,
    failed: Vec<(String, String, String, String)>,
    problems: Vec<(String, String)>,
}

fn summarize(results: &Results) -> ReadResults {
    let number = |number: Option<u32>| number.map(|number| format!(":{number}")).unwrap_or_default();
    let place = |file: &Option<String>, line, column| match file {
        Some(file) => format!("{file}{}{}", number(line), number(column)),
        None => "-".to_owned(),
    };
    let counts = results.counts;
    let failed = results.failed_tests().map(|test| {
        (place(&test.file, test.line, None), test.name.clone(), test.message.clone(), test.detail.clone())
    });
    let problems = results.problems.iter().map(|problem| {
        let severity = format!("{:?}", problem.severity).to_lowercase();
        let code = problem.code.as_deref().unwrap_or("-");
        (
            format!("{severity} {} {code}", place(&problem.file, problem.line, problem.column)),
            problem.message.clone(),
        )
    });
    ReadResults {
        counts: format!("counts {} {} {}", counts.passed, counts.failed, counts.skipped),
        failed: failed.collect(),
        problems: problems.collect(),
    }
}

/// Every difference between what was read and what is expected.
fn differences(expected: &str, results: &Results) -> Vec<String> {
    let mut read = summarize(results);
    let mut differences = Vec::new();
    let mut detail = String::new();
    for line in expected.lines().filter(|line| !line.trim().is_empty()) {
        if let Some(rest) = line.strip_prefix("failed ") {
            let parts: Vec<&str> = rest.splitn(3, " | ").collect();
            let is_same = |(place, name, message, _): &(String, String, String, String)| {
                place == parts[0] && name == parts[1] && message.starts_with(parts[2])
            };
            match read.failed.iter().position(is_same) {
                Some(at) => detail = read.failed.remove(at).3,
                None => differences.push(format!("not read: {line}")),
            }
        } else if let Some(rest) = line.strip_prefix("problem ") {
            let (head, message) = rest.split_once(" | ").expect("a message");
            match read.problems.iter().position(|(place, text)| place == head && text.starts_with(message)) {
                Some(at) => drop(read.problems.remove(at)),
                None => differences.push(format!("not read: {line}")),
            }
        } else if let Some(text) = line.strip_prefix("  has ") {
            (!detail.contains(text))
                .then(|| differences.push(format!("not in the detail: {text}\n{detail}")));
        } else if let Some(text) = line.strip_prefix("  lacks ") {
            detail.contains(text).then(|| differences.push(format!("in the detail: {text}\n{detail}")));
        } else if line != read.counts {
            differences.push(format!("expected {line}, read {}", read.counts));
        }
    }
    differences.extend(
        read.failed.iter().map(|test| format!("not expected: failed {} | {} | {}", test.0, test.1, test.2)),
    );
    differences.extend(
        read.problems.iter().map(|(head, message)| format!("not expected: problem {head} | {message}")),
    );
    differences
}

#[test]
fn every_recording_is_read_as_expected() {
    let mut wrong = String::new();
    for path in all_recordings() {
        let name = path.display().to_string();
        let expected = contents(&path.with_extension("expected"));
        let results = read(&contents(&path)).unwrap_or_default();
        for difference in differences(&expected, &results) {
            wrong.push_str(&format!("{name}: {difference}\n"));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_tool_has_enough_recordings() {
    for (tools, fewest) in [(RUNNERS, FEWEST_OF_A_RUNNER), (LINTERS, FEWEST_OF_A_LINTER)] {
        for tool in tools {
            assert!(recordings(tool).len() >= fewest, "{tool}");
        }
    }
}

#[test]
fn a_recording_is_recognised_by_its_own_reader() {
    let first = |tool: &str, case: &str| {
        let results = read(&contents(&folder().join(tool).join(case))).unwrap_or_default();
        results.formats.first().map(|format| format.name()).unwrap_or_default()
    };
    for (tool, format) in [("cargo_test", "cargo-test"), ("go_test", "go-test"), ("tape", "tap")] {
        assert_eq!(first(tool, "twelve_failures.txt"), format);
    }
    let same = [
        "ctest", "exunit", "jest", "minitest", "mocha", "nextest", "phpunit", "pytest", "rspec", "unittest",
        "vitest",
    ];
    for tool in same {
        assert_eq!(first(tool, "twelve_failures.txt"), tool);
    }
    for (tool, format) in
        [("eslint", "eslint"), ("flake8", "flake8"), ("gcc", "gcc"), ("go_vet", "go-vet"), ("javac", "javac")]
    {
        assert_eq!(first(tool, "many.txt"), format);
    }
    for tool in ["mypy", "pyright", "ruff", "rustc", "shellcheck", "tsc"] {
        assert_eq!(first(tool, "many.txt"), tool);
    }
}

#[test]
fn the_name_of_a_format_can_be_written_in_a_config() {
    for format in ResultFormat::ALL {
        assert_eq!(format.name().parse(), Ok(*format));
    }
    assert_eq!("junitt".parse::<ResultFormat>(), Err(UnknownResultFormat("junitt".into())));
}

#[test]
fn results_survive_json() {
    let results = read(&contents(&folder().join("pytest/twelve_failures.txt"))).expect("results");
    let json = serde_json::to_string(&results).expect("JSON");
    assert_eq!(serde_json::from_str::<Results>(&json).expect("results"), results);
}

#[test]
fn a_report_is_read_by_the_name_of_its_format() {
    let report = contents(&folder().join("junit/pytest.txt"));
    let results = read_as(ResultFormat::Junit, &report).expect("results");
    assert_eq!(results.failed_tests().count(), 2);
    assert_eq!(read_as(ResultFormat::Junit, "no report"), None);
    assert_eq!(read_as(ResultFormat::Sarif, "{}"), None);
    let tap = contents(&folder().join("tape/one_failure.txt"));
    assert_eq!(read_as(ResultFormat::Tap, &tap).map(|results| results.counts.failed), Some(1));
    assert_eq!(read_as(ResultFormat::Pytest, &tap), None);
}
