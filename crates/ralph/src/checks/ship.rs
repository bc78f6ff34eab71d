//! Pull request, CI and merge: looks at git and the forge, and does what the decision asks for.
//!
//! The rules are in `ledger/ship.rs` of the core. Looking changes nothing; [`Shipping::act`] does one thing, and the
//! next look shows whether it worked, also where the answer got lost.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_core::claims::results;
use ralph_core::ledger::event::Event;
use ralph_core::ledger::ship::{CheckoutSeen, ShipState, ShipView, ShippedBy};
use ralph_core::model::finding::ShipOutcome;
use ralph_core::model::foreign_text;
use ralph_core::model::gate::{GateOutcome, GateReport};
use ralph_core::model::goal::Goal;
use ralph_core::model::id::{GateName, LoopId};
use ralph_core::model::preset::Check;
use ralph_core::model::secrets::Secrets;
use ralph_core::model::ship::{
    CLAIM_FILES, CiCheck, CiState, ForgeSeen, MergeMethod, PullRequestState, ShipAction, ShipPlan,
    ShipSettings, ShipStep, Until,
};
use ralph_core::model::verdict::EvaluationError;
use ralph_core::say::excerpt::excerpt;

use crate::forge::github::{GitHub, GitHubRepository};
use crate::forge::{Forge, ForgeAnswer, ForgeError, NewPullRequest};
use crate::store::exports::prescribed_paths::NEVER_COMMITTED;
use crate::sys::proc::StopRequest;
use crate::sys::{clock, files};
use crate::work_tree::git::head::GitHead;
use crate::work_tree::git::users::{PushError, UserGit};

/// More failing checks than this are only named.
const MOST_LOGS: usize = 4;
/// The end of a log, which holds the failure.
const LONGEST_LOG: usize = 1 << 20;
const LONGEST_EXCERPT: usize = 4_000;

/// One loop on its way to its goal beyond the gates.
pub(crate) struct Shipping {
    plan: ShipPlan,
    by: ShippedBy,
    goal: Goal,
    forge: Box<dyn Forge>,
    git: UserGit,
    root: PathBuf,
    logs: PathBuf,
    secrets: Secrets,
    has_gates: bool,
    /// What each gate said, for the text of the pull request.
    gates: Vec<String>,
    /// The last action that did not work, and what follows from that if it is still needed.
    failed: RefCell<Option<(ShipAction, ShipOutcome)>>,
    seen: RefCell<Option<(CheckoutSeen, ForgeSeen)>>,
}

/// What a [`Shipping`] is made from.
pub(crate) struct ShippingOptions<'a> {
    pub(crate) goal: &'a Goal,
    pub(crate) by: ShippedBy,
    pub(crate) root: &'a Path,
    pub(crate) scratch: &'a Path,
    pub(crate) logs: PathBuf,
    pub(crate) secrets: Secrets,
    pub(crate) has_gates: bool,
    pub(crate) gates: Vec<String>,
    pub(crate) stop: &'a StopRequest,
}

impl Shipping {
    /// None for a loop that ends with its gates.
    pub(crate) fn new(options: ShippingOptions<'_>) -> Option<Result<Self, EvaluationError>> {
        let plan = options.goal.ship.clone().filter(|plan| plan.until > Until::Verified)?;
        let git = UserGit::find(options.root, options.scratch)
            .map_err(|error| trouble("git", &error.to_string(), "check the repository"));
        let Some(repository) = GitHubRepository::named(&plan.repository) else {
            return Some(Err(trouble("the repository", "its name cannot be read", "start the loop again")));
        };
        Some(git.map(|git| Self {
            by: options.by,
            goal: options.goal.clone(),
            forge: Box::new(GitHub::new(repository, options.scratch, options.stop)),
            git,
            root: options.root.to_owned(),
            logs: options.logs,
            secrets: options.secrets,
            has_gates: options.has_gates,
            gates: options.gates,
            failed: RefCell::default(),
            seen: RefCell::default(),
            plan: *plan,
        }))
    }

    pub(crate) fn plan(&self) -> &ShipPlan {
        &self.plan
    }

    /// Forgets what was seen: the next look asks again.
    pub(crate) fn look_again(&self) {
        self.seen.replace(None);
    }

