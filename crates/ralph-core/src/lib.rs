//! The pure core of ralph: values in, decision out. No file, clock, environment, process or thread; its manifest and its
//! `clippy.toml` hold that.
//!
//! In reading order:
//! - [`id`], [`duration`]: names and lengths of time
//! - [`layout`], [`preset`], [`budget`]: what differs between repos and systems, as data
//! - [`config`]: what a repo asks for; [`gate`]: a command that passes or fails, its outcome, plan and receipt
//! - [`detect`]: which gates a project could have
//! - [`wire`]: what clients say and hear
//! - [`completion_marker`], [`state_file`]: claims and state of other layouts
//! - [`foreign_text`], [`secrets`], [`excerpt`], [`feedback`]: what the agent and the person are told
//! - [`ledger`], [`state`], [`facts`], [`verdict`]: what we remember, what is, what was seen, how it ends
//! - [`decide`](mod@decide): may it stop now?

pub mod budget;
pub mod completion_marker;
pub mod config;
pub mod decide;
pub mod detect;
pub mod duration;
pub mod excerpt;
pub mod facts;
pub mod feedback;
pub mod foreign_text;
pub mod gate;
pub mod id;
pub mod layout;
pub mod ledger;
pub mod preset;
pub mod secrets;
pub mod state;
pub mod state_file;
pub mod verdict;
pub mod wire;
