//! Recorded state under `~/.ralph`, and files exported to a repo.

pub(crate) mod acceptance;
pub(crate) mod effective_gates;
pub(crate) mod exports;
pub(crate) mod home;
pub(crate) mod ledger;
mod ledger_heads;
pub(crate) mod notices;
pub(crate) mod repo;
pub(crate) mod rewritten_files;
pub(crate) mod sessions;
pub(crate) mod settings;
pub(crate) mod start_contents;
pub(crate) mod trust;
pub(crate) mod workspace;
