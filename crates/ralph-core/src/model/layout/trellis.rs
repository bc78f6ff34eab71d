//! Repos of Trellis: `.trellis/worktree.yaml`, a task pointer, a state file; otherwise like the native layout.

use super::native::NATIVE;
use super::{LayoutData, NoTask};

pub(super) const TRELLIS: LayoutData = LayoutData {
    name: "trellis",
    config: ".trellis/worktree.yaml",
    folder: Some(".trellis"),
    current_task: Some(".trellis/.current-task"),
    no_task: NoTask::LetThrough,
    export: Some(".trellis/.ralph-state.json"),
    excerpt: 500,
    failures: 500,
    ..NATIVE
};
