//! A repo with everything known about it: location, recorded state, acceptances, and the user's settings. Files are read on
//! first use, and once.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ralph_core::ledger::state::State;
use ralph_core::model::id::{LoopId, SessionId};

use crate::store::acceptance::{Acceptances, Beginning};
use crate::store::effective_gates::GatesLookup;
use crate::store::home::{Home, RepoHome};
use crate::store::ledger::Loop;
use crate::store::repo::Repo;
use crate::store::settings::Settings;
use crate::store::trust::Trust;

#[derive(Clone, Debug)]
pub(crate) struct Workspace {
    pub(crate) home: Home,
    pub(crate) repo: Repo,
    /// The recorded state of this repo.
    pub(crate) repo_home: RepoHome,
    trust: Arc<OnceLock<Trust>>,
    settings: Arc<OnceLock<Settings>>,
    /// The caller's default timeout for gates without one.
    gate_timeout: Option<String>,
    /// One handle per loop, shared by all callers, so that each read costs only what is new.
    loops: Arc<Mutex<BTreeMap<LoopId, Arc<Loop>>>>,
}

impl Workspace {
    pub(crate) fn new(home: &Home, repo: Repo) -> Self {
        Self {
            repo_home: home.repo(&repo.id()),
            home: home.clone(),
            repo,
            trust: Arc::default(),
            settings: Arc::default(),
            gate_timeout: None,
            loops: Arc::default(),
        }
    }

    /// The repo that contains a folder.
    pub(crate) fn find(home: &Home, folder: &Path) -> io::Result<Option<Self>> {
        let trust = Trust::load(home)?;
        Ok(trust.repo_of(folder)?.map(|repo| Self::new(home, repo).with_trust(trust)))
    }

    /// With acceptances that were already read.
    pub(crate) fn with_trust(self, trust: Trust) -> Self {
        Self { trust: Arc::new(OnceLock::from(trust)), ..self }
    }

    pub(crate) fn with_gate_timeout(self, gate_timeout: Option<String>) -> Self {
        Self { gate_timeout, settings: Arc::default(), ..self }
    }

    pub(crate) fn with_settings(self, settings: Settings) -> Self {
        Self { settings: Arc::new(OnceLock::from(settings)), ..self }
    }

    /// Forgets the cached acceptances after a change.
    pub(crate) fn reload_trust(&self) -> Self {
        Self { trust: Arc::default(), ..self.clone() }
    }

    /// For long work without a short deadline.
    pub(crate) fn with_long_waits(self) -> Self {
        Self { repo_home: self.repo_home.patient(), loops: Arc::default(), ..self }
    }

    /// The acceptances of all repos.
    pub(crate) fn trust(&self) -> io::Result<&Trust> {
        if let Some(trust) = self.trust.get() {
            return Ok(trust);
        }
        let trust = Trust::load(&self.home)?;
        Ok(self.trust.get_or_init(|| trust))
    }

    /// The user's own settings, including their error, which matters only where they are used.
    pub(crate) fn settings(&self) -> &Settings {
        self.settings.get_or_init(|| Settings::load_or_defaults(self.gate_timeout.as_deref()))
    }

    /// The effective gates for a session or a loop since it began: see [`Acceptances::that_count`].
    pub(crate) fn gates_for(
        &self,
        session: Option<&SessionId>,
        beginning: Beginning<'_>,
    ) -> io::Result<GatesLookup> {
        self.gates_by(&self.acceptances_for(session, beginning)?)
    }

    /// The acceptances that count for a session or a loop since it began.
    pub(crate) fn acceptances_for(
        &self,
        session: Option<&SessionId>,
        beginning: Beginning<'_>,
    ) -> io::Result<Acceptances> {
        Ok(Acceptances::that_count(self.trust()?.accepted(&self.repo), session, beginning))
    }

    /// The gates that these acceptances give.
    pub(crate) fn gates_by(&self, accepted: &Acceptances) -> io::Result<GatesLookup> {
        let revoked = self.trust()?.revoked_at(&self.repo).is_some();
        GatesLookup::lookup(&self.home, &self.repo, accepted, revoked, &self.settings().defaults())
    }

    /// The handle of a loop, shared in this process so that its ledger is folded once.
    pub(crate) fn loop_of(&self, id: &LoopId) -> Arc<Loop> {
        let mut loops = self.loops.lock().unwrap_or_else(PoisonError::into_inner);
        let handle =
            loops.entry(id.clone()).or_insert_with(|| Arc::new(Loop::judged_here(&self.repo_home, id)));
        Arc::clone(handle)
    }

    pub(crate) fn state_of(&self, id: &LoopId) -> io::Result<State> {
        Ok(self.loop_of(id).state()?)
    }
}
