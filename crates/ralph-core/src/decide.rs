//! May it stop now? One pure step: the state and the facts in, what to remember and what to do out.
//!
//! The order is the law: the checks are looked at before any limit, so a pass on the last attempt is a pass; whatever
//! is wrong on our own side is *cannot tell*, which holds a bounded number of times and never verifies.

use jiff::Timestamp;

use crate::budget::{Attempts, OnExhausted};
use crate::facts::{Checks, Evidence, ExportFile, Facts, GatesSeen, Standing};
use crate::gate::{Answer, GateReport, Outcome};
use crate::id::{Digest, GateName, TreeHash};
use crate::ledger::event::{Event, ExportOddity, FailureMark, Judgement, ResetCause};
use crate::state::{State, Status};
use crate::verdict::{LimitHit, Reason, Trouble, Verdict};

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
    /// It may stop for now; nothing is counted.
    Wait { what: String },
    /// It is none of our business.
    Ignore(Ignored),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    Paused,
    NothingToHold,
}

pub fn decide(state: &State, facts: &Facts) -> Step {
    let ignored = match (state.status, facts.checks) {
        (Status::Paused, _) => Some(Ignored::Paused),
        (_, Checks::Nothing) => Some(Ignored::NothingToHold),
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
        match self.state.status {
            Status::Running => self.restart_if_due(),
            Status::Fresh | Status::Ended { .. } | Status::Paused => self.begin(),
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
            preset: facts.preset.to_owned(),
            definition: facts.definition.clone(),
            limits: facts.limits.clone(),
        });
        if let ExportFile::Foreign(found) = &facts.export.file
            && found.task == facts.task
            && !self.is_stale(found.started_at)
        {
            self.remember(Event::Adopted { iteration: found.iteration, started_at: found.started_at });
        }
    }

    fn restart_if_due(&mut self) {
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
        if self.facts.evidence.is_some() {
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
        match &self.facts.evidence {
            None => Decision::Gather,
            Some(Evidence::Trouble(trouble)) => self.cannot_tell(trouble.clone()),
            Some(Evidence::NotYet { what }) => {
                self.remember(Event::Waited { what: what.clone() });
                Decision::Wait { what: what.clone() }
            }
            Some(Evidence::Markers { missing }) if missing.is_empty() => {
                self.passed(Verdict::Claimed, Reason::AllMarkersStated, None)
            }
            Some(Evidence::Markers { missing }) => {
                self.failed(Reason::MarkersMissing { markers: missing.clone() }, None, Vec::new())
            }
            Some(Evidence::Gates(seen)) => self.judge_gates(seen),
        }
    }

    fn judge_gates(&mut self, seen: &GatesSeen) -> Decision {
        match seen.answer() {
            Answer::Pass => match seen.without_receipt() {
                None => self.passed(Verdict::Verified, Reason::AllGatesPassed, Some(&seen.tree)),
                Some(gate) => self.cannot_tell(Trouble::NoReceipt { gate: gate.name.clone() }),
            },
            Answer::Fail => self.failed(failure_reason(seen), Some(&seen.tree), failure_marks(&seen.reports)),
            Answer::NotYet | Answer::CannotTell => self.cannot_tell(trouble(&seen.reports)),
        }
    }

    /// Everything passed. It still does not count where the definition is not the accepted one.
    fn passed(&mut self, verdict: Verdict, reason: Reason, tree: Option<&TreeHash>) -> Decision {
        if self.facts.standing != Standing::Accepted {
            return self.failed(Reason::DefinitionChanged, tree, Vec::new());
        }
        self.let_go(verdict, reason, None, tree, Vec::new())
    }

    fn failed(&mut self, reason: Reason, tree: Option<&TreeHash>, failures: Vec<FailureMark>) -> Decision {
        let attempt = self.state.attempts.saturating_add(1);
        if let Some(limit) = self.limit_hit_by(attempt).or_else(|| self.no_progress(tree, &failures)) {
            let verdict = self.verdict_at_limit(limit);
            return self.let_go(verdict, reason, Some(limit), tree, failures);
        }
        let (verdict, tree) = (Verdict::Held, tree.cloned());
        self.remember(Event::Judged(Judgement {
            attempt,
            verdict,
            reason: reason.clone(),
            limit: None,
            tree,
            failures,
        }));
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
        let attempt = self.state.attempts.saturating_add(1);
        let judgement =
            Judgement { attempt, verdict, reason: reason.clone(), limit, tree: tree.cloned(), failures };
        self.remember(Event::Judged(judgement));
        Decision::LetGo { verdict, attempt, reason, limit }
    }

    fn limit_hit_by(&self, attempt: u32) -> Option<LimitHit> {
        let limits = &self.facts.limits;
        if let Attempts::AtMost(most) = limits.attempts.value
            && limits.attempts.value.used_up_by(attempt)
        {
            return Some(LimitHit::Attempts { most });
        }
        let (after, started) = (limits.clock.value?, self.state.started_at?);
        (seconds_between(started, self.facts.now) > after.as_secs()).then_some(LimitHit::Clock { after })
    }

    /// The same failures on the same tree once too often.
    fn no_progress(&self, tree: Option<&TreeHash>, failures: &[FailureMark]) -> Option<LimitHit> {
        let most = self.facts.limits.no_progress.value?;
        let last = self.state.last.as_ref()?;
        let same = tree.is_some() && last.tree.as_ref() == tree && last.failures == failures;
        // This stop and the one before are two that are equal.
        (same && self.state.unchanged + 2 >= most).then_some(LimitHit::NoProgress { equal: most })
    }

    fn verdict_at_limit(&self, limit: LimitHit) -> Verdict {
        if let (Standing::Accepted, LimitHit::NoProgress { .. }) = (&self.facts.standing, limit) {
            return Verdict::Stuck;
        }
        match (&self.facts.standing, self.facts.limits.on_exhausted.value) {
            (Standing::Changed { .. } | Standing::Revoked, _) => Verdict::Tampered,
            (Standing::Accepted, OnExhausted::Release) => Verdict::Released,
            (Standing::Accepted, OnExhausted::Pause) => Verdict::Paused,
            (Standing::Accepted, OnExhausted::Fail) => Verdict::Failed,
        }
    }

    /// Held without an attempt; one too many in a row lets go, unverified, and pauses the loop.
    fn cannot_tell(&mut self, trouble: Trouble) -> Decision {
        let in_a_row = self.state.errors.saturating_add(1);
        let attempt = self.state.attempts;
        let reason = Reason::CannotTell { trouble: trouble.clone() };
        if in_a_row >= self.facts.limits.errors.value {
            let verdict = Verdict::Paused;
            self.remember(Event::CannotTell { trouble, in_a_row, verdict });
            return Decision::LetGo { verdict, attempt, reason, limit: Some(LimitHit::Errors { in_a_row }) };
        }
        self.remember(Event::CannotTell { trouble, in_a_row, verdict: Verdict::Held });
        Decision::Hold { attempt: None, reason }
    }
}

fn seconds_between(from: Timestamp, to: Timestamp) -> u64 {
    // A clock that was put back gives no negative length.
    u64::try_from(to.as_second() - from.as_second()).unwrap_or(0)
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
    // Times and counters differ from run to run and say nothing about the failure.
    let without_digits = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    let mark = |report: &GateReport| FailureMark {
        gate: report.gate.clone(),
        outcome: report.outcome.word().to_owned(),
        text: Digest::of(without_digits(&report.excerpt)),
    };
    failing(reports).map(mark).collect()
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
mod tests;
