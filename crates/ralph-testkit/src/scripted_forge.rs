//! A GitHub on loopback for the real `gh`: pull requests, check runs, statuses, job logs, merges, protection, and faults.
//!
//! `gh` speaks plain HTTP to the host `github.localhost`, and `HTTP_PROXY` leads it here: requests arrive in the absolute
//! form of a proxy. Branches are those of a real bare repository, so that a pull request has the head that was pushed.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// The repository, as its remote names it.
pub const FORGE_URL: &str = "https://github.localhost/o/r.git";

/// One check of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptedCheck {
    pub name: String,
    /// `SUCCESS`, `FAILURE`, `SKIPPED`, …; none while it runs.
    pub conclusion: Option<String>,
    /// A commit status instead of a check run.
    pub is_status: bool,
}

impl ScriptedCheck {
    pub fn run(name: &str, conclusion: &str) -> Self {
        Self { name: name.into(), conclusion: Some(conclusion.into()), is_status: false }
    }

    pub fn pending(name: &str) -> Self {
        Self { name: name.into(), conclusion: None, is_status: false }
    }

    pub fn status(name: &str, state: &str) -> Self {
        Self { name: name.into(), conclusion: Some(state.into()), is_status: true }
    }
}

/// A question about the checks of a commit.
#[derive(Clone, Copy, Debug)]
pub struct CiQuestion<'a> {
    pub commit: &'a str,
    /// Which pushed commit of a pull request it is, from 0.
    pub push: usize,
    /// How often its checks were asked for before, since a pull request has it.
    pub asked: usize,
}

type CiScript = Box<dyn FnMut(&CiQuestion<'_>) -> Vec<ScriptedCheck> + Send>;

/// What goes wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForgeFault {
    /// Nothing is done; this HTTP status.
    Status(u16),
    /// It is done, and the answer gets lost.
    LostAnswer,
}

/// When a process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillMoment {
    BeforeItIsDone,
    AfterItIsDone,
}

/// A pull request.
#[derive(Clone, Debug)]
pub struct ScriptedPull {
    pub number: u64,
    pub branch: String,
    pub base: String,
    pub title: String,
    pub body: String,
    /// `OPEN`, `CLOSED`, `MERGED`.
    pub state: String,
    pub is_draft: bool,
    pub labels: Vec<String>,
    /// Another repository that its branch belongs to.
    pub fork: Option<String>,
    /// Its head, where that does not follow the branch any more.
    pub head: Option<String>,
}

struct ForgeState {
    bare: PathBuf,
    pulls: Vec<ScriptedPull>,
    ci: CiScript,
    asked: BTreeMap<String, usize>,
    pushes: Vec<String>,
    log: String,
    merge_state: String,
    /// The answer to a merge that is refused.
    protection: Option<String>,
    faults: Vec<(String, ForgeFault)>,
    kill: Option<(usize, KillMoment, i32)>,
    requests: Vec<String>,
    merges: usize,
    creates: usize,
    page: usize,
}

/// Ends with its test.
pub struct ScriptedForge {
    port: u16,
    state: Arc<Mutex<ForgeState>>,
}

