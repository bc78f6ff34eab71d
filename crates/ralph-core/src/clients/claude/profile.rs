//! How the driver runs Claude Code, also with other services.

use crate::clients::profile::{Argument, DEFAULT_ITERATIONS, Profile, Value, resume, with_places};
use crate::clients::stream::dialect::Dialect;

/// Twice as many as for the default agent.
const MORE_ITERATIONS: u32 = 2 * DEFAULT_ITERATIONS;

const NOT_TESTED: &str = "not tested against the service";

pub(crate) const NAME: &str = "claude";

pub(crate) fn claude() -> Profile {
    Profile {
        // `--allowedTools` takes every argument up to the next flag, so it comes last.
        arguments: with_places(
            &["-p", "--output-format", "stream-json", "--verbose", "--permission-mode", "acceptEdits"],
            &[Argument::Session, Argument::Model, Argument::Budget, Argument::AllowedTools],
        ),
        resume: resume(&["--resume", "{session}"]),
        cost_flag: Some("--max-budget-usd".into()),
        model_flag: Some("--model".into()),
        may: "edit files in the project and run the gates' own commands; your `allow:` list adds more".into(),
        how_to_get: "npm install -g @anthropic-ai/claude-code".into(),
        ..Profile::of_client(NAME, Dialect::Claude)
    }
}

/// Claude Code with another service, which never gets the key of the user's own account.
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
        note: Some(format!("{NOT_TESTED}; the price that the client shows is not this service's")),
        ..claude()
    }
}

pub(crate) fn glm5() -> Profile {
    claude_at("glm5", "https://api.z.ai/api/anthropic", "ZAI_API_KEY", "glm-5", "glm-4.5-air")
}

pub(crate) fn minimax() -> Profile {
    claude_at(
        "minimax",
        "https://api.minimax.io/anthropic",
        "MINIMAX_API_KEY",
        "MiniMax-M2.1",
        "MiniMax-M2.1",
    )
}
