//! `ralph show`: everything known about one loop.

use std::process::ExitCode;

use ralph_core::ledger::event::{FailureMark, MarkedFailure, Subject};
use ralph_core::ledger::state::State;
use ralph_core::model::duration;
use ralph_core::model::id::LoopId;
use ralph_core::model::short_id::ShortId;
use ralph_core::say::words;
use serde_json::json;

use super::context::CommandContext;
use super::{CommandResult, ls};
use crate::loops::report;
use crate::show::language;
use crate::show::terminal::{self, BAD, FAINT, STRONG, paint};
use crate::sys::clock;

#[derive(clap::Args)]
#[command(after_help = "Examples:\n  ralph show          the most recently active loop\n  \
ralph show k3f9     one loop, by the beginning of its id\n  ralph show login    by words of its task")]
pub(super) struct Arguments {
    /// The loop: its id, the beginning of it, or words of its task [default: the most recently active one]
    #[arg(add = super::completions::loops())]
    r#loop: Option<String>,
    /// Print one JSON object on stdout, for scripts
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> CommandResult {
    let place = CommandContext::here(None)?;
    let id = place.named_loop(arguments.r#loop.as_deref())?;
    let reading = place.loop_of(&id).lines()?;
    let shorts: Vec<ShortId> = place.repo_home.loop_names().map(|id| ShortId::of(&id)).collect();
    let row = ls::row_of(&id, ShortId::of(&id).among(&shorts), &reading.state);
    let report = report::of_loop(&place, &id)?;
    let damage = reading.damage.map(|damage| format!("line {}: {}", damage.line, damage.what));
    if arguments.json {
        let report = report.map(|report| report.json());
        terminal::json(&json!({"loop": row, "report": report, "damage": damage}));
        return Ok(ExitCode::SUCCESS);
    }
    let state = &reading.state;
    let show = |name: &str, text: &str| {
        terminal::print(format_args!("{}  {}", paint(FAINT, format!("{name:10}")), terminal::plain(text)));
    };
    terminal::print(format_args!("{}  {}", paint(STRONG, &row.short), paint(STRONG, &row.shown_state)));
    show("id", id.as_str());
    if !row.task.is_empty() {
        show("task", &row.task);
    }
    show("agent", &row.agent);
    if let Some(began) = state.started_at {
        let at = began.to_zoned(clock::zone()).strftime("%Y-%m-%d %H:%M").to_string();
        show("began", &format!("{at}, took {}", duration::show(row.elapsed)));
    }
    show("iterations", &row.count());
    if let Some(cost) = row.cost_micros {
        show("cost", &cost.to_string());
    }
    match &report {
        Some(report) => {
            terminal::print("");
            report.page().iter().for_each(|line| terminal::print(terminal::painted(line)));
        }
        None => show_last(state),
    }
    if let Some(damage) = &damage {
        terminal::print(paint(BAD, format!("ledger damaged at {damage}")));
    }
    terminal::print("");
    if let Some(written) = report::newest_of(&place, &id) {
        show("report", &written.markdown.display().to_string());
    }
    show("next", &next(&id, state, &row.short));
    Ok(ExitCode::SUCCESS)
}

/// A guarded session or agent: the last judgement with what failed.
fn show_last(state: &State) {
    let Some(last) = &state.last else { return };
    terminal::print("");
    terminal::print(terminal::plain(words::reason_in(&last.reason, language::of_loop(state))));
    for FailureMark { gate, outcome, failures, .. } in &last.failures {
        terminal::print(format_args!("  {} {}", paint(STRONG, gate), paint(BAD, outcome)));
        for MarkedFailure { name, .. } in failures.iter().take(20) {
            terminal::print(format_args!("    {}", terminal::plain(name)));
        }
    }
}

/// The commands that make sense for it.
fn next(id: &LoopId, state: &State, short: &str) -> String {
    let log = format!("`ralph log {short}`");
    let is_driven = state.subject == Some(Subject::Driver);
    match (state.is_running(), state.is_open(), is_driven) {
        _ if *id == crate::store::ledger::verify_loop() => log,
        (true, _, true) => format!("`ralph log {short} -f`, `ralph pause {short}`, `ralph diff {short}`"),
        (true, ..) => format!("{log}, `ralph pause {short}`"),
        (false, true, _) => format!("{log}, `ralph resume {short}`, `ralph cancel {short}`"),
        (false, false, true) => format!("{log}, `ralph diff {short}`"),
        (false, false, false) => log,
    }
}
