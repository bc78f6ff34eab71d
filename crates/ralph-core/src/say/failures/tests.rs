//! Failure lists for agents, checked on recordings of real tools.

use super::*;
use crate::claims::results::read;
use crate::model::gate::GateOutcome;
use crate::model::id::GateName;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A failed gate with this output.
pub(crate) fn report(output: &str) -> GateReport {
    GateReport {
        gate: GateName::new("test"),
        run: "make test".into(),
        outcome: GateOutcome::Failed { code: 1 },
        advisory: false,
        took: Duration::from_secs(2),
        runs: 1,
        log: None,
        excerpt: excerpt(output, 2_000),
        results: read(output).map(|results| results.kept(false, str::to_owned)),
        changed: Vec::new(),
    }
}

/// A run of pytest in which these tests fail, each with its own message.
fn pytest(failing: &[(&str, &str)], passed: usize) -> String {
    let mut text =
        String::from("============================= test session starts ==============================\n");
    text.push_str("collected 9 items\n\n=================================== FAILURES ===================================\n");
    for (at, (name, message)) in failing.iter().enumerate() {
        let (line, title) = (at + 3, format!(" {name} "));
        text.push_str(&format!(
            "{title:_^80}\n\n    def {name}():\n\
             >       assert {message}\nE       assert {message}\n\ntests/test_a.py:{line}: AssertionError\n"
        ));
    }
    text.push_str("=========================== short test summary info ============================\n");
    for (name, message) in failing {
        text.push_str(&format!("FAILED tests/test_a.py::{name} - assert {message}\n"));
    }
    let failed = failing.len();
    text.push_str(&format!(
        "========================= {failed} failed, {passed} passed in 0.12s =========================\n"
    ));
    text
}

#[test]
fn first_every_failure_in_a_line_then_detail() {
    let report = report(&pytest(&[("test_sum", "3 == 4"), ("test_name", "'a' == 'b'")], 7));
    assert_eq!(counts(report.results.as_ref().expect("pytest")).as_deref(), Some("2 of 9 tests fail"));
    assert_eq!(
        failure_list(&report, &[], true, 5_000),
        "tests/test_a.py:3  test_sum: assert 3 == 4\n\
         tests/test_a.py:4  test_name: assert 'a' == 'b'\n\
         \n\
         test_sum:\n    def test_sum():\n>       assert 3 == 4\nE       assert 3 == 4\n\ntests/test_a.py:3: AssertionError\n\
         \n\
         test_name:\n    def test_name():\n>       assert 'a' == 'b'\nE       assert 'a' == 'b'\n\ntests/test_a.py:4: AssertionError"
    );
}

#[test]
fn a_later_attempt_says_what_was_fixed_what_is_new_and_what_stays() {
    let first = report(&pytest(&[("test_a", "1 == 2"), ("test_b", "3 == 4"), ("test_c", "5 == 6")], 6));
    let last = [FailureMark::of(&first)];
    let second = report(&pytest(&[("test_b", "3 == 4"), ("test_c", "5 == 7"), ("test_d", "8 == 9")], 6));
    let text = failure_list(&second, &last, true, 5_000);
    assert!(
        text.starts_with(
            "Fixed since the last attempt: test_a\nNew:\ntests/test_a.py:5  test_d: assert 8 == 9\n\
             Still failing:\ntests/test_a.py:3  test_b: assert 3 == 4\ntests/test_a.py:4  test_c: assert 5 == 7\n"
        ),
        "{text}"
    );
    // Unchanged failures are not explained again to an agent that remembers them; changed ones are.
    assert!(
        text.contains("\ntest_d:\n") && text.contains("\ntest_c:\n") && !text.contains("\ntest_b:\n"),
        "{text}"
    );
    assert!(failure_list(&second, &last, false, 5_000).contains("\ntest_b:\n"));
}

#[test]
fn the_same_failures_are_the_same_in_any_order_and_with_other_words() {
    let mark = |failing: &[(&str, &str)]| FailureMark::of(&report(&pytest(failing, 6)));
    let one = mark(&[("test_a", "1 == 2"), ("test_b", "3 == 4")]);
    assert!(one.is_same_as(&mark(&[("test_b", "3 == 5"), ("test_a", "1 == 2")])));
    assert!(!one.is_same_as(&mark(&[("test_a", "1 == 2")])));
    assert!(!one.is_same_as(&mark(&[("test_a", "1 == 2"), ("test_c", "3 == 4")])));
    let unknown = |text: &str| FailureMark::of(&report(text));
    assert!(unknown("broken after 12 ms").is_same_as(&unknown("broken after 15 ms")));
    assert!(!unknown("broken").is_same_as(&unknown("worse")));
}

