//! Trust: nothing from a repo runs until a person has accepted that content. The pins are outside the repo, and no key
//! in a repo's file can touch them.
//!
//! Trust is a set of contents per repo: a branch whose content was accepted once asks nothing.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use ralph_core::id::Digest;
use ralph_core::layout::Layout;
use serde::{Deserialize, Serialize};

use crate::files::{self, Lock};
use crate::home::Home;

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
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Acceptance {
    pub(crate) sha256: Digest,
    pub(crate) layout: Layout,
    pub(crate) at: Timestamp,
    pub(crate) by: AcceptedBy,
}

/// Who accepted, as far as it can be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "who", rename_all = "snake_case")]
pub(crate) enum AcceptedBy {
    PersonAtATerminal,
    Script,
    AgentsShell { client: String },
}

impl std::fmt::Display for AcceptedBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::PersonAtATerminal => f.write_str("a person at a terminal"),
            Self::Script => f.write_str("a script"),
            Self::AgentsShell { client } => write!(f, "an agent's shell ({client})"),
        }
    }
}

impl Trust {
    /// What was accepted so far. No file: nothing. A file that cannot be read is an error, never "nothing".
    pub(crate) fn load(home: &Home) -> io::Result<Self> {
        let path = home.trust_file();
        let Some(text) = files::read_if_there(&path)? else { return Ok(Self::default()) };
        serde_json::from_slice(&text).map_err(|error| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{} cannot be read: {error}", path.display()))
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.repos.is_empty()
    }

    pub(crate) fn knows(&self, key: &str) -> bool {
        self.repos.contains_key(key)
    }

    /// Everything accepted for a repo, the newest last.
    pub(crate) fn accepted(&self, key: &str) -> &[Acceptance] {
        self.repos.get(key).map_or(&[], |repo| &repo.accepted)
    }

    pub(crate) fn was_revoked(&self, key: &str) -> bool {
        self.repos.get(key).is_some_and(|repo| repo.accepted.is_empty() && !repo.revoked.is_empty())
    }

    /// Accepts a content and keeps the text itself.
    pub(crate) fn accept(
        home: &Home,
        key: &str,
        root: PathBuf,
        text: &[u8],
        acceptance: Acceptance,
    ) -> io::Result<()> {
        let path = home.definition_file(&acceptance.sha256);
        let dir = path.parent().unwrap_or(home.root());
        files::private_dir(dir)?;
        files::sweep_temporary(dir);
        files::replace_for_good(&path, text)?;
        Self::change(home, |trust| {
            let repo = trust.repos.entry(key.to_owned()).or_default();
            repo.root = root;
            repo.accepted.retain(|old| old.sha256 != acceptance.sha256);
            repo.accepted.push(acceptance);
        })
    }

    /// Takes everything accepted for a repo back. Loops that run are not freed by it.
    pub(crate) fn revoke(home: &Home, key: &str, now: Timestamp) -> io::Result<()> {
        Self::change(home, |trust| {
            let repo = trust.repos.entry(key.to_owned()).or_default();
            repo.accepted.clear();
            repo.revoked.push(now);
        })
    }

    /// Takes one content back.
    pub(crate) fn forget(home: &Home, key: &str, sha256: &Digest, now: Timestamp) -> io::Result<()> {
        Self::change(home, |trust| {
            let Some(repo) = trust.repos.get_mut(key) else { return };
            repo.accepted.retain(|acceptance| acceptance.sha256 != *sha256);
            if repo.accepted.is_empty() {
                repo.revoked.push(now);
            }
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
