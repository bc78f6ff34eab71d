//! A temporary repo, a home of its own and the real binary with a clean environment.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client_event::{ClientEvent, HookAnswer};
use crate::finished::Finished;
use crate::stand_in_client::StandInClient;
use crate::{ralph, search_path};

/// Replaces `make` in [`Sandbox::program`]: runs the recipe of the given target.
pub const MAKE: &str = r#"tab=$(printf '\t')
while IFS= read -r line; do
    case $line in
    "$tab"*) test -z "$found" || sh -c "$line" || exit 2 ;;
    "$1:"*) found=yes ;;
    *) found= ;;
    esac
done < Makefile"#;

/// Deleted when dropped.
#[derive(Debug)]
pub struct Sandbox {
    /// Started when first needed; ended before the folder is deleted.
    client: OnceLock<StandInClient>,
    dir: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

impl Sandbox {
    /// An empty git repo.
    #[expect(clippy::new_without_default, reason = "it runs git, which is more than a default")]
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
        Self { client: OnceLock::new(), dir, variables: Vec::new() }
    }

    /// The process that replaces the client: hooks are its children, the user's commands are not.
    pub fn client(&self) -> &StandInClient {
        self.client.get_or_init(|| StandInClient::start(self.dir.path()))
    }

    /// Runs a command as a descendant of the stand-in client, without any of the client's variables, like an agent's
    /// shell that hides its environment. `ralph` is the binary under test.
    pub fn in_agents_shell(&self, words: &[&str]) -> Finished {
        let (program, arguments) = words.split_first().expect("a program");
        let mut command = self.isolated(if *program == "ralph" { ralph() } else { program });
        command.args(arguments);
        for (name, _) in self.variables.iter().filter(|(name, _)| name.starts_with("CLAUDE")) {
            command.env_remove(name);
        }
        Finished::of(self.client().output(&command, b""))
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

    /// A program on the search path of every later call, before those of the system.
    pub fn program(&mut self, name: &str, script: &str) {
        let folder = self.home().join("bin");
        if !folder.exists() {
            fs::create_dir(&folder).expect("a folder");
            self.set("PATH", format!("{}:{}", folder.display(), search_path()));
        }
        let program = folder.join(name);
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("a program");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
    }

    pub fn project(&self) -> PathBuf {
        fs::canonicalize(self.dir.path().join("project")).expect("the project")
    }

    /// The folder that holds the project and the home.
    pub(crate) fn folder(&self) -> &Path {
        self.dir.path()
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

    #[track_caller]
    pub fn git(&self, arguments: &[&str]) -> String {
        crate::git::git(&self.project(), arguments)
    }

    /// Adds a submodule, see [`add_submodule`](crate::add_submodule).
    #[track_caller]
    pub fn add_submodule(&self, source: &Path, path: &str) {
        crate::git::add_submodule(&self.project(), source, path);
    }

    /// The command with a clean environment. A hook gets the process of its client in `CLAUDE_PID`.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.isolated(ralph());
        command.args(arguments);
        if arguments.first() == Some(&"hook") && !self.variables.iter().any(|(name, _)| name == "CLAUDE_PID")
        {
            command.env("CLAUDE_PID", self.client().process().to_string());
        }
        command
    }

    /// Any program, with a clean environment.
    pub fn isolated(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", search_path())
            .env("HOME", self.home())
            .env("LANG", "C.UTF-8")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(self.project())
            .stdin(Stdio::null());
        command
    }

    pub fn ralph(&self, arguments: &[&str]) -> Finished {
        Finished::of(self.command(arguments).output().expect("the binary"))
    }

    /// Accepts the config of the project, as CI would.
    pub fn trust(&self) {
        let shown = self.ralph(&["trust", "--show", "--json"]);
        let sha256 = shown.json()["sha256"].as_str().expect("a SHA-256").to_owned();
        self.ralph(&["trust", "--hash", &sha256]).success();
    }

    /// A Trellis repo with this `worktree.yaml` and a task, trusted.
    pub fn trellis(config: &str) -> Self {
        let sandbox = Self::new();
        sandbox.file(".trellis/worktree.yaml", config);
        sandbox.file(".trellis/.current-task", ".trellis/tasks/login\n");
        sandbox.trust();
        sandbox
    }

    /// An Ideal repo with this `worktree.yaml` and a task, trusted.
    pub fn ideal(config: &str) -> Self {
        let sandbox = Self::new();
        sandbox.file(".ideal/worktree.yaml", config);
        sandbox.file(".ideal/.current-task", ".ideal/iterations/3\n");
        sandbox.trust();
        sandbox
    }

    /// Writes the user's own config.
    pub fn user_config(&self, text: &str) {
        let dir = self.home().join(".config/ralph");
        fs::create_dir_all(&dir).expect("folders");
        fs::write(dir.join("config.yaml"), text).expect("a file");
    }

    pub fn status(&self) -> Value {
        self.ralph(&["status", "--json"]).success().json()
    }

    /// The output of `ralph verify --json`, whatever its exit code.
    #[track_caller]
    pub fn verify(&self, more: &[&str]) -> Value {
        self.ralph(&[&["verify", "--json"], more].concat()).json()
    }

    /// The state of the one loop that blocks or blocked an agent.
    #[track_caller]
    pub fn state(&self) -> Value {
        let status = self.status();
        let loops = status["loops"].as_array().expect("loops");
        let blocked: Vec<&Value> = loops.iter().filter(|entry| entry["id"] != "verify").collect();
        assert_eq!(blocked.len(), 1, "{status:#}");
        blocked[0]["state"].clone()
    }

    /// The names of all events, or only of those of one kind.
    pub fn events_named(&self, name: &str) -> Vec<Value> {
        self.events()
            .into_iter()
            .map(|event| event["event"].clone())
            .filter(|event| event["event"] == name)
            .collect()
    }

    /// How often a gate that appends one byte to `runs` outside the project has run.
    pub fn runs(&self) -> usize {
        fs::read(self.tally()).map_or(0, |bytes| bytes.len())
    }

    /// A file outside the project, for gates that count their runs.
    pub fn tally(&self) -> PathBuf {
        self.dir.path().join("tally")
    }

    /// A command that counts its run and then runs this one.
    pub fn counting(&self, command: &str) -> String {
        format!("printf x >> {}; {command}", self.tally().display())
    }

    /// Every file ralph stores, with its content.
    pub fn memory(&self) -> Vec<(String, Vec<u8>)> {
        let read = |name: String| {
            let content = fs::read(self.ralph_home().join(&name)).expect("a file of ours");
            (name, content)
        };
        self.remembered().into_iter().map(read).collect()
    }

    /// A hook call with exactly these bytes on stdin.
    pub fn hook_with(&self, bytes: &[u8]) -> HookAnswer {
        let ran = Finished::run(&mut self.command(&["hook", "claude"]), bytes);
        HookAnswer { ran, took: Duration::ZERO }
    }

    /// The running binary with pipes for all three streams.
    pub fn piped(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary")
    }

    /// Another event of the session, which can show pending notices.
    pub fn session_event(&self, name: &str) -> HookAnswer {
        self.event(json!({"session_id": "session-1", "cwd": self.project(), "hook_event_name": name}))
            .answer()
    }

    /// The stop of a sub-agent, first in the session.
    pub fn stop(&self, agent_type: &str) -> ClientEvent<'_> {
        ClientEvent {
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
            client: None,
        }
    }

    /// Any hook input.
    pub fn event(&self, input: Value) -> ClientEvent<'_> {
        ClientEvent { sandbox: self, input, arguments: vec!["hook".into(), "claude".into()], client: None }
    }

    /// Every event of every loop, as `ralph log --json` prints them, with the loop's id added as `loop`.
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

    /// The names of all files that ralph stores.
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
