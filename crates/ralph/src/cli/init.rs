//! `ralph init`: finds the project's gates, shows them, tries them, writes `ralph.yaml`, wires the client, accepts what it
//! wrote; and takes all of it out again.

use std::fs;
use std::process::ExitCode;

use ralph_core::config::Config;
use ralph_core::detect::{self, Project, Proposal};
use ralph_core::facts::{Evidence, Standing};
use ralph_core::gate::{GateReport, Outcome};
use ralph_core::id::Digest;
use ralph_core::layout::Layout;

use super::context::Place;
use super::{Done, Failure, trust, verify};
use crate::definition::{self, InForce};
use crate::engine::{self, Asked};
use crate::install::{Installed, Timeouts, Undone, claude};
use crate::trust::Trust;
use crate::ui::live::Live;
use crate::ui::{self, FAINT, GOOD, ODD, STRONG, paint, snippet, table};
use crate::{clock, exit};

#[derive(clap::Args)]
#[command(after_help = "Examples:\n  ralph init                on a terminal: show, try, ask, write\n  \
ralph init --dry-run      only show what would be written\n  \
ralph init --yes          write all of it without asking (for scripts)\n  \
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
    /// Put the hook into .claude/settings.json, which is shared with others, instead of settings.local.json
    #[arg(long)]
    shared: bool,
    /// A gate of your own choice instead of the ones found; may be given several times
    #[arg(long, value_name = "COMMAND")]
    gate: Vec<String>,
}

pub(super) fn run(arguments: &Arguments) -> Done {
    let place = Place::here_or_new()?;
    if arguments.uninstall {
        return uninstall(&place);
    }
    let plan = Plan::make(&place, arguments)?;
    plan.show(&place);
    if arguments.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    if !arguments.yes && !ui::somebody_is_there() {
        return Err(Failure::new(exit::NEEDS_PERSON, "nobody is there to ask; nothing was written")
            .hint("`ralph init --yes` writes what is shown above; `--dry-run` only shows it"));
    }
    if arguments.yes && plan.config.is_none() && !trust::is_accepted(&place)? {
        return Err(Failure::new(exit::NEEDS_PERSON, "the config that is here was not accepted by anybody yet; nothing was written")
            .hint("look at it with `ralph trust --show`, accept it with `ralph trust` or `ralph trust --hash SHA256`, then run this again"));
    }
    let plan = plan.tried(&place, arguments)?;
    if !arguments.yes
        && !ui::ask("\nWrite this, and run these gates here whenever the sub-agent `check` stops?")
    {
        ui::say("Nothing was written.");
        return Ok(ExitCode::from(exit::NEEDS_PERSON));
    }
    plan.carry_out(&place)?;
    Ok(ExitCode::SUCCESS)
}

/// What init would do.
struct Plan {
    /// The new `ralph.yaml`; none where the repo has a config already.
    config: Option<NewConfig>,
    /// The config that will be in force.
    effective: Config,
    settings: Option<Settings>,
    /// A sub-agent to be held is written too, where the project has none.
    check_agent: bool,
}

struct NewConfig {
    gates: Vec<Chosen>,
}

struct Chosen {
    proposal: Proposal,
    /// What it did when it was tried.
    tried: Option<GateReport>,
}

struct Settings {
    path: &'static str,
    text: String,
    timeouts: Timeouts,
}

impl Plan {
    fn make(place: &Place, arguments: &Arguments) -> Result<Self, Failure> {
        let (config, effective) = match place.repo.config()? {
            Some(file) => (None, read_config(place, file.layout, &file.text)?),
            None => {
                let gates = chosen(place, arguments)?;
                let config = NewConfig { gates };
                let effective = read_config(place, Layout::Native, config.text().as_bytes())?;
                (Some(config), effective)
            }
        };
        let settings = (!arguments.no_hooks).then(|| settings(place, arguments, &effective)).transpose()?;
        let known = claude::agents(&place.repo.root);
        let anybody = known.iter().any(|name| effective.guard.holds_agent(name));
        let check_agent = settings.is_some() && !anybody && effective.guard.holds_agent("check");
        Ok(Self { config, effective, settings, check_agent })
    }

