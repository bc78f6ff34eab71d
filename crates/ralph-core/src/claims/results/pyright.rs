//! pyright: `  /project/a.py:1:10 - error: message (rule)`, the message over several lines.

use super::problems::{Found, problem, severity, without_place};
use super::{ResultFormat, Severity, detail, place};

const FORMAT: ResultFormat = ResultFormat::Pyright;

pub(super) fn read_at(lines: &[&str]) -> Option<Found> {
    let line = lines[0];
    if line.starts_with("Config file \"") && line.contains("could not be parsed") {
        return Found::one(FORMAT, without_place(Severity::Error, line), 1);
    }
    let text = line.strip_prefix("  ")?;
    if text.starts_with(' ') || !text.contains(" - ") {
        return None;
    }
    let (place, rest) = place::leading(text)?;
    let (severity, message) = severity(rest.strip_prefix(" - ")?)?;
    let more = lines[1..].iter().take_while(|line| is_more(line)).count();
    let text = detail::message([message].into_iter().chain(lines[1..=more].iter().map(|line| line.trim())));
    let (text, rule) = match text.strip_suffix(')').and_then(|text| text.rsplit_once(" (report")) {
        Some((message, rule)) => (message.to_owned(), Some(format!("report{rule}"))),
        None => (text, None),
    };
    Found::one(FORMAT, problem(place, severity, rule.as_deref(), &text), 1 + more)
}

/// The message goes on in lines that are indented more, partly with spaces that do not break.
fn is_more(line: &str) -> bool {
    line.chars().take_while(|c| c.is_whitespace()).count() > 2 && !line.trim().is_empty()
}
