//! The result of a finished command.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The exit code and the text on both streams.
#[derive(Debug)]
pub struct Finished {
    /// None if a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Runs the command to its end with this stdin.
    #[track_caller]
    pub fn run(command: &mut Command, input: &[u8]) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("a program that starts");
        // The command may end before it has read everything.
        let _not_read = child.stdin.take().expect("a pipe").write_all(input);
        Self::of(child.wait_with_output().expect("an end"))
    }

    /// As a hook: it blocked, or it allowed the stop and reported that nothing was verified.
    pub fn blocks_or_says_unverified(&self) -> bool {
        let answer: Value = serde_json::from_str(&self.stdout).unwrap_or_default();
        let message = answer["systemMessage"].as_str().unwrap_or_default();
        self.code == Some(0) && (answer["decision"] == "block" || message.contains("UNVERIFIED"))
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

    /// Stdout as one JSON value.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// Asserts that one of the streams contains the text.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert!(self.stdout.contains(text) || self.stderr.contains(text), "not said: {text}\n{self:#?}");
        self
    }
}
