//! What the tests of a change prove, one row per test: three runs of the same gates compared by test name.
//!
//! *with*: everything as it is. *before*: the base, its tests on its sources. *without*: the current tests on the base's
//! sources. An existing test is judged by *before* and *with*, a new one by *without* and *with*.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::model::gate::{GateOutcome, GateReport};
use crate::model::id::GateName;
use crate::model::results::{Results, TestOutcome, TestResult};

/// The reports of one gate.
#[derive(Clone, Copy, Debug)]
pub struct GateRuns<'r> {
    pub with: &'r GateReport,
    pub before: &'r GateReport,
    pub without: &'r GateReport,
}

/// What a test says about the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProofKind {
    /// Passes without the change, fails with it.
    Broken,
    /// Existed; removed, skipped or not run now.
    Gone,
    /// Fails without the change, passes with it.
    Fixed,
    /// New, and passes without the change.
    ProvesNothing,
    /// Fails with and without the change, or is new and fails.
    Failing,
    /// It is not known how it ends without the change; does not count.
    NotJudged,
    /// Passes with and without the change.
    Unaffected,
}

/// One test, or a whole gate where its tests are not named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProofRow {
    pub kind: ProofKind,
    pub gate: GateName,
    /// `None`: the gate itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    pub is_new: bool,
    /// How it ends without the change, where that needs words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// The answer to "would these tests fail without the change?"
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProofVerdict {
    /// At least one test fails without the change and passes with it; none is broken or gone.
    Proven,
    NotProven,
    BrokenOrGone,
}

/// All rows, the most important first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Proof {
    pub rows: Vec<ProofRow>,
    /// What the rows do not show, as sentences.
    pub notes: Vec<String>,
}

impl Proof {
    pub fn count(&self, kind: ProofKind) -> usize {
        self.rows.iter().filter(|row| row.kind == kind).count()
    }

    pub fn verdict(&self) -> ProofVerdict {
        if self.count(ProofKind::Broken) + self.count(ProofKind::Gone) > 0 {
            ProofVerdict::BrokenOrGone
        } else if self.count(ProofKind::Fixed) > 0 {
            ProofVerdict::Proven
        } else {
            ProofVerdict::NotProven
        }
    }

    /// Compares the runs of every gate. `inseparable` are files whose tests went with their sources.
    pub fn of<'r>(gates: impl IntoIterator<Item = GateRuns<'r>>, inseparable: &[String]) -> Self {
        let mut proof = Self::default();
        for runs in gates {
            proof.add(runs, !inseparable.is_empty());
        }
        for file in inseparable {
            proof.notes.push(format!(
                "the tests and the source in {file} cannot be separated; its tests do not count"
            ));
        }
        proof.rows.sort_by(|one, next| {
            let key = |row: &ProofRow| (row.kind, row.gate.clone(), row.file.clone(), row.test.clone());
            key(one).cmp(&key(next))
        });
        proof
    }

    fn add(&mut self, runs: GateRuns<'_>, some_inseparable: bool) {
        let rows = match RunSeen::of(runs.with, &shared_names(runs)) {
            RunSeen::Named(with) => rows_by_test(runs, &with, some_inseparable),
            RunSeen::Unnamed { passed: true } if has_tests(runs.with) => {
                let gate = &runs.with.gate;
                self.notes.push(format!(
                    "`{gate}` does not name the tests that pass, so only failing ones are compared; a verbose reporter or \
                     `results:` shows them all"
                ));
                rows_by_failure(runs)
            }
            RunSeen::Unnamed { passed } => vec![row_of_gate(runs, passed)],
            RunSeen::NotEvaluated => {
                self.notes.push(format!(
                    "`{}` with the change: {}",
                    runs.with.gate,
                    runs.with.outcome.word()
                ));
                vec![gate_row(runs, ProofKind::NotJudged, "")]
            }
        };
        self.rows.extend(rows);
    }
}

/// A gate's run, as far as it can be compared.
enum RunSeen<'r> {
    /// Every test by name.
    Named(BTreeMap<String, &'r TestResult>),
    Unnamed {
        passed: bool,
    },
    NotEvaluated,
}

impl<'r> RunSeen<'r> {
    fn of(report: &'r GateReport, shared: &BTreeSet<String>) -> Self {
        let passed = match report.outcome {
            GateOutcome::Passed => true,
            GateOutcome::Failed { .. } => false,
            _ => return Self::NotEvaluated,
        };
        match &report.results {
            Some(results) if names_all(results) => Self::Named(by_name(results, shared)),
            _ => Self::Unnamed { passed },
        }
    }
}

