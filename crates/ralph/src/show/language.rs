//! The language of messages to the user.

use ralph_core::ledger::state::State;
use ralph_core::model::finding::TasksSeen;
use ralph_core::model::language::Lang;
use ralph_core::say::loop_texts::LoopTexts;

use crate::sys::env;

/// The user's language: `RALPH_LANG`, then the system's.
pub(crate) fn of_user() -> Lang {
    let (own, system) = env::languages();
    Lang::pick(None, own.as_deref(), system.as_deref())
}

/// The language of a loop: as requested at its start, else the user's.
pub(crate) fn of_loop(state: &State) -> Lang {
    state.goal.as_ref().and_then(|goal| goal.lang).unwrap_or_else(of_user)
}

/// The texts about the current state of a loop.
pub(crate) fn texts<'a>(state: &'a State, tasks: Option<&'a TasksSeen>) -> LoopTexts<'a> {
    LoopTexts { state, tasks, lang: of_loop(state) }
}

/// A short status of a loop.
pub(crate) fn status(state: &State, tasks: Option<&TasksSeen>) -> String {
    let lines = texts(state, tasks).rows();
    lines.into_iter().map(|(label, text)| format!("{label}: {text}")).collect::<Vec<_>>().join("\n")
}
