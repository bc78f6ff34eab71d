//! `ralph status`: an overview of gates, trust and loops.

use std::process::ExitCode;

use ralph_core::ledger::event::Subject;
use ralph_core::ledger::facts::DefinitionStatus;
use ralph_core::ledger::state::{State, Status};
use ralph_core::model::duration;
use ralph_core::model::id::LoopId;
use ralph_core::model::language::Lang;
use ralph_core::model::limits::{Limits, WithOrigin};
use ralph_core::model::verdict::Verdict;
use ralph_core::say::loop_texts::{self, LoopTexts};
use ralph_core::say::words;
use serde_json::{Value, json};

use super::context::CommandContext;
use super::ls::{self, LoopList};
use super::{CommandError, CommandResult};
use crate::checks::tasks;
use crate::loops::driver::driven::DrivenLoop;
use crate::show::language;
use crate::show::terminal::{self, BAD, FAINT, GOOD, ODD, STRONG, paint};
use crate::store::effective_gates::{EffectiveGates, GatesLookup};
use crate::store::ledger::{self, WholeLedger};
use crate::sys::clock;

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  ralph status          gates, trust and the newest loops of this repo\n  \
ralph status k3f9     one loop"
)]
pub(super) struct Arguments {
    /// Only this loop: its id, the beginning of it, or words of its task
    #[arg(add = super::completions::loops())]
    r#loop: Option<String>,
    /// Print one JSON object on stdout, for scripts
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> CommandResult {
    let place = CommandContext::here(None)?;
    let found = place.lookup_gates()?;
    let only = match &arguments.r#loop {
        Some(word) => Some(place.named_loop(Some(word))?),
        None => None,
    };
    if arguments.json {
        let loops = all_loops(&place, only)?;
        terminal::json(&as_json(&place, &found, &loops));
    } else {
        show_repo(&place, &found);
        show_loops(&place, only.as_ref())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The named loop, or every one.
fn all_loops(
    place: &CommandContext,
    only: Option<LoopId>,
) -> Result<Vec<(LoopId, WholeLedger)>, CommandError> {
    let is_named = only.is_some();
    let ids = only.map_or_else(|| place.repo_home.loops(), |id| vec![id]);
    let mut loops = Vec::with_capacity(ids.len());
    for id in ids {
        let reading = place.loop_of(&id).lines()?;
        // A guarded session has no loop before its first judged stop.
        if reading.state.subject.is_some() || is_named {
            loops.push((id, reading));
        }
    }
    Ok(loops)
}

fn row(name: &str, text: impl std::fmt::Display) {
    terminal::print(format_args!("{}  {text}", paint(FAINT, format!("{name:8}"))));
}

fn show_repo(place: &CommandContext, found: &GatesLookup) {
    row("repo", paint(STRONG, place.repo.root.display()));
    for unused in place.repo.unused_configs() {
        row("note", paint(ODD, format!("{unused} also exists and is ignored")));
    }
    match found {
        GatesLookup::Nothing => row("gates", paint(ODD, "none: no ralph.yaml found; nothing is blocked")),
        GatesLookup::Untrusted(file) => {
            row(
                "gates",
                paint(
                    ODD,
                    format!(
                        "{} is not accepted: no gate runs, nothing is blocked; run `ralph trust`",
                        file.path
                    ),
                ),
            );
        }
        GatesLookup::Revoked => {
            row("gates", paint(ODD, "trust was revoked: no gate runs; accept again with `ralph trust`"));
        }
        GatesLookup::Effective(effective) => show_effective(place, effective),
    }
}

fn show_effective(place: &CommandContext, effective: &EffectiveGates) {
    let config = &effective.config;
    let names = config.gates.iter().map(|gate| terminal::plain(&gate.name)).collect::<Vec<_>>().join(", ");
    let nothing = "none: the task's completion markers are checked; without any, nothing is blocked";
    row(
        "gates",
        if !config.enabled {
            "disabled by `enabled: false`"
        } else if names.is_empty() {
            nothing
        } else {
            &names
        },
    );
    row("from", format_args!("{} ({} layout)", effective.layout.data().config, effective.layout.data().name));
    let accepted = place.accepted().unwrap_or_default();
    if let Some(acceptance) = accepted.iter().rev().find(|a| Some(&a.sha256) == effective.sha256.as_ref()) {
        let when = acceptance.at.to_zoned(clock::zone()).strftime("%Y-%m-%d %H:%M").to_string();
        row("accepted", format_args!("{when} by {}", acceptance.by));
    }
    match (&effective.broken, &effective.definition_status) {
        (Some(broken), _) => row("problem", paint(BAD, format!("{}: {}", broken.path, broken.problem))),
        (None, DefinitionStatus::Accepted) => {}
        (None, _) => row(
            "problem",
            paint(
                BAD,
                "the file differs from the accepted one: nothing ends verified; run `ralph trust --show`",
            ),
        ),
    }
    row("guards", config.guard.names().join(", "));
    row("budget", budget(&place.settings().limits(effective.layout, &config.budget)));
    let timeout = &place.settings().gate_timeout;
    row("timeout", with_origin(&duration::show(timeout.value), timeout));
}

fn with_origin<T>(text: &str, value: &WithOrigin<T>) -> String {
    format!("{text} {}", paint(FAINT, format!("({})", value.origin)))
}

fn budget(limits: &Limits) -> String {
    let mut parts = vec![
        format!("{} attempts", with_origin(&limits.attempts.value.to_string(), &limits.attempts)),
        format!("{} consecutive errors", with_origin(&limits.errors.value.to_string(), &limits.errors)),
        format!(
            "then {}",
            with_origin(&format!("{:?}", limits.on_exhausted.value).to_lowercase(), &limits.on_exhausted)
        ),
    ];
    if let Some(clock) = limits.clock.value {
        parts.push(format!("released after {}", with_origin(&duration::show(clock), &limits.clock)));
    }
    if let Some(stale) = limits.stale_after.value {
        parts.push(format!("reset after {} idle", with_origin(&duration::show(stale), &limits.stale_after)));
    }
    parts.join(", ")
}

/// The newest loops, one line each; what is open with its progress.
fn show_loops(place: &CommandContext, only: Option<&LoopId>) -> Result<(), CommandError> {
    let list = match only {
        Some(id) => LoopList::of(place, id)?,
        None => {
            show_verify(place)?;
            LoopList::newest(place, ls::USUAL)?
        }
    };
    if list.loops.is_empty() {
        row("loops", "none yet");
        return Ok(());
    }
    terminal::print("");
    list.show(|row, state| {
        let mut more = Vec::new();
        if state.is_open() || only.is_some() {
            let lang = language::of_loop(state);
            more.push(driven(&row.id, state).unwrap_or_else(|| status_words(state, lang)));
            more.extend(lines(place, state, lang));
        }
        if let Ok(WholeLedger { damage: Some(damage), .. }) = place.loop_of(&row.id).lines() {
            more.push(paint(BAD, format!("ledger damaged at line {}: {}", damage.line, damage.what)));
        }
        more
    });
    Ok(())
}

/// How the last `ralph verify` ended.
fn show_verify(place: &CommandContext) -> Result<(), CommandError> {
    let state = place.state_of(&ledger::verify_loop())?;
    if let Some(last) = &state.last {
        let lang = language::of_loop(&state);
        let when = paint(FAINT, terminal::ago(last.at, clock::now()));
        let reason = terminal::plain(words::reason_in(&last.reason, lang));
        row("verify", format_args!("{}  {reason}  {when}", status_words(&state, lang)));
    }
    Ok(())
}

/// Which process drives an open driven loop.
fn driven(id: &LoopId, state: &State) -> Option<String> {
    let is_driven = state.subject == Some(Subject::Driver) && state.status == Status::Running;
    let found = is_driven.then(|| DrivenLoop { id: id.clone(), state: state.clone() })?;
    Some(match found.driven_by() {
        Some(process) => paint(ODD, format!("driven by process {process}")),
        None => paint(BAD, "open but not running; continue with `ralph resume`"),
    })
}

fn status_words(state: &State, lang: Lang) -> String {
    let plain = state.subject == Some(Subject::Plain);
    let text = loop_texts::status_line(state, lang);
    match state.status {
        Status::Fresh => paint(FAINT, text),
        Status::Running if plain => paint(BAD, "not verified"),
        Status::Running => paint(ODD, text),
        Status::Ended { verdict: Verdict::Verified } => paint(GOOD, text),
        Status::Ended {
            verdict: Verdict::Passing | Verdict::Unchanged | Verdict::Claimed | Verdict::Cancelled,
        } => paint(ODD, text),
        Status::Paused { .. } | Status::Ended { .. } => paint(BAD, text),
    }
}

/// Further lines about a loop: for a session's loop, its progress.
fn lines(place: &CommandContext, state: &State, lang: Lang) -> Vec<String> {
    if let Some(goal) = &state.goal {
        let tasks = goal.list.as_ref().map(|list| tasks::read(&place.repo.root, list));
        let rows = LoopTexts { state, tasks: tasks.as_ref(), lang }.rows();
        return rows
            .into_iter()
            .map(|(label, text)| format!("{} {}", paint(FAINT, format!("{label}:")), terminal::plain(text)))
            .collect();
    }
    let Some(last) = &state.last else { return Vec::new() };
    let task = state.task.as_ref().map(|task| format!(" ({task})")).unwrap_or_default();
    vec![terminal::plain(format!("{}{task}", words::reason_in(&last.reason, lang)))]
}

fn as_json(place: &CommandContext, found: &GatesLookup, loops: &[(LoopId, WholeLedger)]) -> Value {
    let (state, effective) = match found {
        GatesLookup::Nothing => ("no_config", None),
        GatesLookup::Untrusted(_) => ("untrusted", None),
        GatesLookup::Revoked => ("revoked", None),
        GatesLookup::Effective(effective) => (effective_word(effective), Some(effective)),
    };
    json!({
        "root": place.repo.root,
        "trust": state,
        "config": effective.map(|effective| effective.layout.data().config),
        "unused_configs": place.repo.unused_configs(),
        "definition": effective.and_then(|effective| effective.sha256.as_ref()),
        "accepted": place.accepted().unwrap_or_default(),
        "gates": effective.map(|effective| &effective.config.gates),
        "guard": effective.map(|effective| &effective.config.guard),
        "limits": effective.map(|effective| place.settings().limits(effective.layout, &effective.config.budget)),
        "gate_timeout": {
            "value": duration::seconds::serialize(&place.settings().gate_timeout.value, serde_json::value::Serializer).ok(),
            "origin": place.settings().gate_timeout.origin,
        },
        "problem": effective.and_then(|effective| effective.broken.as_ref()).map(|broken| &broken.problem),
        "loops": loops.iter().map(|(id, reading)| json!({
            "id": id,
            "state": state_for_scripts(&reading.state),
            "damage": reading.damage.as_ref().map(|damage| format!("line {}: {}", damage.line, damage.what)),
        })).collect::<Vec<_>>(),
    })
}

fn effective_word(effective: &EffectiveGates) -> &'static str {
    match (&effective.broken, &effective.definition_status) {
        (Some(_), _) => "broken_config",
        (None, DefinitionStatus::Accepted) => "accepted",
        (None, DefinitionStatus::AcceptedSince) => "accepted_since",
        (None, DefinitionStatus::Changed { .. }) => "changed",
        (None, DefinitionStatus::Revoked) => "revoked",
    }
}

/// The state, with the most requested values under names of their own.
fn state_for_scripts(state: &State) -> Value {
    let mut value = json!(state);
    if let Value::Object(fields) = &mut value {
        fields.insert("errors".into(), json!(state.errors()));
        if state.paused().is_some() {
            fields.insert("status".into(), json!({"status": "paused"}));
        }
        fields.insert("paused".into(), json!(state.paused()));
        fields.insert("paused_at".into(), json!(state.paused_since()));
    }
    value
}
