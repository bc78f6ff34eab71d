//! One event of a client's session, with everything needed to answer it. The sibling files handle the individual events.

use std::cell::OnceCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ralph_core::clients::hook::{HookCall, HookReply};
use ralph_core::ledger::event::ProcessIdentity;
use ralph_core::ledger::transition::AttachedSession;
use ralph_core::model::id::SessionId;
use ralph_core::say::feedback::Notice;

use crate::checks::gates::GateObserver;
use crate::clients::client::Client;
use crate::loops::ancestry;
use crate::loops::judge::JudgeOptions;
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

/// Why a stop is allowed without a check although the subject may be guarded. Always reported.
#[derive(Debug)]
pub(crate) struct NotChecked(pub(crate) String);

impl<E: std::error::Error> From<E> for NotChecked {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// How often the same notice is shown in a session.
pub(crate) enum NoticeFrequency {
    EveryTime,
    OnceASession,
}

/// Shows a notice at the session's next event if it cannot be shown now.
pub(crate) fn notify_later(call: &HookCall, line: &str, often: NoticeFrequency) {
    let (Some(session), Ok(home)) = (&call.session, Home::find()) else { return };
    let _best_effort = match often {
        NoticeFrequency::OnceASession => notices::leave_once(&home, session, line),
        NoticeFrequency::EveryTime => {
            notices::leave(&home, session, &Notice { user: line.to_owned(), agent: None })
        }
    };
}

/// Records a gate run before it starts, so that a kill of this process is noticed.
pub(crate) struct RunNotice<'a> {
    pub(crate) home: &'a Home,
    pub(crate) session: &'a SessionId,
    pub(crate) agent: &'a str,
    /// Where the verdict will be written.
    pub(crate) ledger: PathBuf,
    pub(crate) written: bool,
}

impl RunNotice<'_> {
    /// The gates have run or were not needed: leaves the result as a notice. The decision is already in the ledger, so a notice
    /// that cannot be written does not change it.
    pub(crate) fn end(&self, notice: Option<&Notice>) {
        let _lost_with_a_full_disk = match notice {
            _ if self.written => notices::gates_end(self.home, self.session, notice),
            Some(notice) => notices::leave(self.home, self.session, notice),
            None => Ok(()),
        };
    }
}

impl GateObserver for RunNotice<'_> {
    fn tree(&mut self, _tree: &Arc<Tree>) {
        self.written = notices::gates_begin(self.home, self.session, self.agent, &self.ledger).is_ok();
    }
}

/// One event of a session, with everything needed to answer it.
pub(crate) struct SessionEvent<'a> {
    pub(crate) client: &'static Client,
    pub(crate) call: &'a HookCall,
    pub(crate) session: &'a SessionId,
    pub(crate) home: &'a Home,
    pub(crate) options: &'a HookOptions,
    pub(crate) deadline: Instant,
    /// The repo of the session's folder, once looked up.
    pub(crate) found: OnceCell<Option<Workspace>>,
}

impl SessionEvent<'_> {
    /// The session's working folder.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        self.client.folder_of(self.call)
    }

    /// The client process that called us.
    pub(crate) fn client_process(&self) -> Option<ProcessIdentity> {
        ancestry::client_of_hook(self.client)
    }

    /// This session, with the process of its client.
    pub(crate) fn attached_session(&self) -> AttachedSession {
        AttachedSession { session: self.session.clone(), client: self.client_process() }
    }

    /// The repo of the session's folder, looked up once because a stop needs it several times.
    pub(crate) fn workspace(&self) -> Result<Option<&Workspace>, NotChecked> {
        if self.found.get().is_none() {
            let folder = self.folder();
            let found = folder.map_or(Ok(None), |folder| Workspace::find(self.home, &folder))?;
            let _unset_before = self.found.set(found.map(|workspace| self.with_options(workspace)));
        }
        Ok(self.found.get().and_then(Option::as_ref))
    }

    /// The reply with the session's pending notices.
    pub(crate) fn with_notices(&self, reply: HookReply) -> HookReply {
        let joined = |notice: Option<String>, own: Option<String>| match (notice, own) {
            (Some(notice), Some(own)) => Some(format!("{notice}\n{own}")),
            (notice, own) => notice.or(own),
        };
        // Notices that this reply cannot show stay pending: a reply to the user does not reach the agent.
        let mut audience = (self.client.wire.audience)(self.call);
        audience.agent &= matches!(reply, HookReply::Silent | HookReply::Notify { .. });
        if matches!(reply, HookReply::Deny { .. }) {
            return reply;
        }
        match (reply, notices::deliver(self.home, self.session, audience, self.call.agent.is_some())) {
            (HookReply::Silent, waiting) => waiting,
            (HookReply::Answer { user }, HookReply::Notify { user: Some(waiting), .. }) => {
                HookReply::Answer { user: format!("{waiting}\n{user}") }
            }
            (HookReply::Notify { user, agent }, HookReply::Notify { user: p, agent: a }) => {
                HookReply::Notify { user: joined(p, user), agent: joined(a, agent) }
            }
            (HookReply::Block { reason, detail, user }, HookReply::Notify { user: p, .. }) => {
                HookReply::Block { reason, detail, user: joined(p, user) }
            }
            (reply, _) => reply,
        }
    }
}

/// The judge options of a hook.
pub(crate) fn judge_options(call: &HookCall, deadline: Instant) -> JudgeOptions<'_> {
    JudgeOptions {
        arrived: clock::now(),
        deadline: Some(deadline),
        last_message: &call.last_message,
        jobs: None,
        keep_going: false,
        fresh: false,
        signals: None,
    }
}
