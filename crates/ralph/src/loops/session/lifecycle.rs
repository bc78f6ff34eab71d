//! A session begins, comes back, is cleared or ends: its loop pauses, moves or continues in it.

use ralph_core::clients::hook::HookReply;
use ralph_core::ledger::event::PauseCause;
use ralph_core::ledger::state::Status;
use ralph_core::ledger::transition::Happening;

use crate::loops::session::SessionLoop;
use crate::loops::session::event::{NotChecked, SessionEvent};
use crate::loops::session::stop::tasks_of;
use crate::loops::session::user::on_lines_of_its_own;
use crate::show::language;
use crate::store::acceptance::Beginning;
use crate::store::repo::Repo;
use crate::store::sessions::{self, SessionBeginning};
use crate::store::workspace::Workspace;
use crate::sys::clock;
use crate::work_tree::git::head::GitHead;

impl SessionEvent<'_> {
    pub(crate) fn session_starts(&self, source: &str) -> Result<HookReply, NotChecked> {
        if let Some(mut found) = SessionLoop::settle_of(self.home, self.session)? {
            found.happen(&Happening::CarriedOn(self.carrier()))?;
            return self.is_back(&found);
        }
        // A folder without a home of ours has no loops: most sessions end here.
        let Some(workspace) = self.known_workspace()? else { return Ok(HookReply::Silent) };
        self.remember_beginning(&workspace)?;
        if let Some(commit) = GitHead::of(&workspace.repo.root).commit {
            sessions::remember_commit(self.home, self.session, &commit)?;
        }
        let orphans = SessionLoop::settle_orphaned_in(&workspace)?;
        if source == "clear"
            && let Some(mut moved) = orphans.iter().find(|found| self.was_cleared_here(found)).cloned()
        {
            moved.happen(&Happening::CarriedOn(self.carrier()))?;
            return Ok(HookReply::Tell { person: Some(self.paused_banner(&moved)), agent: None });
        }
        let tell = |found: &SessionLoop| language::telling(&found.state, tasks_of(found).as_ref()).is_here();
        let lines: Vec<String> = orphans.iter().map(tell).collect();
        Ok(if lines.is_empty() {
            HookReply::Silent
        } else {
            HookReply::Tell { person: Some(on_lines_of_its_own(&lines.join("\n"))), agent: None }
        })
    }

    /// The agent gets the task back: a compaction may have taken it away.
    fn is_back(&self, found: &SessionLoop) -> Result<HookReply, NotChecked> {
        match found.state.status {
            Status::Running => self.goes_on(found),
            Status::Paused { .. } => {
                Ok(HookReply::Tell { person: Some(self.paused_banner(found)), agent: None })
            }
            Status::Fresh | Status::Ended { .. } => Ok(HookReply::Silent),
        }
    }

    pub(crate) fn session_ends(&self, reason: &str) -> Result<HookReply, NotChecked> {
        sessions::unwatch(self.home, self.session)?;
        sessions::forget_commit(self.home, self.session)?;
        sessions::forget_beginning(self.home, self.session)?;
        sessions::forget_end(self.home, self.session)?;
        let Some(mut found) = SessionLoop::settle_of(self.home, self.session)? else {
            return Ok(HookReply::Silent);
        };
        let why = match reason {
            "clear" => PauseCause::Cleared { client: self.client_process() },
            other => PauseCause::SessionEnded { reason: other.to_owned() },
        };
        found.happen(&Happening::Pause(why))?;
        Ok(HookReply::Silent)
    }

    /// What is accepted later verifies nothing in this session.
    fn remember_beginning(&self, workspace: &Workspace) -> Result<(), NotChecked> {
        let repo = &workspace.repo;
        let counting = workspace.acceptances_for(Some(self.session), Beginning::Unknown)?.counting;
        if counting.is_empty() && repo.config().is_ok_and(|config| config.is_none()) {
            return Ok(());
        }
        let accepted = counting.into_iter().map(|acceptance| acceptance.sha256).collect();
        let beginning = SessionBeginning { at: clock::now(), accepted };
        Ok(sessions::remember_beginning(self.home, self.session, &beginning)?)
    }

    /// The repo of this session, where anything is remembered of it.
    pub(crate) fn known_workspace(&self) -> Result<Option<Workspace>, NotChecked> {
        let Some(folder) = self.folder().filter(|_| self.home.remembers_repos()) else { return Ok(None) };
        Ok(match self.workspace()? {
            Some(workspace) => Some(workspace.clone()),
            None => Repo::new(&folder).ok().map(|repo| self.with_options(Workspace::new(self.home, repo))),
        })
    }

    /// With what the hook was called with.
    pub(crate) fn with_options(&self, workspace: Workspace) -> Workspace {
        workspace.with_gate_timeout(self.options.gate_timeout.clone())
    }

    /// Whether the session that this client has just cleared carried it.
    fn was_cleared_here(&self, found: &SessionLoop) -> bool {
        let client = self.client_process();
        client.is_some() && found.state.gone == Some(PauseCause::Cleared { client })
    }
}
