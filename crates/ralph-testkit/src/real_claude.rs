//! The real Claude Code, installed once and run hermetically against a [`ScriptedModel`].
//!
//! It exists because our contract is with what the client does, not with what its documentation says: a hook
//! is only proven when the real program has called it and the model has received its answer.
//!
//! Guarantees: one pinned version; the client sees an empty environment plus a short list of variables, a home
//! directory of its own and a dummy key; every run ends at its timeout, with its whole process group.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::bounded::{self, Words};
use crate::npm_install::{InstallError, Package};
use crate::real_agent::PATH;
use crate::scripted_model::ScriptedModel;

/// The one version that the real-client tests support.
pub const CLAUDE_CODE_VERSION: &str = "2.1.325";

pub(crate) const CLAUDE_CODE: Package = Package {
    title: "Claude Code",
    name: "@anthropic-ai/claude-code",
    version: CLAUDE_CODE_VERSION,
    folder: "claude-code",
    needs: "Node.js and npm",
    programs,
    start: hermetic,
};

/// With these it connects to its base URL only.
pub(crate) const QUIET_CLAUDE: [(&str, &str); 4] = [
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ("DISABLE_TELEMETRY", "1"),
    ("DISABLE_AUTOUPDATER", "1"),
    ("DISABLE_ERROR_REPORTING", "1"),
];
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(90);
const DEFAULT_MAX_TURNS: &str = "40";

/// The npm launcher, else the native binary of the platform package. The launcher does not start if npm
/// skipped the package's install script.
fn programs(modules: &Path) -> Vec<PathBuf> {
    let packages = fs::read_dir(modules.join("@anthropic-ai")).into_iter().flatten().flatten();
    let of_platform = packages.filter(|package| is_platform_package(&package.file_name()));
    let native = of_platform.map(|package| package.path().join("claude")).filter(|program| program.is_file());
    [modules.join(".bin/claude")].into_iter().chain(native).collect()
}

fn is_platform_package(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.starts_with("claude-code-"))
}

/// The installed client, checked to start.
#[derive(Debug, Clone)]
pub struct Claude {
    program: PathBuf,
}

impl Claude {
    /// The pinned version, installed with npm into a cache folder if it is not there yet. The folder is
    /// `claude-code-VERSION` in `$RALPH_E2E_CACHE`, else `$XDG_CACHE_HOME/ralph-testkit`, else
    /// `$HOME/.cache/ralph-testkit`. Processes that need it at the same time install it once.
    pub fn installed() -> Result<Self, InstallError> {
        static PROVEN: OnceLock<PathBuf> = OnceLock::new();
        CLAUDE_CODE.installed(&PROVEN).map(|program| Self { program })
    }

    /// The client that a test needs.
    ///
    /// # Panics
    ///
    /// When it cannot be installed: a test that cannot run has not passed.
    #[track_caller]
    pub fn for_test() -> Self {
        Self::installed().unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn program(&self) -> &Path {
        &self.program
    }

    /// A run with `project` as its working directory.
    pub fn run_in(&self, project: impl Into<PathBuf>) -> ClaudeRun {
        ClaudeRun::new(self, project)
    }
}

/// One headless run of the client, to be described and then [`run`](Self::run).
#[derive(Debug)]
pub struct ClaudeRun {
    program: PathBuf,
    pub(crate) project: PathBuf,
    home: Option<PathBuf>,
    pub(crate) prompt: String,
    /// Later prompts, each sent after the previous one has its result.
    later: Vec<String>,
    settings: Option<Value>,
    env: BTreeMap<OsString, OsString>,
    args: Vec<OsString>,
    timeout: Duration,
}

impl ClaudeRun {
    pub fn new(claude: &Claude, project: impl Into<PathBuf>) -> Self {
        Self {
            program: claude.program.clone(),
            project: project.into(),
            home: None,
            prompt: "Do the work.".into(),
            later: Vec::new(),
            settings: None,
            env: BTreeMap::new(),
            args: Vec::new(),
            timeout: DEFAULT_TIMEOUT,
        }
    }

    /// A home directory that is kept, for a test that inspects it or continues the session. Without it the run has
    /// a temporary one.
    #[must_use]
    pub fn home(mut self, home: impl Into<PathBuf>) -> Self {
        self.home = Some(home.into());
        self
    }

    #[must_use]
    pub fn prompt(mut self, prompt: impl Into<String>) -> Self {
        self.prompt = prompt.into();
        self
    }

    /// Another prompt in the same session and the same process, given when the one before has its result.
    #[must_use]
    pub fn then_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.later.push(prompt.into());
        self
    }

    /// Written to `.claude/settings.json` of the project when the run starts, over what is there.
    #[must_use]
    pub fn settings(mut self, settings: Value) -> Self {
        self.settings = Some(settings);
        self
    }

    /// Sets a variable of the client, and so of its hooks. Overrides the hermetic ones, including `PATH`.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Defines sub-agents for this run: `{"name": {"description": …, "prompt": …, "tools": […]}}`.
    #[must_use]
    pub fn agents(self, agents: &Value) -> Self {
        self.arg("--agents").arg(agents.to_string())
    }

