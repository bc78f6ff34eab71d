//! mypy: `a.py:1: error: message  [code]`.

use super::problems::{Found, problem, severity, trailing_code};
use super::text::indent;
use super::{ResultFormat, Severity, detail, place};

const FORMAT: ResultFormat = ResultFormat::Mypy;

pub(super) fn read_at(lines: &[&str]) -> Option<Found> {
    let line = lines[0];
    if let Some(found) = settings_error(line) {
        return Some(found);
    }
    if line.starts_with(' ') || !line.contains(".py") {
        return None;
    }
    let (place, rest) = place::leading(line)?;
    if !place.file.ends_with(".py") && !place.file.ends_with(".pyi") {
        return None;
    }
    // With `--show-error-end` the end of the place follows.
    let rest = rest.trim_start_matches(|c: char| c == ':' || c.is_ascii_digit());
    let (severity, message) = severity(rest.strip_prefix(' ')?)?;
    // With `--pretty` a message is wrapped, and the source follows, indented.
    let is_end = |line: &&str| {
        line.is_empty() || indent(line) > 0 || place::leading(line).is_some() || line.starts_with("Found ")
    };
    let is_pretty = !message.ends_with(']') && lines[1..].iter().take(6).any(|line| indent(line) >= 4);
    let wrapped =
        if is_pretty { lines[1..].iter().take(6).take_while(|line| !is_end(line)).count() } else { 0 };
    let text = [message].into_iter().chain(lines[1..=wrapped].iter().copied()).collect::<Vec<_>>().join(" ");
    if severity == Severity::Note {
        // Notes explain the error before them.
        return Found::nothing(FORMAT, 1 + wrapped);
    }
    let (text, code) = trailing_code(&text);
    let text = detail::message([text]);
    Found::one(FORMAT, problem(place, severity, code, &text), 1 + wrapped)
}

/// `mypy.ini: [mypy]: Unrecognized option: nonsense = maybe`
fn settings_error(line: &str) -> Option<Found> {
    let (file, message) = line.split_once(": [mypy")?;
    let is_settings = ["ini", "cfg", "toml"].iter().any(|extension| file.ends_with(extension));
    let (_, message) = message.split_once("]: ").filter(|_| is_settings)?;
    Found::one(FORMAT, problem(place::SourcePlace::file(file), Severity::Error, None, message), 1)
}
