// The markers are written as `\u{21}`, so that this file does not match itself.

use super::*;

fn kind(file: &str, line: &str) -> &'static str {
    match look(file, 7, line).map(|flaw| flaw.what) {
        None => "fine",
        Some(HygieneProblemKind::DebuggerStatement { .. }) => "debugger",
        Some(HygieneProblemKind::Placeholder { .. }) => "placeholder",
        Some(HygieneProblemKind::PrivateKey) => "key",
        Some(HygieneProblemKind::ConflictMarker) => "conflict",
        Some(HygieneProblemKind::Unparsable { .. }) => "unparsable",
    }
}

#[test]
fn leftovers_are_found() {
    let key = |label: &str| format!("    -----BEGIN {label}-----");
    let table = [
        ("a.ts", "  debugger;", "debugger"),
        ("a.jsx", "debugger", "debugger"),
        ("a.py", "    breakpoint()", "debugger"),
        ("a.py", "import pdb; pdb.set_trace()", "debugger"),
        ("a.rb", "  binding.pry", "debugger"),
        ("src/a.rs", "    let x = dbg\u{21}(y);", "debugger"),
        ("src/a.rs", "    todo\u{21}()", "placeholder"),
        ("src/a.rs", "    _ => unimplemented\u{21}(\"later\"),", "placeholder"),
        ("a.go", "\tpanic(\"not implemented\")", "placeholder"),
        ("a.ts", "  throw new Error('Not implemented yet');", "placeholder"),
        ("a.py", "    # TODO: implement the parser", "placeholder"),
        ("a.js", "// ... existing code ...", "placeholder"),
        ("a.sh", "# your code here", "placeholder"),
        ("notes.txt", &key("RSA PRIVATE KEY"), "key"),
        ("k.asc", &key("PGP PRIVATE KEY BLOCK"), "key"),
        ("a.md", "<<<<<<< HEAD", "conflict"),
        ("a.md", ">>>>>>> topic", "conflict"),
    ];
    for (file, line, expected) in table {
        assert_eq!(kind(file, line), expected, "{file}: {line}");
    }
}

/// Each of these lines is intentional.
#[test]
fn lookalikes_are_not_reported() {
    let key = |label: &str| format!("-----BEGIN {label}-----");
    let table = [
        ("a.ts", "const debuggerUrl = start();"),
        ("a.ts", "// the debugger is attached here"),
        ("a.py", "def breakpoint_hit(self):"),
        ("a.rs", "    my_dbg\u{21}(x);"),
        ("a.rs", "    // dbg\u{21}(x) prints to stderr"),
        ("a.rs", "    assert_eq!(find(\"todo\u{21}(\"), None);"),
        ("a.rs", "/// Panics with `todo\u{21}()` where nothing is there."),
        ("a.py", "        raise NotImplementedError"),
        ("a.py", "# TODO: faster"),
        ("a.js", "// this wraps the existing code of the parser"),
        ("a.js", "console.log('ready');"),
        ("README.md", "Write `debugger;` to stop."),
        ("README.md", "TODO: implement the parser"),
        ("a.md", "======="),
        ("a.txt", "<<<<<<<<<< ten"),
        ("a.pem", &key("CERTIFICATE")),
        ("a.pem", &key("PUBLIC KEY")),
        ("min.js", &format!("debugger;{}", "x".repeat(3_000))),
    ];
    for (file, line) in table {
        assert_eq!(kind(file, line), "fine", "{file}: {line}");
    }
}

#[test]
fn a_problem_is_shown_with_its_position() {
    let shown = look("src/a.rs", 12, "    todo\u{21}(\"later\")").expect("a flaw").to_string();
    assert_eq!(shown, "src/a.rs:12: a placeholder (`todo\u{21}(\"later\")`)");
    let whole = HygieneProblem {
        file: "a.json".into(),
        line: None,
        what: HygieneProblemKind::Unparsable { why: "line 3".into() },
    };
    assert_eq!(whole.to_string(), "a.json: does not parse (line 3)");
}
