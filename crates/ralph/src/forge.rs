//! A forge hosts the repository and its pull requests. Everything that ralph asks of one is here; each forge is a file.
//!
//! A forge that cannot be asked is an error and never "there is none".

pub(crate) mod github;

use ralph_core::model::ship::{ForgeSeen, MergeMethod, ShipSettings};
use ralph_core::model::verdict::EvaluationError;

/// Why a forge could not be asked, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}; {next}")]
pub(crate) struct ForgeError {
    pub(crate) what: String,
    pub(crate) next: String,
}

impl ForgeError {
    pub(crate) fn new(what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { what: what.into(), next: next.into() }
    }
}

impl From<ForgeError> for EvaluationError {
    fn from(error: ForgeError) -> Self {
        Self::Forge { what: error.what, next: error.next }
    }
}

/// The answer to a request that changes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ForgeAnswer {
    Done,
    /// The forge refuses, in its words.
    Refused(String),
}

/// A pull request to open. All texts are data: none of them reaches a shell or an option.
pub(crate) struct NewPullRequest<'a> {
    pub(crate) branch: &'a str,
    pub(crate) base: &'a str,
    pub(crate) title: &'a str,
    pub(crate) body: &'a str,
    pub(crate) settings: &'a ShipSettings,
}

/// What ralph needs of a forge.
pub(crate) trait Forge {
    /// The pull requests of a branch of this repository, and all checks of a commit.
    fn look(&self, branch: &str, commit: &str) -> Result<ForgeSeen, ForgeError>;
    fn open(&self, new: &NewPullRequest<'_>) -> Result<ForgeAnswer, ForgeError>;
    /// The log of a failed job.
    fn job_log(&self, job: u64) -> Result<Vec<u8>, ForgeError>;
    /// Merges only if the head of the pull request is this commit.
    fn merge(&self, number: u64, commit: &str, how: MergeMethod) -> Result<ForgeAnswer, ForgeError>;
    fn delete_branch(&self, branch: &str) -> Result<(), ForgeError>;
}
