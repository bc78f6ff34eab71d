//! What a session loop is for: the task in the person's words, and what the agent has to claim before it counts as done.

use serde::{Deserialize, Serialize};

use crate::model::language::Lang;

/// Stored when the loop starts, and never changed after that.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goal {
    pub task: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<ListSource>,
    /// Whether the change moves to the archive when all of it is done.
    #[serde(default)]
    pub archive: bool,
    /// The language that was asked for; none: that of whoever reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lang: Option<Lang>,
}

/// Where the task list is.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListSource {
    /// From the repo root.
    pub file: String,
    /// The OpenSpec change it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
}

/// The promise of a loop over an OpenSpec change where none is given.
pub const ALL_TASKS_DONE: &str = "所有任務完成";

impl Goal {
    /// Whether two goals are the same piece of work: the same change or list, else the same words.
    pub fn is_same_work(&self, other: &Self) -> bool {
        match (&self.list, &other.list) {
            (Some(list), Some(other)) => list.file == other.file,
            (None, None) => self.task == other.task,
            _ => false,
        }
    }

    /// The task in one line, for lists and titles.
    pub fn headline(&self) -> String {
        const MOST: usize = 80;
        let line = self.task.split_whitespace().collect::<Vec<_>>().join(" ");
        if line.chars().count() <= MOST {
            return line;
        }
        let head: String = line.chars().take(MOST - 1).collect();
        format!("{head}…")
    }
}
