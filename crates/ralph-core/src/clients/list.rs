//! The list of all agent clients.

use crate::clients::claude::{self, permission_rules};
use crate::clients::profile::Profile;
use crate::clients::stream::dialect::Dialect;
use crate::clients::stream::{ReadLines, StreamReader};
use crate::clients::{amp, codex, copilot, gemini, opencode, plain};
use crate::model::config_problem::did_you_mean;
use crate::model::gate::Gate;
use crate::model::money::Micros;

/// The default agent.
pub const DEFAULT: &str = claude::profile::NAME;

/// Every built-in profile, the default one first.
pub fn built_in() -> Vec<Profile> {
    vec![
        claude::profile::claude(),
        claude::profile::glm5(),
        claude::profile::minimax(),
        codex::profile(),
        gemini::profile(),
        copilot::profile(),
        opencode::profile(),
        amp::profile(),
    ]
}

/// Reads one run's output. Some clients report the running cost of a continued session.
pub fn stream_reader(dialect: Dialect, cost_before: Micros) -> StreamReader {
    StreamReader::of(line_reader(dialect, cost_before))
}

fn line_reader(dialect: Dialect, cost_before: Micros) -> Box<dyn ReadLines> {
    match dialect {
        Dialect::Claude => Box::new(claude::stream::ClaudeReader::new(cost_before)),
        Dialect::Codex => Box::<codex::CodexReader>::default(),
        Dialect::Gemini => Box::<gemini::GeminiReader>::default(),
        Dialect::Copilot => Box::<copilot::CopilotReader>::default(),
        Dialect::OpenCode => Box::<opencode::OpenCodeReader>::default(),
        Dialect::Plain => Box::new(plain::PlainReader),
    }
}

/// Permission rules for clients that take some: the gates' commands and the user's `allow:` rules.
pub fn allowed_tools(gates: &[Gate], allow: &[String]) -> Vec<String> {
    permission_rules::rules(gates, allow)
}

/// What an agent needs to commit its work.
pub const COMMITS: &[&str] =
    &["Bash(git status:*)", "Bash(git diff:*)", "Bash(git add:*)", "Bash(git commit:*)"];

/// The prefix of a command used instead of a profile.
const COMMAND: &str = "command:";

/// No agent has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown agent `{name}`")]
pub struct NoSuchAgent {
    pub name: String,
    pub hint: String,
}

/// Finds a profile by name: the user's own, a built-in one, or `command:` and a shell command.
pub fn find(name: &str, own: &[Profile]) -> Result<Profile, NoSuchAgent> {
    if let Some(command) = name.strip_prefix(COMMAND) {
        return of_shell(name, command.trim());
    }
    let mut all = own.to_vec();
    all.extend(built_in());
    let names: Vec<String> = all.iter().map(|profile| profile.name.clone()).collect();
    all.into_iter().find(|profile| profile.name == name).ok_or_else(|| NoSuchAgent {
        name: name.to_owned(),
        hint: did_you_mean(
            name,
            names.iter().map(String::as_str),
            &format!("{}, or `command:` with any program that reads a prompt on stdin", names.join(", ")),
        ),
    })
}

fn of_shell(name: &str, command: &str) -> Result<Profile, NoSuchAgent> {
    if command.is_empty() {
        let hint = "add the command: `command:./agent.sh`".to_owned();
        return Err(NoSuchAgent { name: name.to_owned(), hint });
    }
    let arguments = ["-c".to_owned(), command.to_owned()];
    Ok(Profile::of_command(name, "sh", arguments, Dialect::Plain, None))
}

#[cfg(test)]
mod tests;
