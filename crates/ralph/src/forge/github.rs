//! GitHub, through the user's own `gh`: their login, their host, their proxy.
//!
//! Every call is `gh api` with a fixed list of arguments; titles, branches and queries go in as JSON on stdin, so that
//! nothing in them can be read as an option. Reading is one GraphQL query for the pull requests of a branch and all
//! checks of a commit. A call that fails for a moment is repeated; one that changes something is not: the caller looks
//! again, because the answer may have been lost after it succeeded.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_core::model::foreign_text;
use ralph_core::model::secrets::Secrets;
use ralph_core::model::ship::{
    CiCheck, CiState, ForgeSeen, MergeMethod, MergeState, PullRequest, PullRequestState,
};
use serde_json::{Value, json};

use super::{Forge, ForgeAnswer, ForgeError, NewPullRequest};
use crate::sys::proc::StopRequest;
use crate::sys::short_command;

const LONGEST_CALL: Duration = Duration::from_secs(60);
/// How often a read is tried, with growing pauses between.
const TRIES: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// More pages than this mean that something is wrong.
const MOST_PAGES: usize = 50;

/// A repository on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GitHubRepository {
    pub(crate) host: String,
    pub(crate) owner: String,
    pub(crate) name: String,
}

impl GitHubRepository {
    /// From the address of a remote: `https://HOST/OWNER/NAME.git`, `git@HOST:OWNER/NAME`, `ssh://git@HOST/OWNER/NAME`.
    pub(crate) fn of_remote(url: &str) -> Option<Self> {
        let (host, path) = match url.split_once("://") {
            Some((scheme, rest)) => {
                ["https", "http", "ssh", "git"].contains(&scheme).then_some(())?;
                rest.split_once('/')?
            }
            None => url.split_once(':')?,
        };
        let host = host.rsplit('@').next().unwrap_or(host).split(':').next().unwrap_or(host);
        let path = path.trim_matches('/');
        let (owner, name) = path.strip_suffix(".git").unwrap_or(path).split_once('/')?;
        Self::parts(host, owner, name)
    }

    /// From `HOST/OWNER/NAME`.
    pub(crate) fn named(full: &str) -> Option<Self> {
        let (host, rest) = full.split_once('/')?;
        let (owner, name) = rest.split_once('/')?;
        Self::parts(host, owner, name)
    }

    fn parts(host: &str, owner: &str, name: &str) -> Option<Self> {
        let is_plain = |text: &str| {
            !text.is_empty()
                && !text.starts_with(['-', '.'])
                && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        };
        (is_plain(host) && is_plain(owner) && is_plain(name)).then(|| Self {
            host: host.to_owned(),
            owner: owner.to_owned(),
            name: name.to_owned(),
        })
    }

    pub(crate) fn full(&self) -> String {
        format!("{}/{}/{}", self.host, self.owner, self.name)
    }
}

pub(crate) struct GitHub {
    repository: GitHubRepository,
    /// Where it runs: not in the repo, whose files must not steer it.
    scratch: PathBuf,
    stop: StopRequest,
}

/// How a call of `gh` failed.
enum CallError {
    /// It may work in a moment.
    Transient(String),
    /// The forge said no.
    Refused(String),
    Fatal(ForgeError),
}

impl From<CallError> for ForgeError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Fatal(error) => error,
            CallError::Transient(what) => Self::new(
                format!("GitHub could not be asked: {what}"),
                "check the network and `gh auth status`",
            ),
            CallError::Refused(what) => {
                Self::new(format!("GitHub refused: {what}"), "check `gh auth status` and the remote")
            }
        }
    }
}

const QUERY: &str = "query RalphShip($owner: String!, $name: String!, $branch: String!, $oid: GitObjectID!, $after: String) {
  repository(owner: $owner, name: $name) {
    nameWithOwner
    defaultBranchRef { name }
    pullRequests(headRefName: $branch, first: 50, orderBy: {field: CREATED_AT, direction: DESC}) {
      nodes { number url state headRefName headRefOid baseRefName isDraft mergeStateStatus headRepository { nameWithOwner } }
    }
    object(oid: $oid) {
      ... on Commit {
        checkSuites(first: 100) { nodes { status workflowRun { workflow { name } } checkRuns(first: 1) { totalCount } } }
        statusCheckRollup {
          contexts(first: 100, after: $after) {
            totalCount
            pageInfo { hasNextPage endCursor }
            nodes {
              __typename
              ... on CheckRun { databaseId name status conclusion detailsUrl title summary checkSuite { app { slug } } }
              ... on StatusContext { context state targetUrl description }
            }
          }
        }
      }
    }
  }
}";

