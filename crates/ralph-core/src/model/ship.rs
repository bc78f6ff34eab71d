//! Shipping: where a loop ends beyond its gates, and what a forge says about a branch and a commit.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::id::Digest;

/// Where a loop ends. Everything beyond `Verified` uses the user's rights on the forge.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    #[default]
    Verified,
    /// A pull request is open for the commit whose gates passed.
    Pr,
    /// Its CI passed.
    Ci,
    /// It is merged.
    Merged,
}

impl Until {
    pub const ALL: [Self; 4] = [Self::Verified, Self::Pr, Self::Ci, Self::Merged];

    pub fn code(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Pr => "pr",
            Self::Ci => "ci",
            Self::Merged => "merged",
        }
    }

    /// The goal that one of the well-known promises implies.
    pub fn implied_by(promise: &str) -> Option<Self> {
        match promise {
            QUALITY_GATE_PASSED => Some(Self::Pr),
            CI_PASSED => Some(Self::Merged),
            _ => None,
        }
    }
}

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|until| until.code() == text);
        known.ok_or_else(|| "expected `verified`, `pr`, `ci` or `merged`".to_owned())
    }
}

/// The promise of a loop that ends with a pull request.
pub const QUALITY_GATE_PASSED: &str = "QUALITY_GATE_PASSED";
/// The promise of a loop that ends with a merge.
pub const CI_PASSED: &str = "CI_PASSED";

/// The agent's audit of its own work.
pub const AUDIT_REPORT: &str = "docs/AUDIT-REPORT.md";
/// What the agent offers as evidence.
pub const EVIDENCE_FILE: &str = ".layer2-evidence.md";
/// Another tool's record that its checks passed.
pub const GATE_FILE: &str = ".quality-gate-passed";
/// Claims about the code that are rewritten with it: left out of the tree of a loop that ships.
pub const CLAIM_FILES: [&str; 4] = [GATE_FILE, ".quality-evidence.json", AUDIT_REPORT, EVIDENCE_FILE];

/// How a pull request is merged.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MergeMethod {
    #[default]
    Squash,
    Merge,
    Rebase,
    Never,
}

impl MergeMethod {
    pub fn code(self) -> &'static str {
        match self {
            Self::Squash => "squash",
            Self::Merge => "merge",
            Self::Rebase => "rebase",
            Self::Never => "never",
        }
    }
}

/// What the gates must show before anything is pushed.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequiredLevel {
    #[default]
    Passing,
    Verified,
}

/// Whether an audit of the agent is required.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditRule {
    /// Only where the file exists.
    #[default]
    IfPresent,
    Required,
}

/// The `ship:` settings of a repo.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShipSettings {
    pub merge: MergeMethod,
    pub delete_branch: bool,
    pub draft: bool,
    pub labels: Vec<String>,
    pub reviewers: Vec<String>,
    /// The branch to merge into; none means the forge's default branch.
    pub base: Option<String>,
    #[serde(with = "crate::model::duration::seconds")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub poll: Duration,
    #[serde(with = "crate::model::duration::seconds")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub ci_timeout: Duration,
    /// The repo has no CI: none is waited for.
    pub no_ci: bool,
    pub require: RequiredLevel,
    pub audit: AuditRule,
}

impl Default for ShipSettings {
    fn default() -> Self {
        Self {
            merge: MergeMethod::Squash,
            delete_branch: true,
            draft: false,
            labels: Vec::new(),
            reviewers: Vec::new(),
            base: None,
            poll: Duration::from_secs(30),
            ci_timeout: Duration::from_secs(3600),
            no_ci: false,
            require: RequiredLevel::Passing,
            audit: AuditRule::IfPresent,
        }
    }
}

/// How a loop ships; fixed when it starts.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShipPlan {
    pub until: Until,
    pub settings: ShipSettings,
    /// Started by one of the well-known promises, which require audit, evidence and a gate file.
    #[serde(default)]
    pub by_promise: bool,
    /// The branch that is pushed where the loop stands on the default branch.
    pub branch: String,
    /// The remote that is pushed to, and its repository on the forge: `HOST/OWNER/NAME`.
    pub remote: String,
    pub repository: String,
    /// Git's configuration, attributes and hooks at the start: programs in them run with the user's rights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<Digest>,
}

/// A pull request, as the forge describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullRequest {
    pub number: u64,
    pub url: String,
    pub state: PullRequestState,
    /// The last commit of its branch.
    pub head: String,
    pub base: String,
    pub is_draft: bool,
    pub merge_state: MergeState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullRequestState {
    Open,
    Closed,
    Merged,
}

/// Whether the forge would merge it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeState {
    Clean,
    /// Protected: a review, another check or a queue is required.
    Blocked,
    Conflicts,
    /// The forge is still computing it, or says something else.
    Unknown,
}

/// One check run or status of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CiCheck {
    pub name: String,
    pub state: CiState,
    pub url: Option<String>,
    /// The job whose log can be read.
    pub job: Option<u64>,
    /// What the check says about itself.
    pub about: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CiState {
    Passed,
    Pending,
    /// In the forge's word: `failure`, `cancelled`, `timed_out`.
    Failed(String),
}

impl CiState {
    /// Of a check run. Skipped and neutral do not fail; what is not known is not passed.
    pub fn of_run(status: &str, conclusion: Option<&str>) -> Self {
        match (status.to_ascii_lowercase().as_str(), conclusion.map(str::to_ascii_lowercase).as_deref()) {
            ("completed", Some("success" | "skipped" | "neutral")) => Self::Passed,
            ("completed", Some(other)) => Self::Failed(other.to_owned()),
            _ => Self::Pending,
        }
    }

