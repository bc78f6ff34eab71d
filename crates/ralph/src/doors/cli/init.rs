//! `ralph init`: finds the project's gates, shows them, tries them, writes `ralph.yaml`, wires the client, accepts what it
//! wrote; and takes all of it out again.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ralph_core::config::detect::{self, Project, Proposal};
use ralph_core::config::{Config, Guard};
use ralph_core::ledger::facts::Standing;
use ralph_core::model::gate::{GateReport, Outcome};
use ralph_core::model::id::Digest;
use ralph_core::model::layout::Layout;

use super::context::Place;
use super::{Done, Failure, installed_client, trust, verify};
use crate::clients::client::Client;
use crate::clients::installation::{Installation, Ours};
use crate::clients::installed::{Installed, Timeouts, Undone};
use crate::clients::{hook_command, list};
use crate::loops::judge::Asked;
use crate::show::exit;
use crate::show::terminal::live::Live;
use crate::show::terminal::{self, FAINT, GOOD, ODD, STRONG, paint, snippet, table};
use crate::store::effective_gates::{self, InForce};
use crate::store::trust::Trust;
use crate::sys::{clock, env};

#[derive(clap::Args, Default)]
#[command(after_help = "Examples:\n  ralph init                on a terminal: show, try, ask, write\n  \
ralph init --dry-run      only show what would be written\n  \
ralph init --yes          write all of it without asking (for scripts)\n  \
ralph init --yes --guard session,check\n                            \
hold every session that changes something, and `check`\n  \
ralph init --uninstall    take out exactly what init put in")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(super) struct Arguments {
    /// Show what would be written and run nothing
    #[arg(long)]
    dry_run: bool,
    /// Take out exactly what init put in
    #[arg(long, conflicts_with = "dry_run")]
    uninstall: bool,
    /// Do all of it without asking
    #[arg(long)]
    yes: bool,
    /// Do not run the proposed gates before they are written
    #[arg(long)]
    no_try: bool,
    /// Write only ralph.yaml; leave the client's settings alone
    #[arg(long)]
    no_hooks: bool,
    #[arg(long, help = shared_help())]
    shared: bool,
    /// Leave the client's settings alone and say how to get ralph's plugin for it
    #[arg(long, conflicts_with_all = ["shared", "no_hooks"])]
    plugin: bool,
    /// Who is held: `session` (every session that changes something), and sub-agents by name
    #[arg(long, value_name = "WHO", value_delimiter = ',', value_parser = clap::builder::NonEmptyStringValueParser::new())]
    guard: Vec<String>,
    /// A gate of your own choice instead of the ones found; may be given several times
    #[arg(long, value_name = "COMMAND")]
    gate: Vec<String>,
}

fn shared_help() -> String {
    let Some((_, installation)) = list::first_installable() else { return String::new() };
    let local = Path::new(installation.local).file_name().unwrap_or_default().display();
    format!("Put the hook into {}, which is shared with others, instead of {local}", installation.shared)
}

/// Finds the gates and asks, and leaves the client's settings alone.
pub(super) fn gates_only() -> Done {
    run(&Arguments { no_hooks: true, ..Arguments::default() })
}

pub(super) fn run(arguments: &Arguments) -> Done {
    let place = Place::here_or_new()?;
    if arguments.uninstall {
        return uninstall(&place);
    }
    if !arguments.dry_run {
        place.not_below_an_agent("accept gates")?;
    }
    let plan = Plan::make(&place, arguments)?;
    plan.show(&place);
    if arguments.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    if !arguments.yes && !terminal::somebody_is_there() {
        return Err(Failure::new(exit::NEEDS_PERSON, "nobody is there to ask; nothing was written")
            .hint("`ralph init --yes` writes what is shown above; `--dry-run` only shows it"));
    }
    if arguments.yes && plan.config.is_none() && !trust::is_accepted(&place)? {
        return Err(Failure::new(exit::NEEDS_PERSON, "the config that is here was not accepted by anybody yet; nothing was written")
            .hint("look at it with `ralph trust --show`, accept it with `ralph trust` or `ralph trust --hash SHA256`, then run this again"));
    }
    let plan = plan.tried(&place, arguments)?;
    let held = who_is_held(&plan.effective.guard);
    if !arguments.yes
        && !terminal::ask(format_args!("\nWrite this, and run these gates here whenever {held} stops?"))
    {
        terminal::say("Nothing was written.");
        return Ok(ExitCode::from(exit::NEEDS_PERSON));
    }
    plan.carry_out(&place)?;
    Ok(ExitCode::SUCCESS)
}

