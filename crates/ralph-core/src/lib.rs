//! The pure core of ralph: values in, decision out. No file, clock, environment, process or thread; its manifest and its
//! `clippy.toml` hold that.
//!
//! In reading order; each room uses only those above it:
//! - [`model`]: the words of the domain: gate, budget, preset, verdict, layout
//! - [`clients`]: what each agent client says, prints and is called with
//! - [`config`]: what a repo and its user ask for
//! - [`claims`]: what agents, users, files and the output of commands state
//! - [`ledger`]: what is remembered, and what follows from it: may it stop now, and what comes next
//! - [`say`]: every sentence that a user or an agent reads

pub mod claims;
pub mod clients;
pub mod config;
pub mod ledger;
pub mod model;
pub mod say;
