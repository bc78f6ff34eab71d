use super::*;

#[test]
fn files_are_classified_by_path() {
    let table = [
        ("src/lib.rs", FileRole::Source),
        ("src/contest.rs", FileRole::Source),
        ("src/latest.ts", FileRole::Source),
        ("src/testing.py", FileRole::Source),
        ("attest/run.go", FileRole::Source),
        ("tests/it/main.rs", FileRole::Test),
        ("src/model/tests.rs", FileRole::Test),
        ("pkg/login_test.go", FileRole::Test),
        ("src/login.test.ts", FileRole::Test),
        ("src/login.spec.tsx", FileRole::Test),
        ("src/__tests__/login.js", FileRole::Test),
        ("src/__snapshots__/login.js.snap", FileRole::Test),
        ("app/test_login.py", FileRole::Test),
        ("app/login_test.py", FileRole::Test),
        ("conftest.py", FileRole::Setting),
        ("tests/conftest.py", FileRole::Setting),
        ("spec/login_spec.rb", FileRole::Test),
        ("src/test/java/LoginTest.java", FileRole::Test),
        ("src/LoginTest.php", FileRole::Test),
        ("src/Latest.java", FileRole::Source),
        ("test.sh", FileRole::Test),
        ("login.bats", FileRole::Test),
        ("test/login_test.exs", FileRole::Test),
        ("pytest.ini", FileRole::Setting),
        ("tox.ini", FileRole::Setting),
        ("packages/a/vitest.config.ts", FileRole::Setting),
        ("jest.config.js", FileRole::Setting),
        ("eslint.config.mjs", FileRole::Setting),
        (".eslintrc.json", FileRole::Setting),
        ("tsconfig.json", FileRole::Setting),
        ("tsconfig.build.json", FileRole::Setting),
        (".cargo/config.toml", FileRole::Setting),
        ("rust-toolchain.toml", FileRole::Setting),
        ("Makefile", FileRole::Setting),
        ("build/rules.mk", FileRole::Setting),
        (".github/workflows/ci.yml", FileRole::Setting),
        ("ralph.yaml", FileRole::Setting),
        ("Cargo.lock", FileRole::Dependencies),
        ("package-lock.json", FileRole::Dependencies),
        ("requirements-dev.txt", FileRole::Dependencies),
        ("go.mod", FileRole::Dependencies),
        ("README.md", FileRole::Document),
        ("LICENSE", FileRole::Document),
        ("LICENSE-MIT", FileRole::Document),
        ("docs/guide/page.html", FileRole::Document),
        ("CHANGELOG.rst", FileRole::Document),
        ("src/license.rs", FileRole::Source),
        ("Cargo.toml", FileRole::Source),
    ];
    let protected = ProtectedFiles::default();
    for (path, role) in table {
        assert_eq!(protected.role(path), role, "{path}");
    }
}

#[test]
fn scripts_that_gates_name_are_settings_and_programs_are_not() {
    let protected = ProtectedFiles::new([
        "./check.sh --all",
        "cd app && sh run/verify.sh",
        "node scripts/check.js",
        "node src/main.js",
    ]);
    for path in ["check.sh", "app/run/verify.sh", "scripts/check.js"] {
        assert_eq!(protected.role(path), FileRole::Setting, "{path}");
    }
    for path in ["src/main.js", "other.sh", "scripts/other.js"] {
        assert_eq!(protected.role(path), FileRole::Source, "{path}");
    }
}

fn file(text: &str) -> FileContent {
    FileContent::File { mode: 0o644, bytes: text.into() }
}

fn change(path: &str, before: Option<&str>, now: Option<&str>) -> FileChange {
    FileChange { path: path.into(), before: before.map(file), now: now.map(file) }
}

/// The text that the view has at each path that is put back; `-` if it is removed.
fn undone(changes: &[FileChange]) -> Vec<(String, String)> {
    let undone = undo_sources(changes, &ProtectedFiles::default());
    assert!(undone.inseparable.is_empty(), "{:?}", undone.inseparable);
    let text = |edit: &ViewEdit| {
        edit.content.as_ref().map_or("-", |content| content.text().expect("text")).to_owned()
    };
    undone.edits.iter().map(|edit| (String::from_utf8_lossy(&edit.path).into_owned(), text(edit))).collect()
}

