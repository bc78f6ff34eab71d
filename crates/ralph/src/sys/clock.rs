//! The only place that asks what time it is.

use std::time::SystemTime;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::sys::env;

#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// The same as the file system counts it.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn system_now() -> SystemTime {
    SystemTime::now()
}

/// The zone in which times are shown to people. Where nobody names one, the system's own file is all that has to be read:
/// to find out its name takes longer than to begin a loop.
pub(crate) fn zone() -> TimeZone {
    let own = || TimeZone::tzif("", &std::fs::read("/etc/localtime").ok()?).ok();
    if env::is_set("TZ") { None } else { own() }.unwrap_or_else(TimeZone::system)
}
