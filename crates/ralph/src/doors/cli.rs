//! The commands for users and scripts: one definition for parsing, help and completion; one file per command.

mod audit;
mod blocked;
mod cancel;
mod completions;
mod context;
mod demo;
mod diff;
mod doctor;
mod exit_code;
mod init;
mod log;
mod loop_command;
mod ls;
mod man;
mod other_ralph;
mod pause;
mod phase;
mod prove;
mod report;
mod reset;
mod resume;
mod schema;
mod show;
mod start;
mod state;
mod status;
mod takeover;
mod trust;
mod verify;

use std::io;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use ralph_core::model::ship::Until;

use crate::clients::client::Client;
use crate::clients::installation::Installation;
use crate::clients::list;
use crate::loops::driver::driven;
use crate::loops::judge::EngineError;
use crate::show::{exit, terminal};
use crate::store::home::Home;
use crate::store::ledger;
use crate::store::ledger::LedgerError;
use crate::store::settings::SettingsError;
use crate::sys::{proc, trace};

/// Keeps a coding agent working until its work is verified.
///
/// ralph runs the project's own gates on the exact files the agent leaves behind, sends failures back to the agent, and
/// ends the loop only on results it produced itself. `ralph demo` shows it all in seconds.
#[derive(Parser)]
#[command(name = "ralph", version, max_term_width = 100, after_help = AFTER_HELP)]
struct Arguments {
    /// Print each step with its time to stderr (`RALPH_TRACE=FILE`: to a file, for hooks too)
    #[arg(short, long, global = true, display_order = 900)]
    verbose: bool,
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "Exit codes of verify: 0 verified, 1 not verified, 2 usage or config error or no gates, \
3 user action required (gates not accepted), 129/130/143 interrupted.";

#[derive(Subcommand)]
enum Command {
    /// Show how ralph works in seconds, offline, in a temporary folder
    Demo,
    /// Find this project's gates, write ralph.yaml, install the agent client's hooks
    Init(init::Arguments),
    /// Run the gates on the current files and write receipts
    Verify(verify::Arguments),
    /// List the loops of this repo, one line each
    Ls(ls::Arguments),
    /// Show everything about one loop
    Show(show::Arguments),
    /// Show which tests would fail without the change since a commit
    Prove(prove::Arguments),
    /// Show gates, trust and loops
    Status(status::Arguments),
    /// Show every event of a loop
    Log(log::Arguments),
    /// Run a headless agent repeatedly until its work is verified
    Loop(loop_command::Arguments),
    /// Show a loop's report, or write one for work done without a loop
    Report(report::Arguments),
    /// Check that the records of loops are the ones that were written
    Audit(audit::Arguments),
    /// Show what an iteration of a driven loop changed
    Diff(diff::Arguments),
    /// Print where this branch stands: no pull request, CI failed, pending or passed, merged
    Phase(phase::Arguments),
    /// Start a loop: its session's stops are blocked until the task is verified
    Start(start::Arguments),
    /// Manage the state of a session's loop from scripts
    State(state::Arguments),
    /// Pause a loop: it blocks nothing until it is resumed
    Pause(pause::Arguments),
    /// Resume a paused loop where it stopped
    Resume(resume::Arguments),
    /// End a loop for good
    Cancel(cancel::Arguments),
    /// Say that the task cannot be done (for agents): the loop ends and the user decides
    Blocked(blocked::Arguments),
    /// Reset the attempt count of a loop
    Reset(reset::Arguments),
    /// Show and accept the gate definition of this repo
    Trust(trust::Arguments),
    /// Check the installation by sending a recorded event through the installed hook
    Doctor(doctor::Arguments),
    /// Print shell completions
    Completions(completions::Arguments),
    /// Print the JSON schema of ralph.yaml or of the events
    Schema(schema::Arguments),
    /// Print the manual pages
    Man(man::Arguments),
    /// Answer one hook event of an agent client (called by the client)
    Hook(HookArguments),
}

/// The hook of scripts that know only exit codes.
const EXIT_CODE: &str = "exit-code";

/// Only for help: the hook parses its few arguments itself.
#[derive(clap::Args)]
#[command(after_help = list::first_installable().map_or("", |(_, installation)| installation.example))]
struct HookArguments {
    #[arg(help = format!("The client that sends the event: {}; or `{EXIT_CODE}`, for scripts", list::names()))]
    client: String,
    /// With `exit-code`: `pr` or `merged`; exit code 0 if the work may end there, 2 with the reason if not
    #[arg(long, value_name = "GOAL")]
    until: Option<Until>,
    /// Answer within this time, which must be shorter than the client's own timeout [default: 570s]
    #[arg(long, value_name = "TIME")]
    deadline: Option<String>,
    /// Timeout for gates without one [default: 120s]
    #[arg(long, value_name = "TIME")]
    gate_timeout: Option<String>,
}

/// The commands in the order of their help, by what a user wants to do.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Get started", &["demo", "init", "trust", "doctor"]),
    ("Run", &["verify", "prove", "loop", "start"]),
    ("Look", &["ls", "show", "status", "log", "diff", "report", "phase", "audit"]),
    ("Control", &["pause", "resume", "cancel", "reset", "blocked"]),
    ("Plumbing", &["hook", "state", "completions", "man", "schema", "help"]),
];

