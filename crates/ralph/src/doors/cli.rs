//! The commands for people and scripts: one definition for parsing, help and completion; one file per command.

mod cancel;
mod completions;
mod context;
mod demo;
mod diff;
mod doctor;
mod init;
mod log;
mod loop_command;
mod man;
mod pause;
mod report;
mod reset;
mod resume;
mod schema;
mod start;
mod state;
mod status;
mod trust;
mod verify;

use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
use crate::sys::proc;

/// Holds a coding agent until its work is shown to be done.
///
/// ralph runs the project's own gates on the very tree the agent leaves, sends back what fails, and ends the loop only
/// on evidence it made itself. `ralph demo` shows the whole story in seconds.
#[derive(Parser)]
#[command(name = "ralph", version, max_term_width = 100, after_help = AFTER_HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "Exit codes of verify: 0 verified, 1 not verified, 2 usage or config error or no gates, \
3 needs a person (untrusted), 129/130/143 interrupted.";

#[derive(Subcommand)]
enum Command {
    /// Show the whole story in seconds, offline, in a temporary folder
    Demo,
    /// Find this project's gates, write ralph.yaml, wire the agent client
    Init(init::Arguments),
    /// Run the gates on the tree as it is, and write receipts
    Verify(verify::Arguments),
    /// Show what is: gates, trust, loops
    Status(status::Arguments),
    /// Show what was: every event of a loop
    Log(log::Arguments),
    /// Run a headless agent again and again until the gates pass
    Loop(loop_command::Arguments),
    /// Show what came of a loop; or write a report of work that no loop did
    Report(report::Arguments),
    /// Show what an iteration of a driven loop changed
    Diff(diff::Arguments),
    /// Start a loop: the session that carries it is held until the task is shown to be done
    Start(start::Arguments),
    /// Keep the state of a session's loop, for scripts that do so by hand
    State(state::Arguments),
    /// Pause a loop: it holds nobody until it is resumed
    Pause(pause::Arguments),
    /// Go on with a paused loop where it was
    Resume(resume::Arguments),
    /// End a loop for good
    Cancel(cancel::Arguments),
    /// Start the count of a loop again
    Reset(reset::Arguments),
    /// Show and accept the gate definition of this repo
    Trust(trust::Arguments),
    /// Prove the wiring: send a recorded event through the hook as installed
    Doctor(doctor::Arguments),
    /// Print completions for a shell
    Completions(completions::Arguments),
    /// Print the JSON schema of ralph.yaml or of the events
    Schema(schema::Arguments),
    /// Print the manual page
    Man,
    /// Answer one hook event of an agent client (the client calls this)
    Hook(HookArguments),
}

/// For help only: the fast door reads its few words itself.
#[derive(clap::Args)]
#[command(after_help = list::first_installable().map_or("", |(_, installation)| installation.example))]
struct HookArguments {
    #[arg(help = format!("The client whose event it is: {}", list::names()))]
    client: String,
    /// Answer within this time, which must be shorter than the client's own time-out [default: 570s]
    #[arg(long, value_name = "TIME")]
    deadline: Option<String>,
    /// Time-out of gates that have none of their own [default: 120s]
    #[arg(long, value_name = "TIME")]
    gate_timeout: Option<String>,
}

pub(crate) fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return usage(&error),
    };
    if arguments.command.gives_a_verdict() {
        shield();
    }
    let done = match arguments.command {
        Command::Demo => demo::run(),
        Command::Init(arguments) => init::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Schema(arguments) => schema::run(&arguments),
        Command::Man => man::run(),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Status(arguments) => status::run(&arguments),
        Command::Log(arguments) => log::run(&arguments),
        Command::Loop(arguments) => loop_command::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Diff(arguments) => diff::run(&arguments),
        Command::Start(arguments) => start::run(&arguments),
        Command::State(arguments) => state::run(&arguments),
        Command::Pause(arguments) => pause::run(&arguments),
        Command::Resume(arguments) => resume::run(&arguments),
        Command::Cancel(arguments) => cancel::run(&arguments),
        Command::Reset(arguments) => reset::run(&arguments),
        Command::Trust(arguments) => trust::run(&arguments),
        Command::Hook(arguments) => return wrong_hook(&arguments),
    };
    done.unwrap_or_else(Failure::show)
}

impl Command {
    /// Whether its exit code says that something is verified.
    fn gives_a_verdict(&self) -> bool {
        matches!(self, Self::Verify(_) | Self::Loop(_) | Self::Resume(_) | Self::State(_))
    }
}

/// Keeps other processes from changing the verdict of this one. Inside an agent's run the verdict is the driver's, and the
/// driver, or its successor after a kill, has to find this process by the mark in its environment.
fn shield() {
    proc::forbid_debuggers();
    if Home::find().is_ok_and(|home| driven::are_we_driven(&home)) {
        proc::permit_debuggers();
    }
}

/// Exit code 2 means "hold it" to a client, so a wrong call of the hook must not end with it.
fn usage(error: &clap::Error) -> ExitCode {
    let _reader_gone = error.print();
    let is_hook = std::env::args_os().nth(1).is_some_and(|word| word == "hook");
    match (error.use_stderr(), is_hook) {
        (false, _) => ExitCode::SUCCESS,
        (true, true) => ExitCode::from(exit::NOT_VERIFIED),
        (true, false) => ExitCode::from(exit::USAGE),
    }
}

fn wrong_hook(arguments: &HookArguments) -> ExitCode {
    let times = [&arguments.deadline, &arguments.gate_timeout].into_iter().flatten();
    let wrong_time = times.filter_map(|text| ralph_core::model::duration::parse(text).err()).next();
    terminal::error(wrong_time.unwrap_or_else(|| no_such_client(&arguments.client)));
    ExitCode::from(exit::NOT_VERIFIED)
}

fn no_such_client(name: &str) -> String {
    format!("there is no client `{name}`; there is: {}", list::names())
}

/// The client that `ralph init` installs our hook for, and `ralph doctor` looks at.
fn installed_client() -> Result<(&'static Client, &'static Installation), Failure> {
    let none = || Failure::new(exit::USAGE, format!("no hook can be installed for {}", list::names()));
    list::first_installable().ok_or_else(none)
}

/// The runs of `ralph verify` have a log like a loop, and are none.
fn must_be_a_loop(place: &context::Place, word: Option<&str>, verb: &str) -> Result<(), Failure> {
    if word.is_none() || place.named_loop(word)? != ledger::plain_loop() {
        return Ok(());
    }
    let what = format!("`verify` is the log of your own `ralph verify` runs; there is nothing to {verb}");
    Err(Failure::new(exit::USAGE, what).hint("`ralph status` lists the loops"))
}

/// Why a command could not do its work: what, and how to mend it.
#[derive(Debug)]
struct Failure {
    what: String,
    hint: Option<String>,
    code: u8,
}

impl Failure {
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

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new(exit::USAGE, error.to_string())
    }
}

impl From<SettingsError> for Failure {
    fn from(error: SettingsError) -> Self {
        Self::new(exit::USAGE, error.to_string())
    }
}

impl From<LedgerError> for Failure {
    fn from(error: LedgerError) -> Self {
        std::io::Error::from(error).into()
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Self::new(exit::NOT_VERIFIED, error.to_string())
    }
}

type Done = Result<ExitCode, Failure>;
