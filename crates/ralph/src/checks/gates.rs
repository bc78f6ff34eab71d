//! Runs a set of gates on the current tree and collects the results. The only place where receipts are made.
//!
//! A run is one or more passes over the plan. In a pass, gates start as the plan allows; whenever none is running, the tree
//! is read again: a gate that passed while the tree stayed the same gets its receipt, and one that changed the tree is
//! named. A pass that changed the tree is followed by another on the new tree, at most twice. An existing receipt (same
//! definition, environment and tree) replaces a run only if the user asks for it; a failure is never reused.
//!
//! A file rewritten with equal content may have had other content while a gate read it: the gates are run once more, and if
//! it happens again the file is named.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use globset::{Glob, GlobSet, GlobSetBuilder};
use ralph_core::model::finding::GatesSeen;
use ralph_core::model::foreign_text;
use ralph_core::model::gate::plan::{GatePlan, PlanProgress};
use ralph_core::model::gate::receipt::{ObservedPass, Receipt};
use ralph_core::model::gate::{CheckResult, Gate, GateOutcome, GateReport};
use ralph_core::model::id::{Digest, TreeHash};
use ralph_core::model::secrets::Secrets;
use ralph_core::model::verdict::EvaluationError;

use crate::show::terminal::live::GateDisplay;
use crate::store::home::RepoHome;
use crate::sys::proc::StopRequest;
use crate::sys::{clock, trace};
use crate::work_tree::fingerprint::{IgnoreRules, Tree, TreeReader};

pub(crate) mod environment;
mod gates_lock;
mod one_gate;
pub(crate) mod receipts;
mod report_files;
pub(crate) mod viewed;

use environment::GateEnvironment;
pub(crate) use gates_lock::GatesLock;
use one_gate::{FinishedGate, GatePlace};

/// How often all gates are re-run because one of them changed the tree.
const MOST_PASSES: usize = 3;

/// The maximum number of file names in a report.
const MOST_NAMED: usize = 200;

/// The options of a run.
pub(crate) struct GateRunOptions<'a> {
    pub(crate) gates: &'a [Gate],
    pub(crate) home: &'a RepoHome,
    pub(crate) root: &'a std::path::Path,
    pub(crate) reader: &'a TreeReader<'a>,
    pub(crate) environment: &'a GateEnvironment,
    /// The prefix of its processes' marks, which identifies the run.
    pub(crate) mark: &'a str,
    /// Where complete outputs are stored.
    pub(crate) logs: PathBuf,
    /// How much of a gate's output is shown.
    pub(crate) excerpt: usize,
    /// The deadline for an answer.
    pub(crate) deadline: Option<Instant>,
    pub(crate) jobs: Option<usize>,
    pub(crate) keep_going: bool,
    /// Run everything, even with valid receipts.
    pub(crate) fresh: bool,
    pub(crate) stop: &'a StopRequest,
    /// The ignore rules that the user last accepted.
    pub(crate) accepted_rules: Option<IgnoreRules>,
    /// Whether these are all gates of the config: the others may be required for these to pass.
    pub(crate) all_gates: bool,
    /// Files that the user's own runs rewrite with equal content; `None`: all are recorded and nothing is re-run.
    pub(crate) rewritten: Option<&'a [String]>,
    /// The initial tree, if known: newer files belong to the agent and cannot hide anything.
    pub(crate) found: Option<&'a Tree>,
}

/// Whether a receipt may replace a later run on the same fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReceiptReuse {
    Again,
    /// The fingerprint does not cover everything that the gate could read.
    Never,
}

/// What existing receipts cover of a tree.
pub(crate) enum ReceiptCoverage {
    All(GatesSeen),
    /// Some gate has to run on this tree.
    NotAll(Arc<Tree>),
}

/// Is notified while gates run.
pub(crate) trait GateObserver {
    /// The tree that is judged first. No gate starts before this returns.
    fn tree(&mut self, _tree: &Arc<Tree>) {}
    fn started(&mut self, _gate: &Gate) {}
    /// The gate's process has ended; its result is known once the tree was read again.
    fn ended(&mut self, _gate: &Gate) {}
    /// Called once the tree after the gate is known, with the receipt if there is one.
    fn finished(&mut self, _report: &GateReport, _receipt: Option<&Receipt>, _findable: ReceiptReuse) {}
    fn changed(&mut self, _files: &[String]) {}
    /// Everything is gathered, whether or not a gate had to run: the verdict follows.
    fn gathered(&mut self) {}
}

