//! ruff: `F401 [*] message` and ` --> a.py:1:8` below it, or in one line, `a.py:1:8: F401 [*] message`.

use super::flake8::{code_and_message, coded_line};
use super::place::{SourcePlace, tidy_path};
use super::problems::{Found, problem, without_place};
use super::text::has_source_extension;
use super::{CodeProblem, ResultFormat, Severity, place};

const FORMAT: ResultFormat = ResultFormat::Ruff;

pub(super) fn read_at(lines: &[&str]) -> Option<Found> {
    if lines[0] == "ruff failed" {
        let cause = lines.get(1)?.trim_start().strip_prefix("Cause: ")?;
        return Found::one(FORMAT, without_place(Severity::Error, cause), 2);
    }
    if let Some(rest) = lines[0].strip_prefix("error: Failed to parse ") {
        let (place, message) = place::leading(rest)?;
        return Found::one(FORMAT, problem(place, Severity::Error, None, message.strip_prefix(": ")?), 1);
    }
    if lines[0] == "All checks passed!" {
        return Found::nothing(FORMAT, 1);
    }
    concise(lines).or_else(|| full(lines)).or_else(|| grouped(lines))
}

/// `a.py:`, then a row for each problem: `  1:8 F401 [*] message`.
fn grouped(lines: &[&str]) -> Option<Found> {
    let file =
        lines[0].strip_suffix(':').filter(|file| has_source_extension(file) && !file.starts_with(' '))?;
    let row = |line: &&str| {
        let (position, rest) = line.strip_prefix("  ")?.trim_start().split_once(' ')?;
        let (number, column) = position.split_once(':')?;
        let (code, message) = code_and_message(rest.trim_start())?;
        let place =
            SourcePlace { file: tidy_path(file), line: number.parse().ok(), column: column.parse().ok() };
        Some(problem(place, Severity::Error, Some(code), message))
    };
    let problems: Vec<CodeProblem> = lines[1..].iter().map_while(row).collect();
    let length = 1 + problems.len();
    (!problems.is_empty()).then_some(Found { format: FORMAT, problems, length })
}

/// A block of lines is ruff's if one of them can be fixed, or ruff's own count follows.
fn concise(lines: &[&str]) -> Option<Found> {
    coded_line(lines[0])?;
    let problems: Vec<CodeProblem> = lines.iter().map_while(|line| coded_line(line)).collect();
    let length = problems.len();
    let can_fix = lines[..length].iter().any(|line| line.contains(" [*] ") || line.contains(" [-] "));
    let is_counted =
        lines.get(length).is_some_and(|line| line.starts_with("Found ") && line.contains(" error"));
    (can_fix || is_counted).then_some(Found { format: FORMAT, problems, length })
}

fn full(lines: &[&str]) -> Option<Found> {
    let place = lines.get(1)?.trim_start().strip_prefix("--> ")?;
    let (place, _) = place::leading(place)?;
    let (code, message) = match lines[0].split_once(": ") {
        Some((name @ ("invalid-syntax" | "unformatted"), message)) => (name, message),
        _ => code_and_message(lines[0])?,
    };
    let shown = lines[2..].iter().take_while(|line| {
        let text = line.trim_start();
        text.starts_with('|')
            || text.starts_with(|c: char| c.is_ascii_digit()) && line.contains('|')
            || text.starts_with("help: ")
    });
    Found::one(FORMAT, problem(place, Severity::Error, Some(code), message), 2 + shown.count())
}
