//! What "done" is made of.

pub(crate) mod gates;
pub(crate) mod hygiene;
pub(crate) mod markers;
pub(crate) mod openspec;
pub(crate) mod promise;
pub(crate) mod tasks;
