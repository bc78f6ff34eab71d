//! The events of the ledger. State is a fold over them.
//!
//! Stored data is an API: variants and fields with defaults may be added, but never renamed or removed.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::claims::agent_report::AgentReport;
use crate::claims::honest_exit::AgentAnswers;
use crate::clients::stream::{Denial, Tokens};
use crate::model::drive_options::DriveOptions;
use crate::model::evidence::ShownFact;
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
use crate::model::ship::{ShipStep, ShipWait};
use crate::model::verdict::{EvaluationError, LimitHit, Reason, Verdict};

/// The subject whose stop is judged.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Subject {
    SubAgent {
        name: String,
        id: AgentId,
    },
    /// A member of the session's team that goes idle.
    Teammate {
        name: String,
        id: AgentId,
    },
    /// A task of the session or its team that is reported completed.
    TeamTask {
        id: String,
        subject: String,
    },
    /// The session itself.
    Session,
    /// An agent run repeatedly by the driver.
    Driver,
    /// A plain run of the gates by a user, an agent or CI.
    Plain,
}

impl Subject {
    /// The name shown to users.
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
        /// The effective accepted definition.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        definition: Option<Digest>,
        limits: Limits,
        /// The goal of a session loop.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        goal: Option<Goal>,
        /// The user's prompt that a guarded session works on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<String>,
        /// The options of the driver.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        drive: Option<DriveOptions>,
        /// Files that the user's own gate runs rewrote with equal content; compared by content only.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rewritten: Vec<String>,
    },
    /// A session was attached to the loop.
    Bound {
        session: SessionId,
        /// The process of its client.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client: Option<ProcessIdentity>,
    },
    /// The session was detached from the loop.
    Unbound,
    Paused {
        why: PauseCause,
    },
    Resumed {
        /// Whether the limits are granted again.
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
        /// Whether the loop's own work is done by it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        leads: bool,
        /// The files that it found, where its stop depends on that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tree: Option<TreeHash>,
    },
    AgentFinished {
        agent: AgentId,
        name: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        report: Option<AgentReport>,
    },
    /// How the gates stood before the driver's first agent run.
    BaselineRan {
        tree: TreeHash,
        reports: Vec<GateReport>,
        /// The names of the tests that ran, for gates whose runner lists them all.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tests: Vec<TestsOfGate>,
    },
    /// The files where the work began are stored under this fingerprint.
    StartRecorded {
        tree: TreeHash,
    },
    /// The agent said with `ralph blocked` that it cannot continue.
    AgentBlocked {
        why: String,
    },
    /// The driver starts an agent run.
    IterationBegan {
        iteration: u32,
        #[serde(default)]
        fresh: bool,
    },
    /// The agent's run ended; its tree is judged next.
    AgentEnded {
        iteration: u32,
        run: AgentRun,
    },
    /// The tree after an iteration was committed under a hidden ref.
    Committed {
        iteration: u32,
        commit: String,
    },
    /// A usage limit was reached; the driver waits until then.
    WaitingUntil {
        until: Timestamp,
        why: String,
    },
    /// Three iterations were identical; the next one tries a different approach.
    StrategyChanged,
    /// A process took the loop's driver lease.
    DriverStarted {
        owner: Owner,
    },
    /// A note; never used for decisions.
    Noted {
        key: String,
        value: NoteValue,
    },
    /// An error outside a stop.
    ErrorSeen {
        error: TypedError,
        in_a_row: u32,
    },
    /// Another tool's state file was adopted.
    Adopted {
        iteration: u32,
        started_at: Timestamp,
    },
    /// The attempt count restarts.
    Reset {
        why: ResetCause,
    },
    /// An oddity of the exported state that is only recorded.
    ExportNoted {
        what: ExportNote,
    },
    RunStarted {
        tree: TreeHash,
        #[serde(default)]
        files: usize,
        /// The process that runs the gates; 0 if unknown.
        #[serde(default)]
        pid: i32,
        /// Warnings from reading the tree.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    GateRan {
        report: GateReport,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        receipt: Option<Receipt>,
    },
    /// The run was interrupted by a signal, the user or the client's timeout.
    Interrupted {
        why: String,
    },
    Judged(Judgement),
    NotEvaluated {
        trouble: EvaluationError,
        in_a_row: u32,
        /// Blocked, or paused at the error limit.
        verdict: Verdict,
    },
    Waited {
        what: String,
        /// The background work that excused the stop.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        entries: Vec<String>,
        /// When a pending check is evaluated again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    /// A step to the goal beyond the gates was done.
    Shipped(ShipStep),
    /// The wait for CI or a merge begins, with its deadline.
    ShipWaits(ShipWait),
    /// The content of a claim about the code, and the code that it was first seen with.
    ClaimFileSeen {
        file: String,
        content: Digest,
        tree: TreeHash,
    },
    /// A snapshot of the state as JSON, so that a long ledger can be read from here.
    Snapshot {
        state: String,
    },
    /// The user's prompt in a guarded session, with the initial tree for comparison at the stop.
    PromptSeen {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<String>,
        tree: TreeHash,
        /// The definitions accepted at that moment; later ones verify nothing in this session.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        accepted: Vec<Digest>,
        /// Files that the user's own gate runs rewrote with equal content.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rewritten: Vec<String>,
        /// Known failures on this tree.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        red: Vec<FailureMark>,
    },
    /// A tool that may write files ran in a guarded session.
    Wrote {
        tool: String,
    },
    /// Gates ran without a verdict: only some of them, or as a test.
    RanWithoutVerdict {
        gates: Vec<GateName>,
    },
    /// The ledger was truncated or damaged; the readable part was kept, the rest moved aside.
    LedgerRepaired {
        what: String,
    },
}

