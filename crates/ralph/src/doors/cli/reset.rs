//! `ralph reset`: resets the count of a loop; a paused loop blocks again.

use std::process::ExitCode;

use ralph_core::ledger::event::{Event, ResetCause, Subject};
use ralph_core::model::id::LoopId;
use ralph_core::model::layout::Layout;
use ralph_core::model::short_id::ShortId;

use super::context::CommandContext;
use super::{CommandError, CommandResult};
use crate::loops::driver::driven::DrivenLoop;
use crate::loops::session::SessionLoop;
use crate::show::{exit, terminal};
use crate::store::exports::state_file::Export;
use crate::store::ledger::{self};
use crate::sys::clock;

#[derive(clap::Args)]
#[command(after_help = "Examples:\n  ralph reset             every blocking or paused loop of this repo\n  \
ralph reset k3f9        one loop")]
pub(super) struct Arguments {
    /// Only this loop: its id, the beginning of it, or words of its task
    #[arg(add = super::completions::loops())]
    r#loop: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> CommandResult {
    let place = CommandContext::here(None)?;
    // Only the user: it accepts the current `.gitignore` and resumes paused loops.
    place.refuse_in_agent_shell("reset a loop")?;
    // Cancel loops whose file was deleted first; their count is not reset.
    SessionLoop::settle_open_in(&place)?;
    let loops = match &arguments.r#loop {
        Some(word) => {
            let id = place.loop_to_change(word)?;
            if DrivenLoop::at(&place.repo_home, id.clone())?.is_some() {
                return Err(CommandError::new(
                    exit::USAGE,
                    format!("`{id}` was started by `ralph loop` and cannot be reset"),
                )
                .hint("end it with `ralph cancel` and start another with `ralph loop`"));
            }
            vec![id]
        }
        None => open_loops(&place)?,
    };
    if loops.is_empty() {
        terminal::print("No active or paused loop in this repo.");
        return Ok(ExitCode::SUCCESS);
    }
    place.repo_home.create()?;
    let busy =
        |error: std::io::Error| CommandError::new(exit::NEEDS_PERSON, error.to_string()).hint("try again");
    let lock = place.repo_home.lock_state().map_err(busy)?;
    for id in loops {
        let now = clock::now();
        let reset = |error: ledger::LedgerError| CommandError::new(exit::NOT_VERIFIED, error.to_string());
        let handle = place.loop_of(&id);
        let mut ledger = handle.open_with(&lock, now).map_err(reset)?;
        ledger.append(now, &[Event::Reset { why: ResetCause::Command }]).map_err(reset)?;
        // The user's command accepts the current `.gitignore` from here on.
        let _may_be_missing = std::fs::remove_file(place.repo_home.ignore_rules(&id));
        let layout = ledger.state().layout.unwrap_or(Layout::Native);
        if ledger.state().goal.is_none() {
            Export::new(&place.repo_home, &place.repo.root, layout).remove()?;
        }
        terminal::print(format_args!("{}: count reset.", ShortId::of(&id)));
    }
    drop(lock);
    for mut found in SessionLoop::settle_open_in(&place)? {
        found.settle()?;
    }
    Ok(ExitCode::SUCCESS)
}

fn open_loops(place: &CommandContext) -> Result<Vec<LoopId>, CommandError> {
    let mut open = Vec::new();
    for id in place.repo_home.loops() {
        let state = place.loop_of(&id).state()?;
        let is_open = state.is_open();
        if is_open && state.subject != Some(Subject::Driver) {
            open.push(id);
        }
    }
    Ok(open)
}
