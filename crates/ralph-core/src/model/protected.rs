//! Which files can show that work is done, and which are the work: tests and settings on one side, sources on the other.
//!
//! A file is classified by its path, for every ecosystem at once. The list may be incomplete: a test file that it misses counts
//! as a source, is put back by *undo*, and then proves nothing. Some files are half source, half setting: `merge` keeps the
//! settings of one version and the rest of another, `rust_tests` does the same with the tests inside of Rust files.

mod merge;
mod rust_tests;

use std::collections::BTreeSet;

use crate::model::file_change::{FileChange, FileContent, ViewEdit};

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileRole {
    /// Tests with their fixtures and snapshots.
    Test,
    /// Settings of test runners, linters and compilers, gate scripts, CI.
    Setting,
    /// Lists of dependencies and lock files. They prove nothing and are no sources: *undo* leaves them, so that new tests
    /// find what they need.
    Dependencies,
    /// LICENSE, README, docs: put back like a source, but a change of them needs no test.
    Document,
    Source,
}

/// Classifies the files of a repo.
#[derive(Clone, Debug, Default)]
pub struct ProtectedFiles {
    /// Words in the commands of the gates, and in the package scripts that they may call.
    words: BTreeSet<String>,
    /// Those of them that are run.
    programs: BTreeSet<String>,
}

impl ProtectedFiles {
    /// With the commands of the gates and the scripts that they may call.
    pub fn new<'c>(commands: impl IntoIterator<Item = &'c str>) -> Self {
        let mut protected = Self::default();
        for command in commands {
            for part in command.split([';', '|', '&', '(', ')', '\n', '`']) {
                protected.add(part);
            }
        }
        protected
    }

    fn add(&mut self, part: &str) {
        /// Programs that run the file named after them.
        const RUNNERS: [&str; 16] = [
            "sh", "bash", "dash", "zsh", "ksh", "source", ".", "exec", "env", "time", "sudo", "python",
            "python3", "node", "ruby", "perl",
        ];
        let is_end = |c: char| c.is_whitespace() || "<>\"'=,{}".contains(c);
        let mut is_first = true;
        for word in part.split(is_end).filter(|word| !word.is_empty()) {
            let plain = word.trim_start_matches("./").to_owned();
            if is_first || word.starts_with("./") {
                self.programs.insert(plain.clone());
            }
            is_first = RUNNERS.contains(&word) || is_first && word.starts_with('-');
            self.words.insert(plain);
        }
    }

    pub fn role(&self, path: &str) -> FileRole {
        match role_by_path(path) {
            FileRole::Source if self.is_gate_script(path) => FileRole::Setting,
            role => role,
        }
    }

    /// Whether changes of this path are the work itself, to be shown by a test.
    pub fn is_source(&self, path: &str) -> bool {
        self.role(path) == FileRole::Source
    }

    /// A script that a gate names. A program of the project that a gate runs is not one.
    fn is_gate_script(&self, path: &str) -> bool {
        const SCRIPTS: [&str; 10] = ["sh", "bash", "zsh", "fish", "ksh", "bats", "mk", "ps1", "bat", "cmd"];
        const FOLDERS: [&str; 9] =
            ["scripts", "script", "tools", "tool", "hack", "ci", ".ci", "bin", "build-tools"];
        let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
        let extension = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).map(|(_, end)| end);
        let is_script = extension.is_some_and(|extension| SCRIPTS.contains(&extension))
            || folders.split('/').any(|folder| FOLDERS.contains(&folder));
        let is_named = |word: &String| {
            word == path || path.strip_suffix(word.as_str()).is_some_and(|before| before.ends_with('/'))
        };
        match extension {
            None if !is_script => self.programs.iter().any(is_named),
            _ => is_script && self.words.iter().any(is_named),
        }
    }
}

const TEST_FOLDERS: [&str; 20] = [
    "test",
    "tests",
    "__tests__",
    "__test__",
    "spec",
    "specs",
    "e2e",
    "cypress",
    "__mocks__",
    "__snapshots__",
    "__fixtures__",
    "snapshots",
    "fixtures",
    "testdata",
    "test-data",
    "test_data",
    "test-utils",
    "integration-tests",
    "integration_tests",
    "androidtest",
];

/// Folders whose files are settings.
const SETTING_FOLDERS: [&str; 10] = [
    ".github/workflows/",
    ".github/actions/",
    ".circleci/",
    ".buildkite/",
    ".ci/",
    ".husky/",
    ".cargo/",
    ".config/",
    ".trellis/",
    ".ideal/",
];

