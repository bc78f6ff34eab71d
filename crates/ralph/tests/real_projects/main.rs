//! Three real projects from the package registries, one function broken in each: the feedback that the real Claude
//! Code sends
//! to its model names every failing test and its location, and stays short. Installed and run only on request:
//!
//!   cargo test -p ralph --test real_projects

#[path = "../e2e/session.rs"]
#[allow(dead_code, reason = "the session is shared; these tests need only some of it")]
mod session;

/// The binary under test.
const RALPH: &str = env!("CARGO_BIN_EXE_ralph");

use std::process::Command;

use ralph_testkit::{Claude, Sandbox, Turn};
use session::{ClaudeSession, Runs, bash, one_sub_agent, verdicts};

/// A project from its registry, and what is broken in it.
struct Project {
    /// Creates the project in the current folder, and tools beside it in `../tools`.
    fetch: &'static str,
    gate: &'static str,
    file: &'static str,
    whole: &'static str,
    broken: &'static str,
    /// Every failing test with its location, as the agent must read it.
    message: &'static [&'static str],
    /// Passing tests, coverage tables and the like, which it must not read.
    untold: &'static [&'static str],
}

const QS: Project = Project {
    // Only the dev dependencies that its tests need: the others include a git repository.
    fetch: r#"
        npm pack --silent qs@6.14.0 >/dev/null
        tar -xzf qs-*.tgz --strip-components=1 && rm qs-*.tgz
        node -e '
          const fs = require("fs"), all = JSON.parse(fs.readFileSync("package.json"));
          const needed = /^(es-value-fixtures|for-each|has-.*|iconv-lite|mock-property|nyc|object-inspect|qs-iconv|safer-buffer|tape)$/;
          all.devDependencies = Object.fromEntries(Object.entries(all.devDependencies).filter(([name]) => needed.test(name)));
          delete all.scripts;
          fs.writeFileSync("package.json", JSON.stringify(all, null, 2));
        '
        npm install --silent --no-audit --no-fund --ignore-scripts
        printf 'node_modules\n.nyc_output\ncoverage\n' >.gitignore
    "#,
    gate: "npx nyc --exclude 'test/**' tape 'test/**/*.js'",
    file: "lib/formats.js",
    whole: "percentTwenties, '+'",
    broken: "percentTwenties, '-'",
    message: &[
        "3 of 797 tests fail",
        "test/stringify.js:1013  RFC 1738 serialization > should be strictly equal: expected: 'a=b+c'; actual: 'a=b-c'",
        "test/stringify.js:1014  RFC 1738 serialization > should be strictly equal: expected: 'a+b=c+d'; actual: 'a-b=c-d'",
        "test/stringify.js:1015  RFC 1738 serialization > should be strictly equal: expected: 'a+b=a+b'; actual: 'a-b=a-b'",
    ],
    untold: &["% Stmts", "\nok 1 "],
};

const ITSDANGEROUS: Project = Project {
    fetch: r#"
        python3 -m venv ../tools
        ../tools/bin/pip -q install pytest==8.3.5 freezegun==1.5.1
        ../tools/bin/pip -q download --no-deps --no-binary :all: itsdangerous==2.2.0
        tar -xzf itsdangerous-*.tar.gz --strip-components=1 && rm itsdangerous-*.tar.gz
        printf '__pycache__\n.pytest_cache\n' >.gitignore
    "#,
    gate: "PYTHONPATH=src ../tools/bin/python -m pytest",
    file: "src/itsdangerous/encoding.py",
    whole: r#"return _int_to_bytes(num).lstrip(b"\x00")"#,
    broken: "return _int_to_bytes(num)",
    message: &[
        "2 of 297 tests fail",
        "tests/test_itsdangerous/test_encoding.py:35  test_int_bytes[0-]: ",
        "tests/test_itsdangerous/test_encoding.py:35  test_int_bytes[192-\\xc0]: ",
    ],
    untold: &["[ 12%]"],
};

