//! The driver's agents as data: program, prompt passing, permissions and output format. Only [`command_line`] builds a
//! client's arguments.
//!
//! A prompt is never part of a command line: the program reads it on stdin or from a file, so its length and characters
//! do not matter.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::clients::stream::dialect::Dialect;
use crate::clients::stream::is_session_id;
use crate::model::id::SessionId;
use crate::model::money::Micros;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    pub name: String,
    pub program: String,
    pub arguments: Vec<Argument>,
    pub prompt: PromptBy,
    pub dialect: Dialect,
    pub environment: Vec<(String, Value)>,
    pub max_iterations: u32,
    /// How a session is continued; none if every run starts afresh.
    pub resume: Option<Resume>,
    /// The client's own limit in dollars.
    pub cost_flag: Option<String>,
    pub model_flag: Option<String>,
    /// The default model; none means the client's own.
    pub model: Option<String>,
    /// The agent's permissions in words, for the plan shown to the user.
    pub may: String,
    /// How to install the program.
    pub how_to_get: String,
    /// A caveat for the user.
    pub note: Option<String>,
}

/// One part of the command line, omitted if this run has no value for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Argument {
    Literal(String),
    /// The sentence that refers to the prompt file.
    Prompt,
    /// Permissions as rules of the client.
    AllowedTools,
    /// How the session is continued.
    Session,
    Model,
    Budget,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptBy {
    /// The program reads it on stdin.
    Stdin,
    /// An argument refers to the file.
    NamedFile,
}

/// The value of a variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    Literal(String),
    /// The value of another variable, which is required.
    From(String),
    /// Removed, so that it does not leak to another service.
    Unset,
}

/// The arguments that continue a session; `{session}` is replaced by its id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume(pub Vec<String>);

/// The parameters of one run.
#[derive(Clone, Debug)]
pub struct RunOptions<'a> {
    pub prompt_file: &'a Path,
    /// Permissions as rules of the client.
    pub allowed: Vec<String>,
    pub context: Context,
    pub budget_left: Option<Micros>,
    pub model: Option<&'a str>,
}

/// The agent's context at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Context {
    Fresh,
    /// The session of the last run, if the client can continue it.
    Continue(SessionId),
}

/// One program invocation, to be started without a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    pub program: String,
    pub arguments: Vec<String>,
    pub environment: Vec<(String, Value)>,
    /// The file for stdin; none means empty input, not the terminal.
    pub stdin: Option<PathBuf>,
}

pub fn command_line(profile: &Profile, wish: &RunOptions<'_>) -> CommandLine {
    let arguments = profile.arguments.iter().flat_map(|place| fill(place, profile, wish)).collect();
    CommandLine {
        program: profile.program.clone(),
        arguments,
        environment: profile.environment.clone(),
        stdin: (profile.prompt == PromptBy::Stdin).then(|| wish.prompt_file.to_owned()),
    }
}

fn fill(place: &Argument, profile: &Profile, wish: &RunOptions<'_>) -> Vec<String> {
    let flag = |flag: &Option<String>, value: Option<String>| match (flag, value) {
        (Some(flag), Some(value)) => vec![flag.clone(), value],
        _ => Vec::new(),
    };
    match place {
        Argument::Literal(text) => vec![text.clone()],
        Argument::Prompt => {
            vec![format!("Read the file {} and do what it says.", wish.prompt_file.display())]
        }
        Argument::AllowedTools => {
            let flag = (!wish.allowed.is_empty()).then(|| "--allowedTools".to_owned());
            flag.into_iter().chain(wish.allowed.iter().cloned()).collect()
        }
        Argument::Session => session(profile, &wish.context),
        Argument::Model => {
            flag(&profile.model_flag, wish.model.or(profile.model.as_deref()).map(str::to_owned))
        }
        Argument::Budget => flag(&profile.cost_flag, wish.budget_left.map(Micros::in_dollars)),
    }
}

fn session(profile: &Profile, context: &Context) -> Vec<String> {
    match (&profile.resume, context) {
        (Some(Resume(arguments)), Context::Continue(id)) if is_session_id(id.as_str()) => {
            arguments.iter().map(|argument| argument.replace("{session}", id.as_str())).collect()
        }
        _ => Vec::new(),
    }
}

pub(crate) const DEFAULT_ITERATIONS: u32 = 15;

impl Profile {
    /// A client's profile with defaults for everything else.
    pub(crate) fn of_client(name: &str, dialect: Dialect) -> Self {
        Self { how_to_get: String::new(), ..Self::of_command(name, name, [], dialect, None) }
    }

    /// Any program that reads a prompt on stdin and prints text.
    pub fn of_command(
        name: &str,
        program: &str,
        arguments: impl IntoIterator<Item = String>,
        dialect: Dialect,
        max_iterations: Option<u32>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            program: program.to_owned(),
            arguments: arguments.into_iter().map(Argument::Literal).collect(),
            prompt: PromptBy::Stdin,
            dialect,
            environment: Vec::new(),
            max_iterations: max_iterations.unwrap_or(DEFAULT_ITERATIONS),
            resume: None,
            cost_flag: None,
            model_flag: None,
            model: None,
            may: "whatever the command does".into(),
            how_to_get: format!("`{program}` is the command you gave; it must exist and be executable"),
            note: None,
        }
    }

    /// The command for display, without the arguments of a single run.
    pub fn command(&self) -> String {
        let fixed = self.arguments.iter().filter_map(|argument| match argument {
            Argument::Literal(text) => Some(text.as_str()),
            _ => None,
        });
        std::iter::once(self.program.as_str()).chain(fixed).map(quoted).collect::<Vec<_>>().join(" ")
    }

    /// The required variables, checked before anything is started.
    pub fn needs(&self) -> impl Iterator<Item = &str> {
        self.environment.iter().filter_map(|(_, value)| match value {
            Value::From(variable) => Some(variable.as_str()),
            Value::Literal(_) | Value::Unset => None,
        })
    }
}

/// Quotes a word for display like a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    match word {
        "" => "''".to_owned(),
        word if word.chars().all(is_plain) => word.to_owned(),
        word => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

pub(crate) fn with_places(literals: &[&str], places: &[Argument]) -> Vec<Argument> {
    let literals = literals.iter().map(|text| Argument::Literal((*text).to_owned()));
    literals.chain(places.iter().cloned()).collect()
}

#[expect(clippy::unnecessary_wraps, reason = "other profiles have none")]
pub(crate) fn resume(arguments: &[&str]) -> Option<Resume> {
    Some(Resume(arguments.iter().map(|text| (*text).to_owned()).collect()))
}

/// A rule begins with a tool's name, so it cannot be mistaken for a flag.
pub(crate) fn is_rule(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
}
