//! The checks that decide whether work is done.

pub(crate) mod gates;
#[allow(dead_code, reason = "the judge asks which changed files are sources once levels are decided")]
pub(crate) mod gates_on_views;
pub(crate) mod hygiene;
pub(crate) mod markers;
pub(crate) mod openspec;
pub(crate) mod promise;
pub(crate) mod prove;
pub(crate) mod quality_files;
pub(crate) mod ship;
pub(crate) mod tasks;
#[allow(dead_code, reason = "called by the judge once levels are decided")]
pub(crate) mod undo;
