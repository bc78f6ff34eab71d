//! One event of a client's session, and all that is needed to answer it. What each event means is in the files beside this
//! one.

use std::cell::OnceCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ralph_core::clients::hook::{HookCall, HookReply};
use ralph_core::ledger::event::ProcessIdentity;
use ralph_core::ledger::transition::Carrier;
use ralph_core::model::id::SessionId;
use ralph_core::say::feedback::Notice;

use crate::checks::gates::Watch;
use crate::clients::client::Client;
use crate::loops::ancestry;
use crate::loops::judge::{self, Asked};
use crate::store::home::Home;
use crate::store::notices;
use crate::store::workspace::Workspace;
use crate::sys::clock;
use crate::work_tree::fingerprint::Tree;

/// How the hook was called.
#[derive(Debug, Default)]
pub(crate) struct HookOptions {
    pub(crate) deadline: Option<Duration>,
    pub(crate) gate_timeout: Option<String>,
}

/// Why a stop goes through although it may have been somebody to hold. Told, never silent.
#[derive(Debug)]
pub(crate) struct NotChecked(pub(crate) String);

impl<E: std::error::Error> From<E> for NotChecked {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// How often the same words are told in a session.
pub(crate) enum Often {
    EveryTime,
    OnceASession,
}

/// What could not be shown now is shown at the session's next event.
pub(crate) fn tell_later(call: &HookCall, line: &str, often: Often) {
    let (Some(session), Ok(home)) = (&call.session, Home::find()) else { return };
    let _lost_with_a_full_disk = match often {
        Often::OnceASession => notices::leave_once(&home, session, line),
        Often::EveryTime => notices::leave(&home, session, &Notice { person: line.to_owned(), agent: None }),
    };
}

/// Says that gates are being run before they are, so that a kill of this process is noticed.
pub(crate) struct WriteAhead<'a> {
    pub(crate) home: &'a Home,
    pub(crate) session: &'a SessionId,
    pub(crate) agent: &'a str,
    /// Where the verdict will be.
    pub(crate) ledger: PathBuf,
    pub(crate) written: bool,
}

impl Watch for WriteAhead<'_> {
    fn tree(&mut self, _tree: &Arc<Tree>) {
        self.written = notices::gates_begin(self.home, self.session, self.agent, &self.ledger).is_ok();
    }
}

/// One event of a session, and all that is needed to answer it. What it means is in the files beside this one.
pub(crate) struct SessionEvent<'a> {
    pub(crate) client: &'static Client,
    pub(crate) call: &'a HookCall,
    pub(crate) session: &'a SessionId,
    pub(crate) home: &'a Home,
    pub(crate) options: &'a HookOptions,
    pub(crate) deadline: Instant,
    /// The repo that the session's folder lies in, once somebody asked.
    pub(crate) found: OnceCell<Option<Workspace>>,
}

impl SessionEvent<'_> {
    /// The folder that the session works in.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        self.client.folder_of(self.call)
    }

    /// The process of the client that called us.
    pub(crate) fn client_process(&self) -> Option<ProcessIdentity> {
        ancestry::client_of_hook(self.client)
    }

    /// This session, with the process of its client.
    pub(crate) fn carrier(&self) -> Carrier {
        Carrier { session: self.session.clone(), client: self.client_process() }
    }

    /// The repo that the session's folder lies in. It is looked for once: a stop asks more than once.
    pub(crate) fn workspace(&self) -> Result<Option<&Workspace>, NotChecked> {
        if self.found.get().is_none() {
            let folder = self.folder();
            let found = folder.map_or(Ok(None), |folder| Workspace::find(self.home, &folder))?;
            let _first_asked = self.found.set(found.map(|workspace| self.with_options(workspace)));
        }
        Ok(self.found.get().and_then(Option::as_ref))
    }

    /// The answer with what the session has yet to be told.
    pub(crate) fn with_what_waits(&self, reply: HookReply) -> HookReply {
        let told = |notice: Option<String>, own: Option<String>| match (notice, own) {
            (Some(notice), Some(own)) => Some(format!("{notice}\n{own}")),
            (notice, own) => notice.or(own),
        };
        // What nobody hears now goes on waiting: an answer to the person does not reach the agent.
        let mut audience = (self.client.wire.audience)(self.call);
        audience.agent &= matches!(reply, HookReply::Silent | HookReply::Tell { .. });
        if matches!(reply, HookReply::Deny { .. }) {
            return reply;
        }
        match (reply, notices::deliver(self.home, self.session, audience, self.call.agent.is_some())) {
            (HookReply::Silent, waiting) => waiting,
            (HookReply::Answer { person }, HookReply::Tell { person: Some(waiting), .. }) => {
                HookReply::Answer { person: format!("{waiting}\n{person}") }
            }
            (HookReply::Tell { person, agent }, HookReply::Tell { person: p, agent: a }) => {
                HookReply::Tell { person: told(p, person), agent: told(a, agent) }
            }
            (HookReply::Block { reason, detail, person }, HookReply::Tell { person: p, .. }) => {
                HookReply::Block { reason, detail, person: told(p, person) }
            }
            (reply, _) => reply,
        }
    }
}

/// How the checks are looked at for a hook.
pub(crate) fn asked(call: &HookCall, deadline: Instant) -> Asked<'_> {
    Asked {
        arrived: clock::now(),
        deadline: Some(deadline),
        last_message: &call.last_message,
        jobs: judge::jobs(),
        keep_going: false,
        fresh: false,
        signals: None,
    }
}
