//! Go modules and workspaces.

use super::{GateKind, Project, Proposal};

pub(super) fn go(project: &Project) -> Vec<Proposal> {
    if project.has("go.work") {
        return workspace(project.text("go.work"));
    }
    if !project.has("go.mod") {
        return Vec::new();
    }
    vec![
        Proposal::new(GateKind::Format, "gofmt", "test -z \"$(gofmt -l . | tee /dev/stderr)\"", "go.mod"),
        Proposal::new(GateKind::Lint, "vet", "go vet ./...", "go.mod"),
        Proposal::new(GateKind::Test, "test", "go test ./...", "go.mod"),
    ]
}

/// `./...` at the root of a workspace means nothing: each module is named.
fn workspace(text: &str) -> Vec<Proposal> {
    let words =
        text.lines().map(|line| line.split("//").next().unwrap_or_default()).flat_map(str::split_whitespace);
    let folder = |word: &str| {
        let word = word.trim_matches(['(', ')', '"']);
        (word == "." || word.starts_with("./") || word.starts_with("../"))
            .then(|| word.trim_end_matches('/').to_owned())
    };
    let modules: Vec<String> = words.filter_map(folder).collect();
    if modules.is_empty() {
        return Vec::new();
    }
    let all = modules.iter().map(|module| format!("{module}/...")).collect::<Vec<_>>().join(" ");
    let because = format!("go.work with {} modules", modules.len());
    let folders = modules.join(" ");
    vec![
        Proposal::new(
            GateKind::Format,
            "gofmt",
            format!("test -z \"$(gofmt -l {folders} | tee /dev/stderr)\""),
            because.clone(),
        ),
        Proposal::new(GateKind::Lint, "vet", format!("go vet {all}"), because.clone()),
        Proposal::new(GateKind::Test, "test", format!("go test {all}"), because),
    ]
}
