//! Integration tests with the real binary: one file per command, per entry point and per theme.

#![expect(clippy::disallowed_methods, reason = "a test has an environment of its own to look at")]

mod driven;
mod forgery;

/// The binary under test.
const RALPH: &str = env!("CARGO_BIN_EXE_ralph");

mod attacks;
mod audit;
mod clients;
mod conformance;
mod diff;
mod doctor;
mod driver;
mod driver_kills;
mod evidence;
mod faults;
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
mod prove;
mod report;
mod reset;
mod rooms;
mod schema;
mod security_scan;
mod seeds;
mod session_attacks;
mod session_loop;
mod session_words;
mod state;
mod status;
mod task_loop;
mod team;
mod texts;
mod trace;
mod tree;
mod trust;
mod type_names;
mod upstream;
mod upstream_driver;
mod upstream_session;
mod verify;
mod wording;
