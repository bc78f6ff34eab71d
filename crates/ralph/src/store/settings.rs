//! The user's own config, `~/.config/ralph/config.yaml`: values that a repo must not decide alone.

use std::io;
use std::path::PathBuf;

use ralph_core::config::Defaults;
use ralph_core::config::user::UserFile;
use ralph_core::model::budget::Budget;
use ralph_core::model::config_problem::ConfigProblem;
use ralph_core::model::gate::DEFAULT_TIMEOUT;
use ralph_core::model::layout::Layout;
use ralph_core::model::limits::{Limits, Origin, WithOrigin};
use ralph_core::model::verdict::EvaluationError;
use ralph_core::model::{duration, preset};

use crate::sys::{env, files};

fn read_user_file() -> Result<UserFile, SettingsError> {
    let Some(path) = env::user_config() else { return Ok(UserFile::default()) };
    match files::read_if_there(&path) {
        Ok(None) => Ok(UserFile::default()),
        Ok(Some(text)) => UserFile::parse(&String::from_utf8_lossy(&text))
            .map_err(|problem| SettingsError::UserFile { path, problem }),
        Err(source) => Err(SettingsError::Io { path, source }),
    }
}

/// Settings from outside the repo.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) gate_timeout: WithOrigin<std::time::Duration>,
    pub(crate) user: UserFile,
    /// The error in them; defaults are used, and the gates cannot be evaluated.
    pub(crate) trouble: Option<EvaluationError>,
}

impl Settings {
    /// From the user's config, the environment and a flag; later ones win.
    pub(crate) fn load(flag: Option<&str>) -> Result<Self, SettingsError> {
        let user = read_user_file()?;
        let mut gate_timeout = WithOrigin::default(DEFAULT_TIMEOUT);
        if let Some(value) = user.gate_timeout {
            gate_timeout = WithOrigin { value, origin: Origin::UserFile };
        }
        let newer = [
            (env::gate_timeout(), "RALPH_GATE_TIMEOUT", Origin::Environment),
            (flag.map(str::to_owned), "--gate-timeout", Origin::Flag),
        ];
        for (text, name, origin) in newer {
            let Some(text) = text else { continue };
            let value = duration::parse(&text).map_err(|hint| SettingsError::Value { name, hint })?;
            gate_timeout = WithOrigin { value, origin };
        }
        Ok(Self { gate_timeout, user, trouble: None })
    }

    /// For hooks, which must answer even if the user's config is broken.
    pub(crate) fn load_or_defaults(flag: Option<&str>) -> Self {
        Self::load(flag).unwrap_or_else(|error| Self {
            gate_timeout: WithOrigin::default(DEFAULT_TIMEOUT),
            user: UserFile::default(),
            trouble: Some(error.into()),
        })
    }

    pub(crate) fn defaults(&self) -> Defaults {
        Defaults { gate_timeout: self.gate_timeout.value }
    }

    /// The limits of a guarded session or sub-agent, which the user did not start explicitly.
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
    UserFile { path: PathBuf, problem: ConfigProblem },
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
}

impl From<SettingsError> for EvaluationError {
    fn from(error: SettingsError) -> Self {
        match error {
            SettingsError::UserFile { path, problem } => {
                Self::Config { file: path.to_string_lossy().into_owned(), problem }
            }
            other => Self::Busy { why: other.to_string() },
        }
    }
}
