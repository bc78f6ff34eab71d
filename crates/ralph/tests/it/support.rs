//! A sandbox: a real git repo, a home of its own, the real binary. Three lines set the scene.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub(crate) const RALPH: &str = env!("CARGO_BIN_EXE_ralph");

pub(crate) struct Sandbox {
    /// Started when it is first needed; ended before the folder goes.
    client: OnceLock<StandInClient>,
    dir: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

impl Sandbox {
    /// An empty git repo.
    pub(crate) fn new() -> Self {
        let sandbox = Self::without_git();
        sandbox.git(&["init", "-q", "-b", "main"]);
        sandbox
    }

    pub(crate) fn without_git() -> Self {
        let dir = tempfile::Builder::new().prefix("ralph-test-").tempdir().expect("a temporary folder");
        for folder in ["project", "home"] {
            fs::create_dir(dir.path().join(folder)).expect("a folder");
        }
        Self { client: OnceLock::new(), dir, variables: Vec::new() }
    }

    /// The process that stands in for the client: hooks come from it, the user's commands do not.
    pub(crate) fn client(&self) -> &StandInClient {
        self.client.get_or_init(|| StandInClient::start(self.dir.path()))
    }

    /// Runs a command as a descendant of the stand-in client, without any of the client's variables: what an agent's
    /// shell can do that hides its environment. `ralph` is the binary under test.
    pub(crate) fn in_agents_shell(&self, words: &[&str]) -> Ran {
        let (program, arguments) = words.split_first().expect("a program");
        let mut command = self.isolated(if *program == "ralph" { RALPH } else { program });
        command.args(arguments);
        for (name, _) in self.variables.iter().filter(|(name, _)| name.starts_with("CLAUDE")) {
            command.env_remove(name);
        }
        Ran::of(self.client().output(&command, b""))
    }

    /// A repo whose `ralph.yaml` has this text and is trusted.
    pub(crate) fn gated(config: &str) -> Self {
        let sandbox = Self::new();
        sandbox.file("ralph.yaml", config);
        sandbox.trust();
        sandbox
    }

    /// Sets a variable for every later call.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.variables.push((name.into(), value.into()));
    }

