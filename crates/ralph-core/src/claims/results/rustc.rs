//! rustc and clippy: `error[E0308]: message`, then ` --> file:line:column`; with `--message-format short` in one line.

use super::problems::{Found, problem, without_place};
use super::{ResultFormat, Severity, place};

const FORMAT: ResultFormat = ResultFormat::Rustc;

pub(super) fn read_at(lines: &[&str]) -> Option<Found> {
    let line = lines[0];
    if let Some((severity, code, message)) = headline(line) {
        return read_block(lines, severity, code, message);
    }
    if !line.contains(".rs:") && !line.contains(".toml:") {
        return None;
    }
    let (place, rest) = place::leading(line)?;
    let (severity, code, message) = headline(rest.strip_prefix(": ")?)?;
    place.column?;
    Found::one(FORMAT, problem(place, severity, code, message), 1)
}

/// `error[E0308]: mismatched types`
fn headline(line: &str) -> Option<(Severity, Option<&str>, &str)> {
    let (severity, rest) = match line.strip_prefix("error") {
        Some(rest) => (Severity::Error, rest),
        None => (Severity::Warning, line.strip_prefix("warning")?),
    };
    if let Some(message) = rest.strip_prefix(": ") {
        return Some((severity, None, message));
    }
    let (code, message) = rest.strip_prefix('[')?.split_once("]: ")?;
    Some((severity, Some(code), message))
}

fn read_block(lines: &[&str], severity: Severity, code: Option<&str>, message: &str) -> Option<Found> {
    // The place stands in the next line, or after a longer message.
    let at = lines.iter().take(8).position(|line| line.trim_start().starts_with("--> "));
    let between_is_message =
        |at: usize| lines[1..at].iter().all(|line| !line.is_empty() && headline(line).is_none());
    let Some(at) = at.filter(|&at| between_is_message(at)) else { return placeless(lines, message) };
    let (place, _) = place::leading(lines[at].trim_start().trim_start_matches("--> "))?;
    let length = at + 1 + lines[at + 1..].iter().take_while(|line| belongs(line)).count();
    let lint = lines[at..length].iter().find_map(|line| lint_name(line));
    let label = lines[at..length].iter().find_map(|line| label(line));
    let mut found = problem(place, severity, code.or(lint), message);
    if let Some(label) = label.filter(|_| message == "mismatched types") {
        found.message = format!("{message}: {label}");
    }
    Found::one(FORMAT, found, length)
}

/// What the compiler shows below a place: source lines, notes, and suggestions.
fn belongs(line: &str) -> bool {
    let text = line.trim_start();
    let is_source =
        text.split_once(' ').is_some_and(|(number, _)| number.bytes().all(|b| b.is_ascii_digit()));
    let starts = ["|", "= ", "--> ", "::: ", "...", "help: ", "note: ", "+ ", "- "];
    is_source
        || text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty()
        || starts.iter().any(|start| text.starts_with(start))
}

/// The lint in `` = note: `#[warn(clippy::eq_op)]` on by default `` or in clippy's address.
fn lint_name(line: &str) -> Option<&str> {
    if let Some((_, rest)) = line.split_once("rust-clippy/") {
        return rest.split_once("index.html#").map(|(_, name)| name);
    }
    let (_, rest) = line.split_once("note: `#[")?;
    let (_, name) = rest.split_once('(')?;
    name.split(')').next()
}

/// What stands beside the mark: `|  ^^^^^^ expected u32, found &str`.
fn label(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once('|')?;
    let (_, label) = rest.split_once('^')?;
    Some(label.trim_start_matches('^').trim()).filter(|label| !label.is_empty() && rest.contains('^'))
}

/// An error of cargo itself has no place.
fn placeless(lines: &[&str], message: &str) -> Option<Found> {
    const CARGO: &[&str] = &[
        "failed to parse manifest",
        "failed to load manifest",
        "failed to get `",
        "failed to select a version",
        "failed to run custom build command",
        "linking with `",
        "no matching package",
        "couldn't read",
    ];
    const SUMMARIES: &[&str] = &["could not compile", "aborting due to", "test failed", "test run failed"];
    if SUMMARIES.iter().any(|start| message.starts_with(start)) {
        return Found::nothing(FORMAT, 1);
    }
    let is_known = lines[0].starts_with("error") && CARGO.iter().any(|start| message.starts_with(start));
    is_known.then(|| Found::one(FORMAT, without_place(Severity::Error, message), 1))?
}
