//! pre-commit.

use super::{GateKind, Project, Proposal};

/// Only where nothing more direct was found: its hooks often run the same linters again.
pub(super) fn pre_commit(project: &Project) -> Vec<Proposal> {
    let Some(file) = project.first(&[".pre-commit-config.yaml", ".pre-commit-config.yml"]) else {
        return Vec::new();
    };
    vec![Proposal::new(GateKind::Lint, "pre-commit", "pre-commit run --all-files", file)]
}
