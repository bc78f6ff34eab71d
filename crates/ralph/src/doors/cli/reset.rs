//! `ralph reset`: the count of a loop starts again; a paused loop holds again.

use std::process::ExitCode;

use ralph_core::ledger::event::{Event, ResetCause, Subject};
use ralph_core::model::id::LoopId;
use ralph_core::model::layout::Layout;

use super::context::Place;
use super::{Done, Failure};
use crate::loops::driver::driven::DrivenLoop;
use crate::loops::session::SessionLoop;
use crate::show::{exit, terminal};
use crate::store::exports::state_file::Export;
use crate::store::ledger::{self};
use crate::sys::clock;

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  ralph reset             every loop of this repo that holds somebody or is paused\n  \
ralph reset check-3f    one loop, by the beginning of its id"
)]
pub(super) struct Arguments {
    /// Only this loop (its id or the beginning of it)
    r#loop: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> Done {
    let place = Place::here(None)?;
    // It takes `.gitignore` as it is now, and wakes what a person paused.
    place.only_for_a_person("reset a loop")?;
    // A loop whose file was deleted is cancelled; its count does not start again.
    SessionLoop::settle_open_in(&place.workspace)?;
    let loops = match &arguments.r#loop {
        Some(word) => {
            let id = place.named_loop(Some(word))?;
            if DrivenLoop::at(&place.workspace.repo_home, id.clone())?.is_some() {
                return Err(Failure::new(
                    exit::USAGE,
                    format!("`{id}` is a loop of `ralph loop`: what it used up counts"),
                )
                .hint("`ralph cancel` ends it; `ralph loop` begins another"));
            }
            vec![id]
        }
        None => open_loops(&place)?,
    };
    if loops.is_empty() {
        terminal::say("No loop holds anybody here.");
        return Ok(ExitCode::SUCCESS);
    }
    place.workspace.repo_home.create()?;
    let busy = |error: std::io::Error| Failure::new(exit::NEEDS_PERSON, error.to_string()).hint("try again");
    let lock = place.workspace.repo_home.lock_state().map_err(busy)?;
    for id in loops {
        let now = clock::now();
        let reset = |error: ledger::LedgerError| Failure::new(exit::NOT_VERIFIED, error.to_string());
        let handle = place.workspace.loop_of(&id);
        let mut ledger = handle.open_with(&lock, now).map_err(reset)?;
        ledger.append(now, &[Event::Reset { why: ResetCause::Command }]).map_err(reset)?;
        // A person has looked: what `.gitignore` says now holds for what comes.
        let _none_pinned = std::fs::remove_file(place.workspace.repo_home.ignore_rules(&id));
        let layout = ledger.state().layout.unwrap_or(Layout::Native);
        if ledger.state().goal.is_none() {
            Export::new(&place.workspace.repo_home, &place.workspace.repo.root, layout).remove()?;
        }
        terminal::say(format_args!("{id}: the count starts again."));
    }
    drop(lock);
    for mut found in SessionLoop::settle_open_in(&place.workspace)? {
        found.settle()?;
    }
    Ok(ExitCode::SUCCESS)
}

fn open_loops(place: &Place) -> Result<Vec<LoopId>, Failure> {
    let mut open = Vec::new();
    for id in place.workspace.repo_home.loops() {
        let state = place.workspace.loop_of(&id).state()?;
        let is_open = state.is_open();
        if is_open && state.subject != Some(Subject::Driver) {
            open.push(id);
        }
    }
    Ok(open)
}
