//! The life cycle of a session loop: found, started, paused, resumed, cancelled. Transitions are decided in the core and
//! written to the ledger under the repo's lock.

mod agents;
pub(crate) mod event;
pub(crate) mod guard;
pub(crate) mod lifecycle;
mod loop_log;
pub(crate) mod member;
pub(crate) mod start;
pub(crate) mod stop;
mod tools;
mod user;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use ralph_core::ledger::event::{CancelCause, Event, ExportNote, PauseCause, Subject};
use ralph_core::ledger::state::{State, Status};
use ralph_core::ledger::transition::{Transition, apply};
use ralph_core::model::id::{LoopId, SessionId};
use ralph_core::say::feedback::Notice;
use ralph_core::say::lang::fill;

use crate::loops::report;
use crate::show::language;
use crate::store::exports::loop_file::{self, LoopFileOnDisk, LoopFileSeen};
use crate::store::home::Home;
use crate::store::ledger::Loop;
use crate::store::notices;
use crate::store::repo::Repo;
use crate::store::sessions::{self, Binding};
use crate::store::workspace::Workspace;
use crate::sys::clock;
use crate::sys::files::{self, Lock};
use crate::sys::proc::{self, Liveness};

/// One session loop.
#[derive(Clone, Debug)]
pub(crate) struct SessionLoop {
    pub(crate) workspace: Workspace,
    pub(crate) id: LoopId,
    pub(crate) state: State,
    /// What to say about its report once it has ended: where it is, or why there is none.
    report: Option<Result<String, String>>,
}

impl SessionLoop {
    /// The loop attached to a session; a loop whose file was deleted is cancelled.
    pub(crate) fn settle_of(home: &Home, session: &SessionId) -> io::Result<Option<Self>> {
        Self::for_stop(home, session)?.map_or(Ok(None), Self::cancel_if_deleted)
    }

    /// The same for a stop: the agent's last message tells what a deleted file means. A file that names another session's
    /// loop or one that is over counts for nothing.
    pub(crate) fn for_stop(home: &Home, session: &SessionId) -> io::Result<Option<Self>> {
        Ok(Self::bound_to(home, session)?.filter(Self::is_open))
    }

    /// The same for a caller that holds no lock, including a loop that is over: it ended outside this session's stops, or
    /// the process that ended it was killed before updating everything beside the ledger, which is done now.
    pub(crate) fn settle_for_stop(home: &Home, session: &SessionId) -> io::Result<Option<Self>> {
        let mut found = Self::bound_to(home, session)?;
        if let Some(over) = found.as_mut().filter(|found| !found.is_open()) {
            files::sweep_temporary(&over.dir());
            files::sweep_temporary(&home.sessions_dir());
            files::sweep_temporary(&home.logs_dir());
            over.write_end_report(&Status::Running);
            over.settle()?;
        }
        Ok(found)
    }