/// What a person is asked before there is anything to show; flags decide where nobody is asked.
struct Choices {
    /// Who is held; none leaves it at what holds without a word.
    guard: Option<Vec<String>>,
    by: WiredBy,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WiredBy {
    Settings,
    Plugin,
    Nothing,
}

impl Choices {
    fn of(place: &Place, arguments: &Arguments, client: &Client) -> Result<Self, Failure> {
        let asks = !arguments.yes && !arguments.dry_run && terminal::somebody_is_there();
        let usual = || ["session", "check"].map(str::to_owned).to_vec();
        let is_new = place.workspace.repo.config()?.is_none();
        let guard = match arguments.guard.as_slice() {
            [] if asks && is_new && terminal::ask_for_the_usual(guard_question(client)) => Some(usual()),
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
        Ok(Self { guard, by })
    }
}

fn guard_question(client: &Client) -> String {
    format!(
        "Hold every session of {} that changes something here until the gates pass?\n\
         A session that only talks is never held; `stop` as a whole message frees one. No: only a sub-agent `check` is held.",
        client.shown_name
    )
}

fn wiring_question(client: &Client) -> String {
    format!(
        "\nWire {} by the settings of this project?\n\
         No: you install ralph's plugin for it yourself, and nothing is written into the settings.",
        client.shown_name
    )
}

/// As people say it: `any session that changed something or a sub-agent check`.
fn who_is_held(guard: &Guard) -> String {
    let agents = guard.agents().join("`, `");
    let agents = (!agents.is_empty()).then(|| format!("a sub-agent `{agents}`"));
    let session = guard.holds_session().then(|| "a session that changed something".to_owned());
    let teammates = guard.holds_teammates().then(|| "a teammate".to_owned());
    let tasks = guard.holds_tasks().then(|| "a task of a team".to_owned());
    let all: Vec<String> = [session, teammates, tasks, agents].into_iter().flatten().collect();
    if all.is_empty() { "nobody".into() } else { all.join(" or ") }
}

/// What init would do.
struct Plan {
    client: &'static Client,
    installation: &'static Installation,
    /// The new `ralph.yaml`; none where the repo has a config already.
    config: Option<NewConfig>,
    /// The config that will be in force.
    effective: Config,
    wiring: Wiring,
    /// Plugins that hold sessions too.
    other_loops: Vec<String>,
}

/// How the client comes to call us.
enum Wiring {
    Settings(Settings),
    Plugin,
    Nothing,
}

struct NewConfig {
    gates: Vec<Chosen>,
    guard: Option<Vec<String>>,
}

struct Chosen {
    proposal: Proposal,
    /// What it did when it was tried.
    tried: Option<GateReport>,
}

struct Settings {
    client: &'static Client,
    installation: &'static Installation,
    path: &'static str,
    text: String,
    timeouts: Timeouts,
    /// The gates may not finish before the hook's deadline.
    too_slow: Option<String>,
    raises_cap: bool,
    /// A sub-agent to be held is written too, where the project has none.
    check_agent: bool,
    commands: Vec<(&'static str, &'static str)>,
    /// Command files of ours whose name somebody else has taken.
    taken: Vec<&'static str>,
}

impl Plan {
    fn make(place: &Place, arguments: &Arguments) -> Result<Self, Failure> {
        let (client, installation) = installed_client()?;
        let choices = &Choices::of(place, arguments, client)?;
        let (config, effective) = match place.workspace.repo.config()? {
            Some(file) => {
                let effective = read_config(place, file.layout, &file.text)?;
                refuse_another_guard(file.path, &effective.guard, choices)?;
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
                Wiring::Settings(Settings::make(of, place, arguments.shared, &effective)?)
            }
            WiredBy::Plugin => Wiring::Plugin,
            WiredBy::Nothing => Wiring::Nothing,
        };
        let found = (installation.look)(&place.workspace.repo.root).into_iter().map(|(_, found)| found);
        let other_loops = found.flat_map(|found| found.other_loops).collect();
        Ok(Self { client, installation, config, effective, wiring, other_loops })
    }

