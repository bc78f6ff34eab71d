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
    PullRequest,
    CiAndMerge,
}

/// Who is trying to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    SubAgent,
    Teammate,
    TeamTask,
    Session,
    SessionOrDriver,
    Driver,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Preset {
    pub name: &'static str,
    pub holds: Holds,
    pub done_when: &'static [Check],
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
    holds: Holds::SubAgent,
    done_when: &[Check::Gates, Check::MarkersWithoutGates],
    attempts: Attempts::AtMost(5),
    agent_calls: None,
    errors: 3,
    no_progress: None,
    changes_strategy: false,
    on_exhausted: OnExhausted::Release,
};

pub const TEAMMATE: Preset =
    Preset { name: "teammate", holds: Holds::Teammate, done_when: &[Check::Hygiene, Check::Gates], ..CHECK };

/// A task while others of its team are still open: their work may well break the gates for now.
pub const TEAM_TASK: Preset =
    Preset { name: "task", holds: Holds::TeamTask, done_when: &[Check::Hygiene], ..CHECK };

/// The last open one: now everything has to fit together.
pub const LAST_TEAM_TASK: Preset =
    Preset { name: "last-task", holds: Holds::TeamTask, done_when: &[Check::Hygiene, Check::Gates], ..CHECK };

pub const SESSION: Preset = Preset {
    name: "session",
    holds: Holds::Session,
    done_when: &[Check::Promise, Check::Gates],
    attempts: Attempts::Unlimited,
    agent_calls: None,
    errors: 3,
    no_progress: Some(3),
    changes_strategy: false,
    on_exhausted: OnExhausted::Pause,
};

pub const TASKS: Preset = Preset {
    name: "tasks",
    holds: Holds::Session,
    done_when: &[Check::TaskList, Check::Promise, Check::Gates],
    attempts: Attempts::Unlimited,
    agent_calls: Some(100),
    errors: 3,
    no_progress: Some(3),
    changes_strategy: false,
    on_exhausted: OnExhausted::Pause,
};

pub const PRE_PR: Preset = Preset {
    name: "pre-pr",
    holds: Holds::SessionOrDriver,
    done_when: &[Check::Gates, Check::PullRequest],
    attempts: Attempts::Unlimited,
    agent_calls: None,
    errors: 3,
    no_progress: Some(3),
    changes_strategy: false,
    on_exhausted: OnExhausted::Pause,
};

pub const POST_PR: Preset = Preset {
    name: "post-pr",
    holds: Holds::SessionOrDriver,
    done_when: &[Check::Gates, Check::PullRequest, Check::CiAndMerge, Check::Promise],
    attempts: Attempts::Unlimited,
    agent_calls: None,
    errors: 3,
    no_progress: Some(3),
    changes_strategy: false,
    on_exhausted: OnExhausted::Pause,
};

pub const DRIVE: Preset = Preset {
    name: "drive",
    holds: Holds::Driver,
    done_when: &[Check::Gates],
    attempts: Attempts::AtMost(15),
    agent_calls: None,
    errors: 3,
    no_progress: Some(3),
    changes_strategy: true,
    on_exhausted: OnExhausted::Fail,
};

pub const ALL: [&Preset; 9] =
    [&CHECK, &TEAMMATE, &TEAM_TASK, &LAST_TEAM_TASK, &SESSION, &TASKS, &PRE_PR, &POST_PR, &DRIVE];
