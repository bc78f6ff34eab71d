//! `ralph init`: finds the project's gates, shows and tries them, writes `ralph.yaml`, installs the client's hooks, and
//! accepts what it wrote; it can also remove all of it.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use ralph_core::config::detect::{self, Project, Proposal};
use ralph_core::config::{Config, Guard, writes};
use ralph_core::ledger::facts::DefinitionStatus;
use ralph_core::model::config_problem::did_you_mean;
use ralph_core::model::gate::{GateOutcome, GateReport};
use ralph_core::model::id::Digest;
use ralph_core::model::layout::Layout;

use super::context::CommandContext;
use super::takeover::{self, Cleaned, Wanted};
use super::{CommandError, CommandResult, installed_client, other_ralph, trust, verify};
use crate::clients::client::Client;
use crate::clients::installation::{Installation, OwnEntries};
use crate::clients::installed::{Installed, Timeouts, Uninstalled};
use crate::clients::source_systems::{self, SourceSystem};
use crate::clients::{hook_command, list};
use crate::loops::judge::{JudgeOptions, tree_reader};
use crate::show::exit;
use crate::show::terminal::live::GateDisplay;
use crate::show::terminal::{self, FAINT, GOOD, ODD, STRONG, paint, snippet, table};
use crate::store::effective_gates::{self, EffectiveGates};
use crate::store::trust::Trust;
use crate::sys::files;
use crate::sys::{clock, env};

#[derive(clap::Args, Default)]
#[command(after_help = "Examples:\n  ralph init                on a terminal: show, try, ask, write\n  \
ralph init --dry-run      show what would be written\n  \
ralph init --yes          write everything without asking (for scripts)\n  \
ralph init --yes --guard session,check\n                            \
guard sessions that change files, and `check`\n  \
ralph init --from trellis\n                            \
take out the hook of another system, keep a copy, install ralph\n  \
ralph init --uninstall    remove exactly what init added")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(super) struct Arguments {
    /// Show what would be written and run nothing
    #[arg(long)]
    dry_run: bool,
    /// Remove exactly what init added
    #[arg(long, conflicts_with = "dry_run")]
    uninstall: bool,
    /// Write everything without asking
    #[arg(long)]
    yes: bool,
    /// Do not try the proposed gates before writing them
    #[arg(long)]
    no_try: bool,
    /// Write only ralph.yaml and leave the client's settings unchanged
    #[arg(long)]
    no_hooks: bool,
    #[arg(long, help = shared_help())]
    shared: bool,
    /// Leave the client's settings unchanged and show how to install ralph's plugin
    #[arg(long, conflicts_with_all = ["shared", "no_hooks"])]
    plugin: bool,
    #[arg(long, value_name = "SYSTEM", help = from_help(), value_parser = clap::builder::NonEmptyStringValueParser::new())]
    from: Option<String>,
    /// Take every other stop hook out of the client's settings; a copy of each file is kept
    #[arg(long, conflicts_with = "from")]
    replace_hooks: bool,
    /// What to guard: `session` (every session that changes files) and sub-agents by name
    #[arg(long, value_name = "WHO", value_delimiter = ',', value_parser = clap::builder::NonEmptyStringValueParser::new())]
    guard: Vec<String>,
    /// Use this gate instead of the detected ones; can be repeated
    #[arg(long, value_name = "COMMAND")]
    gate: Vec<String>,
}

fn shared_help() -> String {
    let Some((_, installation)) = list::first_installable() else { return String::new() };
    let local = Path::new(installation.local).file_name().unwrap_or_default().display();
    format!("Install the hook in {}, which is shared with your team, instead of {local}", installation.shared)
}

fn from_help() -> String {
    let names = source_systems::names().join(", ");
    format!(
        "Take out the hooks, plugin and commands of the system that you come from; a copy of each file is kept: {names}"
    )
}

/// Finds the gates and asks, without changing the client's settings.
pub(super) fn gates_only() -> CommandResult {
    run(&Arguments { no_hooks: true, ..Arguments::default() })
}

