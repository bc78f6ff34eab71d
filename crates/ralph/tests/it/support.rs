//! A sandbox: a real git repo, a home of its own, the real binary. Three lines set the scene.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub const RALPH: &str = env!("CARGO_BIN_EXE_ralph");

pub struct Sandbox {
    dir: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

impl Sandbox {
    /// An empty git repo.
    pub fn new() -> Self {
        let sandbox = Self::without_git();
        sandbox.git(&["init", "-q", "-b", "main"]);
        sandbox
    }

    pub fn without_git() -> Self {
        let dir = tempfile::Builder::new().prefix("ralph-test-").tempdir().expect("a temporary folder");
        for folder in ["project", "home"] {
            fs::create_dir(dir.path().join(folder)).expect("a folder");
        }
        Self { dir, variables: Vec::new() }
    }

    /// A repo whose `ralph.yaml` has this text and is trusted.
    pub fn gated(config: &str) -> Self {
        let sandbox = Self::new();
        sandbox.file("ralph.yaml", config);
        sandbox.trust();
        sandbox
    }

    /// Sets a variable for every later call.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.variables.push((name.into(), value.into()));
    }

    pub fn project(&self) -> PathBuf {
        fs::canonicalize(self.dir.path().join("project")).expect("the project")
    }

    pub fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    pub fn ralph_home(&self) -> PathBuf {
        self.dir.path().join("home/.ralph")
    }

    pub fn path(&self, relative: &str) -> PathBuf {
        self.project().join(relative)
    }

    pub fn file(&self, relative: &str, text: &str) {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(path, text).expect("a file");
    }

    pub fn read(&self, relative: &str) -> String {
        fs::read_to_string(self.path(relative)).unwrap_or_else(|error| panic!("{relative}: {error}"))
    }

    pub fn exists(&self, relative: &str) -> bool {
        self.path(relative).exists()
    }

    pub fn remove(&self, relative: &str) {
        fs::remove_file(self.path(relative)).unwrap_or_else(|error| panic!("{relative}: {error}"));
    }

    pub fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "protocol.file.allow=always"])
            .args(arguments)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .current_dir(self.project())
            .output()
            .expect("git");
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The command with nothing of our own environment in it.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(RALPH);
        command
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home())
            .env("LANG", "C.UTF-8")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(self.project())
            .stdin(Stdio::null());
        command
    }

    pub fn ralph(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().expect("the binary"))
    }

    /// Accepts what lies in the project, as CI would.
    pub fn trust(&self) {
        let shown = self.ralph(&["trust", "--show", "--json"]);
        let sha256 = shown.json()["sha256"].as_str().expect("a SHA-256").to_owned();
        self.ralph(&["trust", "--hash", &sha256]).success();
    }

    pub fn status(&self) -> Value {
        self.ralph(&["status", "--json"]).success().json()
    }

    /// The stop of a sub-agent, first in the session.
    pub fn stop(&self, agent_type: &str) -> Stop<'_> {
        Stop {
            sandbox: self,
            input: json!({
                "session_id": "session-1",
                "transcript_path": "/nowhere/session-1.jsonl",
                "cwd": self.project(),
                "prompt_id": "prompt-1",
                "permission_mode": "default",
                "agent_id": "agent-1",
                "agent_type": agent_type,
                "hook_event_name": "SubagentStop",
                "stop_hook_active": false,
                "last_assistant_message": "Done.",
                "background_tasks": [],
                "session_crons": [],
            }),
            arguments: vec!["hook".into(), "claude".into()],
        }
    }

    /// Any hook input.
    pub fn event(&self, input: Value) -> Stop<'_> {
        Stop { sandbox: self, input, arguments: vec!["hook".into(), "claude".into()] }
    }

    /// Every event of every loop, as `ralph log --json` shows them, the loop's id added as `loop`.
    pub fn events(&self) -> Vec<Value> {
        let status = self.status();
        let mut events = Vec::new();
        for entry in status["loops"].as_array().expect("loops") {
            let id = entry["id"].as_str().expect("an id");
            for line in self.ralph(&["log", id, "--json"]).success().stdout.lines() {
                let mut event: Value = serde_json::from_str(line).expect("JSON lines");
                event["loop"] = json!(id);
                events.push(event);
            }
        }
        events
    }

    /// The names of all files that ralph keeps.
    pub fn remembered(&self) -> Vec<String> {
        fn walk(dir: &Path, base: &Path, found: &mut Vec<String>) {
            let Ok(entries) = fs::read_dir(dir) else { return };
            for entry in entries.flatten() {
                let path = entry.path();
                if path.is_dir() {
                    walk(&path, base, found);
                } else {
                    found.push(path.strip_prefix(base).expect("below").to_string_lossy().into_owned());
                }
            }
        }
        let mut found = Vec::new();
        walk(&self.ralph_home(), &self.ralph_home(), &mut found);
        found.sort();
        found
    }
}

/// What a finished command said.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    #[track_caller]
    pub fn success(self) -> Self {
        self.exits(0)
    }

    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert!(self.stdout.contains(text) || self.stderr.contains(text), "not said: {text}\n{self:#?}");
        self
    }
}

/// One hook call before it is made.
pub struct Stop<'a> {
    sandbox: &'a Sandbox,
    input: Value,
    arguments: Vec<String>,
}

impl Stop<'_> {
    pub fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.input[field] = value.into();
        self
    }

    pub fn agent(self, id: &str) -> Self {
        self.with("agent_id", id)
    }

    pub fn session(self, id: &str) -> Self {
        self.with("session_id", id)
    }

    pub fn saying(self, message: &str) -> Self {
        self.with("last_assistant_message", message)
    }

    pub fn deadline(mut self, time: &str) -> Self {
        self.arguments.extend(["--deadline".into(), time.into()]);
        self
    }

    /// The child process with the input written and stdin closed.
    pub fn spawn(&self) -> std::process::Child {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let mut child = self
            .sandbox
            .command(&arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary");
        child.stdin.take().expect("a pipe").write_all(self.input.to_string().as_bytes()).expect("a reader");
        child
    }

    pub fn answer(&self) -> Answer {
        let begun = Instant::now();
        let output = self.spawn().wait_with_output().expect("an end");
        Answer { ran: Ran::of(output), took: begun.elapsed() }
    }
}

/// What the hook answered.
#[derive(Debug)]
pub struct Answer {
    pub ran: Ran,
    pub took: Duration,
}

impl Answer {
    /// It was held; the reason and the detail are given back.
    #[track_caller]
    pub fn held(&self) -> (String, String) {
        assert_eq!(self.ran.code, Some(0), "{self:#?}");
        let value = self.ran.json();
        assert_eq!(value["decision"], "block", "{self:#?}");
        let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{self:#?}")).to_owned();
        (text(&value["reason"]), text(&value["hookSpecificOutput"]["additionalContext"]))
    }

    /// It was let go; what the person is told is given back, if anything.
    #[track_caller]
    pub fn let_go(&self) -> Option<String> {
        assert_eq!(self.ran.code, Some(0), "{self:#?}");
        if self.ran.stdout.is_empty() {
            return None;
        }
        let value = self.ran.json();
        assert!(value.get("decision").is_none(), "{self:#?}");
        value["systemMessage"].as_str().map(str::to_owned)
    }

    /// It was let go without a word anywhere.
    #[track_caller]
    pub fn silent(&self) {
        assert_eq!(
            (self.ran.code, self.ran.stdout.as_str(), self.ran.stderr.as_str()),
            (Some(0), "", ""),
            "{self:#?}"
        );
    }
}
