//! The wish to end early, shared by all who run a job.
//!
//! Asking reaches every listener as a message in the inbox it already waits on, so nobody has to look again and
//! again. Once asked it stays asked: a job that comes later is not begun.

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
    fn tell(&self, event: ProcessEvent) {
        for (_, inbox) in &self.inboxes {
            // A listener that has just finished is not sorry to miss it.
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
        listeners.tell(ProcessEvent::StopAsked);
    }

    /// Asked for the second time: nobody is waited for any more.
    pub(crate) fn insist(&self) {
        let mut listeners = self.lock();
        (listeners.asked, listeners.insisted) = (true, true);
        listeners.tell(ProcessEvent::StopInsisted);
    }

    pub(crate) fn asked(&self) -> bool {
        self.lock().asked
    }

    pub(crate) fn insisted(&self) -> bool {
        self.lock().insisted
    }

    /// Waits for it, for at most `time`; whether it was asked.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let (sender, inbox) = mpsc::channel();
        let _listening = self.listen(sender);
        inbox.recv_timeout(time).is_ok()
    }

    /// From now until the answer is dropped `inbox` hears of [`Stop::ask`]; at once if it was asked already.
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
