//! What a loop that ships needs next: from what git and the forge say to one outcome for each step.
//!
//! Nothing here is assumed: a pull request counts only with the commit whose gates passed as its head, CI only for that
//! commit, a merge only when the forge says so.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::ledger::event::Event;
use crate::model::finding::ShipOutcome;
use crate::model::gate::GateReport;
use crate::model::id::{Digest, TreeHash};
use crate::model::ship::{
    CiCheck, CiSummary, ForgeSeen, MergeMethod, MergeState, PullRequest, PullRequestState, ShipAction,
    ShipPlan, ShipStep, ShipWait,
};
use crate::model::verdict::Reason;

/// The part of a loop's state about shipping.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShipState {
    pub steps: Vec<ShipStep>,
    /// The pull request of this loop.
    pub pull_request: Option<u64>,
    pub url: Option<String>,
    /// The last commit that ralph pushed.
    pub pushed: Option<String>,
    pub wait: Option<ShipWait>,
    /// Each claim file's content with the code it was first seen with.
    pub claims: BTreeMap<String, (Digest, TreeHash)>,
    /// Every CI failure that was seen.
    pub ci_marks: BTreeSet<Digest>,
    /// CI failures in a row that were all seen before.
    pub repeated_ci_failures: u32,
}

/// So many CI failures without a new one mean that the agent is stuck.
pub const MOST_REPEATED_CI_FAILURES: u32 = 5;

impl ShipState {
    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::Shipped(step) => {
                match step {
                    ShipStep::Pushed { commit, .. } => self.pushed = Some(commit.clone()),
                    ShipStep::PullRequest { number, url } | ShipStep::Merged { number, url, .. } => {
                        (self.pull_request, self.url) = (Some(*number), Some(url.clone()));
                    }
                    ShipStep::SwitchedBranch { .. } | ShipStep::Committed { .. } => {}
                }
                self.steps.push(step.clone());
            }
            Event::ShipWaits(wait) => self.wait = Some(wait.clone()),
            Event::ClaimFileSeen { file, content, tree } => {
                self.claims.insert(file.clone(), (content.clone(), tree.clone()));
            }
            Event::Judged(judgement) => {
                if let Reason::CiFailed { marks, .. } = &judgement.reason {
                    self.repeated_ci_failures = self.repeats(marks);
                    self.ci_marks.extend(marks.iter().cloned());
                }
            }
            _ => {}
        }
    }

    /// How many CI failures in a row brought nothing new, with this one.
    pub(crate) fn repeats(&self, marks: &[Digest]) -> u32 {
        let is_known = marks.iter().all(|mark| self.ci_marks.contains(mark));
        if is_known { self.repeated_ci_failures + 1 } else { 0 }
    }
}

/// Who commits, pushes and opens the pull request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShippedBy {
    Ralph,
    /// The agent of a session, watched by its user.
    Agent,
}

/// The checkout whose gates were judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckoutSeen {
    /// None if detached.
    pub branch: Option<String>,
    pub head: Option<String>,
    /// Files that differ from the head commit and belong into it.
    pub uncommitted: Vec<String>,
    /// The remote that is pushed to.
    pub remote: String,
    /// The repository, as `gh --repo` takes it.
    pub repository: String,
}

/// Everything known when the steps are judged.
#[derive(Clone, Copy, Debug)]
pub struct ShipView<'a> {
    pub plan: &'a ShipPlan,
    pub by: ShippedBy,
    pub checkout: &'a CheckoutSeen,
    pub forge: &'a ForgeSeen,
    pub state: &'a ShipState,
    pub title: &'a str,
    /// Without a gate nothing is verified, and ralph merges nothing.
    pub has_gates: bool,
    pub now: Timestamp,
}