    fn show(&self, place: &Place) {
        terminal::say(paint(STRONG, place.workspace.repo.root.display()));
        match &self.config {
            Some(config) => {
                terminal::say(format_args!("\n{} (new)", paint(STRONG, "ralph.yaml")));
                for chosen in &config.gates {
                    let because = paint(FAINT, format!("({})", chosen.proposal.because));
                    terminal::say(format_args!("  $ {}  {because}", chosen.proposal.run));
                }
                if config.gates.is_empty() {
                    terminal::say(paint(
                        ODD,
                        "  no gate found: nothing can be verified until you name one (--gate COMMAND)",
                    ));
                }
            }
            None => {
                terminal::say(
                    "\nThe config that is here stays as it is. It will be accepted, and these gates run:",
                );
                for gate in &self.effective.gates {
                    terminal::say(format_args!("  $ {}", gate.run.trim_end().replace('\n', "\n    ")));
                }
            }
        }
        terminal::say(format_args!("  held until they pass: {}", who_is_held(&self.effective.guard)));
        if self.config.is_none() && !self.effective.guard.holds_session() {
            terminal::say(paint(
                FAINT,
                "  (`guard: [session, check]` there would hold every session that changes something)",
            ));
        }
        match &self.wiring {
            Wiring::Settings(settings) => settings.show(),
            Wiring::Plugin => show_plugin(self.client, self.installation),
            Wiring::Nothing => {}
        }
        for plugin in &self.other_loops {
            let line = format!("The plugin `{plugin}` is on and holds sessions too: keep one of them.");
            terminal::say(paint(ODD, line));
        }
    }

    /// Runs each new gate once, so that nobody writes down a gate that cannot work.
    fn tried(mut self, place: &Place, arguments: &Arguments) -> Result<Self, Failure> {
        let Some(config) = self.config.as_mut().filter(|config| !config.gates.is_empty()) else {
            return Ok(self);
        };
        if arguments.no_try
            || !arguments.yes && !terminal::ask("\nRun each of them once now, to see that they work?")
        {
            return Ok(self);
        }
        let standing = Standing::Accepted;
        let sha256 = Digest::of(config.text());
        let in_force = InForce {
            layout: Layout::Native,
            sha256: Some(sha256),
            config: self.effective.clone(),
            standing,
            broken: None,
        };
        terminal::say("");
        let mut live = Live::new(&in_force.config.gates, false);
        let asked = Asked::all_of_it();
        let looked = verify::plain_case(place, &in_force).look(&asked, &mut live)?;
        drop(live);
        let Some(seen) = looked.facts.gates() else { return Ok(self) };
        let width = table::width(seen.reports.iter().map(|report| &report.gate));
        for report in &seen.reports {
            terminal::say(table::line(report, width));
            if let Some(chosen) = config.gates.iter_mut().find(|chosen| chosen.proposal.run == report.run) {
                chosen.tried = Some(report.clone());
            }
        }
        self.effective = read_config(place, Layout::Native, config.text().as_bytes())?;
        Ok(self)
    }

