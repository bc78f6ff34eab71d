//! The five systems that ralph stands in for are rows of one table, not five code paths.
//!
//! A row says who is held, which checks make it done, and what it may use up. The engine reads the row and never asks
//! which one it is.

use crate::model::budget::{Attempts, OnExhausted};

/// A condition of being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Every required gate passes on the tree as it is.
    Gates,
    /// The completion markers of the task, where there is no gate.
    MarkersWithoutGates,
    /// Nothing was left behind in what was added.
    Hygiene,
    Promise,
    TaskList,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Preset {
    pub name: &'static str,
    /// In the order in which they decide.
    pub done_when: &'static [Check],
    /// Whether the agent's claims are judged where there is no gate.
    pub claims_alone: bool,
    pub attempts: Attempts,
    /// Calls of other agents; none: not counted against anything.
    pub agent_calls: Option<u32>,
    pub errors: u32,
    /// Equal stops in a row without any change; none: not looked at.
    pub no_progress: Option<u32>,
    /// Whether another way is tried once before that many are called stuck.
    pub changes_strategy: bool,
    pub on_exhausted: OnExhausted,
}

pub const CHECK: Preset = Preset {
    name: "check",
    done_when: &[Check::Gates, Check::MarkersWithoutGates],
    claims_alone: false,
    attempts: Attempts::AtMost(5),
    agent_calls: None,
    errors: 3,
    no_progress: None,
    changes_strategy: false,
    on_exhausted: OnExhausted::Release,
};

pub const TEAMMATE: Preset = Preset { name: "teammate", done_when: &[Check::Hygiene, Check::Gates], ..CHECK };

/// A task while others of its team are still open: their work may well break the gates for now.
pub const TEAM_TASK: Preset = Preset { name: "task", done_when: &[Check::Hygiene], ..CHECK };

/// The last open one: now everything has to fit together.
pub const LAST_TEAM_TASK: Preset =
    Preset { name: "last-task", done_when: &[Check::Hygiene, Check::Gates], ..CHECK };

pub const SESSION: Preset = Preset {
    name: "session",
    done_when: &[Check::Gates, Check::Promise],
    claims_alone: true,
    attempts: Attempts::Unlimited,
    agent_calls: None,
    errors: 3,
    no_progress: Some(3),
    changes_strategy: false,
    on_exhausted: OnExhausted::Pause,
};

pub const TASKS: Preset = Preset {
    name: "tasks",
    done_when: &[Check::Gates, Check::TaskList, Check::Promise],
    claims_alone: true,
    attempts: Attempts::Unlimited,
    agent_calls: Some(100),
    errors: 3,
    no_progress: Some(3),
    changes_strategy: false,
    on_exhausted: OnExhausted::Pause,
};

pub const DRIVE: Preset = Preset {
    name: "drive",
    done_when: &[Check::Gates, Check::TaskList, Check::Promise],
    claims_alone: false,
    attempts: Attempts::AtMost(15),
    agent_calls: None,
    errors: 3,
    no_progress: Some(3),
    changes_strategy: true,
    on_exhausted: OnExhausted::Fail,
};

pub const ALL: [&Preset; 7] = [&CHECK, &TEAMMATE, &TEAM_TASK, &LAST_TEAM_TASK, &SESSION, &TASKS, &DRIVE];
