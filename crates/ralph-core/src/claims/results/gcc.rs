//! gcc, clang, and what prints like them: `a.c:3:5: error: message [-Wflag]`.

use super::place::SourcePlace;
use super::problems::{Found, problem, severity, trailing_code, without_place};
use super::text::has_source_extension;
use super::{ResultFormat, Severity, place};

const FORMAT: ResultFormat = ResultFormat::Gcc;

pub(super) fn read_at(lines: &[&str]) -> Option<Found> {
    let line = lines[0];
    if line.starts_with(' ') {
        return None;
    }
    for driver in ["gcc: ", "g++: ", "clang: ", "clang++: ", "cc: ", "c++: "] {
        if let Some((severity, message)) = line.strip_prefix(driver).and_then(severity) {
            let is_summary = message.starts_with("linker command failed");
            return if is_summary {
                Found::nothing(FORMAT, 1)
            } else {
                Found::one(FORMAT, without_place(severity, message), 1)
            };
        }
    }
    unresolved(line).or_else(|| diagnosed(line))
}

fn diagnosed(line: &str) -> Option<Found> {
    let (place, rest) = place::leading(line)?;
    let (severity, message) = severity(rest.strip_prefix(": ")?)?;
    if !has_source_extension(&place.file) {
        return None;
    }
    let (message, code) = trailing_code(message);
    if severity == Severity::Note && code.is_none() {
        // Notes explain the error before them.
        return Found::nothing(FORMAT, 1);
    }
    Found::one(FORMAT, problem(place, severity, code.map(|code| code.trim_start_matches("-W")), message), 1)
}

/// The linker's ``shop.c:(.text+0x5): undefined reference to `missing'``.
fn unresolved(line: &str) -> Option<Found> {
    let (head, message) = line.split_once("): ")?;
    let (file, _) = head.split_once(":(.")?;
    let file = file.rsplit(' ').next()?;
    message
        .starts_with("undefined reference to")
        .then(|| Found::one(FORMAT, problem(SourcePlace::file(file), Severity::Error, None, message), 1))?
}
