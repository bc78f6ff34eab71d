//! A request to stop early, shared by all running jobs.
//!
//! It reaches every listener as a message in the inbox it already waits on, so no polling is needed. Once requested
//! it stays requested: later jobs are not started.

use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::supervisor::ProcessEvent;

#[derive(Debug, Clone, Default)]
pub(crate) struct StopRequest(Arc<Mutex<Listeners>>);

#[derive(Debug, Default)]
struct Listeners {
    asked: bool,
    insisted: bool,
    next: u64,
    inboxes: Vec<(u64, Sender<ProcessEvent>)>,
}

impl Listeners {
    fn send(&self, event: ProcessEvent) {
        for (_, inbox) in &self.inboxes {
            // A listener that has just finished does not need it.
            inbox.send(event.clone()).ok();
        }
    }
}

impl StopRequest {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn ask(&self) {
        let mut listeners = self.lock();
        listeners.asked = true;
        listeners.send(ProcessEvent::StopAsked);
    }

    /// Second request: stop without waiting.
    pub(crate) fn insist(&self) {
        let mut listeners = self.lock();
        (listeners.asked, listeners.insisted) = (true, true);
        listeners.send(ProcessEvent::StopInsisted);
    }

    pub(crate) fn is_requested(&self) -> bool {
        self.lock().asked
    }

    pub(crate) fn insisted(&self) -> bool {
        self.lock().insisted
    }

    /// Waits for the request for at most `time`; returns whether it was made.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let (sender, inbox) = mpsc::channel();
        let _listening = self.listen(sender);
        inbox.recv_timeout(time).is_ok()
    }

    /// Until the returned value is dropped, `inbox` receives a message at [`StopRequest::ask`]; immediately if it was
    /// already asked.
    pub(super) fn listen(&self, inbox: Sender<ProcessEvent>) -> Listening {
        let mut listeners = self.lock();
        let id = listeners.next;
        listeners.next += 1;
        if listeners.asked {
            inbox.send(ProcessEvent::StopAsked).ok();
        }
        if listeners.insisted {
            inbox.send(ProcessEvent::StopInsisted).ok();
        }
        listeners.inboxes.push((id, inbox));
        Listening { stop: self.clone(), id }
    }

    fn lock(&self) -> MutexGuard<'_, Listeners> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Listening {
    stop: StopRequest,
    id: u64,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop.lock().inboxes.retain(|(id, _)| *id != self.id);
    }
}
