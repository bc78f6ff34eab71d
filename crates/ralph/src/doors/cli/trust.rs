//! `ralph trust`: shows what would run, and accepts it. Nothing from a repo runs before that.

use std::process::ExitCode;

use ralph_core::clients::profile::{Profile, Value as Variable};
use ralph_core::config::{Config, Guard, Reports};
use ralph_core::ledger::facts::DefinitionStatus;
use ralph_core::model::budget::{Attempts, Budget};
use ralph_core::model::duration;
use ralph_core::model::gate::{Gate, GateOrder};
use ralph_core::model::id::{Digest, GateName};
use ralph_core::model::layout::Layout;
use ralph_core::model::visible_text::mark;
use serde_json::{Map, Value, json};

use super::context::CommandContext;
use super::{CommandError, CommandResult};
use crate::clients::surroundings;
use crate::show::exit;
use crate::show::terminal::{self, FAINT, GOOD, ODD, STRONG, paint, snippet};
use crate::store::acceptance::{Acceptance, AcceptedBy};
use crate::store::effective_gates::{self, GatesLookup};
use crate::store::trust::Trust;
use crate::sys::{clock, files};

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  ralph trust                    show the gates, ask, accept (on a terminal)\n  \
ralph trust --show             show them and their SHA-256\n  \
ralph trust --hash SHA256      accept exactly this content without asking (for CI)\n  \
ralph trust --restore          put the accepted definition back after the file was changed"
)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(super) struct Arguments {
    /// Show what would run and its SHA-256, without accepting
    #[arg(long)]
    show: bool,
    /// With --show: print one JSON object
    #[arg(long, requires = "show")]
    json: bool,
    /// Accept without asking if the content has exactly this SHA-256
    #[arg(long, value_name = "SHA256", conflicts_with_all = ["show", "revoke"])]
    hash: Option<String>,
    /// Put the accepted definition back into the file; a copy of the replaced one is kept
    #[arg(long, conflicts_with_all = ["show", "hash", "revoke"])]
    restore: bool,
    /// Revoke everything accepted for this repo
    #[arg(long, conflicts_with = "show")]
    revoke: bool,
}

pub(super) fn run(arguments: &Arguments) -> CommandResult {
    let place = CommandContext::here(None)?;
    if !arguments.show {
        place.refuse_below_agent("accept gates or revoke them")?;
    }
    if arguments.restore {
        return restore(&place);
    }
    if arguments.revoke {
        // Revoked gates guard no later session, and the user would not be notified.
        place.refuse_in_agent_shell("revoke trust")?;
        Trust::revoke(&place.home, &place.repo, clock::now())?;
        terminal::print(
            "Revoked. Nothing from this repo runs until it is accepted again; agents that are blocked stay blocked.",
        );
        return Ok(ExitCode::SUCCESS);
    }
    let offered = OfferedDefinition::of(&place)?;
    if arguments.show {
        offered.show(&place, arguments.json);
        return Ok(ExitCode::SUCCESS);
    }
    match &arguments.hash {
        Some(text) => offered.accept_if(&place, text)?,
        None if terminal::is_interactive() => {
            if !show_and_ask(&place)? {
                return Ok(ExitCode::from(exit::NEEDS_PERSON));
            }
        }
        None => {
            offered.show(&place, false);
            return Err(CommandError::new(
                exit::NEEDS_PERSON,
                "no terminal to ask for confirmation; nothing was accepted",
            )
            .hint(match surroundings::agent_shell() {
                Some(_) => "run `ralph trust` in your own terminal".to_owned(),
                None => format!("to accept exactly this content: ralph trust --hash {}", offered.sha256),
            }));
        }
    }
    let effect = match accepted_by(&place) {
        AcceptedBy::PersonAtATerminal => "These gates are effective now, even if the file changes later.",
        AcceptedBy::Script => {
            "Effective for agents that are not blocked yet; for a blocked one, run `ralph trust` in your own terminal."
        }
        AcceptedBy::AgentsShell { .. } => {
            "Marked as accepted by an agent's shell: it counts for no stop of that session. Confirm it \
             with `ralph trust` in your own terminal."
        }
    };
    terminal::print(format_args!("{} {effect}", paint(GOOD, "Accepted.")));
    Ok(ExitCode::SUCCESS)
}