    fn carry_out(&self, place: &Place) -> Result<(), Failure> {
        let mut installed = Installed::load(&place.workspace.repo_home)?;
        if let Some(config) = &self.config {
            let file = (Layout::Native.data().config, config.text());
            installed.write(
                &place.workspace.repo_home,
                &place.workspace.repo.root,
                (file.0, &file.1),
                list::take_out,
            )?;
            terminal::say(format_args!("{} ralph.yaml", paint(GOOD, "wrote")));
        }
        if let Wiring::Settings(settings) = &self.wiring {
            for (path, text) in settings.files() {
                installed.write(
                    &place.workspace.repo_home,
                    &place.workspace.repo.root,
                    (path, text),
                    list::take_out,
                )?;
                terminal::say(format_args!("{} {path}", paint(GOOD, "wrote")));
            }
        }
        trust::accept_as_it_is(place)?;
        terminal::say(format_args!(
            "{} the gates as they are now (`ralph trust --show`)",
            paint(GOOD, "accepted")
        ));
        if self.effective.gates.is_empty() {
            terminal::say(paint(
                ODD,
                "\nThere is no gate yet: nothing can be verified until you name one in ralph.yaml.",
            ));
        }
        let works = match (&self.wiring, self.effective.guard.holds_session()) {
            (Wiring::Nothing, _) => "",
            (Wiring::Settings(_) | Wiring::Plugin, true) => "; then work as ever",
            (Wiring::Settings(_), false) => "; then `/ralph-loop TASK`, or let a sub-agent `check` work",
            (Wiring::Plugin, false) => {
                "; then `/ralph:ralph-loop TASK`, or let the sub-agent `ralph:check` work"
            }
        };
        terminal::say(format_args!(
            "\nNext: `ralph verify` runs the gates, `ralph doctor` proves the wiring{works}."
        ));
        Ok(())
    }
}

/// The same for the gates in it.
fn refuse_other_gates(path: &str, gates: &[String]) -> Result<(), Failure> {
    let Some(gate) = gates.first() else { return Ok(()) };
    Err(Failure::new(
        exit::USAGE,
        format!("{path} is there already and names the gates; nothing was written"),
    )
    .hint(format!("write `- {gate}` under `verify:` in it, then `ralph trust`")))
}

/// A config that is there is the person's: who is held by it is for them to write.
fn refuse_another_guard(path: &str, guard: &Guard, choices: &Choices) -> Result<(), Failure> {
    match &choices.guard {
        Some(words) if Guard::from(words.clone()) != *guard => Err(Failure::new(
            exit::USAGE,
            format!("{path} is there already and says who is held; nothing was written"),
        )
        .hint(format!("write `guard: [{}]` into it, then `ralph trust`", words.join(", ")))),
        _ => Ok(()),
    }
}

fn show_plugin(client: &Client, installation: &Installation) {
    let [add, install, try_it] = (installation.plugin.steps)();
    let name = client.shown_name;
    terminal::say(format_args!("\n{}", paint(STRONG, format!("ralph's plugin for {name}"))));
    terminal::say(format_args!("  nothing is written into the settings; in a session of {name} type"));
    terminal::say(format_args!("    {add}\n    {install}"));
    terminal::say(format_args!("  or, with a clone of ralph's repo, start it as\n    {try_it}"));
}

impl Settings {
    fn make(
        (client, installation): (&'static Client, &'static Installation),
        place: &Place,
        shared: bool,
        config: &Config,
    ) -> Result<Self, Failure> {
        let root = &place.workspace.repo.root;
        let path = if shared { installation.shared } else { installation.local };
        let full = root.join(path);
        let before = crate::sys::files::read_if_there(&full)?
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        // A number that the person set in any of the files is theirs, and ours might win over it.
        let raises_cap = (installation.look)(root).iter().all(|(_, found)| found.block_cap.is_none());
        let timeouts = Timeouts::for_gates(&config.gates);
        let program = std::env::current_exe()?.to_string_lossy().into_owned();
        let command = hook_command::write(client.name, &program, timeouts.deadline, shared);
        let ours = Ours { command: &command, timeouts, raises_cap };
        let text = (installation.put_in)(before.as_deref(), ours).map_err(|error| {
            Failure::new(exit::USAGE, format!("{}: {error}; nothing was written", full.display()))
                .hint("mend the file, or use --no-hooks")
        })?;
        let anybody = (installation.agents.names)(root).iter().any(|name| config.guard.holds_agent(name));
        let installed = Installed::load(&place.workspace.repo_home)?;
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
            .copied()
            .filter(|command| !as_it_is(command))
            .partition(|(path, _)| is_free(path));
        Ok(Self {
            client,
            installation,
            path,
            text,
            too_slow: Timeouts::warning(&config.gates, timeouts.deadline),
            timeouts,
            raises_cap,
            check_agent: !anybody && config.guard.holds_agent("check"),
            commands,
            taken: taken.into_iter().map(|(path, _)| path).collect(),
        })
    }

