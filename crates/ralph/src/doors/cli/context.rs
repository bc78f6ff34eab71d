//! Where a command was called: the repo, what was accepted for it, and what is remembered of it.

use std::path::Path;

use ralph_core::model::id::{LoopId, SessionId};

use super::Failure;
use crate::clients::surroundings;
use crate::loops::ancestry::AgentAbove;
use crate::loops::driver::driven::DrivenLoop;
use crate::loops::session::SessionLoop;
use crate::show::exit;
use crate::store::effective_gates::{Found, InForce};
use crate::store::home::Home;
use crate::store::repo::Repo;
use crate::store::settings::Settings;
use crate::store::trust::{Acceptance, Acceptances, AcceptedBy, Beginning};
use crate::store::workspace::Workspace;
use crate::sys::files;
use crate::work_tree::fingerprint::TreeReader;

pub(super) struct Place {
    pub(super) workspace: Workspace,
}

impl Place {
    pub(super) fn here(gate_timeout: Option<&str>) -> Result<Self, Failure> {
        Self::find(gate_timeout, |_| {
            Err(Failure::new(exit::USAGE, "this is no repo: no ralph.yaml and no .git here or above")
                .hint("`ralph init` sets one up, or go into the project"))
        })
    }

    /// The same where nothing has to be there yet.
    pub(super) fn here_or_new() -> Result<Self, Failure> {
        Self::find(None, |here| Ok(Repo::new(here)?))
    }

    fn find(
        gate_timeout: Option<&str>,
        otherwise: impl FnOnce(&Path) -> Result<Repo, Failure>,
    ) -> Result<Self, Failure> {
        let home = Home::find()?;
        let here = std::env::current_dir().map_err(|error| {
            Failure::new(exit::USAGE, format!("the current folder cannot be used: {error}"))
        })?;
        let workspace = match Workspace::find(&home, &here)? {
            Some(workspace) => workspace,
            None => Workspace::new(&home, otherwise(&here)?),
        };
        Ok(Self { workspace: workspace.with_settings(Settings::load(gate_timeout)?) })
    }

    /// For work that takes long: nobody waits for an answer within moments.
    pub(super) fn patient(self) -> Self {
        Self { workspace: self.workspace.patient() }
    }

    /// Everything that was accepted for this repo, the newest last.
    pub(super) fn accepted(&self) -> Result<&[Acceptance], Failure> {
        Ok(self.workspace.trust()?.accepted(&self.workspace.repo))
    }

    pub(super) fn found(&self) -> Result<Found, Failure> {
        Ok(self.workspace.gates_by(&Acceptances::all(self.accepted()?))?)
    }

    /// What holds for the session in whose shell we are: what was accepted there does not count for itself.
    pub(super) fn found_for(&self, session: Option<&SessionId>) -> Result<Found, Failure> {
        match session {
            Some(_) => Ok(self.workspace.gates_for(session, Beginning::Unknown)?),
            None => self.found(),
        }
    }

    /// Who accepted what is in force, if that was an agent and no person has since.
    pub(super) fn unconfirmed(&self, in_force: &InForce) -> Option<String> {
        let mut accepted = self.accepted().ok()?.iter().rev();
        let newest = accepted.find(|acceptance| Some(&acceptance.sha256) == in_force.sha256.as_ref())?;
        matches!(newest.by, AcceptedBy::AgentsShell { .. }).then(|| newest.by.to_string())
    }

    /// The session loops that a command is about: the named one; else that of the session in whose shell we are; else
    /// every one that is open.
    pub(super) fn session_loops(&self, word: Option<&str>) -> Result<Vec<SessionLoop>, Failure> {
        if let Some(word) = word {
            let id = self.named_loop(Some(word))?;
            if DrivenLoop::at(&self.workspace.repo_home, id.clone())?.is_some() {
                return Ok(Vec::new());
            }
            let found = SessionLoop::settle_at(&self.workspace, id.clone())?;
            let none = || Failure::new(exit::USAGE, format!("`{id}` is no loop of a session"));
            return Ok(vec![found.ok_or_else(none)?]);
        }
        if let Some(session) = surroundings::agent_session()
            && let Some(found) = SessionLoop::settle_of(&self.workspace.home, &session)?
        {
            return Ok(vec![found]);
        }
        Ok(SessionLoop::settle_open_in(&self.workspace)?)
    }

