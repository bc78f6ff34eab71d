//! tsc: `src/a.ts(1,14): error TS2322: message`, or pretty, `src/a.ts:1:14 - error TS2322: message`.

use super::place::SourcePlace;
use super::problems::{Found, problem, without_place};
use super::text::indent;
use super::{ResultFormat, Severity, detail, place};

const FORMAT: ResultFormat = ResultFormat::Tsc;

pub(super) fn read_at(lines: &[&str]) -> Option<Found> {
    let line = lines[0];
    if !line.contains(" TS") || line.starts_with(' ') {
        return None;
    }
    if let Some((_, _, message)) = headline(line) {
        return Found::one(FORMAT, without_place(Severity::Error, message), 1);
    }
    let (place, rest, is_pretty) = match parenthesised(line) {
        Some((place, rest)) => (place, rest, false),
        None => {
            let (place, rest) = place::leading(line)?;
            (place, rest.strip_prefix(" - ")?, true)
        }
    };
    let (severity, code, message) = headline(rest)?;
    // The reasons follow, each indented more.
    let more = lines[1..].iter().take_while(|line| indent(line) >= 2 && !is_pretty).count();
    let pretty_more = lines[1..].iter().take_while(|line| indent(line) >= 2 && is_pretty).count();
    let reasons = lines[1..].iter().take(more + pretty_more).take(3).map(|line| line.trim());
    let text = detail::message([message].into_iter().chain(reasons));
    Found::one(FORMAT, problem(place, severity, Some(code), &text), 1 + more + pretty_more)
}

/// `error TS2322: message`
fn headline(text: &str) -> Option<(Severity, &str, &str)> {
    let (severity, rest) = match text.strip_prefix("error ") {
        Some(rest) => (Severity::Error, rest),
        None => (Severity::Warning, text.strip_prefix("warning ")?),
    };
    let (code, message) = rest.split_once(": ")?;
    let digits = code.strip_prefix("TS")?;
    (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())).then_some((severity, code, message))
}

/// `src/a.ts(1,14): rest`
pub(super) fn parenthesised(line: &str) -> Option<(SourcePlace, &str)> {
    let (head, rest) = line.split_once("): ")?;
    let (file, position) = head.rsplit_once('(')?;
    let (line, column) = position.split_once(',').unwrap_or((position, ""));
    let place =
        SourcePlace { file: place::tidy_path(file), line: line.parse().ok(), column: column.parse().ok() };
    place.line?;
    Some((place, rest))
}