    #[must_use]
    pub fn plugin_dir(self, dir: impl Into<OsString>) -> Self {
        self.arg("--plugin-dir").arg(dir)
    }

    /// The tools that need no permission, for example `"Bash Agent"`. Needed because the client refuses to
    /// skip its permissions when it runs as root.
    #[must_use]
    pub fn allow_tools(self, tools: &str) -> Self {
        self.arg("--allowedTools").arg(tools)
    }

    /// Runs the client against `model` until it ends or the timeout is over.
    ///
    /// # Panics
    ///
    /// When the client cannot be started at all; its later behaviour is in the output.
    #[track_caller]
    pub fn run(self, model: &ScriptedModel) -> ClaudeOutput {
        match self.try_run(model) {
            Ok(output) => output,
            Err(error) => {
                panic!("cannot run {} in {}: {error}", self.program.display(), self.project.display())
            }
        }
    }

    fn try_run(&self, model: &ScriptedModel) -> io::Result<ClaudeOutput> {
        self.write_settings()?;
        let temporary = TempDir::with_prefix("ralph-e2e-home.")?;
        let home = self.home.as_deref().unwrap_or(temporary.path());
        let mut command = self.command(home, model);
        let ended = if self.later.is_empty() {
            bounded::run(&mut command, self.timeout)?
        } else {
            let mut user = ScriptedUser::new([&self.prompt].into_iter().chain(&self.later).cloned());
            bounded::converse(&mut command, self.timeout, |printed| user.next(printed))?
        };
        Ok(ClaudeOutput {
            exit: ended.status.code(),
            timed_out: ended.timed_out,
            took: ended.took,
            rows: rows(&ended.stdout),
            stderr: String::from_utf8_lossy(&ended.stderr).into_owned(),
        })
    }

    pub(crate) fn write_settings(&self) -> io::Result<()> {
        let Some(settings) = &self.settings else { return Ok(()) };
        let folder = self.project.join(".claude");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("settings.json"), format!("{settings:#}\n"))
    }

    /// No network namespace limits the client to loopback, because the model lives in the namespace of the test. The
    /// client's switches do: with them it connects to its base URL only.
    fn command(&self, home: &Path, model: &ScriptedModel) -> Command {
        let mut command = self.client(home, model);
        command.arg("-p");
        if self.later.is_empty() {
            command.arg(&self.prompt);
        } else {
            command.args(["--input-format", "stream-json"]);
        }
        command.args(["--output-format", "stream-json", "--verbose", "--include-hook-events"]);
        if !self.args.iter().any(|arg| arg == "--max-turns") {
            command.args(["--max-turns", DEFAULT_MAX_TURNS]);
        }
        command.args(&self.args);
        command
    }

    /// The same for a user at a terminal.
    pub(crate) fn interactive(&self, home: &Path, model: &ScriptedModel) -> Command {
        let mut command = self.client(home, model);
        command.args(["--permission-mode", "acceptEdits"]).args(&self.args);
        command
    }

    fn client(&self, home: &Path, model: &ScriptedModel) -> Command {
        let mut command = hermetic(&self.program, home);
        command
            .current_dir(&self.project)
            .env("ANTHROPIC_API_KEY", "dummy")
            .env("ANTHROPIC_BASE_URL", model.base_url())
            .envs(&self.env);
        command
    }
}

/// A user who waits for each result before the next prompt.
#[derive(Debug)]
struct ScriptedUser {
    left: VecDeque<String>,
    /// How many results there are once the last prompt has its own.
    awaited: usize,
}

impl ScriptedUser {
    fn new(prompts: impl IntoIterator<Item = String>) -> Self {
        Self { left: prompts.into_iter().collect(), awaited: 0 }
    }

    fn next(&mut self, printed: &[u8]) -> Words {
        let complete = &printed[..printed.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)];
        let results = rows(complete).iter().filter(|row| row["type"] == "result").count();
        if results < self.awaited {
            return Words::NotYet;
        }
        let Some(prompt) = self.left.pop_front() else { return Words::NoMore };
        self.awaited = results + 1;
        let message = json!({"type": "user", "message": {"role": "user", "content": prompt}});
        Words::Line(message.to_string())
    }
}

/// The client with a clean environment, and everything but the model switched off.
fn hermetic(program: &Path, home: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", PATH)
        .env("HOME", home)
        .env("LANG", "C.UTF-8")
        .env("TERM", "dumb")
        .envs(QUIET_CLAUDE);
    command
}

/// A line that is not JSON is kept as `{"unparsed": LINE}`: a failed test is usually about it.
fn rows(stdout: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(stdout);
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| serde_json::from_str(line).unwrap_or_else(|_| json!({"unparsed": line}))).collect()
}

/// The result of a client run.
#[derive(Debug)]
pub struct ClaudeOutput {
    /// `None` when it died by a signal.
    pub exit: Option<i32>,
    pub timed_out: bool,
    pub took: Duration,
    /// Its stream, one JSON object a line.
    pub rows: Vec<Value>,
    pub stderr: String,
}

