//! The only place that asks what time it is.

use std::time::SystemTime;

use jiff::Timestamp;
use jiff::tz::TimeZone;

#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// The same as the file system counts it.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn system_now() -> SystemTime {
    SystemTime::now()
}

/// The zone in which times are shown to people.
pub(crate) fn zone() -> TimeZone {
    TimeZone::system()
}
