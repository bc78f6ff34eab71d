//! Amp, which prints what Claude Code prints.

use crate::clients::profile::{Argument, DEFAULT_ITERATIONS, Profile, PromptBy, with_places};
use crate::clients::stream::dialect::Dialect;

/// How the driver calls it.
pub(crate) fn profile() -> Profile {
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
