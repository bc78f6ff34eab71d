//! Everything we remember: the ledger's vocabulary. State is a fold over it.
//!
//! Stored data is an API: a variant may be added, a field may be added with a default, nothing is ever renamed or removed.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::claims::agent_report::AgentReport;
use crate::clients::stream::{Denial, Tokens};
use crate::model::drive_options::DriveOptions;
use crate::model::gate::GateReport;
use crate::model::gate::receipt::Receipt;
use crate::model::goal::Goal;
use crate::model::id::{AgentId, Digest, GateName, SessionId, TreeHash};
use crate::model::layout::Layout;
use crate::model::limits::Limits;
use crate::model::loop_error::ErrorKind;
use crate::model::money::Micros;
use crate::model::note::NoteValue;
use crate::model::promise_seen::PromiseSeen;
use crate::model::results::{Failure, Results};
use crate::model::verdict::{LimitHit, Reason, Trouble, Verdict};

/// Who is trying to stop.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Subject {
    SubAgent {
        name: String,
        id: AgentId,
    },
    /// A member of the session's team, who rests.
    Teammate {
        name: String,
        id: AgentId,
    },
    /// A task of the session or its team, which somebody calls completed.
    TeamTask {
        id: String,
        subject: String,
    },
    /// The session itself.
    Session,
    /// An agent that we run ourselves, again and again.
    Driver,
    /// Nobody: a person, an agent or CI wants to know now.
    Plain,
}

impl Subject {
    /// What a person calls it.
    pub fn name(&self) -> &str {
        match self {
            Self::SubAgent { name, .. } | Self::Teammate { name, .. } => name,
            Self::TeamTask { subject, .. } => subject,
            Self::Session => "session",
            Self::Driver => "loop",
            Self::Plain => "verify",
        }
    }
}

#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    Began {
        subject: Subject,
        session: Option<SessionId>,
        task: Option<String>,
        layout: Layout,
        preset: String,
        /// The accepted definition in force.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        definition: Option<Digest>,
        limits: Limits,
        /// What a session loop is for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        goal: Option<Goal>,
        /// The prompt of the person that a guarded session works on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<String>,
        /// How the driver is to go about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        drive: Option<DriveOptions>,
        /// Files that the user's own runs of the gates rewrote with equal content: compared by content only.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rewritten: Vec<String>,
    },
    /// A session carries the loop on.
    Bound {
        session: SessionId,
        /// The process of its client.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client: Option<ProcessIdentity>,
    },
    /// Nobody asks for it by the session that carried it any more.
    Unbound,
    Paused {
        why: PauseCause,
    },
    Resumed {
        /// Whether what was used up is granted once more.
        #[serde(default)]
        renewed: bool,
    },
    Cancelled {
        why: CancelCause,
    },
    /// The session's agent called another one.
    AgentCalled {
        agent: AgentId,
        name: String,
    },
    AgentFinished {
        agent: AgentId,
        name: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        report: Option<AgentReport>,
    },
    /// The driver runs its agent once more.
    IterationBegan {
        iteration: u32,
        #[serde(default)]
        fresh: bool,
    },
    /// The agent's run is over; what it is worth is judged next.
    AgentEnded {
        iteration: u32,
        run: AgentRun,
    },
    /// The tree after an iteration is kept under a hidden ref.
    Kept {
        iteration: u32,
        commit: String,
    },
    /// A usage limit: nothing happens before then.
    WaitsUntil {
        until: Timestamp,
        why: String,
    },
    /// Three iterations were equal: the next one begins in another way.
    StrategyChanged,
    /// A process drives the loop, and no other does.
    Owned {
        owner: Owner,
    },
    /// Somebody noted something; nothing is decided by it.
    Noted {
        key: String,
        value: NoteValue,
    },
    /// Something went wrong that was no stop.
    Erred {
        error: TypedError,
        in_a_row: u32,
    },
    /// A state file of another tool was found and is carried on.
    Adopted {
        iteration: u32,
        started_at: Timestamp,
    },
    /// The count starts again.
    Reset {
        why: ResetCause,
    },
    /// Something about the exported state that changes nothing but must be seen.
    ExportNoted {
        what: ExportOddity,
    },
    RunStarted {
        tree: TreeHash,
        #[serde(default)]
        files: usize,
        /// The process that runs the gates; 0 where it is not known.
        #[serde(default)]
        pid: i32,
        /// What was odd about reading the tree.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    GateRan {
        report: GateReport,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        receipt: Option<Receipt>,
    },
    /// The run was cut off from outside: a signal, the person, the client's time-out.
    Interrupted {
        why: String,
    },
    Judged(Judgement),
    CannotTell {
        trouble: Trouble,
        in_a_row: u32,
        /// Held, or paused when it was one too many.
        verdict: Verdict,
    },
    Waited {
        what: String,
        /// The entries of background work that excused the stop.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        entries: Vec<String>,
        /// When it is looked at again, where a check said "not yet".
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    /// The state so far, as JSON: a reader of a long ledger begins here. It says nothing new.
    Carried {
        state: String,
    },
    /// The user asked a guarded session for something. What it found then is compared at its stop.
    PromptSeen {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<String>,
        tree: TreeHash,
        /// The definitions that were accepted at that moment: later acceptances verify nothing in this session.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        accepted: Vec<Digest>,
        /// Files that the user's own runs of the gates rewrote with equal content.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rewritten: Vec<String>,
        /// What was known to fail on this tree.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        red: Vec<FailureMark>,
    },
    /// A tool ran in a guarded session that may have written files.
    Wrote {
        tool: String,
    },
    /// Gates were run without judging anybody: some of them, or to see whether they work.
    Looked {
        gates: Vec<GateName>,
    },
    /// The ledger's end was torn or its middle damaged; what could be read was kept, the rest put aside.
    LedgerMended {
        what: String,
    },
}

