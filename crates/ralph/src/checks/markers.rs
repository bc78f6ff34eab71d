//! The completion markers of a task, used if there is no gate.

use ralph_core::claims::completion_marker;
use ralph_core::model::finding::Finding;

pub(crate) fn check(expected: &[String], last_message: &str) -> Finding {
    Finding::Markers { missing: completion_marker::missing(expected, last_message) }
}
