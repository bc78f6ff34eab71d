//! The same change in five ecosystems: one test fixed, one new and fixed, one new that proves nothing, one unaffected.

use ralph_testkit::Sandbox;

use crate::{commit, kind_of, prepare, proven, repo};

/// Commits `before`, applies `now`, runs the gate in place, then compares.
#[track_caller]
fn judge(sandbox: &Sandbox, before: &[(&str, &str)], now: &[(&str, &str)], expected: &[(&str, &str)]) {
    for (path, text) in before {
        sandbox.file(path, text);
    }
    commit(sandbox);
    for (path, text) in now {
        sandbox.file(path, text);
    }
    assert_eq!(sandbox.verify(&[])["verdict"], "verified");
    let before = sandbox.git(&["status", "--porcelain"]);
    let (proof, code) = proven(sandbox);
    for (test, kind) in expected {
        assert_eq!(kind_of(&proof, test), *kind, "{test}: {proof:#}");
    }
    assert_eq!(proof["rows"].as_array().expect("rows").len(), expected.len(), "{proof:#}");
    assert_eq!(code, Some(0), "{proof:#}");
    assert_eq!(sandbox.git(&["status", "--porcelain"]), before);
}

#[test]
fn rust() {
    let sandbox = repo("cargo test --offline");
    let tests = |more: &str| {
        format!(
            "#[cfg(test)]\nmod tests {{\n    use super::*;\n    #[test]\n    fn halves() {{ assert_eq!(half(4), 2); }}\n    \
                 #[test]\n    fn doubles() {{ assert_eq!(double(4), 8); }}\n{more}}}\n"
        )
    };
    let source = |double: &str| {
        format!("pub fn double(n: i32) -> i32 {{ {double} }}\npub fn half(n: i32) -> i32 {{ n / 2 }}\n")
    };
    judge(
        &sandbox,
        &[
            (".gitignore", "target\n"),
            ("Cargo.toml", "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
            ("src/lib.rs", &(source("n + 1") + &tests(""))),
        ],
        &[(
            "src/lib.rs",
            &(source("n * 2")
                + &tests(
                    "    #[test]\n    fn doubles_three() { assert_eq!(double(3), 6); }\n    #[test]\n    fn nothing() { assert_eq!(half(2), 1); }\n",
                )),
        )],
        &[
            ("tests::doubles", "fixed"),
            ("tests::doubles_three", "fixed"),
            ("tests::nothing", "proves_nothing"),
            ("tests::halves", "unaffected"),
        ],
    );
}

#[test]
fn typescript_with_vitest() {
    let sandbox = repo("npm test");
    sandbox.file(
        "package.json",
        r#"{"name": "small", "private": true, "type": "module", "scripts": {"test": "vitest run"}, "devDependencies": {"vitest": "3.2.4"}}"#,
    );
    sandbox.file(".gitignore", "node_modules\n");
    prepare(&sandbox, "npm install --silent --no-audit --no-fund --ignore-scripts");
    let source = |double: &str| {
        format!("export const double = (n: number) => {double};\nexport const half = (n: number) => n / 2;\n")
    };
    let test = |body: &str| {
        format!("import {{ expect, it }} from \"vitest\";\nimport * as math from \"./math\";\n{body}")
    };
    judge(
        &sandbox,
        &[
            ("src/math.ts", &source("n + 1")),
            ("src/half.test.ts", &test("it(\"halves\", () => expect(math.half(4)).toBe(2));\n")),
            ("src/double.test.ts", &test("it(\"doubles\", () => expect(math.double(4)).toBe(8));\n")),
        ],
        &[
            ("src/math.ts", &(source("n * 2") + "export const triple = (n: number) => n * 3;\n")),
            (
                "src/triple.test.ts",
                &test(
                    "import { triple } from \"./math\";\nit(\"triples\", () => expect(triple(4)).toBe(12));\n",
                ),
            ),
            ("src/nothing.test.ts", &test("it(\"nothing\", () => expect(math.half(2)).toBe(1));\n")),
        ],
        &[
            ("doubles", "fixed"),
            ("triples", "fixed"),
            ("nothing", "proves_nothing"),
            ("halves", "unaffected"),
        ],
    );
}

#[test]
fn python_with_pytest() {
    let sandbox = repo(".venv/bin/python -m pytest -q");
    sandbox.file(".gitignore", ".venv\n__pycache__\n.pytest_cache\n");
    prepare(&sandbox, "python3 -m venv .venv && .venv/bin/pip -q install pytest==8.3.5");
    judge(
        &sandbox,
        &[
            ("pytest.ini", "[pytest]\npythonpath = .\n"),
            ("maths.py", "def double(n):\n    return n + 1\n\n\ndef half(n):\n    return n / 2\n"),
            ("tests/test_half.py", "import maths\n\ndef test_halves():\n    assert maths.half(4) == 2\n"),
            (
                "tests/test_double.py",
                "import maths\n\ndef test_doubles():\n    assert maths.double(4) == 8\n",
            ),
        ],
        &[
            // As long as before, and within the same second: the bytecode must not be taken for it.
            (
                "maths.py",
                "def double(n):\n    return n * 2\n\n\ndef half(n):\n    return n / 2\n\n\ndef triple(n):\n    return n * 3\n",
            ),
            (
                "tests/test_triple.py",
                "from maths import triple\n\ndef test_triples():\n    assert triple(4) == 12\n",
            ),
            ("tests/test_nothing.py", "import maths\n\ndef test_nothing():\n    assert maths.half(2) == 1\n"),
        ],
        &[
            ("test_doubles", "fixed"),
            ("test_triples", "fixed"),
            ("test_nothing", "proves_nothing"),
            ("test_halves", "unaffected"),
        ],
    );
}

#[test]
fn go() {
    let sandbox = repo("go test ./...");
    let source = |double: &str| {
        format!(
            "package small\n\nfunc Double(n int) int {{ return {double} }}\n\nfunc Half(n int) int {{ return n / 2 }}\n"
        )
    };
    let test = |name: &str, call: &str, value: u32| {
        format!(
            "package small\n\nimport \"testing\"\n\nfunc {name}(t *testing.T) {{\n\tif {call} != {value} {{\n\t\tt.Fatal(\"wrong\")\n\t}}\n}}\n"
        )
    };
    judge(
        &sandbox,
        &[
            ("go.mod", "module example.com/small\n\ngo 1.19\n"),
            ("small.go", &source("n + 1")),
            ("half_test.go", &test("TestHalves", "Half(4)", 2)),
            ("double_test.go", &test("TestDoubles", "Double(4)", 8)),
        ],
        &[
            ("small.go", &source("n * 2")),
            ("three_test.go", &test("TestDoublesThree", "Double(3)", 6)),
            ("nothing_test.go", &test("TestNothing", "Half(2)", 1)),
        ],
        &[
            ("TestDoubles", "fixed"),
            ("TestDoublesThree", "fixed"),
            ("TestNothing", "proves_nothing"),
            ("TestHalves", "unaffected"),
        ],
    );
}

#[test]
fn node() {
    let sandbox = repo("node --test");
    let source = |double: &str| format!("exports.double = (n) => {double};\nexports.half = (n) => n / 2;\n");
    let test = |name: &str, body: &str| {
        format!(
            "const test = require(\"node:test\");\nconst assert = require(\"node:assert\");\nconst math = require(\"../math.js\");\n\
                 test(\"{name}\", () => {body});\n"
        )
    };
    judge(
        &sandbox,
        &[
            ("math.js", &source("n + 1")),
            ("test/half.test.js", &test("halves", "assert.equal(math.half(4), 2)")),
            ("test/double.test.js", &test("doubles", "assert.equal(math.double(4), 8)")),
        ],
        &[
            ("math.js", &(source("n * 2") + "exports.triple = (n) => n * 3;\n")),
            ("test/triple.test.js", &test("triples", "assert.equal(math.triple(4), 12)")),
            ("test/nothing.test.js", &test("nothing", "assert.equal(math.half(2), 1)")),
        ],
        &[
            ("doubles", "fixed"),
            ("triples", "fixed"),
            ("nothing", "proves_nothing"),
            ("halves", "unaffected"),
        ],
    );
}
