//! A log that quotes another runner's output is not taken for it, and several tools in one output are all read.

use super::{RUNNERS, contents, folder, read, recordings};

fn names(text: &str) -> Vec<String> {
    read(text)
        .map(|results| results.failed_tests().map(|test| test.name.clone()).collect())
        .unwrap_or_default()
}

fn recorded(tool: &str, case: &str) -> String {
    contents(&folder().join(tool).join(case))
}

/// What a runner shows of a failing test that printed the text.
fn quoted_by_pytest(text: &str) -> String {
    let indented: String = text.lines().map(|line| format!("E         {line}\n")).collect();
    format!(
        "============================= test session starts ==============================\ncollected 1 item\n\n\
         tests/test_log.py F                                                      [100%]\n\n\
         =================================== FAILURES ===================================\n\
         ___________________________________ test_log ___________________________________\n\n\
         >       assert log == \"\"\nE       AssertionError: log is not empty\n{indented}\n\
         tests/test_log.py:7: AssertionError\n\
         ----------------------------- Captured stdout call -----------------------------\n{text}\n\
         =========================== short test summary info ============================\n\
         FAILED tests/test_log.py::test_log - AssertionError: log is not empty\n\
         ============================== 1 failed in 0.03s ===============================\n"
    )
}

fn quoted_by_cargo(text: &str) -> String {
    format!(
        "     Running unittests src/lib.rs (target/debug/deps/shop-1)\n\nrunning 2 tests\ntest passes ... ok\ntest log ... FAILED\n\n\
         failures:\n\n---- log stdout ----\n{text}\n\nthread 'log' panicked at src/lib.rs:7:9:\nlog is not empty\n\n\nfailures:\n    log\n\n\
         test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n"
    )
}

fn quoted_by_vitest(text: &str) -> String {
    format!(
        "\n RUN  v3.0.0 /project\n\nstdout | src/log.test.ts > log\n{text}\n\n ❯ src/log.test.ts (1 test | 1 failed) 5ms\n   × log 3ms\n\n\
         ⎯⎯⎯⎯⎯⎯⎯ Failed Tests 1 ⎯⎯⎯⎯⎯⎯⎯\n\n FAIL  src/log.test.ts > log\nAssertionError: expected 'a' to be ''\n ❯ src/log.test.ts:7:9\n\n\
         ⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯[1/1]⎯\n\n\n Test Files  1 failed (1)\n      Tests  1 failed (1)\n   Start at  10:00:00\n   Duration  513ms\n"
    )
}

fn quoted_by_go(text: &str) -> String {
    format!(
        "=== RUN   TestLog\n{text}\n    log_test.go:7: log is not empty\n--- FAIL: TestLog (0.00s)\nFAIL\nFAIL\texample.com/shop\t0.004s\nFAIL\n"
    )
}

fn quoted_by_jest(text: &str) -> String {
    let indented: String = text.lines().map(|line| format!("      {line}\n")).collect();
    format!(
        "FAIL src/log.test.js\n  ● Console\n\n    console.log\n{indented}\n      at Object.log (src/log.test.js:6:13)\n\n  ● log\n\n    log is not empty\n\n{indented}\n\
         \n      at Object.<anonymous> (src/log.test.js:7:9)\n\nTest Suites: 1 failed, 1 total\nTests:       1 failed, 1 total\nSnapshots:   0 total\n\
         Time:        0.5 s\nRan all test suites.\n"
    )
}

#[test]
fn no_runner_is_misread_inside_another() {
    type Quote = fn(&str) -> String;
    let quotes: [(&str, Quote, &str); 5] = [
        ("pytest", quoted_by_pytest, "test_log"),
        ("cargo_test", quoted_by_cargo, "log"),
        ("vitest", quoted_by_vitest, "log"),
        ("go_test", quoted_by_go, "TestLog"),
        ("jest", quoted_by_jest, "log"),
    ];
    let mut wrong = Vec::new();
    for (outer, quote, name) in quotes {
        for inner in RUNNERS.iter().filter(|inner| **inner != outer) {
            for path in recordings(inner) {
                let read = names(&quote(&contents(&path)));
                if read != [name] {
                    wrong.push(format!("{} inside {outer}: {read:?}", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn all_tools_of_one_output_are_read() {
    let text = [
        recorded("eslint", "many.txt"),
        recorded("tsc", "many.txt"),
        "\n> shop@1.0.0 test\n> vitest run\n".to_owned(),
        recorded("vitest", "one_failure.txt"),
        "\n> shop@1.0.0 old\n> mocha\n".to_owned(),
        recorded("mocha", "one_failure.txt"),
        recorded("pytest", "one_failure.txt"),
        recorded("cargo_test", "one_failure.txt"),
        recorded("go_test", "one_failure_verbose.txt"),
    ];
    let results = read(&text.join("\n")).expect("results");
    let formats: Vec<&str> = results.formats.iter().map(|format| format.name()).collect();
    assert_eq!(formats, ["eslint", "tsc", "vitest", "mocha", "pytest", "cargo-test", "go-test"]);
    let names: Vec<&str> = results.failed_tests().map(|test| test.name.as_str()).collect();
    let half = "discount > of half > takes 50 %";
    assert_eq!(names, [half, half, "test_half_price", "tests::half_price", "TestDiscount"]);
    assert_eq!(results.problems.len(), 8 + 7);
}

#[test]
fn interleaved_packages_are_told_apart() {
    let one = recorded("vitest", "one_failure.txt");
    let other = recorded("jest", "one_failure.txt");
    let mut text = String::new();
    let mut others = other.lines();
    for line in one.lines() {
        text.push_str(&format!("web:test: {line}\n"));
        others.next().into_iter().for_each(|line| text.push_str(&format!("@shop/api:test: {line}\n")));
    }
    others.for_each(|line| text.push_str(&format!("@shop/api:test: {line}\n")));
    assert_eq!(names(&text), ["discount > of half > takes 50 %", "discount › of half › takes 50 %"]);
}
