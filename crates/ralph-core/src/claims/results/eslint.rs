//! eslint: a file's path alone on a line, then a row for each problem, `  4:14  warning  message  rule`.

use super::place::SourcePlace;
use super::problems::{Found, problem, without_place};
use super::text::{has_source_extension, is_blank};
use super::{CodeProblem, ResultFormat, Severity, detail, place};

const FORMAT: ResultFormat = ResultFormat::Eslint;

pub(super) fn read_at(lines: &[&str]) -> Option<Found> {
    if lines[0] == "Oops! Something went wrong! :(" {
        return crash(lines);
    }
    if lines[0].starts_with(' ') {
        return None;
    }
    if has_source_extension(lines[0].trim_end()) {
        let problems: Vec<CodeProblem> = lines[1..].iter().map_while(|line| row(lines[0], line)).collect();
        let length = 1 + problems.len();
        return (!problems.is_empty()).then_some(Found { format: FORMAT, problems, length });
    }
    other_formats(lines[0])
}

fn row(file: &str, line: &str) -> Option<CodeProblem> {
    let (position, rest) = line.strip_prefix("  ")?.trim_start().split_once(' ')?;
    let (line, column) = position.split_once(':')?;
    let (word, message) = rest.trim_start().split_once("  ")?;
    let severity = match word {
        "error" => Severity::Error,
        "warning" => Severity::Warning,
        _ => return None,
    };
    // The rule stands in a column of its own; an error of the parser has none.
    let (message, rule) = match message.trim().rsplit_once("  ") {
        Some((message, rule)) if !rule.contains(' ') => (message, Some(rule)),
        _ => (message, None),
    };
    let place =
        SourcePlace { file: place::tidy_path(file), line: line.parse().ok(), column: column.parse().ok() };
    place.line?;
    Some(problem(place, severity, rule, message))
}

/// `file:1:2: message [Error/rule]` and `file: line 1, col 2, Error - message (rule)`
fn other_formats(line: &str) -> Option<Found> {
    if let Some((head, rule)) = line.strip_suffix(']').and_then(|line| line.rsplit_once(" [")) {
        let (word, rule) = rule.split_once('/').unwrap_or((rule, ""));
        let severity = severity(word)?;
        let (place, message) = place::leading(head)?;
        let code = Some(rule).filter(|rule| !rule.is_empty());
        return Found::one(FORMAT, problem(place, severity, code, message.strip_prefix(": ")?), 1);
    }
    let (file, rest) = line.split_once(": line ")?;
    let (number, rest) = rest.split_once(", col ")?;
    let (column, rest) = rest.split_once(", ")?;
    let (word, message) = rest.split_once(" - ")?;
    let severity = severity(word)?;
    let (message, code) = match message.strip_suffix(')').and_then(|text| text.rsplit_once(" (")) {
        Some((message, rule)) => (message, Some(rule)),
        None => (message, None),
    };
    let place =
        SourcePlace { file: place::tidy_path(file), line: number.parse().ok(), column: column.parse().ok() };
    Found::one(FORMAT, problem(place, severity, code, message), 1)
}

fn severity(word: &str) -> Option<Severity> {
    match word {
        "Error" => Some(Severity::Error),
        "Warning" => Some(Severity::Warning),
        _ => None,
    }
}

/// eslint itself failed, mostly because of its settings.
fn crash(lines: &[&str]) -> Option<Found> {
    let version = lines.iter().take(5).position(|line| line.starts_with("ESLint: "))?;
    let said = lines[version + 1..].iter().find(|line| !is_blank(line))?;
    let frames = lines[version + 1..]
        .iter()
        .take_while(|line| is_blank(line) || line.starts_with("    at ") || *line == said);
    let mut found = without_place(Severity::Error, "");
    found.message = detail::message([*said]);
    Found::one(FORMAT, found, version + 1 + frames.count())
}