impl Event {
    /// Its name as it is stored.
    pub fn name(&self) -> String {
        let value = serde_json::to_value(self).unwrap_or_default();
        value["event"].as_str().unwrap_or_default().to_owned()
    }
}

/// One judged attempt to stop.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    pub attempt: u32,
    pub verdict: Verdict,
    pub reason: Reason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitHit>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeHash>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailureMark>,
    /// The commit that the tree stands on, where the driver looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// The last tool call before the stop, where it is known: the same one at the next stop means that nothing was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<String>,
    /// The agent promised, and it was not so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub false_promise: bool,
    /// The process that made this judgement. One that says *verified* must have run the gates itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<i32>,
}

/// One run of the driver's agent.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRun {
    pub ended: AgentEnd,
    pub took: Duration,
    /// Of this run alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Micros>,
    #[serde(default)]
    pub tokens: Tokens,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// What it was not allowed to do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied: Vec<Denial>,
    /// Processes that it left running; they have been ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_running: Vec<String>,
    /// The branch that it switched to, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switched_to: Option<String>,
    /// How its last words stand to the promise, where one is asked for. They are heard once, and may be judged by somebody
    /// else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<PromiseSeen>,
}

impl AgentRun {
    /// A run of which nothing more is known.
    pub fn new(ended: AgentEnd, took: Duration) -> Self {
        Self {
            ended,
            took,
            cost: None,
            tokens: Tokens::default(),
            session: None,
            denied: Vec::new(),
            left_running: Vec::new(),
            switched_to: None,
            promise: None,
        }
    }
}

/// How a run of the driver's agent ended.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum AgentEnd {
    Finished,
    /// It died, or said that it failed.
    Failed {
        why: String,
    },
    /// It ran longer than it may.
    TimedOut,
    /// Neither a byte nor a change of the tree for too long.
    WentSilent,
    /// Its model would not serve it any more for now.
    OutOfUsage {
        why: String,
    },
    /// Its program is not there or cannot be run.
    CouldNotStart {
        why: String,
    },
    /// The service refused the user's key.
    LoginRefused {
        why: String,
    },
    Interrupted,
}

/// One process for good: its number is used again for others, and means nothing after a reboot or in another namespace.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    pub process: i32,
    /// When it started, in whatever unit its system counts.
    pub started: u64,
    pub boot: String,
    /// Where process numbers have one meaning; none on systems without namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_namespace: Option<u64>,
}

/// Who drives a loop.
pub type Owner = ProcessIdentity;

/// One of the errors that count in a row.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypedError {
    pub kind: ErrorKind,
    pub what: String,
}

