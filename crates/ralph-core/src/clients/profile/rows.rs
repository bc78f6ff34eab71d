//! The built-in profiles, a row each. Flags as the clients' real runs showed them; where only documentation was read, the
//! row's note says so.

use super::{Argument, DEFAULT_ITERATIONS, Profile, PromptBy, Resume, Value};
use crate::clients::stream::Dialect;

/// Every built-in profile, the default one first.
pub fn built_in() -> Vec<Profile> {
    vec![claude(), glm5(), minimax(), codex(), gemini(), copilot(), opencode(), amp()]
}

/// Twice as many as for the default agent.
const MORE_ITERATIONS: u32 = 2 * DEFAULT_ITERATIONS;

const NOT_TRIED: &str = "not tried against the service";

fn claude() -> Profile {
    Profile {
        name: "claude".into(),
        program: "claude".into(),
        // `--allowedTools` takes every argument up to the next flag, so it comes last.
        arguments: with_places(
            &["-p", "--output-format", "stream-json", "--verbose", "--permission-mode", "acceptEdits"],
            &[Argument::Session, Argument::Model, Argument::Budget, Argument::ClaudeRules],
        ),
        prompt: PromptBy::Stdin,
        dialect: Dialect::Claude,
        environment: Vec::new(),
        max_iterations: DEFAULT_ITERATIONS,
        resume: resume(&["--resume", "{session}"]),
        cost_flag: Some("--max-budget-usd".into()),
        model_flag: Some("--model".into()),
        model: None,
        may: "edit files in the project and run the gates' own commands; what else is allowed is in your `allow:` list"
            .into(),
        how_to_get: "npm install -g @anthropic-ai/claude-code".into(),
        note: None,
    }
}

/// Claude Code that talks to another service. The key of the person's own account never goes there.
fn claude_at(name: &str, address: &str, key: &str, model: &str, small_model: &str) -> Profile {
    let literal = |text: &str| Value::Literal(text.to_owned());
    let environment = [
        ("ANTHROPIC_BASE_URL", literal(address)),
        ("ANTHROPIC_AUTH_TOKEN", Value::From(key.to_owned())),
        ("ANTHROPIC_API_KEY", Value::Unset),
        ("CLAUDE_CODE_OAUTH_TOKEN", Value::Unset),
        ("ANTHROPIC_DEFAULT_OPUS_MODEL", literal(model)),
        ("ANTHROPIC_DEFAULT_SONNET_MODEL", literal(model)),
        ("ANTHROPIC_DEFAULT_HAIKU_MODEL", literal(small_model)),
    ];
    Profile {
        name: name.into(),
        environment: environment.map(|(variable, value)| (variable.to_owned(), value)).into(),
        max_iterations: MORE_ITERATIONS,
        note: Some(format!("{NOT_TRIED}; the price that the client shows is not this service's")),
        ..claude()
    }
}

fn glm5() -> Profile {
    claude_at("glm5", "https://api.z.ai/api/anthropic", "ZAI_API_KEY", "glm-5", "glm-4.5-air")
}

fn minimax() -> Profile {
    claude_at(
        "minimax",
        "https://api.minimax.io/anthropic",
        "MINIMAX_API_KEY",
        "MiniMax-M2.1",
        "MiniMax-M2.1",
    )
}

fn codex() -> Profile {
    Profile {
        name: "codex".into(),
        program: "codex".into(),
        arguments: with_places(
            &["exec", "--json", "--skip-git-repo-check", "-s", "workspace-write"],
            // A lone dash: the prompt is what stdin says.
            &[Argument::Model, Argument::Session, Argument::Literal("-".into())],
        ),
        prompt: PromptBy::Stdin,
        dialect: Dialect::Codex,
        environment: Vec::new(),
        max_iterations: DEFAULT_ITERATIONS,
        resume: resume(&["resume", "{session}"]),
        cost_flag: None,
        model_flag: Some("-m".into()),
        model: None,
        may: "edit files in the project and run any command in the client's own sandbox".into(),
        how_to_get: "npm install -g @openai/codex".into(),
        note: None,
    }
}

fn gemini() -> Profile {
    Profile {
        name: "gemini".into(),
        program: "gemini".into(),
        // In a folder that it was never asked about it refuses to run without a person; that this one is trusted, the
        // person has told us.
        arguments: with_places(
            &["-o", "stream-json", "-y", "--skip-trust"],
            &[Argument::Model, Argument::Session],
        ),
        prompt: PromptBy::Stdin,
        dialect: Dialect::Gemini,
        environment: Vec::new(),
        max_iterations: DEFAULT_ITERATIONS,
        resume: resume(&["--resume", "{session}"]),
        cost_flag: None,
        model_flag: Some("-m".into()),
        model: None,
        may: "everything the client can do (`-y`), in a folder that it takes as trusted (`--skip-trust`)"
            .into(),
        how_to_get: "npm install -g @google/gemini-cli".into(),
        note: None,
    }
}

fn copilot() -> Profile {
    Profile {
        name: "copilot".into(),
        program: "copilot".into(),
        arguments: with_places(
            &["--output-format", "json", "--allow-all", "--no-ask-user"],
            &[Argument::Model, Argument::Session],
        ),
        prompt: PromptBy::Stdin,
        dialect: Dialect::Copilot,
        environment: Vec::new(),
        max_iterations: DEFAULT_ITERATIONS,
        resume: resume(&["--resume={session}"]),
        cost_flag: None,
        model_flag: Some("--model".into()),
        model: None,
        may: "everything the client can do (`--allow-all`)".into(),
        how_to_get: "npm install -g @github/copilot".into(),
        note: None,
    }
}

fn opencode() -> Profile {
    Profile {
        name: "opencode".into(),
        program: "opencode".into(),
        arguments: with_places(&["run", "--format", "json", "--auto"], &[Argument::Model, Argument::Session]),
        prompt: PromptBy::Stdin,
        dialect: Dialect::OpenCode,
        environment: Vec::new(),
        max_iterations: DEFAULT_ITERATIONS,
        resume: resume(&["-s", "{session}"]),
        cost_flag: None,
        model_flag: Some("-m".into()),
        model: None,
        may: "everything the client can do (`--auto`)".into(),
        how_to_get: "npm install -g opencode-ai".into(),
        note: None,
    }
}

fn amp() -> Profile {
    Profile {
        name: "amp".into(),
        program: "amp".into(),
        arguments: with_places(&["--stream-json", "-x"], &[Argument::Prompt]),
        prompt: PromptBy::NamedFile,
        dialect: Dialect::Claude,
        environment: Vec::new(),
        max_iterations: DEFAULT_ITERATIONS,
        resume: None,
        cost_flag: None,
        model_flag: None,
        model: None,
        may: "what its own settings allow".into(),
        how_to_get: "npm install -g @sourcegraph/amp".into(),
        note: Some("read from its documentation, not tried".into()),
    }
}

fn with_places(literals: &[&str], places: &[Argument]) -> Vec<Argument> {
    let literals = literals.iter().map(|text| Argument::Literal((*text).to_owned()));
    literals.chain(places.iter().cloned()).collect()
}

#[expect(clippy::unnecessary_wraps, reason = "it stands beside rows that have none")]
fn resume(arguments: &[&str]) -> Option<Resume> {
    Some(Resume(arguments.iter().map(|text| (*text).to_owned()).collect()))
}
