//! Who is told what happens in a driven loop. Whatever goes wrong there never reaches the loop.

use ralph_core::ledger::loop_event::LoopEvent;

pub(crate) trait Follower {
    fn receive(&mut self, event: &LoopEvent);
}

/// For a loop that nothing follows.
pub(crate) struct NoFollower;

impl Follower for NoFollower {
    fn receive(&mut self, _event: &LoopEvent) {}
}