    /// Everything to write. The settings come last: nobody calls us before the rest is there.
    fn files(&self) -> Vec<(&str, &str)> {
        let agent = self.check_agent.then_some(self.installation.agents.check);
        agent.into_iter().chain(self.commands.iter().copied()).chain([(self.path, &*self.text)]).collect()
    }

    fn show(&self) {
        if self.check_agent {
            terminal::say(format_args!("\n{} (new)", paint(STRONG, self.installation.agents.check.0)));
            terminal::say(
                "  a sub-agent `check` that sees work through; when it stops it is held. There was none here.",
            );
        }
        if !self.commands.is_empty() {
            terminal::say("");
        }
        for (path, _) in &self.commands {
            terminal::say(format_args!("{} (new)", paint(STRONG, path)));
        }
        for path in &self.taken {
            terminal::say(paint(ODD, format!("{path} is somebody else's and stays as it is")));
        }
        terminal::say(format_args!("\n{}", paint(STRONG, self.path)));
        let judged: Vec<&str> = self.installation.judged_events().collect();
        terminal::say(format_args!(
            "  hook `ralph hook {}` on {} (time-out {} s), and shortly on {} other events:",
            self.client.name,
            judged.join(", "),
            self.timeouts.client,
            self.installation.events.len() - judged.len()
        ));
        terminal::say("  prompts, our commands, tools that write, sub-agents, the session's begin and end;");
        if let Some(warning) = &self.too_slow {
            terminal::say(paint(ODD, format!("  warning: {warning}")));
        }
        if let Some(cap) = self.client.block_cap.filter(|_| self.raises_cap) {
            terminal::say(format_args!(
                "  {}={}: the client's own cap on holds in a row, which is {};",
                self.installation.cap.name, self.installation.cap.raised, cap.default
            ));
        }
        terminal::say("  everything else in the file stays");
    }
}

fn read_config(place: &Place, layout: Layout, text: &[u8]) -> Result<Config, Failure> {
    effective_gates::parse(layout, text, &place.workspace.settings().defaults()).map_err(|broken| {
        terminal::remark(snippet::draw(broken.path, &broken.text, &broken.problem));
        Failure::new(exit::USAGE, format!("{} cannot be read; nothing was written", broken.path))
    })
}

fn chosen(place: &Place, arguments: &Arguments) -> Result<Vec<Chosen>, Failure> {
    let proposals = if arguments.gate.is_empty() {
        detect::propose(&project(place)?)
    } else {
        let own = |run: &String| Proposal {
            kind: detect::Kind::Test,
            name: run.clone(),
            run: run.clone(),
            because: "as you said".into(),
            timeout: None,
        };
        arguments.gate.iter().map(own).collect()
    };
    Ok(proposals.into_iter().map(|proposal| Chosen { proposal, tried: None }).collect())
}

/// The names at the root and in `tests/`, with the texts that matter, and the programs that do.
fn project(place: &Place) -> Result<Project, Failure> {
    let mut files = Vec::new();
    for (folder, prefix) in
        [(place.workspace.repo.root.clone(), ""), (place.workspace.repo.root.join("tests"), "tests/")]
    {
        let Ok(entries) = fs::read_dir(folder) else { continue };
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let read = prefix.is_empty() && detect::READ.contains(&name.as_str());
            let text = if read { fs::read(entry.path()).unwrap_or_default() } else { Vec::new() };
            files.push((format!("{prefix}{name}"), String::from_utf8_lossy(&text).into_owned()));
        }
    }
    let installed = detect::PROGRAMS.into_iter().filter(|program| is_installed(program));
    Ok(Project::new(files).with_programs(installed.map(str::to_owned)))
}

fn is_installed(program: &str) -> bool {
    let may_run = |path: PathBuf| {
        fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&env::path()).any(|folder| folder.is_absolute() && may_run(folder.join(program)))
}

impl NewConfig {
    fn text(&self) -> String {
        let mut text = String::from(
            "# ralph.yaml: what must pass before a guarded agent may stop.\n\
             # Each gate is a shell command, run in this folder, in this order; the first failure stops.\n\
             # A change of this file takes effect when a person accepts it: `ralph trust`.\n",
        );
        let works = |chosen: &&Chosen| {
            !chosen
                .tried
                .as_ref()
                .is_some_and(|report| matches!(report.outcome, Outcome::CouldNotStart { .. }))
        };
        let working: Vec<_> = self.gates.iter().filter(works).collect();
        text.push_str(if working.is_empty() { "verify: []\n" } else { "verify:\n" });
        for chosen in &self.gates {
            let proposal = &chosen.proposal;
            let timeout = proposal.timeout.map(|time| format!(", timeout: {time}")).unwrap_or_default();
            let line =
                format!("- {{ name: {}, run: {}{timeout} }}", yaml(&proposal.name), yaml(&proposal.run));
            let about = chosen.tried.as_ref().map(about).unwrap_or_default();
            match works(&chosen) {
                true => text.push_str(&format!("  {line}{about}\n")),
                false => text.push_str(&format!("  # {line}{about}\n")),
            }
        }
        text.push_str(
            "# Who is held: `session` is every session that changed something here since your last words; the others are\n\
             # sub-agents, by name or glob. Where nothing is said it is [check].\n",
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
        Outcome::Passed => {
            format!("  # took {} when it was tried", ralph_core::model::duration::show(report.took))
        }
        Outcome::CouldNotStart { .. } => "  # could not start when it was tried".into(),
        other => format!("  # {} when it was tried", other.word()),
    }
}

/// A string that YAML reads back as it is; JSON's form is YAML too.
fn yaml(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || " ._/-".contains(c);
    let starts_plain = text.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_word = !matches!(text, "true" | "false" | "null" | "yes" | "no" | "on" | "off");
    if starts_plain && is_word && text.chars().all(plain) && !text.ends_with(' ') {
        return text.to_owned();
    }
    serde_json::to_string(text).unwrap_or_default()
}

fn uninstall(place: &Place) -> Done {
    place.only_for_a_person("take ralph out of a repo")?;
    let mut installed = Installed::load(&place.workspace.repo_home)?;
    let sha256 = place.workspace.repo.config()?.map(|file| file.sha256());
    let undone = installed.undo(&place.workspace.repo_home, &place.workspace.repo.root, list::take_out)?;
    if undone.is_empty() {
        terminal::say("Nothing was installed here by `ralph init`.");
        return Ok(ExitCode::SUCCESS);
    }
    for (path, how) in undone {
        let word = match how {
            Undone::PutBack => "put back as it was",
            Undone::Removed => "removed",
            Undone::EntriesTakenOut => "our entries taken out; the rest is as you left it",
            Undone::LeftAsItIs => "left: it was changed since, and it is yours now",
            Undone::GoneAlready => "gone already",
        };
        terminal::say(format_args!("{}: {word}", path.display()));
    }
    if let Some(sha256) = sha256 {
        Trust::forget(&place.workspace.home, &place.workspace.repo, &sha256, clock::now())?;
    }
    Ok(ExitCode::SUCCESS)
}