    /// The outcome of one step. What was seen serves all steps of one look.
    pub(crate) fn look(&self, check: Check, state: &ShipState) -> ShipOutcome {
        match self.see() {
            Ok((checkout, forge)) => self.outcome(check, state, &checkout, &forge),
            Err(outcome) => outcome,
        }
    }

    fn outcome(
        &self,
        check: Check,
        state: &ShipState,
        checkout: &CheckoutSeen,
        forge: &ForgeSeen,
    ) -> ShipOutcome {
        let view = ShipView {
            plan: &self.plan,
            by: self.by,
            checkout,
            forge,
            state,
            title: &self.goal.task,
            has_gates: self.has_gates,
            now: clock::now(),
        };
        let outcome = match check {
            Check::PullRequest => view.pull_request(),
            Check::Ci => view.ci(|checks| self.reports(checks)),
            Check::Merge => view.merge(),
            _ => ShipOutcome::Passed,
        };
        match (&outcome, self.failed.borrow().as_ref()) {
            // It was tried, and is still needed.
            (ShipOutcome::ToDo(action), Some((tried, follows))) if action == tried => match follows {
                ShipOutcome::NotYet { what, .. } => view.waits("merge", what.clone()),
                other => other.clone(),
            },
            _ => outcome,
        }
    }

    fn see(&self) -> Result<(CheckoutSeen, ForgeSeen), ShipOutcome> {
        if let Some(seen) = &*self.seen.borrow() {
            return Ok(seen.clone());
        }
        let setup = self.git.setup().map_err(|error| cannot_tell("git", &error.to_string()))?;
        if self.plan.git.as_ref().is_some_and(|at_start| *at_start != setup) {
            return Err(ShipOutcome::NeedsUser {
                what: "git's configuration, attributes or hooks changed since the loop began, so ralph does not use your git".into(),
                next: "review them (`git config --list`, `.gitattributes`, the hooks), then commit and push yourself or start a new loop".into(),
            });
        }
        let head = GitHead::of(&self.root);
        let uncommitted = self.git.uncommitted().map_err(|error| cannot_tell("git", &error.to_string()))?;
        let checkout = CheckoutSeen {
            uncommitted: self.belonging_to_a_commit(uncommitted),
            branch: head.branch,
            head: head.commit,
            remote: self.plan.remote.clone(),
            repository: self.plan.repository.clone(),
        };
        let branch = checkout.branch.clone().unwrap_or_else(|| self.plan.branch.clone());
        let commit = checkout.head.clone().unwrap_or_default();
        let forge =
            self.forge.look(&branch, &commit).map_err(|error| ShipOutcome::CannotTell(error.into()))?;
        self.seen.replace(Some((checkout.clone(), forge.clone())));
        Ok((checkout, forge))
    }

    /// Claim files that are only rewritten need no commit of their own: every run of the gates rewrites some again.
    fn belonging_to_a_commit(&self, files: Vec<String>) -> Vec<String> {
        let is_ours = |file: &String| {
            NEVER_COMMITTED.iter().any(|never| Path::new(file).starts_with(never))
                || Path::new(file) == Path::new("ralph.yaml")
        };
        let files: Vec<String> = files.into_iter().filter(|file| !is_ours(file)).collect();
        let is_claim = |file: &String| CLAIM_FILES.contains(&file.as_str());
        let is_needed = files.iter().any(|file| !is_claim(file) || !self.git.tracks(file));
        if is_needed { files } else { Vec::new() }
    }

    /// What happened on the forge since it was last recorded.
    pub(crate) fn news(&self, state: &ShipState) -> Vec<Event> {
        let seen = self.seen.borrow();
        let Some((checkout, forge)) = &*seen else { return Vec::new() };
        let Some(head) = &checkout.head else { return Vec::new() };
        let of_head = forge
            .pull_requests
            .iter()
            .find(|found| found.head == *head && found.state != PullRequestState::Closed);
        let Some(found) = of_head else { return Vec::new() };
        let mut steps = Vec::new();
        if state.pull_request != Some(found.number) {
            steps.push(ShipStep::PullRequest { number: found.number, url: found.url.clone() });
        }
        let merged = ShipStep::Merged { number: found.number, url: found.url.clone(), commit: head.clone() };
        if found.state == PullRequestState::Merged && !state.steps.contains(&merged) {
            if let Some(branch) = checkout.branch.as_ref().filter(|branch| {
                self.plan.settings.delete_branch && **branch != found.base && **branch != forge.default_branch
            }) {
                // The merge counts even where its branch stays.
                let _best_effort = self.forge.delete_branch(branch);
            }
            steps.push(merged);
        }
        steps.into_iter().map(Event::Shipped).collect()
    }

