//! Laws that hold for any text.

use super::{LINTERS, RUNNERS, contents, recordings};
use crate::claims::results::{ResultFormat, Results, problems, read, read_as, sections, text};
use proptest::prelude::*;
use std::sync::LazyLock;

/// What was printed to a terminal or a log; report files have neither colours nor prefixes.
static RECORDINGS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let paths = RUNNERS.iter().chain(LINTERS).flat_map(|tool| recordings(tool));
    paths.map(|path| text::plain(&contents(&path))).collect()
});

/// A line that some reader looks for, with something else around it.
fn telling_line() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "running 2 tests",
        "test a ... FAILED",
        "failures:",
        "---- a stdout ----",
        "test result: FAILED. 0 passed; 1 failed; 1 ignored",
        "==== FAILURES ====",
        "____ test_a ____",
        "E   assert",
        "1 failed in 0.1s",
        "FAILED a.py::b - c",
        " RUN  v1 /p",
        "⎯⎯ Failed Tests 1 ⎯⎯",
        " FAIL  a.ts > b",
        "FAIL a.test.js",
        "  ● a › b",
        "Test Suites: 1 failed",
        "  1 passing (2ms)",
        "  1 failing",
        "  1) a",
        "ℹ tests 1",
        "✖ failing tests:",
        "test at a.mjs:1:2",
        "✖ a (1ms)",
        "TAP version 13",
        "not ok 1 - a # TODO",
        "  ---",
        "  at: f (a.js:1:2)",
        "1..2",
        "--- FAIL: TestA (0.00s)",
        "=== RUN   TestA",
        "FAIL\ta\t0.1s",
        "panic: a",
        "{\"Action\":\"fail\",\"Package\":\"a\",\"Test\":\"b/c\"}",
        "Failures:",
        "1 example, 1 failure",
        "  1) Failure:",
        "1 runs, 1 assertions, 1 failures, 0 errors, 0 skips",
        "PHPUnit 9 by Sebastian Bergmann",
        "There was 1 failure:",
        "1) A::b",
        "Tests: 1, Assertions: 1, Failures: 1.",
        "  1) test a (A)",
        "1 test, 1 failure",
        "Test project /p",
        "1/1 Test #1: a ...***Failed 0 sec",
        "0% tests passed, 1 tests failed",
        "The following tests FAILED:",
        "\t1 - a (Failed)",
        "<testsuite name=\"a\">",
        "<testcase name=\"b\"><failure message=\"c\">",
        "</testsuite>",
        "    Starting 1 test across 1 binary",
        "        FAIL [   0.1s] (1/1) a b",
        "     Summary [   0.1s] 1 test run: 1 failed",
        "Ran 1 test in 0.1s",
        "FAIL: a (b.C)",
        "error[E0308]: a",
        " --> a.rs:1:2",
        "a.ts(1,2): error TS1: b",
        "/p/a.js",
        "  1:2  error  a  b",
        "a.py:1: error: b  [c]",
        "In a.sh line 1:",
        "  ^-- SC1 (info): a",
        "Traceback (most recent call last):",
        "Error: a",
        "    at f (a.js:1:2)",
        "# a",
        "# Subtest: a",
    ]);
    prop_oneof![6 => words.prop_map(str::to_owned), 1 => "\\PC{0,20}", 1 => Just("=".repeat(70)), 1 => Just("-".repeat(70)), 2 => Just(String::new())]
}

/// Each reader alone: what it reads lies inside the lines, and not before the place it was asked to start from.
fn each_reader_stays_inside(lines: &[&str], from: usize) -> Result<(), TestCaseError> {
    for find in sections::READERS {
        if let Some(section) = find(lines, from) {
            prop_assert!(from <= section.lines.start && section.lines.end <= lines.len(), "{:?}", section);
        }
    }
    for read_at in problems::READERS.iter().filter(|_| from < lines.len()) {
        if let Some(found) = read_at(&lines[from..]) {
            prop_assert!(found.length <= lines.len() - from);
        }
    }
    Ok(())
}

