//! The person's own config, `~/.config/ralph/config.yaml`: numbers and names that a repo must not decide alone.

use std::time::Duration;

use ralph_core::clients::profile::Profile;
use ralph_core::config::Reports;
use ralph_core::config::user::UserFile;
use ralph_core::model::budget::Budget;

use crate::store::effective_gates::SettingsError;
use crate::sys::{env, files};

#[derive(Debug, Default)]
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
