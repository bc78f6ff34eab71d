//! Everything that is one agent client's: its settings file, its tools, its variables.

pub(crate) mod claude;
pub(crate) mod installed;
pub(crate) mod language_servers;