    /// The loops of the driver that a command is about: the named one, else every one that is not over.
    pub(super) fn driven_loops(&self, word: Option<&str>) -> Result<Vec<DrivenLoop>, Failure> {
        match word {
            Some(word) => {
                let id = self.named_loop(Some(word))?;
                Ok(DrivenLoop::at(&self.workspace.repo_home, id)?.into_iter().collect())
            }
            None => Ok(DrivenLoop::open_in(&self.workspace.repo_home)?),
        }
    }

    /// Whether this shell belongs to an agent, as far as it can be told.
    pub(super) fn is_agents_shell(&self) -> bool {
        self.only_for_a_person("").is_err()
    }

    /// What only the user may do: an agent does not free itself. It is recognised by what started it, and by what its client
    /// sets for its shells.
    pub(super) fn only_for_a_person(&self, what: &str) -> Result<(), Failure> {
        self.not_below_an_agent(what)?;
        match surroundings::agent_shell() {
            None => Ok(()),
            Some(client) => Err(refused(&format!("this shell belongs to an agent ({client})"), what)),
        }
    }

    /// The same by ancestors alone: in a session that ralph does not block, an agent's shell may accept gates; that acceptance
    /// counts for no stop of the session.
    pub(super) fn not_below_an_agent(&self, what: &str) -> Result<(), Failure> {
        match self.agent_above() {
            None => Ok(()),
            Some(above) => Err(refused(&above.to_string(), what)),
        }
    }

    pub(super) fn agent_above(&self) -> Option<AgentAbove> {
        AgentAbove::find(&self.workspace.home, &self.workspace.repo, &self.workspace.repo_home)
    }

    /// Whether nothing says that an agent runs this command.
    pub(super) fn is_the_users(&self) -> bool {
        surroundings::agent_shell().is_none() && self.agent_above().is_none()
    }

    /// What `.gitignore` says at a moment when a person looks: receipts are found again only while it says the same.
    pub(super) fn remember_ignore_rules(&self) -> Result<(), Failure> {
        self.workspace.repo_home.create()?;
        files::sweep_temporary(self.workspace.repo_home.dir());
        let tree =
            TreeReader::new(&self.workspace.repo.root).cache(self.workspace.repo_home.tree_cache()).read()?;
        Ok(files::replace(&self.workspace.repo_home.accepted_rules(), &tree.rules().to_bytes())?)
    }

    /// The loop that a word means: its id or the beginning of it. Without a word, the one last active.
    pub(super) fn named_loop(&self, word: Option<&str>) -> Result<LoopId, Failure> {
        let loops = self.workspace.repo_home.loops();
        let Some(word) = word else {
            return loops
                .into_iter()
                .next()
                .ok_or_else(|| Failure::new(exit::USAGE, "there is no loop in this repo yet"));
        };
        let mut fitting = loops.iter().filter(|id| id.as_str().starts_with(word));
        match (fitting.next(), fitting.next()) {
            (Some(id), None) => Ok(id.clone()),
            (None, _) => Err(Failure::new(exit::USAGE, format!("there is no loop `{word}` in this repo"))
                .hint("`ralph status` lists them")),
            (Some(_), Some(_)) => Err(Failure::new(exit::USAGE, format!("`{word}` fits several loops"))
                .hint("`ralph status` lists them")),
        }
    }
}

fn refused(why: &str, what: &str) -> Failure {
    Failure::new(exit::NEEDS_PERSON, format!("refused: {why}; only you can {what}"))
        .hint(format!("open a new terminal and run `{}` there", own_command()))
}

/// The command as it was called; what would need quoting is left out.
fn own_command() -> String {
    let is_plain = |word: &String| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./=:".contains(c))
    };
    let words = std::env::args_os().skip(1);
    let words = words.map(|word| word.into_string().ok().filter(is_plain).unwrap_or_else(|| "…".into()));
    ["ralph".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}