impl ScriptedForge {
    /// A forge whose repository is this bare one.
    ///
    /// # Panics
    ///
    /// When no port can be opened.
    pub fn start(bare: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let state = Arc::new(Mutex::new(ForgeState {
            bare: bare.to_owned(),
            pulls: Vec::new(),
            ci: Box::new(|_| vec![ScriptedCheck::run("build", "SUCCESS")]),
            asked: BTreeMap::new(),
            pushes: Vec::new(),
            log: "2026-01-27T10:00:00.0000000Z error: it failed\n".into(),
            merge_state: "CLEAN".into(),
            protection: None,
            faults: Vec::new(),
            kill: None,
            requests: Vec::new(),
            merges: 0,
            creates: 0,
            page: 100,
        }));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                thread::spawn(move || serve(&stream, &shared));
            }
        });
        Self { port, state }
    }

    /// A bare repository beside the project, which the project's commits are pushed to, and a forge for it.
    pub fn beside(sandbox: &mut Sandbox) -> Self {
        let bare = sandbox.home().join("remote.git");
        let path = bare.to_str().expect("a readable path").to_owned();
        sandbox.git(&["init", "-q", "--bare", "-b", "main", &path]);
        sandbox.git(&["remote", "add", "origin", FORGE_URL]);
        sandbox.git(&["config", &format!("url.{path}.insteadOf"), FORGE_URL]);
        sandbox.git(&["config", "user.name", "t"]);
        sandbox.git(&["config", "user.email", "t@example.com"]);
        sandbox.git(&["push", "-q", "origin", "HEAD:refs/heads/main"]);
        let forge = Self::start(&bare);
        forge.set_variables(sandbox);
        forge
    }

    /// The variables that lead `gh` here.
    pub fn set_variables(&self, sandbox: &mut Sandbox) {
        sandbox.set("GH_HOST", "github.localhost");
        sandbox.set("GH_TOKEN", "scripted");
        sandbox.set("HTTP_PROXY", format!("http://127.0.0.1:{}", self.port));
    }

    fn lock(&self) -> MutexGuard<'_, ForgeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What CI says.
    pub fn ci(&self, script: impl FnMut(&CiQuestion<'_>) -> Vec<ScriptedCheck> + Send + 'static) {
        self.lock().ci = Box::new(script);
    }

    /// The log of every failed job.
    pub fn log(&self, text: &str) {
        text.clone_into(&mut self.lock().log);
    }

    /// How many checks a page has.
    pub fn pages_of(&self, checks: usize) {
        self.lock().page = checks;
    }

    /// GitHub's `mergeStateStatus` of open pull requests.
    pub fn merge_state(&self, state: &str) {
        state.clone_into(&mut self.lock().merge_state);
    }

    /// Every merge is refused with this message, or none any more.
    pub fn protect(&self, message: Option<&str>) {
        self.lock().protection = message.map(str::to_owned);
    }

    /// The next request of a kind (`look`, `create`, `merge`, `log`, `delete`) goes wrong.
    pub fn fault(&self, kind: &str, fault: ForgeFault) {
        self.lock().faults.push((kind.to_owned(), fault));
    }

    /// Kills a process at the request of this number, from 0.
    pub fn kill_at(&self, request: usize, moment: KillMoment, process: u32) {
        let process = i32::try_from(process).expect("a process id");
        self.lock().kill = Some((request, moment, process));
    }

    /// The kinds of all requests so far.
    pub fn requests(&self) -> Vec<String> {
        self.lock().requests.clone()
    }

    pub fn pulls(&self) -> Vec<ScriptedPull> {
        self.lock().pulls.clone()
    }

    /// Adds a pull request, as somebody else would.
    pub fn add_pull(&self, branch: &str, state: &str, fork: Option<&str>, head: Option<&str>) -> u64 {
        let mut forge = self.lock();
        let number = u64::try_from(forge.pulls.len()).unwrap_or(0) + 1;
        forge.pulls.push(ScriptedPull {
            number,
            branch: branch.into(),
            base: "main".into(),
            title: "by somebody".into(),
            body: String::new(),
            state: state.into(),
            is_draft: false,
            labels: Vec::new(),
            fork: fork.map(str::to_owned),
            head: head.map(str::to_owned),
        });
        number
    }

    /// How many merges were done, and how many pull requests were created.
    pub fn merges_and_creates(&self) -> (usize, usize) {
        let forge = self.lock();
        (forge.merges, forge.creates)
    }
}

struct ForgeRequest {
    method: String,
    path: String,
    body: Value,
}

fn serve(stream: &TcpStream, state: &Mutex<ForgeState>) {
    if stream.set_read_timeout(Some(Duration::from_secs(30))).is_err() {
        return;
    }
    if let Some(request) = read_request(stream) {
        let reply = answer(&request, state);
        if let Some((status, content, body)) = reply {
            let head = format!(
                "HTTP/1.1 {status} X\r\ncontent-type: {content}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            let mut writer = stream;
            let _gone = writer.write_all(head.as_bytes()).and_then(|()| writer.write_all(&body));
        }
    }
    let _gone = stream.shutdown(Shutdown::Both);
}

fn read_request(stream: &TcpStream) -> Option<ForgeRequest> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (mut length, mut is_chunked) = (0, false);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        }
        is_chunked |= name.eq_ignore_ascii_case("transfer-encoding");
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    // `gh` sends what it reads from stdin in chunks.
    while is_chunked {
        let mut size = String::new();
        reader.read_line(&mut size).ok()?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        let mut chunk = vec![0; size + 2];
        reader.read_exact(&mut chunk).ok()?;
        body.extend_from_slice(&chunk[..size]);
        is_chunked = size > 0;
    }
    let path = target.strip_prefix("http://api.github.localhost").unwrap_or(&target).to_owned();
    Some(ForgeRequest { method, path, body: serde_json::from_slice(&body).unwrap_or_default() })
}

