//! Runs a set of gates on the tree as it is and brings back what was seen. The one place where receipts are made.
//!
//! A run is one or more passes over the plan. In a pass, gates start as the plan allows; whenever none is running, the
//! tree is read again: a gate that passed while the tree stayed the same gets its receipt, and one that changed the tree
//! is named. A pass that changed the tree is followed by another on the new tree, twice at most; then it has settled, or
//! never will. A pass at hand (same definition, environment and tree) stands in for a run only where the user asks for
//! it; a failure never does.
//!
//! A file that was touched meanwhile and has the same content again was perhaps another one while a gate looked at it: the
//! gates are then run once more, and where it happens again the file is named.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use globset::{Glob, GlobSet, GlobSetBuilder};
use ralph_core::model::finding::GatesSeen;
use ralph_core::model::foreign_text;
use ralph_core::model::gate::plan::{GatePlan, PlanProgress};
use ralph_core::model::gate::receipt::{Receipt, Witnessed};
use ralph_core::model::gate::{Answer, Gate, GateReport, Outcome};
use ralph_core::model::id::{Digest, TreeHash};
use ralph_core::model::secrets::Secrets;
use ralph_core::model::verdict::Trouble;

use crate::show::terminal::live::Live;
use crate::store::home::RepoHome;
use crate::sys::clock;
use crate::sys::proc::StopRequest;
use crate::work_tree::fingerprint::{IgnoreRules, Tree, TreeReader};

pub(crate) mod environment;
mod gates_lock;
mod one_gate;
pub(crate) mod receipts;
mod report_files;

use environment::GateEnvironment;
pub(crate) use gates_lock::GatesLock;
use one_gate::Ran;

/// How often all gates are run again because one of them changed the tree.
const MOST_PASSES: usize = 3;

/// More names than anybody reads are not written down.
const MOST_NAMED: usize = 200;

/// Everything a run needs to know.
pub(crate) struct Run<'a> {
    pub(crate) gates: &'a [Gate],
    pub(crate) home: &'a RepoHome,
    pub(crate) root: &'a std::path::Path,
    pub(crate) reader: &'a TreeReader<'a>,
    pub(crate) environment: &'a GateEnvironment,
    /// What the marks of its processes begin with: whose run it is.
    pub(crate) mark: &'a str,
    /// Where the whole outputs go.
    pub(crate) logs: PathBuf,
    /// How much of a gate's output is worth showing.
    pub(crate) excerpt: usize,
    /// When we must have an answer.
    pub(crate) deadline: Option<Instant>,
    pub(crate) jobs: usize,
    pub(crate) keep_going: bool,
    /// Run everything, whatever receipts there are.
    pub(crate) fresh: bool,
    pub(crate) stop: &'a StopRequest,
    /// What `.gitignore` said when a person last looked.
    pub(crate) accepted_rules: Option<IgnoreRules>,
    /// Whether these are all gates of the config: the others may be what makes these pass.
    pub(crate) all_gates: bool,
    /// Files that the user's own runs rewrite with equal content; none: every one is noted and nothing is run again.
    pub(crate) rewritten: Option<&'a [String]>,
    /// The tree at the beginning, where it is known: files that are new since are the agent's own, and nothing hides by them.
    pub(crate) found: Option<&'a Tree>,
}

/// Whether a receipt may stand in for a later run on the same fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Findable {
    Again,
    /// The fingerprint does not stand for everything that the gate could see.
    Never,
}

/// What receipts say of a tree.
pub(crate) enum AtHand {
    All(GatesSeen),
    /// Something has to run on this tree.
    NotAll(Arc<Tree>),
}

/// Who is told of a run while it goes on.
pub(crate) trait Watch {
    /// The tree that is judged first. No gate is started before this comes back.
    fn tree(&mut self, _tree: &Arc<Tree>) {}
    fn started(&mut self, _gate: &Gate) {}
    /// It has ended; what that means is known once the tree was read again.
    fn ended(&mut self, _gate: &Gate) {}
    /// Called once the tree after the gate is known, so the receipt is there if there is one.
    fn finished(&mut self, _report: &GateReport, _receipt: Option<&Receipt>, _findable: Findable) {}
    fn changed(&mut self, _files: &[String]) {}
    /// All has been seen, whether or not anything had to be run: the verdict is next.
    fn seen(&mut self) {}
}

impl Watch for Live {
    fn started(&mut self, gate: &Gate) {
        self.started(gate);
    }

    fn ended(&mut self, gate: &Gate) {
        self.ended(gate);
    }

    fn changed(&mut self, files: &[String]) {
        self.changed(files);
    }
}

