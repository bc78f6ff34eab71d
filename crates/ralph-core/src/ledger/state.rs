//! The state of a loop as a fold over its events. Only [`State::apply`] changes it, so live and replayed state agree.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::claims::agent_report::AgentReport;
use crate::ledger::driven::DriveState;
use crate::ledger::event::{
    CancelCause, Event, ExportNote, FailureMark, Judgement, PauseCause, ProcessIdentity, ResetCause, Subject,
    TypedError,
};
use crate::ledger::ship::ShipState;
use crate::model::budget::OnExhausted;
use crate::model::goal::Goal;
use crate::model::id::{AgentId, Digest, SessionId, TreeHash};
use crate::model::layout::Layout;
use crate::model::limits::Limits;
use crate::model::note::NoteValue;
use crate::model::verdict::{Reason, Verdict};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about the loop")]
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
    /// The stored files where it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<TreeHash>,
    /// Total seconds paused, which do not count towards its time limit.
    pub paused_seconds: u64,
    pub last_activity: Option<Timestamp>,
    /// How many deletions of the export had been seen when this loop last looked.
    pub deletions_seen: u64,
    /// How often a deletion started this loop's count again.
    pub deletion_resets: u32,
    /// How often a change of task restarted it.
    pub task_resets: u32,
    /// Judged stops in a row with the same tree and failures.
    pub equal_stops: u32,
    pub last: Option<LastJudgement>,
    /// All judged stops of this loop, across restarts of the count.
    pub judged_in_all: u64,
    pub events: u64,
    /// The process whose run began but has no verdict; it may have been killed.
    pub running: Option<i32>,
    /// The goal of a session loop.
    pub goal: Option<Goal>,
    /// The client process of the attached session.
    pub client: Option<ProcessIdentity>,
    /// The user's prompt that a guarded session works on.
    pub prompt: Option<String>,
    /// How its session left, until another is attached.
    pub detached: Option<PauseCause>,
    /// How often the limits were granted again.
    pub renewals: u32,
    /// Every agent that was called.
    pub agents: BTreeSet<AgentId>,
    /// Failed stops before which no agent was called: the agent worked alone.
    pub lone_stops: u32,
    /// Whether an agent was called since the last judged stop.
    pub agent_called_since_stop: bool,
    /// Whether the user resumed it since the last judged stop: what was equal before counts no more.
    pub resumed_since_stop: bool,
    /// The agent that does the loop's own work, where that is not the session's.
    pub leader: Option<AgentId>,
    /// The files that each called agent found, where its stop depends on that.
    pub agent_trees: BTreeMap<AgentId, TreeHash>,
    /// What the last finished agent reported.
    pub last_report: Option<AgentReport>,
    /// The errors in a row, the newest last.
    pub recent_errors: Vec<TypedError>,
    pub false_promises: u32,
    /// Whether the promise has been requested after the gates passed.
    pub promise_asked: bool,
    /// Whether a test that fails without the change was requested after the gates passed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub proof_asked: bool,
    /// How many stops each entry of background work has excused.
    pub excused: BTreeMap<String, u32>,
    /// Consecutive blocks without a tool call in between.
    pub idle_blocks: u32,
    /// The driver's part of the state.
    pub drive: DriveState,
    /// What was pushed, opened and waited for.
    #[serde(skip_serializing_if = "is_default")]
    pub ship: ShipState,
    /// Notes about it; never used for decisions.
    pub notes: BTreeMap<String, NoteValue>,
    /// Why the user gave it up, if they did.
    pub cancelled_because: Option<String>,
    /// Why the agent cannot continue, if it said so with `ralph blocked` since the last judged stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked_because: Option<String>,
    /// The last judged failures and their tree; kept when the count restarts.
    pub red: Option<FailingTree>,
    /// Every tree that failed in this loop, the newest last; a pass on one of them proves nothing.
    pub failed_trees: Vec<TreeHash>,
    /// The guarded session since the user's last prompt.
    pub watch: Option<SessionWatch>,
    /// Files that the user's own gate runs had rewritten with equal content when it began.
    pub rewritten: Vec<String>,
    /// How each advisory gate stood at the first judgement that saw it: what failed then is not told again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub advisory_at_start: Vec<FailureMark>,
    /// How the advisory gates stand in the run that has not been judged yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub advisory_now: Vec<FailureMark>,
}

