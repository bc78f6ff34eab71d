//! Where a command was called: the repo, what was accepted for it, and what is remembered of it.

use std::path::Path;

use ralph_core::id::LoopId;

use super::Failure;
use crate::definition::{Found, Settings};
use crate::home::{Home, RepoHome};
use crate::repo::Repo;
use crate::tree::TreeReader;
use crate::trust::Trust;
use crate::{exit, files};

pub(super) struct Place {
    pub(super) home: Home,
    pub(super) trust: Trust,
    pub(super) repo: Repo,
    pub(super) repo_home: RepoHome,
    pub(super) settings: Settings,
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
        let trust = Trust::load(&home)?;
        let here = std::env::current_dir().map_err(|error| {
            Failure::new(exit::USAGE, format!("the current folder cannot be used: {error}"))
        })?;
        let repo = match Repo::find(&here, &trust)? {
            Some(repo) => repo,
            None => otherwise(&here)?,
        };
        let repo_home = home.repo(&repo.id());
        Ok(Self { settings: Settings::load(gate_timeout)?, home, trust, repo, repo_home })
    }

    pub(super) fn found(&self) -> Result<Found, Failure> {
        let accepted = self.trust.accepted(&self.repo);
        let revoked = self.trust.revoked_at(&self.repo).is_some();
        Ok(Found::look(&self.home, &self.repo, accepted, revoked, &self.settings.defaults())?)
    }

    /// What `.gitignore` says at a moment when a person looks: receipts are found again only while it says the same.
    pub(super) fn remember_ignore_rules(&self) -> Result<(), Failure> {
        self.repo_home.create()?;
        files::sweep_temporary(self.repo_home.dir());
        let tree = TreeReader::new(&self.repo.root).cache(self.repo_home.tree_cache()).read()?;
        Ok(files::replace(&self.repo_home.accepted_rules(), &tree.rules().to_bytes())?)
    }

    /// The loop that a word means: its id or the beginning of it. Without a word, the one last active.
    pub(super) fn named_loop(&self, word: Option<&str>) -> Result<LoopId, Failure> {
        let loops = self.repo_home.loops();
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
