//! One small project per ecosystem with its usual gates.

use super::*;

/// A project as `init` sees it: only files in `READ` have text.
fn commands(files: &[(&str, &str)]) -> Vec<String> {
    let text = |name: &str, text: &str| if READ.contains(&name) { text.to_owned() } else { String::new() };
    let project = Project::new(files.iter().map(|(name, inside)| (name.to_string(), text(name, inside))));
    propose(&project).into_iter().map(|proposal| proposal.run).collect()
}

const SCRIPTS: &str = r#"{"scripts":{"lint":"eslint .","typecheck":"tsc --noEmit","test":"vitest"}}"#;

#[test]
fn node_projects_use_their_own_package_manager_and_scripts() {
    let table = [
        ("package-lock.json", ["npm run lint", "npm run typecheck", "npm test"]),
        ("pnpm-lock.yaml", ["pnpm run lint", "pnpm run typecheck", "pnpm test"]),
        ("yarn.lock", ["yarn run lint", "yarn run typecheck", "yarn test"]),
        ("bun.lock", ["bun run lint", "bun run typecheck", "bun run test"]),
    ];
    for (lock, expected) in table {
        assert_eq!(commands(&[("package.json", SCRIPTS), (lock, "")]), expected, "{lock}");
    }
}

#[test]
fn the_named_package_manager_wins_over_a_lock_file() {
    let package = r#"{"packageManager":"pnpm@9.1.0","scripts":{"test":"x"}}"#;
    assert_eq!(commands(&[("package.json", package), ("package-lock.json", "")]), ["pnpm test"]);
}

#[test]
fn a_missing_script_is_not_proposed() {
    assert!(commands(&[("package.json", "{}")]).is_empty());
    assert!(commands(&[("package.json", "not json")]).is_empty());
    let default = r#"{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}"#;
    assert!(commands(&[("package.json", default)]).is_empty());
}

#[test]
fn tools_without_a_script_are_called_if_the_project_depends_on_them() {
    let package = r#"{"devDependencies":{"typescript":"5","eslint":"9"}}"#;
    let files = [("package.json", package), ("tsconfig.json", "{}"), ("eslint.config.js", "")];
    assert_eq!(commands(&files), ["npx --no-install eslint .", "npx --no-install tsc --noEmit"]);
    let without = [("package.json", "{}"), ("tsconfig.json", "{}"), ("eslint.config.js", "")];
    assert!(commands(&without).is_empty());
}

#[test]
fn python_tools_are_found_by_their_settings() {
    let pyproject =
        "[project]\nname = 'x'\n[tool.ruff.lint]\nselect = []\n[tool.mypy]\n[tool.pytest.ini_options]\n";
    assert_eq!(commands(&[("pyproject.toml", pyproject)]), ["ruff check .", "mypy .", "pytest"]);
    assert_eq!(
        commands(&[("pyproject.toml", pyproject), ("uv.lock", "")]),
        ["uv run ruff check .", "uv run mypy .", "uv run pytest"]
    );
    assert_eq!(commands(&[("requirements-dev.txt", "pytest==8.0\n")]), ["pytest"]);
    assert_eq!(commands(&[("tests/test_a.py", "")]), ["pytest"]);
    let found = [
        ("setup.cfg", "[tool:pytest]\ntestpaths = t\n"),
        ("tox.ini", "[pytest]\n"),
        ("pyproject.toml", "[dependency-groups]\ndev = [\"ruff\", \"pytest>=8\"]\n"),
        ("pyproject.toml", "[project.optional-dependencies]\ntest = [\n    \"pytest\",\n]\n"),
        ("pyproject.toml", "[tool.poetry.group.dev.dependencies]\npytest = \"^8\"\n"),
    ];
    for (file, text) in found {
        assert_eq!(commands(&[(file, text)]), ["pytest"], "{text}");
    }
    let elsewhere = "[project]\ndescription = \"pytest made easy\"\ndependencies = [\"pytest-cov\"]\n";
    assert!(commands(&[("pyproject.toml", elsewhere)]).is_empty());
    assert!(commands(&[("requirements.txt", "pytest-cov\nflask\n")]).is_empty());
    assert!(commands(&[("pyproject.toml", "[tool.ruffian]\n")]).is_empty());
}

#[test]
fn go_rust_and_java_have_their_usual_commands() {
    assert_eq!(
        commands(&[("go.mod", "")]),
        ["test -z \"$(gofmt -l . | tee /dev/stderr)\"", "go vet ./...", "go test ./..."]
    );
    assert_eq!(
        commands(&[("Cargo.toml", "[package]\n")]),
        ["cargo fmt --check", "cargo clippy --all-targets -- -D warnings", "cargo test"]
    );
    assert_eq!(commands(&[("Cargo.toml", "[workspace]\n")])[2], "cargo test --workspace");
    assert_eq!(commands(&[("pom.xml", ""), ("mvnw", "")]), ["./mvnw -B -q test"]);
    assert_eq!(commands(&[("build.gradle.kts", "")]), ["gradle --no-daemon --quiet check"]);
}

#[test]
fn make_and_just_count_only_if_nothing_more_direct_was_found() {
    let makefile = ".PHONY: test lint\nVERSION := 1\nlint:\n\tx\ntest: build\n\ty\n";
    assert_eq!(commands(&[("Makefile", makefile)]), ["make lint", "make test"]);
    let justfile = "default: test\n\n@lint:\n  x\ntest:\n  y\ndeploy target:\n  z\n";
    for name in ["justfile", "Justfile", ".justfile"] {
        assert_eq!(commands(&[(name, justfile)]), ["just lint", "just test"], "{name}");
    }
    assert_eq!(commands(&[("Makefile", makefile), ("go.mod", "")]).len(), 3);
    assert!(commands(&[("Makefile", "check := 1\n# test: x\n\ttest: y\n")]).is_empty());
}

#[test]
fn two_ecosystems_in_one_repo_have_two_names() {
    let files = [("package.json", r#"{"scripts":{"test":"x"}}"#), ("go.mod", "")];
    let project = Project::new(files.iter().map(|(name, text)| (name.to_string(), text.to_string())));
    let names: Vec<String> = propose(&project).into_iter().map(|proposal| proposal.name).collect();
    assert_eq!(names, ["gofmt", "vet", "test", "go test ./..."]);
}

#[test]
fn a_security_scan_comes_last_and_never_alone() {
    let scanned = |files: &[(&str, &str)], program: &str| {
        let files = files.iter().map(|(name, text)| (name.to_string(), text.to_string()));
        propose(&Project::new(files).with_programs([program.to_owned()]))
    };
    let found = scanned(&[("go.mod", "")], "semgrep");
    let last = found.last().expect("a gate");
    assert_eq!((last.kind, last.name.as_str(), last.timeout), (GateKind::Security, "security", Some("10m")));
    assert!(
        last.run
            .starts_with("semgrep scan --config auto --error --severity ERROR --severity WARNING || exit "),
        "{}",
        last.run
    );
    assert_eq!(found.len(), 4);
    assert_eq!(scanned(&[("go.mod", "")], "another").len(), 3);
    assert!(scanned(&[("notes.txt", "")], "semgrep").is_empty());
}
