//! The answer of *undo*: how the gates stand with the start's sources under everything else.

use crate::model::id::GateName;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UndoSeen {
    Red { gates: Vec<GateWithoutChange> },
    Green { gates: Vec<GateName> },
    NotJudged { why: String },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateWithoutChange {
    pub gate: GateName,
    pub failing: Vec<String>,
}
