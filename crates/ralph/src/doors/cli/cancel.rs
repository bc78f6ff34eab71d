//! `ralph cancel`: a loop ends for good, unverified.

use std::process::ExitCode;

use ralph_core::ledger::event::CancelCause;
use ralph_core::ledger::transition::Happening;

use super::Done;
use super::context::Place;
use crate::show::{language, terminal};

#[derive(clap::Args)]
#[command(after_help = "Examples:\n  ralph cancel             every loop of this repo that is not over\n  \
ralph cancel fix-the-3f  one loop, by the beginning of its id\n\n\
In the session itself: `/cancel-ralph`. An agent's shell may not (exit code 3).")]
pub(super) struct Arguments {
    /// Only this loop (its id or the beginning of it)
    r#loop: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> Done {
    let place = Place::here(None)?;
    place.only_for_a_person("cancel a loop")?;
    super::must_be_a_loop(&place, arguments.r#loop.as_deref(), "cancel")?;
    let mut cancelled = 0;
    for mut found in place.session_loops(arguments.r#loop.as_deref())? {
        let line = language::telling(&found.state, None).cancelled();
        if found.happen(&Happening::Cancel(CancelCause::Command))? {
            cancelled += 1;
            terminal::say(found.with_report(format!("{}: {line}", found.id)));
        }
    }
    for found in place.driven_loops(arguments.r#loop.as_deref())? {
        if found.happen(&place.workspace.repo_home, &Happening::Cancel(CancelCause::Command))? {
            cancelled += 1;
            terminal::say(format_args!(
                "{}: {}",
                found.id,
                language::telling(&found.state, None).cancelled()
            ));
        }
    }
    if cancelled == 0 {
        terminal::say(language::of_person().words().no_active_loop);
    }
    Ok(ExitCode::SUCCESS)
}
