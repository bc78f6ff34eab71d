//! A session starts, resumes, is cleared or ends: its loop pauses, moves or continues in it.

use std::path::Path;

use ralph_core::clients::hook::HookReply;
use ralph_core::ledger::event::PauseCause;
use ralph_core::ledger::state::Status;
use ralph_core::ledger::transition::Transition;

use crate::loops::session::SessionLoop;
use crate::loops::session::event::{NotChecked, SessionEvent};
use crate::loops::session::stop::tasks_of;
use crate::loops::session::user::starting_on_new_line;
use crate::show::language;
use crate::store::acceptance::Beginning;
use crate::store::effective_gates::{self, GatesLookup};
use crate::store::repo::Repo;
use crate::store::sessions::{self, SessionBeginning};
use crate::store::workspace::Workspace;
use crate::sys::clock;
use crate::work_tree::git::head::GitHead;

impl SessionEvent<'_> {
    pub(crate) fn on_session_start(&self, source: &str) -> Result<HookReply, NotChecked> {
        if let Some(mut found) = SessionLoop::settle_of(self.home, self.session)? {
            found.apply(&Transition::Reattached(self.attached_session()))?;
            return self.on_session_resumed(&found);
        }
        // A folder without recorded state has no loops: most sessions return here.
        let Some(workspace) = self.known_workspace()? else { return Ok(HookReply::Silent) };
        self.remember_beginning(&workspace)?;
        if let Some(commit) = GitHead::of(&workspace.repo.root).commit {
            sessions::remember_commit(self.home, self.session, &commit)?;
        }
        let orphans = SessionLoop::settle_orphaned_in(&workspace)?;
        if source == "clear"
            && let Some(mut moved) = orphans.iter().find(|found| self.was_cleared_here(found)).cloned()
        {
            moved.apply(&Transition::Reattached(self.attached_session()))?;
            return Ok(HookReply::Notify { user: Some(self.paused_banner(&moved)), agent: None });
        }
        let describe =
            |found: &SessionLoop| language::texts(&found.state, tasks_of(found).as_ref()).is_here();
        let lines: Vec<String> = orphans.iter().map(describe).collect();
        Ok(if lines.is_empty() {
            HookReply::Silent
        } else {
            HookReply::Notify { user: Some(starting_on_new_line(&lines.join("\n"))), agent: None }
        })
    }

    /// The user's notice in a repo whose gates were never accepted, whatever its guard names.
    pub(crate) fn nothing_is_enforced(&self) -> Result<Option<String>, NotChecked> {
        let Some(workspace) = self.workspace()? else { return Ok(None) };
        // Most prompts end here, before any config is parsed.
        let is_accepted = || -> Result<bool, NotChecked> {
            Ok(!workspace.acceptances_for(Some(self.session), Beginning::Unknown)?.counting.is_empty())
        };
        if !workspace.repo.config().is_ok_and(|file| file.is_some()) || is_accepted()? {
            return Ok(None);
        }
        let GatesLookup::Untrusted(file) = workspace.gates_for(Some(self.session), Beginning::Unknown)?
        else {
            return Ok(None);
        };
        let config = effective_gates::parse(file.layout, &file.text, &workspace.settings().defaults());
        let is_off = config.is_ok_and(|config| !config.enabled);
        Ok((!is_off).then(|| not_enforced(file.path, &workspace.repo.root)))
    }

    /// Repeats the task for the agent: a compaction may have removed it.
    fn on_session_resumed(&self, found: &SessionLoop) -> Result<HookReply, NotChecked> {
        match found.state.status {
            Status::Running => self.continued_reply(found),
            Status::Paused { .. } => {
                Ok(HookReply::Notify { user: Some(self.paused_banner(found)), agent: None })
            }
            Status::Fresh | Status::Ended { .. } => Ok(HookReply::Silent),
        }
    }

    pub(crate) fn on_session_end(&self, reason: &str) -> Result<HookReply, NotChecked> {
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
        found.apply(&Transition::Pause(why))?;
        Ok(HookReply::Silent)
    }

    /// Gates accepted later verify nothing in this session.
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

    /// The repo of this session, if ralph has recorded state for it.
    pub(crate) fn known_workspace(&self) -> Result<Option<Workspace>, NotChecked> {
        let Some(folder) = self.folder().filter(|_| self.home.has_repos()) else { return Ok(None) };
        Ok(match self.workspace()? {
            Some(workspace) => Some(workspace.clone()),
            None => Repo::new(&folder).ok().map(|repo| self.with_options(Workspace::new(self.home, repo))),
        })
    }

    /// Adds the hook's own options.
    pub(crate) fn with_options(&self, workspace: Workspace) -> Workspace {
        workspace.with_gate_timeout(self.options.gate_timeout.clone())
    }

    /// Whether this client has just cleared the session it was attached to.
    fn was_cleared_here(&self, found: &SessionLoop) -> bool {
        let client = self.client_process();
        client.is_some() && found.state.detached == Some(PauseCause::Cleared { client })
    }
}

/// What every notice about gates that were never accepted says.
pub(crate) const NOT_ACCEPTED: &str = "are not accepted yet";

/// What the user is told once a session where no gates were accepted.
pub(crate) fn not_enforced(config: &str, root: &Path) -> String {
    format!(
        "ralph: the gates of {config} {NOT_ACCEPTED}, so nothing is enforced in this session. \
         Review them and accept them with `ralph trust` in {}.",
        root.display()
    )
}
