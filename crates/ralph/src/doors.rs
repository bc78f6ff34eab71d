//! The entry points: the hook of an agent client, and the command line.

pub(crate) mod cli;
pub(crate) mod hook;
