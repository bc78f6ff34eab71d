//! `ralph blocked WHY`: the agent's honest way out. Its loop ends at its next stop, for the user to review; nothing is ever
//! verified by it.

use std::process::ExitCode;

use ralph_core::claims::honest_exit;
use ralph_core::ledger::event::Event;
use ralph_core::model::id::LoopId;

use super::context::CommandContext;
use super::{CommandError, CommandResult};
use crate::clients::surroundings;
use crate::loops::driver::driven;
use crate::loops::session::SessionLoop;
use crate::loops::session::guard::guard_id;
use crate::show::{exit, terminal};

#[derive(clap::Args)]
#[command(after_help = "Example:\n  ralph blocked \"the gate needs a database that is not here\"\n\n\
For an agent in a loop or a guarded session: if a gate is wrong or the task is impossible. \
<blocked>WHY</blocked>, alone on a line of its last message, does the same.")]
pub(super) struct Arguments {
    /// Why the task cannot be done, for the user
    #[arg(value_name = "WHY", required = true)]
    why: Vec<String>,
}

pub(super) fn run(arguments: &Arguments) -> CommandResult {
    let why = honest_exit::reason(&arguments.why.join(" ")).ok_or_else(|| {
        CommandError::new(exit::USAGE, "no reason given")
            .hint("say what stands in the way: `ralph blocked \"…\"`")
    })?;
    let place = CommandContext::here(None)?;
    let Some(id) = open_loop(&place)? else {
        return Err(CommandError::new(
            exit::USAGE,
            "there is no open loop of this agent here; nothing was recorded",
        )
        .hint("tell the user directly"));
    };
    place.loop_of(&id).append(&[Event::AgentBlocked { why }])?;
    terminal::print("Recorded. Stop now: the loop ends there, and the user decides.");
    Ok(ExitCode::SUCCESS)
}

/// The loop that this agent works in: the driver's, its session's, or its session's guard.
fn open_loop(place: &CommandContext) -> Result<Option<LoopId>, CommandError> {
    if let Some(id) = driven::loop_of_agent(&place.home, &place.repo_home) {
        return Ok(Some(id));
    }
    let Some(session) = surroundings::agent_session() else { return Ok(None) };
    if let Some(found) =
        SessionLoop::settle_of(&place.home, &session)?.filter(|found| found.state.is_running())
    {
        return Ok(Some(found.id));
    }
    let guard = guard_id(&session);
    let is_guarded = place.state_of(&guard)?.watch.is_some();
    Ok(is_guarded.then_some(guard))
}
