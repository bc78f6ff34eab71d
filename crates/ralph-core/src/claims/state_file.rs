//! The state file of other layouts in the repo: `task`, `iteration`, `started_at`, in that order.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    pub task: Option<String>,
    pub iteration: u32,
    pub started_at: Timestamp,
}

#[derive(Serialize, Deserialize)]
struct ExportedFile {
    task: Option<String>,
    iteration: u32,
    started_at: String,
}

impl Exported {
    /// The file's text. `started_at` is local time in seconds without a zone, as these layouts expect.
    pub fn render(&self, zone: &TimeZone) -> String {
        let local = zone.to_datetime(self.started_at);
        let started_at = local.strftime("%Y-%m-%dT%H:%M:%S").to_string();
        let file = ExportedFile { task: self.task.clone(), iteration: self.iteration, started_at };
        let mut text = serde_json::to_string_pretty(&file).expect("strings and numbers are always JSON");
        text.push('\n');
        text
    }

    /// Parses such a file; the time may have a zone.
    pub fn parse(text: &str, zone: &TimeZone) -> Option<Self> {
        let file: ExportedFile = serde_json::from_str(text).ok()?;
        // Rejects times before the epoch; negative years could not be written again.
        let started_at = parse_time(file.started_at.trim(), zone).filter(|at| at.as_second() >= 0)?;
        Some(Self { task: file.task, iteration: file.iteration, started_at })
    }
}

fn parse_time(text: &str, zone: &TimeZone) -> Option<Timestamp> {
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Some(instant);
    }
    let local: DateTime = text.parse().ok()?;
    // A missing or ambiguous local time is resolved in the usual way.
    zone.to_ambiguous_timestamp(local).compatible().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_exactly_the_known_keys_in_the_known_order() {
        let exported = Exported {
            task: Some(".trellis/tasks/01-31-add-login".into()),
            iteration: 2,
            started_at: "2026-01-31T10:30:00.7Z".parse().expect("a time"),
        };
        let text = exported.render(&TimeZone::UTC);
        assert_eq!(
            text,
            "{\n  \"task\": \".trellis/tasks/01-31-add-login\",\n  \"iteration\": 2,\n  \"started_at\": \"2026-01-31T10:30:00\"\n}\n"
        );
        let read = Exported::parse(&text, &TimeZone::UTC).expect("our own form");
        assert_eq!((read.iteration, read.task), (2, exported.task));
    }

    #[test]
    fn times_are_read_with_and_without_a_zone() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        for (text, instant) in [
            ("2026-01-31T10:30:00", "2026-01-31T08:30:00Z"),
            ("2026-01-31T10:30:00.123456", "2026-01-31T08:30:00.123456Z"),
            ("2026-01-31T10:30:00Z", "2026-01-31T10:30:00Z"),
            ("2026-01-31T10:30:00+08:00", "2026-01-31T02:30:00Z"),
        ] {
            let json = format!(r#"{{"task":null,"iteration":1,"started_at":"{text}"}}"#);
            let read = Exported::parse(&json, &zone).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(read.started_at, instant.parse().expect("a time"), "{text}");
        }
    }

    #[test]
    fn unreadable_files_are_not_states() {
        for text in [
            "",
            "{",
            "[]",
            r#"{"iteration":1}"#,
            r#"{"task":"a","iteration":-1,"started_at":"now"}"#,
            r#"{"task":"a","iteration":1,"started_at":"-009999-01-02T01:59:59Z"}"#,
        ] {
            assert_eq!(Exported::parse(text, &TimeZone::UTC), None, "{text}");
        }
    }
}
