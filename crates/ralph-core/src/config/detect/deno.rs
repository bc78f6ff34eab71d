//! Deno.

use super::{GateKind, Project, Proposal};

pub(super) fn deno(project: &Project) -> Vec<Proposal> {
    let Some(file) = project.first(&["deno.json", "deno.jsonc"]) else { return Vec::new() };
    vec![
        Proposal::new(GateKind::Format, "fmt", "deno fmt --check", file),
        Proposal::new(GateKind::Lint, "lint", "deno lint", file),
        Proposal::new(GateKind::Test, "test", "deno test", file),
    ]
}
