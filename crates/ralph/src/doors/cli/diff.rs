//! `ralph diff`: what an iteration of a driven loop changed, from the checkpoints it left.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;

use ralph_core::model::id::LoopId;

use super::context::Place;
use super::{Done, Failure};
use crate::show::{exit, terminal};
use crate::work_tree::checkpoint::{self, LOOPS_KEPT};
use crate::work_tree::git::Git;

#[derive(clap::Args)]
#[command(after_help = "Examples:\n  ralph diff               what the last iteration changed\n  \
ralph diff 3             what the third changed\n  \
ralph diff 2..4          what the second, third and fourth changed together\n  \
ralph diff 1..4 fix-the  the same of a loop, by the beginning of its id")]
pub(super) struct Arguments {
    /// Which iteration, or the first and the last of several (`2..4`); without one, the last
    #[arg(value_name = "N")]
    which: Option<String>,
    /// Which loop (its id or the beginning of it); without one, the loop last driven
    #[arg(value_name = "LOOP")]
    r#loop: Option<String>,
    /// Only how much changed in which file
    #[arg(long)]
    stat: bool,
}

pub(super) fn run(arguments: &Arguments) -> Done {
    let place = Place::here(None)?;
    let (wanted, word) = wanted(arguments.which.as_deref(), arguments.r#loop.as_deref())?;
    let id = driven_loop(&place, word)?;
    let git = Git::find(&place.repo.root, &std::env::temp_dir())
        .map_err(|error| Failure::new(exit::USAGE, format!("there are no checkpoints: {error}")))?;
    let kept = checkpoint::kept(&git, &id)
        .map_err(|error| Failure::new(exit::USAGE, format!("the checkpoints cannot be listed: {error}")))?;
    let span = span(&kept, wanted).map_err(|lack| lack.of(&place, &id, &kept))?;
    if let Some(remark) = span.remark() {
        terminal::remark(remark);
    }
    let mut diff = git.diff_for_the_user();
    diff.args(arguments.stat.then_some("--stat")).args([span.from.1, span.to.1, "--"]);
    // Git takes our place, so that a pager is left by its own keys.
    Err(Failure::new(exit::USAGE, format!("git could not be run: {}", diff.exec())))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Last,
    /// Both included.
    Iterations {
        first: u32,
        last: u32,
    },
}

/// What the two words mean. One word that is no number names the loop.
fn wanted<'w>(which: Option<&'w str>, named: Option<&'w str>) -> Result<(Wanted, Option<&'w str>), Failure> {
    let Some(which) = which else { return Ok((Wanted::Last, named)) };
    let (first, last) = which.split_once("..").unwrap_or((which, which));
    match (first.parse(), last.parse(), named) {
        (Ok(first), Ok(last), _) if 0 < first && first <= last => {
            Ok((Wanted::Iterations { first, last }, named))
        }
        (Err(_), _, None) if !which.contains("..") => Ok((Wanted::Last, Some(which))),
        _ => Err(Failure::new(exit::USAGE, format!("`{which}` is no iteration"))
            .hint("iterations are counted from 1: `ralph diff 3`, `ralph diff 2..4`")),
    }
}

fn driven_loop(place: &Place, word: Option<&str>) -> Result<LoopId, Failure> {
    let is_driven = |id: &LoopId| Ok::<_, Failure>(place.loop_of(id).state()?.drive.options.is_some());
    if word.is_some() {
        let id = place.named_loop(word)?;
        return match is_driven(&id)? {
            true => Ok(id),
            false => Err(Failure::new(
                exit::USAGE,
                format!("`{id}` is no loop of `ralph loop`; only those keep checkpoints"),
            )),
        };
    }
    for id in place.repo_home.loops() {
        if is_driven(&id)? {
            return Ok(id);
        }
    }
    Err(Failure::new(exit::USAGE, "no loop was driven in this repo yet")
        .hint("`ralph loop \"TASK\"` drives one"))
}

/// Two checkpoints, number and commit; what changed between them is asked for.
#[derive(Debug, PartialEq, Eq)]
struct Span<'k> {
    first: u32,
    from: (u32, &'k str),
    to: (u32, &'k str),
}

impl Span<'_> {
    fn remark(&self) -> Option<String> {
        let (from, to) = (self.from.0, self.to.0);
        if self.from.1 == self.to.1 {
            let several = from + 1 < to;
            return Some(match several {
                true => format!("Iterations {} to {to} changed nothing.", from + 1),
                false => format!("Iteration {to} changed nothing."),
            });
        }
        let first = self.first;
        (from + 1 < first).then(|| {
            format!(
                "The tree before iteration {first} was not kept; this is what changed since iteration {from}."
            )
        })
    }
}

