//! The five systems that ralph replaces are rows of one table, not five code paths.
//!
//! A row defines the checks and limits. The engine reads the row and never checks which one it is.

use crate::model::budget::{Attempts, OnExhausted};

/// A condition for completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Something shows the task; looked at last, when everything else passes.
    Proof,
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

pub const ALL: [&Preset; 8] =
    [&CHECK, &TEAMMATE, &TEAM_TASK, &LAST_TEAM_TASK, &SESSION, &TASKS, &ITERATE, &DRIVE];
