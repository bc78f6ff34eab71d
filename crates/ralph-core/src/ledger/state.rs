//! What is, as a fold over what was. Only [`State::apply`] changes it, so live and replayed state are the same code.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::claims::agent_report::AgentReport;
use crate::ledger::driven::Drive;
use crate::ledger::event::{
    CancelCause, Event, ExportOddity, FailureMark, Judgement, PauseCause, ProcessIdentity, ResetCause,
    Subject, TypedError,
};
use crate::model::goal::Goal;
use crate::model::id::{AgentId, Digest, SessionId, TreeHash};
use crate::model::layout::Layout;
use crate::model::limits::Limits;
use crate::model::note::NoteValue;
use crate::model::verdict::{Reason, Verdict};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
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
    pub started_at: Option<Timestamp>,
    /// Seconds that it was paused in all: they are not on its clock.
    pub rested: u64,
    pub last_activity: Option<Timestamp>,
    /// How many deletions of the export had been seen when this loop last looked.
    pub deletions_seen: u64,
    /// How often a deletion started this loop's count again.
    pub deletion_resets: u32,
    /// How often another task did.
    pub task_resets: u32,
    /// Judged stops in a row with the same tree and the same failures as the one before.
    pub unchanged: u32,
    pub last: Option<LastJudgement>,
    /// All judged stops of this loop, over every start of its count.
    pub judged_in_all: u64,
    pub events: u64,
    /// The process whose run began and has not been judged; it may have died.
    pub running: Option<i32>,
    /// What a session loop is for.
    pub goal: Option<Goal>,
    /// The process of the client that carries it on.
    pub client: Option<ProcessIdentity>,
    /// The prompt of the person that a guarded session works on.
    pub prompt: Option<String>,
    /// How its session went away, until one carries it on.
    pub gone: Option<PauseCause>,
    /// How often what was used up was granted once more.
    pub renewals: u32,
    /// Every agent that was called.
    pub agents: BTreeSet<AgentId>,
    /// What the last finished agent reported.
    pub last_report: Option<AgentReport>,
    /// The errors in a row, the newest last.
    pub troubles: Vec<TypedError>,
    pub false_promises: u32,
    /// Whether the promise has been asked for on a tree that passes.
    pub promise_asked: bool,
    /// How many stops each entry of background work has excused.
    pub excused: BTreeMap<String, u32>,
    /// Holds in a row without a tool call between them.
    pub idle_holds: u32,
    /// What the driver did, where it drives this loop.
    pub drive: Drive,
    /// What was noted about it; nothing is decided by it.
    pub notes: BTreeMap<String, NoteValue>,
    /// Why the person gave it up, where they did.
    pub given_up: Option<String>,
    /// What failed on which tree when it was last judged; kept when the count starts again.
    pub red: Option<Red>,
    /// Every tree that failed in this loop, the newest last: what passes on one of them proves nothing.
    pub failed_trees: Vec<TreeHash>,
    /// What a guarded session did since the user's last prompt.
    pub watch: Option<SessionWatch>,
    /// Files that the user's own runs of the gates rewrote with equal content, as known when it began.
    pub rewritten: Vec<String>,
}

/// What is known of a guarded session since the user's last prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionWatch {
    /// The session's first prompt.
    pub since: Timestamp,
    /// The definitions that were accepted then.
    pub accepted: Vec<Digest>,
    /// The files that the user's own runs had rewritten with equal content until then.
    pub rewritten: Vec<String>,
    /// What was known to fail then, on the tree that it found.
    pub red: Red,
    pub prompt: Option<String>,
    /// The tree that the last prompt found; later that of the last stop that was allowed.
    pub found: TreeHash,
    /// The tree since which everything was judged: an earlier one, where something was written that no stop was judged for.
    pub tree: TreeHash,
    /// Whether a tool ran since that can write.
    pub wrote: bool,
    /// Whether no stop was judged since then.
    pub unjudged: bool,
}

/// A tree that was seen to fail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Red {
    pub tree: TreeHash,
    pub failures: Vec<FailureMark>,
    pub at: Timestamp,
}