/// Facts about a guarded session since the user's last prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionWatch {
    /// The session's first prompt.
    pub since: Timestamp,
    /// The definitions that were accepted then.
    pub accepted: Vec<Digest>,
    /// The files that the user's own gate runs had rewritten with equal content by then.
    pub rewritten: Vec<String>,
    /// The known failures on the tree at that time.
    pub red: FailingTree,
    pub prompt: Option<String>,
    /// The tree at the last prompt, later at the last allowed stop.
    pub found: TreeHash,
    /// The last judged tree, which is earlier if there are unjudged writes.
    pub tree: TreeHash,
    /// Whether a tool that can write ran since.
    pub wrote: bool,
    /// Whether writes are still unjudged.
    pub unjudged: bool,
}

/// A tree on which the gates failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailingTree {
    pub tree: TreeHash,
    pub failures: Vec<FailureMark>,
    pub at: Timestamp,
}

/// The most failed trees remembered.
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

    /// Whether it can still continue: running or paused.
    pub fn is_open(&self) -> bool {
        matches!(self.status, Status::Running | Status::Paused { .. })
    }

    /// The number of consecutive errors.
    pub fn errors(&self) -> u32 {
        u32::try_from(self.recent_errors.len()).unwrap_or(u32::MAX)
    }

    /// Why it is paused, if it is.
    pub fn paused(&self) -> Option<&PauseCause> {
        match &self.status {
            Status::Paused { why, .. } => Some(why),
            _ => None,
        }
    }

    /// Since when it is paused, if it is.
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

    /// The iterations of a task loop: agent calls, plus the failed stops of an agent that worked alone.
    pub fn task_iterations(&self) -> u32 {
        self.agent_calls().saturating_add(self.lone_stops)
    }

    /// The same, if the stop that is being judged fails.
    pub fn task_iterations_with_this_stop(&self) -> u32 {
        self.task_iterations().saturating_add(u32::from(!self.agent_called_since_stop))
    }

    /// Whether nothing is known to have been done since the last judged stop: no tool call, no commit, no agent call.
    pub(crate) fn is_idle_at(&self, now: &Judgement) -> bool {
        !self.agent_called_since_stop
            && !self.resumed_since_stop
            && self.last.as_ref().is_some_and(|last| last.tool_call == now.tool_call && last.head == now.head)
    }

    /// Whether the last judged stop was the same: nothing was done since, and nothing changed.
    pub(crate) fn repeats_at(&self, now: &Judgement) -> bool {
        self.is_idle_at(now) && self.last.as_ref().is_some_and(|last| last.is_equal_to(now))
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

    /// A snapshot from which a reader can continue without earlier lines.
    pub fn to_snapshot(&self) -> Event {
        Event::Snapshot { state: serde_json::to_string(self).expect("a state is always JSON") }
    }

    /// The state from a snapshot. Only running loops have one; an end or a pause has its own event.
    pub fn from_snapshot(state: &str) -> Option<Self> {
        let state: Self = serde_json::from_str(state).ok()?;
        state.is_running().then(|| Self { events: state.events + 1, ..state })
    }

    pub fn apply(&mut self, at: Timestamp, event: &Event) {
        self.events += 1;
        let paused_since = self.paused_since();
        self.last_activity = Some(at);
        self.drive.apply(event);
        self.ship.apply(event);
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
                self.detached = None;
                // Another session's background work and last tool call do not apply to this one.
                self.excused.clear();
                self.idle_blocks = 0;
            }
            Event::Paused { why } => self.pause(at, why),
            Event::Resumed { renewed } => self.resume(*renewed),
            Event::Unbound => {
                self.session = None;
                self.client = None;
            }
            Event::Cancelled { why } => self.cancel(why),
            Event::AgentBlocked { why } => {
                self.blocked_because = Some(why.clone());
            }
            Event::BaselineRan { .. } => {}
            Event::StartRecorded { tree } => self.start = Some(tree.clone()),
            Event::Noted { key, value } => {
                self.notes.insert(key.clone(), value.clone());
            }
            Event::AgentCalled { agent, leads, tree, .. } => {
                self.agents.insert(agent.clone());
                if *leads {
                    self.leader = Some(agent.clone());
                }
                if let Some(tree) = tree {
                    self.agent_trees.insert(agent.clone(), tree.clone());
                }
                self.agent_called_since_stop = true;
            }
            Event::AgentFinished { report, agent, .. } => {
                self.last_report = *report;
                self.agent_trees.remove(agent);
                self.forget_errors();
            }
            Event::StrategyChanged => self.equal_stops = 0,
            Event::IterationBegan { .. }
            | Event::AgentEnded { .. }
            | Event::Committed { .. }
            | Event::WaitingUntil { .. }
            | Event::Shipped(_)
            | Event::ShipWaits(_)
            | Event::ClaimFileSeen { .. }
            | Event::DriverStarted { .. } => {}
            Event::ErrorSeen { error, in_a_row } => self.err(error, *in_a_row),
            Event::Adopted { iteration, started_at } => {
                self.attempts = *iteration;
                self.started_at = Some(*started_at);
            }
            // A driven loop keeps what it has used.
            Event::Reset { .. } if self.subject == Some(Subject::Driver) => {}
            Event::Reset { why } => self.reset(at, why),
            Event::ExportNoted { what: ExportNote::DeletedAgain { deletions } } => {
                self.deletions_seen = *deletions;
            }
            Event::GateRan { report, .. } if report.advisory => {
                self.advisory_now.retain(|mark| mark.gate != report.gate);
                self.advisory_now.push(FailureMark::of(report));
            }
            Event::ExportNoted { .. } | Event::GateRan { .. } | Event::LedgerRepaired { .. } => {}
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
                    red: FailingTree { tree: tree.clone(), failures: red.clone(), at },
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
            Event::Snapshot { .. } => {}
            Event::RanWithoutVerdict { .. } => self.running = None,
            Event::RunStarted { pid, .. } => self.running = Some(*pid),
            Event::Interrupted { .. } => self.running = None,
            Event::Judged(judgement) => self.judged(at, judgement),
            Event::NotEvaluated { in_a_row, verdict, trouble } => {
                self.running = None;
                self.err(&TypedError { kind: trouble.kind(), what: trouble.to_string() }, *in_a_row);
                if *verdict == Verdict::Paused {
                    self.status = self.paused_for(at, PauseCause::Errors);
                }
            }
        }
        if let (Some(since), None) = (paused_since, self.paused_since()) {
            // Paused time does not count.
            let since = self.started_at.map_or(since, |started| since.max(started));
            self.paused_seconds += seconds_between(since, at);
        }
    }

    /// Seconds of active time.
    pub fn seconds_at_work(&self, now: Timestamp) -> u64 {
        let Some(started) = self.started_at else { return 0 };
        let now = self.paused_since().unwrap_or(now);
        seconds_between(started, now).saturating_sub(self.paused_seconds)
    }

    /// Whether a limit pauses this loop instead of ending it.
    fn waits_when_exhausted(&self) -> bool {
        self.limits.as_ref().is_some_and(|limits| limits.on_exhausted.value == OnExhausted::Pause)
    }

    fn err(&mut self, error: &TypedError, in_a_row: u32) {
        self.recent_errors.push(error.clone());
        let most = in_a_row as usize;
        if self.recent_errors.len() > most {
            self.recent_errors.drain(..self.recent_errors.len() - most);
        }
    }

    fn forget_errors(&mut self) {
        self.recent_errors.clear();
    }

    /// The first cause of a pause is kept, even if the session leaves afterwards.
    fn pause(&mut self, at: Timestamp, why: &PauseCause) {
        if why.is_departure() {
            self.detached = Some(why.clone());
        }
        if self.paused().is_none() {
            self.status = Status::Paused { why: why.clone(), since: at };
        }
    }

    /// Changes the cause of a pause but not its beginning.
    fn paused_for(&self, at: Timestamp, why: PauseCause) -> Status {
        Status::Paused { why, since: self.paused_since().unwrap_or(at) }
    }

    /// Resumes: counts are kept, errors are cleared.
    fn resume(&mut self, renewed: bool) {
        self.status = if self.subject.is_some() { Status::Running } else { Status::Fresh };
        self.renewals += u32::from(renewed);
        self.idle_blocks = 0;
        self.equal_stops = 0;
        self.resumed_since_stop = true;
        self.forget_errors();
    }

    fn cancel(&mut self, why: &CancelCause) {
        let verdict = match why {
            CancelCause::Failed { why } => {
                self.cancelled_because = Some(why.clone());
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
        self.leader = None;
        self.agent_trees.clear();
        self.lone_stops = 0;
        self.agent_called_since_stop = false;
        self.resumed_since_stop = false;
        self.last_report = None;
        self.false_promises = 0;
        self.promise_asked = false;
        self.proof_asked = false;
        self.excused.clear();
        self.idle_blocks = 0;
        self.drive = DriveState { options: self.drive.options.take(), ..DriveState::default() };
        self.started_at = Some(at);
        self.paused_seconds = 0;
        self.equal_stops = 0;
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
            // The next stop starts afresh, regardless of blocks and pauses.
            ResetCause::Command if self.goal.is_none() => self.status = Status::Fresh,
            // An ended loop stays ended; only a new start begins another.
            ResetCause::Command if matches!(self.status, Status::Ended { .. }) => {}
            ResetCause::Command => self.status = Status::Running,
            ResetCause::NewPrompt { prompt } => {
                self.prompt.clone_from(prompt);
                self.status = Status::Running;
            }
            ResetCause::Stale { .. } => {}
        }
    }

    /// The first prompt fixes the accepted definitions; later ones only record their tree.
    fn see_prompt(&mut self, now: SessionWatch) {
        self.watch = Some(match self.watch.take() {
            None => now,
            // Unjudged writes are still to be judged after another prompt.
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
        self.blocked_because = None;
        self.equal_stops = if self.repeats_at(judgement) { self.equal_stops + 1 } else { 0 };
        self.idle_blocks = match judgement.verdict {
            Verdict::Blocked if self.is_idle_at(judgement) => self.idle_blocks + 1,
            Verdict::Blocked => 1,
            _ => 0,
        };
        if judgement.verdict == Verdict::Blocked || judgement.limit.is_some() {
            self.lone_stops += u32::from(!self.agent_called_since_stop);
        }
        self.agent_called_since_stop = false;
        self.resumed_since_stop = false;
        for mark in std::mem::take(&mut self.advisory_now) {
            if !self.advisory_at_start.iter().any(|known| known.gate == mark.gate) {
                self.advisory_at_start.push(mark);
            }
        }
        self.attempts = judgement.attempt;
        self.forget_errors();
        self.judged_in_all += 1;
        self.false_promises += u32::from(judgement.false_promise);
        if let Reason::PromiseMissing { .. } = judgement.reason {
            self.promise_asked |= judgement.tree.is_some();
        }
        if let Reason::ProofMissing { .. } = judgement.reason {
            self.proof_asked = true;
        }
        if let Some(tree) = &judgement.tree {
            let failures = judgement.failures.clone();
            if !failures.is_empty() {
                self.remember_failure(tree);
            }
            self.red = (!failures.is_empty()).then(|| FailingTree { tree: tree.clone(), failures, at });
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
            // The user may know what the agent does not: a loop of the user's own waits for them.
            (Verdict::Stuck, Some(limit)) if self.waits_when_exhausted() => {
                self.paused_for(at, PauseCause::Limit { limit })
            }
            (verdict, _) if verdict.is_terminal() => Status::Ended { verdict },
            _ => Status::Running,
        };
        self.last = Some(LastJudgement { at, judgement: judgement.clone() });
    }
}

fn is_default(ship: &ShipState) -> bool {
    *ship == ShipState::default()
}

pub(crate) fn seconds_between(from: Timestamp, to: Timestamp) -> u64 {
    // A clock set back must not give a negative duration.
    u64::try_from(to.as_second() - from.as_second()).unwrap_or(0)
}

impl LastJudgement {
    /// Whether nothing changed: the same tree, failures and reason, and no tool call in between.
    pub(crate) fn is_equal_to(&self, now: &Judgement) -> bool {
        self.tree == now.tree
            && self.failures.len() == now.failures.len()
            && self.failures.iter().zip(&now.failures).all(|(last, now)| last.is_same_as(now))
            && self.reason == now.reason
            && self.head == now.head
            && self.tool_call == now.tool_call
    }
}