pub(super) fn run(arguments: &Arguments) -> CommandResult {
    let place = CommandContext::here_or_new()?;
    if arguments.uninstall {
        return uninstall(&place);
    }
    if !arguments.dry_run {
        place.refuse_below_agent("accept gates")?;
    }
    let plan = InitPlan::make(&place, arguments)?;
    plan.show(&place);
    if arguments.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    if !arguments.yes && !terminal::is_interactive() {
        return Err(CommandError::new(
            exit::NEEDS_PERSON,
            "no terminal to ask for confirmation; nothing was written",
        )
        .hint("write what is shown above with `ralph init --yes`"));
    }
    if arguments.yes && plan.config.is_none() && !trust::is_accepted(&place)? {
        return Err(CommandError::new(exit::NEEDS_PERSON, "the existing config is not accepted yet; nothing was written")
            .hint("review it with `ralph trust --show`, accept it with `ralph trust` or `ralph trust --hash SHA256`, then run this again"));
    }
    let plan = plan.tried(&place, arguments)?;
    let guarded = guarded_agents(&plan.effective.guard);
    if !arguments.yes
        && !terminal::ask(format_args!("\nWrite this, and run these gates whenever {guarded} stops?"))
    {
        terminal::print("Nothing was written.");
        return Ok(ExitCode::from(exit::NEEDS_PERSON));
    }
    plan.apply(&place)?;
    Ok(ExitCode::SUCCESS)
}

/// The user's choices, asked before anything is shown; without a terminal, flags decide.
struct Choices {
    /// What is guarded; `None` for the default.
    guard: Option<Vec<String>>,
    by: WiredBy,
    others: Wanted,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WiredBy {
    Settings,
    Plugin,
    Nothing,
}

impl Choices {
    fn of(
        place: &CommandContext,
        arguments: &Arguments,
        (client, installation): (&Client, &Installation),
    ) -> Result<Self, CommandError> {
        let asks = !arguments.yes && !arguments.dry_run && terminal::is_interactive();
        let root = &place.repo.root;
        let others = match (&arguments.from, arguments.replace_hooks) {
            (Some(name), _) => Wanted::From(source_system(name)?),
            (None, true) => Wanted::AllStopHooks,
            (None, false) if asks && asks_about_others(installation, root) => Wanted::AllStopHooks,
            (None, false) => Wanted::Nothing,
        };
        let usual = || {
            let team: &[&str] = if terminal::ask(TEAM_QUESTION) { &["teammates", "tasks"] } else { &[] };
            ["session", "check"].iter().chain(team).map(|word| (*word).to_owned()).collect::<Vec<_>>()
        };
        let is_new = place.repo.config()?.is_none();
        let guard = match arguments.guard.as_slice() {
            [] if asks && is_new && terminal::ask_for_the_usual(guard_question(client)) => {
                Some(usual().into_iter().chain(checking_agents(installation, root)).collect())
            }
            [] if is_new => guard_of_system(others, checking_agents(installation, root)),
            [] => None,
            words => Some(words.to_vec()),
        };
        let by = match arguments {
            Arguments { no_hooks: true, .. } => WiredBy::Nothing,
            Arguments { plugin: true, .. } => WiredBy::Plugin,
            Arguments { shared: true, .. } => WiredBy::Settings,
            _ if asks && !terminal::ask_for_the_usual(wiring_question(client)) => WiredBy::Plugin,
            _ => WiredBy::Settings,
        };
        Ok(Self { guard, by, others })
    }
}

fn source_system(name: &str) -> Result<&'static SourceSystem, CommandError> {
    source_systems::find(name).ok_or_else(|| {
        let names = source_systems::names();
        let hint = did_you_mean(name, names.iter().copied(), &format!("use one of: {}", names.join(", ")));
        CommandError::new(exit::USAGE, format!("`{name}` is not a system that init knows")).hint(hint)
    })
}

/// What the other system blocks, and the project's own checking agents; none: the default.
fn guard_of_system(others: Wanted, checking: Vec<String>) -> Option<Vec<String>> {
    let words = others.system().map_or(&[][..], |system| system.guard);
    let words: Vec<String> = match (words, checking.is_empty()) {
        ([], true) => return None,
        ([], false) => vec!["check".into()],
        (words, _) => words.iter().map(|word| (*word).to_owned()).collect(),
    };
    Some(words.into_iter().chain(checking).collect())
}

/// The project's own agents that check work under another name than `check`, as today's Trellis has one.
fn checking_agents(installation: &Installation, root: &Path) -> Vec<String> {
    let names = (installation.agents.names)(root).into_iter();
    names.filter(|name| name.ends_with("-check")).collect()
}

