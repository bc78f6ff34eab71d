//! Targets of Make and recipes of just.

use super::{GateKind, Project, Proposal};

pub(super) fn make(project: &Project) -> Vec<Proposal> {
    let Some(file) = project.first(&["GNUmakefile", "makefile", "Makefile"]) else { return Vec::new() };
    let has_target = |name: &str| {
        project.text(file).lines().any(|line| {
            let Some((targets, rest)) = line.split_once(':') else { return false };
            !line.starts_with(['\t', ' ', '#'])
                && !rest.starts_with('=')
                && targets.split_whitespace().any(|target| target == name)
        })
    };
    wrapped(has_target, "make", file)
}

pub(super) fn just(project: &Project) -> Vec<Proposal> {
    let Some(file) = project.first(&["justfile", "Justfile", ".justfile"]) else { return Vec::new() };
    let has_recipe = |name: &str| {
        project.text(file).lines().any(|line| {
            let line = line.trim_start_matches('@');
            let Some((head, rest)) = line.split_once(':') else { return false };
            // A recipe with parameters that have no default cannot be run as it is.
            !line.starts_with([' ', '\t', '#']) && !rest.starts_with('=') && head.trim() == name
        })
    };
    wrapped(has_recipe, "just", file)
}

fn wrapped(has: impl Fn(&str) -> bool, program: &str, file: &str) -> Vec<Proposal> {
    const NAMES: [(GateKind, &[&str]); 4] = [
        (GateKind::Format, &["fmt-check", "format-check", "check-format", "check-fmt"]),
        (GateKind::Lint, &["lint"]),
        (GateKind::Types, &["typecheck", "types", "type-check"]),
        (GateKind::Test, &["test", "tests", "check"]),
    ];
    let fitting = |(kind, names): &(GateKind, &[&str])| {
        let name = names.iter().find(|name| has(name))?;
        Some(Proposal::new(*kind, name, format!("{program} {name}"), format!("`{name}` in {file}")))
    };
    NAMES.iter().filter_map(fitting).collect()
}