impl GateObserver for GateDisplay {
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

impl GateRunOptions<'_> {
    /// Runs the gates without a receipt. A tree that was just read is not read again before the first gate.
    pub(crate) fn run(
        &self,
        just_read: Option<Arc<Tree>>,
        watch: &mut dyn GateObserver,
    ) -> Result<GatesSeen, EvaluationError> {
        let plan = GatePlan::new(self.gates).expect("validated by the config parser");
        let inputs: Vec<Option<GlobSet>> = self.gates.iter().map(input_globs).collect();
        let mut tree = just_read.map_or_else(|| self.read_tree(), Ok)?;
        trace::step(|| format!("read the tree: {} files", tree.len()));
        watch.tree(&tree);
        let mut unsettled = Vec::new();
        let mut moved = Vec::new();
        let mut pass_results = Vec::new();
        for _ in 0..MOST_PASSES {
            let mut pass = GatePass::new(self, &plan, &inputs, tree);
            pass.run(watch)?;
            let moved_before = !std::mem::replace(&mut moved, pass.moved).is_empty();
            unsettled = pass.changed;
            tree = pass.tree;
            pass_results = pass.results;
            let stopped =
                pass_results.iter().flatten().any(|(report, _)| report.answer() != CheckResult::Pass);
            let is_final = moved.is_empty() || moved_before || self.rewritten.is_none();
            if stopped || unsettled.is_empty() && is_final {
                break;
            }
        }
        Ok(GatesSeen { moved, ..self.seen(&tree, &inputs, pass_results, unsettled) })
    }

    fn place(&self) -> GatePlace<'_> {
        GatePlace {
            root: self.root,
            environment: self.environment,
            mark: self.mark,
            logs: &self.logs,
            excerpt: self.excerpt,
            stop: self.stop,
            view: None,
        }
    }

    fn seen(
        &self,
        tree: &Tree,
        inputs: &[Option<GlobSet>],
        results: Results,
        unsettled: Vec<String>,
    ) -> GatesSeen {
        let required = self.gates.iter().zip(inputs).filter(|(gate, _)| !gate.advisory);
        let required = required
            .map(|(gate, inputs)| (gate.clone(), inputs_fingerprint(tree, inputs.as_ref())))
            .collect();
        let (mut reports, mut receipts) = (Vec::new(), Vec::new());
        for (gate, result) in self.gates.iter().zip(results) {
            match result {
                Some((report, receipt)) => {
                    reports.push(report);
                    receipts.extend(receipt);
                }
                None if self.stop.is_requested() => reports.push(not_run_report(gate)),
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
            tree: tree_fingerprint(tree),
            unsettled,
            moved,
        }
    }

    fn read_tree(&self) -> Result<Arc<Tree>, EvaluationError> {
        self.reader.read().map(Arc::new).map_err(|error| EvaluationError::Tree { why: error.to_string() })
    }

    /// The receipts for all required gates on the current tree, without running anything.
    pub(crate) fn receipts_at_hand(&self) -> Result<ReceiptCoverage, EvaluationError> {
        let inputs: Vec<Option<GlobSet>> = self.gates.iter().map(input_globs).collect();
        let tree = self.read_tree()?;
        // Without a required gate, nothing is verified.
        if self.gates.iter().all(|gate| gate.advisory) {
            return Ok(ReceiptCoverage::NotAll(tree));
        }
        let mut results: Results = vec![None; self.gates.len()];
        for (at, gate) in self.gates.iter().enumerate() {
            if let Some(receipt) = self.receipt(gate, &tree, inputs[at].as_ref()) {
                results[at] = Some((reused_report(gate, &receipt), Some(receipt)));
            } else if !gate.advisory {
                return Ok(ReceiptCoverage::NotAll(tree));
            }
        }
        Ok(ReceiptCoverage::All(self.seen(&tree, &inputs, results, Vec::new())))
    }

    /// Whether this fingerprint covers everything a gate can read, now and later.
    fn covers_inputs(&self, tree: &Tree) -> bool {
        tree.unbound().is_none() && self.accepted_rules.as_ref().is_none_or(|rules| rules == tree.rules())
    }

    fn receipt(&self, gate: &Gate, tree: &Tree, inputs: Option<&GlobSet>) -> Option<Receipt> {
        if !self.covers_inputs(tree) {
            return None;
        }
        receipts::find(self.home, gate, &self.environment.digest, &inputs_fingerprint(tree, inputs))
    }
}

type Results = Vec<Option<(GateReport, Option<Receipt>)>>;

