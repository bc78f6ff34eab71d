//! Wiring, as transcripts of the real binary: one file per command, per door and per theme.

#![expect(clippy::disallowed_methods, reason = "a test has an environment of its own to look at")]

mod conversation;
mod driven;
mod forgery;
mod support;

mod attacks;
mod clients;
mod conformance;
mod diff;
mod doctor;
mod driver;
mod driver_kills;
mod follow;
mod gates;
mod gates_guide;
mod guard;
mod guide;
mod holes;
mod holes_process;
mod holes_small;
mod hook;
mod init;
mod interleavings;
mod laws;
mod layouts;
mod log;
mod plugin;
mod report;
mod reset;
mod rooms;
mod schema;
mod security_scan;
mod session_attacks;
mod session_loop;
mod session_words;
mod state;
mod status;
mod talk;
mod task_loop;
mod team;
mod tree;
mod trust;
mod upstream;
mod upstream_driver;
mod upstream_session;
mod verify;
