//! `ralph start`: the same words as `/ralph-loop`, from a shell.

use std::process::ExitCode;

use ralph_core::claims::start_request::{self, StartRequest, UsageError};
use ralph_core::model::id::SessionId;

use super::context::Place;
use super::{Done, Failure};
use crate::checks::tasks;
use crate::clients::surroundings;
use crate::loops::ancestry;
use crate::loops::session::start::{Begun, Refused, Start, accepted_gates};
use crate::show::{exit, language, terminal};

#[derive(clap::Args)]
#[command(override_usage = "ralph start TASK… [OPTIONS]", after_help = AFTER_HELP)]
pub(super) struct Arguments {
    /// What is to be done, and the options below, in any order
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "TASK")]
    words: Vec<String>,
}

/// The options are read by the grammar that `/ralph-loop` has too, so they are told here.
const AFTER_HELP: &str = "Options of the loop:
  --completion-promise TEXT  the agent also has to say <promise>TEXT</promise>, alone on a line
  --max-iterations N         pause after N judged stops (with a list: agent calls); 0: no limit
  --tasks FILE               until every box in that file is ticked
  --openspec [ID]            until every box of that OpenSpec change is ticked; no ID: the only one
  --archive                  with --openspec: put the finished change away
  --replace                  instead of the loop that this session has
  --lang TAG                 what people read about it: en, zh-TW, zh-CN or es

In a terminal the loop holds nobody until a session claims it: open your agent client here
and say `continue`. In the shell of a session it is that session's. `/ralph-loop` takes the same words.

Examples:
  ralph start fix the tests --completion-promise DONE --max-iterations 20
  ralph start --openspec add-login --archive
  ralph start --tasks docs/tasks.md";

pub(super) fn run(arguments: &Arguments) -> Done {
    let request = start_request::parse(&arguments.words).map_err(misused)?;
    begin(&Place::here_or_new()?, surroundings::agent_session().as_ref(), &request)
}

/// Starts a loop for that session, or for the first one that claims it, and tells of it.
pub(super) fn begin(place: &Place, session: Option<&SessionId>, request: &StartRequest) -> Done {
    let in_force = accepted_gates(place.found_for(session)?);
    let start = Start {
        workspace: &place.workspace,
        in_force: in_force.as_ref(),
        session,
        client: ancestry::named_client(),
    };
    let guarded = in_force.as_ref().is_some_and(|in_force| in_force.config.guard.holds_session());
    if guarded {
        // A loop of its own making would take the place of the guard.
        place.only_for_a_person("start a loop in a guarded repo")?;
    }
    if request.replace {
        place.only_for_a_person("replace a loop")?;
    }
    if start.wakes_what_waits_for_a_person(request).map_err(refused)? {
        place.only_for_a_person("resume a loop")?;
    }
    let begun = start.start(request).map_err(refused)?;
    let found = begun.the_loop();
    let tasks = found.state.goal.as_ref().and_then(|goal| goal.list.as_ref());
    let tasks = tasks.map(|list| tasks::read(&found.workspace.repo.root, list));
    let telling = language::telling(&found.state, tasks.as_ref());
    let gates = in_force.map(|in_force| in_force.config.required_gates()).unwrap_or_default();
    terminal::say(match begun {
        Begun::New(_) => telling.started(&gates),
        Begun::GoesOn(_) => telling.resumed(),
    });
    if gates.is_empty() && place.workspace.repo.config()?.is_some() {
        terminal::say(format_args!("\n{}", language::of_loop(&found.state).words().gates_not_accepted));
    }
    if let Some(copied) = found.loop_file_copied() {
        terminal::say(format_args!("\n{copied}"));
    }
    if session.is_none() {
        terminal::say("");
        terminal::say(language::of_loop(&found.state).words().verdict_unbound);
    }
    terminal::say(format_args!("\n{}", found.id));
    Ok(ExitCode::SUCCESS)
}

pub(super) fn misused(error: UsageError) -> Failure {
    Failure::new(exit::USAGE, error.what).hint(error.hint)
}

fn refused(error: Refused) -> Failure {
    Failure::new(exit::USAGE, error.what).hint(error.hint)
}