impl Run<'_> {
    /// Runs what has no receipt. A tree that was read a moment ago is not read again before the first gate.
    pub(crate) fn go(
        &self,
        just_read: Option<Arc<Tree>>,
        watch: &mut dyn Watch,
    ) -> Result<GatesSeen, Trouble> {
        let plan = GatePlan::new(self.gates).expect("the config was checked when it was read");
        let inputs: Vec<Option<GlobSet>> = self.gates.iter().map(input_globs).collect();
        let mut tree = just_read.map_or_else(|| self.read_tree(), Ok)?;
        watch.tree(&tree);
        let mut unsettled = Vec::new();
        let mut moved = Vec::new();
        let mut pass_results = Vec::new();
        for _ in 0..MOST_PASSES {
            let mut pass = Pass::new(self, &plan, &inputs, tree);
            pass.go(watch)?;
            let moved_before = !std::mem::replace(&mut moved, pass.moved).is_empty();
            unsettled = pass.changed;
            tree = pass.tree;
            pass_results = pass.results;
            let stopped = pass_results.iter().flatten().any(|(report, _)| report.answer() != Answer::Pass);
            let may_be_moved = moved.is_empty() || moved_before || self.rewritten.is_none();
            if stopped || unsettled.is_empty() && may_be_moved {
                break;
            }
        }
        Ok(GatesSeen { moved, ..self.seen(&tree, &inputs, pass_results, unsettled) })
    }

    fn seen(
        &self,
        tree: &Tree,
        inputs: &[Option<GlobSet>],
        results: Results,
        unsettled: Vec<String>,
    ) -> GatesSeen {
        let required = self.gates.iter().zip(inputs).filter(|(gate, _)| !gate.advisory);
        let required = required.map(|(gate, inputs)| (gate.clone(), part(tree, inputs.as_ref()))).collect();
        let (mut reports, mut receipts) = (Vec::new(), Vec::new());
        for (gate, result) in self.gates.iter().zip(results) {
            match result {
                Some((report, receipt)) => {
                    reports.push(report);
                    receipts.extend(receipt);
                }
                None if self.stop.asked() => reports.push(not_begun(gate)),
                None => {}
            }
        }
        let environment = self.environment.digest.clone();
        let moved = Vec::new();
        GatesSeen {
            reports,
            receipts,
            required,
            environment: Some(environment),
            tree: whole(tree),
            unsettled,
            moved,
        }
    }

    fn read_tree(&self) -> Result<Arc<Tree>, Trouble> {
        self.reader.read().map(Arc::new).map_err(|error| Trouble::Tree { why: error.to_string() })
    }

    /// The receipts for all required gates on the tree as it is, without running anything.
    pub(crate) fn receipts_at_hand(&self) -> Result<AtHand, Trouble> {
        let inputs: Vec<Option<GlobSet>> = self.gates.iter().map(input_globs).collect();
        let tree = self.read_tree()?;
        // Nothing that has to pass is nothing that was shown.
        if self.gates.iter().all(|gate| gate.advisory) {
            return Ok(AtHand::NotAll(tree));
        }
        let mut results: Results = vec![None; self.gates.len()];
        for (at, gate) in self.gates.iter().enumerate() {
            if let Some(receipt) = self.receipt(gate, &tree, inputs[at].as_ref()) {
                results[at] = Some((reused(gate, &receipt), Some(receipt)));
            } else if !gate.advisory {
                return Ok(AtHand::NotAll(tree));
            }
        }
        Ok(AtHand::All(self.seen(&tree, &inputs, results, Vec::new())))
    }

    /// Whether this fingerprint stands for all that a gate can see, now and when it is met again.
    fn binds(&self, tree: &Tree) -> bool {
        tree.unbound().is_none() && self.accepted_rules.as_ref().is_none_or(|rules| rules == tree.rules())
    }

    fn receipt(&self, gate: &Gate, tree: &Tree, inputs: Option<&GlobSet>) -> Option<Receipt> {
        if !self.binds(tree) {
            return None;
        }
        receipts::find(self.home, gate, &self.environment.digest, &part(tree, inputs))
    }
}

type Results = Vec<Option<(GateReport, Option<Receipt>)>>;

/// One way through the plan.
struct Pass<'a> {
    run: &'a Run<'a>,
    plan: &'a GatePlan,
    inputs: &'a [Option<GlobSet>],
    tree: Arc<Tree>,
    progress: Vec<PlanProgress>,
    /// Finished since the tree was last read.
    finished: Vec<(usize, Ran)>,
    running: usize,
    results: Results,
    changed: Vec<String>,
    /// Touched, and with the same content.
    moved: Vec<String>,
}

impl<'a> Pass<'a> {
    fn new(run: &'a Run<'a>, plan: &'a GatePlan, inputs: &'a [Option<GlobSet>], tree: Arc<Tree>) -> Self {
        let count = run.gates.len();
        Self {
            run,
            plan,
            inputs,
            tree,
            progress: vec![PlanProgress::Waiting; count],
            finished: Vec::new(),
            running: 0,
            results: vec![None; count],
            changed: Vec::new(),
            moved: Vec::new(),
        }
    }

