//! `ralph resume`: resumes a paused loop, in the calling session if there is one.

use std::process::ExitCode;
use std::time::Duration;

use ralph_core::ledger::state::Status;
use ralph_core::ledger::transition::{AttachedSession, Transition, apply};
use ralph_core::model::duration;
use ralph_core::model::limits::LimitsRaise;
use ralph_core::model::money::Micros;
use ralph_core::model::short_id::ShortId;
use ralph_core::model::verdict::Verdict;

use super::context::CommandContext;
use super::loop_command::{self, OutputArguments};
use super::{CommandError, CommandResult};
use crate::checks::tasks;
use crate::clients::surroundings;
use crate::loops::ancestry;
use crate::loops::driver::driven::DrivenLoop;
use crate::loops::session::guard::guard_id;
use crate::show::{exit, language, terminal};
use crate::store::sessions;

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  ralph resume             the paused loop and all paused guards of this repo\n  \
ralph resume k3f9        one loop\n  ralph resume k3f9 --max-iterations +10    also after it ended at that limit\n\n\
A loop started by `ralph loop` continues in this terminal, also after a kill. \
In a session, send `continue`. An agent's shell cannot resume a loop that you, a limit or errors paused."
)]
pub(super) struct Arguments {
    /// Only this loop: its id, the beginning of it, or words of its task
    #[arg(add = super::completions::loops())]
    r#loop: Option<String>,
    /// Resume a loop at once that is waiting for a usage limit
    #[arg(long)]
    now: bool,
    /// Grant a loop of `ralph loop` this many more iterations, also if it ended at that limit: +10
    #[arg(long, value_name = "+N", value_parser = more_iterations)]
    max_iterations: Option<u32>,
    /// Grant this many more dollars: +5
    #[arg(long, value_name = "+USD", value_parser = more_dollars)]
    max_cost: Option<Micros>,
    /// Grant this much more time: +2h
    #[arg(long, value_name = "+TIME", value_parser = more_time)]
    max_time: Option<Duration>,
    #[command(flatten)]
    output: OutputArguments,
}

/// More is added to the limit, so the plus sign is required: a bare number could be taken for the new limit.
fn after_plus(text: &str) -> Result<&str, String> {
    text.trim().strip_prefix('+').ok_or_else(|| format!("write `+{}` for that much more", text.trim()))
}

fn more_iterations(text: &str) -> Result<u32, String> {
    let number = after_plus(text)?.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "expected a number such as `+10`".into())
}

fn more_dollars(text: &str) -> Result<Micros, String> {
    loop_command::dollars(after_plus(text)?)
}

fn more_time(text: &str) -> Result<Duration, String> {
    duration::parse_with_unit(after_plus(text)?)
}

impl Arguments {
    fn raise(&self) -> Option<LimitsRaise> {
        let raise = LimitsRaise {
            iterations: self.max_iterations.unwrap_or_default(),
            cost: self.max_cost.unwrap_or_default(),
            time: self.max_time.unwrap_or_default(),
        };
        (raise != LimitsRaise::default()).then_some(raise)
    }
}

/// Continues a driven loop with higher limits; one that ended at such a limit, too.
fn resume_with_more(place: CommandContext, arguments: &Arguments, raise: LimitsRaise) -> CommandResult {
    place.refuse_in_agent_shell("raise the limits of a loop")?;
    let found = match arguments.r#loop.as_deref() {
        Some(word) => DrivenLoop::at(&place.repo_home, place.loop_to_change(word)?)?,
        None => DrivenLoop::last_in(&place.repo_home)?,
    };
    let none = || {
        CommandError::new(exit::USAGE, "no loop of `ralph loop` to resume")
            .hint("a session's loop gets its limit granted again by `ralph resume` alone")
    };
    let found = found.ok_or_else(none)?;
    if apply(&found.state, &Transition::RaiseLimits(raise)).is_empty() {
        let short = ShortId::of(&found.id);
        let what = if found.is_open() {
            format!("`{short}` has no such limit, so it cannot be raised")
        } else {
            format!("`{short}` has ended, and not at this limit")
        };
        return Err(
            CommandError::new(exit::USAGE, what).hint(format!("see how it stands with `ralph show {short}`"))
        );
    }
    loop_command::continue_loop(place, &found, arguments.now, Some(raise), &arguments.output)
}

