//! Repos of cc-workflow: `.ideal/worktree.yaml`, a clock since the first stop, its own phrases.

use super::native::{HALF_AN_HOUR, OUT_OF_TIME, PASSED};
use super::{Clocks, LayoutData, NoTask, Phrases};

pub(super) const IDEAL: LayoutData = LayoutData {
    name: "ideal",
    config: ".ideal/worktree.yaml",
    folder: Some(".ideal"),
    current_task: Some(".ideal/.current-task"),
    no_task: NoTask::Named("unknown"),
    export: Some(".ideal/.verify-state.json"),
    excerpt: 500,
    failures: 500,
    clocks: Clocks { stale_after: None, clock: Some(HALF_AN_HOUR) },
    phrases: Phrases {
        failed: "Verification failed (iteration {n})",
        exhausted: "Max iterations ({max}) reached",
        out_of_time: OUT_OF_TIME,
        passed: PASSED,
    },
};