/// Whether the user wants the stop hooks of others taken out.
fn asks_about_others(installation: &Installation, root: &Path) -> bool {
    let staying = takeover::staying(installation, root, Wanted::Nothing);
    if staying.is_empty() {
        return false;
    }
    for (path, hook) in &staying {
        terminal::print(paint(ODD, takeover::describe(path, hook).0));
    }
    terminal::ask("Take these hooks out? A copy of each file is kept.")
}

fn guard_question(client: &Client) -> String {
    format!(
        "Block every {} session that changes files here until the gates pass?\n\
         A session that changes nothing is never blocked; send `stop` as the whole message to pause the guard. \
         No: only the sub-agent `check` is guarded.",
        client.shown_name
    )
}

const TEAM_QUESTION: &str = "Guard agent teams, too (a teammate that goes idle, a task that is completed)?";

fn wiring_question(client: &Client) -> String {
    format!(
        "\nInstall the {} hooks in this project's settings?\n\
         No: install ralph's plugin yourself; the settings stay unchanged.",
        client.shown_name
    )
}

/// As used in questions: `a session that changed files or a sub-agent check`.
fn guarded_agents(guard: &Guard) -> String {
    let agents = guard.agents().join("`, `");
    let agents = (!agents.is_empty()).then(|| format!("a sub-agent `{agents}`"));
    let session = guard.guards_session().then(|| "a session that changed files".to_owned());
    let teammates = guard.guards_teammates().then(|| "a teammate".to_owned());
    let tasks = guard.guards_tasks().then(|| "a team task".to_owned());
    let all: Vec<String> = [session, teammates, tasks, agents].into_iter().flatten().collect();
    if all.is_empty() { "no agent".into() } else { all.join(" or ") }
}

/// What init will do.
struct InitPlan {
    client: &'static Client,
    installation: &'static Installation,
    /// The new `ralph.yaml`; `None` if the repo has a config already.
    config: Option<NewConfig>,
    /// The config that will be effective.
    effective: Config,
    wiring: HookWiring,
    /// Other plugins that block sessions.
    other_loops: Vec<String>,
    /// The config file that is read, and its layout.
    file: (&'static str, Layout),
    others: Wanted,
    /// Settings files without the hooks of others.
    cleaned: Vec<Cleaned>,
}

/// How the client will call ralph.
enum HookWiring {
    Settings(TrialSettings),
    Plugin,
    Nothing,
}

struct NewConfig {
    gates: Vec<Chosen>,
    guard: Option<Vec<String>>,
}

struct Chosen {
    proposal: Proposal,
    /// Data files that it rewrote when it was tried.
    writes: Vec<String>,
    /// Its result when it was tried.
    tried: Option<GateReport>,
}

struct TrialSettings {
    client: &'static Client,
    installation: &'static Installation,
    path: &'static str,
    text: String,
    timeouts: Timeouts,
    /// Set if the gates may not finish before the hook's deadline.
    too_slow: Option<String>,
    raises_cap: bool,
    /// Whether to write a guarded sub-agent, because the project has none.
    check_agent: bool,
    commands: Vec<(&'static str, &'static str)>,
    /// Our command files whose names are taken by other files.
    taken: Vec<&'static str>,
    /// Files of the same names that are replaced, a copy of each kept.
    replaced: Vec<&'static str>,
}

impl InitPlan {
    fn make(place: &CommandContext, arguments: &Arguments) -> Result<Self, CommandError> {
        let (client, installation) = installed_client()?;
        let choices = &Choices::of(place, arguments, (client, installation))?;
        let cleaned = takeover::clean(installation, &place.repo.root, choices.others)?;
        let (config, effective) = match place.repo.config()? {
            Some(file) => {
                let effective = read_config(place, file.layout, &file.text)?;
                refuse_another_guard((file.path, file.layout), &effective.guard, choices)?;
                refuse_other_gates(file.path, &arguments.gate)?;
                (None, effective)
            }
            None => {
                let config = NewConfig { gates: chosen(place, arguments)?, guard: choices.guard.clone() };
                let effective = read_config(place, Layout::Native, config.text().as_bytes())?;
                (Some(config), effective)
            }
        };
        let wiring = match choices.by {
            WiredBy::Settings => {
                let of = (client, installation);
                let others = (cleaned.as_slice(), choices.others);
                HookWiring::Settings(TrialSettings::make(of, place, arguments.shared, &effective, others)?)
            }
            WiredBy::Plugin => HookWiring::Plugin,
            WiredBy::Nothing => HookWiring::Nothing,
        };
        let found = (installation.look)(&place.repo.root).into_iter().map(|(_, found)| found);
        let is_taken_out =
            |name: &String| choices.others.system().is_some_and(|system| system.has_plugin(name));
        let other_loops =
            found.flat_map(|found| found.other_loops).filter(|name| !is_taken_out(name)).collect();
        let others = choices.others;
        let file = match place.repo.config()? {
            Some(file) => (file.path, file.layout),
            None => (Layout::Native.data().config, Layout::Native),
        };
        Ok(Self { file, client, installation, config, effective, wiring, other_loops, others, cleaned })
    }