#[test]
fn sources_go_back_and_tests_settings_and_dependencies_stay() {
    let changes = [
        change("src/a.py", Some("old"), Some("new")),
        change("src/b.py", None, Some("new")),
        change("src/c.py", Some("old"), None),
        change("tests/test_a.py", None, Some("new")),
        change("pytest.ini", Some("old"), Some("new")),
        change("uv.lock", Some("old"), Some("new")),
    ];
    let expected = [("src/a.py", "old"), ("src/b.py", "-"), ("src/c.py", "old")];
    assert_eq!(undone(&changes), expected.map(|(path, text)| (path.to_owned(), text.to_owned())));
}

#[test]
fn package_json_is_merged_by_key() {
    let before = r#"{"name": "a", "main": "old.js", "exports": {"import": "./a.mjs", "default": "./a.js"}, "scripts": {"test": "false"}}"#;
    // Scripts and dependencies as they are now, the rest as it was, in its order.
    let now = r#"{"name": "a", "main": "new.js", "scripts": {"test": "jest"}, "jest": {"bail": true}, "devDependencies": {"jest": "1"}}"#;
    let merged = undone(&[change("web/package.json", Some(before), Some(now))]);
    assert_eq!(
        merged[0].1,
        "{\n  \"name\": \"a\",\n  \"main\": \"old.js\",\n  \"exports\": {\"import\": \"./a.mjs\", \"default\": \"./a.js\"},\n  \
         \"scripts\": {\"test\": \"jest\"},\n  \"jest\": {\"bail\": true},\n  \"devDependencies\": {\"jest\": \"1\"}\n}\n"
    );
    // Only settings changed: nothing is put back.
    let now = r#"{"name": "a", "scripts": {"test": "jest"}}"#;
    assert!(undone(&[change("package.json", Some(r#"{"name": "a", "scripts": {}}"#), Some(now))]).is_empty());
}

#[test]
fn cargo_toml_is_merged_by_key() {
    let before = "[package]\nname = \"a\"\nversion = \"1.0.0\"\n\n[dependencies]\nold = \"1\"\n";
    let now = "[package]\nname = \"a\"\nversion = \"2.0.0\"\n\n[[bin]]\nname = \"b\"\n\n[dependencies]\nnew = \"1\"\n\n\
               [dev-dependencies]\nproptest = \"1\"\n\n[target.'cfg(unix)'.dependencies]\nlibc = \"1\"\n";
    let merged = undone(&[change("Cargo.toml", Some(before), Some(now))]).remove(0).1;
    assert!(merged.contains("version = \"1.0.0\"") && !merged.contains("[[bin]]"), "{merged}");
    assert!(merged.contains("new = \"1\"") && !merged.contains("old = "), "{merged}");
    assert!(merged.contains("proptest = \"1\"") && merged.contains("libc = \"1\""), "{merged}");
    merged.parse::<toml_edit::DocumentMut>().expect("TOML");
    let now = "[package]\nname = \"a\"\nversion = \"1.0.0\"\n\n[dependencies]\nnew = \"1\"\n";
    assert!(undone(&[change("Cargo.toml", Some(before), Some(now))]).is_empty());
}

#[test]
fn pyproject_toml_is_merged_by_key() {
    let before = "[project]\nname = \"a\"\nscripts = { a = \"a:main\" }\ndependencies = []\n\n[tool.pytest.ini_options]\naddopts = \"-q\"\n\n\
                  [tool.setuptools]\npackages = [\"a\"]\n";
    let now = "[project]\nname = \"a\"\nscripts = { b = \"b:main\" }\ndependencies = [\"attrs\"]\n\n[tool.pytest.ini_options]\naddopts = \"-x\"\n\n\
               [tool.mypy]\nstrict = true\n\n[tool.setuptools]\npackages = [\"b\"]\n";
    let merged = undone(&[change("pyproject.toml", Some(before), Some(now))]).remove(0).1;
    assert!(
        merged.contains("a:main") && !merged.contains("b:main") && merged.contains("packages = [\"a\"]"),
        "{merged}"
    );
    assert!(
        merged.contains("attrs") && merged.contains("\"-x\"") && merged.contains("strict = true"),
        "{merged}"
    );
}

#[test]
fn a_half_setting_that_cannot_be_read_cannot_be_separated() {
    let undone = undo_sources(&[change("package.json", Some("{"), Some("{}"))], &ProtectedFiles::default());
    assert_eq!(undone.inseparable, ["package.json"]);
}

const BEFORE: &str =
    "pub fn add(a: i32) -> i32 {\n    a\n}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn old() {}\n}\n";

#[test]
fn tests_inside_of_a_rust_file_are_separated() {
    let now = "pub fn add(a: i32) -> i32 {\n    a + 1\n}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn new() { assert_eq!(super::add(1), 2); }\n}\n";
    let text = undone(&[change("src/lib.rs", Some(BEFORE), Some(now))]).remove(0).1;
    assert!(text.contains("    a\n}") && !text.contains("a + 1"), "{text}");
    assert!(text.contains("fn new()") && !text.contains("fn old()"), "{text}");
    // Only the tests changed: nothing but tests, so the file stays as it is now.
    let now = BEFORE.replace("fn old() {}", "fn new() {}");
    let text = undone(&[change("src/lib.rs", Some(BEFORE), Some(&now))]);
    assert!(text.is_empty() || text[0].1.contains("fn new()"), "{text:?}");
    // Only the other items changed.
    let now = BEFORE.replace("    a\n", "    a + 1\n");
    assert_eq!(undone(&[change("src/lib.rs", Some(BEFORE), Some(&now))])[0].1, BEFORE);
}

#[test]
fn a_new_rust_file_keeps_its_tests_and_its_declaration() {
    let changes = [
        change("src/lib.rs", Some("pub mod old;\n"), Some("pub mod new;\npub mod old;\npub use new::f;\n")),
        change(
            "src/new.rs",
            None,
            Some(
                "pub fn f() {}\n\n#[cfg(test)]\nmod tests {\n    use super::*;\n    #[test]\n    fn f_works() { f(); }\n}\n",
            ),
        ),
        change("src/untested.rs", None, Some("pub fn g() {}\n")),
    ];
    let texts = undone(&changes);
    assert_eq!(texts[0].1, "pub mod old;\n\npub mod new;\n");
    assert!(texts[1].1.contains("fn f_works()") && !texts[1].1.contains("pub fn f()"), "{texts:?}");
    assert_eq!(texts[2], ("src/untested.rs".to_owned(), "-".to_owned()));
}

#[test]
fn tests_in_inline_modules_stay_in_their_module() {
    let before = "mod inner {\n    pub fn f() {}\n}\n";
    let now = "mod inner {\n    pub fn f() { g() }\n    fn g() {}\n    #[cfg(all(test, unix))]\n    mod tests { #[test] fn t() {} }\n}\n";
    let text = undone(&[change("src/lib.rs", Some(before), Some(now))]).remove(0).1;
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
    assert!(
        at("mod tests") > at("pub fn f() {}") && at("mod tests") < text.rfind('}').expect("a brace"),
        "{text}"
    );
    assert!(!text.contains("fn g()"));
}

#[test]
fn what_cannot_be_parsed_cannot_be_separated() {
    let now = format!("{BEFORE}\nfn broken( {{");
    let undone = undo_sources(&[change("src/lib.rs", Some(BEFORE), Some(&now))], &ProtectedFiles::default());
    assert_eq!(undone.inseparable, ["src/lib.rs"]);
    let now = "export const f = 1\nif (import.meta.vitest) {}\n";
    let undone = undo_sources(
        &[change("src/a.ts", Some("export const f = 0\n"), Some(now))],
        &ProtectedFiles::default(),
    );
    assert_eq!(undone.inseparable, ["src/a.ts"]);
}

#[test]
fn code_that_is_not_compiled_in_tests_is_no_test() {
    let before = "#[cfg(not(test))]\npub fn f() {}\n";
    let now = "#[cfg(not(test))]\npub fn f() { g() }\nfn g() {}\n";
    assert_eq!(undone(&[change("src/lib.rs", Some(before), Some(now))])[0].1, before);
}
