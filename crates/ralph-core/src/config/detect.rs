//! Detects a project's gates from its own config files. Missing scripts are not proposed.
//!
//! Each ecosystem is one function from the project's files to proposals; wrappers such as Make count only if nothing
//! more direct was found.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

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
pub const READ: [&str; 13] = [
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

    fn any_name(&self, fits: impl Fn(&str) -> bool) -> Option<&str> {
        self.files.keys().map(String::as_str).find(|name| fits(name))
    }
}

/// The gates of a project, the quick ones first.
pub fn propose(project: &Project) -> Vec<Proposal> {
    let mut found: Vec<Proposal> =
        [node, python, go, rust, java].into_iter().flat_map(|look| look(project)).collect();
    for wrapper in [make, just] {
        let more: Vec<_> = wrapper(project)
            .into_iter()
            .filter(|new| !found.iter().any(|old| old.kind == new.kind))
            .collect();
        found.extend(more);
    }
    // A clean scan does not show that the work is done, so it is never the only gate.
    if !found.is_empty() {
        found.extend(security_scan(project));
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

/// How each package manager runs a script and a tool.
struct PackageManager {
    lock: &'static [&'static str],
    name: &'static str,
    test: &'static str,
    run: &'static str,
    exec: &'static str,
}

const NPM: PackageManager = PackageManager {
    lock: &["package-lock.json"],
    name: "npm",
    test: "npm test",
    run: "npm run",
    exec: "npx --no-install",
};

const MANAGERS: [PackageManager; 4] = [
    PackageManager {
        lock: &["pnpm-lock.yaml"],
        name: "pnpm",
        test: "pnpm test",
        run: "pnpm run",
        exec: "pnpm exec",
    },
    PackageManager {
        lock: &["yarn.lock"],
        name: "yarn",
        test: "yarn test",
        run: "yarn run",
        exec: "yarn run",
    },
    PackageManager {
        lock: &["bun.lock", "bun.lockb"],
        name: "bun",
        test: "bun run test",
        run: "bun run",
        exec: "bunx --no-install",
    },
    NPM,
];

fn node(project: &Project) -> Vec<Proposal> {
    let Ok(package) = serde_json::from_str::<Value>(project.text("package.json")) else { return Vec::new() };
    let manager = package_manager(project, &package);
    let scripts = package["scripts"].as_object();
    let script = |names: &[&'static str]| {
        let there =
            |name: &&&str| scripts.is_some_and(|scripts| scripts.get(**name).is_some_and(does_something));
        names.iter().find(there).copied()
    };
    let depends_on = |name: &str| {
        ["dependencies", "devDependencies"].iter().any(|section| package[section].get(name).is_some())
    };
    let mut found = Vec::new();
    let because = |name: &str| format!("script `{name}` in package.json");
    let run = |name: &str| format!("{} {name}", manager.run);
    if let Some(name) = script(&["format:check", "fmt:check", "check:format", "prettier:check"]) {
        found.push(Proposal::new(GateKind::Format, "format", run(name), because(name)));
    }
    let eslint_config =
        project.any_name(|name| name.starts_with("eslint.config.") || name.starts_with(".eslintrc"));
    match (script(&["lint", "eslint", "check:lint"]), eslint_config) {
        (Some(name), _) => found.push(Proposal::new(GateKind::Lint, "lint", run(name), because(name))),
        (None, Some(config)) if depends_on("eslint") => {
            found.push(Proposal::new(GateKind::Lint, "lint", format!("{} eslint .", manager.exec), config));
        }
        (None, _) => {}
    }
    match script(&["typecheck", "type-check", "check-types", "check:types", "types", "tsc"]) {
        Some(name) => found.push(Proposal::new(GateKind::Types, "typecheck", run(name), because(name))),
        None if project.has("tsconfig.json") && depends_on("typescript") => {
            let run = format!("{} tsc --noEmit", manager.exec);
            found.push(Proposal::new(GateKind::Types, "typecheck", run, "tsconfig.json"));
        }
        None => {}
    }
    if let Some(name) = script(&["test"]) {
        found.push(Proposal::new(GateKind::Test, "test", manager.test, because(name)));
    }
    if let Some(name) = script(&["build"]) {
        found.push(Proposal::new(GateKind::Build, "build", run(name), because(name)));
    }
    if let Some(name) = script(&["qa:gate"]) {
        found.push(Proposal::new(GateKind::Combined, "qa:gate", run(name), because(name)));
    }
    found
}

/// `npm init` writes a test script that only fails.
fn does_something(script: &Value) -> bool {
    script.as_str().is_some_and(|text| !text.trim().is_empty() && !text.contains("no test specified"))
}

fn package_manager(project: &Project, package: &Value) -> &'static PackageManager {
    let named = package["packageManager"].as_str().unwrap_or_default();
    MANAGERS
        .iter()
        .find(|manager| named.split('@').next() == Some(manager.name))
        .or_else(|| MANAGERS.iter().find(|manager| project.first(manager.lock).is_some()))
        .unwrap_or(&NPM)
}