pub(super) fn run(arguments: &Arguments) -> CommandResult {
    let place = CommandContext::here(None)?;
    if let Some(raise) = arguments.raise() {
        return resume_with_more(place, arguments, raise);
    }
    super::require_loop(&place, arguments.r#loop.as_deref(), "resume")?;
    let by = surroundings::agent_session()
        .map(|session| AttachedSession { session, client: ancestry::named_client() });
    let mut resumed = resume_guards(&place, arguments)?;
    let found = place.session_loops(arguments.r#loop.as_deref())?;
    let several = found.len() > 1 && by.is_some();
    if several {
        return Err(CommandError::new(exit::USAGE, "several loops could be resumed in this session")
            .hint("name one; list them with `ralph ls`"));
    }
    for mut found in found {
        if found.waits_for_user() {
            place.refuse_in_agent_shell("resume a loop")?;
        }
        if found.apply(&Transition::Resume { by: by.clone() })? {
            resumed += 1;
            let list = found.state.goal.as_ref().and_then(|goal| goal.list.as_ref());
            let tasks = list.map(|list| tasks::read(&found.workspace.repo.root, list));
            terminal::print(language::texts(&found.state, tasks.as_ref()).resumed());
            terminal::print(format_args!("\n{}", ShortId::of(&found.id)));
        }
    }
    match driven(&place, arguments, resumed > 0)? {
        Some(found) => {
            return loop_command::continue_loop(place, &found, arguments.now, None, &arguments.output);
        }
        None if resumed > 0 => {}
        None => return over(&place, arguments),
    }
    Ok(ExitCode::SUCCESS)
}

/// There is nothing to resume: prints the recorded end of the last loop. *Verified* is only reported for gates that this
/// process has run itself.
fn over(place: &CommandContext, arguments: &Arguments) -> CommandResult {
    let last = DrivenLoop::last_in(&place.repo_home)?;
    match (loop_command::ended_without_output(place)?, last) {
        (Some(found), _) if !is_verified(&found) => loop_command::print_end(place, &found, &arguments.output),
        (Some(found), _) => loop_command::verify_again(place, &found, &arguments.output),
        (None, Some(found)) if is_verified(&found) => {
            loop_command::verify_again(place, &found, &arguments.output)
        }
        (None, Some(found)) => {
            terminal::print(language::of_user().words().no_active_loop);
            Ok(ExitCode::from(exit::of_drive(&found.state, None)))
        }
        (None, None) => {
            terminal::print(language::of_user().words().no_active_loop);
            // Scripts must not take this for success.
            Ok(ExitCode::from(exit::NEEDS_PERSON))
        }
    }
}

fn is_verified(found: &DrivenLoop) -> bool {
    found.state.status == Status::Ended { verdict: Verdict::Verified }
}

/// The driven loop to resume in this terminal.
fn driven(
    place: &CommandContext,
    arguments: &Arguments,
    others_resumed: bool,
) -> Result<Option<DrivenLoop>, CommandError> {
    let mut open = place.driven_loops(arguments.r#loop.as_deref())?;
    if let (Some(_), [found]) = (&arguments.r#loop, open.as_slice())
        && !found.is_open()
        && !is_verified(found)
    {
        return Err(CommandError::new(exit::USAGE, format!("`{}` has ended", ShortId::of(&found.id)))
            .hint("start a new one: `ralph loop \"task\"`"));
    }
    open.retain(DrivenLoop::is_open);
    // A running loop needs no resume; if it is the only candidate, the error names its driver.
    let any_stopped = others_resumed || open.iter().any(|found| found.driven_by().is_none());
    if arguments.r#loop.is_none() && any_stopped {
        open.retain(|found| found.driven_by().is_none());
    }
    if open.len() > 1 {
        let names =
            open.iter().map(|found| format!("`{}`", ShortId::of(&found.id))).collect::<Vec<_>>().join(", ");
        return Err(CommandError::new(exit::USAGE, "several loops could be resumed in this terminal")
            .hint(format!("name one of {names}")));
    }
    if !open.is_empty() {
        place.refuse_in_agent_shell("resume a loop")?;
    }
    Ok(open.pop())
}

/// Resumes the paused guards of sessions; returns how many.
fn resume_guards(place: &CommandContext, arguments: &Arguments) -> Result<usize, CommandError> {
    let mut resumed = 0;
    if arguments.r#loop.is_some() {
        return Ok(resumed);
    }
    for watched in sessions::all_watched(&place.home, &place.repo.root) {
        let guard = place.loop_of(&guard_id(&watched.session));
        let resume = Transition::Resume { by: None };
        if guard.append_following(|state| apply(state, &resume))?.1 {
            resumed += 1;
            terminal::print(language::of_user().words().guard_checks_on);
        }
    }
    Ok(resumed)
}