    fn show(&self, place: &CommandContext) {
        terminal::print(paint(STRONG, place.repo.root.display()));
        match &self.config {
            Some(config) => {
                terminal::print(format_args!("\n{} (new)", paint(STRONG, "ralph.yaml")));
                for chosen in &config.gates {
                    let because = paint(FAINT, format!("({})", chosen.proposal.because));
                    terminal::print(format_args!("  $ {}  {because}", chosen.proposal.run));
                }
                if config.gates.is_empty() {
                    terminal::print(paint(
                        ODD,
                        "  no gate found: nothing can be verified until you add one (--gate COMMAND)",
                    ));
                }
            }
            None => {
                terminal::print(
                    "\nThe existing config stays unchanged. It will be accepted, and these gates will run:",
                );
                for gate in &self.effective.gates {
                    terminal::print(format_args!("  $ {}", gate.run.trim_end().replace('\n', "\n    ")));
                }
            }
        }
        terminal::print(format_args!("  blocked until they pass: {}", guarded_agents(&self.effective.guard)));
        if self.config.is_none() && !self.effective.guard.guards_session() {
            let line = guard_line(self.file.1, "session, check");
            let what = format!("  (add {line} to {} to guard every session that changes files)", self.file.0);
            terminal::print(paint(FAINT, what));
        }
        match &self.wiring {
            HookWiring::Settings(settings) => settings.show(),
            HookWiring::Plugin => show_plugin(self.client, self.installation),
            HookWiring::Nothing => {}
        }
        self.show_others(place);
        for plugin in &self.other_loops {
            let line =
                format!("The plugin `{plugin}` is enabled and also blocks sessions: keep only one of them.");
            terminal::print(paint(ODD, line));
        }
    }

    /// What is taken out of other systems, and what stays of them.
    fn show_others(&self, place: &CommandContext) {
        for Cleaned { path, what, .. } in &self.cleaned {
            terminal::print(format_args!("\n{}: taken out, a copy is kept", paint(STRONG, path.display())));
            for what in what {
                terminal::print(format_args!("  - {what}"));
            }
        }
        for note in self.others.system().map_or(&[][..], |system| system.notes) {
            terminal::print(paint(FAINT, format!("  {note}")));
        }
        for (path, hook) in takeover::staying(self.installation, &place.repo.root, self.others) {
            let (what, fix) = takeover::describe(&path, &hook);
            terminal::print(paint(ODD, format!("{what}.\n  {fix}")));
        }
        if let Some((what, _)) = other_ralph::describe(self.hook_names_only_ralph()) {
            terminal::print(paint(ODD, what));
        }
    }

    /// Whether the hook runs whatever `ralph` is first on the PATH.
    fn hook_names_only_ralph(&self) -> bool {
        match &self.wiring {
            HookWiring::Settings(settings) => settings.path == self.installation.shared,
            HookWiring::Plugin => true,
            HookWiring::Nothing => false,
        }
    }

    /// Takes out what was chosen of other systems, a copy of each file kept.
    fn take_out_others(&self, place: &CommandContext) -> Result<(), CommandError> {
        for Cleaned { path, text, .. } in &self.cleaned {
            let copy = takeover::replace_with_copy(path, text)?;
            let (path, copy) = (path.display(), copy.display());
            terminal::print(format_args!("{} {path} (copy: {copy})", paint(GOOD, "cleaned")));
        }
        if self.others.system().is_none() {
            return Ok(());
        }
        if let Some(copy) = takeover::set_loop_file_aside(&place.repo.root)? {
            let copy = copy.display();
            terminal::print(format_args!(
                "{} the loop of the other system (copy: {copy})",
                paint(GOOD, "ended")
            ));
        }
        if let HookWiring::Settings(settings) = &self.wiring {
            for path in &settings.replaced {
                let copy = takeover::keep_copy(&place.repo.root.join(path))?;
                terminal::print(format_args!("{} {path} as {}", paint(GOOD, "kept"), copy.display()));
            }
        }
        Ok(())
    }