    fn go(&mut self, watch: &mut dyn Watch) -> Result<(), Trouble> {
        let (sender, receiver) = mpsc::channel::<(usize, Ran)>();
        std::thread::scope(|scope| {
            loop {
                for at in self.plan.ready(&self.progress, self.run.keep_going) {
                    if self.running >= self.run.jobs.max(1) || self.run.stop.asked() {
                        break;
                    }
                    if self.take_receipt(at, watch) {
                        continue;
                    }
                    self.progress[at] = PlanProgress::Running;
                    self.running += 1;
                    let gate = &self.run.gates[at];
                    watch.started(gate);
                    let (own, run) = (sender.clone(), self.run);
                    let spawned = std::thread::Builder::new().spawn_scoped(scope, move || {
                        let ran = one_gate::run(gate, run);
                        // Nobody listens any more only when this pass gave up.
                        let _listener_gone = own.send((at, ran));
                    });
                    if spawned.is_err() {
                        // No room for a thread: here then. It will find the same and say so.
                        let _never_gone = sender.send((at, one_gate::run(gate, run)));
                    }
                }
                if self.running == 0 && self.finished.is_empty() {
                    // Receipts may have made more gates ready.
                    if self.plan.ready(&self.progress, self.run.keep_going).is_empty()
                        || self.run.stop.asked()
                    {
                        return Ok(());
                    }
                    continue;
                }
                self.wait_for_one(&receiver, watch);
                if self.running == 0 {
                    self.read_tree_again(watch)?;
                }
            }
        })
    }

    /// A pass at hand stands in for a run.
    fn take_receipt(&mut self, at: usize, watch: &mut dyn Watch) -> bool {
        // While others run the tree may be changing under us: a receipt is for the tree as it was last read.
        if self.run.fresh || self.running > 0 {
            return false;
        }
        let receipt_of =
            |at: usize| self.run.receipt(&self.run.gates[at], &self.tree, self.inputs[at].as_ref());
        let Some(receipt) = receipt_of(at) else { return false };
        // A gate may leave something outside the tree for those after it (a build for its tests): it stands still only
        // if they do too.
        let not_passed = |after: &usize| self.progress[*after] != PlanProgress::Passed;
        if self.plan.after(at).into_iter().filter(not_passed).any(|after| receipt_of(after).is_none()) {
            return false;
        }
        let report = reused(&self.run.gates[at], &receipt);
        watch.finished(&report, None, Findable::Never);
        self.progress[at] = PlanProgress::Passed;
        self.results[at] = Some((report, Some(receipt)));
        true
    }

    fn wait_for_one(&mut self, receiver: &mpsc::Receiver<(usize, Ran)>, watch: &mut dyn Watch) {
        let finished = loop {
            let Some(deadline) = self.run.deadline.filter(|_| !self.run.stop.asked()) else {
                break receiver.recv().ok();
            };
            match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(finished) => break Some(finished),
                Err(RecvTimeoutError::Timeout) => self.run.stop.ask(),
                Err(RecvTimeoutError::Disconnected) => break None,
            }
        };
        let Some((at, ran)) = finished else { return };
        self.running -= 1;
        watch.ended(&self.run.gates[at]);
        // An advisory gate never stands in anybody's way.
        let passed = ran.outcome == Outcome::Passed || self.run.gates[at].advisory;
        self.progress[at] = if passed { PlanProgress::Passed } else { PlanProgress::NotPassed };
        self.finished.push((at, ran));
    }

    /// Nothing runs: what is the tree now, and what does that make of the gates that finished?
    fn read_tree_again(&mut self, watch: &mut dyn Watch) -> Result<(), Trouble> {
        let now = self.run.read_tree()?;
        let changes = now.changes_since(&self.tree);
        let files: Vec<String> =
            changes.into_iter().take(MOST_NAMED).map(|change| shown(&change.path)).collect();
        if !files.is_empty() {
            watch.changed(&files);
        }
        self.note_moved(&now);
        for (at, ran) in std::mem::take(&mut self.finished) {
            let gate = &self.run.gates[at];
            let receipt =
                (ran.outcome == Outcome::Passed && files.is_empty()).then(|| self.witness(at, &ran));
            let report = report(gate, ran, files.clone());
            if report.outcome.answer() == Answer::Fail {
                let tree = part(&self.tree, self.inputs[at].as_ref());
                receipts::forget(self.run.home, gate, &self.run.environment.digest, &tree);
            }
            watch.finished(&report, receipt.as_ref(), self.findable(at));
            self.results[at] = Some((report, receipt));
        }
        for file in files {
            if !self.changed.contains(&file) {
                self.changed.push(file);
            }
        }
        self.tree = now;
        Ok(())
    }

    fn note_moved(&mut self, now: &Tree) {
        let expected = self.run.rewritten.unwrap_or_default();
        let is_new = |path: &str| {
            self.run.found.is_some_and(|found| now.has(path.as_ref()) && !found.has(path.as_ref()))
        };
        for path in now.moved_since(&self.tree).into_iter().filter(|path| !is_new(path)) {
            let path = shown(&path);
            if !expected.contains(&path) && !self.moved.contains(&path) && self.moved.len() < MOST_NAMED {
                self.moved.push(path);
            }
        }
    }

    /// A receipt is found again only if everything before the gate passed too, in this very pass, and the fingerprint
    /// binds it.
    fn findable(&self, at: usize) -> Findable {
        let whole = self.run.all_gates && self.moved.is_empty() && self.run.binds(&self.tree);
        let led_up_to =
            self.plan.before(at).iter().all(|before| self.progress[*before] == PlanProgress::Passed);
        if whole && led_up_to { Findable::Again } else { Findable::Never }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the gate runner: it saw the gate pass on this very tree"
    )]
    fn witness(&self, at: usize, ran: &Ran) -> Receipt {
        let seen = Witnessed {
            environment: self.run.environment.digest.clone(),
            tree: part(&self.tree, self.inputs[at].as_ref()),
            whole_tree: whole(&self.tree),
            at: clock::now(),
            took: ran.took,
            runs: ran.runs,
            log: ran.output.clone(),
        };
        Receipt::witness(&self.run.gates[at], seen)
    }
}

