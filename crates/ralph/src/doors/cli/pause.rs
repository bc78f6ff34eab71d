//! `ralph pause`: this repo's loops and guards block nothing until they are resumed.

use std::process::ExitCode;

use ralph_core::ledger::event::PauseCause;
use ralph_core::ledger::transition::{Transition, apply};
use ralph_core::model::short_id::ShortId;

use super::CommandResult;
use super::context::CommandContext;
use crate::loops::session::guard::guard_id;
use crate::show::{language, terminal};
use crate::store::sessions;

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  ralph pause             every loop and every guarded session of this repo\n  \
ralph pause k3f9        one loop\n\n\
In a session, send `pause` as the whole message. Refused in an agent's shell (exit code 3)."
)]
pub(super) struct Arguments {
    /// Only this loop: its id, the beginning of it, or words of its task
    #[arg(add = super::completions::loops())]
    r#loop: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> CommandResult {
    let place = CommandContext::here(None)?;
    place.refuse_in_agent_shell("pause a loop")?;
    super::require_loop(&place, arguments.r#loop.as_deref(), "pause")?;
    let transition = Transition::Pause(PauseCause::Command);
    let mut paused = 0;
    for mut found in place.session_loops(arguments.r#loop.as_deref())? {
        if found.apply(&transition)? {
            paused += 1;
            terminal::print(language::texts(&found.state, None).paused());
            terminal::print(format_args!("\n{}", ShortId::of(&found.id)));
        }
    }
    for found in place.driven_loops(arguments.r#loop.as_deref())? {
        if found.apply(&place.repo_home, &transition)? {
            paused += 1;
            terminal::print(format_args!("{}: paused; continue with `ralph resume`", ShortId::of(&found.id)));
        }
    }
    if arguments.r#loop.is_none() {
        paused += pause_guards(&place, &transition)?;
    }
    if paused == 0 {
        terminal::print(language::of_user().words().no_active_loop);
    }
    Ok(ExitCode::SUCCESS)
}

/// Pauses the guards of sessions without a loop; returns how many.
fn pause_guards(place: &CommandContext, transition: &Transition) -> Result<usize, super::CommandError> {
    let mut paused = 0;
    for watched in sessions::all_watched(&place.home, &place.repo.root) {
        let guard = place.loop_of(&guard_id(&watched.session));
        if guard.append_following(|state| apply(state, transition))?.1 {
            paused += 1;
            terminal::print(language::of_user().words().guard_checks_off);
        }
    }
    Ok(paused)
}
