//! What failed in the last iteration that was judged: every test and problem by name, as everywhere else.

use super::phrase::Phrase;
use super::{GateMark, GateReport, LoopReport, plain};
use crate::say::failures;

/// A report is no log: of many failures some are named.
const MOST_NAMED: usize = 20;

/// The failing tests and problems of one gate in one iteration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailingList {
    /// `3 of 120 tests fail`
    pub counts: Option<String>,
    /// `src/a.rs:12  name: message`
    pub lines: Vec<String>,
    /// How many more there are.
    pub more: usize,
}

impl FailingList {
    pub(super) fn of(report: &GateReport) -> Self {
        let all = report.failures();
        let lines: Vec<String> =
            all.iter().take(MOST_NAMED).map(|failure| plain(&failures::line(failure))).collect();
        let left_out = report.results.as_ref().map_or(0, |results| results.left_out);
        Self {
            counts: report.results.as_ref().and_then(failures::counts),
            more: all.len() - lines.len() + left_out,
            lines,
        }
    }
}

impl LoopReport {
    /// Gate by gate, what failed in the last iteration that was judged.
    pub(super) fn failing_items(&self) -> Vec<Phrase> {
        let gates = self.last_judged().into_iter().flat_map(|row| &row.gates);
        let failing = gates.filter(|seen| seen.mark == GateMark::Failed && !seen.failing.lines.is_empty());
        failing
            .flat_map(|seen| {
                let FailingList { counts, lines, more } = &seen.failing;
                let head = Phrase::new("Gate ").code(seen.gate.as_str());
                let head = match counts {
                    Some(counts) => head.words(format!(": {counts}")),
                    None => head,
                };
                let named = lines.iter().map(|line| Phrase::default().foreign(line));
                let rest = (*more > 0).then(|| Phrase::new(format!("and {more} more")));
                [head].into_iter().chain(named).chain(rest).collect::<Vec<_>>()
            })
            .collect()
    }
}
