//! Loops of the driver as everybody else sees them: which there are, and whether this very process is inside of one.

use std::io;

use ralph_core::ledger::event::Subject;
use ralph_core::ledger::state::State;
use ralph_core::ledger::transition::{Happening, happen};
use ralph_core::model::id::LoopId;

use super::lease;
use crate::store::home::{Home, RepoHome};
use crate::store::ledger::Loop;
use crate::store::repo::Repo;
use crate::sys::{env, proc};

/// A loop of the driver that is not over.
#[derive(Clone, Debug)]
pub(crate) struct DrivenLoop {
    pub(crate) id: LoopId,
    pub(crate) state: State,
}

impl DrivenLoop {
    /// Every one of a repo, the one last active first.
    pub(crate) fn open_in(repo_home: &RepoHome) -> io::Result<Vec<Self>> {
        let mut open = Vec::new();
        for id in repo_home.loops() {
            open.extend(Self::at(repo_home, id)?.filter(Self::is_open));
        }
        Ok(open)
    }

    /// The one last active, over or not.
    pub(crate) fn last_in(repo_home: &RepoHome) -> io::Result<Option<Self>> {
        let mut all = repo_home.loops().into_iter().map(|id| Self::at(repo_home, id));
        all.find_map(Result::transpose).transpose()
    }

    /// None where the loop is not the driver's.
    pub(crate) fn at(repo_home: &RepoHome, id: LoopId) -> io::Result<Option<Self>> {
        let state = Loop::new(repo_home, &id).state()?;
        Ok((state.subject == Some(Subject::Driver)).then_some(Self { id, state }))
    }

    pub(crate) fn is_open(&self) -> bool {
        self.state.is_open()
    }

    /// A person pauses or cancels it; whoever drives it hears of it within moments. Whether it made a difference is told.
    pub(crate) fn happen(&self, repo_home: &RepoHome, happening: &Happening) -> io::Result<bool> {
        Ok(Loop::new(repo_home, &self.id).append_what_follows(|state| happen(state, happening))?.1)
    }

    /// The process that drives it now.
    pub(crate) fn driven_by(&self) -> Option<i32> {
        self.state.drive.owner.as_ref().filter(|owner| lease::is_held(owner)).map(|owner| owner.process)
    }
}

/// Whether we came out of an agent that is driven: by the mark of its loop, or by a driver of this repo above us.
pub(crate) fn are_we_an_agents(home: &Home, repo_home: &RepoHome) -> bool {
    are_we_driven(home) || drives_us(repo_home)
}

/// Whether a driver of this repo is above us, with its mark or without.
pub(crate) fn drives_us(repo_home: &RepoHome) -> bool {
    let open = DrivenLoop::open_in(repo_home).unwrap_or_default();
    open.iter().filter_map(DrivenLoop::driven_by).any(proc::is_ancestor)
}

/// How everything that comes out of a loop's agent is marked.
pub(super) fn mark(repo: &Repo, id: &LoopId) -> String {
    format!("{}/{id}", repo.id())
}

/// Whether we are inside of a driver's run: its mark alone proves nothing, the driver itself must be above us. The verdict
/// is then its own, and nobody else's.
pub(crate) fn are_we_driven(home: &Home) -> bool {
    marked_driver(home).is_some()
}

/// The process above us that drives the loop that we are marked with, of whatever repo.
pub(crate) fn marked_driver(home: &Home) -> Option<i32> {
    let mark = env::driven_loop()?;
    let is_name = |part: &str| !part.is_empty() && !part.contains(['/', '.']);
    let (repo, id) = mark.split_once('/').filter(|(repo, id)| is_name(repo) && is_name(id))?;
    let found = DrivenLoop::at(&home.repo(repo), LoopId::new(id)).ok().flatten()?;
    found.driven_by().filter(|process| proc::is_ancestor(*process))
}
