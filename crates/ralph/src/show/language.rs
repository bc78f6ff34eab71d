//! The language in which the person reads about loops.

use ralph_core::ledger::state::State;
use ralph_core::model::finding::TasksSeen;
use ralph_core::model::language::Lang;
use ralph_core::say::telling::Telling;

use crate::sys::env;

/// The language of whoever reads: `RALPH_LANG`, then the system's.
pub(crate) fn of_person() -> Lang {
    let (own, system) = env::languages();
    Lang::pick(None, own.as_deref(), system.as_deref())
}

/// The language of a loop: what was asked for when it started, else that of whoever reads.
pub(crate) fn of_loop(state: &State) -> Lang {
    state.goal.as_ref().and_then(|goal| goal.lang).unwrap_or_else(of_person)
}

/// What there is to tell of a loop now.
pub(crate) fn telling<'a>(state: &'a State, tasks: Option<&'a TasksSeen>) -> Telling<'a> {
    Telling { state, tasks, lang: of_loop(state) }
}

/// A loop at a glance, for a person who asks.
pub(crate) fn status(state: &State, tasks: Option<&TasksSeen>) -> String {
    let lines = telling(state, tasks).rows();
    lines.into_iter().map(|(label, text)| format!("{label}: {text}")).collect::<Vec<_>>().join("\n")
}
