//! Live progress of a driven loop: the log, the live view, plain lines, JSON lines.

pub(crate) mod follow;
pub(crate) mod follower;
mod json;
pub(crate) mod lines;
mod log;
mod outbox;
pub(crate) mod plan;
#[cfg(test)]
pub(crate) mod sample;
pub(crate) mod view;

pub(crate) use log::append as append_to_log;
