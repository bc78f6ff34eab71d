//! What shows that a task is done: the level of a verdict whose gates all pass.
//!
//! Green gates are not enough for *verified*: something that failed at the start, or is new, must pass now and fail again
//! without the change (*undo*). Everything that was not seen or could not be read gives *passing*.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::model::gate::{CheckResult, GateReport};
use crate::model::id::GateName;
use crate::model::results::Failure;
use crate::model::undo::{GateWithoutChange, UndoSeen};

/// What the user requires as proof of the task (`--proof`).
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Proof {
    /// A gate, test or acceptance command that fails without the change.
    Test,
    /// For refactorings: the same tests pass before and after, none is gone.
    BehaviourKept,
    /// Nothing beyond passing gates.
    Off,
}

impl Proof {
    pub const ALL: [Self; 3] = [Self::Test, Self::BehaviourKept, Self::Off];

    pub fn word(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::BehaviourKept => "behaviour-kept",
            Self::Off => "off",
        }
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Proof {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|proof| proof.word() == text)
            .ok_or_else(|| "expected `test`, `behaviour-kept` or `off`".to_owned())
    }
}

/// How much a verdict with passing gates shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Verified,
    Passing,
    Unchanged,
}

/// Everything that was seen by the deciding process, after all gates passed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvidenceFacts {
    /// What differs from the start; none if the start's contents are not known.
    pub changes: Option<ChangedFiles>,
    pub gates: Vec<GateEvidence>,
    /// None if it was not run.
    pub undo: Option<UndoSeen>,
    /// The agent's `<no-test>` answer.
    pub no_test: Option<String>,
}

/// Files that differ from the start, counted by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangedFiles {
    pub sources: usize,
    pub tests: usize,
    /// Settings of runners and linters, gate scripts.
    pub settings: usize,
    /// License, README, documentation.
    pub texts: usize,
}

impl ChangedFiles {
    pub fn total(self) -> usize {
        self.sources + self.tests + self.settings + self.texts
    }
}

/// A required gate, which passes now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateEvidence {
    pub gate: GateName,
    /// How this process saw it at the start; none if it did not, or if it could not be evaluated.
    pub at_start: Option<GateAtStart>,
    /// The names of the tests that ran now; none if the runner does not list them all.
    pub tests: Option<Vec<String>>,
}

/// How a gate stood at the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GateAtStart {
    pub passed: bool,
    pub failing_tests: Vec<String>,
    /// The names of the tests that ran; none if the runner does not list them all.
    pub tests: Option<Vec<String>>,
    /// How many tests ran.
    pub ran: usize,
}

impl GateAtStart {
    /// None if the gate could not be evaluated.
    pub fn of(report: &GateReport, tests: Option<Vec<String>>) -> Option<Self> {
        let passed = match report.outcome.answer() {
            CheckResult::Pass => true,
            CheckResult::Fail => false,
            CheckResult::NotYet | CheckResult::CannotTell => return None,
        };
        let results = report.results.as_ref();
        let failing_tests = report.failures().into_iter().filter(Failure::is_test);
        Some(Self {
            passed,
            failing_tests: failing_tests.map(|failure| failure.identity()).collect(),
            tests,
            ran: results.map_or(0, |results| results.counts.passed + results.counts.failed),
        })
    }
}

/// One thing that shows the task.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ShownFact {
    /// It failed at the start and fails without the change.
    GateFixed { gate: GateName },
    /// They failed at the start and fail without the change.
    TestsFixed { gate: GateName, tests: Vec<String> },
    /// They are new and fail without the change.
    NewTests { gate: GateName, tests: Vec<String> },
    /// It fails without the change; how it stood at the start was not seen, or its tests were changed.
    FailsWithoutChange { gate: GateName, tests: Vec<String> },
    /// The same tests pass as at the start.
    BehaviourKept { tests: usize },
}

/// Why nothing shows the task.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why_not", rename_all = "snake_case")]
pub enum NotShown {
    /// The gates passed before and after, and there is no new test.
    NothingNew,
    /// The green does not come from the sources: it stays green without the change.
    PassesWithoutChange {
        gates: Vec<GateName>,
        /// New tests among them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tests: Vec<String>,
    },
    CannotBeJudged {
        reason: String,
    },
    /// The agent says why there is no test.
    NoTest {
        reason: String,
    },
    /// Tests of the start that did not run now.
    TestsGone {
        tests: Vec<String>,
    },
    /// `behaviour-kept`: the gates did not pass at the start.
    RedAtStart,
    /// `behaviour-kept`: the names of the tests were not read at the start and now.
    TestsNotListed,
    /// No proof was asked for.
    NotAsked,
}

/// The level, and what it rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    Verified(Vec<ShownFact>),
    Passing(NotShown),
    Unchanged,
}

impl Evidence {
    pub fn level(&self) -> Level {
        match self {
            Self::Verified(_) => Level::Verified,
            Self::Passing(_) => Level::Passing,
            Self::Unchanged => Level::Unchanged,
        }
    }
}

pub fn level(facts: &EvidenceFacts, proof: Proof) -> Level {
    evaluate(facts, proof).level()
}

/// The level of a verdict whose gates all passed.
pub fn evaluate(facts: &EvidenceFacts, proof: Proof) -> Evidence {
    if facts.changes.is_some_and(|changes| changes.total() == 0) {
        return Evidence::Unchanged;
    }
    let shown = match proof {
        Proof::Test => shown_by_undo(facts),
        Proof::BehaviourKept => behaviour_kept(facts),
        Proof::Off => Err(NotShown::NotAsked),
    };
    match (shown, &facts.no_test) {
        (Ok(shown), _) => Evidence::Verified(shown),
        (Err(NotShown::NothingNew), Some(reason)) => {
            Evidence::Passing(NotShown::NoTest { reason: reason.clone() })
        }
        (Err(why), _) => Evidence::Passing(why),
    }
}

