//! One event of the client, sent to the real hook, and the hook's answer.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::finished::Finished;
use crate::sandbox::Sandbox;

/// An event of the client before it is sent to the hook.
#[derive(Debug)]
pub struct ClientEvent<'a> {
    pub(crate) sandbox: &'a Sandbox,
    pub(crate) input: Value,
    pub(crate) arguments: Vec<String>,
    /// None if the stand-in client of the sandbox sends it.
    pub(crate) client: Option<u32>,
}

impl ClientEvent<'_> {
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

    pub fn deadline(self, time: &str) -> Self {
        self.option("--deadline", time)
    }

    pub fn option(mut self, name: &str, value: &str) -> Self {
        self.arguments.extend([name.into(), value.into()]);
        self
    }

    /// Another process is the client that sends it.
    pub fn from_client(mut self, process: u32) -> Self {
        self.client = Some(process);
        self
    }

    /// The input as it is written to stdin.
    pub fn text(&self) -> String {
        self.input.to_string()
    }

    fn command(&self) -> Command {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let mut command = self.sandbox.command(&arguments);
        if let Some(process) = self.client {
            command.env("CLAUDE_PID", process.to_string());
        }
        command
    }

    /// The child process with the input written and stdin closed. It is our own child, so that it can be signalled and
    /// waited for; the stand-in client is only named in its environment.
    pub fn spawn(&self) -> Child {
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
    pub fn answer(&self) -> HookAnswer {
        self.answer_of(&self.command())
    }

    /// The same from a client that does not name its process.
    pub fn answer_without_client_pid(&self) -> HookAnswer {
        let mut command = self.command();
        command.env_remove("CLAUDE_PID");
        self.answer_of(&command)
    }

    fn answer_of(&self, command: &Command) -> HookAnswer {
        let begun = Instant::now();
        let output = self.sandbox.client().output(command, self.text().as_bytes());
        HookAnswer { ran: Finished::of(output), took: begun.elapsed() }
    }
}

/// The answer of the hook.
#[derive(Debug)]
pub struct HookAnswer {
    pub ran: Finished,
    pub took: Duration,
}

impl HookAnswer {
    /// Asserts that the stop was blocked; returns the reason and the detail.
    #[track_caller]
    pub fn blocked(&self) -> (String, String) {
        assert_eq!(self.ran.code, Some(0), "{self:#?}");
        let value = self.ran.json();
        assert_eq!(value["decision"], "block", "{self:#?}");
        let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{self:#?}")).to_owned();
        (text(&value["reason"]), text(&value["hookSpecificOutput"]["additionalContext"]))
    }

    /// Asserts that the stop was allowed; returns the message to the user, if there is one.
    #[track_caller]
    pub fn allowed(&self) -> Option<String> {
        assert_eq!(self.ran.code, Some(0), "{self:#?}");
        if self.ran.stdout.is_empty() {
            return None;
        }
        let value = self.ran.json();
        assert!(value.get("decision").is_none(), "{self:#?}");
        value["systemMessage"].as_str().map(str::to_owned)
    }

    /// Asserts that the stop was allowed without any output.
    #[track_caller]
    pub fn silent(&self) {
        assert_eq!(
            (self.ran.code, self.ran.stdout.as_str(), self.ran.stderr.as_str()),
            (Some(0), "", ""),
            "{self:#?}"
        );
    }

    /// Asserts that the prompt was answered without the model; returns the answer.
    #[track_caller]
    pub fn answered(&self) -> String {
        let value = self.ran.json();
        assert_eq!(value["continue"], false, "{self:#?}");
        value["stopReason"].as_str().unwrap_or_else(|| panic!("{self:#?}")).to_owned()
    }

    /// Asserts that the prompt reached the model; returns the message to the user.
    #[track_caller]
    pub fn notice(&self) -> String {
        self.allowed().unwrap_or_else(|| panic!("no message: {self:#?}"))
    }

    /// Everything the user reads, in whichever field it is.
    #[track_caller]
    pub fn shown_to_user(&self) -> String {
        if self.ran.stdout.is_empty() {
            return String::new();
        }
        let value = self.ran.json();
        let texts = [&value["systemMessage"], &value["stopReason"], &value["reason"]];
        texts.into_iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
    }

    /// What the agent reads.
    #[track_caller]
    pub fn context(&self) -> String {
        self.ran.json()["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_default().to_owned()
    }
}
