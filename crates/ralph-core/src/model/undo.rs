//! What *undo* showed: the proving gates on the start's sources, under everything else that the agent left (tests, settings).
//! Such a run is never a receipt and never a gate's result on the tree; it only says where a green comes from.

use serde::{Deserialize, Serialize};

use crate::model::id::GateName;

/// The answer of one undo run, after a control run on the unchanged view agreed with the run in place.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum UndoSeen {
    /// These gates fail without the change: their green comes from the sources.
    Red { gates: Vec<GateWithoutChange> },
    /// All proving gates pass without the change too.
    Green { gates: Vec<GateName> },
    /// Cannot be judged; the level is at best *passing*.
    NotJudged { why: String },
}

/// A gate that fails when the sources are put back.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateWithoutChange {
    pub gate: GateName,
    /// The tests that fail without the change and pass with it; empty if only the exit code is known, for example where
    /// nothing compiles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failing: Vec<String>,
}

impl UndoSeen {
    /// Whether the change was shown to make the difference: the only answer that permits *verified*.
    pub fn is_red(&self) -> bool {
        matches!(self, Self::Red { .. })
    }
}
