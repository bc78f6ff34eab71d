//! flake8: `./a.py:1:1: F401 'os' imported but unused`.

use super::problems::{Found, problem};
use super::{CodeProblem, ResultFormat, Severity, place};

pub(super) fn read_at(lines: &[&str]) -> Option<Found> {
    let problem = coded_line(lines[0])?;
    Found::one(ResultFormat::Flake8, problem, 1)
}

/// `path:line:column: CODE message`
pub(super) fn coded_line(line: &str) -> Option<CodeProblem> {
    if line.starts_with(' ') {
        return None;
    }
    let (place, rest) = place::leading(line)?;
    let rest = rest.strip_prefix(": ")?;
    if let Some((code, message)) = rest.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        // As pylint once printed: `a.py:1: [F401] message`.
        let is_code = code_and_message(&format!("{code} x")).is_some();
        return is_code.then(|| problem(place, Severity::Error, Some(code), message));
    }
    place.column?;
    let (code, message) = match rest.split_once(": ") {
        Some(("invalid-syntax" | "SyntaxError", message)) => ("invalid-syntax", message),
        _ => code_and_message(rest)?,
    };
    Some(problem(place, Severity::Error, Some(code), message))
}

/// `F401 [*] message`: one to four letters, then digits.
pub(super) fn code_and_message(text: &str) -> Option<(&str, &str)> {
    let (code, message) = text.split_once(' ')?;
    let code = code.trim_end_matches(':');
    let letters = code.bytes().take_while(u8::is_ascii_uppercase).count();
    let digits = code[letters..].bytes().filter(u8::is_ascii_digit).count();
    let is_code = (1..=6).contains(&letters) && (1..=5).contains(&digits) && letters + digits == code.len();
    let message = message.strip_prefix("[*] ").or_else(|| message.strip_prefix("[-] ")).unwrap_or(message);
    is_code.then(|| (code, message.trim()))
}
