//! Formatters that only check: prettier, rustfmt, black and ruff.

use super::place::{self, SourcePlace};
use super::problems::{Found, problem};
use super::text::has_source_extension;
use super::{ResultFormat, Severity};

pub(super) fn read_at(lines: &[&str]) -> Option<Found> {
    let line = lines[0];
    let (place, message) = if let Some(file) = line.strip_prefix("[warn] ") {
        (SourcePlace::file(file), "not formatted (prettier)")
    } else if let Some(file) =
        line.strip_prefix("would reformat ").or_else(|| line.strip_prefix("Would reformat: "))
    {
        (SourcePlace::file(file), "not formatted")
    } else {
        return rustfmt(line).or_else(|| prettier_error(line));
    };
    let is_file = has_source_extension(&place.file) && !place.file.contains(' ');
    is_file.then(|| Found::one(ResultFormat::Generic, problem(place, Severity::Error, None, message), 1))?
}

/// `Diff in /project/src/lib.rs:3:`, in older versions `… at line 3:`
fn rustfmt(line: &str) -> Option<Found> {
    let rest = line.strip_prefix("Diff in ")?.strip_suffix(':')?;
    let place = match rest.rsplit_once(" at line ") {
        Some((file, number)) => {
            SourcePlace { file: place::tidy_path(file), line: number.parse().ok(), column: None }
        }
        None => place::leading(rest)?.0,
    };
    Found::one(ResultFormat::Rustc, problem(place, Severity::Error, None, "not formatted (rustfmt)"), 1)
}

/// `[error] src/a.js: SyntaxError: message (3:5)`
fn prettier_error(line: &str) -> Option<Found> {
    let (file, message) = line.strip_prefix("[error] ")?.split_once(": ")?;
    let (text, position) = message.strip_suffix(')')?.rsplit_once(" (")?;
    let (number, column) = position.split_once(':')?;
    let place =
        SourcePlace { file: place::tidy_path(file), line: number.parse().ok(), column: column.parse().ok() };
    has_source_extension(file)
        .then(|| Found::one(ResultFormat::Generic, problem(place, Severity::Error, None, text), 1))?
}
