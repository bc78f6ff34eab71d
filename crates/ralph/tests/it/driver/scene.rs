//! A trusted repo, a script as the agent, and the driver that runs it.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

use crate::RALPH;
use ralph_testkit::{Finished, Sandbox, is_alive, misbehave_program, search_path, verify_list, wait_until};

/// The gate of most scenes: the work is done when the file exists.
pub(super) const DONE: &str = "test -f done.txt || { echo 'the door is still open'; exit 1; }";

/// The recorded streams of real clients.
pub(super) const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../ralph-core/fixtures/streams");

/// A script's first lines. `$run` is how often the agent was run, including this time, and its prompt is stored. Notes
/// in `$NOTES` are outside the tree, so they are not progress.
const OPENING: &str = r#"#!/bin/sh
run=1
while [ -e "$NOTES/prompt.$run" ]; do run=$((run + 1)); done
cat > "$NOTES/prompt.$run"
"#;

/// Waits until it is signalled, with a child of its own; both are noted.
pub(super) const STAYS: &str = r#"
echo $$ > "$NOTES/agent"
sh -c 'echo $$ > "$NOTES/child"; exec sleep 1000'
"#;

pub(super) struct Scene {
    pub(super) sandbox: Sandbox,
    agent: String,
}

impl Scene {
    /// One gate, and an agent that does this.
    pub(super) fn new(gate: &str, agent: &str) -> Self {
        Self::of(&verify_list(&[gate]), agent)
    }

    /// A whole `ralph.yaml`.
    pub(super) fn of(config: &str, agent: &str) -> Self {
        let mut sandbox = Sandbox::gated(config);
        let notes = sandbox.home().join("notes");
        fs::create_dir(&notes).expect("a folder");
        sandbox.set("NOTES", notes.to_str().expect("a readable path"));
        sandbox.set("RALPH", RALPH);
        sandbox.set("MISBEHAVE", misbehave_program().to_str().expect("a readable path"));
        let scene = Self { sandbox, agent: "command:./agent.sh".into() };
        scene.sandbox.file("agent.sh", &format!("{OPENING}{agent}\n"));
        executable(scene.sandbox.path("agent.sh"));
        scene
    }

    /// The same script as Claude Code: the first `claude` in the search path.
    pub(super) fn of_claude(gate: &str, agent: &str) -> Self {
        let mut scene = Self::new(gate, agent);
        let bin = scene.sandbox.home().join("bin");
        fs::create_dir(&bin).expect("a folder");
        fs::rename(scene.sandbox.path("agent.sh"), bin.join("claude")).expect("one file system");
        scene.sandbox.set("PATH", format!("{}:{}", bin.display(), search_path()));
        scene.agent = "claude".into();
        scene
    }

    pub(super) fn command(&self, more: &[&str]) -> Command {
        self.sandbox.command(&[&["loop", "shut the door", "--agent", &self.agent], more].concat())
    }

    /// Drives to the end.
    #[track_caller]
    pub(super) fn drive(&self, more: &[&str]) -> Finished {
        self.start(more).end()
    }

    pub(super) fn start(&self, more: &[&str]) -> Running {
        Running::of(self.command(more))
    }

    /// Resumes a paused or killed loop.
    pub(super) fn resume(&self, more: &[&str]) -> Running {
        Running::of(self.sandbox.command(&[&["resume"], more].concat()))
    }

    pub(super) fn note_path(&self, name: &str) -> PathBuf {
        self.sandbox.home().join("notes").join(name)
    }

    pub(super) fn has_note(&self, name: &str) -> bool {
        self.note_path(name).exists()
    }

