//! javac: `src/A.java:3: error: message`, the source, a mark; and the same errors as Maven prints them.

use super::place::SourcePlace;
use super::problems::{Found, marked_column, problem, severity, without_place};
use super::{ResultFormat, Severity, place};

const FORMAT: ResultFormat = ResultFormat::Javac;

pub(super) fn read_at(lines: &[&str]) -> Option<Found> {
    if lines[0].starts_with("error: invalid flag: ") {
        let message = lines[0].trim_start_matches("error: ");
        return Found::one(FORMAT, without_place(Severity::Error, message), 1);
    }
    if !lines[0].contains(".java") && !lines[0].contains(".kt") {
        return None;
    }
    if let Some(found) = maven(lines[0]) {
        return Some(found);
    }
    let (mut place, rest) = place::leading(lines[0])?;
    let (severity, message) = severity(rest.strip_prefix(": ")?)?;
    if !place.file.ends_with(".java") {
        return None;
    }
    place.column = place.column.or_else(|| lines.get(2).and_then(|line| marked_column(line)));
    let shown = if place.column.is_some() { 3 } else { 1 };
    let symbol = lines.get(shown).and_then(|line| line.trim_start().strip_prefix("symbol:")).map(str::trim);
    let (message, code) = match message.strip_prefix('[').and_then(|text| text.split_once("] ")) {
        Some((code, message)) => (message, Some(code)),
        None => (message, None),
    };
    let text = symbol.map_or_else(|| message.to_owned(), |symbol| format!("{message}: {symbol}"));
    Found::one(FORMAT, problem(place, severity, code, &text), shown.min(lines.len()))
}

/// `[ERROR] /project/src/A.java:[3,5] message`
fn maven(line: &str) -> Option<Found> {
    let (severity, rest) = match line.strip_prefix("[ERROR] ") {
        Some(rest) => (Severity::Error, rest),
        None => (Severity::Warning, line.strip_prefix("[WARNING] ")?),
    };
    let (file, rest) = rest.split_once(":[")?;
    let (position, message) = rest.split_once("] ")?;
    let (number, column) = position.split_once(',')?;
    let place =
        SourcePlace { file: place::tidy_path(file), line: number.parse().ok(), column: column.parse().ok() };
    Found::one(FORMAT, problem(place, severity, None, message), 1)
}
