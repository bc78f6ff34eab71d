//! The checks that decide whether work is done.

pub(crate) mod gates;
pub(crate) mod gates_on_views;
pub(crate) mod hygiene;
pub(crate) mod markers;
pub(crate) mod openspec;
pub(crate) mod promise;
pub(crate) mod prove;
pub(crate) mod quality_files;
pub(crate) mod ship;
pub(crate) mod tasks;
pub(crate) mod undo;