impl GitHub {
    pub(crate) fn new(repository: GitHubRepository, scratch: &Path, stop: &StopRequest) -> Self {
        Self { repository, scratch: scratch.to_owned(), stop: stop.clone() }
    }

    fn path(&self, rest: &str) -> String {
        format!("repos/{}/{}{rest}", self.repository.owner, self.repository.name)
    }

    /// One call of `gh api`; its body is JSON on stdin.
    fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Vec<u8>, CallError> {
        let mut command = short_command::command("gh");
        command
            .env("GH_PROMPT_DISABLED", "1")
            .env("GH_NO_UPDATE_NOTIFIER", "1")
            .env("NO_COLOR", "1")
            .env("LC_ALL", "C")
            .env_remove("GH_REPO")
            .env_remove("GH_DEBUG")
            .env_remove("DEBUG")
            .env_remove("CLICOLOR_FORCE")
            .env_remove("GH_FORCE_TTY")
            .current_dir(&self.scratch)
            .args(["api", "--method", method, "--hostname", &self.repository.host]);
        if body.is_some() {
            command.args(["--input", "-"]);
        }
        command.arg(path);
        let input = body.map(|body| body.to_string().into_bytes());
        let ran = short_command::run(command, input.as_deref(), &self.scratch, LONGEST_CALL);
        match ran {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(CallError::Fatal(ForgeError::new(
                "`gh` is not installed or not in PATH",
                "install the GitHub CLI, then run `gh auth login`",
            ))),
            Err(error) => Err(CallError::Fatal(ForgeError::new(
                format!("`gh` cannot be run: {error}"),
                "check your installation of the GitHub CLI",
            ))),
            Ok(None) => Err(CallError::Transient("`gh` took longer than a minute".into())),
            Ok(Some(answer)) if answer.status.success() => Ok(answer.stdout),
            Ok(Some(answer)) => Err(failure(answer.status.code(), &answer.stdout, &answer.stderr)),
        }
    }

    /// A call that changes nothing, repeated while it fails for a moment.
    fn read(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Vec<u8>, CallError> {
        let mut pause = FIRST_PAUSE;
        for _ in 1..TRIES {
            match self.call(method, path, body) {
                Err(CallError::Transient(_)) if !self.stop.wait(pause) => pause *= 3,
                other => return other,
            }
        }
        self.call(method, path, body)
    }

    fn page(&self, branch: &str, commit: &str, after: Option<&str>) -> Result<Value, ForgeError> {
        let variables = json!({
            "owner": self.repository.owner, "name": self.repository.name,
            "branch": branch, "oid": commit, "after": after,
        });
        let answer = self.read("POST", "graphql", Some(&json!({"query": QUERY, "variables": variables})))?;
        let value: Value = serde_json::from_slice(&answer).map_err(|_| garbled())?;
        match &value["data"]["repository"] {
            repository @ Value::Object(_) => Ok(repository.clone()),
            _ => Err(garbled()),
        }
    }

    /// Something that succeeded, or was refused. An answer that got lost is not known: the caller looks again.
    fn change(&self, method: &str, path: &str, body: Option<&Value>) -> Result<ForgeAnswer, ForgeError> {
        match self.call(method, path, body) {
            Ok(_) => Ok(ForgeAnswer::Done),
            Err(CallError::Refused(what)) => Ok(ForgeAnswer::Refused(what)),
            Err(other) => Err(other.into()),
        }
    }
}

impl Forge for GitHub {
    fn look(&self, branch: &str, commit: &str) -> Result<ForgeSeen, ForgeError> {
        let first = self.page(branch, commit, None)?;
        let own = first["nameWithOwner"].as_str().ok_or_else(garbled)?.to_owned();
        let pull_requests = first["pullRequests"]["nodes"].as_array().ok_or_else(garbled)?;
        let is_own = |node: &&Value| {
            let head = node["headRepository"]["nameWithOwner"].as_str();
            head.is_some_and(|head| head.eq_ignore_ascii_case(&own)) && node["headRefName"] == branch
        };
        let pull_requests: Option<Vec<PullRequest>> =
            pull_requests.iter().filter(is_own).map(pull_request).collect();
        let mut seen = ForgeSeen {
            default_branch: first["defaultBranchRef"]["name"].as_str().unwrap_or_default().to_owned(),
            pull_requests: pull_requests.ok_or_else(garbled)?,
            checks: Vec::new(),
            starting: starting(&first["object"]["checkSuites"]["nodes"]),
        };
        let mut rollup = first["object"]["statusCheckRollup"]["contexts"].clone();
        for _ in 0..MOST_PAGES {
            if rollup.is_null() {
                return Ok(seen);
            }
            let nodes = rollup["nodes"].as_array().ok_or_else(garbled)?;
            let checks: Option<Vec<CiCheck>> = nodes.iter().map(check).collect();
            seen.checks.extend(checks.ok_or_else(garbled)?);
            if rollup["pageInfo"]["hasNextPage"] != true {
                let total = rollup["totalCount"].as_u64().unwrap_or(0);
                let all = u64::try_from(seen.checks.len()).unwrap_or(0) >= total;
                return if all { Ok(seen) } else { Err(garbled()) };
            }
            let after = rollup["pageInfo"]["endCursor"].as_str().ok_or_else(garbled)?.to_owned();
            let next = self.page(branch, commit, Some(&after))?;
            rollup = next["object"]["statusCheckRollup"]["contexts"].clone();
        }
        Err(garbled())
    }

