//! `ralph hook exit-code --until pr|merged`: may the work end? For scripts that know only exit codes: 0 it may, 2 it may not,
//! with the first thing that is missing on stderr. 1: it cannot be told, and nothing is blocked.
//!
//! It looks, runs the gates and changes nothing: it pushes, opens and merges nothing.

use std::process::ExitCode;

use ralph_core::ledger::decide::Decision;
use ralph_core::ledger::ship::ShippedBy;
use ralph_core::model::goal::Goal;
use ralph_core::model::id::LoopId;
use ralph_core::model::preset;
use ralph_core::model::ship::{ShipAction, ShipPlan, Until};
use ralph_core::model::verdict::{Reason, Verdict};
use ralph_core::say::words;

use super::context::CommandContext;
use super::{CommandError, CommandResult, verify};
use crate::checks::gates::environment::GateEnvironment;
use crate::checks::ship::{self, ShipRequest, Shipping, ShippingOptions};
use crate::loops::judge::{JudgeCase, JudgeOptions, NoObserver};
use crate::loops::session::start::accepted_gates;
use crate::show::{exit, terminal};
use crate::store::effective_gates::EffectiveGates;
use crate::sys::proc::StopRequest;

/// Blocked, as hooks of clients say it.
const BLOCKED: u8 = 2;

pub(super) fn run(until: Until) -> CommandResult {
    let place = CommandContext::here(None)?;
    place.repo_home.create()?;
    let effective =
        accepted_gates(place.lookup_gates()?).unwrap_or_else(EffectiveGates::nothing).for_shipping();
    let id = LoopId::new("exit-code");
    let request = ShipRequest {
        until,
        settings: &effective.config.ship,
        by_promise: true,
        id: &id,
        root: &place.repo.root,
        scratch: place.repo_home.dir(),
    };
    let (plan, _) = ship::prepare(&request)
        .map_err(|error| CommandError::new(exit::NOT_VERIFIED, error.what).hint(error.next))?;
    let decision = judge(&place, &effective, plan, until)?;
    let (what, next) = match decision {
        Decision::Allow { verdict: Verdict::Verified | Verdict::Claimed, .. } => {
            return Ok(ExitCode::SUCCESS);
        }
        Decision::Allow { reason, .. } | Decision::Block { reason, .. } => match reason {
            Reason::ShipUnmet { what, next, .. } => (what, next),
            Reason::NotEvaluated { trouble } => {
                return Err(CommandError::new(exit::NOT_VERIFIED, trouble.to_string()));
            }
            other => (words::reason(&other), "fix it and stop again".to_owned()),
        },
        Decision::Wait { what, .. } => (format!("waiting for {what}"), "look again later".to_owned()),
        Decision::Act(ShipAction::Merge { number, .. }) => (
            format!("pull request #{number} is not merged"),
            format!("merge it: `gh pr merge {number} --squash --delete-branch`"),
        ),
        Decision::Act(_) | Decision::Prove | Decision::Gather | Decision::Ignore(_) => {
            return Err(CommandError::new(exit::NOT_VERIFIED, "nothing was judged"));
        }
    };
    terminal::remark(format_args!("{what}"));
    terminal::remark(format_args!("next: {next}"));
    Ok(ExitCode::from(BLOCKED))
}

fn judge(
    place: &CommandContext,
    effective: &EffectiveGates,
    plan: ShipPlan,
    until: Until,
) -> Result<Decision, CommandError> {
    let goal = Goal {
        task: String::new(),
        promise: None,
        list: None,
        archive: false,
        lang: None,
        ship: Some(Box::new(plan)),
        proof: None,
        accept: Vec::new(),
    };
    let shipping = Shipping::new(ShippingOptions {
        goal: &goal,
        by: ShippedBy::Agent,
        root: &place.repo.root,
        scratch: place.repo_home.dir(),
        logs: place.repo_home.dir().join("logs"),
        secrets: GateEnvironment::new(&place.settings().user.keep_env, &place.repo).secrets,
        has_gates: effective.has_gates(),
        gates: Vec::new(),
        stop: &StopRequest::new(),
    });
    let case =
        JudgeCase { shipping, preset: preset::of_drive(until), ..verify::verify_case(place, effective) };
    let judged = case.run_without_verdict(&JudgeOptions::without_deadline(), &mut NoObserver)?;
    Ok(judged.decision)
}