    /// Does one thing. What it led to is seen by the next look; what is returned is recorded.
    pub(crate) fn act(&self, action: &ShipAction) -> Vec<Event> {
        self.look_again();
        let done = match action {
            ShipAction::SwitchBranch { branch } => self.git.switch(branch).map_or_else(
                |error| {
                    Err(unmet(
                        format!("the branch `{branch}` cannot be made: {error}"),
                        "commit on a branch of your own",
                    ))
                },
                |()| Ok(vec![ShipStep::SwitchedBranch { branch: branch.clone() }]),
            ),
            ShipAction::Commit { files } => self.git.commit(files, &self.commit_message()).map_or_else(
                |error| {
                    Err(unmet(
                        self.foreign("the commit failed", &error.to_string()),
                        "fix what git or its hook complains about, or commit yourself",
                    ))
                },
                |commit| Ok(vec![ShipStep::Committed { commit }]),
            ),
            ShipAction::Push { branch, commit } => match self.git.push(&self.plan.remote, commit, branch) {
                Ok(()) => Ok(vec![ShipStep::Pushed { branch: branch.clone(), commit: commit.clone() }]),
                Err(PushError::Rejected(why)) => Err(unmet(
                    self.foreign("the push was rejected", &why),
                    "if the remote has other commits, merge them into this branch; if a hook refuses, fix what it complains about; never force",
                )),
                Err(PushError::Unreachable(why)) => Err(ShipOutcome::CannotTell(trouble(
                    "git push",
                    &why,
                    "check the network and your login at the remote",
                ))),
            },
            ShipAction::OpenPullRequest { branch, base } => self.open(branch, base),
            ShipAction::Merge { number, commit } => self.merge(*number, commit),
        };
        match done {
            Ok(steps) => steps.into_iter().map(Event::Shipped).collect(),
            Err(follows) => {
                self.failed.replace(Some((action.clone(), follows)));
                Vec::new()
            }
        }
    }

    fn open(&self, branch: &str, base: &str) -> Result<Vec<ShipStep>, ShipOutcome> {
        let (title, body) = (self.goal.headline(), self.body(base));
        let new = NewPullRequest { branch, base, title: &title, body: &body, settings: &self.plan.settings };
        match self.forge.open(&new) {
            // The next look finds it.
            Ok(ForgeAnswer::Done) => Err(ShipOutcome::NotYet {
                what: "the forge to show the new pull request".into(),
                until: clock::now(),
                wait: no_wait(),
            }),
            Ok(ForgeAnswer::Refused(why)) => Err(unmet(
                self.foreign("the pull request could not be opened", &why),
                "commit a change for the task, or check the branch and its base",
            )),
            Err(error) => Err(ShipOutcome::CannotTell(error.into())),
        }
    }

    fn merge(&self, number: u64, commit: &str) -> Result<Vec<ShipStep>, ShipOutcome> {
        let what = match self.forge.merge(number, commit, self.plan.settings.merge) {
            Ok(ForgeAnswer::Done) => "the forge to report the merge".to_owned(),
            Ok(ForgeAnswer::Refused(why)) => {
                self.foreign(&format!("the forge to allow the merge of #{number}"), &why)
            }
            Err(error) => return Err(ShipOutcome::CannotTell(error.into())),
        };
        Err(ShipOutcome::NotYet { what, until: clock::now(), wait: no_wait() })
    }

    fn foreign(&self, what: &str, said: &str) -> String {
        let said = foreign_text::clean_for_agent(said.as_bytes(), &self.secrets);
        let said: String = said.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(600).collect();
        format!("{what}: {said}")
    }

    fn commit_message(&self) -> String {
        format!("{}\n\nCommitted by ralph after the gates passed.\n", self.goal.headline())
    }

