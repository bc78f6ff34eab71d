//! The one engine behind every hook and command: gather, decide, record, act.
//!
//! A stop takes one or two steps of [`decide`]. State changes only under the repo's lock, which is held briefly; gates run
//! outside it, one set at a time per repo.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use ralph_core::claims::honest_exit::AgentAnswers;
use ralph_core::ledger::decide::{Decision, decide};
use ralph_core::ledger::event::{Event, Subject};
use ralph_core::ledger::facts::{ExportSeen, Facts, SessionStop};
use ralph_core::ledger::state::{State, Status};
use ralph_core::model::evidence::{self, Evidence, EvidenceFacts, RequiredProof};
use ralph_core::model::finding::{Finding, GatesSeen, ShipOutcome};
use ralph_core::model::gate::receipt::Receipt;
use ralph_core::model::gate::{self, CheckResult, Gate, GateReport};
use ralph_core::model::id::{GateName, LoopId, SessionId, TreeHash};
use ralph_core::model::language::Lang;
use ralph_core::model::limits::Limits;
use ralph_core::model::preset::{Check, Preset};
use ralph_core::model::ship::{AuditRule, ShipAction};
use ralph_core::model::verdict::EvaluationError;
use ralph_core::say::words;

use crate::checks::gates::environment::GateEnvironment;
use crate::checks::gates::{
    GateObserver, GateRunOptions, GatesLock, ReceiptCoverage, ReceiptReuse, receipts,
};
use crate::checks::ship::Shipping;
use crate::checks::undo::{self, UndoRequest};
use crate::checks::{gates_on_views, hygiene, markers, promise, quality_files, tasks};
use crate::loops::evidence::{StartOfWork, not_judged};
use crate::loops::report;
use crate::store::effective_gates::EffectiveGates;
use crate::store::exports::loop_file::LoopFileOnDisk;
use crate::store::exports::state_file::Export;
use crate::store::ledger::{self, Ledger, LedgerError, Loop};
use crate::store::repo::Repo;
use crate::store::rewritten_files;
use crate::store::start_contents::StartContents;
use crate::store::workspace::Workspace;
use crate::sys::files::{self, Lock};
use crate::sys::signals::Signals;
use crate::sys::{clock, proc, trace};
use crate::work_tree::fingerprint::{GitUse, IgnoreRules, Tree, TreeMemory, TreeReader};

/// One subject's loop in one repo, with everything known before the checks run.
pub(crate) struct JudgeCase<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) effective: &'a EffectiveGates,
    pub(crate) loop_id: LoopId,
    /// The recorded loop.
    pub(crate) ledger: Arc<Loop>,
    pub(crate) subject: Subject,
    pub(crate) session: Option<SessionId>,
    /// When that session began, if known.
    pub(crate) session_began: Option<Timestamp>,
    pub(crate) task: Option<String>,
    pub(crate) preset: &'static Preset,
    pub(crate) limits: Limits,
    /// Only some of the gates are run, so the result is not a receipt.
    pub(crate) is_part: bool,
    /// Asked for by the user: earlier receipts may be reused, and new ones are kept.
    pub(crate) uses_receipts: bool,
    /// The completion markers required if there is no gate.
    pub(crate) markers: Vec<String>,
    /// The commit the tree is based on, if the driver read it.
    pub(crate) head: Option<String>,
    /// What the session says and shows, if the session itself stops.
    pub(crate) session_stop: Option<SessionStop>,
    /// The commit since which added lines are inspected, if requested; `None` means the last one.
    pub(crate) since: Option<String>,
    /// Files that the user's own runs rewrote with equal content, if it is known since when they count.
    pub(crate) rewritten: Option<Vec<String>>,
    /// What this process has read of the tree so far.
    pub(crate) tree_memory: Arc<TreeMemory>,
    /// The tree before the driver's first agent run.
    pub(crate) found: Option<Arc<Tree>>,
    /// The way to the goal beyond the gates, if the loop has one.
    pub(crate) shipping: Option<Result<Shipping, EvaluationError>>,
    /// What this process saw of the gates at its last look, for the same files: a poll runs no gate.
    pub(crate) kept_gates: Option<GatesSeen>,
    /// What showed the task then.
    pub(crate) kept_evidence: Option<EvidenceFacts>,
    /// Where the work began.
    pub(crate) start: StartOfWork,
    /// The proof that was asked for.
    pub(crate) proof: Option<RequiredProof>,
    /// What the agent's last message answers, if it was read before.
    pub(crate) answers: Option<AgentAnswers>,
}

/// What was found, and whether the gates ran for it.
struct GatheredFindings {
    findings: Vec<Finding>,
    gates_ran: bool,
}

/// The most steps beyond the gates in one judgement: a switch, commit, push, pull request and merge are five.
const MOST_ACTIONS: u32 = 12;

/// How to run the checks this time.
pub(crate) struct JudgeOptions<'a> {
    pub(crate) arrived: Timestamp,
    pub(crate) deadline: Option<Instant>,
    pub(crate) last_message: &'a str,
    pub(crate) jobs: Option<usize>,
    pub(crate) keep_going: bool,
    pub(crate) fresh: bool,
    /// Receives signals and cancellation by the user; without it, cancellation is watched for while gates run.
    pub(crate) signals: Option<&'a Signals>,
}