    pub(crate) fn project(&self) -> PathBuf {
        fs::canonicalize(self.dir.path().join("project")).expect("the project")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    pub(crate) fn ralph_home(&self) -> PathBuf {
        self.dir.path().join("home/.ralph")
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.project().join(relative)
    }

    pub(crate) fn file(&self, relative: &str, text: &str) {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(path, text).expect("a file");
    }

    pub(crate) fn read(&self, relative: &str) -> String {
        fs::read_to_string(self.path(relative)).unwrap_or_else(|error| panic!("{relative}: {error}"))
    }

    pub(crate) fn exists(&self, relative: &str) -> bool {
        self.path(relative).exists()
    }

    pub(crate) fn remove(&self, relative: &str) {
        fs::remove_file(self.path(relative)).unwrap_or_else(|error| panic!("{relative}: {error}"));
    }

    pub(crate) fn git(&self, arguments: &[&str]) -> String {
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

    /// The command with nothing of our own environment in it. A hook gets the process of its client in `CLAUDE_PID`.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.isolated(RALPH);
        command.args(arguments);
        if arguments.first() == Some(&"hook") && !self.variables.iter().any(|(name, _)| name == "CLAUDE_PID")
        {
            command.env("CLAUDE_PID", self.client().process().to_string());
        }
        command
    }

    fn isolated(&self, program: &str) -> Command {
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

    pub(crate) fn ralph(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().expect("the binary"))
    }

    /// Accepts what lies in the project, as CI would.
    pub(crate) fn trust(&self) {
        let shown = self.ralph(&["trust", "--show", "--json"]);
        let sha256 = shown.json()["sha256"].as_str().expect("a SHA-256").to_owned();
        self.ralph(&["trust", "--hash", &sha256]).success();
    }

    /// A Trellis repo with this `worktree.yaml` and a task, trusted.
    pub(crate) fn trellis(config: &str) -> Self {
        let sandbox = Self::new();
        sandbox.file(".trellis/worktree.yaml", config);
        sandbox.file(".trellis/.current-task", ".trellis/tasks/login\n");
        sandbox.trust();
        sandbox
    }

    /// An Ideal repo with this `worktree.yaml` and a task, trusted.
    pub(crate) fn ideal(config: &str) -> Self {
        let sandbox = Self::new();
        sandbox.file(".ideal/worktree.yaml", config);
        sandbox.file(".ideal/.current-task", ".ideal/iterations/3\n");
        sandbox.trust();
        sandbox
    }

    /// Writes the person's own config.
    pub(crate) fn user_config(&self, text: &str) {
        let dir = self.home().join(".config/ralph");
        fs::create_dir_all(&dir).expect("folders");
        fs::write(dir.join("config.yaml"), text).expect("a file");
    }

    pub(crate) fn status(&self) -> Value {
        self.ralph(&["status", "--json"]).success().json()
    }

    /// What `ralph verify --json` says, whatever its exit code.
    #[track_caller]
    pub(crate) fn verify(&self, more: &[&str]) -> Value {
        self.ralph(&[&["verify", "--json"], more].concat()).json()
    }

    /// The state of the one loop that holds or held an agent.
    #[track_caller]
    pub(crate) fn state(&self) -> Value {
        let status = self.status();
        let loops = status["loops"].as_array().expect("loops");
        let held: Vec<&Value> = loops.iter().filter(|entry| entry["id"] != "verify").collect();
        assert_eq!(held.len(), 1, "{status:#}");
        held[0]["state"].clone()
    }

    /// The names of all events, or only of those of one kind.
    pub(crate) fn events_named(&self, name: &str) -> Vec<Value> {
        self.events()
            .into_iter()
            .map(|event| event["event"].clone())
            .filter(|event| event["event"] == name)
            .collect()
    }

    /// How often a gate that writes one byte into `runs` outside the project has been run.
    pub(crate) fn runs(&self) -> usize {
        fs::read(self.tally()).map_or(0, |bytes| bytes.len())
    }

    /// A file outside the project, for gates that count their runs.
    pub(crate) fn tally(&self) -> PathBuf {
        self.dir.path().join("tally")
    }

    /// A command that counts its run and then is this one.
    pub(crate) fn counting(&self, command: &str) -> String {
        format!("printf x >> {}; {command}", self.tally().display())
    }

    /// Everything ralph keeps, with its content.
    pub(crate) fn memory(&self) -> Vec<(String, Vec<u8>)> {
        let read = |name: String| {
            let content = fs::read(self.ralph_home().join(&name)).expect("a file of ours");
            (name, content)
        };
        self.remembered().into_iter().map(read).collect()
    }

    /// A hook call with these very bytes on stdin.
    pub(crate) fn hook_with(&self, bytes: &[u8]) -> Answer {
        let mut child = self.piped(&["hook", "claude"]);
        // It may stop reading before the end.
        let _refused = child.stdin.take().expect("a pipe").write_all(bytes);
        Answer { ran: Ran::of(child.wait_with_output().expect("an end")), took: Duration::ZERO }
    }

    /// The running binary with pipes on all sides.
    pub(crate) fn piped(&self, arguments: &[&str]) -> std::process::Child {
        let mut command = self.command(arguments);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary")
    }

    /// Another event of the session, which can show what waits.
    pub(crate) fn session_event(&self, name: &str) -> Answer {
        self.event(json!({"session_id": "session-1", "cwd": self.project(), "hook_event_name": name}))
            .answer()
    }

    /// The stop of a sub-agent, first in the session.
    pub(crate) fn stop(&self, agent_type: &str) -> Stop<'_> {
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
    pub(crate) fn event(&self, input: Value) -> Stop<'_> {
        Stop { sandbox: self, input, arguments: vec!["hook".into(), "claude".into()] }
    }

