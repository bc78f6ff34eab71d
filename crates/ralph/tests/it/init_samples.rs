//! What `ralph init --dry-run` proposes in small sample repos, one per ecosystem, with the reason for each gate. Their tools
//! are not needed; `tests/ecosystems` runs the gates of some of them with the real ones.

use std::fmt::Write as _;

use ralph_testkit::Sandbox;

/// The name of a sample and its files.
type Sample = (&'static str, &'static [(&'static str, &'static str)]);

const SAMPLES: [Sample; 27] = [
    (
        "npm",
        &[
            ("package.json", r#"{"scripts":{"lint":"eslint .","test":"vitest run","build":"tsc"}}"#),
            ("package-lock.json", "{}"),
        ],
    ),
    (
        "npm, pretest runs lint",
        &[("package.json", r#"{"scripts":{"pretest":"npm run lint","lint":"eslint .","test":"mocha"}}"#)],
    ),
    (
        "npm workspaces",
        &[
            ("package.json", r#"{"workspaces":["packages/*"]}"#),
            ("package-lock.json", "{}"),
            ("packages/a/package.json", r#"{"scripts":{"test":"x","lint":"y"}}"#),
            ("packages/b/package.json", r#"{"scripts":{"test":"x"}}"#),
        ],
    ),
    (
        "pnpm with turbo",
        &[
            ("package.json", r#"{"packageManager":"pnpm@9.0.0"}"#),
            ("pnpm-workspace.yaml", "packages:\n  - packages/*\n"),
            ("pnpm-lock.yaml", ""),
            ("turbo.json", r#"{"tasks":{"build":{},"lint":{},"test":{},"check-types":{}}}"#),
        ],
    ),
    (
        "nx",
        &[
            ("package.json", r#"{"devDependencies":{"nx":"20"}}"#),
            ("nx.json", "{}"),
            ("apps/web/package.json", r#"{"scripts":{"test":"x","build":"y"}}"#),
        ],
    ),
    (
        "lerna with yarn",
        &[
            ("package.json", r#"{"private":true}"#),
            ("yarn.lock", ""),
            ("lerna.json", "{}"),
            ("packages/a/package.json", r#"{"scripts":{"test":"x"}}"#),
        ],
    ),
    ("bun", &[("package.json", r#"{"scripts":{"test":"bun test"}}"#), ("bun.lock", "")]),
    ("deno", &[("deno.json", "{}")]),
    (
        "python with .venv",
        &[
            ("pyproject.toml", "[tool.ruff]\n[tool.mypy]\nfiles = [\"src\"]\n[tool.pytest.ini_options]\n"),
            (".venv/bin/ruff", ""),
            (".venv/bin/pytest", ""),
        ],
    ),
    (
        "python with uv",
        &[
            ("pyproject.toml", "[tool.ruff]\n[tool.mypy]\n[dependency-groups]\ndev = [\"pytest\"]\n"),
            ("uv.lock", ""),
        ],
    ),
    ("python with poetry", &[("pyproject.toml", "[tool.pytest.ini_options]\n"), ("poetry.lock", "")]),
    ("tox", &[("tox.ini", "[tox]\nenvlist = py\n[testenv]\ncommands = pytest\n"), ("setup.cfg", "")]),
    ("nox", &[("noxfile.py", "import nox\n")]),
    ("pre-commit", &[(".pre-commit-config.yaml", "repos: []\n"), ("tests/test_x.py", "")]),
    ("cargo workspace", &[("Cargo.toml", "[workspace]\nmembers = [\"a\"]\n")]),
    ("go module", &[("go.mod", "module x\n")]),
    ("go.work", &[("go.work", "go 1.22\n\nuse (\n\t./api // the server\n\t./cli\n)\n")]),
    (
        "maven modules",
        &[("pom.xml", "<project><modules><module>a</module><module>b</module></modules></project>")],
    ),
    ("gradle modules", &[("settings.gradle.kts", "include(\"a\", \"b\")\n"), ("gradlew", "")]),
    ("ruby with rspec", &[("Gemfile", "gem \"rspec\"\n"), (".rubocop.yml", "")]),
    ("ruby with minitest", &[("Gemfile", ""), ("Rakefile", "Rake::TestTask.new\n")]),
    (
        "php with phpunit",
        &[
            ("composer.json", r#"{"scripts":{"lint":"phpcs"}}"#),
            ("phpunit.xml.dist", ""),
            ("phpstan.neon", ""),
        ],
    ),
    (".net", &[("Shop.sln", "")]),
    ("elixir", &[("mix.exs", "defp deps, do: [{:credo, \"~> 1.7\"}]\n"), (".formatter.exs", "")]),
    ("cmake", &[("CMakeLists.txt", "enable_testing()\nadd_test(NAME a COMMAND a)\n")]),
    ("make", &[("Makefile", "lint:\n\tx\ntest:\n\ty\n"), ("justfile", "test:\n  z\n")]),
    (
        "only a CI workflow",
        &[(
            ".github/workflows/ci.yml",
            "jobs:\n  a:\n    steps:\n      - run: npm ci\n      - run: ./scripts/test.sh --all\n      - run: echo ${{ matrix.test }}\n",
        )],
    ),
];

#[test]
fn each_ecosystem_gets_its_usual_gates_with_the_reason_for_each() {
    let mut all = String::new();
    for (name, files) in SAMPLES {
        let sandbox = Sandbox::new();
        for (path, text) in files {
            sandbox.file(path, text);
        }
        let ran = sandbox.ralph(&["init", "--dry-run", "--no-hooks"]).success();
        writeln!(all, "{name}").expect("a string");
        let proposed =
            ran.stdout.lines().filter(|line| line.starts_with("  $ ") || line.contains("no gate found"));
        for line in proposed {
            writeln!(all, "{line}").expect("a string");
        }
        assert!(!sandbox.exists("ralph.yaml"), "{name}");
    }
    insta::with_settings!({snapshot_path => "snapshots", prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!("init_samples", all);
    });
}

#[test]
fn what_ci_runs_is_a_hint_with_its_line() {
    let sandbox = Sandbox::new();
    sandbox.file("package.json", r#"{"scripts":{"test":"x"}}"#);
    let workflow = "steps:\n  - run: npm ci\n  - run: npm test\n  - name: types\n    run: npx tsc --noEmit\n";
    sandbox.file(".github/workflows/ci.yml", workflow);
    let ran = sandbox.ralph(&["init", "--dry-run", "--no-hooks"]).success();
    for line in [
        "$ npm test  (script `test` in package.json; also .github/workflows/ci.yml:3)",
        "your CI also runs, add what you want with --gate:",
        "    npx tsc --noEmit  (.github/workflows/ci.yml:5)",
    ] {
        assert!(ran.stdout.contains(line), "{line}: {ran:#?}");
    }
    assert!(!ran.stdout.contains("npm ci"), "{ran:#?}");
}

#[test]
fn a_subfolder_is_told_which_folder_is_set_up_and_why() {
    let sandbox = Sandbox::new();
    sandbox.file("package.json", r#"{"scripts":{"test":"x"}}"#);
    sandbox.file("src/deep/file.js", "");
    let mut command = sandbox.command(&["init", "--dry-run", "--no-hooks"]);
    let ran = ralph_testkit::Finished::run(command.current_dir(sandbox.path("src/deep")), b"").success();
    assert!(
        ran.stdout.contains("the folder that contains src/deep: it is the root of the git repository"),
        "{ran:#?}"
    );
    let at_root = sandbox.ralph(&["init", "--dry-run", "--no-hooks"]).success();
    assert!(!at_root.stdout.contains("the folder that contains"), "{at_root:#?}");
}

/// A gate that fails already is required, and comes last so that it hides no other; one that cannot start is left out.
#[test]
fn already_failing_gates_come_last_and_nothing_is_written_as_if_gates_ran() {
    let sandbox = Sandbox::new();
    let gates = ["--gate", "echo 'a.c:3:1: error: no'; exit 1", "--gate", "test -e .git"];
    sandbox.ralph(&[&["init", "--yes", "--no-hooks"], &gates[..]].concat()).success();
    let text = sandbox.read("ralph.yaml");
    let (passing, failing) = (text.find("test -e .git"), text.find("a.c:3:1"));
    assert!(passing < failing && text.contains("# required, already failing (1 problem)"), "{text}");
    let sandbox = Sandbox::new();
    sandbox.ralph(&["init", "--yes", "--no-hooks"]).success().says("nothing can be verified");
    let text = sandbox.read("ralph.yaml");
    assert!(
        text.contains("# No gate works yet") && !text.lines().any(|line| line.starts_with("verify:")),
        "{text}"
    );
    sandbox.ralph(&["verify"]).exits(2).says("no gates");
}
