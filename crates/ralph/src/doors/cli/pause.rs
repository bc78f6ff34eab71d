//! `ralph pause`: loops and guards of this repo hold nobody until they are resumed.

use std::process::ExitCode;

use ralph_core::ledger::event::PauseCause;
use ralph_core::ledger::transition::{Happening, happen};

use super::Done;
use super::context::Place;
use crate::loops::session::guard::guard_id;
use crate::show::{language, terminal};
use crate::store::sessions;

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  ralph pause             every loop and every guarded session of this repo\n  \
ralph pause fix-the-3f  one loop, by the beginning of its id\n\n\
In the session itself, say `pause` as a whole message. An agent's shell may not (exit code 3)."
)]
pub(super) struct Arguments {
    /// Only this loop (its id or the beginning of it)
    r#loop: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> Done {
    let place = Place::here(None)?;
    place.only_for_a_person("pause a loop")?;
    super::must_be_a_loop(&place, arguments.r#loop.as_deref(), "pause")?;
    let happening = Happening::Pause(PauseCause::Command);
    let mut paused = 0;
    for mut found in place.session_loops(arguments.r#loop.as_deref())? {
        if found.happen(&happening)? {
            paused += 1;
            terminal::say(language::telling(&found.state, None).paused());
            terminal::say(format_args!("\n{}", found.id));
        }
    }
    for found in place.driven_loops(arguments.r#loop.as_deref())? {
        if found.happen(&place.workspace.repo_home, &happening)? {
            paused += 1;
            terminal::say(format_args!("{}: paused; `ralph resume` goes on", found.id));
        }
    }
    if arguments.r#loop.is_none() {
        paused += free_guarded(&place, &happening)?;
    }
    if paused == 0 {
        terminal::say(language::of_person().words().no_active_loop);
    }
    Ok(ExitCode::SUCCESS)
}

/// Sessions that are guarded without a loop of their own.
fn free_guarded(place: &Place, happening: &Happening) -> Result<usize, super::Failure> {
    let mut freed = 0;
    for watched in sessions::all_watched(&place.workspace.home, &place.workspace.repo.root) {
        let guard = place.workspace.loop_of(&guard_id(&watched.session));
        if guard.append_what_follows(|state| happen(state, happening))?.1 {
            freed += 1;
            terminal::say(language::of_person().words().guard_freed);
        }
    }
    Ok(freed)
}
