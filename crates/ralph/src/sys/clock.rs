//! The only module that reads the clock.

use std::time::SystemTime;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::sys::env;

#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
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
