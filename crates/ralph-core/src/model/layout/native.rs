//! The native layout: `ralph.yaml`.

use std::time::Duration;

use super::{Clocks, LayoutData, NoTask, Phrases};

pub(super) const HALF_AN_HOUR: Duration = Duration::from_secs(30 * 60);
pub(super) const PASSED: &str = "Verification passed: All verify commands passed";
pub(super) const OUT_OF_TIME: &str = "Timeout ({minutes} min) exceeded";

pub(super) const NATIVE: LayoutData = LayoutData {
    name: "native",
    config: "ralph.yaml",
    folder: None,
    current_task: None,
    no_task: NoTask::Nothing,
    export: None,
    excerpt: 2000,
    failures: 5_000,
    clocks: Clocks { stale_after: Some(HALF_AN_HOUR), clock: None },
    phrases: Phrases {
        failed: "Verification failed (iteration {n}/{max})",
        exhausted: "Max iterations reached ({n}/{max})",
        out_of_time: OUT_OF_TIME,
        passed: PASSED,
    },
};
