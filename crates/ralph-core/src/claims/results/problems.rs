//! Compiler and linter problems in the lines that no test runner printed.

use super::place::SourcePlace;
use super::{
    CodeProblem, ResultFormat, Results, Severity, eslint, exunit, flake8, formatters, gcc, generic, go_vet,
    javac, mypy, pyright, ruff, rustc, shellcheck, tsc,
};

/// What a reader found at the start of the lines it was given.
pub(super) struct Found {
    pub(super) format: ResultFormat,
    pub(super) problems: Vec<CodeProblem>,
    /// How many lines it read.
    pub(super) length: usize,
}

impl Found {
    pub(super) fn one(format: ResultFormat, problem: CodeProblem, length: usize) -> Option<Self> {
        Some(Self { format, problems: vec![problem], length })
    }

    /// Lines that are the tool's own, but no problem: no other reader may take them for one.
    pub(super) fn nothing(format: ResultFormat, length: usize) -> Option<Self> {
        Some(Self { format, problems: Vec::new(), length })
    }
}

/// Reads a problem at the start of the lines, if there is one.
pub(super) type ReadProblem = fn(&[&str]) -> Option<Found>;

/// In order: the more a format asks of a line, the earlier it is tried.
pub(super) const READERS: &[ReadProblem] = &[
    rustc::read_at,
    eslint::read_at,
    pyright::read_at,
    tsc::read_at,
    mypy::read_at,
    ruff::read_at,
    flake8::read_at,
    shellcheck::read_at,
    javac::read_at,
    go_vet::read_at,
    gcc::read_at,
    formatters::read_at,
    exunit::read_at,
    generic::read_at,
];

pub(super) fn read(lines: &[&str], results: &mut Results) {
    read_all(lines, results, |_| true);
}

/// Reads what stands before failing tests: what they print about a crash is no problem of its own.
pub(super) fn read_before_failing_tests(lines: &[&str], results: &mut Results) {
    read_all(lines, results, |lines| !generic::is_crash(lines[0]) || generic::ends_program(lines));
}

fn read_all(lines: &[&str], results: &mut Results, counts: impl Fn(&[&str]) -> bool) {
    let mut at = 0;
    while at < lines.len() {
        let rest = &lines[at..];
        let found = if rest[0].is_empty() { None } else { READERS.iter().find_map(|read_at| read_at(rest)) };
        let Some(found) = found else {
            at += 1;
            continue;
        };
        at += found.length.max(1);
        if found.format == ResultFormat::Generic && !counts(rest) {
            continue;
        }
        for problem in found.problems {
            results.add_problem(found.format, problem);
        }
    }
}

pub(super) fn problem(
    place: SourcePlace,
    severity: Severity,
    code: Option<&str>,
    message: &str,
) -> CodeProblem {
    CodeProblem {
        file: Some(place.file),
        line: place.line,
        column: place.column,
        severity,
        code: code.map(str::to_owned),
        message: super::detail::message([message]),
    }
}

pub(super) fn without_place(severity: Severity, message: &str) -> CodeProblem {
    CodeProblem {
        file: None,
        line: None,
        column: None,
        severity,
        code: None,
        message: super::detail::message([message]),
    }
}

/// `error: message`, `warning: message`, …: the severity and the message.
pub(super) fn severity(text: &str) -> Option<(Severity, &str)> {
    let (word, message) = text.split_once(": ")?;
    let severity = match word.trim().to_ascii_lowercase().as_str() {
        "error" | "fatal error" | "fatal" | "err" => Severity::Error,
        "warning" | "warn" => Severity::Warning,
        "note" | "info" | "information" | "hint" | "style" => Severity::Note,
        _ => return None,
    };
    Some((severity, message.trim()))
}

/// A code in brackets at the end: `message  [code]`.
pub(super) fn trailing_code(message: &str) -> (&str, Option<&str>) {
    let Some((text, code)) = message.strip_suffix(']').and_then(|text| text.rsplit_once('[')) else {
        return (message, None);
    };
    let looks_right =
        !code.is_empty() && code.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_+=/:.".contains(&b));
    if looks_right && text.ends_with(' ') { (text.trim_end(), Some(code)) } else { (message, None) }
}

/// The column of the first mark in a line such as `     ^~~~`, counted from 1.
pub(super) fn marked_column(line: &str) -> Option<u32> {
    let is_marks = line.contains('^') && line.trim().chars().all(|c| matches!(c, '^' | '~' | '-'));
    let at = line.chars().position(|c| c == '^').filter(|_| is_marks)?;
    u32::try_from(at + 1).ok()
}
