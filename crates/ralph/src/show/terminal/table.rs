//! The gate table, and the details of a failing gate.

use ralph_core::model::duration;
use ralph_core::model::gate::{CheckResult, GateOutcome, GateReport};
use ralph_core::model::id::GateName;
use ralph_core::say::failures;

use super::{BAD, FAINT, GOOD, ODD, paint, print};

/// One line for a gate: mark, name, outcome, duration.
pub(crate) fn line(report: &GateReport, width: usize) -> String {
    let (mark, style) = match (report.answer(), &report.outcome) {
        (CheckResult::Pass, GateOutcome::Passed) => ("✓", GOOD),
        (CheckResult::Pass, _) => ("!", ODD),
        (CheckResult::Fail, _) => ("✗", BAD),
        (CheckResult::NotYet | CheckResult::CannotTell, _) => ("?", ODD),
    };
    let name = format!("{:width$}", report.gate.as_str());
    let took = if report.reused() { "receipt".into() } else { duration::show(report.took) };
    let word = format!("{:15}", report.outcome.word());
    let mut line = format!("{} {name}  {}  {took:>8}", paint(style, mark), paint(style, word));
    for note in notes(report) {
        line.push_str(&paint(FAINT, format!("  {note}")));
    }
    line
}

fn notes(report: &GateReport) -> Vec<String> {
    let mut notes = Vec::new();
    if report.flaky() {
        notes.push(format!("flaky: passed at run {}", report.runs));
    }
    if report.advisory {
        notes.push("advisory".into());
    }
    if let GateOutcome::Failed { code } = report.outcome {
        notes.push(format!("exit {code}"));
    }
    if !report.changed.is_empty() {
        notes.push(format!("changed {}", report.changed.join(", ")));
    }
    notes
}

/// The width of the name column.
pub(crate) fn width<'a>(names: impl Iterator<Item = &'a GateName>) -> usize {
    names.map(|name| name.as_str().chars().count()).max().unwrap_or(0).clamp(8, 60)
}

/// The failures of a gate by name and place, else its output; and the path of the log.
pub(crate) fn behind(report: &GateReport) {
    let counts = report.results.as_ref().and_then(failures::counts);
    let counts = counts.map(|counts| format!(": {counts}")).unwrap_or_default();
    print(format_args!("\n{} `{}` {}{counts}", paint(BAD, "gate"), report.gate, report.outcome.sentence()));
    print(paint(FAINT, format!("  $ {}", report.run)));
    for line in failures::shown(report).lines() {
        print(format_args!("  {line}"));
    }
    if let Some(log) = &report.log {
        print(paint(FAINT, format!("  full output: {log}")));
    }
}
