//! The goal of a session loop: the task in the user's words and the claims required for completion.

use serde::{Deserialize, Serialize};

use crate::model::evidence::RequiredProof;
use crate::model::language::Lang;
use crate::model::ship::{ShipPlan, Until};

/// Stored when the loop starts; never changed.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goal {
    pub task: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<ListSource>,
    /// Whether the change is archived when all its tasks are done.
    #[serde(default)]
    pub archive: bool,
    /// The requested language; none means the reader's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lang: Option<Lang>,
    /// Where it ends beyond the gates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ship: Option<Box<ShipPlan>>,
    /// The proof that it requires; none means the default of its door.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<RequiredProof>,
    /// Acceptance commands: they failed at the start and have to pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accept: Vec<String>,
}

/// Where the task list is.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListSource {
    /// Relative to the repo root.
    pub file: String,
    /// The OpenSpec change it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
}

/// The default promise of a loop over an OpenSpec change.
pub const ALL_TASKS_DONE: &str = "所有任務完成";

/// What the leader of a task in rounds says at its end.
pub const VERIFIED_DONE: &str = "VERIFIED_DONE";

impl Goal {
    /// Whether two goals are the same work: the same change or list, otherwise the same task text.
    pub fn is_same_work(&self, other: &Self) -> bool {
        match (&self.list, &other.list) {
            (Some(list), Some(other)) => list.file == other.file,
            (None, None) => self.task == other.task,
            _ => false,
        }
    }

    /// Where it ends.
    pub fn until(&self) -> Until {
        self.ship.as_ref().map_or(Until::Verified, |ship| ship.until)
    }

    /// Whether the promise is about a pull request or its CI, and this loop does not look that far.
    pub fn promises_what_is_unchecked(&self) -> bool {
        let implied = self.promise.as_deref().and_then(Until::implied_by);
        implied.is_some_and(|implied| implied > self.until())
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