type Reply = (u16, &'static str, Vec<u8>);

fn answer(request: &ForgeRequest, state: &Mutex<ForgeState>) -> Option<Reply> {
    let mut forge = state.lock().unwrap_or_else(PoisonError::into_inner);
    let kind = kind_of(request);
    let number = forge.requests.len();
    forge.requests.push(kind.to_owned());
    let kill = forge.kill.filter(|(at, ..)| *at == number);
    let end = |moment: KillMoment| {
        if let Some((_, at, process)) = kill
            && at == moment
            && let Some(process) = rustix::process::Pid::from_raw(process)
        {
            let _gone = rustix::process::kill_process(process, rustix::process::Signal::KILL);
        }
    };
    end(KillMoment::BeforeItIsDone);
    if kill.is_some_and(|(_, at, _)| at == KillMoment::BeforeItIsDone) {
        return None;
    }
    let fault = forge.faults.iter().position(|(of, _)| of == kind).map(|at| forge.faults.remove(at).1);
    if let Some(ForgeFault::Status(status)) = fault {
        return Some(reply(status, &json!({"message": "Server Error"})));
    }
    let done = forge.answer(kind, request);
    end(KillMoment::AfterItIsDone);
    (fault.is_none() && kill.is_none()).then_some(done)
}

fn kind_of(request: &ForgeRequest) -> &'static str {
    match (request.method.as_str(), request.path.as_str()) {
        ("POST", "/graphql") => "look",
        ("POST", "/repos/o/r/pulls") => "create",
        ("POST", path) if path.ends_with("/labels") => "labels",
        ("POST", path) if path.ends_with("/requested_reviewers") => "reviewers",
        ("PUT", path) if path.ends_with("/merge") => "merge",
        ("DELETE", path) if path.starts_with("/repos/o/r/git/refs/heads/") => "delete",
        ("GET", path) if path.ends_with("/logs") => "log",
        _ => "unknown",
    }
}

fn reply(status: u16, body: &Value) -> Reply {
    (status, "application/json", body.to_string().into_bytes())
}

fn refusal(status: u16, message: &str) -> Reply {
    reply(status, &json!({"message": message}))
}

impl ForgeState {
    fn answer(&mut self, kind: &str, request: &ForgeRequest) -> Reply {
        match kind {
            "look" => self.look(&request.body["variables"]),
            "create" => self.create(&request.body),
            "labels" => {
                let labels = request.body["labels"].as_array().cloned().unwrap_or_default();
                let labels = labels.iter().filter_map(|label| label.as_str().map(str::to_owned)).collect();
                if let Some(pull) = self.pulls.last_mut() {
                    pull.labels = labels;
                }
                reply(200, &json!([]))
            }
            "merge" => self.merge(request),
            "delete" => {
                let branch = request.path.trim_start_matches("/repos/o/r/git/refs/heads/").to_owned();
                self.git(&["update-ref", "-d", &format!("refs/heads/{branch}")]);
                (204, "application/json", Vec::new())
            }
            "log" => (200, "text/plain", self.log.clone().into_bytes()),
            _ => refusal(404, "Not Found"),
        }
    }

