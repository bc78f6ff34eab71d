//! Where a command runs: the repo, its acceptances, and its recorded state.

use std::cell::OnceCell;
use std::ops::Deref;
use std::path::Path;

use ralph_core::ledger::loop_choice::{self, Ambiguity};
use ralph_core::ledger::state::State;
use ralph_core::model::id::{LoopId, SessionId};
use ralph_core::model::language::Lang;
use ralph_core::model::short_id::ShortId;
use ralph_core::say::loop_texts;

use super::CommandError;
use crate::clients::surroundings;
use crate::loops::ancestry::AgentAncestor;
use crate::loops::driver::driven::DrivenLoop;
use crate::loops::session::SessionLoop;
use crate::show::{exit, terminal};
use crate::store::acceptance::{Acceptance, Acceptances, AcceptedBy, Beginning};
use crate::store::effective_gates::{EffectiveGates, GatesLookup};
use crate::store::home::Home;
use crate::store::repo::Repo;
use crate::store::settings::Settings;
use crate::store::workspace::Workspace;
use crate::sys::files;
use crate::work_tree::fingerprint::TreeReader;

pub(super) struct CommandContext {
    pub(super) workspace: Workspace,
    /// The loop that the user's word was found to name.
    found: OnceCell<LoopId>,
}

/// A command's workspace, with operations that only commands need.
impl Deref for CommandContext {
    type Target = Workspace;

    fn deref(&self) -> &Workspace {
        &self.workspace
    }
}

impl CommandContext {
    pub(super) fn here(gate_timeout: Option<&str>) -> Result<Self, CommandError> {
        Self::find(gate_timeout, |_| {
            Err(CommandError::new(
                exit::USAGE,
                "not inside a repository (no ralph.yaml or .git found in this folder or its parents)",
            )
            .hint("change to your project's folder, or set it up with `ralph init`"))
        })
    }

    /// The same without requiring a repo.
    pub(super) fn here_or_new() -> Result<Self, CommandError> {
        Self::find(None, |here| Ok(Repo::new(here)?))
    }

    fn find(
        gate_timeout: Option<&str>,
        otherwise: impl FnOnce(&Path) -> Result<Repo, CommandError>,
    ) -> Result<Self, CommandError> {
        let home = Home::find()?;
        let here = std::env::current_dir().map_err(|error| {
            CommandError::new(exit::USAGE, format!("cannot use the current folder: {error}"))
        })?;
        let workspace = match Workspace::find(&home, &here)? {
            Some(workspace) => workspace,
            None => Workspace::new(&home, otherwise(&here)?),
        };
        Ok(Self { workspace: workspace.with_settings(Settings::load(gate_timeout)?), found: OnceCell::new() })
    }

    /// For long work without a short deadline.
    pub(super) fn patient(self) -> Self {
        Self { workspace: self.workspace.with_long_waits(), ..self }
    }

    /// Everything accepted for this repo, newest last.
    pub(super) fn accepted(&self) -> Result<&[Acceptance], CommandError> {
        Ok(self.trust()?.accepted(&self.repo))
    }

    pub(super) fn lookup_gates(&self) -> Result<GatesLookup, CommandError> {
        Ok(self.gates_by(&Acceptances::all(self.accepted()?))?)
    }

    /// The gates for the session whose shell this is: acceptances made there do not count for it.
    pub(super) fn lookup_gates_for(&self, session: Option<&SessionId>) -> Result<GatesLookup, CommandError> {
        match session {
            Some(_) => Ok(self.gates_for(session, Beginning::Unknown)?),
            None => self.lookup_gates(),
        }
    }

    /// Who accepted the effective gates, if it was an agent and the user has not confirmed them since.
    pub(super) fn unconfirmed(&self, effective: &EffectiveGates) -> Option<String> {
        let mut accepted = self.accepted().ok()?.iter().rev();
        let newest = accepted.find(|acceptance| Some(&acceptance.sha256) == effective.sha256.as_ref())?;
        matches!(newest.by, AcceptedBy::AgentsShell { .. }).then(|| newest.by.to_string())
    }

    /// The session loops that a command applies to: the named one, else that of the session whose shell this is, else every
    /// open one.
    pub(super) fn session_loops(&self, word: Option<&str>) -> Result<Vec<SessionLoop>, CommandError> {
        if let Some(word) = word {
            let id = self.loop_to_change(word)?;
            if DrivenLoop::at(&self.repo_home, id.clone())?.is_some() {
                return Ok(Vec::new());
            }
            let found = SessionLoop::settle_at(self, id.clone())?;
            let none = || CommandError::new(exit::USAGE, format!("`{id}` is not a session loop"));
            return Ok(vec![found.ok_or_else(none)?]);
        }
        if let Some(session) = surroundings::agent_session()
            && let Some(found) = SessionLoop::settle_of(&self.home, &session)?
        {
            return Ok(vec![found]);
        }
        Ok(SessionLoop::settle_open_in(self)?)
    }

    /// The driven loops that a command applies to: the named one, else every open one.
    pub(super) fn driven_loops(&self, word: Option<&str>) -> Result<Vec<DrivenLoop>, CommandError> {
        match word {
            Some(word) => {
                let id = self.loop_to_change(word)?;
                Ok(DrivenLoop::at(&self.repo_home, id)?.into_iter().collect())
            }
            None => Ok(DrivenLoop::open_in(&self.repo_home)?),
        }
    }

