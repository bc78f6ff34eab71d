//! The person's own config, `~/.config/ralph/config.yaml`: numbers and names that a repo must not decide alone.

use std::time::Duration;

use ralph_core::budget::Budget;
use ralph_core::config::user::UserFile;

use crate::definition::SettingsError;
use crate::{env, files};

#[derive(Debug, Default)]
pub(crate) struct UserConfig {
    pub(crate) gate_timeout: Option<Duration>,
    pub(crate) budget: Budget,
    /// Variables that gates keep although they are on the list of those taken out.
    pub(crate) keep_env: Vec<String>,
}

impl UserConfig {
    pub(crate) fn load() -> Result<Self, SettingsError> {
        let Some(path) = env::user_config() else { return Ok(Self::default()) };
        let text =
            files::read_if_there(&path).map_err(|source| SettingsError::Io { path: path.clone(), source })?;
        let Some(text) = text else { return Ok(Self::default()) };
        let file = UserFile::parse(&String::from_utf8_lossy(&text))
            .map_err(|problem| SettingsError::UserFile { path, problem })?;
        Ok(Self { gate_timeout: file.gate_timeout, budget: file.budget, keep_env: file.keep_env })
    }
}
