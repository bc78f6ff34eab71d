//! The ledger: its events, the tamper-evident form they are stored in, and the decisions that follow from them.

pub mod decide;
pub mod drive;
pub mod drive_plan;
pub mod driven;
pub mod event;
pub mod facts;
pub mod line;
pub mod loop_event;
pub mod ship;
pub mod state;
pub mod transition;