    /// Of a commit status.
    pub fn of_status(state: &str) -> Self {
        match state.to_ascii_lowercase().as_str() {
            "success" => Self::Passed,
            "failure" | "error" => Self::Failed(state.to_ascii_lowercase()),
            _ => Self::Pending,
        }
    }
}

/// What a forge says about one branch and one commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForgeSeen {
    pub default_branch: String,
    /// Those of this branch of this repository, the newest first.
    pub pull_requests: Vec<PullRequest>,
    /// All checks of the commit.
    pub checks: Vec<CiCheck>,
    /// Workflows of the commit that have begun, or wait, without a check so far.
    pub starting: Vec<String>,
}

/// All checks of a commit, in one word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CiSummary {
    NoChecks,
    Pending(Vec<String>),
    Failed(Vec<CiCheck>),
    Green(usize),
}

impl ForgeSeen {
    pub fn open_pull_request(&self) -> Option<&PullRequest> {
        self.pull_requests.iter().find(|found| found.state == PullRequestState::Open)
    }

    /// One failure decides, then one pending check.
    pub fn ci(&self) -> CiSummary {
        let failed: Vec<CiCheck> =
            self.checks.iter().filter(|check| matches!(check.state, CiState::Failed(_))).cloned().collect();
        if !failed.is_empty() {
            return CiSummary::Failed(failed);
        }
        let pending = self.checks.iter().filter(|check| check.state == CiState::Pending);
        let names: Vec<String> =
            pending.map(|check| check.name.clone()).chain(self.starting.iter().cloned()).collect();
        match (names.is_empty(), self.checks.len()) {
            (false, _) => CiSummary::Pending(names),
            (true, 0) => CiSummary::NoChecks,
            (true, count) => CiSummary::Green(count),
        }
    }
}

/// What ralph does itself, once the gates passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShipAction {
    /// Leave the default branch.
    SwitchBranch {
        branch: String,
    },
    /// Commit what the agent left.
    Commit {
        files: Vec<String>,
    },
    Push {
        branch: String,
        commit: String,
    },
    OpenPullRequest {
        branch: String,
        base: String,
    },
    Merge {
        number: u64,
        commit: String,
    },
}

impl ShipAction {
    /// Whether the gates must have run for this very decision.
    pub fn needs_fresh_gates(&self) -> bool {
        matches!(self, Self::Push { .. } | Self::Merge { .. })
    }
}

/// A wait for something outside of the loop. It survives the process.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShipWait {
    /// What is waited for: `ci`, `merge`.
    pub step: String,
    pub commit: String,
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub since: Timestamp,
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub deadline: Timestamp,
}

/// What was done on the way.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum ShipStep {
    SwitchedBranch {
        branch: String,
    },
    Committed {
        commit: String,
    },
    Pushed {
        branch: String,
        commit: String,
    },
    /// Opened, or found open.
    PullRequest {
        number: u64,
        url: String,
    },
    Merged {
        number: u64,
        url: String,
        commit: String,
    },
}

/// Where a branch stands, for scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShipPhase {
    /// No open pull request.
    P0,
    /// CI failed.
    P1,
    Pending,
    /// CI passed.
    P2,
    Merged,
    Unknown,
}

impl ShipPhase {
    pub const ALL: [Self; 6] = [Self::P0, Self::P1, Self::Pending, Self::P2, Self::Merged, Self::Unknown];

    /// From what the forge says about the branch and the head of its pull request; a failing forge is never `P0`.
    pub fn of(seen: Option<&ForgeSeen>, no_ci: bool) -> Self {
        let Some(seen) = seen else { return Self::Unknown };
        if seen.open_pull_request().is_none() {
            let newest = seen.pull_requests.first().map(|found| found.state);
            return if newest == Some(PullRequestState::Merged) { Self::Merged } else { Self::P0 };
        }
        match seen.ci() {
            CiSummary::Failed(_) => Self::P1,
            CiSummary::Green(_) => Self::P2,
            CiSummary::NoChecks if no_ci => Self::P2,
            CiSummary::NoChecks | CiSummary::Pending(_) => Self::Pending,
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.code().eq_ignore_ascii_case(name.trim()))
    }

    pub fn code(self) -> &'static str {
        match self {
            Self::P0 => "p0",
            Self::P1 => "p1",
            Self::Pending => "pending",
            Self::P2 => "p2",
            Self::Merged => "merged",
            Self::Unknown => "unknown",
        }
    }

    pub fn description(self) -> &'static str {
        match self {
            Self::P0 => "Pre-PR: no open pull request for this branch",
            Self::P1 => "Post-PR: CI failed",
            Self::Pending => "Post-PR: CI has not finished",
            Self::P2 => "Post-PR: CI passed",
            Self::Merged => "The pull request is merged",
            Self::Unknown => "Unknown: the forge could not be asked",
        }
    }

    pub fn action(self) -> &'static str {
        match self {
            Self::P0 => "Finish the quality checks and open a pull request",
            Self::P1 => "Read the failing logs, fix the code, commit and push",
            Self::Pending => "Wait for CI",
            Self::P2 => "Merge the pull request",
            Self::Merged => "Nothing is left to do",
            Self::Unknown => "Check `gh auth status`, the remote and the network",
        }
    }
}

#[cfg(test)]
mod tests;
