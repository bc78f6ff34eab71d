//! `ralph start`: `/ralph-loop` from a shell, with the same arguments.

use std::process::ExitCode;

use ralph_core::claims::start_request::{self, StartRequest, UsageError};
use ralph_core::model::id::SessionId;
use ralph_core::model::ship::Until;

use super::context::CommandContext;
use super::{CommandError, CommandResult};
use crate::checks::tasks;
use crate::clients::surroundings;
use crate::loops::ancestry;
use crate::loops::session::start::{LoopStart, StartRefused, StartedLoop, accepted_gates};
use crate::show::{exit, language, terminal};

#[derive(clap::Args)]
#[command(override_usage = "ralph start TASK… [OPTIONS]", after_help = AFTER_HELP)]
pub(super) struct Arguments {
    /// The task and the options below, in any order
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "TASK")]
    words: Vec<String>,
}

/// The options are parsed by the grammar of `/ralph-loop`, so clap cannot list them.
const AFTER_HELP: &str = "Options of the loop:
  --completion-promise TEXT  also require <promise>TEXT</promise>, alone on a line
  --max-iterations N         pause after N judged stops (with a list: agent calls); 0: no limit
  --tasks FILE               require every checkbox in FILE to be ticked
  --openspec [ID]            the same for that OpenSpec change; no ID: the only one
  --until GOAL               end when verified, at the open pull request (pr), when its CI passed (ci)
                             or when it is merged (merged)
  --archive                  with --openspec: archive the finished change
  --replace                  replace the loop of this session
  --proof WHAT               ask for proof of the task: test, behaviour-kept or off
  --lang TAG                 language of messages: en, zh-TW, zh-CN or es

In a terminal the loop blocks nothing until a session claims it: open your agent client here and
send `continue`. In a session's shell it belongs to that session. `/ralph-loop` takes the same
arguments.

Examples:
  ralph start fix the tests --completion-promise DONE --max-iterations 20
  ralph start --openspec add-login --archive
  ralph start --tasks docs/tasks.md";

pub(super) fn run(arguments: &Arguments) -> CommandResult {
    let request = start_request::parse(&arguments.words).map_err(misused)?;
    begin(&CommandContext::here_or_new()?, surroundings::agent_session().as_ref(), &request)
}

/// Starts a loop for that session, or for the first one that claims it, and prints it.
pub(super) fn begin(
    place: &CommandContext,
    session: Option<&SessionId>,
    request: &StartRequest,
) -> CommandResult {
    let effective = accepted_gates(place.lookup_gates_for(session)?);
    let start = LoopStart {
        workspace: place,
        effective: effective.as_ref(),
        session,
        client: ancestry::named_client(),
    };
    let guarded = effective.as_ref().is_some_and(|effective| effective.config.guard.guards_session());
    if guarded {
        // A loop started by the agent itself would replace the guard.
        place.refuse_in_agent_shell("start a loop in a guarded repo")?;
    }
    if request.goal_beyond_gates() > Until::Verified {
        place.refuse_in_agent_shell("let a loop push, open a pull request or merge")?;
    }
    if request.replace {
        place.refuse_in_agent_shell("replace a loop")?;
    }
    if start.resumes_waiting_loop(request).map_err(refused)? {
        place.refuse_in_agent_shell("resume a loop")?;
    }
    let begun = start.start(request).map_err(refused)?;
    let found = begun.session_loop();
    let tasks = found.state.goal.as_ref().and_then(|goal| goal.list.as_ref());
    let tasks = tasks.map(|list| tasks::read(&found.workspace.repo.root, list));
    let texts = language::texts(&found.state, tasks.as_ref());
    let gates = effective.map(|effective| effective.config.required_gates()).unwrap_or_default();
    terminal::print(match begun {
        StartedLoop::New(_) => texts.started(&gates),
        StartedLoop::Continued(_) => texts.resumed(),
    });
    if gates.is_empty() && place.repo.config()?.is_some() {
        terminal::print(format_args!("\n{}", language::of_loop(&found.state).words().gates_not_accepted));
    }
    if let Some(copied) = found.loop_file_copied() {
        terminal::print(format_args!("\n{copied}"));
    }
    if session.is_none() {
        terminal::print("");
        terminal::print(language::of_loop(&found.state).words().verdict_unbound);
    }
    terminal::print(format_args!("\n{}", found.id));
    Ok(ExitCode::SUCCESS)
}

pub(super) fn misused(error: UsageError) -> CommandError {
    CommandError::new(exit::USAGE, error.what).hint(error.hint)
}

fn refused(error: StartRefused) -> CommandError {
    CommandError::new(exit::USAGE, error.what).hint(error.hint)
}
