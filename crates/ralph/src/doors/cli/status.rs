//! `ralph status`: what is, at a glance.

use std::process::ExitCode;

use ralph_core::ledger::event::Subject;
use ralph_core::ledger::facts::Standing;
use ralph_core::ledger::state::{State, Status};
use ralph_core::model::duration;
use ralph_core::model::id::LoopId;
use ralph_core::model::language::Lang;
use ralph_core::model::limits::{Limits, Sourced};
use ralph_core::model::verdict::Verdict;
use ralph_core::say::telling::{self, Telling};
use serde_json::{Value, json};

use super::Done;
use super::context::Place;
use crate::checks::tasks;
use crate::loops::driver::driven::DrivenLoop;
use crate::show::language;
use crate::show::terminal::{self, BAD, FAINT, GOOD, ODD, STRONG, paint};
use crate::store::effective_gates::{Found, InForce};
use crate::store::ledger::Whole;
use crate::sys::clock;

#[derive(clap::Args)]
#[command(after_help = "Examples:\n  ralph status          gates, trust and loops of this repo\n  \
ralph status check-3f one loop, by the beginning of its id")]
pub(super) struct Arguments {
    /// Only this loop (its id or the beginning of it)
    r#loop: Option<String>,
    /// One JSON object on stdout, for scripts
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Done {
    let place = Place::here(None)?;
    let found = place.found()?;
    let ids = match &arguments.r#loop {
        Some(word) => vec![place.named_loop(Some(word))?],
        None => place.workspace.repo_home.loops(),
    };
    let mut loops = Vec::with_capacity(ids.len());
    for id in ids {
        let reading = place.workspace.loop_of(&id).lines()?;
        // A guarded session that nobody judged so far has no loop yet.
        if reading.state.subject.is_some() || arguments.r#loop.is_some() {
            loops.push((id, reading));
        }
    }
    if arguments.json {
        terminal::json(&as_json(&place, &found, &loops));
    } else {
        show_repo(&place, &found);
        show_loops(&place, &loops);
    }
    Ok(ExitCode::SUCCESS)
}

fn row(name: &str, text: impl std::fmt::Display) {
    terminal::say(format_args!("{}  {text}", paint(FAINT, format!("{name:8}"))));
}

fn show_repo(place: &Place, found: &Found) {
    row("repo", paint(STRONG, place.workspace.repo.root.display()));
    for unused in place.workspace.repo.unused_configs() {
        row("note", paint(ODD, format!("{unused} is there too and is not used")));
    }
    match found {
        Found::Nothing => row("gates", paint(ODD, "none: there is no ralph.yaml here; nobody is held")),
        Found::Untrusted(file) => {
            row(
                "gates",
                paint(
                    ODD,
                    format!("{} is not accepted: nothing runs, nobody is held; `ralph trust`", file.path),
                ),
            );
        }
        Found::Revoked => {
            row("gates", paint(ODD, "trust was taken back: nothing runs; `ralph trust` accepts again"));
        }
        Found::InForce(in_force) => show_in_force(place, in_force),
    }
}

fn show_in_force(place: &Place, in_force: &InForce) {
    let config = &in_force.config;
    let names = config.gates.iter().map(|gate| terminal::plain(&gate.name)).collect::<Vec<_>>().join(", ");
    let nothing = "none: completion markers of the task where there are any, else nobody is held";
    row(
        "gates",
        if !config.enabled {
            "switched off by `enabled: false`"
        } else if names.is_empty() {
            nothing
        } else {
            &names
        },
    );
    row("from", format_args!("{} ({} layout)", in_force.layout.data().config, in_force.layout.data().name));
    let accepted = place.accepted().unwrap_or_default();
    if let Some(acceptance) = accepted.iter().rev().find(|a| Some(&a.sha256) == in_force.sha256.as_ref()) {
        let when = acceptance.at.to_zoned(clock::zone()).strftime("%Y-%m-%d %H:%M").to_string();
        row("accepted", format_args!("{when} by {}", acceptance.by));
    }
    match (&in_force.broken, &in_force.standing) {
        (Some(broken), _) => row("trouble", paint(BAD, format!("{}: {}", broken.path, broken.problem))),
        (None, Standing::Accepted) => {}
        (None, _) => row(
            "trouble",
            paint(BAD, "the file is not the accepted one: nothing ends verified; `ralph trust --show`"),
        ),
    }
    row("holds", config.guard.names().join(", "));
    row("budget", budget(&place.workspace.settings().limits(in_force.layout, &config.budget)));
    let timeout = &place.workspace.settings().gate_timeout;
    row("timeout", sourced(&duration::show(timeout.value), timeout));
}

fn sourced<T>(text: &str, value: &Sourced<T>) -> String {
    format!("{text} {}", paint(FAINT, format!("({})", value.origin)))
}

fn budget(limits: &Limits) -> String {
    let mut parts = vec![
        format!("{} attempts", sourced(&limits.attempts.value.to_string(), &limits.attempts)),
        format!("{} errors in a row", sourced(&limits.errors.value.to_string(), &limits.errors)),
        format!(
            "then {}",
            sourced(&format!("{:?}", limits.on_exhausted.value).to_lowercase(), &limits.on_exhausted)
        ),
    ];
    if let Some(clock) = limits.clock.value {
        parts.push(format!("let go after {}", sourced(&duration::show(clock), &limits.clock)));
    }
    if let Some(stale) = limits.stale_after.value {
        parts
            .push(format!("fresh start after {} idle", sourced(&duration::show(stale), &limits.stale_after)));
    }
    parts.join(", ")
}