    /// Every event of every loop, as `ralph log --json` shows them, the loop's id added as `loop`.
    pub(crate) fn events(&self) -> Vec<Value> {
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
    pub(crate) fn remembered(&self) -> Vec<String> {
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

/// A process that runs requests, as a client runs hooks and the commands of its agent: a shell that reads them from a pipe.
pub(crate) struct StandInClient {
    shell: Mutex<Child>,
    requests: Mutex<Requests>,
    process: u32,
    dir: PathBuf,
}

struct Requests {
    pipe: ChildStdin,
    number: usize,
}

impl StandInClient {
    pub(crate) fn start(dir: &Path) -> Self {
        let mut shell = Command::new("sh")
            .args(["-c", "while IFS= read -r request; do eval \"$request\" & done"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("a shell");
        let pipe = shell.stdin.take().expect("a pipe");
        let dir = dir.join(format!("client-{}", shell.id()));
        fs::create_dir(&dir).expect("a folder");
        let process = shell.id();
        Self { shell: Mutex::new(shell), requests: Mutex::new(Requests { pipe, number: 0 }), process, dir }
    }

    pub(crate) fn process(&self) -> u32 {
        self.process
    }

    /// Runs the command as a descendant of the stand-in client, to its end. It gets only the variables that were set for it.
    /// The shell opens our pipes by their names in `/proc`.
    pub(crate) fn output(&self, command: &Command, input: &[u8]) -> Output {
        let (out, out_writer) = std::io::pipe().expect("a pipe");
        let (err, err_writer) = std::io::pipe().expect("a pipe");
        let readers = [out, err].map(|mut pipe| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                pipe.read_to_end(&mut bytes).expect("what is printed");
                bytes
            })
        });
        let pipe =
            |writer: &std::io::PipeWriter| format!("/proc/{}/fd/{}", std::process::id(), writer.as_raw_fd());
        let status = {
            let mut requests = self.requests.lock().expect("requests");
            requests.number += 1;
            let stdin = self.dir.join(format!("{}.in", requests.number));
            let status = self.dir.join(format!("{}.status", requests.number));
            fs::write(&stdin, input).expect("a file");
            let line = format!(
                "( cd {} && exec {} ) < {} > {} 2> {}; echo $? > {}\n",
                quoted(command.get_current_dir().expect("a folder").as_os_str()),
                shell_words(command),
                quoted(stdin.as_os_str()),
                pipe(&out_writer),
                pipe(&err_writer),
                quoted(status.as_os_str())
            );
            requests.pipe.write_all(line.as_bytes()).expect("a shell that reads");
            status
        };
        let code = await_number(&status);
        drop((out_writer, err_writer));
        let [stdout, stderr] = readers.map(|reader| reader.join().expect("a reader"));
        // The shell reports a signal as a code above 128.
        let raw = if code > 128 { code - 128 } else { code << 8 };
        Output { status: ExitStatus::from_raw(raw), stdout, stderr }
    }
}

impl Drop for StandInClient {
    fn drop(&mut self) {
        let mut shell = self.shell.lock().expect("the shell");
        let _gone = shell.kill();
        let _gone = shell.wait();
    }
}

fn await_number(file: &Path) -> i32 {
    let deadline = Instant::now() + Duration::from_secs(300);
    loop {
        if let Some(number) =
            fs::read_to_string(file).ok().and_then(|text| text.strip_suffix('\n')?.parse().ok())
        {
            return number;
        }
        assert!(Instant::now() < deadline, "the stand-in client never answered in {}", file.display());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The command for a shell, with only its own variables.
fn shell_words(command: &Command) -> String {
    let mut words = vec!["env".to_owned(), "-i".to_owned()];
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            let mut variable = name.to_owned();
            variable.push("=");
            variable.push(value);
            words.push(quoted(&variable));
        }
    }
    words.push(quoted(command.get_program()));
    words.extend(command.get_args().map(quoted));
    words.join(" ")
}

fn quoted(word: &OsStr) -> String {
    let text = word.to_str().expect("UTF-8").replace('\'', "'\\''");
    assert!(!text.contains('\n'), "a request is one line: {text}");
    format!("'{text}'")
}

/// Where the programs are that gates call.
#[expect(
    clippy::disallowed_methods,
    reason = "the tests need the programs that the person who runs them has"
)]
pub(crate) fn search_path() -> String {
    std::env::var("PATH").expect("a PATH")
}

