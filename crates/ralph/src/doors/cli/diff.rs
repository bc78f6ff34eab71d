//! `ralph diff`: what an iteration of a driven loop changed, from its checkpoints.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;

use ralph_core::model::id::LoopId;

use super::context::CommandContext;
use super::{CommandError, CommandResult};
use crate::show::{exit, terminal};
use crate::work_tree::checkpoint::{self, LOOPS_KEPT};
use crate::work_tree::git::Git;

#[derive(clap::Args)]
#[command(after_help = "Examples:\n  ralph diff               what the last iteration changed\n  \
ralph diff 3             what iteration 3 changed\n  \
ralph diff 2..4          what iterations 2 to 4 changed together\n  \
ralph diff 1..4 k3f9     the same for one loop")]
pub(super) struct Arguments {
    /// Iteration, or a range of iterations (`2..4`) [default: the last one]
    #[arg(value_name = "N")]
    which: Option<String>,
    /// The loop: its id, the beginning of it, or words of its task [default: the loop driven last]
    #[arg(value_name = "LOOP", add = super::completions::loops())]
    r#loop: Option<String>,
    /// Show only the number of changed lines per file
    #[arg(long)]
    stat: bool,
}

pub(super) fn run(arguments: &Arguments) -> CommandResult {
    let place = CommandContext::here(None)?;
    let (wanted, word) = parse_request(arguments.which.as_deref(), arguments.r#loop.as_deref())?;
    let id = driven_loop(&place, word)?;
    let git = Git::find(&place.repo.root, &std::env::temp_dir())
        .map_err(|error| CommandError::new(exit::USAGE, format!("no checkpoints: {error}")))?;
    let kept = checkpoint::commits_of(&git, &id)
        .map_err(|error| CommandError::new(exit::USAGE, format!("cannot list the checkpoints: {error}")))?;
    let span = span(&kept, wanted).map_err(|lack| lack.of(&place, &id, &kept))?;
    if let Some(remark) = span.remark() {
        terminal::remark(remark);
    }
    let mut diff = git.diff_for_the_user();
    diff.args(arguments.stat.then_some("--stat")).args([span.from.1, span.to.1, "--"]);
    // Git replaces this process, so that a pager handles its own keys.
    Err(CommandError::new(exit::USAGE, format!("cannot run git: {}", diff.exec())))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DiffRequest {
    Last,
    /// Inclusive.
    Iterations {
        first: u32,
        last: u32,
    },
}

/// Interprets the two arguments. A single one that is not a number names the loop.
fn parse_request<'w>(
    which: Option<&'w str>,
    named: Option<&'w str>,
) -> Result<(DiffRequest, Option<&'w str>), CommandError> {
    let Some(which) = which else { return Ok((DiffRequest::Last, named)) };
    let (first, last) = which.split_once("..").unwrap_or((which, which));
    match (first.parse(), last.parse(), named) {
        (Ok(first), Ok(last), _) if 0 < first && first <= last => {
            Ok((DiffRequest::Iterations { first, last }, named))
        }
        (Err(_), _, None) if !which.contains("..") => Ok((DiffRequest::Last, Some(which))),
        _ => Err(CommandError::new(exit::USAGE, format!("`{which}` is not an iteration"))
            .hint("iterations are counted from 1: `ralph diff 3`, `ralph diff 2..4`")),
    }
}

fn driven_loop(place: &CommandContext, word: Option<&str>) -> Result<LoopId, CommandError> {
    let is_driven = |id: &LoopId| Ok::<_, CommandError>(place.loop_of(id).state()?.drive.options.is_some());
    if word.is_some() {
        let id = place.named_loop(word)?;
        return match is_driven(&id)? {
            true => Ok(id),
            false => Err(CommandError::new(
                exit::USAGE,
                format!("`{id}` was not started by `ralph loop`; only those loops have checkpoints"),
            )),
        };
    }
    for id in place.repo_home.loops() {
        if is_driven(&id)? {
            return Ok(id);
        }
    }
    Err(CommandError::new(exit::USAGE, "no driven loop in this repo yet")
        .hint("start one with `ralph loop \"TASK\"`"))
}

/// Two checkpoints, number and commit, whose difference is requested.
#[derive(Debug, PartialEq, Eq)]
struct CheckpointSpan<'k> {
    first: u32,
    from: (u32, &'k str),
    to: (u32, &'k str),
}

impl CheckpointSpan<'_> {
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
                "There is no checkpoint before iteration {first}; these are the changes since iteration {from}."
            )
        })
    }
}