    fn body(&self, base: &str) -> String {
        let base = format!("refs/remotes/{}/{base}", self.plan.remote);
        let subjects = self.git.subjects_since(&base);
        let list = |lines: &[String]| lines.iter().map(|line| format!("- {line}\n")).collect::<String>();
        let mut body = format!("{}\n", self.goal.task.trim());
        if !subjects.is_empty() {
            body.push_str(&format!("\n## Commits\n\n{}", list(&subjects)));
        }
        if !self.gates.is_empty() {
            body.push_str(&format!("\n## Gates that passed on this commit\n\n{}", list(&self.gates)));
        }
        body.push_str("\nOpened by `ralph loop`.\n");
        body
    }

    /// The failing checks as reports: what their logs say, read like the output of a gate.
    fn reports(&self, checks: &[CiCheck]) -> Vec<GateReport> {
        checks.iter().enumerate().map(|(at, check)| self.report(check, at < MOST_LOGS)).collect()
    }

    fn report(&self, check: &CiCheck, with_log: bool) -> GateReport {
        let log = check.job.filter(|_| with_log).and_then(|job| self.forge.job_log(job).ok());
        let kept = log.as_ref().and_then(|log| self.keep_log(&check.name, log));
        let bytes =
            log.map_or_else(|| check.about.clone().into_bytes(), |log| end_of(&without_times(&log)).to_vec());
        let text = foreign_text::clean(&bytes, &self.secrets);
        let clean = |text: &str| foreign_text::clean_for_agent(text.as_bytes(), &self.secrets);
        let results = results::read(&text).map(|read| read.kept(false, clean));
        let how = match &check.state {
            CiState::Failed(how) => how.clone(),
            CiState::Passed | CiState::Pending => String::new(),
        };
        let url = check.url.clone().unwrap_or_default();
        GateReport {
            gate: GateName::new(clean(&check.name)),
            run: clean(&format!("{how} {url}")).trim().to_owned(),
            outcome: GateOutcome::Failed { code: 1 },
            advisory: false,
            took: Duration::ZERO,
            runs: 1,
            log: kept.map(|path| path.display().to_string()),
            excerpt: excerpt(&foreign_text::defused(&text), LONGEST_EXCERPT),
            results,
            changed: Vec::new(),
        }
    }

    fn keep_log(&self, name: &str, log: &[u8]) -> Option<PathBuf> {
        let stamp = clock::now().strftime("%Y%m%dT%H%M%S%.3f");
        let safe: String =
            name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(40).collect();
        let path = self.logs.join(format!("{stamp}-ci-{safe}.log"));
        files::private_dir(&self.logs).ok()?;
        let text = foreign_text::clean(log, &self.secrets);
        files::replace(&path, text.as_bytes()).ok()?;
        Some(path)
    }
}

/// Only a placeholder: the view gives the wait its deadline.
fn no_wait() -> ralph_core::model::ship::ShipWait {
    let now = clock::now();
    ralph_core::model::ship::ShipWait {
        step: String::new(),
        commit: String::new(),
        since: now,
        deadline: now,
    }
}

fn unmet(what: String, next: &str) -> ShipOutcome {
    ShipOutcome::Unmet { what, next: next.to_owned() }
}

fn trouble(what: &str, why: &str, next: &str) -> EvaluationError {
    EvaluationError::Forge { what: format!("{what}: {why}"), next: next.to_owned() }
}

fn cannot_tell(what: &str, why: &str) -> ShipOutcome {
    ShipOutcome::CannotTell(trouble(what, why, "check the repository"))
}

/// The log of a job without the time before each line.
fn without_times(log: &[u8]) -> Vec<u8> {
    let strip = |line: &[u8]| {
        let is_time = line.len() > 20 && line[4] == b'-' && line[10] == b'T' && line[0].is_ascii_digit();
        let end = line.iter().position(|byte| *byte == b' ').filter(|at| is_time && *at < 40);
        end.map_or(line, |at| &line[at + 1..]).to_vec()
    };
    let text = log.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(log);
    text.split(|byte| *byte == b'\n').map(strip).collect::<Vec<_>>().join(&b'\n')
}

fn end_of(log: &[u8]) -> &[u8] {
    &log[log.len().saturating_sub(LONGEST_LOG)..]
}

