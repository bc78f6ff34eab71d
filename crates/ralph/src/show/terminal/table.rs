//! Gates as a table, and what is behind a failing one.

use ralph_core::model::duration;
use ralph_core::model::gate::{Answer, GateReport, Outcome};
use ralph_core::model::id::GateName;
use ralph_core::say::failures;

use super::{BAD, FAINT, GOOD, ODD, paint, say};

/// One line for a gate: mark, name, what became of it, how long it took.
pub(crate) fn line(report: &GateReport, width: usize) -> String {
    let (mark, style) = match (report.answer(), &report.outcome) {
        (Answer::Pass, Outcome::Passed) => ("✓", GOOD),
        (Answer::Pass, _) => ("!", ODD),
        (Answer::Fail, _) => ("✗", BAD),
        (Answer::NotYet | Answer::CannotTell, _) => ("?", ODD),
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
    if let Outcome::Failed { code } = report.outcome {
        notes.push(format!("exit {code}"));
    }
    if !report.changed.is_empty() {
        notes.push(format!("changed {}", report.changed.join(", ")));
    }
    notes
}

/// How wide the column of names must be.
pub(crate) fn width<'a>(names: impl Iterator<Item = &'a GateName>) -> usize {
    names.map(|name| name.as_str().chars().count()).max().unwrap_or(0).clamp(8, 60)
}

/// What fails in a gate by name and place, else what it printed; and where the rest is.
pub(crate) fn behind(report: &GateReport) {
    let counts = report.results.as_ref().and_then(failures::counts);
    let counts = counts.map(|counts| format!(": {counts}")).unwrap_or_default();
    say(format_args!("\n{} `{}` {}{counts}", paint(BAD, "gate"), report.gate, report.outcome.sentence()));
    say(paint(FAINT, format!("  $ {}", report.run)));
    for line in failures::shown(report).lines() {
        say(format_args!("  {line}"));
    }
    if let Some(log) = &report.log {
        say(paint(FAINT, format!("  whole output: {log}")));
    }
}
