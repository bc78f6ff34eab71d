//! Termination signals: they become a request to stop the gates; ralph exits after their process trees have ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals as Caught;

use crate::sys::proc::StopRequest;

/// Watches for signals from its creation on.
#[derive(Clone, Debug)]
pub(crate) struct Signals {
    pub(crate) stop: StopRequest,
    caught: Arc<AtomicI32>,
    freed: Arc<AtomicBool>,
}

impl Signals {
    /// Watches nothing.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self { stop: StopRequest::new(), caught: Arc::default(), freed: Arc::default() }
    }

    pub(crate) fn watch() -> Self {
        let signals = Self { stop: StopRequest::new(), caught: Arc::default(), freed: Arc::default() };
        let watcher = signals.clone();
        // Without the watcher the default action applies: a signal terminates ralph, and its sender also terminates
        // our children.
        if let Ok(mut caught) = Caught::new([SIGINT, SIGTERM, SIGHUP]) {
            let _no_room_for_a_thread = thread::Builder::new().spawn(move || {
                for signal in caught.forever() {
                    let first = watcher.caught.swap(signal, Ordering::SeqCst) == 0;
                    if first { watcher.stop.ask() } else { watcher.stop.insist() }
                }
            });
        }
        signals
    }

    /// Stops the gates of a session that the user paused or cancelled.
    pub(crate) fn free(&self) {
        self.freed.store(true, Ordering::SeqCst);
        self.stop.ask();
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.freed.load(Ordering::SeqCst)
    }

    /// Waits up to `time` for a pending signal.
    pub(crate) fn wait(&self, time: Duration) {
        let begun = Instant::now();
        while self.caught().is_none() && begun.elapsed() < time {
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// The signal that requested termination, if any.
    pub(crate) fn caught(&self) -> Option<i32> {
        Some(self.caught.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
    }
}
