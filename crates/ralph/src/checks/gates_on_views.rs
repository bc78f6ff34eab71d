//! Runs gates on changed views of one tree, under this repo's gates lock, and notices if the tree itself changes meanwhile.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use ralph_core::model::file_change::ViewEdit;
use ralph_core::model::gate::calls::PackageScripts;
use ralph_core::model::gate::{Gate, GateReport};
use ralph_core::model::protected::ProtectedFiles;

use crate::checks::gates::GatesLock;
use crate::checks::gates::environment::GateEnvironment;
use crate::checks::gates::viewed::ViewRun;
use crate::store::workspace::Workspace;
use crate::sys::proc::{self, StopRequest};
use crate::sys::{files, trace};
use crate::work_tree::fingerprint::{Tree, TreeStamps};
use crate::work_tree::view::{ViewKind, ViewPlace};

/// How the gates run, whatever the view.
pub(crate) struct ViewedGates<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) gates: &'a [Gate],
    /// The current files.
    pub(crate) now: &'a Tree,
    pub(crate) environment: &'a GateEnvironment,
    /// The prefix of the processes' marks.
    pub(crate) mark: &'a str,
    pub(crate) excerpt: usize,
    pub(crate) deadline: Option<Instant>,
    pub(crate) stop: &'a StopRequest,
    /// Where complete outputs are stored.
    pub(crate) logs: &'a Path,
}

/// The tree is watched and the lock is held as long as this exists.
pub(crate) struct GatesOnViews<'a> {
    with: ViewedGates<'a>,
    place: ViewPlace<'a>,
    stamps: TreeStamps,
    _one_set_at_a_time: GatesLock,
}

impl<'a> ViewedGates<'a> {
    /// Waits for other processes that run this repo's gates.
    pub(crate) fn begin(self) -> Result<GatesOnViews<'a>, String> {
        const HOURS: Duration = Duration::from_secs(6 * 3600);
        let describe = |error: io::Error| error.to_string();
        let (root, home) = (self.workspace.repo.root.as_path(), &self.workspace.repo_home);
        home.create().map_err(describe)?;
        files::private_dir(self.logs).map_err(describe)?;
        let patience =
            self.deadline.map_or(HOURS, |deadline| deadline.saturating_duration_since(Instant::now()));
        let lock = GatesLock::take_unless(home, patience, || self.stop.is_requested()).map_err(describe)?;
        let lock = lock.ok_or("another ralph process is running this repo's gates")?;
        proc::adopt_orphans();
        let stamps = self.now.stamps_now(root).ok_or("the files changed meanwhile")?;
        let place = ViewPlace { root, tree: self.now, scratch: home.views_dir() };
        Ok(GatesOnViews { place, stamps, _one_set_at_a_time: lock, with: self })
    }
}

impl GatesOnViews<'_> {
    /// Runs the chosen gates on the tree with these changes.
    pub(crate) fn run(
        &self,
        edits: &[ViewEdit],
        chosen: &[bool],
    ) -> Result<(Vec<GateReport>, ViewKind), String> {
        let with = &self.with;
        let (view, kind) =
            self.place.view(edits).map_err(|error| format!("no view of the files: {error}"))?;
        trace::step(|| format!("made a view with {} changes {kind}", edits.len()));
        let run = ViewRun {
            view: &view,
            environment: with.environment,
            mark: with.mark,
            logs: with.logs,
            excerpt: with.excerpt,
            stop: with.stop,
            deadline: with.deadline,
        };
        let reports = run.run(with.gates, chosen);
        if with.stop.is_requested() {
            return Err("it was interrupted".into());
        }
        Ok((reports, kind))
    }

    pub(crate) fn root(&self) -> &Path {
        self.place.root
    }

    /// A view shows the tree below it: what was written to the tree meanwhile may have made the difference.
    pub(crate) fn require_unchanged(&self) -> Result<(), String> {
        let now = self.with.now.stamps_now(self.place.root);
        if now.as_ref() == Some(&self.stamps) { Ok(()) } else { Err("the files changed meanwhile".into()) }
    }
}

/// Which files of a repo are tests and settings, given its gates and the package scripts they call.
pub(crate) fn protected_files(root: &Path, gates: &[Gate]) -> ProtectedFiles {
    let scripts = package_scripts(root);
    let commands: Vec<String> = gates.iter().flat_map(|gate| scripts.behind(&gate.run)).collect();
    ProtectedFiles::new(commands.iter().map(String::as_str))
}

pub(crate) fn package_scripts(root: &Path) -> PackageScripts {
    let text = files::read_foreign(&root.join("package.json")).ok().flatten().unwrap_or_default();
    PackageScripts::parse(&String::from_utf8_lossy(&text))
}
