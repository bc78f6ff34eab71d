//! The files of a repo: their fingerprint, git's view of them, and their checkpoints.

pub(crate) mod base;
pub(crate) mod checkpoint;
pub(crate) mod fingerprint;
pub(crate) mod git;
pub(crate) mod view;