impl ClaudeOutput {
    /// The last `result`: one run can have several, because the end of a background sub-agent starts a turn.
    pub fn result(&self) -> Option<&Value> {
        self.rows.iter().rev().find(|row| row["type"] == "result")
    }

    /// The text of each `result`, in order: one for every prompt, and one for every turn that started by itself.
    pub fn results(&self) -> Vec<&str> {
        let results = self.rows.iter().filter(|row| row["type"] == "result");
        results.map(|row| row["result"].as_str().unwrap_or_default()).collect()
    }

    /// The session's id, for a run that continues it with `--resume`.
    pub fn session(&self) -> Option<&str> {
        self.rows.iter().rev().find_map(|row| row["session_id"].as_str())
    }

    /// Whether `needle` is in any text of the stream, as text, not as escaped JSON.
    pub fn said(&self, needle: &str) -> bool {
        self.rows.iter().any(|row| any_text(row, &|text| text.contains(needle)))
    }

    /// The answers of the hooks of one event: `exit_code`, `stdout`, `stderr`, `outcome`.
    pub fn hook_responses(&self, event: &str) -> Vec<&Value> {
        let is_response = |row: &&Value| row["subtype"] == "hook_response" && row["hook_event"] == event;
        self.rows.iter().filter(is_response).collect()
    }

    /// The run in readable lines, for the message of a failed test.
    pub fn text_of_rows(&self) -> String {
        self.rows.iter().filter_map(line_of_row).collect::<Vec<_>>().join("\n")
    }
}

fn any_text(value: &Value, holds: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => holds(text),
        Value::Array(values) => values.iter().any(|value| any_text(value, holds)),
        Value::Object(fields) => fields.values().any(|value| any_text(value, holds)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn line_of_row(row: &Value) -> Option<String> {
    let (kind, subtype) = (row["type"].as_str().unwrap_or("?"), row["subtype"].as_str().unwrap_or(""));
    match (kind, subtype) {
        ("system", "init" | "hook_started") => None,
        ("system", "hook_response") => Some(format!(
            "hook {}: exit {} {} {}",
            row["hook_event"], row["exit_code"], row["stdout"], row["stderr"]
        )),
        ("assistant" | "user", _) => {
            let who = if row["parent_tool_use_id"].is_string() { "sub-agent " } else { "" };
            Some(format!("{who}{kind}: {}", row["message"]["content"]))
        }
        ("result", _) => Some(format!("result {subtype}: {} {}", row["terminal_reason"], row["result"])),
        _ => Some(row.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(stdout: &str) -> ClaudeOutput {
        let rows = rows(stdout.as_bytes());
        ClaudeOutput { exit: Some(0), timed_out: false, took: Duration::ZERO, rows, stderr: String::new() }
    }

    #[test]
    fn the_last_result_is_the_result() {
        let output =
            output("{\"type\":\"result\",\"result\":\"a\"}\n{\"type\":\"result\",\"result\":\"b\"}\n");
        assert_eq!(output.result().unwrap()["result"], "b");
    }

    #[test]
    fn the_user_waits_for_the_result_of_each_prompt() {
        let said = |words: Words| match words {
            Words::Line(line) => serde_json::from_str::<Value>(&line).unwrap()["message"]["content"].clone(),
            Words::NotYet => json!("waits"),
            Words::NoMore => json!("goes"),
        };
        let mut user = ScriptedUser::new(["a".into(), "b".into()]);
        let result = "{\"type\":\"result\"}\n";
        let steps = [
            ("", "a"),
            ("", "waits"),
            (&result[..9], "waits"),
            (result, "b"),
            (result, "waits"),
            (&result.repeat(2), "goes"),
        ];
        for (printed, does) in steps {
            assert_eq!(said(user.next(printed.as_bytes())), does, "{printed:?}");
        }
    }

    #[test]
    fn text_is_found_at_any_depth_of_the_stream() {
        let output = output(r#"{"type":"user","message":{"content":[{"text":"say \"yes\"\nnow"}]}}"#);
        assert!(output.said("say \"yes\"\nnow"));
        assert!(!output.said("content"), "a key is not a thing said");
    }

    #[test]
    fn a_line_that_is_not_json_is_kept() {
        let output = output("oops\n\n{}\n");
        assert_eq!(output.rows, [json!({"unparsed": "oops"}), json!({})]);
    }

    #[test]
    fn hook_responses_are_those_of_the_event() {
        let output = output(
            "{\"subtype\":\"hook_response\",\"hook_event\":\"Stop\",\"exit_code\":2}\n\
             {\"subtype\":\"hook_response\",\"hook_event\":\"SessionStart\"}\n\
             {\"subtype\":\"hook_started\",\"hook_event\":\"Stop\"}\n",
        );
        assert_eq!(output.hook_responses("Stop").len(), 1);
        assert_eq!(output.hook_responses("Stop")[0]["exit_code"], 2);
    }
}