/// What is asked for and was not kept.
#[derive(Debug, PartialEq, Eq)]
enum Lack {
    Everything,
    /// There is only the tree before the first iteration.
    AnyIteration,
    Iteration(u32),
    TreeBefore(u32),
}

fn span(kept: &BTreeMap<u32, String>, wanted: Wanted) -> Result<Span<'_>, Lack> {
    let newest = *kept.keys().next_back().ok_or(Lack::Everything)?;
    let (first, last) = match wanted {
        Wanted::Last if newest == 0 => return Err(Lack::AnyIteration),
        Wanted::Last => (newest, newest),
        Wanted::Iterations { first, last } => (first, last),
    };
    let to = kept.get(&last).ok_or(Lack::Iteration(last))?;
    let (before, from) = kept.range(..first).next_back().ok_or(Lack::TreeBefore(first))?;
    Ok(Span { first, from: (*before, from), to: (last, to) })
}

impl Lack {
    fn of(&self, place: &Place, id: &LoopId, kept: &BTreeMap<u32, String>) -> Failure {
        let state = place.loop_of(id).state().unwrap_or_default();
        let is_off = state.drive.options.is_some_and(|options| !options.checkpoints);
        let failure = |what: String| Failure::new(exit::USAGE, what);
        match self {
            Self::Everything if is_off => failure(format!("checkpoints are off for `{id}`"))
                .hint("it was started with --no-checkpoints"),
            Self::Everything => failure(format!("there is no checkpoint of `{id}`")).hint(format!(
                "those of the newest {LOOPS_KEPT} loops stay; `ralph log` tells why one was not kept"
            )),
            Self::AnyIteration => failure(format!("no iteration of `{id}` was kept yet")),
            Self::Iteration(number) => failure(format!(
                "there is no checkpoint of iteration {number} of `{id}`"
            ))
            .hint(format!("there are: {}", in_words(kept.keys().copied().filter(|number| *number > 0)))),
            Self::TreeBefore(number) => {
                failure(format!("the tree before iteration {number} of `{id}` was not kept"))
            }
        }
    }
}

/// `1 to 4, 6`.
fn in_words(numbers: impl Iterator<Item = u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, end)) if *end + 1 == number => *end = number,
            _ => runs.push((number, number)),
        }
    }
    let words = runs.into_iter().map(|(start, end)| match start == end {
        true => start.to_string(),
        false => format!("{start} to {end}"),
    });
    let words: Vec<String> = words.collect();
    if words.is_empty() { "none".into() } else { words.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_is_an_iteration_or_a_loop_and_two_are_both() {
        let iterations = |first, last| Wanted::Iterations { first, last };
        let table = [
            ((None, None), Some((Wanted::Last, None))),
            ((Some("3"), None), Some((iterations(3, 3), None))),
            ((Some("2..4"), None), Some((iterations(2, 4), None))),
            ((Some("2..2"), Some("x")), Some((iterations(2, 2), Some("x")))),
            ((Some("fix-the"), None), Some((Wanted::Last, Some("fix-the")))),
            ((Some("0"), None), None),
            ((Some("0..2"), None), None),
            ((Some("4..2"), None), None),
            ((Some("2.."), None), None),
            ((Some("a..b"), None), None),
            ((Some("fix-the"), Some("x")), None),
            ((Some("99999999999"), Some("x")), None),
        ];
        for ((which, named), meant) in table {
            assert_eq!(wanted(which, named).ok(), meant, "{which:?} {named:?}");
        }
    }

    #[test]
    fn a_span_starts_at_the_newest_tree_before_it() {
        let kept: BTreeMap<u32, String> = [0, 1, 2, 5].map(|number| (number, number.to_string())).into();
        let ends = |wanted| span(&kept, wanted).map(|span| (span.from.0, span.to.0));
        let iterations = |first, last| ends(Wanted::Iterations { first, last });
        assert_eq!(ends(Wanted::Last), Ok((2, 5)));
        assert_eq!(iterations(1, 1), Ok((0, 1)));
        assert_eq!(iterations(1, 5), Ok((0, 5)));
        assert_eq!(iterations(2, 2), Ok((1, 2)));
        assert_eq!(iterations(3, 3), Err(Lack::Iteration(3)));
        assert_eq!(iterations(2, 9), Err(Lack::Iteration(9)));
        assert_eq!(span(&BTreeMap::new(), Wanted::Last), Err(Lack::Everything));
        let only = |number| BTreeMap::from([(number, String::new())]);
        assert_eq!(span(&only(0), Wanted::Last), Err(Lack::AnyIteration));
        assert_eq!(span(&only(3), Wanted::Last), Err(Lack::TreeBefore(3)));
        let all = kept.keys().copied().filter(|number| *number > 0);
        assert_eq!(in_words(all), "1 to 2, 5");
    }
}
