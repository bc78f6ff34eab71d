//! The promise required from a session or a driven agent.

use ralph_core::ledger::facts::SessionStop;
use ralph_core::model::finding::Finding;

/// `None` if no promise is required.
pub(crate) fn check(stop: &SessionStop) -> Option<Finding> {
    stop.promise.clone().map(Finding::Promise)
}
