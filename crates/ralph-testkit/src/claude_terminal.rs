//! The real Claude Code as a person uses it: in a terminal, with a prompt that is typed. Some of its events, those of teams
//! among them, happen nowhere else.
//!
//! The terminal is made by `script` (util-linux). What the client draws is kept for whoever has to find out why a test
//! failed, and looked at only to know when it listens.

use std::ffi::OsStr;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, fs, thread};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tempfile::TempDir;

use crate::real_claude::ClaudeRun;
use crate::scripted_model::ScriptedModel;

const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

/// What stands on the screen when the client listens.
const LISTENS: &str = "accept edits on";

/// A client that runs. It does not outlive its test.
pub struct ClaudeTerminal {
    child: Child,
    keyboard: ChildStdin,
    screen: Arc<Mutex<Vec<u8>>>,
    _home: TempDir,
}

impl fmt::Debug for ClaudeTerminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClaudeTerminal").field("screen", &self.screen()).finish_non_exhaustive()
    }
}

impl ClaudeTerminal {
    /// Starts the client, as somebody who has used it before, and types the prompt once it listens.
    ///
    /// # Panics
    ///
    /// When it does not start, or does not listen within a minute.
    #[track_caller]
    pub fn start(run: &ClaudeRun, model: &ScriptedModel) -> Self {
        let mut terminal = Self::open(run, model).unwrap_or_else(|error| panic!("no terminal: {error}"));
        terminal.wait_until("it listens", |screen| screen.contains(LISTENS));
        terminal.types(&run.prompt);
        terminal
    }

    fn open(run: &ClaudeRun, model: &ScriptedModel) -> io::Result<Self> {
        run.write_settings()?;
        let home = TempDir::with_prefix("ralph-e2e-home.")?;
        settle(home.path(), &run.project)?;
        let client = run.interactive(home.path(), model);
        let words = [client.get_program()].into_iter().chain(client.get_args()).map(quoted);
        let line = words.collect::<Vec<_>>().join(" ");
        let mut command = Command::new("script");
        command
            .args(["-qefc", &format!("stty cols 120 rows 40; exec {line}"), "/dev/null"])
            .env_clear()
            .envs(client.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .env("TERM", "xterm-256color")
            .current_dir(&run.project)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn()?;
        let keyboard = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut drawn = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let screen = Arc::<Mutex<Vec<u8>>>::default();
        let shown = Arc::clone(&screen);
        thread::spawn(move || {
            let mut part = [0; 1 << 14];
            while let Ok(count @ 1..) = drawn.read(&mut part) {
                shown.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&part[..count]);
            }
        });
        Ok(Self { child, keyboard, screen, _home: home })
    }

    /// All that was drawn so far.
    pub fn screen(&self) -> String {
        let drawn = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        // Words are set apart by moving the cursor.
        String::from_utf8_lossy(&drawn).replace("\u{1b}[1C", " ")
    }

    fn types(&mut self, prompt: &str) {
        for keys in [prompt, "\r"] {
            let typed = self.keyboard.write_all(keys.as_bytes()).and_then(|()| self.keyboard.flush());
            typed.unwrap_or_else(|error| panic!("nobody reads what is typed: {error}"));
            // What comes at once with the end of the line is taken for something pasted.
            thread::sleep(Duration::from_millis(500));
        }
    }

    /// Waits until it is so.
    ///
    /// # Panics
    ///
    /// With what is on the screen, when it is not so within a minute.
    #[track_caller]
    pub fn wait_until(&self, what: &str, is_so: impl Fn(&str) -> bool) {
        let begun = Instant::now();
        while !is_so(&self.screen()) {
            assert!(begun.elapsed() < PATIENCE, "it never was so: {what}\n{}", self.screen());
            thread::sleep(POLL);
        }
    }
}

impl Drop for ClaudeTerminal {
    fn drop(&mut self) {
        // `script` ends what runs in its terminal.
        let _gone = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(5) && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(POLL);
        }
        let _killed = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// The home of somebody who has answered all that the client asks the first time.
fn settle(home: &Path, project: &Path) -> io::Result<()> {
    let known = json!({"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true});
    let answers = json!({
        "hasCompletedOnboarding": true, "lastOnboardingVersion": "9.9.9", "theme": "dark", "numStartups": 5,
        "customApiKeyResponses": {"approved": ["dummy"], "rejected": []},
        "projects": {project.to_string_lossy(): known},
    });
    fs::write(home.join(".claude.json"), answers.to_string())
}

fn quoted(word: &OsStr) -> String {
    format!("'{}'", word.to_string_lossy().replace('\'', r"'\''"))
}