fn names_all(results: &Results) -> bool {
    !results.tests.is_empty() && !results.partial && results.tests.len() >= results.counts.total()
}

fn has_tests(report: &GateReport) -> bool {
    report.results.as_ref().is_some_and(|results| results.counts.total() > 0)
}

/// The names that stand for tests in several files.
fn shared_names(runs: GateRuns<'_>) -> BTreeSet<String> {
    let mut shared = BTreeSet::new();
    for results in [runs.with, runs.before, runs.without].iter().filter_map(|report| report.results.as_ref())
    {
        let mut files: BTreeMap<&str, &str> = BTreeMap::new();
        for test in &results.tests {
            let Some(file) = &test.file else { continue };
            if files.insert(&test.name, file).is_some_and(|other| other != file) {
                shared.insert(test.name.clone());
            }
        }
    }
    shared
}

/// Tests by name; of several with one name the file tells them apart, else the worst counts.
fn by_name<'r>(results: &'r Results, shared: &BTreeSet<String>) -> BTreeMap<String, &'r TestResult> {
    let rank = |outcome: TestOutcome| match outcome {
        TestOutcome::Failed => 2,
        TestOutcome::Passed => 1,
        TestOutcome::Skipped => 0,
    };
    let mut all: BTreeMap<String, &TestResult> = BTreeMap::new();
    for test in &results.tests {
        let key = match &test.file {
            Some(file) if shared.contains(&test.name) => format!("{} ({file})", test.name),
            _ => test.name.clone(),
        };
        let known = all.entry(key).or_insert(test);
        if rank(test.outcome) > rank(known.outcome) {
            *known = test;
        }
    }
    all
}

fn named<'r>(report: &'r GateReport, shared: &BTreeSet<String>) -> BTreeMap<String, &'r TestResult> {
    report.results.as_ref().map(|results| by_name(results, shared)).unwrap_or_default()
}

fn rows_by_test(
    runs: GateRuns<'_>,
    with: &BTreeMap<String, &TestResult>,
    some_inseparable: bool,
) -> Vec<ProofRow> {
    let shared = shared_names(runs);
    let (before, without) = (named(runs.before, &shared), named(runs.without, &shared));
    let outcome =
        |tests: &BTreeMap<String, &TestResult>, name: &str| tests.get(name).map(|test| test.outcome);
    let mut rows = Vec::new();
    for (name, test) in with {
        let (was, on_base) = (outcome(&before, name), outcome(&without, name));
        let row = |kind, is_new, note: &str| ProofRow {
            kind,
            gate: runs.with.gate.clone(),
            test: Some(name.clone()),
            file: test.file.clone(),
            is_new,
            note: note.to_owned(),
        };
        rows.extend(match (was, test.outcome) {
            (Some(TestOutcome::Passed), TestOutcome::Passed) if on_base == Some(TestOutcome::Failed) => {
                Some(row(ProofKind::Fixed, false, "the test was changed"))
            }
            (Some(TestOutcome::Passed), TestOutcome::Passed) => Some(row(ProofKind::Unaffected, false, "")),
            (Some(TestOutcome::Failed), TestOutcome::Passed) if on_base == Some(TestOutcome::Passed) => {
                Some(row(ProofKind::Fixed, false, "by the test itself: it passes on the base's sources"))
            }
            (Some(TestOutcome::Failed), TestOutcome::Passed) => Some(row(ProofKind::Fixed, false, "")),
            (Some(TestOutcome::Passed), TestOutcome::Failed) => Some(row(ProofKind::Broken, false, "")),
            (Some(TestOutcome::Failed), TestOutcome::Failed) => Some(row(ProofKind::Failing, false, "")),
            (Some(TestOutcome::Passed | TestOutcome::Failed), TestOutcome::Skipped) => {
                Some(row(ProofKind::Gone, false, "skipped"))
            }
            (None | Some(TestOutcome::Skipped), TestOutcome::Failed) => {
                Some(row(ProofKind::Failing, true, ""))
            }
            (None | Some(TestOutcome::Skipped), TestOutcome::Skipped) => None,
            (None | Some(TestOutcome::Skipped), TestOutcome::Passed) => {
                let (kind, note) = new_test(runs, on_base, some_inseparable);
                Some(row(kind, true, note))
            }
        });
    }
    let is_gone = |(name, test): &(&String, &&TestResult)| {
        !with.contains_key(*name) && test.outcome != TestOutcome::Skipped
    };
    rows.extend(before.iter().filter(is_gone).map(|(name, test)| ProofRow {
        kind: ProofKind::Gone,
        gate: runs.with.gate.clone(),
        test: Some(name.clone()),
        file: test.file.clone(),
        is_new: false,
        note: "removed or not run".to_owned(),
    }));
    rows
}

