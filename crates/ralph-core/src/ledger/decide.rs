//! Decides whether a stop is allowed. One pure step: state and facts in, events and decision out.
//!
//! The order matters: checks are evaluated before any limit, so a pass on the last attempt is a pass. If the checks
//! cannot be evaluated, the stop is blocked a bounded number of times and never verified.

use std::cmp::Ordering;

use jiff::{SignedDuration, Timestamp};

use crate::ledger::event::{Event, ExportNote, FailureMark, Judgement, PauseCause, ResetCause, Subject};
use crate::ledger::facts::{DefinitionStatus, ExportFile, Facts};
use crate::ledger::ship::MOST_REPEATED_CI_FAILURES;
use crate::ledger::state::{State, Status, seconds_between};
use crate::model::budget::{Attempts, OnExhausted};
use crate::model::evidence::{self, Evidence, EvidenceFacts, NotShown, RequiredProof, ShownFact};
use crate::model::finding::{Finding, GatesSeen, ShipOutcome, TasksSeen};
use crate::model::gate::{CheckResult, GateOutcome, GateReport};
use crate::model::goal::Goal;
use crate::model::id::{GateName, TreeHash};
use crate::model::preset::Check;
use crate::model::promise_seen::PromiseSeen;
use crate::model::ship::ShipAction;
use crate::model::verdict::{EvaluationError, LimitHit, Reason, Verdict};

/// The result of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionStep {
    /// To be written to the ledger before the decision is executed.
    pub events: Vec<Event>,
    pub decision: Decision,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Run the checks, then decide again.
    Gather,
    /// Everything passes: look for what shows the task, then decide again.
    Prove,
    /// The stop is blocked. An attempt is counted unless the checks could not be evaluated.
    Block { attempt: Option<u32>, reason: Reason },
    /// The stop is allowed, with this verdict.
    Allow { verdict: Verdict, attempt: u32, reason: Reason, limit: Option<LimitHit> },
    /// The stop is allowed for now and nothing is counted; checked again at `until`, if given.
    Wait { what: String, until: Option<Timestamp> },
    /// The gates passed: do this, look at what follows from it, and decide again.
    Act(ShipAction),
    /// Nothing is to be judged.
    Ignore(IgnoredBecause),
}

