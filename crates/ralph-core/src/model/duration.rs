//! Lengths of time as people write and read them: `120s`, `5m`, `1h 30m`; a bare number is seconds.

use std::time::Duration;

use jiff::SignedDuration;

/// Longer than anybody waits. A clock cannot count much further.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Reads a length of time from a config value, a flag or a variable.
pub fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let length = match text.split_once('d') {
        Some((days, rest)) => with_days(days, rest),
        None => within_a_day(text),
    };
    match length {
        Some(length) if length > LONGEST => Err(format!("`{text}` is longer than ten years")),
        Some(length) => Ok(length),
        None => Err(format!("`{text}` is not a length of time; write for example `90s`, `5m` or `1h 30m`")),
    }
}

/// `1d`, `1d 12h`. To the library a day is no length of time: some have an hour less.
fn with_days(days: &str, rest: &str) -> Option<Duration> {
    let days = Duration::from_secs(24 * 3600).checked_mul(days.trim().parse().ok()?)?;
    let rest = if rest.trim().is_empty() { Duration::ZERO } else { within_a_day(rest.trim())? };
    days.checked_add(rest)
}

fn within_a_day(text: &str) -> Option<Duration> {
    match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        Err(_) => text.parse::<SignedDuration>().ok().and_then(|signed| Duration::try_from(signed).ok()),
    }
}

/// The same where none at all would be a mistake.
pub fn parse_some(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Err("no time at all is no limit; write for example `90s`, `5m` or `1h 30m`".into()),
        length => Ok(length),
    }
}

/// Shows a length of time: `12ms`, `3.2s`, `2m 5s`, `1h 3m`.
pub fn show(length: Duration) -> String {
    let seconds = length.as_secs();
    match seconds {
        0 if length.as_millis() < 1000 => format!("{}ms", length.as_millis()),
        0..60 if length.subsec_millis() < 50 => format!("{seconds}s"),
        0..60 => format!("{:.1}s", length.as_secs_f64()),
        60..3600 if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        60..3600 => format!("{}m {}s", seconds / 60, seconds % 60),
        _ if seconds % 3600 < 60 => format!("{}h", seconds / 3600),
        _ => format!("{}h {}m", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_write_lengths_of_time_in_many_ways() {
        for (text, seconds) in [
            ("120", 120.0),
            ("120s", 120.0),
            ("5m", 300.0),
            ("1h 30m", 5400.0),
            ("0.5", 0.5),
            ("2d", 172_800.0),
            ("1d 12h", 129_600.0),
        ] {
            assert_eq!(parse(text).map(|d| d.as_secs_f64()), Ok(seconds), "{text}");
        }
        for text in ["", "soon", "-5", "-5s", "5 parsecs", "1e400", "d", "1.5d", "1d soon", "99999999d 1h x"]
        {
            let error = parse(text).expect_err(text);
            assert!(error.contains("`5m`"), "{error}");
        }
    }

    #[test]
    fn no_length_is_longer_than_a_clock_can_count() {
        for text in ["1e18", "9223372036854775807", "100000h", "31y"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lengths_of_time_are_shown_as_people_say_them() {
        let table = [
            (12, "12ms"),
            (999, "999ms"),
            (1000, "1s"),
            (3240, "3.2s"),
            (60_000, "1m"),
            (125_000, "2m 5s"),
            (3_600_000, "1h"),
            (3_780_000, "1h 3m"),
        ];
        for (millis, shown) in table {
            assert_eq!(show(Duration::from_millis(millis)), shown);
        }
    }
}