impl Event {
    /// The stored name.
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
    /// The commit the tree is based on, if the driver recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// The last tool call before the stop, if known; the same one at the next stop means no activity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<String>,
    /// The agent gave a false promise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub false_promise: bool,
    /// What shows the task, at *verified*.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shown: Vec<ShownFact>,
    /// The process that made this judgement; for *verified* it must have run the gates itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<i32>,
}

/// The tests of a gate by name.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestsOfGate {
    pub gate: GateName,
    pub names: Vec<String>,
}

/// One run of the driver's agent.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRun {
    pub ended: AgentEnd,
    #[serde(with = "crate::model::duration::seconds")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub took: Duration,
    /// The cost of this run alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Micros>,
    #[serde(default, with = "crate::clients::stream::tokens_or_null")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Tokens>"))]
    pub tokens: Tokens,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Denied tool calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied: Vec<Denial>,
    /// Processes that it left running, which were killed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_running: Vec<String>,
    /// The branch it switched to, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switched_to: Option<String>,
    /// Whether its last message gave the promise, if one is required. Recorded because another process may judge it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<PromiseSeen>,
    /// Whether its last message says that it is blocked, or why there is no test.
    #[serde(default, skip_serializing_if = "AgentAnswers::is_empty")]
    pub answers: AgentAnswers,
}

impl AgentRun {
    /// A run without further details.
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
            answers: AgentAnswers::default(),
        }
    }
}

/// How a run of the driver's agent ended.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum AgentEnd {
    Finished,
    /// It crashed or reported a failure.
    Failed {
        why: String,
    },
    /// It exceeded its time limit.
    TimedOut,
    /// No output and no change of the tree for too long.
    WentSilent,
    /// A usage limit was reached.
    OutOfUsage {
        why: String,
    },
    /// Its program is missing or cannot be run.
    CouldNotStart {
        why: String,
    },
    /// The service refused the user's key.
    LoginRefused {
        why: String,
    },
    Interrupted,
}

/// A process identity that stays unique when its id is reused, after a reboot, or in another namespace.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    pub process: i32,
    /// Its start time, in the system's own unit.
    pub started: u64,
    pub boot: String,
    /// The PID namespace; none on systems without namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_namespace: Option<u64>,
}

/// The driver of a loop.
pub type Owner = ProcessIdentity;

/// One of the consecutive errors.
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
    /// The user said so in the session.
    Word,
    Command,
    SessionEnded {
        reason: String,
    },
    /// The session was cleared: the client continues under another session id.
    Cleared {
        client: Option<ProcessIdentity>,
    },
    Errors,
    Limit {
        limit: LimitHit,
    },
    /// The driver was interrupted.
    Interrupted,
    /// The agent was denied the same thing repeatedly; this `allow:` rule would permit it.
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
    /// The stop was allowed without proof; the last judgement has the reason.
    Unproven,
    /// No gate is accepted here any more: the user revoked them.
    NoGates,
    /// Processes left by the agent could not be killed and may still change the tree.
    StillRunning {
        processes: Vec<String>,
    },
}

impl PauseCause {
    /// Whether the session left the loop.
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
    /// Replaced by another loop.
    Replaced,
    /// The user gave it up for this reason.
    Failed {
        why: String,
    },
}

/// A summary of a failing gate, to recognise the same failure at the next attempt.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureMark {
    pub gate: GateName,
    pub outcome: String,
    /// A digest of the recognised failures, otherwise of the output.
    pub text: Digest,
    /// The failing tests and problems in the gate's report.
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

    pub(crate) fn is_same_failure(&self, failure: &Failure<'_>) -> bool {
        self.said == Digest::of(failure.message).short()
    }
}

impl FailureMark {
    pub fn of(report: &GateReport) -> Self {
        let failures: Vec<MarkedFailure> = report.failures().iter().map(MarkedFailure::of).collect();
        let left_out = report.results.as_ref().map_or(0, |results| results.left_out);
        let is_explained = report.results.as_ref().is_some_and(Results::explain_failure);
        let text = if is_explained {
            // Parallel tests are printed in any order.
            let mut names: Vec<&str> = failures.iter().map(|failure| failure.name.as_str()).collect();
            names.sort_unstable();
            let left_out = left_out.to_string();
            Digest::of_parts(names.into_iter().chain([left_out.as_str()]).map(str::as_bytes))
        } else {
            // Times and counters differ between runs of the same failure.
            Digest::of(report.excerpt.chars().filter(|c| !c.is_ascii_digit()).collect::<String>())
        };
        Self { gate: report.gate.clone(), outcome: report.outcome.word().to_owned(), text, failures }
    }

    /// One digest of it all, without the messages of its tests.
    pub(crate) fn digest(&self) -> Digest {
        Digest::of_parts([
            self.gate.as_str().as_bytes(),
            self.outcome.as_bytes(),
            self.text.as_str().as_bytes(),
        ])
    }

    /// Whether the gate fails in the same way: the same tests and problems, regardless of their messages.
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
    /// A new prompt, which gets its own budget.
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
pub enum ExportNote {
    /// Deleting resets once; this is a further deletion for the same agent.
    DeletedAgain { deletions: u64 },
    /// It was edited. The ledger wins.
    Disagrees { ledger: u32, found: String },
    /// It could not be read and was moved aside.
    Unreadable { kept_as: String },
}
