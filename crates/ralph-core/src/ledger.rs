//! The ledger: what an entry can be, and how it is written down so that nobody can change it unseen.

pub mod event;
pub mod line;