#[test]
fn little_room_is_for_names() {
    let names: Vec<String> = (0..60).map(|number| format!("test_number_{number}")).collect();
    let failing: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "1 == 2")).collect();
    let report = report(&pytest(&failing, 0));
    let text = failure_list(&report, &[], true, 500);
    assert!(text.chars().count() <= 500, "{text}");
    assert!(text.starts_with("tests/test_a.py:3  test_number_0: assert 1 == 2\n"), "{text}");
    let shown = text.lines().count() - 1;
    assert!(text.ends_with(&format!("and {} more", 60 - shown)), "{text}");
    assert_eq!(
        failure_list(&report, &[], true, 5_000).lines().filter(|line| line.contains(".py:")).count(),
        43
    );
}

#[test]
fn where_nothing_is_recognised_the_output_is_shown() {
    let nothing = report("it does not work\n");
    assert_eq!(failure_list(&nothing, &[], true, 5_000), "it does not work");
    // A warning alone does not explain a failure.
    let warning = report("a.c:1:1: warning: unused\nthe build server is down\n");
    let text = failure_list(&warning, &[], true, 5_000);
    assert!(text.starts_with("a.c:1:1  unused\n") && text.ends_with("the build server is down"), "{text}");
}

#[expect(clippy::disallowed_methods, reason = "the recordings are files beside the readers")]
fn recordings() -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/claims/results/recorded");
    let listed =
        |folder: &Path| std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
    let tools = listed(&folder).filter(|path| path.is_dir());
    let is_output = |path: &PathBuf| path.extension().is_none_or(|extension| extension != "expected");
    let outputs = tools.flat_map(|tool| listed(&tool).collect::<Vec<_>>()).filter(is_output);
    let text =
        |path: &PathBuf| String::from_utf8_lossy(&std::fs::read(path).expect("a recording")).into_owned();
    outputs.map(|path| (path.clone(), text(&path))).collect()
}

/// Checks every recording within the limits of each layout.
#[test]
fn every_recorded_failure_is_named_and_fits() {
    let all = recordings();
    assert!(all.len() > 150, "{}", all.len());
    for (path, output) in all {
        let report = report(&output);
        for most in [200, 500, 5_000] {
            let text = failure_list(&report, &[], true, most);
            assert!(text.chars().count() <= most, "{}: {} of {most}", path.display(), text.chars().count());
        }
        let text = failure_list(&report, &[], true, 5_000);
        let failures = report.failures();
        for failure in failures.iter().take(12) {
            assert!(
                text.contains(&cut(&line(failure), LONGEST_LINE)),
                "{}: {failure:?}\n{text}",
                path.display()
            );
        }
    }
}

/// An advisory gate gets one line, with what is new since the loop began.
#[test]
fn advisory_gates_report_only_new_failures() {
    use crate::model::finding::GatesSeen;
    use crate::say::feedback::{FailureDetail, gate_blocks};

    let lint = |lines: &[u32]| {
        let output: String = lines.iter().map(|line| format!("a.py:{line}:1: error: no {line}\n")).collect();
        GateReport { advisory: true, ..report(&output) }
    };
    let blocks = |now: GateReport, at_start: &[FailureMark]| {
        let seen = GatesSeen::sample(vec![now]);
        let detail = FailureDetail {
            last: &[],
            advisory_at_start: at_start,
            remembers: true,
            most: 5_000,
            most_of_one: 5_000,
        };
        gate_blocks(&seen, &detail)
    };
    let first = "Advisory gate `test` failed with exit code 1 after 2s: 2 problems; it does not block.";
    assert_eq!(blocks(lint(&[1, 2]), &[]), [first]);
    let at_start = [FailureMark::of(&lint(&[1, 2]))];
    assert_eq!(blocks(lint(&[2, 1]), &at_start), Vec::<String>::new());
    assert_eq!(blocks(lint(&[1]), &at_start), Vec::<String>::new(), "one was fixed");
    let more = "Advisory gate `test` failed with exit code 1 after 2s: 4 problems; it does not block. \
                New: a.py:3:1 no 3 and 1 more.";
    assert_eq!(blocks(lint(&[1, 2, 3, 4]), &at_start), [more]);
}