const SETTINGS: [&str; 93] = [
    "conftest.py",
    "pytest.ini",
    ".pytest.ini",
    "tox.ini",
    "setup.cfg",
    "noxfile.py",
    ".coveragerc",
    "mypy.ini",
    ".mypy.ini",
    "pyrightconfig.json",
    "ruff.toml",
    ".ruff.toml",
    ".flake8",
    ".pylintrc",
    "pylintrc",
    ".isort.cfg",
    ".pre-commit-config.yaml",
    "makefile",
    "gnumakefile",
    "justfile",
    ".justfile",
    "taskfile.yml",
    "taskfile.yaml",
    "rakefile",
    "jsconfig.json",
    "biome.json",
    "biome.jsonc",
    ".swcrc",
    "deno.json",
    "deno.jsonc",
    "nx.json",
    "turbo.json",
    "lerna.json",
    "bunfig.toml",
    ".npmrc",
    ".nvmrc",
    ".node-version",
    ".python-version",
    ".ruby-version",
    ".tool-versions",
    "mise.toml",
    ".mise.toml",
    ".eslintignore",
    ".prettierignore",
    ".stylelintignore",
    "rust-toolchain",
    "rust-toolchain.toml",
    "clippy.toml",
    ".clippy.toml",
    "rustfmt.toml",
    ".rustfmt.toml",
    "deny.toml",
    "go.work",
    "phpunit.xml",
    "phpunit.xml.dist",
    "psalm.xml",
    ".rspec",
    ".rubocop.yml",
    ".rubocop_todo.yml",
    ".simplecov",
    ".credo.exs",
    ".formatter.exs",
    "checkstyle.xml",
    ".editorconfig",
    ".shellcheckrc",
    ".swiftlint.yml",
    "analysis_options.yaml",
    ".scalafmt.conf",
    ".clang-format",
    ".clang-tidy",
    "codecov.yml",
    ".gitlab-ci.yml",
    "azure-pipelines.yml",
    "jenkinsfile",
    ".travis.yml",
    ".drone.yml",
    "bitbucket-pipelines.yml",
    "appveyor.yml",
    "ralph.yaml",
    "ralph.yml",
    "build.gradle",
    "build.gradle.kts",
    "settings.gradle",
    "settings.gradle.kts",
    "gradle.properties",
    "pom.xml",
    "build.sbt",
    "noxfile",
    "tslint.json",
    "bsconfig.json",
    "wallaby.js",
    "testem.js",
    ".lintstagedrc",
];

/// The name before the first dot after these, whatever the extension.
const SETTING_STARTS: [&str; 32] = [
    "jest.config.",
    "jest.setup.",
    "vitest.config.",
    "vitest.setup.",
    "vitest.workspace.",
    "vite.config.",
    "karma.conf.",
    "cypress.config.",
    "playwright.config.",
    ".mocharc",
    "ava.config.",
    ".nycrc",
    ".c8rc",
    ".taprc",
    "babel.config.",
    ".babelrc",
    "eslint.config.",
    ".eslintrc",
    ".prettierrc",
    "prettier.config.",
    ".stylelintrc",
    "stylelint.config.",
    "gruntfile.",
    "gulpfile.",
    ".golangci.",
    "phpstan.",
    ".php-cs-fixer",
    "tsconfig.",
    "tsconfig-",
    "wdio.conf.",
    "nightwatch.conf.",
    "web-test-runner.config.",
];

const DEPENDENCIES: [&str; 36] = [
    "cargo.lock",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "pnpm-workspace.yaml",
    "bun.lock",
    "bun.lockb",
    "poetry.lock",
    "uv.lock",
    "pdm.lock",
    "pipfile",
    "pipfile.lock",
    "go.mod",
    "go.sum",
    "go.work.sum",
    "gemfile",
    "gemfile.lock",
    "composer.json",
    "composer.lock",
    "mix.exs",
    "mix.lock",
    "rebar.config",
    "rebar.lock",
    "packages.lock.json",
    "gradle.lockfile",
    "libs.versions.toml",
    "pubspec.lock",
    "podfile",
    "podfile.lock",
    "package.resolved",
    "flake.lock",
    "deno.lock",
    "directory.packages.props",
    "cpanfile",
    "conanfile.txt",
];

fn role_by_path(path: &str) -> FileRole {
    let lower = path.to_ascii_lowercase();
    let (folders, name) = lower.rsplit_once('/').unwrap_or(("", &lower));
    let original = path.rsplit('/').next().unwrap_or(path);
    let mut in_folders = folders.split('/').filter(|folder| !folder.is_empty());
    if DEPENDENCIES.contains(&name) || is_requirements(folders, name) {
        FileRole::Dependencies
    } else if SETTINGS.contains(&name)
        || SETTING_STARTS.iter().any(|start| name.starts_with(start))
        || SETTING_FOLDERS
            .iter()
            .any(|folder| lower.starts_with(folder) || lower.contains(&format!("/{folder}")))
        || name.ends_with(".mk")
    {
        FileRole::Setting
    } else if in_folders.clone().any(|folder| TEST_FOLDERS.contains(&folder)) || is_test_name(original, name)
    {
        FileRole::Test
    } else if is_document(&mut in_folders, name) {
        FileRole::Document
    } else {
        FileRole::Source
    }
}

fn is_requirements(folders: &str, name: &str) -> bool {
    let is_list = name.ends_with(".txt") || name.ends_with(".in");
    is_list
        && (name.starts_with("requirements")
            || name.starts_with("constraints")
            || name.ends_with("requirements.txt")
            || folders.rsplit('/').next() == Some("requirements"))
}