    /// Runs each new gate once, so that no broken gate is written.
    fn tried(mut self, place: &CommandContext, arguments: &Arguments) -> Result<Self, CommandError> {
        let Some(config) = self.config.as_mut().filter(|config| !config.gates.is_empty()) else {
            return Ok(self);
        };
        if arguments.no_try
            || !arguments.yes && !terminal::ask("\nRun each gate once now to check that it works?")
        {
            return Ok(self);
        }
        let status = DefinitionStatus::Accepted;
        let sha256 = Digest::of(config.text());
        let effective = EffectiveGates {
            layout: Layout::Native,
            sha256: Some(sha256),
            config: self.effective.clone(),
            definition_status: status,
            broken: None,
        };
        terminal::print("");
        let read = || tree_reader(place, None).read();
        let before = read()?;
        let mut live = GateDisplay::new(&effective.config.gates, false);
        let asked = JudgeOptions::without_deadline();
        let looked = verify::verify_case(place, &effective).run_without_verdict(&asked, &mut live)?;
        drop(live);
        let Some(seen) = looked.facts.gates() else { return Ok(self) };
        let width = table::width(seen.reports.iter().map(|report| &report.gate));
        for report in &seen.reports {
            terminal::print(table::line(report, width));
            if let Some(chosen) = config.gates.iter_mut().find(|chosen| chosen.proposal.run == report.run) {
                chosen.tried = Some(report.clone());
            }
        }
        let changed = read()?.changes_since(&before);
        config.note_changes(changed.into_iter().map(|change| change.path).collect());
        self.effective = read_config(place, Layout::Native, config.text().as_bytes())?;
        Ok(self)
    }

