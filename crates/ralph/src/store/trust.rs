//! Trust: nothing from a repo runs until the user has accepted its content. Acceptances are stored outside the repo, and no
//! key in a repo's file can change them.
//!
//! Trust is a set of contents per repo: a branch whose content was accepted before needs no new acceptance.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use ralph_core::config::Guard;
use ralph_core::model::id::Digest;
use serde::{Deserialize, Serialize};

use crate::store::acceptance::Acceptance;
use crate::store::home::Home;
use crate::store::repo::Repo;
use crate::sys::files::{self, Lock};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Trust {
    #[serde(default)]
    repos: BTreeMap<String, TrustedRepo>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct TrustedRepo {
    /// For users who read the file.
    root: PathBuf,
    /// Newest last.
    accepted: Vec<Acceptance>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    revoked: Vec<Timestamp>,
    /// What earlier accepted definitions guarded: revoking trust does not release a blocked agent.
    #[serde(default, rename = "guard", skip_serializing_if = "Vec::is_empty")]
    named_before: Vec<Guard>,
}

impl TrustedRepo {
    /// Revokes acceptances, recording what they guarded.
    fn revoke_where(&mut self, which: impl Fn(&Acceptance) -> bool, now: Timestamp) {
        let taken = self.accepted.extract_if(.., |acceptance| which(acceptance));
        self.named_before.extend(taken.filter_map(|acceptance| acceptance.guard));
        if self.accepted.is_empty() {
            self.revoked.push(now);
        }
    }
}

/// The bytes of `trust.json`.
pub(crate) struct TrustText {
    path: PathBuf,
    text: Option<Vec<u8>>,
}

impl TrustText {
    /// Whether no definition ever accepted in any repo has a guard: then the default applies.
    pub(crate) fn names_no_guard(&self) -> bool {
        let text = self.text.as_deref().unwrap_or_default();
        !text.windows(7).any(|window| window == b"\"guard\"")
    }

    /// Whether some definition may guard sessions: such a definition contains the word.
    pub(crate) fn may_guard_sessions(&self) -> bool {
        let text = self.text.as_deref().unwrap_or_default();
        text.windows(9).any(|window| window == b"\"session\"")
    }

    pub(crate) fn parse(self) -> io::Result<Trust> {
        let Some(text) = self.text else { return Ok(Trust::default()) };
        serde_json::from_slice(&text).map_err(|error| {
            let what = format!("cannot read {}: {error}", self.path.display());
            io::Error::new(io::ErrorKind::InvalidData, what)
        })
    }
}

impl Trust {
    /// Reads the acceptances. A missing file means none; an unreadable file is an error, never "none".
    pub(crate) fn load(home: &Home) -> io::Result<Self> {
        Self::read(home)?.parse()
    }

    /// Reads the file's text without parsing it.
    pub(crate) fn read(home: &Home) -> io::Result<TrustText> {
        let path = home.trust_file();
        Ok(TrustText { text: files::read_if_there(&path)?, path })
    }

    /// The repo that contains a folder: see [`Repo::find`].
    pub(crate) fn repo_of(&self, start: &Path) -> io::Result<Option<Repo>> {
        let knows = |repo: &Repo| self.knows(repo);
        Repo::find(start, (!self.repos.is_empty()).then_some(&knows as &dyn Fn(&Repo) -> bool))
    }

    pub(crate) fn knows(&self, repo: &Repo) -> bool {
        self.of(repo).is_some()
    }

    /// Looked up by its git folder, which linked work trees share; else by its own path, so that moving or removing the git
    /// folder does not lose trust.
    fn of(&self, repo: &Repo) -> Option<&TrustedRepo> {
        self.repos.get(&repo.trust_key).or_else(|| self.repos.values().find(|known| known.root == repo.root))
    }

    /// Everything accepted for a repo, newest last.
    pub(crate) fn accepted(&self, repo: &Repo) -> &[Acceptance] {
        self.of(repo).map_or(&[], |repo| &repo.accepted)
    }

    /// Whether a definition ever accepted for this repo has such a guard.
    pub(crate) fn ever_guarded(&self, repo: &Repo, by: impl Fn(&Guard) -> bool) -> bool {
        let Some(known) = self.of(repo) else { return false };
        let now = known.accepted.iter().filter_map(|acceptance| acceptance.guard.as_ref());
        now.chain(&known.named_before).any(by)
    }

    /// When all acceptances were revoked, if they were.
    pub(crate) fn revoked_at(&self, repo: &Repo) -> Option<Timestamp> {
        self.of(repo).filter(|repo| repo.accepted.is_empty()).and_then(|repo| repo.revoked.last().copied())
    }

    /// Accepts a content and stores its text.
    pub(crate) fn accept(home: &Home, repo: &Repo, text: &[u8], acceptance: Acceptance) -> io::Result<()> {
        let path = home.definition_file(&acceptance.sha256);
        let dir = path.parent().unwrap_or(home.root());
        files::private_dir(dir)?;
        files::sweep_temporary(dir);
        files::replace_for_good(&path, text)?;
        Self::change(home, |trust| {
            let (root, repo) = (repo.root.clone(), trust.repos.entry(repo.trust_key.clone()).or_default());
            repo.root = root;
            repo.accepted.retain(|old| old.sha256 != acceptance.sha256);
            repo.accepted.push(acceptance);
        })
    }

    /// Revokes all acceptances of a repo. Running loops are not released by it.
    pub(crate) fn revoke(home: &Home, repo: &Repo, now: Timestamp) -> io::Result<()> {
        Self::change(home, |trust| {
            let known = trust
                .repos
                .iter_mut()
                .filter(|(key, known)| **key == repo.trust_key || known.root == repo.root);
            for (_, known) in known {
                known.revoke_where(|_| true, now);
            }
        })
    }

    /// Revokes one content.
    pub(crate) fn forget(home: &Home, repo: &Repo, sha256: &Digest, now: Timestamp) -> io::Result<()> {
        Self::change(home, |trust| {
            let Some(repo) = trust.repos.get_mut(&repo.trust_key) else { return };
            repo.revoke_where(|acceptance| acceptance.sha256 == *sha256, now);
        })
    }

    fn change(home: &Home, change: impl FnOnce(&mut Self)) -> io::Result<()> {
        files::private_dir(home.root())?;
        let Some(_lock) = Lock::take(&home.trust_lock(), Duration::from_secs(5))? else {
            return Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                "another ralph process is changing trust.json; try again",
            ));
        };
        files::sweep_temporary(home.root());
        let mut trust = Self::load(home)?;
        change(&mut trust);
        let text = serde_json::to_vec_pretty(&trust).map_err(io::Error::other)?;
        files::replace_for_good(&home.trust_file(), &text)
    }
}