/// The requested checkpoint that does not exist.
#[derive(Debug, PartialEq, Eq)]
enum MissingCheckpoint {
    Everything,
    /// Only the tree before the first iteration exists.
    AnyIteration,
    Iteration(u32),
    TreeBefore(u32),
}

fn span(kept: &BTreeMap<u32, String>, wanted: DiffRequest) -> Result<CheckpointSpan<'_>, MissingCheckpoint> {
    let newest = *kept.keys().next_back().ok_or(MissingCheckpoint::Everything)?;
    let (first, last) = match wanted {
        DiffRequest::Last if newest == 0 => return Err(MissingCheckpoint::AnyIteration),
        DiffRequest::Last => (newest, newest),
        DiffRequest::Iterations { first, last } => (first, last),
    };
    let to = kept.get(&last).ok_or(MissingCheckpoint::Iteration(last))?;
    let (before, from) = kept.range(..first).next_back().ok_or(MissingCheckpoint::TreeBefore(first))?;
    Ok(CheckpointSpan { first, from: (*before, from), to: (last, to) })
}

impl MissingCheckpoint {
    fn of(&self, place: &CommandContext, id: &LoopId, kept: &BTreeMap<u32, String>) -> CommandError {
        let state = place.loop_of(id).state().unwrap_or_default();
        let is_off = state.drive.options.is_some_and(|options| !options.checkpoints);
        let failure = |what: String| CommandError::new(exit::USAGE, what);
        match self {
            Self::Everything if is_off => failure(format!("checkpoints are off for `{id}`"))
                .hint("it was started with --no-checkpoints"),
            Self::Everything => failure(format!("no checkpoint of `{id}`")).hint(format!(
                "only the newest {LOOPS_KEPT} loops keep theirs; `ralph log` shows why one failed"
            )),
            Self::AnyIteration => failure(format!("no iteration of `{id}` has a checkpoint yet")),
            Self::Iteration(number) => failure(format!("no checkpoint of iteration {number} of `{id}`"))
                .hint(format!("available: {}", in_words(kept.keys().copied().filter(|number| *number > 0)))),
            Self::TreeBefore(number) => failure(format!("no checkpoint before iteration {number} of `{id}`")),
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
        let iterations = |first, last| DiffRequest::Iterations { first, last };
        let table = [
            ((None, None), Some((DiffRequest::Last, None))),
            ((Some("3"), None), Some((iterations(3, 3), None))),
            ((Some("2..4"), None), Some((iterations(2, 4), None))),
            ((Some("2..2"), Some("x")), Some((iterations(2, 2), Some("x")))),
            ((Some("fix-the"), None), Some((DiffRequest::Last, Some("fix-the")))),
            ((Some("0"), None), None),
            ((Some("0..2"), None), None),
            ((Some("4..2"), None), None),
            ((Some("2.."), None), None),
            ((Some("a..b"), None), None),
            ((Some("fix-the"), Some("x")), None),
            ((Some("99999999999"), Some("x")), None),
        ];
        for ((which, named), meant) in table {
            assert_eq!(parse_request(which, named).ok(), meant, "{which:?} {named:?}");
        }
    }

    #[test]
    fn a_span_starts_at_the_newest_tree_before_it() {
        let kept: BTreeMap<u32, String> = [0, 1, 2, 5].map(|number| (number, number.to_string())).into();
        let ends = |wanted| span(&kept, wanted).map(|span| (span.from.0, span.to.0));
        let iterations = |first, last| ends(DiffRequest::Iterations { first, last });
        assert_eq!(ends(DiffRequest::Last), Ok((2, 5)));
        assert_eq!(iterations(1, 1), Ok((0, 1)));
        assert_eq!(iterations(1, 5), Ok((0, 5)));
        assert_eq!(iterations(2, 2), Ok((1, 2)));
        assert_eq!(iterations(3, 3), Err(MissingCheckpoint::Iteration(3)));
        assert_eq!(iterations(2, 9), Err(MissingCheckpoint::Iteration(9)));
        assert_eq!(span(&BTreeMap::new(), DiffRequest::Last), Err(MissingCheckpoint::Everything));
        let only = |number| BTreeMap::from([(number, String::new())]);
        assert_eq!(span(&only(0), DiffRequest::Last), Err(MissingCheckpoint::AnyIteration));
        assert_eq!(span(&only(3), DiffRequest::Last), Err(MissingCheckpoint::TreeBefore(3)));
        let all = kept.keys().copied().filter(|number| *number > 0);
        assert_eq!(in_words(all), "1 to 2, 5");
    }
}
