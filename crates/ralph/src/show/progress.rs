//! What happens in a driven loop, shown while it happens: the log, the live view, plain lines, JSON lines.

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