/// Where a loop is started, and how it is to end.
pub(crate) struct ShipRequest<'a> {
    pub(crate) until: Until,
    pub(crate) settings: &'a ShipSettings,
    pub(crate) by_promise: bool,
    pub(crate) id: &'a LoopId,
    pub(crate) root: &'a Path,
    pub(crate) scratch: &'a Path,
}

/// Checks that the forge can be reached, before anything starts.
pub(crate) fn prepare(request: &ShipRequest<'_>) -> Result<(ShipPlan, ForgeSeen), ForgeError> {
    let git = UserGit::find(request.root, request.scratch)
        .map_err(|error| ForgeError::new(error.to_string(), "run it in a git repository"))?;
    let failed =
        |error: crate::work_tree::git::GitError| ForgeError::new(error.to_string(), "check the repository");
    let head = GitHead::of(request.root);
    let commit = head.commit.ok_or_else(|| {
        ForgeError::new("this repository has no commit yet", "commit the first state and push it")
    })?;
    let remote = git.remote(head.branch.as_deref()).map_err(failed)?.ok_or_else(|| {
        ForgeError::new("this repository has no remote to push to", "add one: `git remote add origin URL`")
    })?;
    let repository = GitHubRepository::of_remote(&remote.url).ok_or_else(|| {
        ForgeError::new(
            format!("the remote `{}` is not a repository on GitHub", remote.name),
            "only GitHub is supported: set the remote to its address",
        )
    })?;
    if request.until == Until::Merged && request.settings.merge == MergeMethod::Never {
        return Err(ForgeError::new("`ship.merge` is `never`", "use `--until ci`"));
    }
    let full = repository.full();
    let forge = GitHub::new(repository, request.scratch, &StopRequest::default());
    let branch = head.branch.unwrap_or_default();
    let seen = forge.look(&branch, &commit)?;
    let plan = ShipPlan {
        until: request.until,
        settings: request.settings.clone(),
        by_promise: request.by_promise,
        branch: format!("ralph/{}", request.id),
        remote: remote.name,
        repository: full,
        git: Some(git.setup().map_err(failed)?),
    };
    Ok((plan, seen))
}

/// Leaves the default branch before the agent works, so that it stays as it is.
pub(crate) fn leave_default_branch(
    plan: &ShipPlan,
    seen: &ForgeSeen,
    root: &Path,
    scratch: &Path,
) -> Result<Option<Event>, ForgeError> {
    let branch = GitHead::of(root).branch;
    let base = plan.settings.base.as_ref().unwrap_or(&seen.default_branch);
    if branch.as_ref().is_some_and(|branch| *branch != seen.default_branch && branch != base) {
        return Ok(None);
    }
    let failed = |error: String| ForgeError::new(error, "create a branch for the work and start again");
    let git = UserGit::find(root, scratch).map_err(|error| failed(error.to_string()))?;
    git.switch(&plan.branch).map_err(|error| failed(error.to_string()))?;
    Ok(Some(Event::Shipped(ShipStep::SwitchedBranch { branch: plan.branch.clone() })))
}

/// What the forge says about the branch that is checked out here.
pub(crate) fn branch_on_forge(root: &Path, scratch: &Path) -> Result<ForgeSeen, ForgeError> {
    let git = UserGit::find(root, scratch)
        .map_err(|error| ForgeError::new(error.to_string(), "run it in a git repository"))?;
    let head = GitHead::of(root);
    let failed =
        |error: crate::work_tree::git::GitError| ForgeError::new(error.to_string(), "check the repository");
    let remote = git.remote(head.branch.as_deref()).map_err(failed)?;
    let repository = remote.and_then(|remote| GitHubRepository::of_remote(&remote.url)).ok_or_else(|| {
        ForgeError::new("no remote of this repository is on GitHub", "add one: `git remote add origin URL`")
    })?;
    let (Some(branch), Some(commit)) = (head.branch, head.commit) else {
        return Err(ForgeError::new("no branch is checked out here", "check one out"));
    };
    let forge = GitHub::new(repository, scratch, &StopRequest::default());
    let seen = forge.look(&branch, &commit)?;
    match seen.open_pull_request() {
        // The checks that count are those of the pull request, whatever is checked out.
        Some(open) if open.head != commit => forge.look(&branch, &open.head.clone()),
        _ => Ok(seen),
    }
}