fn python(project: &Project) -> Vec<Proposal> {
    let pyproject = project.text("pyproject.toml");
    let requirements = ["requirements.txt", "requirements-dev.txt"].map(|name| project.text(name)).concat();
    let runner = match () {
        () if project.has("uv.lock") => "uv run ",
        () if project.has("poetry.lock") => "poetry run ",
        () if project.has("pdm.lock") => "pdm run ",
        () => "",
    };
    let section = |name: &str| has_section(pyproject, name).then(|| format!("[{name}] in pyproject.toml"));
    let mut found = Vec::new();
    let ruff =
        project.first(&["ruff.toml", ".ruff.toml"]).map(str::to_owned).or_else(|| section("tool.ruff"));
    if let Some(because) = ruff {
        found.push(Proposal::new(GateKind::Lint, "ruff", format!("{runner}ruff check ."), because));
    }
    let mypy = project.first(&["mypy.ini", ".mypy.ini"]).map(str::to_owned).or_else(|| section("tool.mypy"));
    let mypy =
        mypy.or_else(|| has_section(project.text("setup.cfg"), "mypy").then(|| "[mypy] in setup.cfg".into()));
    if let Some(because) = mypy {
        found.push(Proposal::new(GateKind::Types, "mypy", format!("{runner}mypy ."), because));
    }
    let pytest =
        project.first(&["pytest.ini", "conftest.py"]).map(str::to_owned).or_else(|| section("tool.pytest"));
    let pytest = pytest.or_else(|| {
        let places = [("setup.cfg", "tool:pytest"), ("tox.ini", "pytest")];
        let (file, name) = places.into_iter().find(|(file, name)| has_section(project.text(file), name))?;
        Some(format!("[{name}] in {file}"))
    });
    let pytest = pytest.or_else(|| mentions_pytest(pyproject, "pyproject.toml"));
    let pytest = pytest.or_else(|| mentions_pytest(&requirements, "requirements"));
    let pytest = pytest.or_else(|| {
        let test_file = |name: &str| name.starts_with("tests/test_") && name.ends_with(".py");
        project
            .any_name(|name| test_file(name) || name.starts_with("test_") && name.ends_with(".py"))
            .map(str::to_owned)
    });
    if let Some(because) = pytest {
        found.push(Proposal::new(GateKind::Test, "test", format!("{runner}pytest"), because));
    }
    found
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

/// As a requirement: at the start of a line or of a list item.
fn mentions_pytest(text: &str, file: &str) -> Option<String> {
    let is_pytest = |requirement: &str| {
        let rest = requirement.trim().strip_prefix("pytest").map(str::trim_start);
        rest.is_some_and(|rest| {
            rest.is_empty() || rest.starts_with(['<', '>', '=', '!', '~', '[', ';', '@', '#'])
        })
    };
    let mentioned = text.lines().any(|line| line.split(['"', '\'']).any(is_pytest));
    mentioned.then(|| format!("pytest in {file}"))
}

fn go(project: &Project) -> Vec<Proposal> {
    if !project.has("go.mod") {
        return Vec::new();
    }
    vec![
        Proposal::new(GateKind::Format, "gofmt", "test -z \"$(gofmt -l . | tee /dev/stderr)\"", "go.mod"),
        Proposal::new(GateKind::Lint, "vet", "go vet ./...", "go.mod"),
        Proposal::new(GateKind::Test, "test", "go test ./...", "go.mod"),
    ]
}

fn rust(project: &Project) -> Vec<Proposal> {
    if !project.has("Cargo.toml") {
        return Vec::new();
    }
    let all = if has_section(project.text("Cargo.toml"), "workspace") { " --workspace" } else { "" };
    vec![
        Proposal::new(GateKind::Format, "fmt", "cargo fmt --check", "Cargo.toml"),
        Proposal::new(
            GateKind::Lint,
            "clippy",
            format!("cargo clippy{all} --all-targets -- -D warnings"),
            "Cargo.toml",
        ),
        Proposal::new(GateKind::Test, "test", format!("cargo test{all}"), "Cargo.toml"),
    ]
}

fn java(project: &Project) -> Vec<Proposal> {
    if project.has("pom.xml") {
        let maven = if project.has("mvnw") { "./mvnw" } else { "mvn" };
        return vec![Proposal::new(GateKind::Test, "test", format!("{maven} -B -q test"), "pom.xml")];
    }
    let Some(build) = project.first(&["build.gradle", "build.gradle.kts"]) else { return Vec::new() };
    let gradle = if project.has("gradlew") { "./gradlew" } else { "gradle" };
    // The daemon would outlive the gate.
    vec![Proposal::new(GateKind::Test, "test", format!("{gradle} --no-daemon --quiet check"), build)]
}

fn make(project: &Project) -> Vec<Proposal> {
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

fn just(project: &Project) -> Vec<Proposal> {
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

/// Semgrep exits 1 for findings of the two highest severities. Other nonzero codes mean that it could not scan, for
/// example because its rules could not be fetched; they are mapped to the shell's code for a command that could not
/// run. Without a network semgrep takes almost two minutes to give up.
fn security_scan(project: &Project) -> Option<Proposal> {
    const RUN: &str = "semgrep scan --config auto --error --severity ERROR --severity WARNING \
                       || exit $(($? == 1 ? 1 : 127))";
    let scan = Proposal::new(GateKind::Security, "security", RUN, "semgrep is installed");
    project.programs.contains("semgrep").then_some(Proposal { timeout: Some("10m"), ..scan })
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

#[cfg(test)]
mod tests;
