//! The ledger: what an entry can be, and how it is written down so that nobody can change it unseen.

pub mod decide;
pub mod drive;
pub mod drive_plan;
pub mod driven;
pub mod event;
pub mod facts;
pub mod line;
pub mod loop_event;
pub mod state;
pub mod transition;
