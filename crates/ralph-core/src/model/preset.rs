//! The five systems that ralph replaces are rows of one table, not five code paths.
//!
//! A row defines the checks and limits. The engine reads the row and never checks which one it is.

use serde::{Deserialize, Serialize};

use crate::model::budget::{Attempts, OnExhausted};
use crate::model::ship::Until;

/// A condition for completion.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// Every required gate passes on the current tree.
    Gates,
    /// The completion markers of the task, if there is no gate.
    MarkersWithoutGates,
    /// No problems in added lines.
    Hygiene,
    Promise,
    /// The promise, where there is no gate.
    PromiseWithoutGates,
    TaskList,
    /// The agent's audit of its own work, where one is required.
    Audit,
    /// The agent's evidence file, where one is required.
    EvidenceFile,
    /// Another tool's record that its checks passed, where there is one.
    GateFile,
    /// A pull request is open for the commit whose gates passed.
    PullRequest,
    /// The checks of exactly that commit.
    Ci,
    Merge,
    /// Something shows the task; looked at last, when everything else passes.
    Proof,
}

impl Check {
    pub fn code(self) -> &'static str {
        match self {
            Self::Gates => "gates",
            Self::MarkersWithoutGates => "markers",
            Self::Hygiene => "hygiene",
            Self::Promise | Self::PromiseWithoutGates => "promise",
            Self::TaskList => "tasks",
            Self::Audit => "audit",
            Self::EvidenceFile => "evidence",
            Self::GateFile => "gate_file",
            Self::PullRequest => "pull_request",
            Self::Ci => "ci",
            Self::Merge => "merge",
            Self::Proof => "proof",
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a difference of its own between two rows")]
pub struct Preset {
    pub name: &'static str,
    /// In the order in which they decide.
    pub done_when: &'static [Check],
    /// Whether the agent's claims are judged without gates.
    pub claims_alone: bool,
    pub attempts: Attempts,
    /// Calls of other agents; none means unlimited.
    pub agent_calls: Option<u32>,
    pub errors: u32,
    /// Identical stops in a row; none means unlimited.
    pub no_progress: Option<u32>,
    /// Whether the promise counts without its tags, too.
    pub bare_promise: bool,
    /// Whether agents that it calls are blocked by the gates if they changed files, whatever the guard says.
    pub guards_called_agents: bool,
    /// Whether a different approach is tried once before the loop counts as stuck.
    pub changes_strategy: bool,
    pub on_exhausted: OnExhausted,
}

pub const CHECK: Preset = Preset {
    name: "check",
    done_when: &[Check::Gates, Check::MarkersWithoutGates, Check::Proof],
    claims_alone: false,
    attempts: Attempts::AtMost(5),
    agent_calls: None,
    errors: 3,
    no_progress: None,
    bare_promise: false,
    guards_called_agents: false,
    changes_strategy: false,
    on_exhausted: OnExhausted::Release,
};

pub const TEAMMATE: Preset =
    Preset { name: "teammate", done_when: &[Check::Hygiene, Check::Gates, Check::Proof], ..CHECK };

/// A task while other tasks of the team are open, whose unfinished work may break the gates.
pub const TEAM_TASK: Preset = Preset { name: "task", done_when: &[Check::Hygiene], ..CHECK };

/// The last open task: now the gates must pass.
pub const LAST_TEAM_TASK: Preset =
    Preset { name: "last-task", done_when: &[Check::Hygiene, Check::Gates, Check::Proof], ..CHECK };

pub const SESSION: Preset = Preset {
    name: "session",
    done_when: &[Check::Gates, Check::Promise, Check::Proof],
    claims_alone: true,
    attempts: Attempts::Unlimited,
    agent_calls: None,
    errors: 3,
    no_progress: Some(3),
    bare_promise: false,
    guards_called_agents: false,
    changes_strategy: false,
    on_exhausted: OnExhausted::Pause,
};

pub const TASKS: Preset = Preset {
    name: "tasks",
    done_when: &[Check::Gates, Check::TaskList, Check::Promise, Check::Proof],
    claims_alone: true,
    attempts: Attempts::Unlimited,
    agent_calls: Some(100),
    errors: 3,
    no_progress: Some(3),
    bare_promise: false,
    guards_called_agents: false,
    changes_strategy: false,
    on_exhausted: OnExhausted::Pause,
};

/// A task in rounds, led by one agent that calls others: the gates alone end it.
pub const ITERATE: Preset = Preset {
    name: "iterate",
    done_when: &[Check::Gates, Check::PromiseWithoutGates, Check::Proof],
    attempts: Attempts::AtMost(15),
    bare_promise: true,
    guards_called_agents: true,
    ..SESSION
};

pub const DRIVE: Preset = Preset {
    name: "drive",
    done_when: &[Check::Gates, Check::TaskList, Check::Promise, Check::Proof],
    claims_alone: false,
    attempts: Attempts::AtMost(15),
    agent_calls: None,
    errors: 3,
    no_progress: Some(3),
    bare_promise: false,
    guards_called_agents: false,
    changes_strategy: true,
    on_exhausted: OnExhausted::Fail,
};

/// A session's loop until a pull request is open; the promise is optional.
pub const PRE_PR: Preset = Preset {
    name: "pre-pr",
    done_when: &[
        Check::Audit,
        Check::EvidenceFile,
        Check::GateFile,
        Check::Gates,
        Check::TaskList,
        Check::PullRequest,
    ],
    ..SESSION
};

/// A session's loop until the CI of its pull request passed.
pub const UNTIL_CI: Preset = Preset {
    name: "until-ci",
    done_when: &[
        Check::Audit,
        Check::EvidenceFile,
        Check::GateFile,
        Check::Gates,
        Check::TaskList,
        Check::PullRequest,
        Check::Ci,
        Check::Promise,
    ],
    ..SESSION
};

/// A session's loop until its pull request is merged.
pub const POST_PR: Preset = Preset {
    name: "post-pr",
    done_when: &[
        Check::Audit,
        Check::EvidenceFile,
        Check::GateFile,
        Check::Gates,
        Check::TaskList,
        Check::PullRequest,
        Check::Ci,
        Check::Merge,
        Check::Promise,
    ],
    ..SESSION
};

/// The driver's rows: ralph itself pushes, opens and merges, and says that it is done.
pub const DRIVE_PRE_PR: Preset = Preset { name: "drive-pre-pr", done_when: PRE_PR.done_when, ..DRIVE };
pub const DRIVE_UNTIL_CI: Preset =
    Preset { name: "drive-until-ci", done_when: UNTIL_CI.done_when.split_last().unwrap().1, ..DRIVE };
pub const DRIVE_POST_PR: Preset =
    Preset { name: "drive-post-pr", done_when: POST_PR.done_when.split_last().unwrap().1, ..DRIVE };

/// The row of a session's loop that ships.
pub fn of_session(until: Until) -> &'static Preset {
    match until {
        Until::Verified => &SESSION,
        Until::Pr => &PRE_PR,
        Until::Ci => &UNTIL_CI,
        Until::Merged => &POST_PR,
    }
}

/// The row of a driven loop.
pub fn of_drive(until: Until) -> &'static Preset {
    match until {
        Until::Verified => &DRIVE,
        Until::Pr => &DRIVE_PRE_PR,
        Until::Ci => &DRIVE_UNTIL_CI,
        Until::Merged => &DRIVE_POST_PR,
    }
}

pub const ALL: [&Preset; 14] = [
    &CHECK,
    &TEAMMATE,
    &TEAM_TASK,
    &LAST_TEAM_TASK,
    &SESSION,
    &TASKS,
    &ITERATE,
    &DRIVE,
    &PRE_PR,
    &UNTIL_CI,
    &POST_PR,
    &DRIVE_PRE_PR,
    &DRIVE_UNTIL_CI,
    &DRIVE_POST_PR,
];