    fn show(&self, place: &Place) {
        ui::say(paint(STRONG, place.repo.root.display()));
        match &self.config {
            Some(config) => {
                ui::say(format_args!("\n{} (new)", paint(STRONG, "ralph.yaml")));
                for chosen in &config.gates {
                    let because = paint(FAINT, format!("({})", chosen.proposal.because));
                    ui::say(format_args!("  $ {}  {because}", chosen.proposal.run));
                }
                if config.gates.is_empty() {
                    ui::say(paint(
                        ODD,
                        "  no gate found: nothing can be verified until you name one (--gate COMMAND)",
                    ));
                }
            }
            None => {
                ui::say(
                    "\nThe config that is here stays as it is. It will be accepted, and these gates run:",
                );
                for gate in &self.effective.gates {
                    ui::say(format_args!("  $ {}", gate.run.trim_end().replace('\n', "\n    ")));
                }
            }
        }
        if self.check_agent {
            ui::say(format_args!("\n{} (new)", paint(STRONG, claude::CHECK_AGENT)));
            ui::say(
                "  a sub-agent `check` that sees work through; it is the one who is held. There was none here.",
            );
        }
        if let Some(settings) = &self.settings {
            ui::say(format_args!("\n{}", paint(STRONG, settings.path)));
            ui::say(format_args!(
                "  hook `ralph hook claude` on SubagentStop (time-out {} s), and on Stop, UserPromptSubmit",
                settings.timeouts.client
            ));
            ui::say(
                "  and PostToolUse of sub-agents, to tell the session how it went; everything else in the file stays",
            );
        }
    }

    /// Runs each new gate once, so that nobody writes down a gate that cannot work.
    fn tried(mut self, place: &Place, arguments: &Arguments) -> Result<Self, Failure> {
        let Some(config) = self.config.as_mut().filter(|config| !config.gates.is_empty()) else {
            return Ok(self);
        };
        if arguments.no_try
            || !arguments.yes && !ui::ask("\nRun each of them once now, to see that they work?")
        {
            return Ok(self);
        }
        let standing = Standing::Accepted;
        let sha256 = Digest::of(config.text());
        let in_force = InForce {
            layout: Layout::Native,
            sha256,
            config: self.effective.clone(),
            standing,
            broken: None,
        };
        ui::say("");
        let mut live = Live::new(&in_force.config.gates, false);
        let asked = Asked {
            arrived: clock::now(),
            deadline: None,
            last_message: "",
            jobs: engine::jobs(),
            keep_going: true,
            fresh: true,
        };
        let looked = verify::plain_case(place, &in_force).look(&asked, &mut live)?;
        drop(live);
        let Some(Evidence::Gates(seen)) = looked.facts.evidence else { return Ok(self) };
        let width = table::width(seen.reports.iter().map(|report| &report.gate));
        for report in seen.reports {
            ui::say(table::line(&report, width));
            if let Some(chosen) = config.gates.iter_mut().find(|chosen| chosen.proposal.run == report.run) {
                chosen.tried = Some(report);
            }
        }
        self.effective = read_config(place, Layout::Native, config.text().as_bytes())?;
        Ok(self)
    }