/// The gates that could show the task, for *undo*; empty if none can.
pub fn proving_gates(facts: &EvidenceFacts) -> Vec<GateName> {
    let Some(changes) = facts.changes.filter(|changes| changes.total() > 0) else { return Vec::new() };
    let is_candidate = |gate: &&GateEvidence| match &gate.at_start {
        None => true,
        Some(start) => !start.passed || changes.tests > 0 || !gate.new_tests().is_empty(),
    };
    facts.gates.iter().filter(is_candidate).map(|gate| gate.gate.clone()).collect()
}

fn shown_by_undo(facts: &EvidenceFacts) -> Result<Vec<ShownFact>, NotShown> {
    match &facts.undo {
        None if facts.changes.is_some() && proving_gates(facts).is_empty() => Err(NotShown::NothingNew),
        None => Err(NotShown::NotAsked),
        Some(UndoSeen::NotJudged { why }) => Err(NotShown::CannotBeJudged { reason: why.to_string() }),
        Some(UndoSeen::Green { gates }) => {
            let of = |gate: &&GateEvidence| gates.contains(&gate.gate);
            let tests = facts.gates.iter().filter(of).flat_map(GateEvidence::new_tests).collect();
            Err(NotShown::PassesWithoutChange { gates: gates.clone(), tests: shortened(tests) })
        }
        Some(UndoSeen::Red { gates }) => {
            let shown: Vec<ShownFact> = gates.iter().flat_map(|without| facts.shown_by(without)).collect();
            if shown.is_empty() { Err(NotShown::NothingNew) } else { Ok(shown) }
        }
    }
}

impl EvidenceFacts {
    /// What this gate's failure without the change shows.
    fn shown_by(&self, without: &GateWithoutChange) -> Vec<ShownFact> {
        let Some(gate) = self.gates.iter().find(|gate| gate.gate == without.gate) else { return Vec::new() };
        let name = || gate.gate.clone();
        let failing = |names: &[String]| -> Vec<String> {
            names.iter().filter(|test| gate.fails_without(without, test)).cloned().collect()
        };
        let fails_without_change =
            || ShownFact::FailsWithoutChange { gate: name(), tests: shortened(without.failing.clone()) };
        let Some(start) = &gate.at_start else { return vec![fails_without_change()] };
        let mut shown = Vec::new();
        if !start.passed {
            match failing(&start.failing_tests) {
                tests if !tests.is_empty() => {
                    shown.push(ShownFact::TestsFixed { gate: name(), tests: shortened(tests) });
                }
                // It failed as a whole: not by tests that can be told apart.
                _ if start.failing_tests.is_empty() => shown.push(ShownFact::GateFixed { gate: name() }),
                _ => {}
            }
        }
        let new = failing(&gate.new_tests());
        if !new.is_empty() {
            shown.push(ShownFact::NewTests { gate: name(), tests: shortened(new) });
        }
        if shown.is_empty() && self.changes.is_some_and(|changes| changes.tests > 0) {
            shown.push(fails_without_change());
        }
        shown
    }
}

impl GateEvidence {
    /// Tests that did not run at the start; none if the names were not read.
    fn new_tests(&self) -> Vec<String> {
        let start = self.at_start.as_ref().and_then(|start| start.tests.as_ref());
        match (start, &self.tests) {
            (Some(start), Some(now)) => missing_from(start, now),
            _ => Vec::new(),
        }
    }

    /// Whether this test fails without the change. A failure that is no known test (an import or compile error) fails all of
    /// them.
    fn fails_without(&self, without: &GateWithoutChange, test: &String) -> bool {
        let start = self.at_start.as_ref();
        let known = [self.tests.as_ref(), start.map(|start| &start.failing_tests)];
        let is_test = |name: &String| known.iter().flatten().any(|tests| tests.contains(name));
        let failing = &without.failing;
        failing.is_empty() || failing.contains(test) || failing.iter().any(|name| !is_test(name))
    }
}

fn behaviour_kept(facts: &EvidenceFacts) -> Result<Vec<ShownFact>, NotShown> {
    let (mut gone, mut kept) = (Vec::new(), 0);
    for gate in &facts.gates {
        let Some(start) = &gate.at_start else { return Err(NotShown::TestsNotListed) };
        if !start.passed {
            return Err(NotShown::RedAtStart);
        }
        match (&start.tests, &gate.tests) {
            (Some(before), Some(now)) => {
                gone.extend(missing_from(now, before));
                kept += before.len();
            }
            // A gate without tests: a linter, a build.
            _ if start.ran == 0 => {}
            _ => return Err(NotShown::TestsNotListed),
        }
    }
    match (gone.is_empty(), kept) {
        (false, _) => Err(NotShown::TestsGone { tests: shortened(gone) }),
        (true, 0) => Err(NotShown::TestsNotListed),
        (true, tests) => Ok(vec![ShownFact::BehaviourKept { tests }]),
    }
}

/// The names in `of` that are not in `from`; a name can be there more than once.
fn missing_from(from: &[String], of: &[String]) -> Vec<String> {
    let mut left: BTreeMap<&str, usize> = BTreeMap::new();
    for name in from {
        *left.entry(name).or_default() += 1;
    }
    let is_missing = |name: &&String| match left.get_mut(name.as_str()) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => true,
    };
    of.iter().filter(is_missing).cloned().collect()
}

/// A ledger line carries the names, so there are not too many.
fn shortened(mut names: Vec<String>) -> Vec<String> {
    const MOST: usize = 40;
    names.truncate(MOST);
    names
}

#[cfg(test)]
mod tests;