/// A test that the base does not have, by how it ends on the base's sources.
fn new_test(
    runs: GateRuns<'_>,
    on_base: Option<TestOutcome>,
    some_inseparable: bool,
) -> (ProofKind, &'static str) {
    match (on_base, &runs.without.outcome) {
        (Some(TestOutcome::Failed), _) => (ProofKind::Fixed, ""),
        (Some(TestOutcome::Passed), _) => (ProofKind::ProvesNothing, ""),
        (Some(TestOutcome::Skipped), _) => (ProofKind::NotJudged, "skipped without the change"),
        // A compile or import error, for example because it uses a new function.
        (None, GateOutcome::Failed { .. }) => (ProofKind::Fixed, "does not run without the change"),
        (None, GateOutcome::Passed) if some_inseparable => (ProofKind::NotJudged, "cannot be separated"),
        (None, GateOutcome::Passed) => (ProofKind::NotJudged, "not run without the change"),
        (None, _) => (ProofKind::NotJudged, "the gate could not be evaluated without the change"),
    }
}

/// All tests pass now, but only failing ones are named: those that fail without the change are fixed.
fn rows_by_failure(runs: GateRuns<'_>) -> Vec<ProofRow> {
    let shared = shared_names(runs);
    let (before, without) = (named(runs.before, &shared), named(runs.without, &shared));
    let failing = |tests: &BTreeMap<String, &TestResult>| -> BTreeMap<String, Option<String>> {
        let failed = tests.iter().filter(|(_, test)| test.outcome == TestOutcome::Failed);
        failed.map(|(name, test)| (name.clone(), test.file.clone())).collect()
    };
    let (before, mut all) = (failing(&before), failing(&without));
    let known: Vec<String> = before.keys().cloned().collect();
    all.extend(before);
    let mut rows: Vec<ProofRow> = all
        .into_iter()
        .map(|(name, file)| ProofRow {
            kind: ProofKind::Fixed,
            gate: runs.with.gate.clone(),
            is_new: !known.contains(&name),
            test: Some(name),
            file,
            note: String::new(),
        })
        .collect();
    if rows.is_empty() {
        rows.push(row_of_gate(runs, true));
    }
    rows
}

/// The gate as one test: a script, a linter, a build.
fn row_of_gate(runs: GateRuns<'_>, passes_now: bool) -> ProofRow {
    let ended = |report: &GateReport| match report.outcome {
        GateOutcome::Passed => Some(true),
        GateOutcome::Failed { .. } => Some(false),
        _ => None,
    };
    // Put-back sources leave unused code behind, which linters report: that proves nothing.
    let is_linter = |report: &GateReport| {
        report
            .results
            .as_ref()
            .is_some_and(|results| results.tests.is_empty() && !results.problems.is_empty())
    };
    match (ended(runs.before), passes_now) {
        (Some(true), true) if ended(runs.without) == Some(false) && !is_linter(runs.without) => {
            gate_row(runs, ProofKind::Fixed, "with the current tests")
        }
        (Some(true), true) => gate_row(runs, ProofKind::Unaffected, ""),
        (Some(false), true) if ended(runs.without) == Some(true) => gate_row(
            runs,
            ProofKind::ProvesNothing,
            "the current tests and settings pass on the base's sources",
        ),
        (Some(false), true) => gate_row(runs, ProofKind::Fixed, ""),
        (Some(true), false) => gate_row(runs, ProofKind::Broken, ""),
        (Some(false), false) => gate_row(runs, ProofKind::Failing, ""),
        (None, true) => gate_row(runs, ProofKind::NotJudged, "could not be evaluated on the base"),
        (None, false) => gate_row(runs, ProofKind::Failing, ""),
    }
}