#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum PauseCause {
    /// The person said so in the session.
    Word,
    Command,
    SessionEnded {
        reason: String,
    },
    /// The session was cleared: its client goes on under another session id.
    Cleared {
        client: Option<ProcessIdentity>,
    },
    Errors,
    Limit {
        limit: LimitHit,
    },
    /// Who drove it was told to end.
    Interrupted,
    /// The agent asked again and again for what it may not do; this line in `allow:` would let it.
    Denied {
        rule: String,
    },
    /// The service refused the user's key twice in a row.
    NotSignedIn {
        why: String,
    },
    /// The agent's program could not be started.
    AgentCouldNotStart {
        why: String,
    },
    /// The stop was allowed without proof; the last judgement says why.
    Unproven,
    /// No gate is accepted here any more: a person took them back.
    NoGates,
    /// What the agent left running could not be ended: nobody can tell what it does to the tree.
    StillRunning {
        processes: Vec<String>,
    },
}

impl PauseCause {
    /// Whether its session went away by it.
    pub fn is_departure(&self) -> bool {
        matches!(self, Self::SessionEnded { .. } | Self::Cleared { .. })
    }
}

#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum CancelCause {
    Command,
    /// Its file in the repo was deleted.
    FileDeleted,
    /// Another loop took its place.
    Replaced,
    /// The person gave it up for this reason.
    Failed {
        why: String,
    },
}

/// Enough of a failing gate to tell at the next attempt whether it still fails in the same way.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureMark {
    pub gate: GateName,
    pub outcome: String,
    /// Of the failing tests and problems where they were read, else of the output.
    pub text: Digest,
    /// The failing tests and problems, as many as the gate's report has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<MarkedFailure>,
}

/// One failing test or problem of a gate.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MarkedFailure {
    /// A test's name; a problem's file, code and message.
    pub name: String,
    /// A short digest of its message.
    pub said: String,
}

impl MarkedFailure {
    fn of(failure: &Failure<'_>) -> Self {
        let said = Digest::of(failure.message).short().to_owned();
        Self { name: failure.identity(), said }
    }

    pub(crate) fn is_of(&self, failure: &Failure<'_>) -> bool {
        self.name == failure.identity()
    }

    pub(crate) fn says_the_same(&self, failure: &Failure<'_>) -> bool {
        self.said == Digest::of(failure.message).short()
    }
}

impl FailureMark {
    pub fn of(report: &GateReport) -> Self {
        let failures: Vec<MarkedFailure> = report.failures().iter().map(MarkedFailure::of).collect();
        let left_out = report.results.as_ref().map_or(0, |results| results.left_out);
        let is_explained = report.results.as_ref().is_some_and(Results::explain_failure);
        let text = if is_explained {
            // Tests that run at the same time are printed in any order.
            let mut names: Vec<&str> = failures.iter().map(|failure| failure.name.as_str()).collect();
            names.sort_unstable();
            let left_out = left_out.to_string();
            Digest::of_parts(names.into_iter().chain([left_out.as_str()]).map(str::as_bytes))
        } else {
            // Times and counters differ from run to run and say nothing about the failure.
            Digest::of(report.excerpt.chars().filter(|c| !c.is_ascii_digit()).collect::<String>())
        };
        Self { gate: report.gate.clone(), outcome: report.outcome.word().to_owned(), text, failures }
    }

    /// Whether the gate fails in the same way: the same tests and problems, whatever they print.
    pub fn is_same_as(&self, other: &Self) -> bool {
        (&self.gate, &self.outcome, &self.text) == (&other.gate, &other.outcome, &other.text)
    }
}

#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum ResetCause {
    TaskChanged {
        from: Option<String>,
        to: Option<String>,
    },
    Stale {
        idle_seconds: u64,
    },
    /// The person asked for something new: every prompt has a budget of its own.
    NewPrompt {
        prompt: Option<String>,
    },
    ExportDeleted {
        deletions: u64,
    },
    Command,
}

#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "oddity", rename_all = "snake_case")]
pub enum ExportOddity {
    /// Deleting resets once; this is the second time for the same agent.
    DeletedAgain { deletions: u64 },
    /// Somebody edited it. The ledger wins.
    Disagrees { ledger: u32, found: String },
    /// It could not be read and was put aside.
    Unreadable { kept_as: String },
}
