//! The person's own config, `~/.config/ralph/config.yaml`: numbers and names that a repo must not decide alone.

use std::io;
use std::path::PathBuf;

use ralph_core::config::Defaults;
use ralph_core::config::user::UserFile;
use ralph_core::model::budget::Budget;
use ralph_core::model::gate::DEFAULT_TIMEOUT;
use ralph_core::model::layout::Layout;
use ralph_core::model::limits::{Limits, Origin, Sourced};
use ralph_core::model::problem::Problem;
use ralph_core::model::verdict::Trouble;
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

/// Numbers from outside the repo.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) gate_timeout: Sourced<std::time::Duration>,
    pub(crate) user: UserFile,
    /// What is wrong with them; the defaults stand in, and nothing can be told.
    pub(crate) trouble: Option<Trouble>,
}

impl Settings {
    /// From the person's config, the environment and a flag; later ones win.
    pub(crate) fn load(flag: Option<&str>) -> Result<Self, SettingsError> {
        let user = read_user_file()?;
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
            user: UserFile::default(),
            trouble: Some(error.into()),
        })
    }

    pub(crate) fn defaults(&self) -> Defaults {
        Defaults { gate_timeout: self.gate_timeout.value }
    }

    /// The limits of a guarded session or sub-agent, which no user asked for one by one.
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
