//! Wiring, as transcripts of the real binary: one file per command, per door and per theme.

mod support;

mod doctor;
mod hook;
mod init;
mod schema;
