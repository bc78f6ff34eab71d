//! The life of a session loop: found, started, paused, carried on, cancelled. The doors ask here; what happens is
//! decided in the core and written to the ledger under the repo's lock.

mod agents;
pub(crate) mod event;
pub(crate) mod guard;
mod lifecycle;
pub(crate) mod member;
pub(crate) mod start;
pub(crate) mod stop;
mod tools;
mod user;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use ralph_core::ledger::event::{CancelCause, Event, ExportOddity, PauseCause, Subject};
use ralph_core::ledger::state::{State, Status};
use ralph_core::ledger::transition::{Happening, happen};
use ralph_core::model::id::{LoopId, SessionId};
use ralph_core::say::feedback::Notice;
use ralph_core::say::lang::fill;

use crate::loops::report;
use crate::show::language;
use crate::store::exports::loop_file::{self, LoopFileSeen, OnDisk};
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
    /// What there is to tell of its report, once it has ended: where it stands, or why there is none.
    report: Option<Result<String, String>>,
}

impl SessionLoop {
    /// The loop that a session carries; one whose file was deleted is cancelled.
    pub(crate) fn settle_of(home: &Home, session: &SessionId) -> io::Result<Option<Self>> {
        Self::of_stopping(home, session)?.map_or(Ok(None), Self::cancel_if_deleted)
    }

    /// The same for a stop: its message says what a deleted file means. A file that points to a loop of somebody else, or
    /// to one that is over, says nothing.
    pub(crate) fn of_stopping(home: &Home, session: &SessionId) -> io::Result<Option<Self>> {
        Ok(Self::bound_to(home, session)?.filter(Self::is_open))
    }

    /// The same for a caller that holds no lock, with a loop that is over: it ended outside of this session's stops, or who ended
    /// it was killed before everything beside the ledger said so. Now it does.
    pub(crate) fn settle_stopping(home: &Home, session: &SessionId) -> io::Result<Option<Self>> {
        let mut found = Self::bound_to(home, session)?;
        if let Some(over) = found.as_mut().filter(|found| !found.is_open()) {
            files::sweep_temporary(&over.dir());
            files::sweep_temporary(&home.sessions_dir());
            over.report_its_end(&Status::Running);
            over.settle()?;
        }
        Ok(found)
    }

