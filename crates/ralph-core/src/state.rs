//! What is, as a fold over what was. Only [`State::apply`] changes it, so live and replayed state are the same code.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::budget::Limits;
use crate::id::{Digest, SessionId, TreeHash};
use crate::layout::Layout;
use crate::ledger::event::{Event, ExportOddity, FailureMark, Judgement, ResetCause, Subject};
use crate::verdict::{LimitHit, Reason, Verdict};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    pub status: Status,
    pub subject: Option<Subject>,
    pub session: Option<SessionId>,
    pub task: Option<String>,
    pub layout: Option<Layout>,
    pub preset: Option<String>,
    pub definition: Option<Digest>,
    pub limits: Option<Limits>,
    /// Judged stops since the count last started.
    pub attempts: u32,
    /// Stops in a row at which nothing could be told.
    pub errors: u32,
    pub started_at: Option<Timestamp>,
    pub last_activity: Option<Timestamp>,
    /// How many deletions of the export had been seen when this loop last looked.
    pub deletions_seen: u64,
    /// How often a deletion started this loop's count again.
    pub deletion_resets: u32,
    /// How often another task did.
    #[serde(default)]
    pub task_resets: u32,
    /// Judged stops in a row with the same tree and the same failures as the one before.
    #[serde(default)]
    pub unchanged: u32,
    pub last: Option<LastJudgement>,
    /// All judged stops of this loop, over every start of its count.
    pub judged_in_all: u64,
    pub events: u64,
    /// The process whose run began and has not been judged; it may have died.
    #[serde(default)]
    pub running: Option<i32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Status {
    #[default]
    Fresh,
    Running,
    Paused,
    Ended {
        verdict: Verdict,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastJudgement {
    pub at: Timestamp,
    pub attempt: u32,
    pub verdict: Verdict,
    pub reason: Reason,
    pub limit: Option<LimitHit>,
    pub tree: Option<TreeHash>,
    pub failures: Vec<FailureMark>,
}

impl State {
    pub fn fold<'a>(events: impl IntoIterator<Item = (Timestamp, &'a Event)>) -> Self {
        let mut state = Self::default();
        for (at, event) in events {
            state.apply(at, event);
        }
        state
    }

    pub fn apply(&mut self, at: Timestamp, event: &Event) {
        self.events += 1;
        self.last_activity = Some(at);
        match event {
            Event::Began { subject, session, task, layout, preset, definition, limits } => {
                self.status = Status::Running;
                self.subject = Some(subject.clone());
                self.session.clone_from(session);
                self.task.clone_from(task);
                self.layout = Some(*layout);
                self.preset = Some(preset.clone());
                self.definition = Some(definition.clone());
                self.limits = Some(limits.clone());
                self.start_count(at);
            }
            Event::Adopted { iteration, started_at } => {
                self.attempts = *iteration;
                self.started_at = Some(*started_at);
            }
            Event::Reset { why } => self.reset(at, why),
            Event::ExportNoted { what: ExportOddity::DeletedAgain { deletions } } => {
                self.deletions_seen = *deletions;
            }
            Event::ExportNoted { .. }
            | Event::GateRan { .. }
            | Event::Waited { .. }
            | Event::LedgerMended { .. } => {}
            Event::Looked { .. } => self.running = None,
            Event::RunStarted { pid, .. } => self.running = Some(*pid),
            Event::Interrupted { .. } => self.running = None,
            Event::Judged(judgement) => self.judged(at, judgement),
            Event::CannotTell { in_a_row, verdict, .. } => {
                self.running = None;
                self.errors = *in_a_row;
                if *verdict == Verdict::Paused {
                    self.status = Status::Paused;
                }
            }
        }
    }

    fn start_count(&mut self, at: Timestamp) {
        self.attempts = 0;
        self.errors = 0;
        self.started_at = Some(at);
        self.unchanged = 0;
        self.last = None;
        self.running = None;
    }

    fn reset(&mut self, at: Timestamp, why: &ResetCause) {
        self.start_count(at);
        match why {
            ResetCause::TaskChanged { to, .. } => {
                self.task.clone_from(to);
                self.task_resets += 1;
            }
            ResetCause::ExportDeleted { deletions } => {
                self.deletions_seen = *deletions;
                self.deletion_resets += 1;
            }
            // The next stop begins anew, whatever held or paused it.
            ResetCause::Command => self.status = Status::Fresh,
            ResetCause::Stale { .. } => {}
        }
    }

    fn judged(&mut self, at: Timestamp, judgement: &Judgement) {
        self.running = None;
        let same = |last: &LastJudgement| last.tree == judgement.tree && last.failures == judgement.failures;
        self.unchanged = if self.last.as_ref().is_some_and(same) { self.unchanged + 1 } else { 0 };
        self.attempts = judgement.attempt;
        self.errors = 0;
        self.judged_in_all += 1;
        self.status = match judgement.verdict {
            Verdict::Paused => Status::Paused,
            verdict if verdict.is_terminal() => Status::Ended { verdict },
            _ => Status::Running,
        };
        self.last = Some(LastJudgement {
            at,
            attempt: judgement.attempt,
            verdict: judgement.verdict,
            reason: judgement.reason.clone(),
            limit: judgement.limit,
            tree: judgement.tree.clone(),
            failures: judgement.failures.clone(),
        });
    }
}
