//! Cargo packages and workspaces.

use super::{GateKind, Project, Proposal, has_section};

pub(super) fn rust(project: &Project) -> Vec<Proposal> {
    if !project.has("Cargo.toml") {
        return Vec::new();
    }
    let is_workspace = has_section(project.text("Cargo.toml"), "workspace");
    let all = if is_workspace { " --workspace" } else { "" };
    let because = if is_workspace { "[workspace] in Cargo.toml" } else { "Cargo.toml" };
    vec![
        Proposal::new(
            GateKind::Format,
            "fmt",
            format!("cargo fmt{} --check", if is_workspace { " --all" } else { "" }),
            because,
        ),
        Proposal::new(
            GateKind::Lint,
            "clippy",
            format!("cargo clippy{all} --all-targets -- -D warnings"),
            because,
        ),
        Proposal::new(GateKind::Test, "test", format!("cargo test{all}"), because),
    ]
}