fn report(gate: &Gate, ran: Ran, changed: Vec<String>) -> GateReport {
    GateReport {
        gate: gate.name.clone(),
        run: gate.run.clone(),
        outcome: ran.outcome,
        advisory: gate.advisory,
        took: ran.took,
        runs: ran.runs,
        log: ran.log.map(|log| log.to_string_lossy().into_owned()),
        excerpt: ran.excerpt,
        results: ran.results,
        changed,
    }
}

fn reused(gate: &Gate, receipt: &Receipt) -> GateReport {
    GateReport { outcome: Outcome::Passed, took: receipt.took(), ..not_begun(gate) }
}

fn not_begun(gate: &Gate) -> GateReport {
    GateReport {
        gate: gate.name.clone(),
        run: gate.run.clone(),
        outcome: Outcome::DidNotFit,
        advisory: gate.advisory,
        took: Duration::ZERO,
        runs: 0,
        log: None,
        excerpt: String::new(),
        results: None,
        changed: Vec::new(),
    }
}

/// A file's name as it may be shown to anybody: it is whatever somebody called it.
fn shown(path: &str) -> String {
    const LONGEST: usize = 160;
    let plain = foreign_text::clean_for_agent(path.replace('\n', "␊").as_bytes(), &Secrets::default());
    if plain.chars().count() <= LONGEST {
        plain
    } else {
        plain.chars().take(LONGEST).chain(['…']).collect()
    }
}

fn whole(tree: &Tree) -> TreeHash {
    TreeHash::new(tree.hash())
}

/// The fingerprint of what a gate depends on. Inputs that match nothing would make every tree the same: the whole then.
fn part(tree: &Tree, inputs: Option<&GlobSet>) -> TreeHash {
    let narrowed = inputs.and_then(|inputs| tree.narrowed(inputs));
    narrowed.map_or_else(|| whole(tree), TreeHash::new)
}

fn input_globs(gate: &Gate) -> Option<GlobSet> {
    if gate.inputs.is_empty() {
        return None;
    }
    let mut globs = GlobSetBuilder::new();
    for input in &gate.inputs {
        globs.add(Glob::new(input).expect("the config was checked when it was read"));
    }
    globs.build().ok()
}

/// How many gates run at once where nobody says: those marked parallel are meant to run together.
pub(crate) fn default_jobs() -> usize {
    std::thread::available_parallelism().map_or(4, |cores| cores.get().max(4))
}

/// A digest of what a gate printed, for its receipt.
fn output_digest(head: &[u8], tail: &[u8], total: u64) -> Digest {
    Digest::of_parts([head, tail, &total.to_le_bytes()])
}

const GRACE: Duration = Duration::from_secs(2);

/// A gate that passed, for tests of what is written down.
#[cfg(test)]
pub(crate) fn tests_report() -> GateReport {
    GateReport {
        gate: ralph_core::model::id::GateName::new("test"),
        run: "true".into(),
        outcome: Outcome::Passed,
        advisory: false,
        took: Duration::ZERO,
        runs: 1,
        log: None,
        excerpt: String::new(),
        results: None,
        changed: Vec::new(),
    }
}