    fn open(&self, new: &NewPullRequest<'_>) -> Result<ForgeAnswer, ForgeError> {
        let body = json!({
            "title": new.title, "body": new.body, "base": new.base, "draft": new.settings.draft,
            "head": format!("{}:{}", self.repository.owner, new.branch),
        });
        let answer = match self.call("POST", &self.path("/pulls"), Some(&body)) {
            Ok(answer) => answer,
            Err(CallError::Refused(what)) => return Ok(ForgeAnswer::Refused(what)),
            Err(other) => return Err(other.into()),
        };
        let value: Value = serde_json::from_slice(&answer).map_err(|_| garbled())?;
        let number = value["number"].as_u64().ok_or_else(garbled)?;
        // A missing label or reviewer does not undo a pull request.
        if !new.settings.labels.is_empty() {
            let body = json!({"labels": new.settings.labels});
            let _best_effort =
                self.change("POST", &self.path(&format!("/issues/{number}/labels")), Some(&body));
        }
        if !new.settings.reviewers.is_empty() {
            let body = json!({"reviewers": new.settings.reviewers});
            let path = self.path(&format!("/pulls/{number}/requested_reviewers"));
            let _best_effort = self.change("POST", &path, Some(&body));
        }
        Ok(ForgeAnswer::Done)
    }

    fn job_log(&self, job: u64) -> Result<Vec<u8>, ForgeError> {
        Ok(self.read("GET", &self.path(&format!("/actions/jobs/{job}/logs")), None)?)
    }

    fn merge(&self, number: u64, commit: &str, how: MergeMethod) -> Result<ForgeAnswer, ForgeError> {
        let body = json!({"sha": commit, "merge_method": how.code()});
        self.change("PUT", &self.path(&format!("/pulls/{number}/merge")), Some(&body))
    }