impl JudgeOptions<'_> {
    /// Runs everything to the end, without a deadline.
    pub(crate) fn without_deadline() -> JudgeOptions<'static> {
        JudgeOptions {
            arrived: clock::now(),
            deadline: None,
            last_message: "",
            jobs: None,
            keep_going: true,
            fresh: true,
            signals: None,
        }
    }
}

/// Where the results of a run of the gates are written as they arrive.
#[derive(Clone, Copy)]
enum Recording {
    Ledger,
    /// The caller records them itself.
    Nowhere,
}

/// The judgement, with everything needed to report it.
pub(crate) struct Judged {
    pub(crate) decision: Decision,
    pub(crate) facts: Facts,
    /// The state before this judgement.
    pub(crate) before: State,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum EngineError {
    #[error("cannot write the loop's state: {0}")]
    Ledger(#[from] LedgerError),
    #[error("cannot write the loop's state: {0}")]
    Io(#[from] io::Error),
    #[error("interrupted by signal {0}")]
    Interrupted(i32),
    #[error("the loop was paused or cancelled while its gates ran")]
    Freed,
}

impl<'a> JudgeCase<'a> {
    pub(crate) fn new(
        workspace: &'a Workspace,
        effective: &'a EffectiveGates,
        loop_id: LoopId,
        subject: Subject,
        preset: &'static Preset,
    ) -> Self {
        Self {
            ledger: workspace.loop_of(&loop_id),
            limits: workspace.settings().limits(effective.layout, &effective.config.budget),
            workspace,
            effective,
            loop_id,
            subject,
            preset,
            session: None,
            session_began: None,
            task: None,
            is_part: false,
            uses_receipts: false,
            markers: Vec::new(),
            head: None,
            session_stop: None,
            since: None,
            rewritten: None,
            tree_memory: Arc::default(),
            found: None,
            shipping: None,
            kept_gates: None,
            kept_evidence: None,
            start: StartOfWork::default(),
            proof: None,
            answers: None,
        }
    }
}

impl JudgeCase<'_> {
    /// Judges a stop or a `ralph verify`: the same steps. Gates that pass on files that failed before are run twice.
    pub(crate) fn judge(
        &self,
        options: &JudgeOptions<'_>,
        watch: &mut dyn GateObserver,
    ) -> Result<Judged, EngineError> {
        self.workspace.repo_home.create()?;
        let gates = &self.effective.config.gates;
        trace::step(|| format!("found the repo and its effective gates: {}", gates.len()));
        let mut facts = self.facts(options)?;
        let mut kept = self.kept_gates.clone();
        let kept_tree = kept.as_ref().map(|seen| seen.tree.clone());
        let mut evidence = self.kept_evidence.clone().zip(kept_tree);
        let mut actions = 0;
        loop {
            let (before, decision) = self.step(&mut facts)?;
            trace::step(|| format!("decided: {}", decision.word()));
            match &decision {
                Decision::Prove => {
                    let seen = self.gather_evidence(options, &facts, &before)?;
                    evidence = facts.gates().map(|gates| (seen.clone(), gates.tree.clone()));
                    facts.findings.get_or_insert_default().push(Finding::Proof(seen));
                    facts.now = clock::now();
                    continue;
                }
                Decision::Gather => {
                    facts.is_second_look = facts.findings.is_some() && facts.gates_ran_now;
                    kept = kept.filter(|_| facts.findings.is_none());
                }
                Decision::Act(action) if actions < MOST_ACTIONS => {
                    actions += 1;
                    self.act(action, &facts)?;
                    kept = facts.gates().cloned();
                }
                // A hook that changes the files at every commit, for example.
                Decision::Act(_) => {
                    let what = format!("{MOST_ACTIONS} steps in one judgement led to no end");
                    let next = "look at `git status` and the hooks of git".to_owned();
                    let trouble = EvaluationError::Forge { what, next };
                    facts.findings = Some(vec![Finding::NotEvaluated { check: Check::PullRequest, trouble }]);
                    let (before, decision) = self.step(&mut facts)?;
                    return Ok(Judged { decision, facts, before });
                }
                _ => return Ok(Judged { decision, facts, before }),
            }
            let (gathered, at_start) = self.gather_past_excused(options, watch, kept.take())?;
            facts.gates_ran_now |= gathered.gates_ran;
            facts.findings = Some(gathered.findings);
            facts.at_start = at_start;
            // The same files show the same.
            if let Some((seen, tree)) = &evidence
                && facts.gates().is_some_and(|gates| gates.tree == *tree)
            {
                facts.findings.get_or_insert_default().push(Finding::Proof(seen.clone()));
            }
            facts.failed_elsewhere = self.trees_failed_in_other_loops(&facts);
            watch.gathered();
            facts.now = clock::now();
        }
    }

    /// The trees on which other loops of this session failed, if that matters.
    fn trees_failed_in_other_loops(&self, facts: &Facts) -> Vec<TreeHash> {
        /// How many loops are read, most recently active first.
        const MOST_LOOKED_AT: usize = 20;
        let passes = facts.gates().is_some_and(|seen| seen.answer() == CheckResult::Pass);
        let Some(session) = self.session.as_ref().filter(|_| passes) else { return Vec::new() };
        let others = self
            .workspace
            .repo_home
            .loops()
            .into_iter()
            .filter(|id| *id != self.loop_id)
            .take(MOST_LOOKED_AT);
        let loops = others.map(|id| self.workspace.loop_of(&id));
        let of_session = loops.filter(|other| other.mentions(session.as_str().as_bytes()));
        let states = of_session.filter_map(|other| other.state().ok());
        // Failures of other gates do not count for these.
        let same_gates = |state: &State| state.definition == self.effective.sha256;
        let of_session = |state: &State| state.session.as_ref() == Some(session) && same_gates(state);
        states.filter(of_session).flat_map(|state| state.failed_trees).collect()
    }

    /// Runs the checks and returns what would be decided, without recording a verdict: for some of the gates, or to see
    /// whether they work.
    pub(crate) fn run_without_verdict(
        &self,
        options: &JudgeOptions<'_>,
        watch: &mut dyn GateObserver,
    ) -> Result<Judged, EngineError> {
        self.workspace.repo_home.create()?;
        let mut facts = self.facts(options)?;
        // Proof is looked for at a verdict.
        facts.checks.retain(|check| *check != Check::Proof);
        facts.findings = Some(self.gather(options, watch, None)?.findings);
        facts.gates_ran_now = true;
        let gates = self.effective.config.gates.iter().map(|gate| gate.name.clone()).collect();
        self.append(&[Event::RanWithoutVerdict { gates }])?;
        let before = State::default();
        Ok(Judged { decision: decide(&before, &facts).decision, facts, before })
    }

    fn facts(&self, options: &JudgeOptions<'_>) -> Result<Facts, EngineError> {
        let export = self.settle_export()?;
        Ok(Facts {
            arrived: options.arrived,
            now: options.arrived,
            subject: self.subject.clone(),
            session: self.session.clone(),
            task: self.task.clone(),
            layout: self.effective.layout,
            preset: self.preset,
            limits: self.limits.clone(),
            definition: self.effective.sha256.clone(),
            definition_status: self.effective.definition_status.clone(),
            checks: self.checks(),
            export,
            head: self.head.clone(),
            session_stop: self.session_stop.clone(),
            process: ledger::own_pid(),
            rewritten: self.rewritten(options)?,
            failed_elsewhere: Vec::new(),
            findings: None,
            is_second_look: false,
            gates_ran_now: false,
            at_start: Vec::new(),
            proof: self.proof,
            answers: self.answers(options)?,
        })
    }

    /// What the agent's last message answers; `ralph blocked` says the same.
    fn answers(&self, options: &JudgeOptions<'_>) -> Result<AgentAnswers, EngineError> {
        let said = self.answers.clone().unwrap_or_else(|| AgentAnswers::of(options.last_message));
        let blocked = said.blocked.or(self.ledger.state()?.blocked_because);
        Ok(AgentAnswers { blocked, ..said })
    }

    /// The files that the user's own runs rewrote with equal content before the loop or its session began; fixed for the
    /// whole loop.
    fn rewritten(&self, options: &JudgeOptions<'_>) -> Result<Vec<String>, EngineError> {
        let state = self.ledger.state()?;
        if state.goal.is_some() || state.is_running() {
            return Ok(state.rewritten);
        }
        if let Some(rewritten) = &self.rewritten {
            return Ok(rewritten.clone());
        }
        Ok(rewritten_files::before(&self.workspace.repo_home, self.session_began.unwrap_or(options.arrived)))
    }

    fn settle_export(&self) -> Result<ExportSeen, EngineError> {
        if !self.exports_state() {
            return Ok(ExportSeen::default());
        }
        let _lock = self.lock()?;
        let export = self.export();
        Ok(export.settle(export.inspect())?)
    }

    /// Whether the state file in the repo belongs to this loop: `ralph verify` leaves it alone.
    fn exports_state(&self) -> bool {
        matches!(self.subject, Subject::SubAgent { .. }) && self.effective.layout.data().export.is_some()
    }

    /// The preset's checks that apply to this repo and this stop, in order.
    pub(crate) fn checks(&self) -> Vec<Check> {
        let config = &self.effective.config;
        let has_gates = self.effective.has_gates();
        let applies = |check: &Check| match check {
            Check::Gates => has_gates,
            Check::Promise | Check::TaskList => has_gates || self.preset.claims_alone,
            Check::PromiseWithoutGates => !has_gates,
            Check::MarkersWithoutGates => config.enabled && !has_gates && !self.markers.is_empty(),
            Check::Hygiene => config.enabled,
            Check::Audit | Check::EvidenceFile | Check::GateFile => self.requires_claim_file(*check),
            Check::PullRequest | Check::Ci | Check::Merge => self.shipping.is_some(),
            Check::Proof => has_gates && self.subject != Subject::Plain,
        };
        self.preset.done_when.iter().copied().filter(applies).collect()
    }

    /// Whether a claim file is required: the repo asks for it, it exists already, or the loop's promise is about it. One
    /// that our own gates write says nothing more than they do.
    fn requires_claim_file(&self, check: Check) -> bool {
        let Some(Ok(shipping)) = &self.shipping else { return false };
        let Some(file) = quality_files::file_of(check) else { return false };
        let writes =
            |gate: &Gate| gate.writes.iter().any(|written| written == file) || gate.run.contains("qa:gate");
        if check == Check::GateFile && self.effective.config.gates.iter().any(writes) {
            return false;
        }
        let plan = shipping.plan();
        let is_asked_for = check == Check::Audit && plan.settings.audit == AuditRule::Required;
        plan.by_promise || is_asked_for || self.workspace.repo.root.join(file).exists()
    }

    /// Does one step beyond the gates and records it.
    fn act(&self, action: &ShipAction, facts: &Facts) -> Result<(), EngineError> {
        let Some(Ok(shipping)) = &self.shipping else { return Ok(()) };
        let evidence = facts.evidence().map(|seen| {
            words::evidence(&evidence::evaluate(seen, self.proof.unwrap_or(RequiredProof::Test)), Lang::En)
        });
        let events = shipping.act(action, evidence.as_deref());
        trace::step(|| format!("acted: {action:?}"));
        if events.is_empty() { Ok(()) } else { self.append(&events) }
    }

    /// The result of a step beyond the gates; news from the forge are recorded.
    fn look_at_forge(&self, check: Check) -> Result<Finding, EngineError> {
        let outcome = match &self.shipping {
            Some(Ok(shipping)) => {
                let outcome = shipping.look(check, &self.ledger.state()?.ship);
                let news = shipping.news(&self.ledger.state()?.ship);
                if !news.is_empty() {
                    self.append(&news)?;
                }
                outcome
            }
            Some(Err(trouble)) => ShipOutcome::CannotTell(trouble.clone()),
            None => ShipOutcome::Passed,
        };
        Ok(Finding::Ship { check, outcome })
    }

    fn look_at_claim_file(&self, check: Check) -> Result<Finding, EngineError> {
        let Some(tree) = self.current_tree()? else {
            let trouble = EvaluationError::Tree { why: "it changes while it is read".into() };
            return Ok(Finding::NotEvaluated { check, trouble });
        };
        let state = self.ledger.state()?;
        let (outcome, bound) = quality_files::check(check, &self.workspace.repo.root, &state.ship, &tree);
        if let Some(bound) = bound {
            self.append(&[bound])?;
        }
        Ok(Finding::Ship { check, outcome })
    }

    /// The fingerprint of the files now, as the gates would see it.
    fn current_tree(&self) -> Result<Option<TreeHash>, EngineError> {
        let pinned = match &self.found {
            Some(found) => Some(found.rules().clone()),
            None => self.pinned_rules()?,
        };
        let export = self.export();
        let mut reader = tree_reader(self.workspace, Some(self.effective))
            .own_files(|| export.own_file().into_iter().collect())
            .remembering(&self.tree_memory);
        if let Some(rules) = &pinned {
            reader = reader.pinned_rules(rules);
        }
        Ok(reader.read().ok().map(|tree| TreeHash::new(tree.hash())))
    }

    /// One transition under the lock: fold, decide, record, and export to the repo.
    fn step(&self, facts: &mut Facts) -> Result<(State, Decision), EngineError> {
        if facts.checks.is_empty() {
            return Ok((State::default(), decide(&State::default(), facts).decision));
        }
        let mut ledger = self.ledger.open(facts.now)?;
        let before = ledger.state().clone();
        let step = decide(&before, facts);
        if !step.events.is_empty() {
            ledger.append(facts.now, &step.events)?;
            if !matches!(step.decision, Decision::Gather | Decision::Prove) {
                ledger.sweep();
            }
        }
        self.export_decision(&step.decision, &ledger);
        // The export's content has been processed.
        facts.export = ExportSeen { deletions: ledger.state().deletions_seen, ..ExportSeen::default() };
        Ok((before, step.decision))
    }

    /// The ledger counts even if it cannot be exported: making the folder read-only does not release an agent.
    fn export_decision(&self, decision: &Decision, ledger: &Ledger<'_>) {
        if matches!(decision, Decision::Allow { .. }) {
            ledger.sync();
            let _may_be_missing = std::fs::remove_file(self.rules_file());
        }
        let _best_effort = match decision {
            _ if !self.exports_state() => Ok(()),
            Decision::Block { .. } if ledger.state().attempts > 0 => self.export().write(ledger.state()),
            Decision::Allow { .. } => self.export().remove(),
            Decision::Gather
            | Decision::Act(_)
            | Decision::Prove
            | Decision::Block { .. }
            | Decision::Wait { .. }
            | Decision::Ignore(_) => Ok(()),
        };
    }

    /// Runs the checks in order. Gates are slow, so they are skipped if another check already blocks.
    fn gather(
        &self,
        options: &JudgeOptions<'_>,
        watch: &mut dyn GateObserver,
        kept: Option<GatesSeen>,
    ) -> Result<GatheredFindings, EngineError> {
        if let Some(trouble) = self.evaluation_error() {
            let findings = vec![Finding::NotEvaluated { check: Check::Gates, trouble }];
            return Ok(GatheredFindings { findings, gates_ran: false });
        }
        if let Some(Ok(shipping)) = &self.shipping {
            shipping.look_again();
        }
        let mut findings: Vec<Finding> = Vec::new();
        let mut gates_ran = false;
        for check in self.checks() {
            let is_stopped = findings.iter().any(|finding| finding.answer() != CheckResult::Pass);
            findings.extend(match check {
                Check::Proof => None, // Looked at when the decision asks for it.
                Check::Gates | Check::PullRequest | Check::Ci | Check::Merge if is_stopped => None,
                Check::PullRequest | Check::Ci | Check::Merge => Some(self.look_at_forge(check)?),
                Check::Audit | Check::EvidenceFile | Check::GateFile => Some(self.look_at_claim_file(check)?),
                Check::Gates if self.are_about_these_files(kept.as_ref())? => {
                    kept.clone().map(Finding::Gates)
                }
                Check::Gates => {
                    gates_ran = true;
                    let mut found =
                        self.run_gates(&self.effective.config.gates, options, watch, Recording::Ledger)?;
                    if let Finding::Gates(seen) = &mut found {
                        seen.excuse(&self.start.baseline);
                    }
                    Some(found)
                }
                Check::TaskList => self.session_stop.as_ref().and_then(tasks::check),
                Check::Promise | Check::PromiseWithoutGates => {
                    self.session_stop.as_ref().and_then(promise::check)
                }
                Check::MarkersWithoutGates => Some(markers::check(&self.markers, options.last_message)),
                Check::Hygiene => Some(hygiene::check(
                    &self.workspace.repo.root,
                    self.workspace.repo_home.dir(),
                    self.since.as_deref(),
                )),
            });
        }
        Ok(GatheredFindings { findings, gates_ran })
    }

    /// Whether gates that ran before in this process passed on the files as they are now.
    fn are_about_these_files(&self, kept: Option<&GatesSeen>) -> Result<bool, EngineError> {
        let Some(kept) = kept.filter(|kept| kept.answer() == CheckResult::Pass) else { return Ok(false) };
        Ok(self.current_tree()?.as_ref() == Some(&kept.tree))
    }

    /// Runs the checks. In a guarded session or sub-agent a gate that failed at the start, too, never stops the others.
    fn gather_past_excused(
        &self,
        options: &JudgeOptions<'_>,
        watch: &mut dyn GateObserver,
        kept: Option<GatesSeen>,
    ) -> Result<(GatheredFindings, Vec<GateReport>), EngineError> {
        let gathered = self.gather(options, watch, kept)?;
        let at_start = self.failing_at_start(&gathered.findings, options)?;
        let is_excused = |report: &GateReport| at_start.iter().any(|start| report.fails_as_at_start(start));
        let failing = |findings: &[Finding]| -> Vec<GateReport> {
            let reports = findings.iter().filter_map(Finding::gates).flat_map(|seen| &seen.reports);
            reports.filter(|report| report.answer() == CheckResult::Fail).cloned().collect()
        };
        let red = failing(&gathered.findings);
        if options.keep_going || red.is_empty() || !red.iter().all(is_excused) {
            return Ok((gathered, at_start));
        }
        let gathered = self.gather(&JudgeOptions { keep_going: true, ..*options }, watch, None)?;
        let others: Vec<GateName> =
            failing(&gathered.findings).into_iter().map(|report| report.gate).collect();
        let known = others.iter().all(|gate| at_start.iter().any(|start| start.gate == *gate));
        let at_start = if known { at_start } else { self.failing_at_start(&gathered.findings, options)? };
        Ok((gathered, at_start))
    }

    /// The failing gates on the start's contents, seen by this process now: for a guarded session or sub-agent, which is not
    /// blocked by what failed before. Nothing where that cannot be run: unknown blocks.
    fn failing_at_start(
        &self,
        findings: &[Finding],
        options: &JudgeOptions<'_>,
    ) -> Result<Vec<GateReport>, EngineError> {
        let has_goal = self.ledger.state()?.goal.is_some();
        let is_guarded = !has_goal && !matches!(self.subject, Subject::Plain | Subject::Driver);
        let as_found = self.session_stop.as_ref().is_some_and(|stop| stop.as_found);
        let seen = findings.iter().find_map(Finding::gates);
        let (Some(seen), Some(start), true) = (seen, &self.start.contents, is_guarded && !as_found) else {
            return Ok(Vec::new());
        };
        let readable =
            |report: &&GateReport| report.answer() == CheckResult::Fail && !report.failing().is_empty();
        let failing = || seen.reports.iter().filter(|report| report.answer() == CheckResult::Fail);
        let gates: Vec<GateName> = failing().filter(readable).map(|report| report.gate.clone()).collect();
        // One that cannot be read blocks anyway.
        if gates.is_empty() || gates.len() < failing().count() {
            return Ok(Vec::new());
        }
        let Some(tree) = self.tree_as_judged(seen)? else { return Ok(Vec::new()) };
        let ran = self.on_view(options, (start, &tree), (&gates, &seen.reports), undo::run_on_start)?;
        Ok(ran.unwrap_or_else(|why| {
            trace::step(|| format!("the gates could not be run on the start's files: {why}"));
            Vec::new()
        }))
    }

    /// What shows the task of a loop, for gates that this process has run without a verdict.
    pub(crate) fn evidence_for(
        &self,
        options: &JudgeOptions<'_>,
        facts: &Facts,
        state: &State,
    ) -> Result<Evidence, EngineError> {
        let seen = self.gather_evidence(options, facts, state)?;
        Ok(evidence::evaluate(&seen, self.proof.unwrap_or(RequiredProof::Test)))
    }

    /// What shows the task, for a tree on which everything passed.
    fn gather_evidence(
        &self,
        options: &JudgeOptions<'_>,
        facts: &Facts,
        before: &State,
    ) -> Result<EvidenceFacts, EngineError> {
        let seen = facts.gates().expect("proof is looked for after the gates passed");
        let no_test = facts.answers.no_test.clone();
        let has_task = before.goal.is_some() || self.subject == Subject::Driver || self.proof.is_some();
        // Without a task and a stored start there is nothing to compare: the tree is not read again.
        if !has_task && self.start.contents.is_none() {
            return Ok(EvidenceFacts { no_test, ..EvidenceFacts::default() });
        }
        let Some(tree) = self.tree_as_judged(seen)? else {
            let undo = Some(not_judged("the files changed after the gates ran"));
            return Ok(EvidenceFacts { undo, no_test, ..EvidenceFacts::default() });
        };
        let roles = gates_on_views::protected_files(&self.workspace.repo.root, &self.effective.config.gates);
        let evidence = EvidenceFacts { no_test, ..self.start.compare(&tree, seen, &roles) };
        // Of a guarded agent that was never blocked only changed tests and settings are looked at.
        let is_protected_changed =
            evidence.changes.is_some_and(|changes| changes.tests + changes.settings > 0);
        let is_looked_for = has_task || !before.failed_trees.is_empty() || is_protected_changed;
        if !is_looked_for || matches!(self.proof, Some(RequiredProof::Off | RequiredProof::BehaviourKept)) {
            return Ok(evidence);
        }
        let Some(start) = &self.start.contents else {
            let undo = Some(not_judged("the files of the start are not stored"));
            return Ok(EvidenceFacts { undo, ..evidence });
        };
        let proving = evidence::proving_gates(&evidence);
        if proving.is_empty() {
            return Ok(evidence);
        }
        let undo = self.on_view(options, (start, &tree), (&proving, &seen.reports), undo::undo)?;
        trace::step(|| format!("ran the gates without the change: {undo:?}"));
        Ok(EvidenceFacts { undo: Some(undo), ..evidence })
    }

    /// The tree that the gates judged, read again; none if it changed meanwhile.
    fn tree_as_judged(&self, seen: &GatesSeen) -> Result<Option<Tree>, EngineError> {
        let pinned = self.rules_for_reading()?;
        let mut reader = self.reader().remembering(&self.tree_memory);
        if let Some(rules) = &pinned {
            reader = reader.pinned_rules(rules);
        }
        Ok(reader.read().ok().filter(|tree| tree.hash() == seen.tree.as_str()))
    }

    /// Runs gates on a changed view of the tree.
    fn on_view<T>(
        &self,
        options: &JudgeOptions<'_>,
        (start, now): (&StartContents, &Tree),
        (proving, in_place): (&[GateName], &[GateReport]),
        run: impl FnOnce(&UndoRequest<'_>) -> T,
    ) -> Result<T, EngineError> {
        let (signals, _cancel_watcher) = self.signals(options);
        let environment =
            GateEnvironment::new(&self.workspace.settings().user.keep_env, &self.workspace.repo);
        let logs = self.loop_dir().join("logs");
        files::private_dir(&logs)?;
        let ran = run(&UndoRequest {
            workspace: self.workspace,
            effective: self.effective,
            proving,
            start,
            now,
            in_place,
            environment: &environment,
            mark: &run_mark(&self.workspace.repo, &self.loop_id),
            deadline: options.deadline,
            stop: &signals.stop,
            logs: &logs,
        });
        self.unless_interrupted(&signals)?;
        Ok(ran)
    }

    /// The signals that end a run, with a watcher for cancellation by the user where nobody else watches.
    fn signals(&self, options: &JudgeOptions<'_>) -> (Signals, Option<CancelWatcher>) {
        let signals = options.signals.cloned().unwrap_or_else(Signals::watch);
        let watches = options.signals.is_none() && self.session_stop.is_some();
        let watcher = watches.then(|| CancelWatcher::begin(&self.ledger, &signals));
        (signals, watcher)
    }

    fn reader(&self) -> TreeReader<'_> {
        let export = self.export();
        tree_reader(self.workspace, Some(self.effective))
            .own_files(move || export.own_file().into_iter().collect())
    }

    fn rules_for_reading(&self) -> io::Result<Option<IgnoreRules>> {
        match &self.found {
            Some(found) => Ok(Some(found.rules().clone())),
            None => self.pinned_rules(),
        }
    }

    /// Runs the gates where the work begins, past failures, without a verdict or an entry in the ledger.
    pub(crate) fn run_baseline(
        &self,
        gates: &[Gate],
        options: &JudgeOptions<'_>,
        watch: &mut dyn GateObserver,
    ) -> Result<Finding, EngineError> {
        self.workspace.repo_home.create()?;
        self.run_gates(gates, options, watch, Recording::Nowhere)
    }

    /// Why no check can be evaluated.
    fn evaluation_error(&self) -> Option<EvaluationError> {
        let broken = self.effective.broken.as_ref().map(|broken| EvaluationError::Config {
            file: broken.path.to_owned(),
            problem: broken.problem.clone(),
        });
        self.workspace.settings().trouble.clone().or(broken)
    }

    /// Runs these gates and records results as they arrive.
    fn run_gates(
        &self,
        gates: &[Gate],
        options: &JudgeOptions<'_>,
        watch: &mut dyn GateObserver,
        recording: Recording,
    ) -> Result<Finding, EngineError> {
        let pinned = self.rules_for_reading()?;
        let mut reader = self.reader();
        // The decision must not depend on anything that other processes could have written.
        if options.fresh || !self.uses_receipts {
            reader = reader.remembering(&self.tree_memory);
        }
        let rewritten = self.rewritten(options)?;
        if let Some(rules) = &pinned {
            reader = reader.pinned_rules(rules);
        }
        let environment =
            GateEnvironment::new(&self.workspace.settings().user.keep_env, &self.workspace.repo);
        let logs = self.loop_dir().join("logs");
        let (signals, _cancel_watcher) = self.signals(options);
        let run = GateRunOptions {
            gates,
            home: &self.workspace.repo_home,
            root: &self.workspace.repo.root,
            reader: &reader,
            environment: &environment,
            mark: &run_mark(&self.workspace.repo, &self.loop_id),
            logs: logs.clone(),
            excerpt: self.effective.layout.data().excerpt,
            deadline: options.deadline,
            jobs: options.jobs,
            keep_going: options.keep_going,
            fresh: options.fresh || !self.uses_receipts,
            stop: &signals.stop,
            accepted_rules: files::read_if_there(&self.workspace.repo_home.accepted_rules())?
                .and_then(|bytes| IgnoreRules::from_bytes(&bytes)),
            all_gates: !self.is_part,
            rewritten: (self.subject != Subject::Plain).then_some(rewritten.as_slice()),
            found: self.found.as_deref(),
            tests_at_start: &self.start.tests,
        };
        let mut just_read = None;
        if !run.fresh {
            match run.receipts_at_hand() {
                Ok(ReceiptCoverage::All(seen)) => return Ok(Finding::Gates(seen)),
                Ok(ReceiptCoverage::NotAll(tree)) => just_read = Some(tree),
                // It is read and reported again below.
                Err(_) => {}
            }
        }
        files::private_dir(&logs)?;
        prune_logs(&logs);
        let patience =
            options.deadline.map_or(HOURS, |deadline| deadline.saturating_duration_since(Instant::now()));
        let mut gates_lock_guard =
            GatesLock::take_unless(&self.workspace.repo_home, Duration::ZERO, || false)?;
        if gates_lock_guard.is_none() {
            // After waiting for another process's gates, read the tree again.
            just_read = None;
            gates_lock_guard =
                GatesLock::take_unless(&self.workspace.repo_home, patience, || signals.stop.is_requested())?;
        }
        self.unless_interrupted(&signals)?;
        let Some(_one_set_at_a_time) = gates_lock_guard else {
            let why = "timed out waiting for another ralph process that is running this repo's gates".into();
            return Ok(Finding::NotEvaluated { check: Check::Gates, trouble: EvaluationError::Busy { why } });
        };
        proc::adopt_orphans();
        let mut observer = LedgerObserver { case: self, watch, failed: None };
        trace::step(|| "took the lock of this repo's gates".to_owned());
        let seen = match recording {
            Recording::Ledger => run.run(just_read, &mut observer),
            Recording::Nowhere => run.run(just_read, observer.watch),
        };
        let failed = observer.failed;
        if let (Ok(seen), true) = (&seen, self.uses_receipts) {
            rewritten_files::remember(&self.workspace.repo_home, &seen.moved, clock::now())?;
        }
        if seen.as_ref().is_ok_and(|seen| seen.reports.iter().any(was_interrupted)) {
            signals.wait(OUR_TURN_COMES);
        }
        self.unless_interrupted(&signals)?;
        match (failed, seen) {
            (Some(error), _) => Err(error),
            (None, Ok(seen)) => Ok(Finding::Gates(seen)),
            (None, Err(trouble)) => Ok(Finding::NotEvaluated { check: Check::Gates, trouble }),
        }
    }

    /// Records an interruption; ends leftover gate processes first.
    fn unless_interrupted(&self, signals: &Signals) -> Result<(), EngineError> {
        let why = match signals.caught() {
            Some(signal) => format!("signal {signal}"),
            None if signals.is_cancelled() => "paused or cancelled by the user".to_owned(),
            None => return Ok(()),
        };
        proc::sweep_all();
        self.append(&[Event::Interrupted { why }])?;
        Err(signals.caught().map_or(EngineError::Freed, EngineError::Interrupted))
    }

    fn append(&self, events: &[Event]) -> Result<(), EngineError> {
        self.ledger.append(events)?;
        Ok(())
    }

    fn lock(&self) -> Result<Lock, EngineError> {
        Ok(self.workspace.repo_home.lock_state()?)
    }

    fn export(&self) -> Export<'_> {
        Export::new(&self.workspace.repo_home, &self.workspace.repo.root, self.effective.layout)
    }

    fn loop_dir(&self) -> PathBuf {
        self.workspace.repo_home.loop_dir(&self.loop_id)
    }

    fn pinned_rules(&self) -> io::Result<Option<IgnoreRules>> {
        if !self.pins_rules() {
            return Ok(None);
        }
        Ok(files::read_if_there(&self.rules_file())?.and_then(|bytes| IgnoreRules::from_bytes(&bytes)))
    }

    /// `ralph verify` blocks nothing and uses the current rules.
    fn pins_rules(&self) -> bool {
        self.subject != Subject::Plain
    }

    /// The ignore rules at a blocked agent's first run: later edits of `.gitignore` hide nothing.
    fn rules_file(&self) -> PathBuf {
        self.workspace.repo_home.ignore_rules(&self.loop_id)
    }
}

/// Reads a repo's tree, without ralph's own exports.
pub(crate) fn tree_reader<'a>(
    workspace: &'a Workspace,
    effective: Option<&EffectiveGates>,
) -> TreeReader<'a> {
    let Workspace { repo, repo_home: home, .. } = workspace;
    let file = LoopFileOnDisk::new(home, &repo.root);
    TreeReader::new(&repo.root)
        .cache(home.tree_cache())
        .own_files(move || file.own_files())
        .own_files(|| report::own_files(home))
        .without_written(effective.map(written).unwrap_or_default())
}

