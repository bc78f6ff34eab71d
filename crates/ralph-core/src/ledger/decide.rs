//! May it stop now? One pure step: the state and the facts in, what to remember and what to do out.
//!
//! The order is the law: the checks are looked at before any limit, so a pass on the last attempt is a pass; whatever
//! is wrong on our own side is *cannot tell*, which holds a bounded number of times and never verifies.

use std::cmp::Ordering;

use jiff::{SignedDuration, Timestamp};

use crate::ledger::event::{Event, ExportOddity, FailureMark, Judgement, PauseCause, ResetCause, Subject};
use crate::ledger::facts::{ExportFile, Facts, Standing};
use crate::ledger::state::{State, Status, seconds_between};
use crate::model::budget::{Attempts, OnExhausted};
use crate::model::finding::{Finding, GatesSeen, TasksSeen};
use crate::model::gate::{Answer, GateReport, Outcome};
use crate::model::id::{GateName, TreeHash};
use crate::model::promise_seen::PromiseSeen;
use crate::model::verdict::{LimitHit, Reason, Trouble, Verdict};

/// What came of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// To be written to the ledger before the decision is carried out.
    pub events: Vec<Event>,
    pub decision: Decision,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Look at the checks, then ask again.
    Gather,
    /// It may not stop. An attempt is counted unless nothing could be told.
    Hold { attempt: Option<u32>, reason: Reason },
    /// It may stop, and this is what its work is worth.
    LetGo { verdict: Verdict, attempt: u32, reason: Reason, limit: Option<LimitHit> },
    /// It may stop for now; nothing is counted. Where a time is given, it is looked at again then.
    Wait { what: String, until: Option<Timestamp> },
    /// It is none of our business.
    Ignore(Ignored),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    Paused,
    /// The loop is over; nobody begins it again but a person.
    Over,
    NothingToHold,
}

pub fn decide(state: &State, facts: &Facts) -> Step {
    // A plain look is judged, whatever happened to the looks before it.
    let is_plain = facts.subject == Subject::Plain;
    let ignored = match state.status {
        Status::Paused { .. } if !is_plain && !begins_anew(state, facts) => Some(Ignored::Paused),
        Status::Ended { .. } if !is_plain && state.goal.is_some() => Some(Ignored::Over),
        _ if facts.checks.is_empty() => Some(Ignored::NothingToHold),
        _ => None,
    };
    if let Some(ignored) = ignored {
        return Step { events: Vec::new(), decision: Decision::Ignore(ignored) };
    }
    let mut stop = Stop { state: state.clone(), facts, events: Vec::new() };
    stop.open();
    let decision = stop.judge();
    Step { events: stop.events, decision }
}

/// Whether the person asked for something new since errors or a limit paused it. What the person paused stays so.
fn begins_anew(state: &State, facts: &Facts) -> bool {
    let by_itself =
        matches!(state.paused(), Some(PauseCause::Errors | PauseCause::Limit { .. } | PauseCause::Unproven));
    state.goal.is_none() && by_itself && is_new_prompt(state, facts)
}

fn is_new_prompt(state: &State, facts: &Facts) -> bool {
    facts.session_stop.as_ref().is_some_and(|stop| stop.prompt.is_some() && stop.prompt != state.prompt)
}

/// How long after a check that says "not yet" it is looked at again, where it names no time.
const LOOK_AGAIN_AFTER: SignedDuration = SignedDuration::from_secs(30);

/// How many stops one and the same entry of background work excuses.
const MOST_EXCUSES: u32 = 3;

/// How often another task starts the count of one and the same held agent again.
const MOST_TASKS: u32 = 3;

/// One stop on its way to a decision: what is remembered is applied at once, so later steps see it.
struct Stop<'a> {
    state: State,
    facts: &'a Facts,
    events: Vec<Event>,
}

