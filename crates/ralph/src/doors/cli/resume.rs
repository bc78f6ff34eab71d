//! `ralph resume`: a paused loop goes on where it was, in the session that asks where one does.

use std::process::ExitCode;

use ralph_core::ledger::state::Status;
use ralph_core::ledger::transition::{Carrier, Happening, happen};
use ralph_core::model::verdict::Verdict;

use super::context::Place;
use super::loop_command::{self, OutputArguments};
use super::{Done, Failure};
use crate::checks::tasks;
use crate::clients::surroundings;
use crate::loops::ancestry;
use crate::loops::driver::driven::DrivenLoop;
use crate::loops::session::guard::guard_id;
use crate::show::{exit, language, terminal};
use crate::store::sessions;

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  ralph resume             the paused loop of this repo, and every freed session\n  \
ralph resume fix-the-3f  one loop, by the beginning of its id\n\n\
A loop of `ralph loop` goes on in this terminal, after an interrupt or any kill. \
In the session itself, say `continue`. What a person, a limit or errors paused, no agent's shell resumes."
)]
pub(super) struct Arguments {
    /// Only this loop (its id or the beginning of it)
    r#loop: Option<String>,
    /// Go on at once with a loop that waits for a usage limit
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    output: OutputArguments,
}

pub(super) fn run(arguments: &Arguments) -> Done {
    let place = Place::here(None)?;
    super::must_be_a_loop(&place, arguments.r#loop.as_deref(), "resume")?;
    let by =
        surroundings::agent_session().map(|session| Carrier { session, client: ancestry::named_client() });
    let mut resumed = hold_again(&place, arguments)?;
    let found = place.session_loops(arguments.r#loop.as_deref())?;
    let several = found.len() > 1 && by.is_some();
    if several {
        return Err(Failure::new(exit::USAGE, "several loops could go on in this session")
            .hint("name one; `ralph status` lists them"));
    }
    for mut found in found {
        if found.waits_for_a_person() {
            place.only_for_a_person("resume a loop")?;
        }
        if found.happen(&Happening::Resume { by: by.clone() })? {
            resumed += 1;
            let list = found.state.goal.as_ref().and_then(|goal| goal.list.as_ref());
            let tasks = list.map(|list| tasks::read(&found.workspace.repo.root, list));
            terminal::say(language::telling(&found.state, tasks.as_ref()).resumed());
            terminal::say(format_args!("\n{}", found.id));
        }
    }
    match driven(&place, arguments, resumed > 0)? {
        Some(found) => return loop_command::go_on(place, &found, arguments.now, &arguments.output),
        None if resumed > 0 => {}
        None => return over(&place, arguments),
    }
    Ok(ExitCode::SUCCESS)
}

/// Nothing goes on. What is said of the last loop is its recorded end, but for *verified*: that is only said of gates that
/// this very process has run.
fn over(place: &Place, arguments: &Arguments) -> Done {
    let last = DrivenLoop::last_in(&place.workspace.repo_home)?;
    match (loop_command::ended_without_a_word(place)?, last) {
        (Some(found), _) if !is_verified(&found) => loop_command::tell_end(place, &found, &arguments.output),
        (Some(found), _) => loop_command::verify_again(place, &found, &arguments.output),
        (None, Some(found)) if is_verified(&found) => {
            loop_command::verify_again(place, &found, &arguments.output)
        }
        (None, Some(found)) => {
            terminal::say(language::of_person().words().no_active_loop);
            Ok(ExitCode::from(exit::of_drive(&found.state, None)))
        }
        (None, None) => {
            terminal::say(language::of_person().words().no_active_loop);
            // A script must not take that for done.
            Ok(ExitCode::from(exit::NEEDS_PERSON))
        }
    }
}

fn is_verified(found: &DrivenLoop) -> bool {
    found.state.status == Status::Ended { verdict: Verdict::Verified }
}

/// The loop of the driver that goes on in this very terminal.
fn driven(place: &Place, arguments: &Arguments, others_go_on: bool) -> Result<Option<DrivenLoop>, Failure> {
    let mut open = place.driven_loops(arguments.r#loop.as_deref())?;
    if let (Some(_), [found]) = (&arguments.r#loop, open.as_slice())
        && !found.is_open()
        && !is_verified(found)
    {
        return Err(Failure::new(exit::USAGE, format!("`{}` is over", found.id))
            .hint("start it anew: `ralph loop \"task\"`"));
    }
    open.retain(DrivenLoop::is_open);
    // One that is being driven needs nobody. Whoever can only have meant that one is told who drives it.
    let somebody_waits = others_go_on || open.iter().any(|found| found.driven_by().is_none());
    if arguments.r#loop.is_none() && somebody_waits {
        open.retain(|found| found.driven_by().is_none());
    }
    if open.len() > 1 {
        let names = open.iter().map(|found| format!("`{}`", found.id)).collect::<Vec<_>>().join(", ");
        return Err(Failure::new(exit::USAGE, "several loops could go on in this terminal")
            .hint(format!("name one of {names}")));
    }
    if !open.is_empty() {
        place.only_for_a_person("resume a loop")?;
    }
    Ok(open.pop())
}

/// Guarded sessions that were freed.
fn hold_again(place: &Place, arguments: &Arguments) -> Result<usize, Failure> {
    let mut held = 0;
    if arguments.r#loop.is_some() {
        return Ok(held);
    }
    for watched in sessions::all_watched(&place.workspace.home, &place.workspace.repo.root) {
        let guard = place.workspace.loop_of(&guard_id(&watched.session));
        let resume = Happening::Resume { by: None };
        if guard.append_what_follows(|state| happen(state, &resume))?.1 {
            held += 1;
            terminal::say(language::of_person().words().guard_holds_again);
        }
    }
    Ok(held)
}
