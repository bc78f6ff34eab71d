//! Detects a project's gates from its own config files. Missing scripts are not proposed.
//!
//! Each ecosystem is one file with one function from the project's files to proposals; wrappers such as Make count only
//! if nothing more direct was found.

pub mod ci_workflow;
mod cmake;
mod deno;
mod dotnet;
mod elixir;
mod go;
mod java;
mod node;
mod php;
mod pre_commit;
mod python;
mod ruby;
mod rust;
mod security;
mod wrappers;

use std::collections::{BTreeMap, BTreeSet};

/// The kind of a gate, in running order, the quick ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GateKind {
    Format,
    Lint,
    Types,
    Test,
    Build,
    /// One that runs several of the others and writes down that they passed.
    Combined,
    Security,
}

/// A proposed gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    pub kind: GateKind,
    pub name: String,
    pub run: String,
    /// The evidence: a file or an installed tool.
    pub because: String,
    /// The timeout as written in the config, if the default is too short.
    pub timeout: Option<&'static str>,
}

impl Proposal {
    fn new(kind: GateKind, name: &str, run: impl Into<String>, because: impl Into<String>) -> Self {
        Self { kind, name: name.into(), run: run.into(), because: because.into(), timeout: None }
    }
}

/// The files at the root of a project, with their text if it was read; folders end with `/`. Also the installed
/// programs of [`PROGRAMS`].
#[derive(Clone, Debug, Default)]
pub struct Project {
    files: BTreeMap<String, String>,
    programs: BTreeSet<String>,
}

/// Programs whose installation suggests a gate.
pub const PROGRAMS: [&str; 1] = ["semgrep"];

/// Files whose text is read; for others the name is enough.
pub const READ: [&str; 27] = [
    "package.json",
    "pyproject.toml",
    "setup.cfg",
    "tox.ini",
    "requirements.txt",
    "requirements-dev.txt",
    "Cargo.toml",
    "Makefile",
    "makefile",
    "GNUmakefile",
    "justfile",
    "Justfile",
    ".justfile",
    "turbo.json",
    "mypy.ini",
    ".mypy.ini",
    "go.work",
    "pom.xml",
    "settings.gradle",
    "settings.gradle.kts",
    "Gemfile",
    "Rakefile",
    "composer.json",
    "mix.exs",
    "CMakeLists.txt",
    "pnpm-workspace.yaml",
    "lerna.json",
];

/// Folders whose files are listed too, and in which of them the text of which files is read. `*` is any one folder.
pub const FOLDERS: [(&str, &str); 8] = [
    ("tests", ""),
    (".venv/bin", ""),
    ("venv/bin", ""),
    (".github/workflows", ".yml"),
    (".github/workflows", ".yaml"),
    ("packages/*", "package.json"),
    ("apps/*", "package.json"),
    ("libs/*", "package.json"),
];

impl Project {
    pub fn new(files: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { files: files.into_iter().collect(), programs: BTreeSet::new() }
    }

    #[must_use]
    pub fn with_programs(self, programs: impl IntoIterator<Item = String>) -> Self {
        Self { programs: programs.into_iter().collect(), ..self }
    }

    fn has(&self, name: &str) -> bool {
        self.files.contains_key(name)
    }

    fn first<'a>(&self, names: &[&'a str]) -> Option<&'a str> {
        names.iter().copied().find(|name| self.has(name))
    }

    fn text(&self, name: &str) -> &str {
        self.files.get(name).map_or("", String::as_str)
    }

    /// The files of these names with their texts.
    fn texts(&self, fits: impl Fn(&str) -> bool) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()))
            .filter(move |(name, _)| fits(name))
    }

    fn any_name(&self, fits: impl Fn(&str) -> bool) -> Option<&str> {
        self.files.keys().map(String::as_str).find(|name| fits(name))
    }
}

/// The gates of a project, the quick ones first.
pub fn propose(project: &Project) -> Vec<Proposal> {
    let ecosystems = [
        node::node,
        deno::deno,
        python::python,
        go::go,
        rust::rust,
        java::java,
        ruby::ruby,
        php::php,
        dotnet::dotnet,
        elixir::elixir,
        cmake::cmake,
    ];
    let mut found: Vec<Proposal> = ecosystems.into_iter().flat_map(|look| look(project)).collect();
    for wrapper in [wrappers::make, wrappers::just, pre_commit::pre_commit] {
        let more: Vec<_> = wrapper(project)
            .into_iter()
            .filter(|new| !found.iter().any(|old| old.kind == new.kind))
            .collect();
        found.extend(more);
    }
    let in_ci = ci_workflow::commands(project);
    if found.is_empty() {
        // The project's CI knows better than nothing.
        found.extend(in_ci.iter().map(by_ci));
    }
    for proposal in &mut found {
        if let Some(same) = in_ci
            .iter()
            .find(|command| command.run == proposal.run && !proposal.because.contains(&command.file))
        {
            proposal.because.push_str(&format!("; also {}:{}", same.file, same.line));
        }
    }
    // A clean scan does not show that the work is done, so it is never the only gate.
    if !found.is_empty() {
        found.extend(security::security_scan(project));
    }
    found.sort_by_key(|proposal| proposal.kind);
    let mut seen: Vec<String> = Vec::new();
    for proposal in &mut found {
        // With two ecosystems in one repo, the second `test` is named after its command.
        if seen.contains(&proposal.name) {
            proposal.name = proposal.run.clone();
        }
        seen.push(proposal.name.clone());
    }
    found
}

fn by_ci(command: &ci_workflow::CiCommand) -> Proposal {
    let because = format!("{}:{}", command.file, command.line);
    Proposal::new(GateKind::Test, &command.run, command.run.clone(), because)
}

/// What CI runs and no gate does.
pub fn only_in_ci(project: &Project, proposals: &[Proposal]) -> Vec<ci_workflow::CiCommand> {
    let mut commands = ci_workflow::commands(project);
    commands.retain(|command| !proposals.iter().any(|proposal| proposal.run == command.run));
    commands
}

/// A section of that name, or one below it.
fn has_section(text: &str, name: &str) -> bool {
    text.lines().map(str::trim).any(|line| {
        let Some(inside) = line.strip_prefix('[').and_then(|line| line.strip_prefix(name)) else {
            return false;
        };
        inside.starts_with([']', '.', ':'])
    })
}

#[cfg(test)]
mod tests;
