//! The only module that reads the clock.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::sys::env;

#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn now() -> Timestamp {
    let now = Timestamp::now();
    let Some((anchor, speed)) = speed() else { return now };
    let passed = now.duration_since(anchor).checked_mul(speed);
    passed.and_then(|passed| anchor.checked_add(passed).ok()).unwrap_or(now)
}

/// How long a wait by this clock really takes.
pub(crate) fn real(wait: Duration) -> Duration {
    match speed() {
        Some((_, speed)) => wait / speed.unsigned_abs().max(1),
        None => wait,
    }
}

/// A faster clock for tests of long waits, `SECONDS*SPEED` from a moment on; a released program has none.
fn speed() -> Option<(Timestamp, i32)> {
    static SPEED: OnceLock<Option<(Timestamp, i32)>> = OnceLock::new();
    let read = || {
        let text = env::text("RALPH_TEST_CLOCK")?;
        let (anchor, speed) = text.split_once('*')?;
        Some((Timestamp::from_second(anchor.parse().ok()?).ok()?, speed.parse().ok()?))
    };
    *SPEED.get_or_init(|| if cfg!(debug_assertions) { read() } else { None })
}

/// The current time as the file system stores it.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn system_now() -> SystemTime {
    SystemTime::now()
}

/// The time zone for displayed times. Without `TZ`, only `/etc/localtime` is read: looking up the zone's name would
/// take longer than starting a loop.
pub(crate) fn zone() -> TimeZone {
    let own = || TimeZone::tzif("", &std::fs::read("/etc/localtime").ok()?).ok();
    if env::is_set("TZ") { None } else { own() }.unwrap_or_else(TimeZone::system)
}