fn gate_row(runs: GateRuns<'_>, kind: ProofKind, note: &str) -> ProofRow {
    ProofRow {
        kind,
        gate: runs.with.gate.clone(),
        test: None,
        file: None,
        is_new: false,
        note: note.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::results::TestCounts;
    use std::time::Duration;

    /// `+name` passes, `-name` fails, `~name` is skipped; the gate fails if a test does, or with `!`.
    fn report(tests: &str) -> GateReport {
        let outcome = |word: &str| match word.as_bytes()[0] {
            b'+' => TestOutcome::Passed,
            b'-' => TestOutcome::Failed,
            _ => TestOutcome::Skipped,
        };
        let list: Vec<TestResult> = tests
            .split_whitespace()
            .filter(|word| *word != "!")
            .map(|word| TestResult {
                name: word[1..].to_owned(),
                file: None,
                line: None,
                outcome: outcome(word),
                message: String::new(),
                detail: String::new(),
            })
            .collect();
        let failed = tests.contains(['-', '!']);
        let count = |outcome| list.iter().filter(|test| test.outcome == outcome).count();
        let counts = TestCounts {
            passed: count(TestOutcome::Passed),
            failed: count(TestOutcome::Failed),
            skipped: count(TestOutcome::Skipped),
        };
        let results = (!list.is_empty()).then(|| Results { tests: list, counts, ..Results::default() });
        GateReport {
            gate: GateName::new("test"),
            run: "test".into(),
            outcome: if failed { GateOutcome::Failed { code: 1 } } else { GateOutcome::Passed },
            advisory: false,
            took: Duration::ZERO,
            runs: 1,
            log: None,
            excerpt: String::new(),
            results,
            changed: Vec::new(),
        }
    }

    fn proof(before: &str, without: &str, with: &str) -> Proof {
        let (before, without, with) = (report(before), report(without), report(with));
        Proof::of([GateRuns { with: &with, before: &before, without: &without }], &[])
    }

    #[test]
    fn every_test_gets_its_row() {
        use ProofKind::*;
        let table = [
            // before, without, with: the row of `t`
            ("-t +u", "-t +u", "+t +u", Some(Fixed)),
            ("+u", "-t +u", "+t +u", Some(Fixed)),
            ("+t +u", "+t +u", "+t +u", Some(Unaffected)),
            ("+t +u", "+t +u", "-t +u", Some(Broken)),
            ("+u", "+t +u", "+t +u", Some(ProvesNothing)),
            ("+t +u", "+u", "+u", Some(Gone)),
            ("+t +u", "~t +u", "~t +u", Some(Gone)),
            ("-t +u", "-t +u", "-t +u", Some(Failing)),
            ("+u", "-t +u", "-t +u", Some(Failing)),
            // Changed so that it demands the change.
            ("+t +u", "-t +u", "+t +u", Some(Fixed)),
            // Nothing compiles without the change.
            ("+u", "!", "+t +u", Some(Fixed)),
            ("+t +u", "!", "+t +u", Some(Unaffected)),
            // Green without the change and not among its tests.
            ("+u", "+u", "+t +u", Some(NotJudged)),
            ("~t +u", "+t +u", "+t +u", Some(ProvesNothing)),
            ("+u", "+u", "~t +u", None),
        ];
        for (before, without, with, expected) in table {
            let proof = proof(before, without, with);
            let row = proof.rows.iter().find(|row| row.test.as_deref() == Some("t"));
            assert_eq!(row.map(|row| row.kind), expected, "{before} | {without} | {with}");
        }
    }

    #[test]
    fn the_verdict_follows_from_the_rows() {
        let table = [
            ("-t", "-t", "+t", ProofVerdict::Proven),
            ("+t", "+t", "+t", ProofVerdict::NotProven),
            ("+t", "+t +n", "+t +n", ProofVerdict::NotProven),
            ("-t +u", "-t +u", "+t -u", ProofVerdict::BrokenOrGone),
            ("-t +u", "-t", "+t", ProofVerdict::BrokenOrGone),
        ];
        for (before, without, with, expected) in table {
            assert_eq!(proof(before, without, with).verdict(), expected, "{before} | {without} | {with}");
        }
    }

    #[test]
    fn a_gate_without_named_tests_is_one_row() {
        for (before, without, with, kind) in [
            ("!", "!", "", ProofKind::Fixed),
            ("!", "", "", ProofKind::ProvesNothing),
            ("", "!", "", ProofKind::Fixed),
            ("", "", "", ProofKind::Unaffected),
            ("", "", "!", ProofKind::Broken),
            ("!", "!", "!", ProofKind::Failing),
        ] {
            let proof = proof(before, without, with);
            assert_eq!(
                proof.rows.iter().map(|row| row.kind).collect::<Vec<_>>(),
                [kind],
                "{before}|{without}|{with}"
            );
        }
    }

    #[test]
    fn where_only_failures_are_named_those_without_the_change_are_fixed() {
        let (before, without) = (report("+u"), report("-t"));
        let mut with = report("+u");
        // Dots instead of names.
        with.results.as_mut().expect("results").tests.clear();
        let proof = Proof::of([GateRuns { with: &with, before: &before, without: &without }], &[]);
        assert_eq!(proof.rows[0].kind, ProofKind::Fixed);
        assert_eq!(proof.rows[0].test.as_deref(), Some("t"));
        assert_eq!(proof.notes.len(), 1);
    }
}