/// Writes the newest accepted definition over the file, whatever it says now.
fn restore(place: &CommandContext) -> CommandResult {
    let nothing = || {
        CommandError::new(exit::USAGE, "nothing was accepted in this repo, so there is nothing to put back")
            .hint("accept the current file with `ralph trust`")
    };
    let newest = place.accepted()?.last().ok_or_else(nothing)?;
    let text = effective_gates::accepted_text(&place.home, &newest.sha256)?;
    let name = newest.layout.data().config;
    let path = place.repo.root.join(name);
    if !files::lies_below(&path, &place.repo.root) {
        let what = format!("the folder of {name} is a link out of the repo; nothing was changed");
        return Err(CommandError::new(exit::NEEDS_PERSON, what).hint("remove the link, then try again"));
    }
    // A link is replaced, never followed.
    let is_link = path.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
    let now = if is_link { None } else { files::read_foreign(&path)? };
    if now.as_deref() == Some(text.as_slice()) {
        terminal::print(format_args!("{name} is the accepted definition already."));
        return Ok(ExitCode::SUCCESS);
    }
    place.repo_home.create()?;
    if let Some(now) = &now {
        files::replace(&place.repo_home.replaced_definition(), now)?;
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    if is_link {
        std::fs::remove_file(&path)?;
    }
    std::fs::write(&path, &text)?;
    terminal::print(format_args!(
        "{} {name} is the accepted definition again ({}).",
        paint(GOOD, "Restored."),
        newest.sha256.short()
    ));
    if now.is_some() {
        let copy = place.repo_home.replaced_definition();
        terminal::print(format_args!("The replaced file was copied to {}", copy.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows the gates and asks the user at the terminal.
pub(super) fn show_and_ask(place: &CommandContext) -> Result<bool, CommandError> {
    let offered = OfferedDefinition::of(place)?;
    offered.show(place, false);
    let yes = terminal::ask("\nRun these commands in this folder whenever a guarded agent stops?");
    if yes {
        offered.accept(place)?;
    }
    Ok(yes)
}

/// Whether the current config is accepted already.
pub(super) fn is_accepted(place: &CommandContext) -> Result<bool, CommandError> {
    Ok(OfferedDefinition::of(place)?.acceptance(place).is_some())
}

/// Accepts the current config; for a command that has just written it and asked.
pub(super) fn accept_as_it_is(place: &CommandContext) -> Result<(), CommandError> {
    OfferedDefinition::of(place)?.accept(place)
}

/// Who is accepting, as far as can be detected.
fn accepted_by(place: &CommandContext) -> AcceptedBy {
    let above = || place.agent_above().map(|above| above.name().to_owned());
    match surroundings::agent_shell().map(str::to_owned).or_else(above) {
        Some(client) => AcceptedBy::AgentsShell { client, session: surroundings::agent_session() },
        None if terminal::is_interactive() => AcceptedBy::PersonAtATerminal,
        None => AcceptedBy::Script,
    }
}

/// The definition to accept.
struct OfferedDefinition {
    layout: Layout,
    text: Vec<u8>,
    sha256: Digest,
    config: Config,
}

impl OfferedDefinition {
    fn of(place: &CommandContext) -> Result<Self, CommandError> {
        let (layout, text) = match (place.repo.config()?, place.repo.layout_by_folder()) {
            (Some(file), _) => (file.layout, file.text),
            (None, Some(layout)) => (layout, Vec::new()),
            (None, None) => {
                return Err(CommandError::new(exit::USAGE, "nothing to accept: no ralph.yaml found")
                    .hint("create one with `ralph init`"));
            }
        };
        let config =
            effective_gates::parse(layout, &text, &place.settings().defaults()).map_err(|broken| {
                terminal::remark(snippet::draw(broken.path, &broken.text, &broken.problem));
                CommandError::new(exit::USAGE, format!("cannot parse {}; nothing was accepted", broken.path))
            })?;
        Ok(Self { layout, sha256: Digest::of(&text), text, config })
    }

    fn acceptance<'a>(&self, place: &'a CommandContext) -> Option<&'a Acceptance> {
        let accepted = place.accepted().ok()?;
        accepted.iter().find(|acceptance| acceptance.sha256 == self.sha256)
    }

    fn show(&self, place: &CommandContext, as_json: bool) {
        let accepted = self.acceptance(place);
        let config = self.layout.data().config;
        if as_json {
            terminal::json(&json!({
                "root": place.repo.root,
                "config": config,
                "layout": self.layout,
                "sha256": self.sha256,
                "accepted": accepted,
                "gates": self.config.gates,
                "guard": self.config.guard,
                "agents": self.config.agents,
                "enabled": self.config.enabled,
                "budget": budget(&self.config.budget).into_iter().map(|part| (part.key, part.json)).collect::<Map<_, _>>(),
                "reports": self.config.reports.map(Reports::word),
            }));
            return;
        }
        terminal::print(format_args!(
            "{} {}",
            paint(STRONG, config),
            paint(FAINT, format!("in {}", mark(&place.repo.root.to_string_lossy())))
        ));
        for gate in &self.config.gates {
            show_gate(gate);
        }
        if self.config.gates.is_empty() {
            terminal::print("  no gates: the task's completion markers are checked, if there are any");
        }
        terminal::print(format_args!("  guards: {}", mark(&self.config.guard.names().join(", "))));
        let budget = budget(&self.config.budget);
        if !budget.is_empty() {
            let parts: Vec<String> = budget.into_iter().map(|part| part.text).collect();
            terminal::print(format_args!("  budget: {}", parts.join(", ")));
        }
        for agent in &self.config.agents {
            show_agent(agent);
        }
        if let Some(reports) = self.config.reports {
            terminal::print(format_args!("  reports: {}", reports.word()));
        }
        terminal::print(format_args!("  SHA-256 {}", self.sha256));
        match accepted {
            Some(acceptance) => {
                let when = acceptance.at.to_zoned(clock::zone()).strftime("%Y-%m-%d %H:%M").to_string();
                terminal::print(format_args!("  {} on {when} by {}", paint(GOOD, "accepted"), acceptance.by));
            }
            None => terminal::print(format_args!("  {}", paint(ODD, "not accepted"))),
        }
        if !self.config.enabled {
            terminal::print(format_args!("  {}", paint(ODD, "disabled by `enabled: false`: no gate runs")));
        }
        if let Ok(GatesLookup::Effective(effective)) = place.lookup_gates()
            && let DefinitionStatus::Changed { difference } = &effective.definition_status
        {
            let difference = mark(difference.trim_end());
            terminal::print(format_args!(
                "\nThe accepted definition stays effective. The difference:\n{difference}"
            ));
        }
    }

    fn accept_if(&self, place: &CommandContext, text: &str) -> Result<(), CommandError> {
        let Some(expected) = Digest::parse(text) else {
            return Err(CommandError::new(exit::USAGE, format!("`{text}` is not a SHA-256"))
                .hint("`ralph trust --show` prints it"));
        };
        if expected != self.sha256 {
            return Err(CommandError::new(
                exit::NEEDS_PERSON,
                format!("the SHA-256 is {}, not {expected}; nothing was accepted", self.sha256),
            ));
        }
        self.accept(place)
    }

    fn accept(&self, place: &CommandContext) -> Result<(), CommandError> {
        let by = accepted_by(place);
        let acceptance = Acceptance {
            sha256: self.sha256.clone(),
            layout: self.layout,
            at: clock::now(),
            by,
            guard: (self.config.guard != Guard::default()).then(|| self.config.guard.clone()),
        };
        place.remember_ignore_rules()?;
        Ok(Trust::accept(&place.home, &place.repo, &self.text, acceptance)?)
    }
}

/// Text of the file, with its lines indented below their heading.
fn shown(text: &str) -> String {
    mark(text).replace('\n', "\n  | ")
}

/// The command, and every option that weakens its result.
fn show_gate(gate: &Gate) {
    let note = if gate.advisory { ", advisory: never blocks" } else { "" };
    let about = format!("({}{note})", duration::show(gate.timeout));
    terminal::print(format_args!("  $ {}  {}", shown(gate.run.trim_end_matches('\n')), paint(FAINT, about)));
    let mut lines = Vec::new();
    if gate.name.as_str() != gate.run.trim() {
        lines.push(format!("name: {}", shown(gate.name.as_str())));
    }
    if !gate.inputs.is_empty() {
        lines.push(format!("inputs: {} (only changes there count)", shown(&gate.inputs.join(", "))));
    }
    if !gate.rerun {
        lines.push("rerun: false (never run on a view of the files)".to_owned());
    }
    if gate.retries > 0 {
        lines.push(format!("retries: {} (a failure is retried)", gate.retries));
    }
    if let Some(results) = &gate.results {
        lines.push(format!("results: {} (names the failures)", shown(&results.to_string())));
    }
    match &gate.order {
        GateOrder::AfterAllAbove => {}
        GateOrder::WithNeighbours => lines.push("parallel: runs together with its neighbours".into()),
        GateOrder::After(names) if names.is_empty() => lines.push("needs: nothing, runs at once".into()),
        GateOrder::After(names) => {
            let names: Vec<&str> = names.iter().map(GateName::as_str).collect();
            lines.push(format!("needs: {}", shown(&names.join(", "))));
        }
    }
    for line in lines {
        terminal::print(format_args!("      {line}"));
    }
}

fn show_agent(agent: &Profile) {
    terminal::print(format_args!("  agent {}: {}", shown(&agent.name), shown(&agent.command())));
    terminal::print(format_args!("      max_iterations: {}", agent.max_iterations));
    if let Some(model) = &agent.model {
        terminal::print(format_args!("      model: {}", shown(model)));
    }
    for (name, value) in &agent.environment {
        let value = match value {
            Variable::Literal(text) => format!("={}", shown(text)),
            Variable::From(other) => format!(" from {}", shown(other)),
            Variable::Unset => " unset".into(),
        };
        terminal::print(format_args!("      environment: {}{value}", shown(name)));
    }
}

/// One limit that the file sets.
struct BudgetPart {
    key: String,
    text: String,
    json: Value,
}

fn budget(budget: &Budget) -> Vec<BudgetPart> {
    let time = |time: Option<std::time::Duration>| time.map_or_else(|| "off".to_owned(), duration::show);
    let mut parts = Vec::new();
    let mut add = |key: &str, label: &str, value: Value| {
        let word = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        parts.push(BudgetPart { key: key.into(), text: format!("{label} {word}"), json: value });
    };
    if let Some(attempts) = budget.attempts {
        let value = match attempts {
            Attempts::AtMost(most) => json!(most),
            Attempts::Unlimited => json!("unlimited"),
        };
        add("attempts", "attempts", value);
    }
    if let Some(errors) = budget.errors {
        add("errors", "consecutive errors", json!(errors));
    }
    if let Some(on_exhausted) = budget.on_exhausted {
        add("on_exhausted", "at the limit:", json!(format!("{on_exhausted:?}").to_lowercase()));
    }
    if let Some(clock) = budget.clock {
        add("clock", "clock", json!(time(clock)));
    }
    if let Some(stale_after) = budget.stale_after {
        add("stale_after", "stale_after", json!(time(stale_after)));
    }
    parts
}