    fn apply(&self, place: &CommandContext) -> Result<(), CommandError> {
        self.take_out_others(place)?;
        let mut installed = Installed::load(&place.repo_home)?;
        if let Some(config) = &self.config {
            let file = (Layout::Native.data().config, config.text());
            installed.write(&place.repo_home, &place.repo.root, (file.0, &file.1), list::take_out)?;
            terminal::print(format_args!("{} ralph.yaml", paint(GOOD, "wrote")));
        }
        if let HookWiring::Settings(settings) = &self.wiring {
            for (path, text) in settings.files() {
                installed.write(&place.repo_home, &place.repo.root, (path, text), list::take_out)?;
                terminal::print(format_args!("{} {path}", paint(GOOD, "wrote")));
            }
        }
        trust::accept_as_it_is(place)?;
        terminal::print(format_args!("{} the current gates (`ralph trust --show`)", paint(GOOD, "accepted")));
        if self.effective.gates.is_empty() {
            let what =
                format!("\nNo gates yet: nothing can be verified until you add one to {}.", self.file.0);
            terminal::print(paint(ODD, what));
        }
        let works = match (&self.wiring, self.effective.guard.guards_session()) {
            (HookWiring::Nothing, _) => "",
            (HookWiring::Settings(_) | HookWiring::Plugin, true) => "; then work as usual",
            (HookWiring::Settings(_), false) => "; then `/ralph-loop TASK`, or let a sub-agent `check` work",
            (HookWiring::Plugin, false) => {
                "; then `/ralph:ralph-loop TASK`, or let the sub-agent `ralph:check` work"
            }
        };
        terminal::print(format_args!(
            "\nNext: `ralph verify` runs the gates, `ralph doctor` checks the installation{works}."
        ));
        Ok(())
    }
}

/// An existing config belongs to the user, who has to edit its gates.
fn refuse_other_gates(path: &str, gates: &[String]) -> Result<(), CommandError> {
    let Some(gate) = gates.first() else { return Ok(()) };
    Err(CommandError::new(
        exit::USAGE,
        format!("{path} already exists and defines the gates; nothing was written"),
    )
    .hint(format!("add `- {gate}` under `verify:` in it, then run `ralph trust`")))
}

/// An existing config belongs to the user, who has to edit its guard.
fn refuse_another_guard(
    (path, layout): (&str, Layout),
    guard: &Guard,
    choices: &Choices,
) -> Result<(), CommandError> {
    match &choices.guard {
        Some(words) if Guard::from(words.clone()) != *guard => Err(CommandError::new(
            exit::USAGE,
            format!("{path} already exists and defines the guard; nothing was written"),
        )
        .hint(format!("set {} in it, then run `ralph trust`", guard_line(layout, &words.join(", "))))),
        _ => Ok(()),
    }
}

/// The line that sets the guard in the config file of a layout.
fn guard_line(layout: Layout, words: &str) -> String {
    match layout {
        Layout::Native => format!("`guard: [{words}]`"),
        Layout::Trellis | Layout::Ideal => format!("`ralph: {{ guard: [{words}] }}`"),
    }
}

fn show_plugin(client: &Client, installation: &Installation) {
    let [add, install, try_it] = (installation.plugin.steps)();
    let name = client.shown_name;
    terminal::print(format_args!("\n{}", paint(STRONG, format!("ralph's plugin for {name}"))));
    terminal::print(format_args!("  the settings stay unchanged; in a {name} session, type"));
    terminal::print(format_args!("    {add}\n    {install}"));
    terminal::print(format_args!("  or, with a clone of ralph's repo, start it with\n    {try_it}"));
}

impl TrialSettings {
    fn make(
        (client, installation): (&'static Client, &'static Installation),
        place: &CommandContext,
        shared: bool,
        config: &Config,
        (cleaned, others): (&[Cleaned], Wanted),
    ) -> Result<Self, CommandError> {
        let root = &place.repo.root;
        let path = if shared { installation.shared } else { installation.local };
        let full = root.join(path);
        let before = crate::sys::files::read_if_there(&full)?
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let before = cleaned.iter().find(|file| file.path == full).map(|file| file.text.clone()).or(before);
        // A cap set by the user in any of the files must not be overridden.
        let raises_cap = (installation.look)(root).iter().all(|(_, found)| found.block_cap.is_none());
        let timeouts = Timeouts::for_gates(&config.gates);
        let program = std::env::current_exe()?.to_string_lossy().into_owned();
        let command = hook_command::write(client.name, &program, timeouts.deadline, shared);
        let ours = OwnEntries { command: &command, timeouts, raises_cap };
        let text = (installation.put_in)(before.as_deref(), ours).map_err(|error| {
            CommandError::new(exit::USAGE, format!("{}: {error}; nothing was written", full.display()))
                .hint("fix the file, or use --no-hooks")
        })?;
        let has_guarded_agent =
            (installation.agents.names)(root).iter().any(|name| config.guard.guards_agent(name));
        let installed = Installed::load(&place.repo_home)?;
        let is_free = |path: &str| {
            fs::symlink_metadata(root.join(path)).is_err() || installed.is_as_we_wrote_it(root, path)
        };
        let as_it_is = |(path, text): &(&str, &str)| {
            crate::sys::files::read_foreign(&root.join(path))
                .is_ok_and(|now| now.as_deref() == Some(text.as_bytes()))
        };
        let (commands, taken): (Vec<_>, Vec<_>) = installation
            .commands
            .iter()
            .chain(installation.roles)
            .copied()
            .filter(|command| !as_it_is(command))
            .partition(|(path, _)| is_free(path));
        // Commands of the same names would start the other system's loop.
        let is_command = |path: &str| installation.commands.iter().any(|(command, _)| *command == path);
        let (replaced, taken): (Vec<_>, Vec<_>) =
            taken.into_iter().partition(|(path, _)| others.system().is_some() && is_command(path));
        let commands: Vec<_> = commands.into_iter().chain(replaced.iter().copied()).collect();
        let replaced = replaced.into_iter().map(|(path, _)| path).collect();
        Ok(Self {
            replaced,
            client,
            installation,
            path,
            text,
            too_slow: Timeouts::warning(&config.gates, timeouts.deadline),
            timeouts,
            raises_cap,
            check_agent: !has_guarded_agent && config.guard.guards_agent("check"),
            commands,
            taken: taken.into_iter().map(|(path, _)| path).collect(),
        })
    }

    /// Everything to write, settings last: the client must not call us before the rest exists.
    fn files(&self) -> Vec<(&str, &str)> {
        let agent = self.check_agent.then_some(self.installation.agents.check);
        agent.into_iter().chain(self.commands.iter().copied()).chain([(self.path, &*self.text)]).collect()
    }