/// The definition of all commands, with a help that lists them in groups.
fn definition() -> clap::Command {
    let command = Arguments::command();
    let mut groups = String::new();
    for (title, names) in GROUPS {
        groups.push_str(&format!("{title}:\n"));
        for name in names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map_or_else(|| "Print the help of a command".to_owned(), ToString::to_string);
            groups.push_str(&format!("  {name:11}  {about}\n"));
        }
        groups.push('\n');
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}{{after-help}}"
    ))
}

fn parse() -> Result<Arguments, clap::Error> {
    let mut definition = definition();
    let matches = definition.clone().try_get_matches()?;
    Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut definition))
}

pub(crate) fn run() -> ExitCode {
    completions::answer_shell();
    let arguments = match parse() {
        Ok(arguments) => arguments,
        Err(error) => return usage(&error),
    };
    if arguments.verbose {
        trace::to_stderr();
    }
    if arguments.command.reports_verdict() {
        protect_verdict();
    }
    let done = match arguments.command {
        Command::Demo => demo::run(),
        Command::Init(arguments) => init::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Schema(arguments) => schema::run(&arguments),
        Command::Man(arguments) => man::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Ls(arguments) => ls::run(&arguments),
        Command::Show(arguments) => show::run(&arguments),
        Command::Prove(arguments) => prove::run(&arguments),
        Command::Status(arguments) => status::run(&arguments),
        Command::Log(arguments) => log::run(&arguments),
        Command::Loop(arguments) => loop_command::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Audit(arguments) => audit::run(&arguments),
        Command::Diff(arguments) => diff::run(&arguments),
        Command::Phase(arguments) => phase::run(&arguments),
        Command::Start(arguments) => start::run(&arguments),
        Command::Blocked(arguments) => blocked::run(&arguments),
        Command::State(arguments) => state::run(&arguments),
        Command::Pause(arguments) => pause::run(&arguments),
        Command::Resume(arguments) => resume::run(&arguments),
        Command::Cancel(arguments) => cancel::run(&arguments),
        Command::Reset(arguments) => reset::run(&arguments),
        Command::Trust(arguments) => trust::run(&arguments),
        Command::Hook(HookArguments { client, until: Some(until), .. })
            if client == EXIT_CODE && matches!(until, Until::Pr | Until::Merged) =>
        {
            exit_code::run(until)
        }
        Command::Hook(arguments) => return report_hook_usage(&arguments),
    };
    done.unwrap_or_else(CommandError::show)
}

impl Command {
    /// Whether its exit code reports a verdict.
    fn reports_verdict(&self) -> bool {
        matches!(self, Self::Verify(_) | Self::Prove(_) | Self::Loop(_) | Self::Resume(_) | Self::State(_))
    }
}

