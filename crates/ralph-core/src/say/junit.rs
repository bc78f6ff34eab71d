//! Gate reports as JUnit XML: one suite per gate, with a case for the gate itself and one per failing test or problem.
//! Only elements and attributes of the common schema are used.

use crate::model::gate::{CheckResult, GateReport};
use crate::say::failures;

pub fn xml(reports: &[GateReport]) -> String {
    let suites: Vec<Suite> = reports.iter().map(Suite::of).collect();
    let sum = |count: fn(&Suite) -> usize| suites.iter().map(count).sum::<usize>();
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    xml.push_str(&format!(
        "<testsuites name=\"ralph verify\" tests=\"{}\" failures=\"{}\" errors=\"{}\">\n",
        sum(|suite| suite.tests),
        sum(|suite| suite.failures),
        sum(|suite| suite.errors)
    ));
    for suite in &suites {
        xml.push_str(&suite.xml);
    }
    xml.push_str("</testsuites>\n");
    xml
}

struct Suite {
    tests: usize,
    failures: usize,
    errors: usize,
    xml: String,
}

impl Suite {
    fn of(report: &GateReport) -> Self {
        let named = report.failures();
        let is_error = report.outcome.answer() == CheckResult::CannotTell;
        let passed = report.outcome.answer() == CheckResult::Pass;
        let failures = named.len() + usize::from(!passed && !is_error);
        let (tests, errors) = (named.len() + 1, usize::from(is_error));
        let name = attribute(report.gate.as_str());
        let took = report.took.as_secs_f64();
        let mut xml = format!(
            "  <testsuite name=\"{name}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"0\" \
             time=\"{took:.3}\">\n"
        );
        xml.push_str(&properties(report));
        xml.push_str(&format!("    <testcase classname=\"gate\" name=\"{name}\" time=\"{took:.3}\""));
        if passed {
            xml.push_str("/>\n");
        } else {
            let element = if is_error { "error" } else { "failure" };
            let counts = report.results.as_ref().and_then(failures::counts);
            let parts = [Some(report.outcome.sentence()), counts];
            let message = attribute(&parts.into_iter().flatten().collect::<Vec<_>>().join(": "));
            let kind = attribute(report.outcome.word());
            let output = text(if named.is_empty() { &report.excerpt } else { "" });
            xml.push_str(&format!(
                ">\n      <{element} type=\"{kind}\" message=\"{message}\">{output}</{element}>\n    </testcase>\n"
            ));
        }
        for failure in &named {
            let class = attribute(failure.file.unwrap_or(report.gate.as_str()));
            let case = attribute(failure.name.unwrap_or(failure.message));
            let message = attribute(failure.message);
            let detail = if failure.detail.is_empty() { failure.message } else { failure.detail };
            let place = failure.place().map(|place| format!("{place}\n")).unwrap_or_default();
            let body = text(&format!("{place}{detail}"));
            xml.push_str(&format!(
                "    <testcase classname=\"{class}\" name=\"{case}\">\n      <failure type=\"failed\" \
                 message=\"{message}\">{body}</failure>\n    </testcase>\n"
            ));
        }
        xml.push_str("  </testsuite>\n");
        Self { tests, failures, errors, xml }
    }
}

/// Counts that the suite's attributes cannot hold, because passing tests are not listed.
fn properties(report: &GateReport) -> String {
    let mut properties = vec![("command", report.run.clone())];
    if let Some(results) = &report.results {
        let counts = results.counts;
        properties.extend([
            ("tests.passed", counts.passed.to_string()),
            ("tests.failed", counts.failed.to_string()),
            ("tests.skipped", counts.skipped.to_string()),
        ]);
        if results.left_out > 0 {
            properties.push(("failures.not_listed", results.left_out.to_string()));
        }
    }
    let lines = properties
        .iter()
        .map(|(name, value)| format!("      <property name=\"{name}\" value=\"{}\"/>\n", attribute(value)));
    format!("    <properties>\n{}    </properties>\n", lines.collect::<String>())
}

pub(super) fn attribute(value: &str) -> String {
    text(value).replace('"', "&quot;").replace('\n', "&#10;").replace('\t', "&#9;")
}

/// Removes characters that XML 1.0 does not allow.
pub(super) fn text(value: &str) -> String {
    let can_be_held = |c: &char| {
        matches!(c, '\n' | '\t') || *c >= ' ' && !matches!(c, '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}')
    };
    let kept: String = value.chars().filter(can_be_held).collect();
    kept.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::results;
    use crate::model::gate::GateOutcome;
    use crate::model::result_format::ResultFormat;
    use crate::say::failures::tests::report;

    #[test]
    fn it_is_read_back_by_our_own_reader() {
        let output = "src/a.c:3:5: error: \"x\" < y & z [-Wodd]\nsrc/b.c:4:1: error: no\n";
        let passed = GateReport { outcome: GateOutcome::Passed, ..report("") };
        let broken = GateOutcome::CouldNotStart { why: "sh: 1: x: not found".into() };
        let broken = GateReport { outcome: broken, ..report("\u{1b}sh: 1: x: not found") };
        let xml = xml(&[passed, report(output), broken]);
        assert!(
            xml.contains("<testsuites name=\"ralph verify\" tests=\"5\" failures=\"3\" errors=\"1\">"),
            "{xml}"
        );
        let read = results::read_as(ResultFormat::Junit, &xml).expect("JUnit");
        let names: Vec<&str> = read.failed_tests().map(|test| test.name.as_str()).collect();
        assert_eq!(names.len(), 4, "{names:?}\n{xml}");
        assert!(read.failed_tests().any(|test| test.message.contains("\"x\" < y & z")), "{read:?}");
        assert_eq!(read.counts.passed, 1);
    }
}