    fn carry_out(&self, place: &Place) -> Result<(), Failure> {
        let mut installed = Installed::load(&place.repo_home)?;
        if let Some(config) = &self.config {
            installed.write(
                &place.repo_home,
                &place.repo.root,
                Layout::Native.data().config,
                &config.text(),
            )?;
            ui::say(format_args!("{} ralph.yaml", paint(GOOD, "wrote")));
        }
        if self.check_agent {
            let (path, text) = (claude::CHECK_AGENT, claude::CHECK_AGENT_TEXT);
            installed.write(&place.repo_home, &place.repo.root, path, text)?;
            ui::say(format_args!("{} {path}", paint(GOOD, "wrote")));
        }
        if let Some(settings) = &self.settings {
            installed.write(&place.repo_home, &place.repo.root, settings.path, &settings.text)?;
            ui::say(format_args!("{} {}", paint(GOOD, "wrote"), settings.path));
        }
        trust::accept_as_it_is(place)?;
        ui::say(format_args!("{} the gates as they are now (`ralph trust --show`)", paint(GOOD, "accepted")));
        if self.effective.gates.is_empty() {
            ui::say(paint(
                ODD,
                "\nThere is no gate yet: nothing can be verified until you name one in ralph.yaml.",
            ));
        }
        ui::say(
            "\nNext: `ralph verify` runs the gates, `ralph doctor` proves the wiring; then let a sub-agent `check` work.",
        );
        Ok(())
    }
}

fn read_config(place: &Place, layout: Layout, text: &[u8]) -> Result<Config, Failure> {
    definition::parse(layout, text, &place.settings.defaults()).map_err(|broken| {
        ui::remark(snippet::draw(broken.path, &broken.text, &broken.problem));
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
        };
        arguments.gate.iter().map(own).collect()
    };
    Ok(proposals.into_iter().map(|proposal| Chosen { proposal, tried: None }).collect())
}

/// The names at the root and in `tests/`, with the texts that matter.
fn project(place: &Place) -> Result<Project, Failure> {
    let mut files = Vec::new();
    for (folder, prefix) in [(place.repo.root.clone(), ""), (place.repo.root.join("tests"), "tests/")] {
        let Ok(entries) = fs::read_dir(folder) else { continue };
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let read = prefix.is_empty() && detect::READ.contains(&name.as_str());
            let text = if read { fs::read(entry.path()).unwrap_or_default() } else { Vec::new() };
            files.push((format!("{prefix}{name}"), String::from_utf8_lossy(&text).into_owned()));
        }
    }
    Ok(Project::new(files))
}

fn settings(place: &Place, arguments: &Arguments, config: &Config) -> Result<Settings, Failure> {
    let path = if arguments.shared { claude::SHARED } else { claude::LOCAL };
    let full = place.repo.root.join(path);
    let text = crate::files::read_if_there(&full)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let timeouts = Timeouts::for_gates(&config.gates);
    let program = std::env::current_exe()?.to_string_lossy().into_owned();
    let command = claude::command(&program, timeouts.deadline, arguments.shared);
    let text = claude::put_in(text.as_deref(), &command, timeouts).map_err(|error| {
        Failure::new(exit::USAGE, format!("{}: {error}; nothing was written", full.display()))
            .hint("mend the file, or use --no-hooks")
    })?;
    Ok(Settings { path, text, timeouts })
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
            let line = format!("- {{ name: {}, run: {} }}", yaml(&proposal.name), yaml(&proposal.run));
            let about = chosen.tried.as_ref().map(about).unwrap_or_default();
            match works(&chosen) {
                true => text.push_str(&format!("  {line}{about}\n")),
                false => text.push_str(&format!("  # {line}{about}\n")),
            }
        }
        text.push_str("# guard: [check]        # who is held: sub-agents by name\n");
        text.push_str("# budget: { attempts: 5, errors: 3, on_exhausted: release }\n");
        text
    }
}

fn about(report: &GateReport) -> String {
    match &report.outcome {
        Outcome::Passed => format!("  # took {} when it was tried", ralph_core::duration::show(report.took)),
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
    let mut installed = Installed::load(&place.repo_home)?;
    let sha256 = place.repo.config()?.map(|file| file.sha256());
    let undone = installed.undo(&place.repo_home, &place.repo.root)?;
    if undone.is_empty() {
        ui::say("Nothing was installed here by `ralph init`.");
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
        ui::say(format_args!("{}: {word}", path.display()));
    }
    if let Some(sha256) = sha256 {
        Trust::forget(&place.home, &place.repo, &sha256, clock::now())?;
    }
    Ok(ExitCode::SUCCESS)
}
