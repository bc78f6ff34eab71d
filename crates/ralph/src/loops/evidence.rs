//! Gathers what shows a task once all gates passed: the changes since the start, how the gates stood there, and *undo*. Only
//! what this process saw itself counts; `model::evidence` in the core gives the level.

use std::sync::Arc;

use ralph_core::model::evidence::{ChangedFiles, EvidenceFacts, GateAtStart, GateEvidence};
use ralph_core::model::finding::GatesSeen;
use ralph_core::model::gate::GateReport;
use ralph_core::model::id::{GateName, TreeHash};
use ralph_core::model::protected::{FileRole, ProtectedFiles};
use ralph_core::model::undo::UndoSeen;

use crate::store::home::RepoHome;
use crate::store::start_contents::{FileChanges, StartContents};
use crate::work_tree::fingerprint::Tree;

/// Where the work began, as far as it is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct StartOfWork {
    /// The files there; their list has the fingerprint that the ledger or this process kept.
    pub(crate) contents: Option<Arc<StartContents>>,
    /// The gates there, as this process saw them.
    pub(crate) baseline: Arc<Vec<GateReport>>,
    /// How many tests each gate ran there, also as recorded by another process.
    pub(crate) tests: Vec<(GateName, usize)>,
}

impl StartOfWork {
    /// The stored files of a tree; without them nothing can be put back.
    pub(crate) fn stored(home: &RepoHome, tree: Option<&TreeHash>) -> Self {
        let contents = tree.and_then(|tree| StartContents::open(home, tree).ok()).map(Arc::new);
        Self { contents, ..Self::default() }
    }

    /// How many tests ran in each of these gates.
    pub(crate) fn count_tests(reports: &[GateReport]) -> Vec<(GateName, usize)> {
        let count = |report: &GateReport| {
            let counts = report.results.as_ref()?.counts;
            Some((report.gate.clone(), counts.passed + counts.failed)).filter(|(_, ran)| *ran > 0)
        };
        reports.iter().filter_map(count).collect()
    }

    /// Everything but *undo*, for a tree on which all gates passed.
    pub(crate) fn compare(&self, now: &Tree, seen: &GatesSeen, roles: &ProtectedFiles) -> EvidenceFacts {
        let gates = seen.required.iter().map(|(gate, _)| {
            let tests = tests_of(seen.reports.iter().find(|report| report.gate == gate.name));
            let start = self.baseline.iter().find(|report| report.gate == gate.name);
            let at_start = start.and_then(|start| GateAtStart::of(start, tests_of(Some(start))));
            GateEvidence { gate: gate.name.clone(), at_start, tests }
        });
        let changes = self.contents.as_ref().map(|start| start.changed_since(now));
        EvidenceFacts {
            changes: changes.as_ref().map(|changes| count(changes, roles)),
            gates: gates.collect(),
            undo: None,
            no_test: None,
        }
    }
}

/// Stores the files of a start unless they are stored already.
pub(crate) fn keep_start(
    home: &RepoHome,
    root: &std::path::Path,
    tree: &Tree,
) -> std::io::Result<StartContents> {
    match StartContents::open(home, &TreeHash::new(tree.hash())) {
        Ok(stored) => Ok(stored),
        Err(_) => StartContents::record(home, root, tree),
    }
}

/// Why *undo* gives no answer.
pub(crate) fn not_judged(why: impl Into<String>) -> UndoSeen {
    UndoSeen::NotJudged { why: why.into() }
}

fn tests_of(report: Option<&GateReport>) -> Option<Vec<String>> {
    report?.results.as_ref()?.whole.tests.clone()
}

fn count(changes: &FileChanges, roles: &ProtectedFiles) -> ChangedFiles {
    let mut counted = ChangedFiles::default();
    for path in changes.all() {
        match roles.role(&path.to_string_lossy()) {
            FileRole::Test => counted.tests += 1,
            FileRole::Document => counted.texts += 1,
            FileRole::Setting | FileRole::Dependencies => counted.settings += 1,
            FileRole::Source => counted.sources += 1,
        }
    }
    counted
}
