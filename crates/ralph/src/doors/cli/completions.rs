//! `ralph completions`: the script that lets a shell ask ralph itself, so that gates, agents and loops are offered too.
//!
//! The shell calls ralph with [`ASKED_BY`] set. Nothing is written then, no gate runs, and a repo that cannot be read just
//! has no candidates.

use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use ralph_core::clients::list;

use super::context::CommandContext;
use super::ls::LoopList;
use super::{CommandError, CommandResult};
use crate::show::{exit, terminal};
use crate::store::effective_gates::{self, GatesLookup};

/// The variable by which a shell asks for candidates.
const ASKED_BY: &str = "RALPH_COMPLETE";

/// More loops than anyone reads in a menu.
const MOST_LOOPS: usize = 50;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  ralph completions bash > ~/.local/share/bash-completion/completions/ralph
  ralph completions zsh > ~/.zfunc/_ralph        with `fpath+=~/.zfunc` before `compinit`
  ralph completions fish > ~/.config/fish/completions/ralph.fish")]
pub(super) struct Arguments {
    /// The shell
    #[arg(value_parser = ["bash", "elvish", "fish", "powershell", "zsh"])]
    shell: String,
}

pub(super) fn run(arguments: &Arguments) -> CommandResult {
    let shells = Shells::builtins();
    let unknown = || CommandError::new(exit::USAGE, format!("unknown shell `{}`", arguments.shell));
    let shell = shells.completer(&arguments.shell).ok_or_else(unknown)?;
    let mut text = Vec::new();
    shell.write_registration(ASKED_BY, "ralph", "ralph", "ralph", &mut text)?;
    Ok(terminal::print_whole(&text))
}

/// Answers a shell that asks for candidates; returns if none does.
pub(super) fn answer_shell() {
    CompleteEnv::with_factory(super::definition).var(ASKED_BY).bin("ralph").complete();
}

/// The gates of this repo.
pub(super) fn gates() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let Ok(place) = CommandContext::here(None) else { return Vec::new() };
        let config = match place.lookup_gates() {
            Ok(GatesLookup::Effective(effective)) => effective.config,
            Ok(GatesLookup::Untrusted(file)) => {
                effective_gates::parse(file.layout, &file.text, &place.settings().defaults())
                    .unwrap_or_default()
            }
            _ => return Vec::new(),
        };
        let candidate = |name: &str, about: &str| {
            CompletionCandidate::new(terminal::plain(name)).help(Some(terminal::plain(about).into()))
        };
        config.gates.iter().map(|gate| candidate(gate.name.as_str(), &gate.run)).collect()
    })
}

/// The agents that `ralph loop` can run here.
pub(super) fn agents() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let mut names: Vec<String> = list::built_in().into_iter().map(|profile| profile.name).collect();
        if let Ok(place) = CommandContext::here(None) {
            names.extend(place.settings().user.agents.iter().map(|profile| profile.name.clone()));
            if let Ok(GatesLookup::Effective(effective)) = place.lookup_gates() {
                names.extend(effective.config.agents.iter().map(|profile| profile.name.clone()));
            }
        }
        names.into_iter().map(|name| CompletionCandidate::new(terminal::plain(name))).collect()
    })
}

/// The newest loops of this repo, by their short ids, with their tasks.
pub(super) fn loops() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let list = CommandContext::here(None).and_then(|place| LoopList::newest(&place, MOST_LOOPS));
        let Ok(list) = list else { return Vec::new() };
        let about = |row: &ralph_core::say::loop_row::LoopRow| {
            let task: String = row.task.chars().take(60).collect();
            format!("{}: {}", row.state, if task.is_empty() { row.agent.as_str() } else { task.as_str() })
        };
        list.rows()
            .map(|row| {
                CompletionCandidate::new(row.short.as_str()).help(Some(terminal::plain(about(row)).into()))
            })
            .collect()
    })
}