fn is_test_name(original: &str, name: &str) -> bool {
    /// Languages whose test classes are named so.
    const CAMEL: [&str; 13] =
        ["java", "kt", "kts", "scala", "groovy", "php", "cs", "fs", "vb", "swift", "m", "mm", "hs"];
    const ENDS: [&str; 12] = [
        "_test",
        "_tests",
        "-test",
        "-tests",
        ".test",
        ".tests",
        "_spec",
        "-spec",
        ".spec",
        ".e2e",
        ".cy",
        "_unittest",
    ];
    if name.ends_with(".snap") || name.ends_with(".bats") || name.ends_with(".feature") {
        return true;
    }
    let Some((stem, extension)) = name.rsplit_once('.') else { return false };
    if ["md", "rst", "adoc"].contains(&extension) {
        return false;
    }
    // `a.test.d.ts`, `a.spec.ts.snap`
    let stem = stem.strip_suffix(".d").unwrap_or(stem);
    let original_stem = original.rsplit_once('.').map_or(original, |(stem, _)| stem);
    let camel = || {
        let ends = ["Test", "Tests", "Spec", "Specs", "TestCase", "TestSuite", "IT"];
        CAMEL.contains(&extension) && ends.iter().any(|end| original_stem.ends_with(end))
    };
    let helpers =
        ["test_helper", "spec_helper", "rails_helper", "setuptests", "test-setup", "testutil", "testutils"];
    stem == "test"
        || stem == "tests"
        || stem == "spec"
        || stem.starts_with("test_")
        || stem.starts_with("test-")
        || stem.starts_with("test.")
        || ENDS.iter().any(|end| stem.ends_with(end))
        || helpers.contains(&stem)
        || camel()
}

fn is_document<'p>(folders: &mut impl Iterator<Item = &'p str>, name: &str) -> bool {
    const NAMES: [&str; 11] = [
        "readme",
        "license",
        "licence",
        "copying",
        "notice",
        "authors",
        "changelog",
        "changes",
        "contributing",
        "codeowners",
        "security",
    ];
    let stem = name.split(['.', '-']).next().unwrap_or(name);
    ["md", "mdx", "rst", "adoc", "asciidoc"].iter().any(|end| name.ends_with(&format!(".{end}")))
        || NAMES.contains(&stem)
            && !["rs", "py", "go", "ts", "js"].iter().any(|end| name.ends_with(&format!(".{end}")))
        || folders.any(|folder| ["docs", "doc"].contains(&folder))
}

/// What a view must change to show the start's sources under everything else as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourcesUndone {
    pub edits: Vec<ViewEdit>,
    /// Files whose tests cannot be separated from their sources. They are put back as a whole, so their tests prove nothing.
    pub inseparable: Vec<String>,
}

/// Puts the sources among the changed files back; tests, settings and dependencies stay.
pub fn undo_sources(changes: &[FileChange], protected: &ProtectedFiles) -> SourcesUndone {
    let mut undone = SourcesUndone::default();
    let sources: Vec<&FileChange> = changes
        .iter()
        .filter(|change| matches!(protected.role(&change.name()), FileRole::Source | FileRole::Document))
        .collect();
    let kept_modules: BTreeSet<String> = sources
        .iter()
        .filter(|change| is_new_rust_with_tests(change))
        .filter_map(|change| module_name(&change.name()))
        .collect();
    for change in sources {
        let name = change.name().into_owned();
        let split = match (&change.before, &change.now) {
            (Some(before), Some(now)) => merge::merged(&name, before, now)
                .or_else(|| rust_tests::separated(&name, Some(before), now, &kept_modules)),
            // A new list of settings and dependencies stays as it is.
            (None, Some(now)) if merge::is_half_setting(&name) => Some(Ok(now.clone())),
            (None, Some(now)) => rust_tests::separated(&name, None, now, &kept_modules),
            (_, None) => None,
        };
        match split {
            Some(Ok(content)) if Some(&content) == change.now.as_ref() => {}
            Some(Ok(content)) => {
                undone.edits.push(ViewEdit { path: change.path.clone(), content: Some(content) });
            }
            Some(Err(NotSeparable)) => {
                undone.inseparable.push(name);
                undone.edits.push(change.undone());
            }
            None => undone.edits.push(change.undone()),
        }
    }
    undone
}

/// A file of which only a part would have to be put back, and it is not known which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NotSeparable;

type Separated = Option<Result<FileContent, NotSeparable>>;

fn is_new_rust_with_tests(change: &FileChange) -> bool {
    let text = change.now.as_ref().and_then(FileContent::text);
    change.before.is_none() && change.name().ends_with(".rs") && text.is_some_and(rust_tests::may_have_tests)
}

/// The name by which a Rust file is declared: `a.rs` and `a/mod.rs` are `a`.
fn module_name(path: &str) -> Option<String> {
    let path = path.strip_suffix(".rs")?;
    let path = path.strip_suffix("/mod").unwrap_or(path);
    path.rsplit('/').next().map(str::to_owned)
}

#[cfg(test)]
mod tests;
