//! shellcheck: `In a.sh line 2:`, the source, and below it a mark with `SC2086 (info): message` for each problem.

use super::place::SourcePlace;
use super::problems::{Found, problem};
use super::{CodeProblem, ResultFormat, Severity, place};

pub(super) fn read_at(lines: &[&str]) -> Option<Found> {
    let (file, number) = lines[0].strip_prefix("In ")?.strip_suffix(':')?.rsplit_once(" line ")?;
    let number: u32 = number.parse().ok()?;
    let marks = lines.iter().skip(2).take_while(|line| line.contains('^'));
    let problems: Vec<CodeProblem> = marks.filter_map(|line| marked(file, number, line)).collect();
    let length = 2 + problems.len();
    (!problems.is_empty()).then_some(Found { format: ResultFormat::Shellcheck, problems, length })
}

/// `         ^-^ SC2115 (warning): message`
fn marked(file: &str, number: u32, line: &str) -> Option<CodeProblem> {
    let (marks, rest) = line.split_once(" SC")?;
    let (digits, rest) = rest.split_once(" (")?;
    let (word, message) = rest.split_once("): ")?;
    let severity = match word {
        "error" => Severity::Error,
        "warning" => Severity::Warning,
        _ => Severity::Note,
    };
    let column = marks.chars().position(|c| c == '^').and_then(|at| u32::try_from(at + 1).ok());
    let place = SourcePlace { file: place::tidy_path(file), line: Some(number), column };
    Some(problem(place, severity, Some(&format!("SC{digits}")), message))
}
