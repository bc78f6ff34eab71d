//! The real Claude Code in a terminal, with a prompt that is typed. Some of its events, for example those of teams,
//! only occur there.
//!
//! The screen is kept to explain a failed test, and read only to know when the client accepts input.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fmt, fs, thread};

use serde_json::json;
use tempfile::TempDir;

use crate::pty::{OnTerminal, Pty};
use crate::real_claude::ClaudeRun;
use crate::scripted_model::ScriptedModel;

const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

/// Shown on the screen when the client accepts input.
const READY: &str = "accept edits on";

/// A running client. It ends with its test.
pub struct ClaudeTerminal {
    client: OnTerminal,
    _home: TempDir,
}

impl fmt::Debug for ClaudeTerminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClaudeTerminal").field("screen", &self.screen()).finish_non_exhaustive()
    }
}

impl ClaudeTerminal {
    /// Starts the client for a user who has used it before, and types the prompt once it accepts input.
    ///
    /// # Panics
    ///
    /// When it does not start, or does not accept input within a minute.
    #[track_caller]
    pub fn start(run: &ClaudeRun, model: &ScriptedModel) -> Self {
        let mut terminal = Self::open(run, model).unwrap_or_else(|error| panic!("no terminal: {error}"));
        terminal.wait_until("the client accepts input", |screen| screen.contains(READY));
        terminal.types(&run.prompt);
        terminal
    }

    fn open(run: &ClaudeRun, model: &ScriptedModel) -> io::Result<Self> {
        run.write_settings()?;
        let home = TempDir::with_prefix("ralph-e2e-home.")?;
        settle(home.path(), &run.project)?;
        let mut client = run.interactive(home.path(), model);
        client.env("TERM", "xterm-256color").current_dir(&run.project);
        Ok(Self { client: Pty::open().size(120, 40).start(&client), _home: home })
    }

    /// Everything drawn so far.
    pub fn screen(&self) -> String {
        // The client separates words by moving the cursor.
        self.client.screen().replace("\u{1b}[1C", " ")
    }

    fn types(&mut self, prompt: &str) {
        for keys in [prompt, "\r"] {
            self.client.types(keys);
            // Text that arrives together with the newline is treated as pasted.
            thread::sleep(Duration::from_millis(500));
        }
    }

    /// Waits until the condition holds.
    ///
    /// # Panics
    ///
    /// With the content of the screen, when the condition does not hold within a minute.
    #[track_caller]
    pub fn wait_until(&self, what: &str, is_so: impl Fn(&str) -> bool) {
        let begun = Instant::now();
        while !is_so(&self.screen()) {
            assert!(begun.elapsed() < PATIENCE, "it never was so: {what}\n{}", self.screen());
            thread::sleep(POLL);
        }
    }
}

/// A home in which every first-start question of the client is answered.
fn settle(home: &Path, project: &Path) -> io::Result<()> {
    let known = json!({"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true});
    let answers = json!({
        "hasCompletedOnboarding": true, "lastOnboardingVersion": "9.9.9", "theme": "dark", "numStartups": 5,
        "customApiKeyResponses": {"approved": ["dummy"], "rejected": []},
        "projects": {project.to_string_lossy(): known},
    });
    fs::write(home.join(".claude.json"), answers.to_string())
}
