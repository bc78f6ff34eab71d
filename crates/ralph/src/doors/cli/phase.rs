//! `ralph phase`: where this branch stands on the way to a merged pull request, for scripts.

use std::process::ExitCode;

use ralph_core::model::ship::ShipPhase;
use serde_json::json;

use super::context::CommandContext;
use super::{CommandError, CommandResult};
use crate::checks::ship;
use crate::forge::ForgeError;
use crate::show::{exit, terminal};
use crate::store::effective_gates::GatesLookup;
use crate::sys::env;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str =
    "Phases: p0 no open pull request, p1 CI failed, pending CI has not finished, p2 CI passed, merged,
unknown if `gh` is missing, fails or is logged out. PHASE_OVERRIDE=p1 prints that phase without a look.
Exit code: 0, also for `unknown`; 2 usage.";

pub(super) fn run(arguments: &Arguments) -> CommandResult {
    let (phase, error) = match env::text("PHASE_OVERRIDE").filter(|name| !name.trim().is_empty()) {
        Some(name) => {
            let phase = ShipPhase::named(&name).ok_or_else(|| {
                CommandError::new(exit::USAGE, "PHASE_OVERRIDE is not a phase")
                    .hint("use p0, p1, pending, p2, merged or unknown")
            })?;
            (phase, None)
        }
        None => look()?,
    };
    let action = error.as_ref().map_or(phase.action(), |error| error.next.as_str());
    let description = match &error {
        Some(error) => format!("{}: {}", phase.description(), error.what),
        None => phase.description().to_owned(),
    };
    if arguments.json {
        terminal::json(&json!({"phase": phase.code(), "description": description, "action": action}));
    } else {
        terminal::print(format_args!("PHASE: {}", phase.code()));
        terminal::print(format_args!("DESCRIPTION: {description}"));
        terminal::print(format_args!("ACTION: {action}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn look() -> Result<(ShipPhase, Option<ForgeError>), CommandError> {
    let place = CommandContext::here(None)?;
    place.repo_home.create()?;
    let no_ci = match place.lookup_gates()? {
        GatesLookup::Effective(effective) => effective.config.ship.no_ci,
        GatesLookup::Nothing | GatesLookup::Untrusted(_) | GatesLookup::Revoked => false,
    };
    Ok(match ship::branch_on_forge(&place.repo.root, place.repo_home.dir()) {
        Ok(seen) => (ShipPhase::of(Some(&seen), no_ci), None),
        Err(error) => (ShipPhase::Unknown, Some(error)),
    })
}