fn written(effective: &EffectiveGates) -> globset::GlobSet {
    match effective.config.written_files().as_slice() {
        [] => globset::GlobSet::default(),
        files => ralph_core::config::writes::matcher(files),
    }
}

/// The prefix of the mark on every process run for a loop: its gates and the driver's agent.
pub(crate) fn run_mark(repo: &Repo, id: &LoopId) -> String {
    proc::owner_of_runs(&repo.id(), id.as_str())
}

/// Stops a loop's processes when the loop is paused or cancelled meanwhile.
pub(crate) struct CancelWatcher {
    /// Dropping it ends the watcher thread.
    _done: std::sync::mpsc::Sender<()>,
}

impl CancelWatcher {
    pub(crate) fn begin(ledger: &Arc<Loop>, signals: &Signals) -> Self {
        const LOOK_EVERY: Duration = Duration::from_millis(150);
        let (done, is_done) = std::sync::mpsc::channel();
        let (signals, ledger) = (signals.clone(), ledger.clone());
        let _thread = std::thread::Builder::new().spawn(move || {
            while is_done.recv_timeout(LOOK_EVERY) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                // The interrupted process detects the tampering again by itself.
                let is_over = match ledger.state() {
                    Ok(state) => matches!(state.status, Status::Paused { .. } | Status::Ended { .. }),
                    Err(error) => matches!(error, LedgerError::Tampered { .. }),
                };
                if is_over {
                    signals.free();
                    return;
                }
            }
        });
        Self { _done: done }
    }
}