    /// The open loop of a session whose binding is lost: found by the ids of the loops it began and, if the repo has a loop
    /// file, among the most recently active loops, since the session may have taken one over.
    pub(crate) fn find_open(workspace: &Workspace, session: &SessionId) -> io::Result<Option<Self>> {
        const MOST_LOOKED_AT: usize = 20;
        let Workspace { repo, repo_home, .. } = workspace;
        let tag = start::session_tag(session);
        let is_begun_by_session =
            |id: &LoopId| id.as_str().rsplit('-').next().is_some_and(|end| end.starts_with(&tag));
        let mut candidates: Vec<LoopId> = repo_home.loop_names().filter(is_begun_by_session).collect();
        if repo.root.join(loop_file::PATH).exists() {
            candidates.extend(repo_home.loops().into_iter().take(MOST_LOOKED_AT));
        }
        for id in candidates {
            if !workspace.loop_of(&id).mentions(session.as_str().as_bytes()) {
                continue;
            }
            let found = Self::read(workspace, id)?;
            if let Some(found) = found.filter(|found| found.is_open() && found.is_attached_to(session)) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn is_attached_to(&self, session: &SessionId) -> bool {
        self.state.session.as_ref() == Some(session)
    }

    /// The loop that a session is bound to, open or not.
    fn bound_to(home: &Home, session: &SessionId) -> io::Result<Option<Self>> {
        let Some(Binding { root, id, .. }) = sessions::binding(home, session)? else { return Ok(None) };
        // The path is stored: an agent that moves the folder away keeps its loop.
        let found = Self::read(&Workspace::new(home, Repo::known(&root)), id)?;
        Ok(found.filter(|found| found.is_attached_to(session) || !found.is_open()))
    }

    /// The session loop with that id in a repo; cancelled if its file was deleted.
    pub(crate) fn settle_at(workspace: &Workspace, id: LoopId) -> io::Result<Option<Self>> {
        Self::read(workspace, id)?.map_or(Ok(None), Self::cancel_if_deleted)
    }

    fn read(workspace: &Workspace, id: LoopId) -> io::Result<Option<Self>> {
        let state = workspace.state_of(&id)?;
        let of_session = state.goal.is_some() && state.subject == Some(Subject::Session);
        Ok(of_session.then(|| Self { workspace: workspace.clone(), id, state, report: None }))
    }

    /// Every open session loop of a repo, most recently active first; those whose file was deleted are cancelled.
    pub(crate) fn settle_open_in(workspace: &Workspace) -> io::Result<Vec<Self>> {
        let mut open = Vec::new();
        for id in workspace.repo_home.loops() {
            let found = Self::settle_at(workspace, id)?;
            open.extend(found.filter(Self::is_open));
        }
        Ok(open)
    }

    /// The loops of a repo whose session is gone, which another session may claim.
    pub(crate) fn settle_orphaned_in(workspace: &Workspace) -> io::Result<Vec<Self>> {
        Ok(Self::settle_open_in(workspace)?.into_iter().filter(Self::is_orphaned).collect())
    }

    /// Whether its session is gone or never existed.
    pub(crate) fn is_orphaned(&self) -> bool {
        let is_dead =
            || self.state.client.as_ref().is_some_and(|client| proc::liveness(client) == Liveness::Gone);
        self.state.session.is_none() || self.state.detached.is_some() || is_dead()
    }

    /// Whether the user paused it or has to decide about it.
    pub(crate) fn waits_for_user(&self) -> bool {
        matches!(
            self.state.paused(),
            Some(PauseCause::Word | PauseCause::Command | PauseCause::Limit { .. } | PauseCause::Errors)
        )
    }

    /// Applies a transition and updates `self.state`. Returns whether anything changed.
    pub(crate) fn apply(&mut self, transition: &Transition) -> io::Result<bool> {
        let before = self.state.session.clone();
        let was = self.state.status.clone();
        let lock = self.lock()?;
        let now = clock::now();
        let handle = self.handle();
        let mut ledger = handle.open_with(&lock, now)?;
        let events = apply(ledger.state(), transition);
        if !events.is_empty() {
            self.bind_before_ledger(&events)?;
            ledger.append(now, &events)?;
            ledger.sweep();
        }
        self.state = ledger.state().clone();
        drop(ledger);
        let _best_effort = self.show();
        drop(lock);
        self.log_events(&events);
        // A loop that ends outside a stop is reported at the next one: the session is still bound to it.
        if self.is_open() {
            self.update_binding(before.as_ref())?;
        }
        self.write_end_report(&was);
        Ok(!events.is_empty())
    }

    /// Deleting a loop's file cancels the loop, and its session is notified.
    fn cancel_if_deleted(mut self) -> io::Result<Option<Self>> {
        let file = LoopFileOnDisk::new(&self.workspace.repo_home, &self.workspace.repo.root);
        if !self.is_open() || file.inspect(&self.id) != LoopFileSeen::Deleted {
            return Ok(Some(self));
        }
        let user = language::texts(&self.state, None).cancelled();
        let cancelled = self.apply(&Transition::Cancel(CancelCause::FileDeleted))?;
        if let (true, Some(session)) = (cancelled, &self.state.session) {
            let user = self.with_lost_report(user);
            notices::leave(&self.workspace.home, session, &Notice { user, agent: None })?;
        }
        Ok(None)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.state.is_open()
    }

    /// Writes the first event of a loop.
    pub(crate) fn begin(workspace: &Workspace, id: LoopId, events: &[Event]) -> io::Result<Self> {
        workspace.repo_home.create()?;
        let mut begun = Self { workspace: workspace.clone(), id, state: State::default(), report: None };
        let lock = begun.lock()?;
        begun.require_single_loop(events)?;
        let handle = begun.handle();
        let mut ledger = handle.open_with(&lock, clock::now())?;
        begun.bind_before_ledger(events)?;
        ledger.append(clock::now(), events)?;
        begun.state = ledger.state().clone();
        drop(ledger);
        let _best_effort = begun.show();
        drop(lock);
        begun.update_binding(None)?;
        begun.log_events(events);
        let _only_for_the_report = report::remember_start(&begun.workspace, &begun.id);
        Ok(begun)
    }

    /// Checked again under the lock, as another process may have been faster: one loop per session.
    fn require_single_loop(&self, events: &[Event]) -> io::Result<()> {
        for event in events {
            if let Event::Bound { session, .. } = event
                && Self::for_stop(&self.workspace.home, session)?.is_some()
            {
                let what = "another loop was started in this session at the same time";
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
            }
        }
        Ok(())
    }

    /// The ledger wins over an edited file; the difference is recorded.
    pub(crate) fn note_edited_file(&self, found: String) -> io::Result<()> {
        let what = ExportNote::Disagrees { ledger: self.state.attempts, found };
        Ok(self.handle().append(&[Event::ExportNoted { what }]).map(drop)?)
    }

    /// Reads the state again after another process wrote to the ledger, and updates everything beside it.
    pub(crate) fn settle(&mut self) -> io::Result<()> {
        let before = self.state.session.clone();
        let was = self.state.status.clone();
        let lock = self.lock()?;
        self.state = self.handle().state()?;
        let shown = self.show();
        drop(lock);
        self.write_end_report(&was);
        // Last: as long as a session is bound to a finished loop, its next stop retries the rest.
        if self.is_open() || shown.is_ok() { self.update_binding(before.as_ref()) } else { Ok(()) }
    }

    /// Writes the report of a loop that has just ended or was released at a limit; a pause by the user or a closed session
    /// is not an end. The end counts even if the report fails.
    fn write_end_report(&mut self, was: &Status) {
        let at_a_limit = matches!(self.state.paused(), Some(PauseCause::Limit { .. } | PauseCause::Errors));
        let is_released = match (was, &self.state.status) {
            (Status::Running | Status::Paused { .. }, Status::Ended { .. }) => true,
            (Status::Running, Status::Paused { .. }) => at_a_limit,
            _ => false,
        };
        if !is_released {
            return;
        }
        let words = language::of_loop(&self.state).words();
        let setting = report::setting(&self.workspace);
        self.report = match report::write(&self.workspace, &self.id, setting) {
            Ok(None) => None,
            Ok(Some(written)) => {
                Some(Ok(fill(words.report_written, &[("path", &written.markdown.display())])))
            }
            Err(error) => Some(Err(fill(words.report_lost, &[("why", &error)]))),
        };
    }

    /// The end message, followed by the note on its report.
    pub(crate) fn with_report(&self, message: String) -> String {
        match &self.report {
            Some(Ok(report) | Err(report)) => format!("{message}\n{report}"),
            None => message,
        }
    }

    /// The same for prescribed texts: adds only that a report was lost.
    pub(crate) fn with_lost_report(&self, message: String) -> String {
        match &self.report {
            Some(Err(_)) => self.with_report(message),
            Some(Ok(_)) | None => message,
        }
    }

    /// Exports it to the repo, or removes the export; the caller holds the lock. The ledger counts even if this fails.
    fn show(&self) -> io::Result<()> {
        let file = LoopFileOnDisk::new(&self.workspace.repo_home, &self.workspace.repo.root);
        match self.state.status {
            Status::Running | Status::Paused { .. } => file.write(&self.id, &self.state),
            Status::Fresh | Status::Ended { .. } => file.remove(&self.id),
        }
    }

    /// Binds a session to the loop it is about to carry, before the ledger says so; in the other order, a process killed in
    /// between would leave a loop that cannot be found.
    fn bind_before_ledger(&self, events: &[Event]) -> io::Result<()> {
        for event in events {
            if let Event::Bound { session, .. } = event {
                let binding = Binding { starting: true, ..self.binding() };
                sessions::bind(&self.workspace.home, session, &binding)?;
            }
        }
        Ok(())
    }

    fn binding(&self) -> Binding {
        Binding { root: self.workspace.repo.root.clone(), id: self.id.clone(), starting: false }
    }

    /// Updates the files that bind a session to its loop from the ledger.
    fn update_binding(&self, before: Option<&SessionId>) -> io::Result<()> {
        let over = matches!(self.state.status, Status::Ended { .. });
        let is_attached = |session: &SessionId| !over && self.state.session.as_ref() == Some(session);
        for session in [before, self.state.session.as_ref()].into_iter().flatten() {
            if is_attached(session) {
                sessions::bind(&self.workspace.home, session, &self.binding())?;
            } else if sessions::binding(&self.workspace.home, session)?
                .is_some_and(|bound| bound.id == self.id)
            {
                sessions::unbind(&self.workspace.home, session)?;
            }
        }
        Ok(())
    }

    /// Where another tool's loop file was moved, if it was in the place of this loop's file.
    pub(crate) fn loop_file_copied(&self) -> Option<String> {
        let copy =
            LoopFileOnDisk::new(&self.workspace.repo_home, &self.workspace.repo.root).copied_to(&self.id)?;
        Some(fill(language::of_loop(&self.state).words().loop_file_copied, &[("copy", &copy)]))
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.workspace.repo_home.loop_dir(&self.id)
    }

    fn lock(&self) -> io::Result<Lock> {
        self.workspace.repo_home.lock_state()
    }

    fn handle(&self) -> Arc<Loop> {
        self.workspace.loop_of(&self.id)
    }
}
