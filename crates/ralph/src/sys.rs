//! The machine: processes, signals, files, the clock, the environment.

pub(crate) mod clock;
pub(crate) mod env;
pub(crate) mod files;
pub(crate) mod proc;
pub(crate) mod short_command;
pub(crate) mod signals;
pub(crate) mod trace;
