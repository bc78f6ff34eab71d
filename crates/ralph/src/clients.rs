//! Everything that is one agent client's: its hooks, its settings file, its tools, its variables.
//!
//! A client is a value of [`client::Client`]; [`list`] names all of them. A further client is a folder here, its wire in
//! the core, and a line in that list.

mod claude;
pub(crate) mod client;
pub(crate) mod hook_command;
pub(crate) mod installation;
pub(crate) mod installed;
pub(crate) mod language_servers;
pub(crate) mod list;
pub(crate) mod surroundings;