fn all_formats(text: &str) -> Vec<Option<Results>> {
    ResultFormat::ALL.iter().map(|format| read_as(*format, text)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_text_is_read_without_a_panic(text in "(\\PC|\n|\t|\r|\u{1b}){0,400}") {
        let results = read(&text);
        prop_assert_eq!(&results, &read(&text));
        all_formats(&text);
    }

    #[test]
    fn any_mix_of_telling_lines_is_read_without_a_panic(lines in prop::collection::vec(telling_line(), 0..60)) {
        let text = lines.join("\n");
        prop_assert_eq!(read(&text), read(&text));
        all_formats(&text);
    }

    #[test]
    fn each_reader_alone_stays_inside(lines in prop::collection::vec(telling_line(), 0..60), from in any::<prop::sample::Index>()) {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        each_reader_stays_inside(&lines, from.index(lines.len() + 1))?;
    }

    #[test]
    fn each_reader_alone_reads_any_part_of_a_recording(which in any::<prop::sample::Index>(), from in any::<prop::sample::Index>()) {
        let lines: Vec<&str> = RECORDINGS[which.index(RECORDINGS.len())].lines().collect();
        each_reader_stays_inside(&lines, from.index(lines.len() + 1))?;
    }

    #[test]
    fn a_damaged_recording_is_read_without_a_panic(
        which in any::<prop::sample::Index>(), edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..5), 1..12)
    ) {
        let mut lines: Vec<String> = RECORDINGS[which.index(RECORDINGS.len())].lines().map(str::to_owned).collect();
        for (at, how) in edits {
            if lines.is_empty() { break; }
            let at = at.index(lines.len());
            match how {
                0 => drop(lines.remove(at)),
                1 => lines[at] = lines[at].chars().rev().collect(),
                2 => { let line = lines[at].clone(); lines.insert(at, line); }
                3 => lines.truncate(at),
                _ => lines[at] = lines[at].chars().take(at % 20).collect(),
            }
        }
        let text = lines.join("\n");
        prop_assert_eq!(read(&text), read(&text));
    }

    #[test]
    fn colours_change_nothing(which in any::<prop::sample::Index>(), places in prop::collection::vec(any::<prop::sample::Index>(), 1..30)) {
        let text = &RECORDINGS[which.index(RECORDINGS.len())];
        let mut coloured: Vec<char> = text.chars().collect();
        for (number, place) in places.iter().enumerate() {
            let codes = ["\u{1b}[31m", "\u{1b}[0m", "\u{1b}(B", "\u{1b}[38;5;9m", "\u{1b}[K"];
            // Not inside a code that was put in before.
            let at = place.index(coloured.len() + 1);
            if !coloured[at.saturating_sub(12)..coloured.len().min(at + 12)].contains(&'\u{1b}') {
                coloured.splice(at..at, codes[number % codes.len()].chars());
            }
        }
        prop_assert_eq!(read(&coloured.iter().collect::<String>()), read(text));
    }

    #[test]
    fn prefixes_of_every_line_change_nothing(which in any::<prop::sample::Index>()) {
        let text = &RECORDINGS[which.index(RECORDINGS.len())];
        let plain = read(text);
        for prefix in ["2024-01-01T00:00:00.0000000Z ", "test\tRun tests\t2024-01-01T00:00:00.0000000Z ", "web:test: ", "packages/web test: ", "web-1  | "] {
            let prefixed: String = text.lines().map(|line| format!("{prefix}{line}\n")).collect();
            // A tool's prefix is only known by its repetition.
            if text.lines().count() >= 3 {
                prop_assert_eq!(read(&prefixed), plain.clone(), "{}", prefix);
            }
        }
    }
}

/// A gate that is ended by its time-out stops printing anywhere.
#[test]
fn a_recording_that_is_cut_after_any_line_is_read_without_a_panic() {
    for text in RECORDINGS.iter() {
        let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
        // Every line of short ones, some of long ones.
        for end in ends.iter().step_by(1 + ends.len() / 60) {
            read(&text[..*end]);
        }
    }
}

#[test]
fn of_a_very_long_output_both_ends_are_read() {
    let failure = &contents(&super::folder().join("pytest/one_failure.txt"));
    let noise = "a line of little interest that is printed again and again\n".repeat(200_000);
    let results = read(&format!("{failure}{noise}{failure}")).expect("results");
    assert!(results.partial);
    assert_eq!(results.failed_tests().count(), 2);
}