fn show_loops(place: &Place, loops: &[(LoopId, Whole)]) {
    if loops.is_empty() {
        row("loops", "none yet");
        return;
    }
    terminal::say("");
    for (id, reading) in loops {
        let state = &reading.state;
        let lang = language::of_loop(state);
        let when = state.last_activity.map(|at| terminal::ago(at, clock::now())).unwrap_or_default();
        terminal::say(format_args!(
            "{}  {}  {}",
            paint(STRONG, format!("{:26}", id.as_str())),
            driven(id, state).unwrap_or_else(|| standing(state, lang)),
            paint(FAINT, when)
        ));
        for line in lines(place, state, lang) {
            terminal::say(format_args!("{:26}  {line}", ""));
        }
        if let Some(damage) = &reading.damage {
            terminal::say(format_args!(
                "{:26}  {}",
                "",
                paint(BAD, format!("ledger damaged at line {}: {}", damage.line, damage.what))
            ));
        }
    }
}

/// Who drives a loop of the driver that has not come to rest.
fn driven(id: &LoopId, state: &State) -> Option<String> {
    let is_driven = state.subject == Some(Subject::Driver) && state.status == Status::Running;
    let found = is_driven.then(|| DrivenLoop { id: id.clone(), state: state.clone() })?;
    Some(match found.driven_by() {
        Some(process) => paint(ODD, format!("driven by process {process}")),
        None => paint(BAD, "left open, nobody drives it; `ralph resume` goes on"),
    })
}

fn standing(state: &State, lang: Lang) -> String {
    let plain = state.subject == Some(Subject::Plain);
    let text = telling::standing(state, lang);
    match state.status {
        Status::Fresh => paint(FAINT, text),
        Status::Running if plain => paint(BAD, "not verified"),
        Status::Running => paint(ODD, text),
        Status::Ended { verdict: Verdict::Verified } => paint(GOOD, text),
        Status::Ended { verdict: Verdict::Claimed | Verdict::Cancelled } => paint(ODD, text),
        Status::Paused { .. } | Status::Ended { .. } => paint(BAD, text),
    }
}

/// What there is to say of a loop beside how it stands: of a session's loop all that a person follows it by.
fn lines(place: &Place, state: &State, lang: Lang) -> Vec<String> {
    if let Some(goal) = &state.goal {
        let tasks = goal.list.as_ref().map(|list| tasks::read(&place.workspace.repo.root, list));
        let rows = Telling { state, tasks: tasks.as_ref(), lang }.rows();
        return rows
            .into_iter()
            .map(|(label, text)| format!("{} {}", paint(FAINT, format!("{label}:")), terminal::plain(text)))
            .collect();
    }
    let Some(last) = &state.last else { return Vec::new() };
    let task = state.task.as_ref().map(|task| format!(" ({task})")).unwrap_or_default();
    vec![terminal::plain(format!("{}{task}", telling::sentence(&last.reason, lang)))]
}

fn as_json(place: &Place, found: &Found, loops: &[(LoopId, Whole)]) -> Value {
    let (state, in_force) = match found {
        Found::Nothing => ("no_config", None),
        Found::Untrusted(_) => ("untrusted", None),
        Found::Revoked => ("revoked", None),
        Found::InForce(in_force) => (in_force_word(in_force), Some(in_force)),
    };
    json!({
        "root": place.workspace.repo.root,
        "trust": state,
        "config": in_force.map(|in_force| in_force.layout.data().config),
        "unused_configs": place.workspace.repo.unused_configs(),
        "definition": in_force.and_then(|in_force| in_force.sha256.as_ref()),
        "accepted": place.accepted().unwrap_or_default(),
        "gates": in_force.map(|in_force| &in_force.config.gates),
        "guard": in_force.map(|in_force| &in_force.config.guard),
        "limits": in_force.map(|in_force| place.workspace.settings().limits(in_force.layout, &in_force.config.budget)),
        "gate_timeout": place.workspace.settings().gate_timeout,
        "problem": in_force.and_then(|in_force| in_force.broken.as_ref()).map(|broken| &broken.problem),
        "loops": loops.iter().map(|(id, reading)| json!({
            "id": id,
            "state": state_for_scripts(&reading.state),
            "damage": reading.damage.as_ref().map(|damage| format!("line {}: {}", damage.line, damage.what)),
        })).collect::<Vec<_>>(),
    })
}

fn in_force_word(in_force: &InForce) -> &'static str {
    match (&in_force.broken, &in_force.standing) {
        (Some(_), _) => "broken_config",
        (None, Standing::Accepted) => "accepted",
        (None, Standing::AcceptedSince) => "accepted_since",
        (None, Standing::Changed { .. }) => "changed",
        (None, Standing::Revoked) => "revoked",
    }
}

/// The state with what scripts ask for most, each under a name of its own.
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