    /// Whether this shell belongs to an agent, as far as can be detected.
    pub(super) fn is_agents_shell(&self) -> bool {
        self.refuse_in_agent_shell("").is_err()
    }

    /// Refuses what only the user may do, so that an agent cannot release itself. An agent is recognised by its ancestors
    /// and by the variables its client sets for shells.
    pub(super) fn refuse_in_agent_shell(&self, what: &str) -> Result<(), CommandError> {
        self.refuse_below_agent(what)?;
        match surroundings::agent_shell() {
            None => Ok(()),
            Some(client) => Err(refused(&format!("this shell belongs to an agent ({client})"), what)),
        }
    }

    /// The same by ancestors alone: in a session that ralph does not block, an agent's shell may accept gates; that
    /// acceptance counts for no stop of the session.
    pub(super) fn refuse_below_agent(&self, what: &str) -> Result<(), CommandError> {
        match self.agent_above() {
            None => Ok(()),
            Some(above) => Err(refused(&above.to_string(), what)),
        }
    }

    pub(super) fn agent_above(&self) -> Option<AgentAncestor> {
        AgentAncestor::find(&self.home, &self.repo, &self.repo_home)
    }

    /// Whether nothing indicates that an agent runs this command.
    pub(super) fn is_run_by_user(&self) -> bool {
        surroundings::agent_shell().is_none() && self.agent_above().is_none()
    }

    /// Records the ignore rules when the user runs a command: receipts are reused only while they stay the same.
    pub(super) fn remember_ignore_rules(&self) -> Result<(), CommandError> {
        self.repo_home.create()?;
        files::sweep_temporary(self.repo_home.dir());
        let tree = TreeReader::new(&self.repo.root).cache(self.repo_home.tree_cache()).read()?;
        Ok(files::replace(&self.repo_home.accepted_rules(), &tree.rules().to_bytes())?)
    }

    /// The loop that a word names; without a word, the most recently active one. For commands that only show something.
    pub(super) fn named_loop(&self, word: Option<&str>) -> Result<LoopId, CommandError> {
        match word {
            Some(word) => self.find_loop(word, Ambiguity::TakeNewest),
            None => self
                .repo_home
                .loops()
                .into_iter()
                .next()
                .ok_or_else(|| CommandError::new(exit::USAGE, "no loop in this repo yet")),
        }
    }

    /// The same for a command that changes a loop.
    pub(super) fn loop_to_change(&self, word: &str) -> Result<LoopId, CommandError> {
        self.find_loop(word, Ambiguity::TakeOnlyOpen)
    }

    /// By id, else by words of its task. Which of several was taken is printed, once.
    fn find_loop(&self, word: &str, ambiguity: Ambiguity) -> Result<LoopId, CommandError> {
        if let Some(found) = self.found.get() {
            return Ok(found.clone());
        }
        let loops = self.repo_home.loops();
        let mut named = Vec::new();
        for id in loop_choice::named(&loops, word) {
            named.push((id, self.state_of(id)?));
        }
        if named.is_empty() {
            for id in &loops {
                let state = self.state_of(id)?;
                if loop_choice::has_words(&state, word) {
                    named.push((id, state));
                }
            }
        }
        let fitting: Vec<(&LoopId, &State)> = named.iter().map(|(id, state)| (*id, state)).collect();
        if fitting.is_empty() {
            return Err(CommandError::new(exit::USAGE, format!("no loop `{word}` in this repo"))
                .hint("list the loops with `ralph ls`"));
        }
        let Some(chosen) = loop_choice::choose(&fitting, ambiguity) else {
            let all: Vec<ShortId> = loops.iter().map(ShortId::of).collect();
            let mut choices: Vec<String> =
                fitting.iter().take(MOST_CHOICES).map(|(id, state)| choice(id, state, &all)).collect();
            if fitting.len() > MOST_CHOICES {
                choices.push(format!("  and {} older", fitting.len() - MOST_CHOICES));
            }
            return Err(CommandError::new(exit::USAGE, format!("`{word}` matches several loops"))
                .hint(format!("name one of them:\n{}", choices.join("\n"))));
        };
        if fitting.len() > 1 {
            terminal::remark(format_args!(
                "`{}` matches {} loops; this is the newest that is open, {}",
                terminal::plain(word),
                fitting.len(),
                ShortId::of(chosen)
            ));
        }
        Ok(self.found.get_or_init(|| chosen.clone()).clone())
    }
}

/// How many loops are offered when a word fits several.
const MOST_CHOICES: usize = 10;

/// A loop to choose from: its short id, its state, its task.
fn choice(id: &LoopId, state: &State, all: &[ShortId]) -> String {
    let task = loop_choice::task(state).unwrap_or_else(|| id.as_str());
    let task: String = task.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(60).collect();
    let short = ShortId::of(id);
    format!("  {}  {}  {}", short.among(all), loop_texts::status_line(state, Lang::En), terminal::plain(task))
}

fn refused(why: &str, what: &str) -> CommandError {
    CommandError::new(
        exit::NEEDS_PERSON,
        format!("refused: {why}; only you can {what}, from your own terminal"),
    )
    .hint(format!("open a new terminal and run `{}` there", own_command()))
}

/// The command as it was called, without arguments that need quoting.
fn own_command() -> String {
    let is_plain = |word: &String| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./=:".contains(c))
    };
    let words = std::env::args_os().skip(1);
    let words = words.map(|word| word.into_string().ok().filter(is_plain).unwrap_or_else(|| "…".into()));
    ["ralph".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}
