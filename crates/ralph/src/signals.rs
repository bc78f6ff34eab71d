//! Being told to end: a signal becomes a request to stop the gates, whose whole tree dies first, then we do.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals as Caught;

use crate::proc::Stop;

/// Watches for signals from when it is made on.
#[derive(Clone, Debug)]
pub(crate) struct Signals {
    pub(crate) stop: Stop,
    caught: Arc<AtomicI32>,
}

impl Signals {
    pub(crate) fn watch() -> Self {
        let signals = Self { stop: Stop::new(), caught: Arc::default() };
        let watcher = signals.clone();
        // Without the watcher the default holds: a signal ends us, and whoever sent it ends our children too.
        if let Ok(mut caught) = Caught::new([SIGINT, SIGTERM, SIGHUP]) {
            let _no_room_for_a_thread = std::thread::Builder::new().spawn(move || {
                for signal in caught.forever() {
                    watcher.caught.store(signal, Ordering::SeqCst);
                    watcher.stop.ask();
                }
            });
        }
        signals
    }

    /// The signal that asked us to end, if one did.
    pub(crate) fn caught(&self) -> Option<i32> {
        Some(self.caught.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
    }
}
