//! The driver's loops as seen by other processes: which exist, and whether this process runs inside one.

use std::io;

use ralph_core::ledger::event::Subject;
use ralph_core::ledger::state::State;
use ralph_core::ledger::transition::{Transition, apply};
use ralph_core::model::id::LoopId;

use super::lease;
use crate::store::home::{Home, RepoHome};
use crate::store::ledger::Loop;
use crate::store::repo::Repo;
use crate::sys::{env, proc};

/// An open loop of the driver.
#[derive(Clone, Debug)]
pub(crate) struct DrivenLoop {
    pub(crate) id: LoopId,
    pub(crate) state: State,
}

impl DrivenLoop {
    /// All open ones of a repo, most recently active first.
    pub(crate) fn open_in(repo_home: &RepoHome) -> io::Result<Vec<Self>> {
        let mut open = Vec::new();
        for id in repo_home.loops() {
            open.extend(Self::at(repo_home, id)?.filter(Self::is_open));
        }
        Ok(open)
    }

    /// The most recently active one, open or not.
    pub(crate) fn last_in(repo_home: &RepoHome) -> io::Result<Option<Self>> {
        let mut all = repo_home.loops().into_iter().map(|id| Self::at(repo_home, id));
        all.find_map(Result::transpose).transpose()
    }

    /// `None` if the loop does not belong to the driver.
    pub(crate) fn at(repo_home: &RepoHome, id: LoopId) -> io::Result<Option<Self>> {
        let state = Loop::new(repo_home, &id).state()?;
        Ok((state.subject == Some(Subject::Driver)).then_some(Self { id, state }))
    }

    pub(crate) fn is_open(&self) -> bool {
        self.state.is_open()
    }

    /// Pauses or cancels it for the user; its driver notices within moments. Returns whether anything changed.
    pub(crate) fn apply(&self, repo_home: &RepoHome, transition: &Transition) -> io::Result<bool> {
        Ok(Loop::new(repo_home, &self.id).append_following(|state| apply(state, transition))?.1)
    }

    /// The process that is driving it now.
    pub(crate) fn driven_by(&self) -> Option<i32> {
        self.state.drive.owner.as_ref().filter(|owner| lease::is_held(owner)).map(|owner| owner.process)
    }
}

/// Whether a driven agent started us: by its loop's mark, or by a driver of this repo among our ancestors.
pub(crate) fn inside_agent_run(home: &Home, repo_home: &RepoHome) -> bool {
    inside_driven_agent(home) || is_driving_ancestor(repo_home)
}

/// Whether a driver of this repo is an ancestor, marked or not.
pub(crate) fn is_driving_ancestor(repo_home: &RepoHome) -> bool {
    let open = DrivenLoop::open_in(repo_home).unwrap_or_default();
    open.iter().filter_map(DrivenLoop::driven_by).any(proc::is_ancestor)
}

/// The mark carried by every process that a loop's agent starts.
pub(super) fn mark(repo: &Repo, id: &LoopId) -> String {
    format!("{}/{id}", repo.id())
}

/// Whether we run inside a driven agent. The mark alone proves nothing: the driver must be an ancestor. Only the driver
/// then decides on the verdict.
pub(crate) fn inside_driven_agent(home: &Home) -> bool {
    marked_driver(home).is_some()
}

/// The loop of this repo whose driven agent started us.
pub(crate) fn loop_of_agent(home: &Home, repo_home: &RepoHome) -> Option<LoopId> {
    let driver = marked_driver(home)?;
    let open = DrivenLoop::open_in(repo_home).ok()?;
    open.into_iter().find(|found| found.driven_by() == Some(driver)).map(|found| found.id)
}

/// The ancestor that drives the loop whose mark we carry, in any repo.
pub(crate) fn marked_driver(home: &Home) -> Option<i32> {
    let mark = env::driven_loop()?;
    let is_name = |part: &str| !part.is_empty() && !part.contains(['/', '.']);
    let (repo, id) = mark.split_once('/').filter(|(repo, id)| is_name(repo) && is_name(id))?;
    let found = DrivenLoop::at(&home.repo(repo), LoopId::new(id)).ok().flatten()?;
    found.driven_by().filter(|process| proc::is_ancestor(*process))
}
