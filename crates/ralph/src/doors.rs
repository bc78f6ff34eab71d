//! How the outside comes in: the hook of an agent client, and the command line.

pub(crate) mod cli;
pub(crate) mod hook;