impl ShipView<'_> {
    fn base(&self) -> &str {
        self.plan.settings.base.as_deref().unwrap_or(&self.forge.default_branch)
    }

    fn head(&self) -> &str {
        self.checkout.head.as_deref().unwrap_or_default()
    }

    /// The pull request that holds exactly the head commit.
    fn merged(&self) -> Option<&PullRequest> {
        let is_ours = |found: &&PullRequest| {
            found.state == PullRequestState::Merged
                && found.head == self.head()
                && self.checkout.uncommitted.is_empty()
        };
        self.forge.pull_requests.iter().find(is_ours)
    }

    pub fn pull_request(&self) -> ShipOutcome {
        if self.merged().is_some() {
            return ShipOutcome::Passed;
        }
        let of_loop =
            self.forge.pull_requests.iter().find(|found| Some(found.number) == self.state.pull_request);
        match of_loop {
            Some(found) if found.state == PullRequestState::Merged => {
                return needs_user(
                    format!(
                        "pull request #{} was merged at another commit than the one whose gates passed",
                        found.number
                    ),
                    "look at the pull request; start a new loop for what is left",
                );
            }
            _ => {}
        }
        let branch = match &self.checkout.branch {
            Some(branch) if branch != self.base() && *branch != self.forge.default_branch => branch,
            _ => return self.leave_default_branch(),
        };
        if !self.checkout.uncommitted.is_empty() {
            return self.commit();
        }
        match self.forge.open_pull_request() {
            Some(open) if open.head == self.head() => ShipOutcome::Passed,
            Some(_) if self.state.pushed.as_deref() == Some(self.head()) => {
                self.waits("push", format!("the forge to show commit {}", short(self.head())))
            }
            Some(_) => self.push(branch),
            None => self.without_open_pull_request(branch),
        }
    }

    fn without_open_pull_request(&self, branch: &str) -> ShipOutcome {
        if let Some(closed) =
            self.forge.pull_requests.first().filter(|found| found.state == PullRequestState::Closed)
        {
            return needs_user(
                format!("pull request #{} of this branch was closed without a merge", closed.number),
                "reopen it, or use another branch",
            );
        }
        let base = self.base().to_owned();
        match self.by {
            ShippedBy::Ralph if self.state.pushed.as_deref() == Some(self.head()) => {
                ShipOutcome::ToDo(ShipAction::OpenPullRequest { branch: branch.to_owned(), base })
            }
            ShippedBy::Ralph => self.push(branch),
            ShippedBy::Agent => unmet(
                format!("no pull request is open for branch `{branch}`"),
                format!(
                    "push the commit and open one: `git push -u {} HEAD` and `gh pr create --repo {} --head {} --base {} --fill`",
                    quoted(&self.checkout.remote),
                    quoted(&self.checkout.repository),
                    quoted(branch),
                    quoted(&base)
                ),
            ),
        }
    }

    fn leave_default_branch(&self) -> ShipOutcome {
        let branch = self.plan.branch.clone();
        match self.by {
            ShippedBy::Ralph => ShipOutcome::ToDo(ShipAction::SwitchBranch { branch }),
            ShippedBy::Agent => unmet(
                "the work is on the default branch, or on none",
                format!("move it to a branch of its own: `git switch -c {}`", quoted(&branch)),
            ),
        }
    }

    fn commit(&self) -> ShipOutcome {
        let files = self.checkout.uncommitted.clone();
        match self.by {
            ShippedBy::Ralph => ShipOutcome::ToDo(ShipAction::Commit { files }),
            ShippedBy::Agent => unmet(
                format!("{} not committed: {}", count(files.len(), "file is", "files are"), shown(&files)),
                "commit them: `git add` these files, then `git commit`",
            ),
        }
    }

    fn push(&self, branch: &str) -> ShipOutcome {
        match self.by {
            ShippedBy::Ralph => ShipOutcome::ToDo(ShipAction::Push {
                branch: branch.to_owned(),
                commit: self.head().to_owned(),
            }),
            ShippedBy::Agent => unmet(
                format!("the pull request does not have commit {}", short(self.head())),
                format!("push it: `git push {} HEAD:{}`", quoted(&self.checkout.remote), quoted(branch)),
            ),
        }
    }

    /// The checks of the head commit. `reports` are of the failing ones, whose logs are read only if there are any.
    pub fn ci(&self, reports: impl FnOnce(&[CiCheck]) -> Vec<GateReport>) -> ShipOutcome {
        if self.merged().is_some() {
            return ShipOutcome::Passed;
        }
        let url = self.forge.open_pull_request().map(|open| open.url.clone()).unwrap_or_default();
        match self.forge.ci() {
            CiSummary::Green(_) => ShipOutcome::Passed,
            CiSummary::NoChecks if self.plan.settings.no_ci => ShipOutcome::Passed,
            CiSummary::Failed(checks) => ShipOutcome::CiFailed { reports: reports(&checks), url },
            CiSummary::NoChecks => {
                self.waits("ci", format!("CI of {}: no check was reported yet", short(self.head())))
            }
            CiSummary::Pending(names) => {
                self.waits("ci", format!("CI of {}: {}", short(self.head()), shown(&names)))
            }
        }
    }

    pub fn merge(&self) -> ShipOutcome {
        if self.merged().is_some() {
            return ShipOutcome::Passed;
        }
        let Some(open) = self.forge.open_pull_request() else {
            return needs_user("the pull request is no longer open", "look at it and start a new loop");
        };
        if self.plan.settings.merge == MergeMethod::Never {
            return self.waits("merge", format!("you to merge pull request #{}", open.number));
        }
        match open.merge_state {
            MergeState::Conflicts => unmet(
                format!("pull request #{} conflicts with `{}`", open.number, open.base),
                format!(
                    "merge it into this branch, resolve the conflicts and commit: `git fetch {} && git merge FETCH_HEAD`",
                    quoted(&self.checkout.remote)
                ),
            ),
            _ if open.is_draft => needs_user(
                format!("pull request #{} is a draft, which the forge does not merge", open.number),
                format!("mark it as ready with `gh pr ready {}`, then `ralph resume`", open.number),
            ),
            MergeState::Blocked => self.waits(
                "merge",
                format!("the forge to allow the merge of #{}: its branch is protected (review, required check or queue)", open.number),
            ),
            MergeState::Clean | MergeState::Unknown => ShipOutcome::ToDo(ShipAction::Merge {
                number: open.number,
                commit: self.head().to_owned(),
            }),
        }
    }

    /// Waits with the deadline of this step and commit, which is kept once it is set.
    pub fn waits(&self, step: &str, what: String) -> ShipOutcome {
        let same = |wait: &&ShipWait| wait.step == step && wait.commit == self.head();
        let wait = self.state.wait.as_ref().filter(same).cloned().unwrap_or_else(|| ShipWait {
            step: step.to_owned(),
            commit: self.head().to_owned(),
            since: self.now,
            deadline: later(self.now, self.plan.settings.ci_timeout),
        });
        if self.now >= wait.deadline {
            return needs_user(
                format!("waited until {} in vain for {what}", wait.deadline.strftime("%H:%M UTC")),
                "look at the pull request; raise `ship.ci_timeout`, or set `ship.no_ci: true` where there is no CI",
            );
        }
        let until = later(self.now, self.poll_after(&wait)).min(wait.deadline);
        ShipOutcome::NotYet { what, until, wait }
    }

    /// A long wait is polled less often: a tenth of the time waited so far, within limits.
    fn poll_after(&self, wait: &ShipWait) -> Duration {
        let poll = self.plan.settings.poll;
        let waited = Duration::try_from(self.now.duration_since(wait.since)).unwrap_or_default();
        (waited / 10).clamp(poll, poll * 5)
    }
}

fn later(now: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by).ok().and_then(|by| now.checked_add(by).ok()).unwrap_or(Timestamp::MAX)
}

fn unmet(what: impl Into<String>, next: impl Into<String>) -> ShipOutcome {
    ShipOutcome::Unmet { what: what.into(), next: next.into() }
}

fn needs_user(what: impl Into<String>, next: impl Into<String>) -> ShipOutcome {
    ShipOutcome::NeedsUser { what: what.into(), next: next.into() }
}

/// A commit in short.
pub fn short(commit: &str) -> &str {
    commit.get(..7).unwrap_or(commit)
}

fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

fn shown(names: &[String]) -> String {
    let most = 8;
    let mut text = names.iter().take(most).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > most {
        text.push_str(&format!(" and {} more", names.len() - most));
    }
    text
}

/// A word for a shell; names of branches may contain anything.
pub fn quoted(word: &str) -> String {
    let is_plain = !word.is_empty()
        && !word.starts_with('-')
        && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./@".contains(c));
    if is_plain { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests;