impl Stop<'_> {
    fn remember(&mut self, event: Event) {
        self.state.apply(self.facts.now, &event);
        self.events.push(event);
    }

    /// Begins the loop, or finds out whether its count starts again.
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
        // Every other task has a count of its own; who only says so over and over has not.
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
                self.remember(Event::ExportNoted { what: ExportOddity::DeletedAgain { deletions } });
            }
        }
        // Noted when the stop arrives, not again when the checks are back.
        if self.facts.findings.is_some() {
            return;
        }
        match &export.file {
            ExportFile::Edited { found } => {
                let what = ExportOddity::Disagrees { ledger: self.state.attempts, found: found.clone() };
                self.remember(Event::ExportNoted { what });
            }
            ExportFile::Unreadable { kept_as } => {
                let what = ExportOddity::Unreadable { kept_as: kept_as.clone() };
                self.remember(Event::ExportNoted { what });
            }
            ExportFile::Absent | ExportFile::AsWritten | ExportFile::Foreign(_) => {}
        }
    }

    fn judge(&mut self) -> Decision {
        if self.facts.standing == Standing::Revoked {
            return self.failed(Reason::DefinitionRevoked, None, Vec::new());
        }
        match &self.facts.findings {
            None => self.wait_for_background().unwrap_or(Decision::Gather),
            Some(findings) => self.judge_findings(findings),
        }
    }

    /// The findings in their order. The gates have passed on this tree, or there are none, before the agent's claims count:
    /// a claim alone never makes *verified*.
    fn judge_findings(&mut self, findings: &[Finding]) -> Decision {
        let gates = self.facts.gates();
        let tree = gates.map(|seen| &seen.tree);
        let mut reason = Reason::NothingAsked;
        let mut promised = true;
        for finding in findings {
            match finding {
                Finding::Gates(seen) => {
                    if let Some(decision) = self.unless_gates_pass(seen) {
                        return decision;
                    }
                }
                Finding::CannotTell { trouble, .. } | Finding::TaskList(TasksSeen::Trouble(trouble)) => {
                    return self.cannot_tell(trouble.clone());
                }
                Finding::NotYet { what, until, .. } => return self.not_yet(what, *until, tree),
                Finding::TaskList(TasksSeen::List { done, total, .. }) => match done.cmp(total) {
                    Ordering::Less => {
                        let reason = Reason::TasksOpen { done: *done, total: *total };
                        return self.failed(reason, tree, Vec::new());
                    }
                    Ordering::Equal | Ordering::Greater => reason = Reason::AllTasksTicked,
                },
                Finding::Promise(PromiseSeen::Given) => reason = Reason::Promised,
                // Asked for once; the evidence is there without it.
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
                Finding::Hygiene { flaws } if flaws.is_empty() => reason = Reason::Tidy,
                Finding::Hygiene { flaws } => {
                    return self.failed(Reason::Untidy { flaws: flaws.clone() }, None, Vec::new());
                }
            }
        }
        match gates {
            Some(seen) if promised => self.verified(seen, Reason::AllGatesPassed),
            Some(seen) => self.verified(seen, Reason::AllGatesPassedUnpromised),
            None => self.passed(Verdict::Claimed, reason, None),
        }
    }

    /// An agent that waits for its own agents may end its turn; what it waits for must come to an end some time.
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

    /// Nobody is at fault and nothing is counted; only the loop's clock can end it.
    fn not_yet(&mut self, what: &str, until: Option<Timestamp>, tree: Option<&TreeHash>) -> Decision {
        if let Some(limit) = self.clock_over() {
            let verdict = self.verdict_at_limit(limit);
            let reason = Reason::NotYet { what: what.to_owned() };
            return self.let_go(verdict, reason, Some(limit), tree, Vec::new());
        }
        let soon = self.facts.now.checked_add(LOOK_AGAIN_AFTER).unwrap_or(Timestamp::MAX);
        self.wait(what.to_owned(), Vec::new(), Some(until.unwrap_or(soon)))
    }

    /// What is decided by gates that do not pass.
    fn unless_gates_pass(&mut self, seen: &GatesSeen) -> Option<Decision> {
        match seen.answer() {
            Answer::Pass => {
                let gate = seen.without_receipt()?;
                Some(self.cannot_tell(Trouble::NoReceipt { gate: gate.name.clone() }))
            }
            Answer::Fail => Some(self.gates_failed(seen)),
            Answer::NotYet | Answer::CannotTell => Some(match (trouble(&seen.reports), self.open_tasks()) {
                (Trouble::Deadline { .. }, Some(open)) => self.failed(open, Some(&seen.tree), Vec::new()),
                (Trouble::Deadline { gates }, None) => {
                    self.allow_unproven(Reason::GatesDidNotFit { gates }, &seen.tree)
                }
                (other, _) => self.cannot_tell(other),
            }),
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

    /// Everything asked for is there. What passes on files that failed before, or that moved meanwhile, proves nothing;
    /// a user who only wants to know is not held to that.
    fn verified(&mut self, seen: &GatesSeen, reason: Reason) -> Decision {
        let is_plain = self.facts.subject == Subject::Plain;
        if !seen.moved.is_empty() && !is_plain {
            return self.allow_unproven(Reason::FilesMoved { files: seen.moved.clone() }, &seen.tree);
        }
        let mut failed = self.state.failed_trees.iter().chain(&self.facts.failed_elsewhere);
        match (!is_plain && failed.any(|tree| *tree == seen.tree), self.facts.is_second_look) {
            (true, false) => Decision::Gather,
            (true, true) => self.allow_unproven(Reason::PassedAfterFailing, &seen.tree),
            (false, _) => self.passed(Verdict::Verified, reason, Some(&seen.tree)),
        }
    }

    /// The stop is allowed without an attempt, and nothing is verified.
    fn allow_unproven(&mut self, reason: Reason, tree: &TreeHash) -> Decision {
        let verdict = match self.facts.limits.on_exhausted.value {
            OnExhausted::Release => Verdict::Released,
            OnExhausted::Pause => Verdict::Paused,
            OnExhausted::Fail => Verdict::Failed,
        };
        let attempt = self.state.attempts;
        let judgement = self.judgement(verdict, reason.clone(), None, Some(tree), Vec::new());
        self.remember(Event::Judged(Judgement { attempt, ..judgement }));
        Decision::LetGo { verdict, attempt, reason, limit: None }
    }

    fn gates_failed(&mut self, seen: &GatesSeen) -> Decision {
        let failures = failure_marks(&seen.reports);
        let reason = failure_reason(seen);
        if let (Some(stop), Reason::GatesFailed { gates }) = (&self.facts.session_stop, &reason)
            && (stop.as_found
                || failures.iter().all(|failure| stop.red_before.iter().any(|red| red.is_same_as(failure))))
        {
            let reason = Reason::RedBefore { gates: gates.clone() };
            return self.let_go(Verdict::Released, reason, None, Some(&seen.tree), failures);
        }
        self.failed(reason, Some(&seen.tree), failures)
    }

    /// Everything passed. It still does not count where the definition is not the accepted one.
    fn passed(&mut self, verdict: Verdict, reason: Reason, tree: Option<&TreeHash>) -> Decision {
        match self.facts.standing {
            Standing::Accepted => self.let_go(verdict, reason, None, tree, Vec::new()),
            Standing::AcceptedSince => {
                self.let_go(Verdict::NeedsHuman, Reason::AcceptedSince, None, tree, Vec::new())
            }
            Standing::Changed { .. } | Standing::Revoked => {
                self.failed(Reason::DefinitionChanged, tree, Vec::new())
            }
        }
    }

    fn failed(&mut self, reason: Reason, tree: Option<&TreeHash>, failures: Vec<FailureMark>) -> Decision {
        let judgement = self.judgement(Verdict::Held, reason.clone(), None, tree, failures);
        let attempt = judgement.attempt;
        let limit = self.limit_hit_by(attempt).or_else(|| self.no_progress(&judgement));
        if let Some(LimitHit::NoProgress { .. }) = limit
            && self.facts.preset.changes_strategy
            && !self.state.drive.strategy_changed
        {
            self.remember(Event::Judged(judgement));
            self.remember(Event::StrategyChanged);
            return Decision::Hold { attempt: Some(attempt), reason };
        }
        if let Some(limit) = limit.or_else(|| self.client_cap(&judgement)) {
            let verdict = self.verdict_at_limit(limit);
            let judgement = Judgement { verdict, limit: Some(limit), ..judgement };
            self.remember(Event::Judged(judgement));
            return Decision::LetGo { verdict, attempt, reason, limit: Some(limit) };
        }
        self.remember(Event::Judged(judgement));
        Decision::Hold { attempt: Some(attempt), reason }
    }

    fn let_go(
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
        Decision::LetGo { verdict, attempt, reason, limit }
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
            false_promise: promised && !matches!(verdict, Verdict::Verified | Verdict::Claimed),
            process: Some(self.facts.process),
        }
    }

    fn limit_hit_by(&self, attempt: u32) -> Option<LimitHit> {
        let limits = &self.facts.limits;
        // An iteration of which nothing could be told was no attempt, but it was run.
        if let Some(limit) = self.attempts_used_up(attempt.max(self.state.drive.iterations)) {
            return Some(limit);
        }
        if let Some(most) = limits.agent_calls.value
            && self.state.agent_calls() >= self.state.granted(most)
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

    /// The same stop once too often: nothing was done in between.
    fn no_progress(&self, judgement: &Judgement) -> Option<LimitHit> {
        let most = self.facts.limits.no_progress.value?;
        // The client's own cap, where it is low, must not come first.
        let most = self.block_cap().map_or(most, |cap| most.min(cap.saturating_sub(1).max(2)));
        let last = self.state.last.as_ref()?;
        // This stop and the one before are two that are equal.
        let equal = last.is_equal_to(judgement) && self.state.unchanged + 2 >= most;
        equal.then_some(LimitHit::NoProgress { equal: most })
    }

    /// The client is about to end the turn by itself: better said by us than by it.
    fn client_cap(&self, judgement: &Judgement) -> Option<LimitHit> {
        let cap = self.block_cap()?;
        let idle = self.state.last.as_ref().is_some_and(|last| last.tool_call == judgement.tool_call);
        (idle && self.state.idle_holds + 1 >= cap).then_some(LimitHit::ClientCap { cap })
    }

    fn block_cap(&self) -> Option<u32> {
        self.facts.session_stop.as_ref()?.block_cap
    }

    fn verdict_at_limit(&self, limit: LimitHit) -> Verdict {
        match (&self.facts.standing, limit, self.facts.limits.on_exhausted.value) {
            (Standing::Changed { .. } | Standing::Revoked, ..) => Verdict::Tampered,
            (_, LimitHit::NoProgress { .. }, _) => Verdict::Stuck,
            (_, _, OnExhausted::Release) => Verdict::Released,
            (_, _, OnExhausted::Pause) => Verdict::Paused,
            (_, _, OnExhausted::Fail) => Verdict::Failed,
        }
    }

    /// Held without an attempt; one too many in a row lets go, unverified, and pauses the loop.
    fn cannot_tell(&mut self, trouble: Trouble) -> Decision {
        let in_a_row = self.state.errors().saturating_add(1);
        let attempt = self.state.attempts;
        let reason = Reason::CannotTell { trouble: trouble.clone() };
        let too_many = (in_a_row >= self.facts.limits.errors.value).then_some(LimitHit::Errors { in_a_row });
        if let Some(limit) = too_many.or_else(|| self.attempts_used_up(self.state.drive.iterations)) {
            let verdict = Verdict::Paused;
            self.remember(Event::CannotTell { trouble, in_a_row, verdict });
            return Decision::LetGo { verdict, attempt, reason, limit: Some(limit) };
        }
        self.remember(Event::CannotTell { trouble, in_a_row, verdict: Verdict::Held });
        Decision::Hold { attempt: None, reason }
    }
}

fn failing(reports: &[GateReport]) -> impl Iterator<Item = &GateReport> {
    reports.iter().filter(|report| report.answer() == Answer::Fail)
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

fn trouble(reports: &[GateReport]) -> Trouble {
    let could_not_start = reports.iter().find_map(|report| match &report.outcome {
        Outcome::CouldNotStart { why } if !report.advisory => {
            Some(Trouble::GateCouldNotStart { gate: report.gate.clone(), why: why.clone() })
        }
        _ => None,
    });
    could_not_start.unwrap_or_else(|| {
        let unfinished = reports.iter().filter(|report| report.outcome == Outcome::DidNotFit);
        Trouble::Deadline { gates: unfinished.map(|report| report.gate.clone()).collect() }
    })
}

#[cfg(test)]
mod session_tests;
#[cfg(test)]
mod tests;
