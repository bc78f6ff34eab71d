//! Which loop a user means by a word: an id, the beginning of one, or words of its task.

use crate::ledger::state::{State, Status};
use crate::model::id::LoopId;
use crate::model::short_id::ShortId;

/// The loops that a word names, in the order given: the one with exactly this id, else those whose id or short id begins
/// with it.
pub fn named<'a>(loops: &'a [LoopId], word: &str) -> Vec<&'a LoopId> {
    if word.is_empty() {
        return Vec::new();
    }
    if let Some(exact) = loops.iter().find(|id| id.as_str() == word) {
        return vec![exact];
    }
    let fits = |id: &&LoopId| id.as_str().starts_with(word) || ShortId::of(id).starts_with(word);
    loops.iter().filter(fits).collect()
}

/// Whether a loop's task contains each of these words, in any case and order.
pub fn has_words(state: &State, words: &str) -> bool {
    let Some(task) = task(state) else { return false };
    let task = task.to_lowercase();
    let mut words = words.split_whitespace().map(str::to_lowercase).peekable();
    words.peek().is_some() && words.all(|word| task.contains(&word))
}

/// The task in the words of the user.
pub fn task(state: &State) -> Option<&str> {
    state.goal.as_ref().map(|goal| goal.task.as_str()).or(state.task.as_deref())
}

/// What to do when several loops fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ambiguity {
    /// For commands that only show something: the newest running one.
    TakeNewest,
    /// For commands that change a loop: only if a single one is open.
    TakeOnlyOpen,
}

/// The one to take of several, which are given newest first; none if the user has to choose.
pub fn choose<'a>(fitting: &[(&'a LoopId, &State)], ambiguity: Ambiguity) -> Option<&'a LoopId> {
    if let [(only, _)] = fitting {
        return Some(only);
    }
    let mut open = fitting.iter().filter(|(_, state)| state.is_open());
    match ambiguity {
        Ambiguity::TakeOnlyOpen => open.next().filter(|_| open.next().is_none()).map(|(id, _)| *id),
        Ambiguity::TakeNewest => {
            let running = fitting.iter().find(|(_, state)| state.status == Status::Running);
            running.or_else(|| open.next()).map(|(id, _)| *id)
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::ledger::event::PauseCause;
    use crate::model::goal::Goal;
    use crate::model::verdict::Verdict;

    fn ids(names: &[&str]) -> Vec<LoopId> {
        names.iter().map(|name| LoopId::new(*name)).collect()
    }

    #[test]
    fn a_loop_is_named_by_its_id_its_short_id_or_the_beginning_of_one() {
        let loops = ids(&["verify-by-agent", "verify", "fix-the-tests-0123456789ab", "fix-the-docs-0123"]);
        let short = ShortId::of(&loops[2]).to_string();
        let table: [(&str, &[usize]); 8] = [
            ("verify", &[1]),
            ("verify-", &[0]),
            ("fix-the", &[2, 3]),
            ("fix-the-t", &[2]),
            (&short, &[2]),
            (&short[..3], &[2]),
            ("nothing", &[]),
            ("", &[]),
        ];
        for (word, expected) in table {
            let expected: Vec<&LoopId> = expected.iter().map(|index| &loops[*index]).collect();
            assert_eq!(named(&loops, word), expected, "{word}");
        }
    }

    fn state(status: Status) -> State {
        let task = "Fix the Login tests".to_owned();
        let goal = Goal::new(task);
        State { status, goal: Some(goal), ..State::default() }
    }

    #[test]
    fn words_of_the_task_fit_in_any_case_and_order() {
        let state = state(Status::Running);
        for (words, fits) in
            [("login", true), ("tests LOGIN", true), ("log", true), ("logout", false), (" ", false)]
        {
            assert_eq!(has_words(&state, words), fits, "{words}");
        }
        assert!(!has_words(&State::default(), "login"));
    }

    #[test]
    fn of_several_the_newest_running_one_is_shown_and_only_a_single_open_one_is_changed() {
        let paused = || state(Status::Paused { why: PauseCause::Word, since: Timestamp::UNIX_EPOCH });
        let ended = || state(Status::Ended { verdict: Verdict::Verified });
        let running = || state(Status::Running);
        let loops = ids(&["a", "b", "c"]);
        let table = [
            (vec![ended()], Some(0), Some(0)),
            (vec![ended(), ended()], None, None),
            (vec![ended(), running()], Some(1), Some(1)),
            (vec![paused(), running()], Some(1), None),
            (vec![paused(), ended(), paused()], Some(0), None),
            (vec![running(), running(), ended()], Some(0), None),
        ];
        for (states, shown, changed) in table {
            let fitting: Vec<(&LoopId, &State)> = loops.iter().zip(&states).collect();
            let index = |id: Option<&LoopId>| id.map(|id| loops.iter().position(|other| other == id));
            assert_eq!(index(choose(&fitting, Ambiguity::TakeNewest)), shown.map(Some), "{states:?}");
            assert_eq!(index(choose(&fitting, Ambiguity::TakeOnlyOpen)), changed.map(Some), "{states:?}");
        }
    }
}
