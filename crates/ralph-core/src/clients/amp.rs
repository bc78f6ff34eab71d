//! Amp, whose output format is Claude Code's.

use crate::clients::profile::{Argument, Profile, PromptBy, with_places};
use crate::clients::stream::dialect::Dialect;

/// How the driver runs it.
pub(crate) fn profile() -> Profile {
    Profile {
        arguments: with_places(&["--stream-json", "-x"], &[Argument::Prompt]),
        prompt: PromptBy::NamedFile,
        may: "what its own settings allow".into(),
        how_to_get: "npm install -g @sourcegraph/amp".into(),
        note: Some("taken from its documentation, not tested".into()),
        ..Profile::of_client("amp", Dialect::Claude)
    }
}
