//! Paths in a repo that other systems prescribe: their users and scripts expect files there, with any client.

/// A session loop, as written by the official plugin.
pub(crate) const LOOP_FILE: &str = ".claude/ralph-loop.local.md";

/// Reports of loops for scripts.
pub(crate) const JSON_REPORTS: &str = ".claude/metadata/actions/loop";

/// Files of ralph and of clients that a commit by ralph never takes in: loop files, reports, metadata, settings.
pub(crate) const NEVER_COMMITTED: [&str; 7] = [
    LOOP_FILE,
    ".claude/metadata",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".gemini/settings.json",
    ".codex",
    "docs/actions/loop",
];