    #[track_caller]
    pub(super) fn note(&self, name: &str) -> String {
        fs::read_to_string(self.note_path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Waits until the note has a complete line.
    #[track_caller]
    pub(super) fn await_note(&self, name: &str) -> String {
        let is_there = || fs::read_to_string(self.note_path(name)).is_ok_and(|text| text.ends_with('\n'));
        wait_until(&format!("a note `{name}`"), is_there);
        self.note(name).trim().to_owned()
    }

    /// The process number in a note, once it is written.
    #[track_caller]
    pub(super) fn await_process(&self, name: &str) -> u32 {
        self.await_note(name).parse().expect("the number of a process")
    }

    /// The prompt of the agent's `number`th run.
    #[track_caller]
    pub(super) fn prompt(&self, number: u32) -> String {
        self.note(&format!("prompt.{number}"))
    }

    /// How often the agent was run.
    pub(super) fn runs(&self) -> u32 {
        (1..).take_while(|number| self.has_note(&format!("prompt.{number}"))).last().unwrap_or(0)
    }

    /// One field of every event of a kind, in order.
    pub(super) fn event_fields(&self, event: &str, field: &str) -> Vec<Value> {
        self.sandbox.events_named(event).into_iter().map(|event| event[field].clone()).collect()
    }

    /// How each run of the agent ended.
    pub(super) fn ends(&self) -> Vec<String> {
        let runs = self.event_fields("agent_ended", "run").into_iter();
        runs.map(|run| run["ended"]["how"].as_str().expect("a word").to_owned()).collect()
    }

    /// The ledger has every iteration up to this one exactly once, and each was judged exactly once.
    #[track_caller]
    pub(super) fn has_iterations(&self, most: u32) {
        let each: Vec<Value> = (1..=most).map(|number| json!(number)).collect();
        assert_eq!(self.event_fields("iteration_began", "iteration"), each, "begun");
        assert_eq!(self.event_fields("judged", "attempt"), each, "judged");
    }

    pub(super) fn status(&self) -> Value {
        self.sandbox.state()["status"].clone()
    }

    #[track_caller]
    pub(super) fn ended_as(&self, verdict: &str) {
        assert_eq!(self.status(), json!({"status": "ended", "verdict": verdict}));
    }

    #[track_caller]
    pub(super) fn is_paused_because(&self, cause: &str) {
        let state = self.sandbox.state();
        assert_eq!(state["status"], json!({"status": "paused"}), "{state:#}");
        assert_eq!(state["paused"]["cause"], cause, "{state:#}");
    }

    pub(super) fn loop_id(&self) -> String {
        let status = self.sandbox.status();
        status["loops"][0]["id"].as_str().unwrap_or_else(|| panic!("a loop: {status:#}")).to_owned()
    }
}

pub(super) fn executable(path: PathBuf) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a file of ours");
}

/// A running driver. It ends with its test. It prints to files: a pipe that is not read would block it.
pub(super) struct Running {
    child: Child,
    stdout: File,
    stderr: File,
}

impl Running {
    pub(super) fn of(mut command: Command) -> Self {
        let file = || tempfile::tempfile().expect("a temporary file");
        let (stdout, stderr) = (file(), file());
        let copy = |file: &File| file.try_clone().expect("a file of ours");
        let child = command.stdout(copy(&stdout)).stderr(copy(&stderr)).spawn().expect("the binary");
        Self { child, stdout, stderr }
    }

    pub(super) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.child), signal).expect("a child of ours");
    }

    /// Waits for its end, with a timeout.
    #[track_caller]
    pub(super) fn end(mut self) -> Finished {
        let deadline = Instant::now() + Duration::from_secs(40);
        loop {
            let status = self.child.try_wait().expect("a child of ours");
            if status.is_some() || Instant::now() > deadline {
                let code = status.and_then(|status| status.code());
                let ran = Finished { code, stdout: text_of(&self.stdout), stderr: text_of(&self.stderr) };
                assert!(status.is_some(), "it never ended: {ran:#?}");
                return ran;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn text_of(mut file: &File) -> String {
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).expect("a file of ours");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// SIGTERM first: only a driver that ends by itself ends everything that its agent started.
impl Drop for Running {
    fn drop(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(10);
        let is_there = |child: &mut Child| matches!(child.try_wait(), Ok(None));
        if is_there(&mut self.child) {
            self.signal(Signal::TERM);
        }
        while is_there(&mut self.child) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Whether the word is on a line of its own, where scripts look for it.
pub(super) fn says_verified(ran: &Finished) -> bool {
    ran.stdout.lines().any(|line| line == "VERIFIED_DONE")
}

/// A verified end, as people and scripts see it.
#[track_caller]
pub(super) fn verified(ran: Finished) -> Finished {
    let ran = ran.exits(0);
    assert!(says_verified(&ran), "{ran:#?}");
    ran
}

/// Any other end: neither the exit code nor the word.
#[track_caller]
pub(super) fn unverified(ran: Finished, code: i32) -> Finished {
    let ran = ran.exits(code);
    assert!(!ran.stdout.contains("VERIFIED_DONE"), "{ran:#?}");
    ran
}

#[track_caller]
pub(super) fn is_gone(process: u32) {
    assert!(!is_alive(process), "process {process} is still there");
}