/// Protects the verdict of this process from other processes. Inside an agent's run the verdict belongs to the driver, and
/// the driver or its successor has to find this process by the mark in its environment.
fn protect_verdict() {
    proc::forbid_debuggers();
    if Home::find().is_ok_and(|home| driven::inside_driven_agent(&home)) {
        proc::permit_debuggers();
    }
}

/// Exit code 2 means "block" to a client, so a usage error of the hook must not return it.
fn usage(error: &clap::Error) -> ExitCode {
    let _reader_gone = error.print();
    let is_hook = std::env::args_os().nth(1).is_some_and(|word| word == "hook");
    match (error.use_stderr(), is_hook) {
        (false, _) => ExitCode::SUCCESS,
        (true, true) => ExitCode::from(exit::NOT_VERIFIED),
        (true, false) => ExitCode::from(exit::USAGE),
    }
}

fn report_hook_usage(arguments: &HookArguments) -> ExitCode {
    let times = [&arguments.deadline, &arguments.gate_timeout].into_iter().flatten();
    let wrong_time = times.filter_map(|text| ralph_core::model::duration::parse(text).err()).next();
    let wrong_goal = (arguments.client == EXIT_CODE)
        .then(|| "`exit-code` needs `--until pr` or `--until merged`".to_owned());
    terminal::error(wrong_time.or(wrong_goal).unwrap_or_else(|| no_such_client(&arguments.client)));
    ExitCode::from(exit::NOT_VERIFIED)
}

fn no_such_client(name: &str) -> String {
    format!("unknown client `{name}`; supported: {}", list::names())
}

/// The client that `ralph init` installs hooks for and `ralph doctor` checks.
fn installed_client() -> Result<(&'static Client, &'static Installation), CommandError> {
    let none = || CommandError::new(exit::USAGE, format!("hooks cannot be installed for {}", list::names()));
    list::first_installable().ok_or_else(none)
}

/// `ralph verify` runs have a log like a loop's, but are not a loop.
fn require_loop(place: &context::CommandContext, word: Option<&str>, verb: &str) -> Result<(), CommandError> {
    let Some(word) = word else { return Ok(()) };
    if place.loop_to_change(word)? != ledger::verify_loop() {
        return Ok(());
    }
    let what = format!("`verify` is the log of your own `ralph verify` runs; there is nothing to {verb}");
    Err(CommandError::new(exit::USAGE, what).hint("list the loops with `ralph status`"))
}

/// Why a command failed, and how to fix it.
#[derive(Debug)]
struct CommandError {
    what: String,
    hint: Option<String>,
    code: u8,
}

impl CommandError {
    fn new(code: u8, what: impl Into<String>) -> Self {
        Self { what: what.into(), hint: None, code }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    fn show(self) -> ExitCode {
        terminal::error(&self.what);
        if let Some(hint) = &self.hint {
            terminal::hint(hint);
        }
        ExitCode::from(self.code)
    }
}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        Self::new(exit::USAGE, error.to_string())
    }
}

impl From<SettingsError> for CommandError {
    fn from(error: SettingsError) -> Self {
        Self::new(exit::USAGE, error.to_string())
    }
}

impl From<LedgerError> for CommandError {
    fn from(error: LedgerError) -> Self {
        std::io::Error::from(error).into()
    }
}

impl From<EngineError> for CommandError {
    fn from(error: EngineError) -> Self {
        Self::new(exit::NOT_VERIFIED, error.to_string())
    }
}

type CommandResult = Result<ExitCode, CommandError>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group_of_the_help() {
        let definition = Arguments::command();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        for command in definition.get_subcommands() {
            let name = command.get_name();
            assert_eq!(
                grouped.iter().filter(|one| **one == name).count(),
                1,
                "`{name}` belongs into GROUPS once"
            );
        }
        for name in grouped {
            assert!(name == "help" || definition.find_subcommand(name).is_some(), "`{name}` is no command");
        }
    }
}