/// More trees than anybody comes back to.
const MOST_FAILED_TREES: usize = 100;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Status {
    #[default]
    Fresh,
    Running,
    Paused {
        why: PauseCause,
        since: Timestamp,
    },
    Ended {
        verdict: Verdict,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastJudgement {
    pub at: Timestamp,
    #[serde(flatten)]
    pub judgement: Judgement,
}

impl Deref for LastJudgement {
    type Target = Judgement;

    fn deref(&self) -> &Judgement {
        &self.judgement
    }
}

impl State {
    /// Whether a stop of its session is judged.
    pub fn is_running(&self) -> bool {
        self.status == Status::Running
    }

    /// Whether it can still go on: it runs, or it is paused.
    pub fn is_open(&self) -> bool {
        matches!(self.status, Status::Running | Status::Paused { .. })
    }

    /// Errors in a row.
    pub fn errors(&self) -> u32 {
        u32::try_from(self.troubles.len()).unwrap_or(u32::MAX)
    }

    /// Why it is paused, while it is.
    pub fn paused(&self) -> Option<&PauseCause> {
        match &self.status {
            Status::Paused { why, .. } => Some(why),
            _ => None,
        }
    }

    /// Since when it is paused, while it is.
    pub fn paused_since(&self) -> Option<Timestamp> {
        match &self.status {
            Status::Paused { since, .. } => Some(*since),
            _ => None,
        }
    }

    /// How many agents were called.
    pub fn agent_calls(&self) -> u32 {
        u32::try_from(self.agents.len()).unwrap_or(u32::MAX)
    }

    /// A limit with all that was granted on top.
    pub fn granted(&self, limit: u32) -> u32 {
        limit.saturating_mul(self.renewals.saturating_add(1))
    }

    pub fn fold<'a>(events: impl IntoIterator<Item = (Timestamp, &'a Event)>) -> Self {
        let mut state = Self::default();
        for (at, event) in events {
            state.apply(at, event);
        }
        state
    }

    /// The line from which a reader can go on without those before it.
    pub fn to_carried(&self) -> Event {
        Event::Carried { state: serde_json::to_string(self).expect("a state is always JSON") }
    }

    /// The state after such a line. Only a loop that runs is carried: an end or a pause stands in a line of its own.
    pub fn from_carried(state: &str) -> Option<Self> {
        let state: Self = serde_json::from_str(state).ok()?;
        state.is_running().then(|| Self { events: state.events + 1, ..state })
    }

    pub fn apply(&mut self, at: Timestamp, event: &Event) {
        self.events += 1;
        let paused_since = self.paused_since();
        self.last_activity = Some(at);
        self.drive.apply(event);
        match event {
            Event::Began {
                subject,
                session,
                task,
                layout,
                preset,
                definition,
                limits,
                goal,
                prompt,
                drive,
                rewritten,
            } => {
                self.status = Status::Running;
                self.subject = Some(subject.clone());
                self.session.clone_from(session);
                self.task.clone_from(task);
                self.layout = Some(*layout);
                self.preset = Some(preset.clone());
                self.definition.clone_from(definition);
                self.limits = Some(limits.clone());
                self.goal.clone_from(goal);
                self.prompt.clone_from(prompt);
                self.drive.options.clone_from(drive);
                self.rewritten.clone_from(rewritten);
                self.start_count(at);
            }
            Event::Bound { session, client } => {
                self.session = Some(session.clone());
                self.client.clone_from(client);
                self.gone = None;
                // Another session's background work and last tool call say nothing about this one's.
                self.excused.clear();
                self.idle_holds = 0;
            }
            Event::Paused { why } => self.pause(at, why),
            Event::Resumed { renewed } => self.resume(*renewed),
            Event::Unbound => {
                self.session = None;
                self.client = None;
            }
            Event::Cancelled { why } => self.cancel(why),
            Event::Noted { key, value } => {
                self.notes.insert(key.clone(), value.clone());
            }
            Event::AgentCalled { agent, .. } => {
                self.agents.insert(agent.clone());
            }
            Event::AgentFinished { report, .. } => {
                self.last_report = *report;
                self.forget_errors();
            }
            Event::StrategyChanged => self.unchanged = 0,
            Event::IterationBegan { .. }
            | Event::AgentEnded { .. }
            | Event::Kept { .. }
            | Event::WaitsUntil { .. }
            | Event::Owned { .. } => {}
            Event::Erred { error, in_a_row } => self.err(error, *in_a_row),
            Event::Adopted { iteration, started_at } => {
                self.attempts = *iteration;
                self.started_at = Some(*started_at);
            }
            // What a driven loop has used up, nobody gives back.
            Event::Reset { .. } if self.subject == Some(Subject::Driver) => {}
            Event::Reset { why } => self.reset(at, why),
            Event::ExportNoted { what: ExportOddity::DeletedAgain { deletions } } => {
                self.deletions_seen = *deletions;
            }
            Event::ExportNoted { .. } | Event::GateRan { .. } | Event::LedgerMended { .. } => {}
            Event::Waited { entries, .. } => {
                for entry in entries {
                    *self.excused.entry(entry.clone()).or_default() += 1;
                }
            }
            Event::PromptSeen { prompt, tree, accepted, rewritten, red } => {
                let first = SessionWatch {
                    since: at,
                    accepted: accepted.clone(),
                    rewritten: rewritten.clone(),
                    red: Red { tree: tree.clone(), failures: red.clone(), at },
                    prompt: prompt.clone(),
                    found: tree.clone(),
                    tree: tree.clone(),
                    wrote: false,
                    unjudged: false,
                };
                self.see_prompt(first);
            }
            Event::Wrote { .. } => {
                if let Some(watch) = &mut self.watch {
                    (watch.wrote, watch.unjudged) = (true, true);
                }
            }
            Event::Carried { .. } => {}
            Event::Looked { .. } => self.running = None,
            Event::RunStarted { pid, .. } => self.running = Some(*pid),
            Event::Interrupted { .. } => self.running = None,
            Event::Judged(judgement) => self.judged(at, judgement),
            Event::CannotTell { in_a_row, verdict, trouble } => {
                self.running = None;
                self.err(&TypedError { kind: trouble.kind(), what: trouble.to_string() }, *in_a_row);
                if *verdict == Verdict::Paused {
                    self.status = self.paused_for(at, PauseCause::Errors);
                }
            }
        }
        if let (Some(since), None) = (paused_since, self.paused_since()) {
            // The time that it rested is not on its clock.
            let since = self.started_at.map_or(since, |started| since.max(started));
            self.rested += seconds_between(since, at);
        }
    }

    /// Seconds that it has been at work.
    pub fn seconds_at_work(&self, now: Timestamp) -> u64 {
        let Some(started) = self.started_at else { return 0 };
        let now = self.paused_since().unwrap_or(now);
        seconds_between(started, now).saturating_sub(self.rested)
    }

    fn err(&mut self, error: &TypedError, in_a_row: u32) {
        self.troubles.push(error.clone());
        let most = in_a_row as usize;
        if self.troubles.len() > most {
            self.troubles.drain(..self.troubles.len() - most);
        }
    }

    fn forget_errors(&mut self) {
        self.troubles.clear();
    }

    /// What paused it first is what it waits for, also when its session goes away after that.
    fn pause(&mut self, at: Timestamp, why: &PauseCause) {
        if why.is_departure() {
            self.gone = Some(why.clone());
        }
        if self.paused().is_none() {
            self.status = Status::Paused { why: why.clone(), since: at };
        }
    }

    /// Paused for another reason is still the same pause.
    fn paused_for(&self, at: Timestamp, why: PauseCause) -> Status {
        Status::Paused { why, since: self.paused_since().unwrap_or(at) }
    }

    /// Goes on where it was: what was counted stays, errors do not.
    fn resume(&mut self, renewed: bool) {
        self.status = if self.subject.is_some() { Status::Running } else { Status::Fresh };
        self.renewals += u32::from(renewed);
        self.idle_holds = 0;
        self.unchanged = 0;
        self.forget_errors();
    }

    fn cancel(&mut self, why: &CancelCause) {
        let verdict = match why {
            CancelCause::Failed { why } => {
                self.given_up = Some(why.clone());
                Verdict::Failed
            }
            CancelCause::Command | CancelCause::FileDeleted | CancelCause::Replaced => Verdict::Cancelled,
        };
        self.status = Status::Ended { verdict };
    }

    fn start_count(&mut self, at: Timestamp) {
        self.attempts = 0;
        self.forget_errors();
        self.renewals = 0;
        self.agents.clear();
        self.last_report = None;
        self.false_promises = 0;
        self.promise_asked = false;
        self.excused.clear();
        self.idle_holds = 0;
        self.drive = Drive { options: self.drive.options.take(), ..Drive::default() };
        self.started_at = Some(at);
        self.rested = 0;
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
            ResetCause::Command if self.goal.is_none() => self.status = Status::Fresh,
            // A loop that is over stays over: nobody begins it again but by starting one.
            ResetCause::Command if matches!(self.status, Status::Ended { .. }) => {}
            ResetCause::Command => self.status = Status::Running,
            ResetCause::NewPrompt { prompt } => {
                self.prompt.clone_from(prompt);
                self.status = Status::Running;
            }
            ResetCause::Stale { .. } => {}
        }
    }

    /// The first prompt says what counts in this session; later ones only which tree they found.
    fn see_prompt(&mut self, now: SessionWatch) {
        self.watch = Some(match self.watch.take() {
            None => now,
            // What was written and not judged is still to be judged, whoever says something in between.
            Some(watch) if watch.unjudged => SessionWatch { prompt: now.prompt, found: now.found, ..watch },
            Some(watch) => {
                SessionWatch { prompt: now.prompt, found: now.found, tree: now.tree, wrote: false, ..watch }
            }
        });
    }

    fn remember_failure(&mut self, tree: &TreeHash) {
        if !self.failed_trees.contains(tree) {
            self.failed_trees.push(tree.clone());
        }
        let too_many = self.failed_trees.len().saturating_sub(MOST_FAILED_TREES);
        self.failed_trees.drain(..too_many);
    }

    fn judged(&mut self, at: Timestamp, judgement: &Judgement) {
        self.running = None;
        let (same, no_tool_call) = match &self.last {
            Some(last) => (last.is_equal_to(judgement), last.tool_call == judgement.tool_call),
            None => (false, false),
        };
        self.unchanged = if same { self.unchanged + 1 } else { 0 };
        self.idle_holds = match judgement.verdict {
            Verdict::Held if no_tool_call => self.idle_holds + 1,
            Verdict::Held => 1,
            _ => 0,
        };
        self.attempts = judgement.attempt;
        self.forget_errors();
        self.judged_in_all += 1;
        self.false_promises += u32::from(judgement.false_promise);
        if let Reason::PromiseMissing { .. } = judgement.reason {
            self.promise_asked |= judgement.tree.is_some();
        }
        if let Some(tree) = &judgement.tree {
            let failures = judgement.failures.clone();
            if !failures.is_empty() {
                self.remember_failure(tree);
            }
            self.red = (!failures.is_empty()).then(|| Red { tree: tree.clone(), failures, at });
        }
        if let Some(watch) = &mut self.watch {
            watch.unjudged = false;
            if judgement.verdict.is_terminal() {
                if let Some(tree) = &judgement.tree {
                    (watch.found, watch.tree) = (tree.clone(), tree.clone());
                }
                watch.wrote = false;
            }
        }
        self.status = match (judgement.verdict, judgement.limit) {
            (Verdict::Paused, Some(limit)) => self.paused_for(at, PauseCause::Limit { limit }),
            (Verdict::Paused, None) => self.paused_for(at, PauseCause::Unproven),
            (verdict, _) if verdict.is_terminal() => Status::Ended { verdict },
            _ => Status::Running,
        };
        self.last = Some(LastJudgement { at, judgement: judgement.clone() });
    }
}

pub(crate) fn seconds_between(from: Timestamp, to: Timestamp) -> u64 {
    // A clock that was put back gives no negative length.
    u64::try_from(to.as_second() - from.as_second()).unwrap_or(0)
}

impl LastJudgement {
    /// Whether nothing has changed: the same tree, the same failures for the same reason, and no tool call between.
    pub(crate) fn is_equal_to(&self, now: &Judgement) -> bool {
        self.tree == now.tree
            && self.failures.len() == now.failures.len()
            && self.failures.iter().zip(&now.failures).all(|(last, now)| last.is_same_as(now))
            && self.reason == now.reason
            && self.head == now.head
            && self.tool_call == now.tool_call
    }
}