const SEMVER: Project = Project {
    fetch: r#"
        mkdir -p ../tools/src && touch ../tools/src/lib.rs
        printf '[package]\nname = "tools"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\nsemver = "=1.0.26"\n' >../tools/Cargo.toml
        (cd ../tools && cargo fetch --quiet && cargo metadata --format-version 1) >../metadata.json
        source=$(grep -o '"manifest_path":"[^"]*/semver-1.0.26/Cargo.toml"' ../metadata.json | cut -d'"' -f4)
        cp -r "$(dirname "$source")"/src "$(dirname "$source")"/tests .
        printf '[package]\nname = "semver"\nversion = "1.0.26"\nedition = "2018"\n[features]\ndefault = ["std"]\nstd = []\n' >Cargo.toml
        cargo generate-lockfile --quiet
        printf 'target\n' >.gitignore
    "#,
    gate: "cargo test --no-fail-fast",
    file: "src/eval.rs",
    whole: "Op::Less => matches_less",
    broken: "Op::Less => matches_greater",
    message: &[
        "tests/test_version_req.rs:98  test_less_than: did not match 0.1.0",
        "tests/test_version_req.rs:152  test_multiple: did not match 0.5.1-alpha3",
        "src/lib.rs:19  src/lib.rs - (line 19): assertion failed: req.matches(&version)",
    ],
    untold: &["test_caret"],
};

/// The client and its gates have a short search path and a home of their own; the project's tools are found as here.
#[expect(clippy::disallowed_methods, reason = "a test asks for its own surroundings")]
fn as_here(command: &str) -> String {
    let here = |name: &str| std::env::var(name).ok().map(|value| format!("{name}='{value}'"));
    let home = std::env::var("HOME").unwrap_or_default();
    let tools = ["CARGO_HOME", "RUSTUP_HOME"].into_iter().zip([".cargo", ".rustup"]);
    let tools = tools.map(|(name, folder)| here(name).unwrap_or_else(|| format!("{name}='{home}/{folder}'")));
    let variables: Vec<String> = here("PATH").into_iter().chain(tools).collect();
    format!("export {}; unset CARGO_TARGET_DIR; {command}", variables.join(" "))
}

#[expect(clippy::disallowed_methods, reason = "a test fetches a project")]
fn gets_every_failing_test(project: &Project) {
    let claude = Claude::for_test();
    let sandbox = Sandbox::new();
    let fetched = Command::new("bash")
        .args(["-euc", project.fetch])
        .current_dir(sandbox.project())
        .env_remove("CARGO_TARGET_DIR")
        .status()
        .expect("bash");
    assert!(fetched.success(), "the project could not be fetched");
    sandbox.file("gate.sh", &as_here(project.gate));
    sandbox.file("ralph.yaml", "verify:\n  - {name: test, run: sh gate.sh, timeout: 5m}\n");
    let source = sandbox.read(project.file);
    assert!(source.contains(project.whole), "{} has changed", project.file);
    sandbox.git(&["add", "."]);
    sandbox.git(&["commit", "-qm", "as published"]);
    sandbox.trust();
    sandbox.file(project.file, &source.replacen(project.whole, project.broken, 1));

    let put_back = bash(&format!("git checkout -q -- {}", project.file)).expecting("test");
    let put_back = project.message.iter().fold(put_back, |turn, fact| turn.expecting(*fact));
    let put_back = project.untold.iter().fold(put_back, |turn, noise| turn.expecting_not(*noise));
    let turns = vec![Turn::say("Done."), put_back, Turn::say("Now it is done.")];
    let script = one_sub_agent("check", Runs::InForeground, turns, Turn::say("It is done."));
    let seen = ClaudeSession::new(&claude, &sandbox).deadline("5m").client_timeout(400).play(script);

    assert_eq!(verdicts(&sandbox), ["blocked gates_failed", "passing all_gates_passed"], "{seen}");
    let answer = &seen.answers()[0];
    let texts = [&answer["reason"], &answer["hookSpecificOutput"]["additionalContext"]];
    let message: usize = texts.iter().filter_map(|text| text.as_str()).map(|text| text.chars().count()).sum();
    assert!((500..=6_000).contains(&message), "{message} characters: {answer:#}");
}

#[test]
fn qs_with_tape_and_nyc() {
    gets_every_failing_test(&QS);
}

#[test]
fn itsdangerous_with_pytest() {
    gets_every_failing_test(&ITSDANGEROUS);
}

#[test]
fn semver_with_cargo() {
    gets_every_failing_test(&SEMVER);
}
