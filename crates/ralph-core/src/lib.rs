//! The pure core of ralph: values in, decision out. No file, clock, environment, process or thread; its manifest and its
//! `clippy.toml` hold that.
//!
//! In reading order:
//! - [`id`], [`duration`]: names and lengths of time
//! - [`layout`], [`preset`], [`budget`]: what differs between repos and systems, as data
//! - [`config`]: what a repo asks for; [`gate`]: a command that passes or fails, its plan and its receipt
//! - [`wire`]: what clients say and hear
//! - [`detect`]: which gates a project could have
//! - [`marker`], [`export`]: claims and state of other layouts
//! - [`untrusted`], [`excerpt`], [`feedback`]: what the agent and the person are told
//! - [`event`], [`state`], [`facts`], [`verdict`]: what we remember, what is, what was seen, how it ends
//! - [`decide`](mod@decide): may it stop now?
//! - [`ledger_line`]: how an event is written down so that nobody can change it unseen

pub mod budget;
pub mod config;
pub mod decide;
pub mod detect;
pub mod duration;
pub mod event;
pub mod excerpt;
pub mod export;
pub mod facts;
pub mod feedback;
pub mod gate;
pub mod id;
pub mod layout;
pub mod ledger_line;
pub mod marker;
pub mod preset;
pub mod state;
pub mod untrusted;
pub mod verdict;
pub mod wire;
