//! Receives the events of a driven loop. Its errors never affect the loop.

use ralph_core::ledger::loop_event::LoopEvent;

pub(crate) trait Follower {
    fn receive(&mut self, event: &LoopEvent);
}

/// For a loop without followers.
pub(crate) struct NoFollower;

impl Follower for NoFollower {
    fn receive(&mut self, _event: &LoopEvent) {}
}
