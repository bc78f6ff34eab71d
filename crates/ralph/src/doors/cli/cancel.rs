//! `ralph cancel`: ends a loop for good, unverified.

use std::process::ExitCode;

use ralph_core::ledger::event::CancelCause;
use ralph_core::ledger::transition::Transition;
use ralph_core::model::short_id::ShortId;

use super::CommandResult;
use super::context::CommandContext;
use crate::show::{language, terminal};

#[derive(clap::Args)]
#[command(after_help = "Examples:\n  ralph cancel             every open loop of this repo\n  \
ralph cancel k3f9        one loop\n\n\
In a session, use `/cancel-ralph`. Refused in an agent's shell (exit code 3).")]
pub(super) struct Arguments {
    /// Only this loop: its id, the beginning of it, or words of its task
    #[arg(add = super::completions::loops())]
    r#loop: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> CommandResult {
    let place = CommandContext::here(None)?;
    place.refuse_in_agent_shell("cancel a loop")?;
    super::require_loop(&place, arguments.r#loop.as_deref(), "cancel")?;
    let mut cancelled = 0;
    for mut found in place.session_loops(arguments.r#loop.as_deref())? {
        let line = language::texts(&found.state, None).cancelled();
        if found.apply(&Transition::Cancel(CancelCause::Command))? {
            cancelled += 1;
            terminal::print(found.with_report(format!("{}: {line}", ShortId::of(&found.id))));
        }
    }
    for found in place.driven_loops(arguments.r#loop.as_deref())? {
        if found.apply(&place.repo_home, &Transition::Cancel(CancelCause::Command))? {
            cancelled += 1;
            let line = language::texts(&found.state, None).cancelled();
            terminal::print(format_args!("{}: {line}", ShortId::of(&found.id)));
        }
    }
    if cancelled == 0 {
        terminal::print(language::of_user().words().no_active_loop);
    }
    Ok(ExitCode::SUCCESS)
}