/// A signal to the whole process group may reach a gate first and us moments later.
const OUR_TURN_COMES: Duration = Duration::from_millis(300);

/// Whether a gate ended as if asked to terminate.
fn was_interrupted(report: &GateReport) -> bool {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    matches!(report.outcome, gate::GateOutcome::Signalled { signal: SIGHUP | SIGINT | SIGTERM })
}

const HOURS: Duration = Duration::from_secs(6 * 3600);

/// Deletes the oldest logs when there are too many, several at once because this runs before every gate run.
pub(crate) fn prune_logs(logs: &std::path::Path) {
    const MOST: usize = 60;
    const A_FEW: usize = 20;
    let Ok(entries) = std::fs::read_dir(logs) else { return };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    if paths.len() < MOST + A_FEW {
        return;
    }
    // File names begin with the time.
    paths.sort();
    for path in paths.iter().rev().skip(MOST) {
        let _may_be_missing = std::fs::remove_file(path);
    }
}

/// Records results as they arrive, so a run killed half way keeps its receipts.
struct LedgerObserver<'a> {
    case: &'a JudgeCase<'a>,
    watch: &'a mut dyn GateObserver,
    failed: Option<EngineError>,
}

impl LedgerObserver<'_> {
    fn write(&mut self, event: Event, findable: ReceiptReuse) {
        if self.failed.is_none()
            && let Err(error) = self.append(event, findable)
        {
            self.failed = Some(error);
        }
    }

    fn append(&self, event: Event, findable: ReceiptReuse) -> Result<(), EngineError> {
        let case = self.case;
        let now = clock::now();
        let mut ledger = case.ledger.open(now)?;
        // We hold the gates lock, so an open run whose process is gone was killed before its verdict.
        if let (Event::RunStarted { .. }, Some(pid)) = (&event, ledger.state().running)
            && !proc::is_alive(pid)
        {
            let why = format!("process {pid} ended before its verdict");
            ledger.append(now, &[Event::Interrupted { why }])?;
        }
        let (offset, _) = ledger.end();
        ledger.append(now, std::slice::from_ref(&event))?;
        if let (Event::GateRan { receipt: Some(receipt), .. }, ReceiptReuse::Again, true) =
            (&event, findable, case.uses_receipts)
        {
            let (_, head) = ledger.end();
            receipts::point_to(&case.workspace.repo_home, receipt, &case.loop_id, offset, &head.hash)?;
        }
        Ok(())
    }
}

