//! The person's own config, `~/.config/ralph/config.yaml`: numbers and names that a repo must not decide alone.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use ralph_core::clients::profile::Profile;
use ralph_core::config::user::UserFile;
use ralph_core::config::{Defaults, Reports};
use ralph_core::model::budget::Budget;
use ralph_core::model::gate::DEFAULT_TIMEOUT;
use ralph_core::model::layout::Layout;
use ralph_core::model::limits::{Limits, Origin, Sourced};
use ralph_core::model::problem::Problem;
use ralph_core::model::verdict::Trouble;
use ralph_core::model::{duration, preset};

use crate::sys::{env, files};

#[derive(Clone, Debug, Default)]
pub(crate) struct UserConfig {
    pub(crate) gate_timeout: Option<Duration>,
    pub(crate) budget: Budget,
    /// Variables that gates keep although they are on the list of those taken out.
    pub(crate) keep_env: Vec<String>,
    /// Agents for the driver; one of them may be a built-in one that the person changed.
    pub(crate) agents: Vec<Profile>,
    /// What the driver's agent may do beyond its profile.
    pub(crate) allow: Vec<String>,
    pub(crate) reports: Option<Reports>,
}

impl UserConfig {
    pub(crate) fn load() -> Result<Self, SettingsError> {
        let Some(path) = env::user_config() else { return Ok(Self::default()) };
        let text =
            files::read_if_there(&path).map_err(|source| SettingsError::Io { path: path.clone(), source })?;
        let Some(text) = text else { return Ok(Self::default()) };
        let file = UserFile::parse(&String::from_utf8_lossy(&text))
            .map_err(|problem| SettingsError::UserFile { path, problem })?;
        let UserFile { gate_timeout, budget, keep_env, agents, allow, reports } = file;
        Ok(Self { gate_timeout, budget, keep_env, agents, allow, reports })
    }
}

/// Numbers from outside the repo.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) gate_timeout: Sourced<std::time::Duration>,
    pub(crate) user: UserConfig,
    /// What is wrong with them; the defaults stand in, and nothing can be told.
    pub(crate) trouble: Option<Trouble>,
}

impl Settings {
    /// From the person's config, the environment and a flag; later ones win.
    pub(crate) fn load(flag: Option<&str>) -> Result<Self, SettingsError> {
        let user = UserConfig::load()?;
        let mut gate_timeout = Sourced::default(DEFAULT_TIMEOUT);
        if let Some(value) = user.gate_timeout {
            gate_timeout = Sourced { value, origin: Origin::UserFile };
        }
        let newer = [
            (env::gate_timeout(), "RALPH_GATE_TIMEOUT", Origin::Environment),
            (flag.map(str::to_owned), "--gate-timeout", Origin::Flag),
        ];
        for (text, name, origin) in newer {
            let Some(text) = text else { continue };
            let value = duration::parse(&text).map_err(|hint| SettingsError::Value { name, hint })?;
            gate_timeout = Sourced { value, origin };
        }
        Ok(Self { gate_timeout, user, trouble: None })
    }

    /// For a door that must answer whatever is wrong with the person's own files.
    pub(crate) fn load_or_trouble(flag: Option<&str>) -> Self {
        Self::load(flag).unwrap_or_else(|error| Self {
            gate_timeout: Sourced::default(DEFAULT_TIMEOUT),
            user: UserConfig::default(),
            trouble: Some(error.into()),
        })
    }

    pub(crate) fn defaults(&self) -> Defaults {
        Defaults { gate_timeout: self.gate_timeout.value }
    }

    /// The limits of whoever is held without having asked for it.
    pub(crate) fn limits(&self, layout: Layout, repo: &Budget) -> Limits {
        Limits::new(&preset::CHECK, layout.data().clocks)
            .with(&self.user.budget, Origin::UserFile)
            .with(repo, Origin::RepoFile)
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error("{name}: {hint}")]
    Value { name: &'static str, hint: String },
    #[error("{path}:{}:{}: {} (hint: {})", problem.line, problem.column, problem.what, problem.hint)]
    UserFile { path: PathBuf, problem: Problem },
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
}

impl From<SettingsError> for Trouble {
    fn from(error: SettingsError) -> Self {
        match error {
            SettingsError::UserFile { path, problem } => {
                Self::Config { file: path.to_string_lossy().into_owned(), problem }
            }
            other => Self::Busy { why: other.to_string() },
        }
    }
}