/// A command line that calls `misbehave`.
pub(crate) fn misbehave(words: &str) -> String {
    format!("{} {words}", ralph_testkit::misbehave().display())
}

/// A native config whose gates are these commands, each quoted.
pub(crate) fn verify_list(commands: &[&str]) -> String {
    let lines: Vec<String> = commands.iter().map(|command| format!("  - {}\n", json!(command))).collect();
    format!("verify:\n{}", lines.concat())
}

/// Waits until something is so, and says what never was.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < deadline, "it never was so: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process is there and is no zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// What a finished command said.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    #[track_caller]
    pub(crate) fn success(self) -> Self {
        self.exits(0)
    }

    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        assert!(self.stdout.contains(text) || self.stderr.contains(text), "not said: {text}\n{self:#?}");
        self
    }
}

/// One hook call before it is made.
pub(crate) struct Stop<'a> {
    sandbox: &'a Sandbox,
    input: Value,
    arguments: Vec<String>,
}

impl Stop<'_> {
    pub(crate) fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.input[field] = value.into();
        self
    }

    pub(crate) fn agent(self, id: &str) -> Self {
        self.with("agent_id", id)
    }

    pub(crate) fn session(self, id: &str) -> Self {
        self.with("session_id", id)
    }

    pub(crate) fn saying(self, message: &str) -> Self {
        self.with("last_assistant_message", message)
    }

    pub(crate) fn deadline(self, time: &str) -> Self {
        self.option("--deadline", time)
    }

    pub(crate) fn option(mut self, name: &str, value: &str) -> Self {
        self.arguments.extend([name.into(), value.into()]);
        self
    }

    /// The input as it would stand on stdin.
    pub(crate) fn text(&self) -> String {
        self.input.to_string()
    }

    fn command(&self) -> Command {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        self.sandbox.command(&arguments)
    }

    /// The child process with the input written and stdin closed. It is our own child, so that it can be signalled and
    /// waited for; the stand-in client is only named in its environment.
    pub(crate) fn spawn(&self) -> Child {
        let mut child = self
            .command()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary");
        child.stdin.take().expect("a pipe").write_all(self.input.to_string().as_bytes()).expect("a reader");
        child
    }

    /// The hook as a child of the stand-in client.
    pub(crate) fn answer(&self) -> Answer {
        self.answer_of(&self.command())
    }

    /// The same from a client that does not name its process.
    pub(crate) fn answer_without_client_pid(&self) -> Answer {
        let mut command = self.command();
        command.env_remove("CLAUDE_PID");
        self.answer_of(&command)
    }

    fn answer_of(&self, command: &Command) -> Answer {
        let begun = Instant::now();
        let output = self.sandbox.client().output(command, self.text().as_bytes());
        Answer { ran: Ran::of(output), took: begun.elapsed() }
    }
}

/// What the hook answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) ran: Ran,
    pub(crate) took: Duration,
}

impl Answer {
    /// It was held; the reason and the detail are given back.
    #[track_caller]
    pub(crate) fn held(&self) -> (String, String) {
        assert_eq!(self.ran.code, Some(0), "{self:#?}");
        let value = self.ran.json();
        assert_eq!(value["decision"], "block", "{self:#?}");
        let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{self:#?}")).to_owned();
        (text(&value["reason"]), text(&value["hookSpecificOutput"]["additionalContext"]))
    }

    /// It was let go; what the person is told is given back, if anything.
    #[track_caller]
    pub(crate) fn let_go(&self) -> Option<String> {
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
    pub(crate) fn silent(&self) {
        assert_eq!(
            (self.ran.code, self.ran.stdout.as_str(), self.ran.stderr.as_str()),
            (Some(0), "", ""),
            "{self:#?}"
        );
    }
}
