//! Paths in a repo that other systems prescribe: their users and scripts look there, whatever client is at work.

/// A session loop, as the official plugin keeps it.
pub(crate) const LOOP_FILE: &str = ".claude/ralph-loop.local.md";

/// Reports of loops for scripts.
pub(crate) const JSON_REPORTS: &str = ".claude/metadata/actions/loop";