    fn show(&self) {
        if self.check_agent {
            terminal::print(format_args!("\n{} (new)", paint(STRONG, self.installation.agents.check.0)));
            terminal::print(
                "  a sub-agent `check` that finishes and verifies work; its stops are judged by the gates",
            );
        }
        if !self.commands.is_empty() {
            terminal::print("");
        }
        for (path, _) in &self.commands {
            terminal::print(format_args!("{} (new)", paint(STRONG, path)));
        }
        for path in &self.taken {
            terminal::print(paint(
                ODD,
                format!("{path} already exists and was not written by ralph; it stays unchanged"),
            ));
        }
        terminal::print(format_args!("\n{}", paint(STRONG, self.path)));
        let judged: Vec<&str> = self.installation.judged_events().collect();
        terminal::print(format_args!(
            "  hook `ralph hook {}` on {} (timeout {} s), and briefly on {} other events:",
            self.client.name,
            judged.join(", "),
            self.timeouts.client,
            self.installation.events.len() - judged.len()
        ));
        terminal::print("  prompts, ralph's commands, tools that write, sub-agents, session start and end;");
        if let Some(warning) = &self.too_slow {
            terminal::print(paint(ODD, format!("  warning: {warning}")));
        }
        if let Some(cap) = self.client.block_cap.filter(|_| self.raises_cap) {
            terminal::print(format_args!(
                "  {}={}: the client's limit of consecutive blocks (default {});",
                self.installation.cap.name, self.installation.cap.raised, cap.default
            ));
        }
        terminal::print("  everything else in the file stays unchanged");
    }
}

fn read_config(place: &CommandContext, layout: Layout, text: &[u8]) -> Result<Config, CommandError> {
    effective_gates::parse(layout, text, &place.settings().defaults()).map_err(|broken| {
        terminal::remark(snippet::draw(broken.path, &broken.text, &broken.problem));
        CommandError::new(exit::USAGE, format!("cannot parse {}; nothing was written", broken.path))
    })
}

fn chosen(place: &CommandContext, arguments: &Arguments) -> Result<Vec<Chosen>, CommandError> {
    let proposals = if arguments.gate.is_empty() {
        detect::propose(&project(place)?)
    } else {
        let own = |run: &String| Proposal {
            kind: detect::GateKind::Test,
            name: run.clone(),
            run: run.clone(),
            because: "given by --gate".into(),
            timeout: None,
        };
        arguments.gate.iter().map(own).collect()
    };
    Ok(proposals.into_iter().map(|proposal| Chosen { proposal, writes: Vec::new(), tried: None }).collect())
}

/// The file names at the root and in `tests/`, with the relevant texts and the installed programs.
fn project(place: &CommandContext) -> Result<Project, CommandError> {
    let mut files = Vec::new();
    for (folder, prefix) in [(place.repo.root.clone(), ""), (place.repo.root.join("tests"), "tests/")] {
        let Ok(entries) = fs::read_dir(folder) else { continue };
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let read = prefix.is_empty() && detect::READ.contains(&name.as_str());
            let text = if read { files::read_foreign(&entry.path()).ok().flatten() } else { None };
            files.push((
                format!("{prefix}{name}"),
                String::from_utf8_lossy(&text.unwrap_or_default()).into_owned(),
            ));
        }
    }
    let installed = detect::PROGRAMS.into_iter().filter(|program| is_installed(program));
    Ok(Project::new(files).with_programs(installed.map(str::to_owned)))
}

fn is_installed(program: &str) -> bool {
    let path = env::path();
    std::env::split_paths(&path)
        .any(|folder| folder.is_absolute() && files::is_program(&folder.join(program)))
}

impl NewConfig {
    /// Warns of files that the trial changed. Data files are proposed as `writes:` of the last gate that ran: they are left
    /// out of the tree whichever gate wrote them.
    fn note_changes(&mut self, changed: Vec<String>) {
        if changed.is_empty() {
            return;
        }
        let (data, others): (Vec<String>, Vec<String>) =
            changed.into_iter().partition(|path| writes::refusal(path).is_none());
        if !data.is_empty() {
            let what = format!(
                "the gates changed the tree: {}; proposed as `writes:`, which leaves them out of it",
                data.join(", ")
            );
            terminal::print(paint(ODD, format!("  warning: {what}")));
        }
        if !others.is_empty() {
            let what = format!(
                "the gates changed the tree: {}; a stop is blocked while its gates do so. Ignore what is built, or let the gate only check",
                others.join(", ")
            );
            terminal::print(paint(ODD, format!("  warning: {what}")));
        }
        let ran = |chosen: &&mut Chosen| chosen.tried.as_ref().is_some_and(|report| report.runs > 0);
        if let Some(last) = self.gates.iter_mut().filter(ran).last() {
            last.writes = data;
        }
    }

