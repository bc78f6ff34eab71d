//! go vet, go build and golangci-lint: `./a.go:3:8: message`.

use super::problems::{Found, problem};
use super::{ResultFormat, Severity, place};

const FORMAT: ResultFormat = ResultFormat::GoVet;

pub(super) fn read_at(lines: &[&str]) -> Option<Found> {
    let line = lines[0];
    if line.starts_with([' ', '\t']) || !line.contains(".go:") && !line.contains("go.mod:") {
        return None;
    }
    let text = line.strip_prefix("vet: ").or_else(|| line.strip_prefix("go: ")).unwrap_or(line);
    let (place, rest) = place::leading(text)?;
    let is_go = place.file.ends_with(".go") && place.column.is_some() || place.file.ends_with("go.mod");
    let message = rest.strip_prefix(": ").filter(|_| is_go)?;
    let (message, linter) = linter(message);
    // The compiler's message may go on in the next lines, behind a tab.
    let more = lines[1..].iter().take_while(|line| line.starts_with('\t')).count();
    let text = super::detail::message([message].into_iter().chain(lines[1..=more].iter().copied().take(2)));
    Found::one(FORMAT, problem(place, Severity::Error, linter, &text), 1 + more)
}

/// golangci-lint puts the linter's name at the end: `message (errcheck)`.
fn linter(message: &str) -> (&str, Option<&str>) {
    let Some((text, name)) = message.strip_suffix(')').and_then(|text| text.rsplit_once(" (")) else {
        return (message, None);
    };
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    if is_name { (text, Some(name)) } else { (message, None) }
}
