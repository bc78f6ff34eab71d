//! Trust: nothing from a repo runs until a person has accepted that content. The pins are outside the repo, and no key
//! in a repo's file can touch them.
//!
//! Trust is a set of contents per repo: a branch whose content was accepted once asks nothing.

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

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Trust {
    #[serde(default)]
    repos: BTreeMap<String, TrustedRepo>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct TrustedRepo {
    /// For people who read the file.
    root: PathBuf,
    /// The newest last.
    accepted: Vec<Acceptance>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    revoked: Vec<Timestamp>,
    /// Whom definitions named that were accepted once: taking trust back frees nobody who is being held.
    #[serde(default, rename = "guard", skip_serializing_if = "Vec::is_empty")]
    named_before: Vec<Guard>,
}

impl TrustedRepo {
    /// Takes acceptances back, remembering whom they named.
    fn take_back(&mut self, which: impl Fn(&Acceptance) -> bool, now: Timestamp) {
        let taken = self.accepted.extract_if(.., |acceptance| which(acceptance));
        self.named_before.extend(taken.filter_map(|acceptance| acceptance.guard));
        if self.accepted.is_empty() {
            self.revoked.push(now);
        }
    }
}

/// `trust.json` as bytes.
pub(crate) struct TrustText {
    path: PathBuf,
    text: Option<Vec<u8>>,
}

impl TrustText {
    /// Whether no definition that was ever accepted, in any repo, names anybody to be held: then the default holds.
    pub(crate) fn names_nobody(&self) -> bool {
        let text = self.text.as_deref().unwrap_or_default();
        !text.windows(7).any(|window| window == b"\"guard\"")
    }

    /// Whether some definition may guard sessions: one that does names them.
    pub(crate) fn may_guard_sessions(&self) -> bool {
        let text = self.text.as_deref().unwrap_or_default();
        text.windows(9).any(|window| window == b"\"session\"")
    }

    pub(crate) fn parse(self) -> io::Result<Trust> {
        let Some(text) = self.text else { return Ok(Trust::default()) };
        serde_json::from_slice(&text).map_err(|error| {
            let what = format!("{} cannot be read: {error}", self.path.display());
            io::Error::new(io::ErrorKind::InvalidData, what)
        })
    }
}

impl Trust {
    /// What was accepted so far. No file: nothing. A file that cannot be read is an error, never "nothing".
    pub(crate) fn load(home: &Home) -> io::Result<Self> {
        Self::read(home)?.parse()
    }

    /// The file's text, before anybody takes the trouble to understand it.
    pub(crate) fn read(home: &Home) -> io::Result<TrustText> {
        let path = home.trust_file();
        Ok(TrustText { text: files::read_if_there(&path)?, path })
    }

    /// The repo that a folder lies in: see [`Repo::find`].
    pub(crate) fn repo_of(&self, start: &Path) -> io::Result<Option<Repo>> {
        let knows = |repo: &Repo| self.knows(repo);
        Repo::find(start, (!self.repos.is_empty()).then_some(&knows as &dyn Fn(&Repo) -> bool))
    }

    pub(crate) fn knows(&self, repo: &Repo) -> bool {
        self.of(repo).is_some()
    }

    /// By its git folder, which linked work trees share; else by its own path, so that moving or removing the git folder
    /// makes nobody a stranger.
    fn of(&self, repo: &Repo) -> Option<&TrustedRepo> {
        self.repos.get(&repo.trust_key).or_else(|| self.repos.values().find(|known| known.root == repo.root))
    }

    /// Everything accepted for a repo, the newest last.
    pub(crate) fn accepted(&self, repo: &Repo) -> &[Acceptance] {
        self.of(repo).map_or(&[], |repo| &repo.accepted)
    }

    /// Whether a definition that was ever accepted for this repo holds somebody, by its guard.
    pub(crate) fn ever_held(&self, repo: &Repo, by: impl Fn(&Guard) -> bool) -> bool {
        let Some(known) = self.of(repo) else { return false };
        let now = known.accepted.iter().filter_map(|acceptance| acceptance.guard.as_ref());
        now.chain(&known.named_before).any(by)
    }

    /// When everything accepted was taken back, if it was.
    pub(crate) fn revoked_at(&self, repo: &Repo) -> Option<Timestamp> {
        self.of(repo).filter(|repo| repo.accepted.is_empty()).and_then(|repo| repo.revoked.last().copied())
    }

    /// Accepts a content and keeps the text itself.
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

    /// Takes everything accepted for a repo back. Loops that run are not freed by it.
    pub(crate) fn revoke(home: &Home, repo: &Repo, now: Timestamp) -> io::Result<()> {
        Self::change(home, |trust| {
            let known = trust
                .repos
                .iter_mut()
                .filter(|(key, known)| **key == repo.trust_key || known.root == repo.root);
            for (_, known) in known {
                known.take_back(|_| true, now);
            }
        })
    }

    /// Takes one content back.
    pub(crate) fn forget(home: &Home, repo: &Repo, sha256: &Digest, now: Timestamp) -> io::Result<()> {
        Self::change(home, |trust| {
            let Some(repo) = trust.repos.get_mut(&repo.trust_key) else { return };
            repo.take_back(|acceptance| acceptance.sha256 == *sha256, now);
        })
    }

    fn change(home: &Home, change: impl FnOnce(&mut Self)) -> io::Result<()> {
        files::private_dir(home.root())?;
        let Some(_lock) = Lock::take(&home.trust_lock(), Duration::from_secs(5))? else {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "another ralph is changing trust.json"));
        };
        files::sweep_temporary(home.root());
        let mut trust = Self::load(home)?;
        change(&mut trust);
        let text = serde_json::to_vec_pretty(&trust).map_err(io::Error::other)?;
        files::replace_for_good(&home.trust_file(), &text)
    }
}