    fn text(&self) -> String {
        let mut text = String::from(
            "# ralph.yaml: what must pass before a guarded agent may stop.\n\
             # Each gate is a shell command, run in this folder, in this order; the first failure stops.\n\
             # Changes to this file take effect once you accept them: `ralph trust`.\n",
        );
        let works = |chosen: &&Chosen| {
            !chosen
                .tried
                .as_ref()
                .is_some_and(|report| matches!(report.outcome, GateOutcome::CouldNotStart { .. }))
        };
        let working: Vec<_> = self.gates.iter().filter(works).collect();
        text.push_str(if working.is_empty() { "verify: []\n" } else { "verify:\n" });
        for chosen in &self.gates {
            let proposal = &chosen.proposal;
            let timeout = proposal.timeout.map(|time| format!(", timeout: {time}")).unwrap_or_default();
            let writes = chosen.writes.iter().map(|path| yaml(path)).collect::<Vec<_>>().join(", ");
            let writes = if writes.is_empty() { writes } else { format!(", writes: [{writes}]") };
            let (name, run) = (yaml(&proposal.name), yaml(&proposal.run));
            let line = format!("- {{ name: {name}, run: {run}{timeout}{writes} }}");
            let about = chosen.tried.as_ref().map(about).unwrap_or_default();
            match works(&chosen) {
                true => text.push_str(&format!("  {line}{about}\n")),
                false => text.push_str(&format!("  # {line}{about}\n")),
            }
        }
        text.push_str(
            "# What is guarded: `session` is every session that changed files since your last prompt; the others are\n\
             # sub-agents, by name or glob. The default is [check]. For a team of agents add `teammates, tasks`.\n",
        );
        text.push_str(&match &self.guard {
            Some(words) => {
                format!("guard: [{}]\n", words.iter().map(|word| yaml(word)).collect::<Vec<_>>().join(", "))
            }
            None => "# guard: [session, check]\n".to_owned(),
        });
        text.push_str("# budget: { attempts: 5, errors: 3, on_exhausted: release }\n");
        text
    }
}

fn about(report: &GateReport) -> String {
    match &report.outcome {
        GateOutcome::Passed => {
            format!("  # took {} when tried", ralph_core::model::duration::show(report.took))
        }
        GateOutcome::CouldNotStart { .. } => "  # could not start when tried".into(),
        other => format!("  # {} when tried", other.word()),
    }
}

/// Quotes a string for YAML if needed; JSON strings are valid YAML.
fn yaml(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || " ._/-".contains(c);
    let starts_plain = text.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_word = !matches!(text, "true" | "false" | "null" | "yes" | "no" | "on" | "off");
    if starts_plain && is_word && text.chars().all(plain) && !text.ends_with(' ') {
        return text.to_owned();
    }
    serde_json::to_string(text).unwrap_or_default()
}

fn uninstall(place: &CommandContext) -> CommandResult {
    place.refuse_in_agent_shell("uninstall ralph from a repo")?;
    let mut installed = Installed::load(&place.repo_home)?;
    let sha256 = place.repo.config()?.map(|file| file.sha256());
    let undone = installed.undo(&place.repo_home, &place.repo.root, list::take_out)?;
    if undone.is_empty() {
        terminal::print("Nothing was installed here by `ralph init`.");
        return Ok(ExitCode::SUCCESS);
    }
    for (path, how) in undone {
        let word = match how {
            Uninstalled::PutBack => "restored",
            Uninstalled::Removed => "removed",
            Uninstalled::EntriesTakenOut => "ralph's entries removed; the rest is unchanged",
            Uninstalled::LeftAsItIs => "kept: it was changed since ralph wrote it",
            Uninstalled::GoneAlready => "already removed",
        };
        terminal::print(format_args!("{}: {word}", path.display()));
    }
    if let Some(sha256) = sha256 {
        Trust::forget(&place.home, &place.repo, &sha256, clock::now())?;
    }
    Ok(ExitCode::SUCCESS)
}
