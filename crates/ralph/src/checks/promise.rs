//! The promise that a session or a driven agent is asked for.

use ralph_core::ledger::facts::SessionStop;
use ralph_core::model::finding::Finding;

/// None where none is asked for.
pub(crate) fn look(stop: &SessionStop) -> Option<Finding> {
    stop.promise.clone().map(Finding::Promise)
}