impl GateObserver for LedgerObserver<'_> {
    fn tree(&mut self, tree: &Arc<Tree>) {
        let rules = self.case.rules_file();
        if self.case.pins_rules() && !rules.exists() {
            let _best_effort = files::replace(&rules, &tree.rules().to_bytes());
        }
        let note = match tree.git() {
            GitUse::Failed(why) => Some(format!("git could not list the tracked files: {why}")),
            GitUse::Listed | GitUse::Cached | GitUse::NoRepo => None,
        };
        let pid = ledger::own_pid();
        self.write(
            Event::RunStarted { tree: TreeHash::new(tree.hash()), files: tree.len(), pid, note },
            ReceiptReuse::Never,
        );
        self.watch.tree(tree);
    }

    fn started(&mut self, gate: &Gate) {
        self.watch.started(gate);
    }

    fn ended(&mut self, gate: &Gate) {
        self.watch.ended(gate);
    }

    fn finished(&mut self, report: &GateReport, receipt: Option<&Receipt>, findable: ReceiptReuse) {
        if !report.reused() {
            self.write(Event::GateRan { report: report.clone(), receipt: receipt.cloned() }, findable);
        }
        self.watch.finished(report, receipt, findable);
    }

    fn changed(&mut self, files: &[String]) {
        self.watch.changed(files);
    }
}

pub(crate) struct NoObserver;

impl GateObserver for NoObserver {}