    fn delete_branch(&self, branch: &str) -> Result<(), ForgeError> {
        let path = self.path(&format!("/git/refs/heads/{}", in_path(branch)));
        self.change("DELETE", &path, None).map(drop)
    }
}

/// A name as a part of a path.
fn in_path(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte);
    name.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

fn garbled() -> ForgeError {
    ForgeError::new("the answer of `gh` cannot be read", "check `gh --version` and `gh auth status`")
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(|text| foreign_text::clean(text.as_bytes(), &Secrets::default()))
}

fn pull_request(node: &Value) -> Option<PullRequest> {
    Some(PullRequest {
        number: node["number"].as_u64()?,
        url: text(&node["url"])?,
        state: match node["state"].as_str()? {
            "OPEN" => PullRequestState::Open,
            "MERGED" => PullRequestState::Merged,
            "CLOSED" => PullRequestState::Closed,
            _ => return None,
        },
        head: node["headRefOid"].as_str()?.to_owned(),
        base: text(&node["baseRefName"])?,
        is_draft: node["isDraft"].as_bool()?,
        merge_state: match node["mergeStateStatus"].as_str() {
            Some("CLEAN" | "HAS_HOOKS" | "UNSTABLE") => MergeState::Clean,
            Some("BLOCKED" | "BEHIND") => MergeState::Blocked,
            Some("DIRTY") => MergeState::Conflicts,
            _ => MergeState::Unknown,
        },
    })
}

fn check(node: &Value) -> Option<CiCheck> {
    if node["__typename"] == "StatusContext" {
        return Some(CiCheck {
            name: text(&node["context"])?,
            state: CiState::of_status(node["state"].as_str()?),
            url: text(&node["targetUrl"]),
            job: None,
            about: text(&node["description"]).unwrap_or_default(),
        });
    }
    let about =
        [&node["title"], &node["summary"]].into_iter().filter_map(text).collect::<Vec<_>>().join("\n");
    // Only jobs of Actions have a log here; their check has the same number.
    let job = node["databaseId"].as_u64().filter(|_| node["checkSuite"]["app"]["slug"] == "github-actions");
    Some(CiCheck {
        name: text(&node["name"])?,
        state: CiState::of_run(node["status"].as_str()?, node["conclusion"].as_str()),
        url: text(&node["detailsUrl"]),
        job,
        about,
    })
}

/// Workflows that are queued or running and have no check yet; suites of other apps may stay queued for ever.
fn starting(suites: &Value) -> Vec<String> {
    let suites = suites.as_array().map(Vec::as_slice).unwrap_or_default();
    let begins = |suite: &&Value| {
        suite["workflowRun"].is_object()
            && suite["status"] != "COMPLETED"
            && suite["checkRuns"]["totalCount"] == 0
    };
    let name = |suite: &Value| {
        text(&suite["workflowRun"]["workflow"]["name"]).unwrap_or_else(|| "a workflow".into())
    };
    suites.iter().filter(begins).map(name).collect()
}

/// Sorts what `gh` says about a failed call.
fn failure(code: Option<i32>, stdout: &[u8], stderr: &[u8]) -> CallError {
    let said = foreign_text::clean(stderr, &Secrets::default());
    let line = said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no message").to_owned();
    let status = line.split("HTTP ").nth(1).and_then(|rest| {
        rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse::<u16>().ok()
    });
    let logged_out = || {
        CallError::Fatal(ForgeError::new(
            format!("`gh` is not logged in: {line}"),
            "run `gh auth login` in your terminal",
        ))
    };
    match (code, status) {
        (Some(4), _) | (_, Some(401)) => logged_out(),
        (_, Some(429 | 500..=599)) => CallError::Transient(line),
        (_, Some(403)) if said.to_ascii_lowercase().contains("rate limit") => CallError::Transient(line),
        (_, Some(_)) => {
            // What went wrong in detail is in the answer: `{"errors": [{"message": "…"}]}`.
            let value: Value = serde_json::from_slice(stdout).unwrap_or_default();
            let errors = value["errors"].as_array().into_iter().flatten();
            let details: Vec<String> = errors.filter_map(|error| text(&error["message"])).collect();
            let what = if details.is_empty() { line } else { format!("{line}: {}", details.join("; ")) };
            CallError::Refused(what)
        }
        (_, None) if line.starts_with("GraphQL:") || line.starts_with("gh: ") => CallError::Refused(line),
        (_, None) => CallError::Transient(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_names_its_repository() {
        let found = |url: &str| GitHubRepository::of_remote(url).map(|repository| repository.full());
        for url in [
            "https://github.com/o/r.git",
            "https://github.com/o/r",
            "https://token@github.com/o/r.git/",
            "git@github.com:o/r.git",
            "ssh://git@github.com/o/r.git",
            "ssh://git@github.com:22/o/r.git",
        ] {
            assert_eq!(found(url).as_deref(), Some("github.com/o/r"), "{url}");
        }
        for url in
            ["/srv/r.git", "../r", "file:///srv/o/r", "https://github.com/o", "git@h:--x/r", "C:\\r", ""]
        {
            assert_eq!(found(url), None, "{url}");
        }
        assert_eq!(GitHubRepository::named("h/o/r").map(|found| found.full()).as_deref(), Some("h/o/r"));
    }

    #[test]
    fn a_failed_call_is_sorted_by_what_helps() {
        let sorted = |code: i32, stderr: &str| match failure(Some(code), b"{}", stderr.as_bytes()) {
            CallError::Transient(_) => "again",
            CallError::Refused(_) => "refused",
            CallError::Fatal(_) => "login",
        };
        assert_eq!(sorted(4, "To get started with GitHub CLI, please run:  gh auth login"), "login");
        assert_eq!(sorted(1, "gh: Bad credentials (HTTP 401)"), "login");
        assert_eq!(sorted(1, "gh: Server Error (HTTP 502)"), "again");
        assert_eq!(sorted(1, "gh: API rate limit exceeded (HTTP 403)"), "again");
        assert_eq!(sorted(1, "error connecting to api.github.com"), "again");
        assert_eq!(sorted(1, "gh: Not Found (HTTP 404)"), "refused");
        assert_eq!(sorted(1, "gh: Could not resolve to a Repository"), "refused");
        assert_eq!(sorted(1, "GraphQL: Could not resolve to a Repository"), "refused");
    }

    #[test]
    fn a_branch_in_a_path_is_only_a_name() {
        assert_eq!(in_path("ralph/fix-it"), "ralph/fix-it");
        assert_eq!(in_path("a b?c#d%e"), "a%20b%3Fc%23d%25e");
    }
}
