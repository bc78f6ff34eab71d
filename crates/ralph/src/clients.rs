//! Everything specific to one agent client: its hooks, settings file, tools and variables.
//!
//! A client is a value of [`client::Client`]; [`list`] names all of them. To add one, create a folder here, its wire format
//! in the core, and a line in that list.

mod claude;
pub(crate) mod client;
pub(crate) mod hook_command;
pub(crate) mod installation;
pub(crate) mod installed;
pub(crate) mod language_servers;
pub(crate) mod list;
pub(crate) mod source_systems;
pub(crate) mod surroundings;
