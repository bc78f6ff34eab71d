//! Elixir: mix.

use super::{GateKind, Project, Proposal};

pub(super) fn elixir(project: &Project) -> Vec<Proposal> {
    if !project.has("mix.exs") {
        return Vec::new();
    }
    let mut found = Vec::new();
    if let Some(file) = project.first(&[".formatter.exs"]) {
        found.push(Proposal::new(GateKind::Format, "format", "mix format --check-formatted", file));
    }
    if project.text("mix.exs").contains("{:credo,") {
        found.push(Proposal::new(GateKind::Lint, "credo", "mix credo", "credo in mix.exs"));
    }
    found.push(Proposal::new(GateKind::Types, "compile", "mix compile --warnings-as-errors", "mix.exs"));
    found.push(Proposal::new(GateKind::Test, "test", "mix test", "mix.exs"));
    found
}