    /// The open loop of a session whose way to it is gone: by the names of the loops that it began, and where the file of a
    /// loop is in the repo also among those that were last active, since it may have taken over another session's.
    pub(crate) fn find_open(workspace: &Workspace, session: &SessionId) -> io::Result<Option<Self>> {
        const MOST_LOOKED_AT: usize = 20;
        let Workspace { repo, repo_home, .. } = workspace;
        let tag = start::session_tag(session);
        let began_it = |id: &LoopId| id.as_str().rsplit('-').next().is_some_and(|end| end.starts_with(&tag));
        let mut candidates: Vec<LoopId> = repo_home.loop_names().filter(began_it).collect();
        if repo.root.join(loop_file::PATH).exists() {
            candidates.extend(repo_home.loops().into_iter().take(MOST_LOOKED_AT));
        }
        for id in candidates {
            if !workspace.loop_of(&id).mentions(session.as_str().as_bytes()) {
                continue;
            }
            let found = Self::read(workspace, id)?;
            if let Some(found) = found.filter(|found| found.is_open() && found.is_carried_by(session)) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn is_carried_by(&self, session: &SessionId) -> bool {
        self.state.session.as_ref() == Some(session)
    }

    /// The loop that a session is led to, over or not.
    fn bound_to(home: &Home, session: &SessionId) -> io::Result<Option<Self>> {
        let Some(Binding { root, id }) = sessions::binding(home, session)? else { return Ok(None) };
        // Not by what lies there now: an agent that moves the folder away does not lose the loop with it.
        let found = Self::read(&Workspace::new(home, Repo::known(&root)), id)?;
        Ok(found.filter(|found| found.is_carried_by(session) || !found.is_open()))
    }

    /// The session loop of that id in a repo; one whose file was deleted is cancelled.
    pub(crate) fn settle_at(workspace: &Workspace, id: LoopId) -> io::Result<Option<Self>> {
        Self::read(workspace, id)?.map_or(Ok(None), Self::cancel_if_deleted)
    }

    fn read(workspace: &Workspace, id: LoopId) -> io::Result<Option<Self>> {
        let state = workspace.state_of(&id)?;
        let of_session = state.goal.is_some() && state.subject == Some(Subject::Session);
        Ok(of_session.then(|| Self { workspace: workspace.clone(), id, state, report: None }))
    }

    /// Every session loop of a repo that is not over, the one last active first; those whose file was deleted are cancelled.
    pub(crate) fn settle_open_in(workspace: &Workspace) -> io::Result<Vec<Self>> {
        let mut open = Vec::new();
        for id in workspace.repo_home.loops() {
            let found = Self::settle_at(workspace, id)?;
            open.extend(found.filter(Self::is_open));
        }
        Ok(open)
    }

    /// The loops of a repo whose session is gone: another may claim them.
    pub(crate) fn settle_orphaned_in(workspace: &Workspace) -> io::Result<Vec<Self>> {
        Ok(Self::settle_open_in(workspace)?.into_iter().filter(Self::is_orphaned).collect())
    }

    /// Whether the session that carried it is gone, or there never was one.
    pub(crate) fn is_orphaned(&self) -> bool {
        let is_dead =
            || self.state.client.as_ref().is_some_and(|client| proc::liveness(client) == Liveness::Gone);
        self.state.session.is_none() || self.state.gone.is_some() || is_dead()
    }

    /// Whether it was paused by a person, or for one to decide.
    pub(crate) fn waits_for_a_person(&self) -> bool {
        matches!(
            self.state.paused(),
            Some(PauseCause::Word | PauseCause::Command | PauseCause::Limit { .. } | PauseCause::Errors)
        )
    }

    /// Takes up what happened. The state afterwards is in `self`; whether it made a difference is told.
    pub(crate) fn happen(&mut self, happening: &Happening) -> io::Result<bool> {
        let before = self.state.session.clone();
        let was = self.state.status.clone();
        let lock = self.lock()?;
        let now = clock::now();
        let handle = self.handle();
        let mut ledger = handle.open_with(&lock, now)?;
        let events = happen(ledger.state(), happening);
        if !events.is_empty() {
            self.bind_ahead(&events)?;
            ledger.append(now, &events)?;
            ledger.sweep();
        }
        self.state = ledger.state().clone();
        drop(ledger);
        let _only_shown = self.show();
        drop(lock);
        // A loop that ends here, outside of a stop, is told at the next one: the session is still led to it.
        if self.is_open() {
            self.keep_binding(before.as_ref())?;
        }
        self.report_its_end(&was);
        Ok(!events.is_empty())
    }

    /// Deleting the file of a loop cancels it, and its session is notified.
    fn cancel_if_deleted(mut self) -> io::Result<Option<Self>> {
        let file = OnDisk::new(&self.workspace.repo_home, &self.workspace.repo.root);
        if !self.is_open() || file.look(&self.id) != LoopFileSeen::Deleted {
            return Ok(Some(self));
        }
        let person = language::telling(&self.state, None).cancelled();
        let cancelled = self.happen(&Happening::Cancel(CancelCause::FileDeleted))?;
        if let (true, Some(session)) = (cancelled, &self.state.session) {
            let person = self.with_lost_report(person);
            notices::leave(&self.workspace.home, session, &Notice { person, agent: None })?;
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
        begun.must_be_the_only_one(events)?;
        let handle = begun.handle();
        let mut ledger = handle.open_with(&lock, clock::now())?;
        begun.bind_ahead(events)?;
        ledger.append(clock::now(), events)?;
        begun.state = ledger.state().clone();
        drop(ledger);
        let _only_shown = begun.show();
        drop(lock);
        begun.keep_binding(None)?;
        Ok(begun)
    }

    /// Checked again under the lock, as another process may have been faster: a session carries one loop.
    fn must_be_the_only_one(&self, events: &[Event]) -> io::Result<()> {
        for event in events {
            if let Event::Bound { session, .. } = event
                && Self::of_stopping(&self.workspace.home, session)?.is_some()
            {
                let what = "another loop was started in this session meanwhile";
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
            }
        }
        Ok(())
    }

    /// The ledger wins over a file that somebody edited, and the disagreement is remembered.
    pub(crate) fn note_edited_file(&self, found: String) -> io::Result<()> {
        let what = ExportOddity::Disagrees { ledger: self.state.attempts, found };
        Ok(self.handle().append(&[Event::ExportNoted { what }]).map(drop)?)
    }

    /// Looks again after somebody else wrote to the ledger, and lets everything beside it say the same.
    pub(crate) fn settle(&mut self) -> io::Result<()> {
        let before = self.state.session.clone();
        let was = self.state.status.clone();
        let lock = self.lock()?;
        self.state = self.handle().state()?;
        let shown = self.show();
        drop(lock);
        self.report_its_end(&was);
        // Last: as long as a session leads to a loop that is over, its next stop tries the rest again.
        if self.is_open() || shown.is_ok() { self.keep_binding(before.as_ref()) } else { Ok(()) }
    }

    /// Writes the report of a loop that has just ended, or was released at a limit. A person who pauses it, or a session that
    /// goes away, ends nothing. The end holds, whether or not there is a report of it.
    fn report_its_end(&mut self, was: &Status) {
        let at_a_limit = matches!(self.state.paused(), Some(PauseCause::Limit { .. } | PauseCause::Errors));
        let is_let_go = match (was, &self.state.status) {
            (Status::Running | Status::Paused { .. }, Status::Ended { .. }) => true,
            (Status::Running, Status::Paused { .. }) => at_a_limit,
            _ => false,
        };
        if !is_let_go {
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

    /// What is told of its end, with what there is to tell of its report.
    pub(crate) fn with_report(&self, told: String) -> String {
        match &self.report {
            Some(Ok(report) | Err(report)) => format!("{told}\n{report}"),
            None => told,
        }
    }

    /// The same for words that people know by heart: only a report that was lost is told.
    pub(crate) fn with_lost_report(&self, told: String) -> String {
        match &self.report {
            Some(Err(_)) => self.with_report(told),
            Some(Ok(_)) | None => told,
        }
    }

    /// Shows it in the repo, or takes away what was shown; the caller has the lock. What stands in the ledger holds,
    /// whether or not it can be shown.
    fn show(&self) -> io::Result<()> {
        let file = OnDisk::new(&self.workspace.repo_home, &self.workspace.repo.root);
        match self.state.status {
            Status::Running | Status::Paused { .. } => file.write(&self.id, &self.state),
            Status::Fresh | Status::Ended { .. } => file.remove(&self.id),
        }
    }

    /// Leads a session to the loop that it is about to carry. Until the ledger says so too, that leads nowhere; the other
    /// way round, a process killed between the two would leave a loop that nobody finds.
    fn bind_ahead(&self, events: &[Event]) -> io::Result<()> {
        for event in events {
            if let Event::Bound { session, .. } = event {
                sessions::bind(&self.workspace.home, session, &self.binding())?;
            }
        }
        Ok(())
    }

    fn binding(&self) -> Binding {
        Binding { root: self.workspace.repo.root.clone(), id: self.id.clone() }
    }

    /// Lets the files that lead from a session to its loop say what the ledger says.
    fn keep_binding(&self, before: Option<&SessionId>) -> io::Result<()> {
        let over = matches!(self.state.status, Status::Ended { .. });
        let carries = |session: &SessionId| !over && self.state.session.as_ref() == Some(session);
        for session in [before, self.state.session.as_ref()].into_iter().flatten() {
            if carries(session) {
                sessions::bind(&self.workspace.home, session, &self.binding())?;
            } else if sessions::binding(&self.workspace.home, session)?
                .is_some_and(|bound| bound.id == self.id)
            {
                sessions::unbind(&self.workspace.home, session)?;
            }
        }
        Ok(())
    }

    /// Where another tool's loop file is now, if there was one in the place of this loop's.
    pub(crate) fn loop_file_copied(&self) -> Option<String> {
        let copy = OnDisk::new(&self.workspace.repo_home, &self.workspace.repo.root).copied_to(&self.id)?;
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
