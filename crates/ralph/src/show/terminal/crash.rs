//! A panic is a bug in ralph. Users see one line that says so, never a backtrace.

use std::io::Write as _;

pub(crate) fn explain_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place =
            panic.location().map(|place| format!(" ({}:{})", place.file(), place.line())).unwrap_or_default();
        let what = panic.payload_as_str().unwrap_or("unknown");
        let _stderr_closed = writeln!(
            std::io::stderr(),
            "ralph: internal error: {}{place}. Nothing was verified by this run. Please report it.",
            super::plain(what)
        );
    }));
}