impl Decision {
    /// In one word and its reason, for a trace.
    pub fn word(&self) -> String {
        match self {
            Self::Gather => "look at the checks".into(),
            Self::Prove => "look for proof".into(),
            Self::Block { reason, .. } => format!("block, {}", reason.code()),
            Self::Allow { verdict, reason, .. } => format!("allow as {verdict}, {}", reason.code()),
            Self::Wait { .. } => "wait".into(),
            Self::Act(action) => format!("act: {action:?}"),
            Self::Ignore(_) => "ignore".into(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IgnoredBecause {
    Paused,
    /// The loop has ended; only the user can start it again.
    Over,
    NothingToBlock,
}

pub fn decide(state: &State, facts: &Facts) -> DecisionStep {
    // A plain run of the gates is always judged, independent of earlier ones.
    let is_plain = facts.subject == Subject::Plain;
    let ignored = match state.status {
        Status::Paused { .. } if !is_plain && !starts_over(state, facts) => Some(IgnoredBecause::Paused),
        Status::Ended { .. } if !is_plain && state.goal.is_some() => Some(IgnoredBecause::Over),
        _ if facts.checks.is_empty() => Some(IgnoredBecause::NothingToBlock),
        _ => None,
    };
    if let Some(ignored) = ignored {
        return DecisionStep { events: Vec::new(), decision: Decision::Ignore(ignored) };
    }
    let mut stop = StopInProgress { state: state.clone(), facts, events: Vec::new(), shown: Vec::new() };
    stop.open();
    let decision = stop.judge();
    DecisionStep { events: stop.events, decision }
}

/// Whether a new prompt came since errors or a limit paused it. A pause by the user stays.
fn starts_over(state: &State, facts: &Facts) -> bool {
    let by_itself =
        matches!(state.paused(), Some(PauseCause::Errors | PauseCause::Limit { .. } | PauseCause::Unproven));
    state.goal.is_none() && by_itself && is_new_prompt(state, facts)
}

fn is_new_prompt(state: &State, facts: &Facts) -> bool {
    facts.session_stop.as_ref().is_some_and(|stop| stop.prompt.is_some() && stop.prompt != state.prompt)
}

/// The delay before a pending check without a time is evaluated again.
const LOOK_AGAIN_AFTER: SignedDuration = SignedDuration::from_secs(30);

/// How many stops the same background work excuses.
const MOST_EXCUSES: u32 = 3;

/// How often a change of task restarts the count of the same blocked agent.
const MOST_TASKS: u32 = 3;

/// One stop being decided: events are applied at once, so later steps see them.
struct StopInProgress<'a> {
    state: State,
    facts: &'a Facts,
    events: Vec<Event>,
    /// What shows the task, for the judgement.
    shown: Vec<ShownFact>,
}

impl StopInProgress<'_> {
    fn remember(&mut self, event: Event) {
        self.state.apply(self.facts.now, &event);
        self.events.push(event);
    }

    /// Begins the loop or restarts its count if due.
    fn open(&mut self) {
        let is_anothers = self.facts.subject == Subject::Plain && self.state.goal.is_some();
        match self.state.status {
            Status::Running if !is_anothers => self.restart_if_due(),
            Status::Running | Status::Fresh | Status::Ended { .. } | Status::Paused { .. } => self.begin(),
        }
        self.note_export();
    }

    fn begin(&mut self) {
        let facts = self.facts;
        self.remember(Event::Began {
            subject: facts.subject.clone(),
            session: facts.session.clone(),
            task: facts.task.clone(),
            layout: facts.layout,
            preset: facts.preset.name.to_owned(),
            definition: facts.definition.clone(),
            limits: facts.limits.clone(),
            goal: None,
            prompt: facts.session_stop.as_ref().and_then(|stop| stop.prompt.clone()),
            drive: None,
            rewritten: facts.rewritten.clone(),
        });
        if let ExportFile::Foreign(found) = &facts.export.file
            && found.task == facts.task
            && !self.is_stale(found.started_at)
        {
            self.remember(Event::Adopted { iteration: found.iteration, started_at: found.started_at });
        }
    }

    fn restart_if_due(&mut self) {
        if is_new_prompt(&self.state, self.facts) && self.state.goal.is_none() {
            let prompt = self.facts.session_stop.as_ref().and_then(|stop| stop.prompt.clone());
            self.remember(Event::Reset { why: ResetCause::NewPrompt { prompt } });
            return;
        }
        // A new task restarts the count, but only a bounded number of times.
        if self.state.task != self.facts.task && self.state.task_resets < MOST_TASKS {
            let (from, to) = (self.state.task.clone(), self.facts.task.clone());
            self.remember(Event::Reset { why: ResetCause::TaskChanged { from, to } });
            return;
        }
        if let Some(last) = self.state.last_activity.filter(|last| self.is_stale(*last)) {
            let idle_seconds = seconds_between(last, self.facts.arrived);
            self.remember(Event::Reset { why: ResetCause::Stale { idle_seconds } });
        }
    }

    fn is_stale(&self, since: Timestamp) -> bool {
        let stale_after = self.facts.limits.stale_after.value;
        stale_after.is_some_and(|limit| seconds_between(since, self.facts.arrived) > limit.as_secs())
    }

    fn note_export(&mut self) {
        let export = &self.facts.export;
        if export.deletions > self.state.deletions_seen {
            let deletions = export.deletions;
            if self.state.deletion_resets == 0 {
                self.remember(Event::Reset { why: ResetCause::ExportDeleted { deletions } });
            } else {
                self.remember(Event::ExportNoted { what: ExportNote::DeletedAgain { deletions } });
            }
        }
        // Noted when the stop arrives, not again after the checks ran.
        if self.facts.findings.is_some() {
            return;
        }
        match &export.file {
            ExportFile::Edited { found } => {
                let what = ExportNote::Disagrees { ledger: self.state.attempts, found: found.clone() };
                self.remember(Event::ExportNoted { what });
            }
            ExportFile::Unreadable { kept_as } => {
                let what = ExportNote::Unreadable { kept_as: kept_as.clone() };
                self.remember(Event::ExportNoted { what });
            }
            ExportFile::Absent | ExportFile::AsWritten | ExportFile::Foreign(_) => {}
        }
    }

    fn judge(&mut self) -> Decision {
        if self.facts.definition_status == DefinitionStatus::Revoked {
            return self.failed(Reason::DefinitionRevoked, None, Vec::new());
        }
        if let (Some(why), false) = (&self.facts.answers.blocked, self.facts.subject == Subject::Plain) {
            let reason = Reason::AgentBlocked { why: why.clone() };
            return self.allow(Verdict::NeedsHuman, reason, None, None, Vec::new());
        }
        match &self.facts.findings {
            None => self.wait_for_background().unwrap_or(Decision::Gather),
            Some(findings) => self.judge_findings(findings),
        }
    }

    /// Evaluates the findings in order. The agent's claims count only after the gates: a claim alone never makes
    /// *verified*.
    fn judge_findings(&mut self, findings: &[Finding]) -> Decision {
        let gates = self.facts.gates();
        let tree = gates.map(|seen| &seen.tree);
        let mut reason = Reason::NothingAsked;
        let mut promised = true;
        let mut shipped = false;
        for finding in findings {
            match finding {
                Finding::Gates(seen) => {
                    if let Some(decision) = self.unless_gates_pass(seen) {
                        return decision;
                    }
                }
                Finding::NotEvaluated { trouble, .. } | Finding::TaskList(TasksSeen::Trouble(trouble)) => {
                    return self.cannot_evaluate(trouble.clone());
                }
                Finding::Ship { check, outcome } => {
                    if let Some(decision) = self.unless_shipped(*check, outcome, gates) {
                        return decision;
                    }
                    shipped |= matches!(check, Check::PullRequest | Check::Ci | Check::Merge);
                }
                Finding::NotYet { what, until, .. } => return self.not_yet(what, *until, tree),
                Finding::TaskList(TasksSeen::List { done, total, .. }) => match done.cmp(total) {
                    Ordering::Less => {
                        let reason = Reason::TasksOpen { done: *done, total: *total };
                        return self.failed(reason, tree, Vec::new());
                    }
                    Ordering::Equal | Ordering::Greater => reason = Reason::AllTasksTicked,
                },
                Finding::Proof(_) => {}
                Finding::Promise(PromiseSeen::Given) => reason = Reason::Promised,
                // The promise is requested once; the gates are evidence enough.
                Finding::Promise(_) if gates.is_some() && self.state.promise_asked => promised = false,
                Finding::Promise(seen) => {
                    let near_miss = match seen {
                        PromiseSeen::NearMiss(near_miss) => Some(near_miss.clone()),
                        PromiseSeen::Given | PromiseSeen::Absent => None,
                    };
                    return self.failed(Reason::PromiseMissing { near_miss }, tree, Vec::new());
                }
                Finding::Markers { missing } if missing.is_empty() => reason = Reason::AllMarkersStated,
                Finding::Markers { missing } => {
                    return self.failed(
                        Reason::MarkersMissing { markers: missing.clone() },
                        None,
                        Vec::new(),
                    );
                }
                Finding::Hygiene { flaws } if flaws.is_empty() => reason = Reason::HygienePassed,
                Finding::Hygiene { flaws } => {
                    return self.failed(Reason::HygieneFailed { flaws: flaws.clone() }, None, Vec::new());
                }
            }
        }
        match gates {
            Some(seen) if shipped => {
                let until = self.state.goal.as_ref().map(Goal::until).unwrap_or_default();
                self.verified(seen, Reason::Shipped { until, url: self.state.ship.url.clone() })
            }
            Some(seen) if promised => self.verified(seen, Reason::AllGatesPassed),
            Some(seen) => self.verified(seen, Reason::AllGatesPassedUnpromised),
            None => self.passed(Verdict::Claimed, reason, None),
        }
    }

    /// The decision if a step beyond the gates is not done.
    fn unless_shipped(
        &mut self,
        check: Check,
        outcome: &ShipOutcome,
        gates: Option<&GatesSeen>,
    ) -> Option<Decision> {
        let tree = gates.map(|seen| &seen.tree);
        Some(match outcome {
            ShipOutcome::Passed => return None,
            ShipOutcome::Unmet { what, next } => {
                let (what, next) = (what.clone(), next.clone());
                self.failed(Reason::ShipUnmet { check, what, next }, tree, Vec::new())
            }
            ShipOutcome::CiFailed { reports, url } => {
                let checks = reports.iter().map(|report| report.gate.to_string()).collect();
                let marks = reports.iter().map(|report| FailureMark::of(report).digest()).collect();
                self.failed(Reason::CiFailed { checks, marks, url: url.clone() }, tree, Vec::new())
            }
            ShipOutcome::ToDo(action) => self.act(action, gates),
            ShipOutcome::NotYet { what, until, wait } => {
                if self.state.ship.wait.as_ref() != Some(wait) {
                    self.remember(Event::ShipWaits(wait.clone()));
                }
                self.not_yet(what, Some(*until), tree)
            }
            ShipOutcome::NeedsUser { what, next } => {
                let (what, next) = (what.clone(), next.clone());
                let reason = Reason::ShipNeedsUser { check, what, next };
                self.allow(Verdict::NeedsHuman, reason, None, tree, Vec::new())
            }
            ShipOutcome::CannotTell(trouble) => self.cannot_evaluate(trouble.clone()),
        })
    }

    /// ralph acts with the user's rights only on what it would call verified, and before a push and a merge only right
    /// after the gates ran.
    fn act(&mut self, action: &ShipAction, gates: Option<&GatesSeen>) -> Decision {
        let Some(seen) = gates else {
            return self.passed(Verdict::Claimed, Reason::ShippingNotChecked, None);
        };
        if let Some(decision) = self.unproven(seen) {
            return decision;
        }
        if self.facts.definition_status != DefinitionStatus::Accepted {
            return self.passed(Verdict::Claimed, Reason::ShippingNotChecked, Some(&seen.tree));
        }
        if action.needs_fresh_gates() && !self.facts.gates_ran_now {
            return Decision::Gather;
        }
        Decision::Act(action.clone())
    }

    /// An agent that waits for its sub-agents may end its turn, a bounded number of times.
    fn wait_for_background(&mut self) -> Option<Decision> {
        let stop = self.facts.session_stop.as_ref()?;
        let excuses = |id: &String| self.state.excused.get(id).is_none_or(|count| *count < MOST_EXCUSES);
        let works: Vec<_> = stop.background.iter().filter(|work| excuses(&work.id)).collect();
        let what = works.first()?.what.clone();
        let entries = works.iter().map(|work| work.id.clone()).collect();
        Some(self.wait(what, entries, None))
    }

    fn wait(&mut self, what: String, entries: Vec<String>, until: Option<Timestamp>) -> Decision {
        self.remember(Event::Waited { what: what.clone(), entries, until });
        Decision::Wait { what, until }
    }

    /// Waiting counts no attempt; only the loop's time limit can end it.
    fn not_yet(&mut self, what: &str, until: Option<Timestamp>, tree: Option<&TreeHash>) -> Decision {
        if let Some(limit) = self.clock_over() {
            let verdict = self.verdict_at_limit(limit);
            let reason = Reason::NotYet { what: what.to_owned() };
            return self.allow(verdict, reason, Some(limit), tree, Vec::new());
        }
        let soon = self.facts.now.checked_add(LOOK_AGAIN_AFTER).unwrap_or(Timestamp::MAX);
        self.wait(what.to_owned(), Vec::new(), Some(until.unwrap_or(soon)))
    }

    /// The decision if the gates do not pass.
    fn unless_gates_pass(&mut self, seen: &GatesSeen) -> Option<Decision> {
        match seen.answer() {
            CheckResult::Pass => {
                let gate = seen.without_receipt()?;
                Some(self.cannot_evaluate(EvaluationError::NoReceipt { gate: gate.name.clone() }))
            }
            CheckResult::Fail => Some(self.gates_failed(seen)),
            CheckResult::NotYet | CheckResult::CannotTell => {
                Some(match (trouble(&seen.reports), self.open_tasks()) {
                    (EvaluationError::Deadline { .. }, Some(open)) => {
                        self.failed(open, Some(&seen.tree), Vec::new())
                    }
                    (EvaluationError::Deadline { gates }, None) => {
                        self.allow_unproven(Reason::DeadlineReached { gates }, &seen.tree)
                    }
                    (other, _) => self.cannot_evaluate(other),
                })
            }
        }
    }

    fn open_tasks(&self) -> Option<Reason> {
        self.facts.findings.iter().flatten().find_map(|finding| match finding {
            Finding::TaskList(TasksSeen::List { done, total, .. }) if done < total => {
                Some(Reason::TasksOpen { done: *done, total: *total })
            }
            _ => None,
        })
    }

    /// All checks passed.
    fn verified(&mut self, seen: &GatesSeen, reason: Reason) -> Decision {
        if let Some(decision) = self.unproven(seen) {
            return decision;
        }
        // What was promised is more than what was checked.
        if self.state.goal.as_ref().is_some_and(Goal::promises_what_is_unchecked) {
            return self.passed(Verdict::Claimed, Reason::ShippingNotChecked, Some(&seen.tree));
        }
        self.judge_level(seen, reason)
    }

    /// A pass on files that failed before or were replaced meanwhile proves nothing, except in a plain run for the user.
    fn unproven(&mut self, seen: &GatesSeen) -> Option<Decision> {
        let is_plain = self.facts.subject == Subject::Plain;
        if !seen.moved.is_empty() && !is_plain {
            return Some(
                self.allow_unproven(Reason::FilesReplaced { files: seen.moved.clone() }, &seen.tree),
            );
        }
        let mut failed = self.state.failed_trees.iter().chain(&self.facts.failed_elsewhere);
        match (!is_plain && failed.any(|tree| *tree == seen.tree), self.facts.is_second_look) {
            (true, false) => Some(Decision::Gather),
            (true, true) => Some(self.allow_unproven(Reason::PassedAfterFailing, &seen.tree)),
            (false, _) => None,
        }
    }

    /// The gates passed; the level says what that shows.
    fn judge_level(&mut self, seen: &GatesSeen, reason: Reason) -> Decision {
        let tree = Some(&seen.tree);
        let is_asked = self.facts.checks.contains(&Check::Proof);
        if !is_asked || self.facts.definition_status != DefinitionStatus::Accepted {
            return self.passed(Verdict::Verified, reason, tree);
        }
        let Some(seen) = self.facts.evidence() else { return Decision::Prove };
        match evidence::evaluate(seen, self.facts.proof.unwrap_or(RequiredProof::Test)) {
            Evidence::Verified(shown) => {
                self.shown = shown;
                self.passed(Verdict::Verified, reason, tree)
            }
            Evidence::Unchanged => self.passed(Verdict::Unchanged, Reason::NothingChanged, tree),
            Evidence::Passing(why) if !self.names_missing_proof(&why) => {
                self.passed(Verdict::Passing, reason, tree)
            }
            Evidence::Passing(why) if self.asks_for_proof(seen, &why) => {
                self.failed(Reason::ProofMissing { why }, tree, Vec::new())
            }
            Evidence::Passing(why) => self.passed(Verdict::Passing, Reason::TaskNotShown { why }, tree),
        }
    }

    /// A guarded agent has no task that could be shown: there only a green that does not come from the sources is named.
    fn names_missing_proof(&self, why: &NotShown) -> bool {
        let has_task = self.state.goal.is_some() || self.facts.subject == Subject::Driver;
        match why {
            NotShown::NotAsked => false,
            NotShown::PassesWithoutChange { .. } => true,
            _ => has_task || self.facts.proof.is_some(),
        }
    }

    /// Whether the agent is asked for a test: once, if proof was asked for, a source changed, and another attempt is left.
    fn asks_for_proof(&self, seen: &EvidenceFacts, why: &NotShown) -> bool {
        let can_be_added = matches!(why, NotShown::NothingNew | NotShown::PassesWithoutChange { .. });
        let next = self.state.attempts.saturating_add(1);
        self.facts.proof == Some(RequiredProof::Test)
            && can_be_added
            && seen.no_test.is_none()
            && seen.changes.is_some_and(|changes| changes.sources > 0)
            && !self.state.proof_asked
            && self.limit_hit_by(next).is_none()
    }

    /// Allows the stop without an attempt and without verification.
    fn allow_unproven(&mut self, reason: Reason, tree: &TreeHash) -> Decision {
        let verdict = match self.facts.limits.on_exhausted.value {
            OnExhausted::Release => Verdict::Released,
            OnExhausted::Pause => Verdict::Paused,
            OnExhausted::Fail => Verdict::Failed,
        };
        let attempt = self.state.attempts;
        let judgement = self.judgement(verdict, reason.clone(), None, Some(tree), Vec::new());
        self.remember(Event::Judged(Judgement { attempt, ..judgement }));
        Decision::Allow { verdict, attempt, reason, limit: None }
    }

    fn gates_failed(&mut self, seen: &GatesSeen) -> Decision {
        let failures = failure_marks(&seen.reports);
        let reason = failure_reason(seen);
        let as_found = self.facts.session_stop.as_ref().is_some_and(|stop| stop.as_found);
        let as_at_start =
            |report: &GateReport| self.facts.at_start.iter().any(|start| report.fails_as_at_start(start));
        if let Reason::GatesFailed { gates } = &reason
            && (as_found || failing(&seen.reports).all(as_at_start))
        {
            let reason = Reason::FailingBefore { gates: gates.clone() };
            return self.allow(Verdict::Released, reason, None, Some(&seen.tree), failures);
        }
        self.failed(reason, Some(&seen.tree), failures)
    }

    /// All gates passed, which counts only if the definition is the accepted one.
    fn passed(&mut self, verdict: Verdict, reason: Reason, tree: Option<&TreeHash>) -> Decision {
        match self.facts.definition_status {
            DefinitionStatus::Accepted => self.allow(verdict, reason, None, tree, Vec::new()),
            DefinitionStatus::AcceptedSince => {
                self.allow(Verdict::NeedsHuman, Reason::AcceptedSince, None, tree, Vec::new())
            }
            DefinitionStatus::Changed { .. } | DefinitionStatus::Revoked => {
                self.failed(Reason::DefinitionChanged, tree, Vec::new())
            }
        }
    }

    fn failed(&mut self, reason: Reason, tree: Option<&TreeHash>, failures: Vec<FailureMark>) -> Decision {
        let judgement = self.judgement(Verdict::Blocked, reason.clone(), None, tree, failures);
        let attempt = judgement.attempt;
        let limit = self
            .limit_hit_by(attempt)
            .or_else(|| self.repeated_ci_failures(&judgement.reason))
            .or_else(|| self.no_progress(&judgement));
        if let Some(LimitHit::NoProgress { .. }) = limit
            && self.facts.preset.changes_strategy
            && !self.state.drive.strategy_changed
            && self.repeated_ci_failures(&judgement.reason).is_none()
        {
            self.remember(Event::Judged(judgement));
            self.remember(Event::StrategyChanged);
            return Decision::Block { attempt: Some(attempt), reason };
        }
        if let Some(limit) = limit.or_else(|| self.client_cap(&judgement)) {
            let verdict = self.verdict_at_limit(limit);
            let judgement = Judgement { verdict, limit: Some(limit), ..judgement };
            self.remember(Event::Judged(judgement));
            return Decision::Allow { verdict, attempt, reason, limit: Some(limit) };
        }
        self.remember(Event::Judged(judgement));
        Decision::Block { attempt: Some(attempt), reason }
    }

    fn allow(
        &mut self,
        verdict: Verdict,
        reason: Reason,
        limit: Option<LimitHit>,
        tree: Option<&TreeHash>,
        failures: Vec<FailureMark>,
    ) -> Decision {
        let judgement = self.judgement(verdict, reason.clone(), limit, tree, failures);
        let attempt = judgement.attempt;
        self.remember(Event::Judged(judgement));
        Decision::Allow { verdict, attempt, reason, limit }
    }

    fn judgement(
        &self,
        verdict: Verdict,
        reason: Reason,
        limit: Option<LimitHit>,
        tree: Option<&TreeHash>,
        failures: Vec<FailureMark>,
    ) -> Judgement {
        let stop = self.facts.session_stop.as_ref();
        let promised = stop.is_some_and(|stop| stop.promise == Some(PromiseSeen::Given));
        Judgement {
            attempt: self.state.attempts.saturating_add(1),
            verdict,
            reason,
            limit,
            tree: tree.cloned(),
            failures,
            head: self.facts.head.clone(),
            tool_call: stop.and_then(|stop| stop.tool_call.clone()),
            false_promise: promised && !verdict.gates_passed() && verdict != Verdict::Claimed,
            shown: self.shown.clone(),
            process: Some(self.facts.process),
        }
    }

    fn limit_hit_by(&self, attempt: u32) -> Option<LimitHit> {
        let limits = &self.facts.limits;
        // An iteration that could not be evaluated is no attempt, but it did run.
        if let Some(limit) = self.attempts_used_up(attempt.max(self.state.drive.iterations)) {
            return Some(limit);
        }
        if let Some(most) = limits.agent_calls.value
            && self.state.task_iterations_with_this_stop() >= self.state.granted(most)
        {
            return Some(LimitHit::AgentCalls { most: self.state.granted(most) });
        }
        if let Some(most) = limits.cost.value
            && self.state.drive.cost >= most
        {
            return Some(LimitHit::Cost { most });
        }
        self.clock_over()
    }

    fn clock_over(&self) -> Option<LimitHit> {
        let after = self.facts.limits.clock.value?;
        let over = self.state.seconds_at_work(self.facts.now) > after.as_secs();
        over.then_some(LimitHit::Clock { after })
    }

    fn attempts_used_up(&self, used: u32) -> Option<LimitHit> {
        let Attempts::AtMost(most) = self.facts.limits.attempts.value else { return None };
        let most = self.state.granted(most);
        (used >= most).then_some(LimitHit::Attempts { most })
    }

    /// The limit of identical stops in a row.
    fn no_progress(&self, judgement: &Judgement) -> Option<LimitHit> {
        let most = self.facts.limits.no_progress.value?;
        // A low cap of the client must not be reached first.
        let most = self.block_cap().map_or(most, |cap| most.min(cap.saturating_sub(1).max(2)));
        // This stop and the one before count as two.
        let equal = self.state.repeats_at(judgement) && self.state.equal_stops + 2 >= most;
        equal.then_some(LimitHit::NoProgress { equal: most })
    }

    /// CI fails again and again in ways that were all seen before.
    fn repeated_ci_failures(&self, reason: &Reason) -> Option<LimitHit> {
        let Reason::CiFailed { marks, .. } = reason else { return None };
        let equal = self.state.ship.repeats(marks);
        (equal >= MOST_REPEATED_CI_FAILURES).then_some(LimitHit::NoProgress { equal })
    }

    /// The client is about to override the hook, so the stop is allowed with a message first.
    fn client_cap(&self, judgement: &Judgement) -> Option<LimitHit> {
        let cap = self.block_cap()?;
        (self.state.is_idle_at(judgement) && self.state.idle_blocks + 1 >= cap)
            .then_some(LimitHit::ClientCap { cap })
    }

    fn block_cap(&self) -> Option<u32> {
        self.facts.session_stop.as_ref()?.block_cap
    }

    fn verdict_at_limit(&self, limit: LimitHit) -> Verdict {
        match (&self.facts.definition_status, limit, self.facts.limits.on_exhausted.value) {
            (DefinitionStatus::Changed { .. } | DefinitionStatus::Revoked, ..) => Verdict::Tampered,
            (_, LimitHit::NoProgress { .. }, _) => Verdict::Stuck,
            (_, _, OnExhausted::Release) => Verdict::Released,
            (_, _, OnExhausted::Pause) => Verdict::Paused,
            (_, _, OnExhausted::Fail) => Verdict::Failed,
        }
    }

    /// Blocks without an attempt; at the error limit the stop is allowed, unverified, and the loop is paused.
    fn cannot_evaluate(&mut self, trouble: EvaluationError) -> Decision {
        let in_a_row = self.state.errors().saturating_add(1);
        let attempt = self.state.attempts;
        let reason = Reason::NotEvaluated { trouble: trouble.clone() };
        let too_many = (in_a_row >= self.facts.limits.errors.value).then_some(LimitHit::Errors { in_a_row });
        if let Some(limit) = too_many.or_else(|| self.attempts_used_up(self.state.drive.iterations)) {
            let verdict = Verdict::Paused;
            self.remember(Event::NotEvaluated { trouble, in_a_row, verdict });
            return Decision::Allow { verdict, attempt, reason, limit: Some(limit) };
        }
        self.remember(Event::NotEvaluated { trouble, in_a_row, verdict: Verdict::Blocked });
        Decision::Block { attempt: None, reason }
    }
}

fn failing(reports: &[GateReport]) -> impl Iterator<Item = &GateReport> {
    reports.iter().filter(|report| report.answer() == CheckResult::Fail)
}

fn failure_reason(seen: &GatesSeen) -> Reason {
    let gates: Vec<GateName> = failing(&seen.reports).map(|report| report.gate.clone()).collect();
    if gates.is_empty() {
        Reason::TreeNeverSettled { files: seen.unsettled.clone() }
    } else {
        Reason::GatesFailed { gates }
    }
}

fn failure_marks(reports: &[GateReport]) -> Vec<FailureMark> {
    failing(reports).map(FailureMark::of).collect()
}

fn trouble(reports: &[GateReport]) -> EvaluationError {
    let could_not_start = reports.iter().find_map(|report| match &report.outcome {
        GateOutcome::CouldNotStart { why } if !report.advisory => {
            Some(EvaluationError::GateCouldNotStart { gate: report.gate.clone(), why: why.clone() })
        }
        _ => None,
    });
    could_not_start.unwrap_or_else(|| {
        let unfinished = reports.iter().filter(|report| report.outcome == GateOutcome::DeadlineReached);
        EvaluationError::Deadline { gates: unfinished.map(|report| report.gate.clone()).collect() }
    })
}

#[cfg(test)]
mod level_tests;
#[cfg(test)]
mod session_tests;
#[cfg(test)]
mod ship_tests;
#[cfg(test)]
mod tests;
