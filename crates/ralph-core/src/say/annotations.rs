//! Gate reports as CI annotations, which are shown beside the code.

use crate::model::gate::{CheckResult, GateReport};
use crate::model::results::{Failure, Severity};
use crate::say::sarif::relative;

/// Workflow commands of GitHub Actions. Paths must be relative to `root`, the repo's folder.
pub fn github(reports: &[GateReport], root: &str) -> Vec<String> {
    let red = reports.iter().filter(|report| report.outcome.answer() != CheckResult::Pass);
    red.flat_map(|report| of_gate(report, root)).collect()
}

fn of_gate(report: &GateReport, root: &str) -> Vec<String> {
    let failures = report.failures();
    if failures.is_empty() {
        let level = if report.advisory { "warning" } else { "error" };
        let title = property(&format!("gate {}", report.gate));
        return vec![format!("::{level} title={title}::{}", data(&report.outcome.sentence()))];
    }
    failures.iter().map(|failure| of_failure(failure, report, root)).collect()
}

fn of_failure(failure: &Failure<'_>, report: &GateReport, root: &str) -> String {
    let level = match failure.severity {
        Severity::Error if report.advisory => "warning",
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "notice",
    };
    let mut properties = Vec::new();
    if let Some(file) = failure.file {
        properties.push(format!("file={}", property(relative(file, root))));
        properties.extend(failure.line.map(|line| format!("line={line}")));
        properties.extend(failure.line.and(failure.column).map(|column| format!("col={column}")));
    }
    let title =
        failure.name.map_or_else(|| report.gate.to_string(), |name| format!("{}: {name}", report.gate));
    properties.push(format!("title={}", property(&title)));
    let message = if failure.message.is_empty() { "failed" } else { failure.message };
    format!("::{level} {}::{}", properties.join(","), data(message))
}

fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::gate::GateOutcome;
    use crate::say::failures::tests::report;

    #[test]
    fn each_failure_is_a_line_and_cannot_add_another() {
        let output = "/repo/src/a,b.c:3:5: error: 100% wrong: yes\n";
        assert_eq!(
            github(&[report(output)], "/repo"),
            ["::error file=src/a%2Cb.c,line=3,col=5,title=test::100%25 wrong: yes"]
        );
        let unknown = GateReport { advisory: true, ..report("no") };
        assert_eq!(github(&[unknown], "/repo"), ["::warning title=gate test::failed with exit code 1"]);
        let passed = GateReport { outcome: GateOutcome::Passed, ..report("") };
        assert!(github(&[passed], "/repo").is_empty());
    }
}
