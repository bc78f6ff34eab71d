//! Durations in human-readable form: `120s`, `5m`, `1h 30m`; a bare number is seconds.

use std::time::Duration;

use jiff::SignedDuration;

/// Ten years; the clock types overflow not much later.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Parses a duration from a config value, a flag or a variable.
pub fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let length = match text.split_once('d') {
        Some((days, rest)) => with_days(days, rest),
        None => within_a_day(text),
    };
    match length {
        Some(length) if length > LONGEST => Err(format!("`{text}` is longer than ten years")),
        Some(length) => Ok(length),
        None => Err(format!("`{text}` is not a duration; write for example `90s`, `5m` or `1h 30m`")),
    }
}

/// `1d`, `1d 12h`. The library rejects days as a duration because their length varies.
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

/// Like [`parse`], but rejects zero.
pub fn parse_some(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => {
            Err("the duration must not be zero; write for example `90s`, `5m` or `1h 30m`".into())
        }
        length => Ok(length),
    }
}

/// Like [`parse_some`] for a flag: a bare number is refused, because `8` may mean hours or seconds.
pub fn parse_with_unit(text: &str) -> Result<Duration, String> {
    let number = text.trim();
    if number.parse::<f64>().is_ok_and(f64::is_finite) {
        return Err(format!("`{number}` has no unit: write `{number}h`, `{number}m` or `{number}s`"));
    }
    parse_some(text)
}

/// Formats a duration: `12ms`, `3.2s`, `2m 5s`, `1h 3m`.
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

/// A length of time in JSON: seconds, with a fraction where there is one.
pub mod seconds {
    use std::time::Duration;

    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(length: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        match length.subsec_nanos() {
            0 => serializer.serialize_u64(length.as_secs()),
            _ => serializer.serialize_f64(length.as_secs_f64()),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// The same where there may be none, which is null.
pub mod optional_seconds {
    use std::time::Duration;

    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(length: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        match length {
            Some(length) => super::seconds::serialize(length, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        let seconds = Option::<f64>::deserialize(deserializer)?;
        seconds.map(Duration::try_from_secs_f64).transpose().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_in_all_common_forms() {
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
    fn a_flag_without_a_unit_asks_for_one() {
        let error = parse_with_unit(" 8 ").expect_err("no unit");
        assert_eq!(error, "`8` has no unit: write `8h`, `8m` or `8s`");
        assert!(parse_with_unit("0.5").is_err() && parse_with_unit("0s").is_err());
        assert_eq!(parse_with_unit("8h"), Ok(Duration::from_secs(8 * 3600)));
    }

    #[test]
    fn durations_beyond_the_maximum_are_refused() {
        for text in ["1e18", "9223372036854775807", "100000h", "31y"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_shown_in_human_readable_form() {
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