    fn git(&self, words: &[&str]) -> Option<String> {
        let git_dir = format!("--git-dir={}", self.bare.display());
        let output = std::process::Command::new("git").arg(git_dir).args(words).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    fn head_of(&self, pull: &ScriptedPull) -> String {
        let of_branch = || self.git(&["rev-parse", "--verify", "-q", &format!("refs/heads/{}", pull.branch)]);
        pull.head.clone().or_else(of_branch).unwrap_or_default()
    }

    fn look(&mut self, variables: &Value) -> Reply {
        let (branch, commit) =
            (variables["branch"].as_str().unwrap_or_default(), variables["oid"].as_str().unwrap_or_default());
        let pulls: Vec<ScriptedPull> =
            self.pulls.iter().filter(|pull| pull.branch == branch).rev().cloned().collect();
        let nodes: Vec<Value> = pulls
            .iter()
            .map(|pull| {
                json!({
                    "number": pull.number,
                    "url": format!("https://github.localhost/o/r/pull/{}", pull.number),
                    "state": pull.state, "headRefName": pull.branch, "headRefOid": self.head_of(pull),
                    "baseRefName": pull.base, "isDraft": pull.is_draft, "mergeStateStatus": self.merge_state,
                    "headRepository": {"nameWithOwner": pull.fork.as_deref().unwrap_or("o/r")},
                })
            })
            .collect();
        let is_shipped = pulls.iter().any(|pull| pull.fork.is_none() && self.head_of(pull) == commit);
        let is_known = self.git(&["cat-file", "-e", commit]).is_some();
        let after = variables["after"].as_str();
        let object = if is_known { self.checks(commit, is_shipped, after) } else { Value::Null };
        reply(
            200,
            &json!({"data": {"repository": {
                "nameWithOwner": "o/r",
                "defaultBranchRef": {"name": "main"},
                "pullRequests": {"nodes": nodes},
                "object": object,
            }}}),
        )
    }

    fn checks(&mut self, commit: &str, is_shipped: bool, after: Option<&str>) -> Value {
        let checks = if is_shipped {
            if !self.pushes.iter().any(|known| known == commit) {
                self.pushes.push(commit.to_owned());
            }
            let push = self.pushes.iter().position(|known| known == commit).unwrap_or(0);
            let asked = self.asked.entry(commit.to_owned()).or_default();
            let question = CiQuestion { commit, push, asked: *asked };
            if after.is_none() {
                *asked += 1;
            }
            (self.ci)(&question)
        } else {
            Vec::new()
        };
        if checks.is_empty() {
            return json!({"checkSuites": {"nodes": []}, "statusCheckRollup": null});
        }
        let from: usize = after.and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
        let to = (from + self.page).min(checks.len());
        let nodes: Vec<Value> =
            checks[from..to].iter().enumerate().map(|(at, check)| node(check, from + at)).collect();
        json!({
            "checkSuites": {"nodes": []},
            "statusCheckRollup": {"contexts": {
                "totalCount": checks.len(),
                "pageInfo": {"hasNextPage": to < checks.len(), "endCursor": to.to_string()},
                "nodes": nodes,
            }},
        })
    }

    fn create(&mut self, body: &Value) -> Reply {
        let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
        let branch = text("head").split_once(':').map(|(_, branch)| branch.to_owned()).unwrap_or_default();
        if self.pulls.iter().any(|pull| pull.branch == branch && pull.state == "OPEN" && pull.fork.is_none())
        {
            let errors = json!([{"message": format!("A pull request already exists for o:{branch}.")}]);
            return reply(422, &json!({"message": "Validation Failed", "errors": errors}));
        }
        let head = self.git(&["rev-parse", "--verify", "-q", &format!("refs/heads/{branch}")]);
        let base = self.git(&["rev-parse", "--verify", "-q", &format!("refs/heads/{}", text("base"))]);
        if head.is_none() || head == base {
            let errors = json!([{"message": format!("No commits between {} and {branch}", text("base"))}]);
            return reply(422, &json!({"message": "Validation Failed", "errors": errors}));
        }
        let number = u64::try_from(self.pulls.len()).unwrap_or(0) + 1;
        self.creates += 1;
        self.pulls.push(ScriptedPull {
            number,
            branch,
            base: text("base"),
            title: text("title"),
            body: text("body"),
            state: "OPEN".into(),
            is_draft: body["draft"] == true,
            labels: Vec::new(),
            fork: None,
            head: None,
        });
        reply(201, &json!({"number": number}))
    }

    fn merge(&mut self, request: &ForgeRequest) -> Reply {
        let number: u64 = request.path.split('/').rev().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
        let Some(at) = self.pulls.iter().position(|pull| pull.number == number) else {
            return refusal(404, "Not Found");
        };
        let head = self.head_of(&self.pulls[at]);
        if self.pulls[at].state != "OPEN" {
            return refusal(405, "Pull Request is not mergeable");
        }
        if let Some(message) = &self.protection {
            return refusal(405, message);
        }
        if request.body["sha"] != head {
            return refusal(409, "Head branch was modified. Review and try the merge again.");
        }
        self.git(&["update-ref", &format!("refs/heads/{}", self.pulls[at].base), &head]);
        self.merges += 1;
        self.pulls[at].state = "MERGED".into();
        self.pulls[at].head = Some(head);
        reply(200, &json!({"merged": true}))
    }
}

fn node(check: &ScriptedCheck, at: usize) -> Value {
    let url = format!("https://github.localhost/o/r/runs/{at}");
    if check.is_status {
        let state = check.conclusion.as_deref().unwrap_or("PENDING");
        return json!({"__typename": "StatusContext", "context": check.name, "state": state, "targetUrl": url, "description": ""});
    }
    let status = if check.conclusion.is_some() { "COMPLETED" } else { "IN_PROGRESS" };
    json!({
        "__typename": "CheckRun", "databaseId": 9000 + at, "name": check.name, "status": status,
        "conclusion": check.conclusion, "detailsUrl": url, "title": null, "summary": null,
        "checkSuite": {"app": {"slug": "github-actions"}},
    })
}