/// One pass through the plan.
struct GatePass<'a> {
    run: &'a GateRunOptions<'a>,
    plan: &'a GatePlan,
    inputs: &'a [Option<GlobSet>],
    tree: Arc<Tree>,
    progress: Vec<PlanProgress>,
    /// Finished since the tree was last read.
    finished: Vec<(usize, FinishedGate)>,
    running: usize,
    results: Results,
    changed: Vec<String>,
    /// Rewritten with equal content.
    moved: Vec<String>,
}

impl<'a> GatePass<'a> {
    fn new(
        run: &'a GateRunOptions<'a>,
        plan: &'a GatePlan,
        inputs: &'a [Option<GlobSet>],
        tree: Arc<Tree>,
    ) -> Self {
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

    fn run(&mut self, watch: &mut dyn GateObserver) -> Result<(), EvaluationError> {
        let (sender, receiver) = mpsc::channel::<(usize, FinishedGate)>();
        // Reading the number of cores reads files; a single gate does not need it.
        let jobs =
            if self.run.gates.len() == 1 { 1 } else { self.run.jobs.unwrap_or_else(default_jobs).max(1) };
        std::thread::scope(|scope| {
            loop {
                for at in self.plan.ready(&self.progress, self.run.keep_going) {
                    if self.running >= jobs || self.run.stop.is_requested() {
                        break;
                    }
                    if self.reuse_receipt(at, watch) {
                        continue;
                    }
                    self.progress[at] = PlanProgress::Running;
                    self.running += 1;
                    let gate = &self.run.gates[at];
                    watch.started(gate);
                    let (own, run) = (sender.clone(), self.run);
                    let spawned = std::thread::Builder::new().spawn_scoped(scope, move || {
                        let ran = one_gate::run(gate, &run.place());
                        // The receiver is gone only if this pass was aborted.
                        let _receiver_gone = own.send((at, ran));
                    });
                    if spawned.is_err() {
                        // No thread could be started: run here, which reports the same problem if it persists.
                        let _sent = sender.send((at, one_gate::run(gate, &run.place())));
                    }
                }
                if self.running == 0 && self.finished.is_empty() {
                    // Receipts may have made more gates ready.
                    if self.plan.ready(&self.progress, self.run.keep_going).is_empty()
                        || self.run.stop.is_requested()
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

    /// Uses an existing receipt instead of a run.
    fn reuse_receipt(&mut self, at: usize, watch: &mut dyn GateObserver) -> bool {
        // While other gates run the tree may change: a receipt is for the tree as last read.
        if self.run.fresh || self.running > 0 {
            return false;
        }
        let receipt_of =
            |at: usize| self.run.receipt(&self.run.gates[at], &self.tree, self.inputs[at].as_ref());
        let Some(receipt) = receipt_of(at) else { return false };
        // A gate may leave files outside the tree for later gates (a build for its tests), so its receipt counts only if
        // theirs do too.
        let not_passed = |after: &usize| self.progress[*after] != PlanProgress::Passed;
        if self.plan.after(at).into_iter().filter(not_passed).any(|after| receipt_of(after).is_none()) {
            return false;
        }
        let report = reused_report(&self.run.gates[at], &receipt);
        watch.finished(&report, None, ReceiptReuse::Never);
        self.progress[at] = PlanProgress::Passed;
        self.results[at] = Some((report, Some(receipt)));
        true
    }

    fn wait_for_one(
        &mut self,
        receiver: &mpsc::Receiver<(usize, FinishedGate)>,
        watch: &mut dyn GateObserver,
    ) {
        let finished = loop {
            let Some(deadline) = self.run.deadline.filter(|_| !self.run.stop.is_requested()) else {
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
        trace::step(|| format!("ran the gate `{}`: {}", self.run.gates[at].name, ran.outcome.word()));
        // An advisory gate never blocks.
        let passed = ran.outcome == GateOutcome::Passed || self.run.gates[at].advisory;
        self.progress[at] = if passed { PlanProgress::Passed } else { PlanProgress::NotPassed };
        self.finished.push((at, ran));
    }

    /// With no gate running, reads the tree and evaluates the finished gates.
    fn read_tree_again(&mut self, watch: &mut dyn GateObserver) -> Result<(), EvaluationError> {
        let now = self.run.read_tree()?;
        let changes = now.changes_since(&self.tree);
        let files: Vec<String> =
            changes.into_iter().take(MOST_NAMED).map(|change| printable_path(&change.path)).collect();
        trace::step(|| format!("read the tree again: {} files changed", files.len()));
        if !files.is_empty() {
            watch.changed(&files);
        }
        self.record_rewritten(&now);
        for (at, ran) in std::mem::take(&mut self.finished) {
            let gate = &self.run.gates[at];
            let receipt =
                (ran.outcome == GateOutcome::Passed && files.is_empty()).then(|| self.make_receipt(at, &ran));
            let report = report(gate, ran, files.clone());
            if report.outcome.answer() == CheckResult::Fail {
                let tree = inputs_fingerprint(&self.tree, self.inputs[at].as_ref());
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

    fn record_rewritten(&mut self, now: &Tree) {
        let expected = self.run.rewritten.unwrap_or_default();
        let is_new = |path: &str| {
            self.run.found.is_some_and(|found| now.has(path.as_ref()) && !found.has(path.as_ref()))
        };
        for path in now.moved_since(&self.tree).into_iter().filter(|path| !is_new(path)) {
            let path = printable_path(&path);
            if !expected.contains(&path) && !self.moved.contains(&path) && self.moved.len() < MOST_NAMED {
                self.moved.push(path);
            }
        }
    }

    /// A receipt is reusable only if every earlier gate also passed in this pass and the fingerprint covers the tree.
    fn findable(&self, at: usize) -> ReceiptReuse {
        let whole = self.run.all_gates && self.moved.is_empty() && self.run.covers_inputs(&self.tree);
        let earlier_passed =
            self.plan.before(at).iter().all(|before| self.progress[*before] == PlanProgress::Passed);
        if whole && earlier_passed { ReceiptReuse::Again } else { ReceiptReuse::Never }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the gate runner has just observed the gate pass on this tree"
    )]
    fn make_receipt(&self, at: usize, ran: &FinishedGate) -> Receipt {
        let seen = ObservedPass {
            environment: self.run.environment.digest.clone(),
            tree: inputs_fingerprint(&self.tree, self.inputs[at].as_ref()),
            whole_tree: tree_fingerprint(&self.tree),
            at: clock::now(),
            took: ran.took,
            runs: ran.runs,
            log: ran.output.clone(),
        };
        Receipt::witness(&self.run.gates[at], seen)
    }
}

fn report(gate: &Gate, ran: FinishedGate, changed: Vec<String>) -> GateReport {
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

fn reused_report(gate: &Gate, receipt: &Receipt) -> GateReport {
    GateReport { outcome: GateOutcome::Passed, took: receipt.took(), ..not_run_report(gate) }
}

fn not_run_report(gate: &Gate) -> GateReport {
    GateReport {
        gate: gate.name.clone(),
        run: gate.run.clone(),
        outcome: GateOutcome::DeadlineReached,
        advisory: gate.advisory,
        took: Duration::ZERO,
        runs: 0,
        log: None,
        excerpt: String::new(),
        results: None,
        changed: Vec::new(),
    }
}

/// A file name, made safe to print.
fn printable_path(path: &str) -> String {
    const LONGEST: usize = 160;
    let plain = foreign_text::clean_for_agent(path.replace('\n', "␊").as_bytes(), &Secrets::default());
    if plain.chars().count() <= LONGEST {
        plain
    } else {
        plain.chars().take(LONGEST).chain(['…']).collect()
    }
}

fn tree_fingerprint(tree: &Tree) -> TreeHash {
    TreeHash::new(tree.hash())
}

/// The fingerprint of a gate's inputs. Inputs that match nothing would make all trees equal, so the whole tree is used
/// then.
fn inputs_fingerprint(tree: &Tree, inputs: Option<&GlobSet>) -> TreeHash {
    let narrowed = inputs.and_then(|inputs| tree.narrowed(inputs));
    narrowed.map_or_else(|| tree_fingerprint(tree), TreeHash::new)
}

fn input_globs(gate: &Gate) -> Option<GlobSet> {
    if gate.inputs.is_empty() {
        return None;
    }
    let mut globs = GlobSetBuilder::new();
    for input in &gate.inputs {
        globs.add(Glob::new(input).expect("validated by the config parser"));
    }
    globs.build().ok()
}

/// How many gates run at once by default: those marked parallel are meant to run together.
fn default_jobs() -> usize {
    std::thread::available_parallelism().map_or(4, |cores| cores.get().max(4))
}

/// A digest of a gate's output, for its receipt.
fn output_digest(head: &[u8], tail: &[u8], total: u64) -> Digest {
    Digest::of_parts([head, tail, &total.to_le_bytes()])
}

const GRACE: Duration = Duration::from_secs(2);

/// A passed gate, for tests.
#[cfg(test)]
pub(crate) fn passed_report_for_tests() -> GateReport {
    GateReport {
        gate: ralph_core::model::id::GateName::new("test"),
        run: "true".into(),
        outcome: GateOutcome::Passed,
        advisory: false,
        took: Duration::ZERO,
        runs: 1,
        log: None,
        excerpt: String::new(),
        results: None,
        changed: Vec::new(),
    }
}
