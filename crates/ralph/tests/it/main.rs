//! Wiring, as transcripts of the real binary: one file per command, per door and per theme.

#![expect(clippy::disallowed_methods, reason = "a test has an environment of its own to look at")]

mod support;

mod attacks;
mod conformance;
mod doctor;
mod gates;
mod hook;
mod init;
mod laws;
mod layouts;
mod log;
mod reset;
mod schema;
mod status;
mod tree;
mod trust;
mod upstream;
mod verify;
