//! The agents that the driver can run, as data: a profile says which program it is, how the prompt reaches it, what it may
//! do and how its output reads. [`command_line`] makes one run of it, and nothing else knows a client's flags.
//!
//! A prompt is never part of a command line: it is a file that the program reads on stdin, or that one short sentence
//! names. So no length, quote or line end in it can matter.

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
    /// How a session is gone on with; none: every run begins anew.
    pub resume: Option<Resume>,
    /// The client's own limit in dollars.
    pub cost_flag: Option<String>,
    pub model_flag: Option<String>,
    /// The model where the person asks for none; none: the client's own settings say.
    pub model: Option<String>,
    /// What the agent may do without anybody being asked, for the plan that a person sees.
    pub may: String,
    /// What a person can do who does not have the program.
    pub how_to_get: String,
    /// What a person should know before relying on it.
    pub note: Option<String>,
}

/// One place on the command line. A place that this run has nothing for is left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Argument {
    Literal(String),
    /// The sentence that names the prompt's file.
    Prompt,
    /// What the agent may do without being asked, in the client's own rules.
    AllowedTools,
    /// How the session is gone on with.
    Session,
    Model,
    Budget,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptBy {
    /// The program reads it on stdin.
    Stdin,
    /// One short argument names the file.
    NamedFile,
}

/// What a variable is set to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    Literal(String),
    /// What another variable holds. Without it nothing runs.
    From(String),
    /// Taken away, so that it reaches nobody it was not meant for.
    Unset,
}

/// The arguments that go on with a session; `{session}` stands for its id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume(pub Vec<String>);

/// What one run is to be.
#[derive(Clone, Debug)]
pub struct RunWish<'a> {
    pub prompt_file: &'a Path,
    /// What the agent may do without being asked, in the client's own rules.
    pub allowed: Vec<String>,
    pub context: Context,
    pub budget_left: Option<Micros>,
    pub model: Option<&'a str>,
}

/// What the agent remembers when it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Context {
    Fresh,
    /// The session of the last run, where the client can go on with one.
    Continue(SessionId),
}

/// One run of a program, ready to be started without a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    pub program: String,
    pub arguments: Vec<String>,
    pub environment: Vec<(String, Value)>,
    /// The file that it reads; none: nothing, which is not the same as the terminal.
    pub stdin: Option<PathBuf>,
}

pub fn command_line(profile: &Profile, wish: &RunWish<'_>) -> CommandLine {
    let arguments = profile.arguments.iter().flat_map(|place| fill(place, profile, wish)).collect();
    CommandLine {
        program: profile.program.clone(),
        arguments,
        environment: profile.environment.clone(),
        stdin: (profile.prompt == PromptBy::Stdin).then(|| wish.prompt_file.to_owned()),
    }
}

fn fill(place: &Argument, profile: &Profile, wish: &RunWish<'_>) -> Vec<String> {
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
    /// A client by its name, with the default of everything: no flag, no variable, no note.
    pub(crate) fn of_client(name: &str, dialect: Dialect) -> Self {
        Self { how_to_get: String::new(), ..Self::of_command(name, name, [], dialect, None) }
    }

    /// Any program that reads a prompt on stdin and prints what it has to say.
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
            how_to_get: format!(
                "`{program}` is the command that was given; it has to be there and executable"
            ),
            note: None,
        }
    }

    /// What is run, for people to read; what each run adds is left out.
    pub fn command(&self) -> String {
        let fixed = self.arguments.iter().filter_map(|argument| match argument {
            Argument::Literal(text) => Some(text.as_str()),
            _ => None,
        });
        std::iter::once(self.program.as_str()).chain(fixed).map(quoted).collect::<Vec<_>>().join(" ")
    }

    /// The variables without which it cannot run, for an error before anything is started.
    pub fn needs(&self) -> impl Iterator<Item = &str> {
        self.environment.iter().filter_map(|(_, value)| match value {
            Value::From(variable) => Some(variable.as_str()),
            Value::Literal(_) | Value::Unset => None,
        })
    }
}

/// A word as a shell would take it, so that nobody mistakes where it ends.
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

#[expect(clippy::unnecessary_wraps, reason = "it stands beside rows that have none")]
pub(crate) fn resume(arguments: &[&str]) -> Option<Resume> {
    Some(Resume(arguments.iter().map(|text| (*text).to_owned()).collect()))
}

/// A rule begins with a tool's name, so that none is taken for a flag.
pub(crate) fn is_rule(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
}
