//! `ralph resume`: resumes a paused loop, in the calling session if there is one.

use std::process::ExitCode;

use ralph_core::ledger::state::Status;
use ralph_core::ledger::transition::{AttachedSession, Transition, apply};
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
ralph resume fix-the-3f  one loop, by a prefix of its id\n\n\
A loop started by `ralph loop` continues in this terminal, also after a kill. \
In a session, send `continue`. An agent's shell cannot resume a loop that you, a limit or errors paused."
)]
pub(super) struct Arguments {
    /// Only this loop (its id or a prefix of it)
    r#loop: Option<String>,
    /// Resume a loop at once that is waiting for a usage limit
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    output: OutputArguments,
}

pub(super) fn run(arguments: &Arguments) -> CommandResult {
    let place = CommandContext::here(None)?;
    super::require_loop(&place, arguments.r#loop.as_deref(), "resume")?;
    let by = surroundings::agent_session()
        .map(|session| AttachedSession { session, client: ancestry::named_client() });
    let mut resumed = resume_guards(&place, arguments)?;
    let found = place.session_loops(arguments.r#loop.as_deref())?;
    let several = found.len() > 1 && by.is_some();
    if several {
        return Err(CommandError::new(exit::USAGE, "several loops could be resumed in this session")
            .hint("name one; list them with `ralph status`"));
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
            terminal::print(format_args!("\n{}", found.id));
        }
    }
    match driven(&place, arguments, resumed > 0)? {
        Some(found) => return loop_command::continue_loop(place, &found, arguments.now, &arguments.output),
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
        return Err(CommandError::new(exit::USAGE, format!("`{}` has ended", found.id))
            .hint("start a new one: `ralph loop \"task\"`"));
    }
    open.retain(DrivenLoop::is_open);
    // A running loop needs no resume; if it is the only candidate, the error names its driver.
    let any_stopped = others_resumed || open.iter().any(|found| found.driven_by().is_none());
    if arguments.r#loop.is_none() && any_stopped {
        open.retain(|found| found.driven_by().is_none());
    }
    if open.len() > 1 {
        let names = open.iter().map(|found| format!("`{}`", found.id)).collect::<Vec<_>>().join(", ");
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
