//! Outputs of real tools that no reader knows, recorded by `tests/record-results/run unknown`.

use super::excerpt;
use std::path::Path;

/// A tool, the characters it is given, what must be shown of its output, and what must not.
type Case = (&'static str, usize, &'static [&'static str], &'static [&'static str]);

const CASES: [Case; 6] = [
    (
        "jasmine",
        900,
        &[
            "1) total of a price of 10",
            "Expected 11 to be 10.",
            "total_spec.js:44",
            "3) total of a price of 30",
            "Expected 31 to be 30.",
            "43 specs, 3 failures",
        ],
        &["at <Jasmine>"],
    ),
    (
        "uvu",
        900,
        &["of a price of 10", "++10", "--11", "tests/total.js:32", "of a price of 30", "Total:     33"],
        &["number 5 of many"],
    ),
    ("esbuild", 800, &["Could not resolve \"./none12.js\"", "src/part12.js:1:26", "src/part3.js:1:25"], &[]),
    (
        "behave",
        1_200,
        &[
            "ASSERT FAILED: expected 8, got 7",
            "ASSERT FAILED: expected 16, got 15",
            "features/prices.feature:20  number 7",
            "18 scenarios passed, 2 failed",
        ],
        &[],
    ),
    ("robot", 1_000, &["9 != 10", "25 tests, 24 passed, 1 failed"], &["Number 3 ", "| PASS |"]),
    (
        "prove",
        450,
        &["Failed test 'number 12'", "got: '12'", "expected: '13'", "Failed tests:  12, 22", "Result: FAIL"],
        &[],
    ),
];

#[test]
#[expect(clippy::disallowed_methods, reason = "the recordings are files beside the tests")]
fn what_failed_is_shown_of_tools_that_no_reader_knows() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/say/excerpt/recorded");
    let mut wrong = String::new();
    for (tool, limit, shown, dropped) in CASES {
        let output = std::fs::read_to_string(folder.join(tool).join("failing.txt")).expect("a recording");
        assert!(output.chars().count() > limit, "{tool} is shown whole");
        let picked = excerpt(&output, limit);
        let missing: Vec<_> = shown.iter().filter(|fact| !picked.contains(**fact)).collect();
        let useless: Vec<_> = dropped.iter().filter(|fact| picked.contains(**fact)).collect();
        if !missing.is_empty() || !useless.is_empty() {
            wrong.push_str(&format!("{tool}: lacks {missing:?}, has {useless:?} in\n{picked}\n\n"));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
