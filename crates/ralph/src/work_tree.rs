//! The files of a repo as they are: their fingerprint, what git knows of them, and the trees that are kept of them.

pub(crate) mod checkpoint;
pub(crate) mod fingerprint;
pub(crate) mod git;
