//! A sample repo with its own home, in one temporary folder, isolated from the user's files.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, io, thread};

use ralph_core::ledger::line::{self, ChainHead};
use serde_json::{Value, json};

use crate::build::Programs;
use crate::contest::Call;

pub(crate) struct Scene<'p> {
    programs: &'p Programs,
    dir: PathBuf,
}

impl<'p> Scene<'p> {
    /// A git repo with that many committed files, a hundred per folder, and these gates, accepted.
    pub(crate) fn new(programs: &'p Programs, files: usize, config: &str) -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix("scene-").tempdir_in(&programs.scenes)?.keep();
        let scene = Self { programs, dir };
        fs::create_dir(scene.path("home"))?;
        fs::create_dir(scene.project())?;
        for number in 0..files {
            let folder = scene.project().join(format!("src/part-{}", number / 100));
            fs::create_dir_all(&folder)?;
            let text = format!("/// Number {number}.\npub fn number() -> usize {{ {number} }}\n").repeat(20);
            fs::write(folder.join(format!("file-{number}.rs")), text)?;
        }
        fs::write(scene.project().join("ralph.yaml"), config)?;
        scene.git(&["init", "--quiet"])?;
        scene.git(&["add", "."])?;
        scene.git(&[
            "-c",
            "user.name=bench",
            "-c",
            "user.email=bench@example.com",
            "commit",
            "-qm",
            "all files",
        ])?;
        // Pending disk writes would disturb the measurements.
        Command::new("sync").status()?;
        // Both git and ralph reread recently changed files each time.
        thread::sleep(Duration::from_millis(2100));
        scene.trust()?;
        Ok(scene)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.path("project")
    }

    /// Changes the tree to a new content.
    pub(crate) fn change(&self, round: usize) -> io::Result<()> {
        fs::write(self.project().join("src/part-0/file-0.rs"), format!("// {round}\n"))
    }

    /// Removes all cached content hashes, as for a new repo.
    pub(crate) fn forget_hashes(&self) -> io::Result<()> {
        for repo in fs::read_dir(self.path("home/ralph/repos"))? {
            fs::remove_file(repo?.path().join("tree-cache"))?;
        }
        Ok(())
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path("home"))
            .env("RALPH_HOME", self.path("home/ralph"))
            .current_dir(self.project())
            .stderr(Stdio::null());
        command
    }

    fn call(&self, program: &Path, arguments: &[&str]) -> Call {
        let mut command = self.command(program);
        command.args(arguments);
        Call { command, input: Vec::new() }
    }

    pub(crate) fn empty(&self) -> Call {
        self.call(&self.programs.empty, &[])
    }

    pub(crate) fn ralph(&self, arguments: &[&str]) -> Call {
        self.call(&self.programs.ralph, arguments)
    }

    /// The same call with the other build.
    pub(crate) fn by_other(&self, call: &Call) -> Option<Call> {
        let mut command = self.command(self.programs.other.as_deref()?);
        command.args(call.command.get_args());
        Some(Call { command, input: call.input.clone() })
    }

    /// Extends the ledger of the only loop to this length.
    pub(crate) fn lengthen_ledger(&self, events: u64) -> io::Result<()> {
        let ledgers = self.ledgers()?;
        let [ledger] = ledgers.as_slice() else { return Err(io::Error::other("expected exactly one loop")) };
        let mut text = fs::read_to_string(ledger)?;
        let mut head = ChainHead::origin();
        for line in text.lines() {
            let line = line::read(&head, line).map_err(io::Error::other)?;
            head = ChainHead { seq: line.seq, hash: line.hash };
        }
        while head.seq < events {
            let event = ralph_core::ledger::event::Event::Waited {
                what: format!("number {}", head.seq),
                entries: Vec::new(),
                until: None,
            };
            let (line, next) = line::write(&head, jiff::Timestamp::now(), &event);
            text.push_str(&line);
            head = next;
        }
        fs::write(ledger, text)
    }

    fn ledgers(&self) -> io::Result<Vec<PathBuf>> {
        let mut ledgers = Vec::new();
        for repo in fs::read_dir(self.path("home/ralph/repos"))? {
            for found in fs::read_dir(repo?.path().join("loops"))? {
                ledgers.push(found?.path().join("ledger.jsonl"));
            }
        }
        Ok(ledgers)
    }

    pub(crate) fn shell(&self, line: &str) -> Call {
        self.call(Path::new("/bin/sh"), &["-c", line])
    }

    pub(crate) fn git_status(&self) -> Call {
        self.call(Path::new("git"), &["status", "--porcelain"])
    }

    /// A hook call with this event.
    pub(crate) fn hook(&self, event: &HookInput<'_>) -> Call {
        Call {
            input: event.input(&self.project()).to_string().into_bytes(),
            ..self.ralph(&["hook", "claude"])
        }
    }

    fn git(&self, arguments: &[&str]) -> io::Result<()> {
        let status = self.command(Path::new("git")).args(arguments).status()?;
        if status.success() { Ok(()) } else { Err(io::Error::other(format!("git {arguments:?}: {status}"))) }
    }

    fn trust(&self) -> io::Result<()> {
        let shown = self.ralph(&["trust", "--show", "--json"]).command.output()?;
        let shown: Value = serde_json::from_slice(&shown.stdout)?;
        let sha256 = shown["sha256"].as_str().unwrap_or_default();
        crate::contest::run(self.ralph(&["trust", "--hash", sha256]), "Accepted").map(drop)
    }
}

/// A client event.
pub(crate) struct HookInput<'e> {
    pub(crate) name: &'e str,
    pub(crate) agent: &'e str,
    /// Each gets its own loop.
    pub(crate) agent_id: String,
    pub(crate) transcript: PathBuf,
}

impl HookInput<'_> {
    fn input(&self, project: &Path) -> Value {
        json!({
            "session_id": "9a4c4a2e-5a5e-4d3b-8f4e-0d6f1c1b7a11",
            "transcript_path": self.transcript,
            "cwd": project,
            "permission_mode": "default",
            "agent_id": self.agent_id,
            "agent_type": self.agent,
            "hook_event_name": self.name,
            "stop_hook_active": false,
            "last_assistant_message": "All done: the parser handles the empty case now, and the tests pass.",
        })
    }
}

/// A sub-agent of this name stops.
pub(crate) fn stop(agent: &str, agent_id: usize) -> HookInput<'_> {
    HookInput {
        name: "SubagentStop",
        agent,
        agent_id: format!("agent-{agent_id}"),
        transcript: PathBuf::from("/nowhere/transcript.jsonl"),
    }
}
