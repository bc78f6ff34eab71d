//! The pure core of ralph: values in, decision out. No files, clocks, environment, processes or threads; its manifest
//! and `clippy.toml` enforce that.
//!
//! In reading order; each module uses only those above it:
//! - [`model`]: the domain types: gate, budget, preset, verdict, layout
//! - [`clients`]: each agent client's hooks, output and command line
//! - [`config`]: the settings of a repo and its user
//! - [`claims`]: what agents, users, files and command output state, parsed
//! - [`ledger`]: the stored events and what follows from them: whether a stop is allowed and what comes next
//! - [`say`]: every sentence that a user or an agent reads

pub mod claims;
pub mod clients;
pub mod config;
pub mod ledger;
pub mod model;
pub mod say;
