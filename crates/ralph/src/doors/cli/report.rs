//! `ralph report`: prints a loop's report, or writes one for work done without a loop.

use std::process::ExitCode;

use jiff::Timestamp;
use ralph_core::model::id::LoopId;
use ralph_core::say::report::{LoopReport, ManualOutcome, ManualReport};
use serde::{Deserialize, Serialize};

use super::context::CommandContext;
use super::{CommandError, CommandResult};
use crate::loops::report;
use crate::show::exit;
use crate::show::terminal::{self, FAINT, paint};
use crate::sys::{clock, files};

fn after_help() -> String {
    format!(
        "Examples:\n  ralph report              the last loop of this repo\n  \
         ralph report k3f9         one loop\n  \
         ralph report start loop \"tidy up\"\n  ralph report complete success \"all tidy\" \"more tests\"\n\n\
         Reports are written automatically when a loop ends: {}/*.md for people, {}/*.json\n\
         for scripts. `reports: home` or `reports: off` in your config changes that.",
        report::MARKDOWN_FOLDER,
        report::JSON_FOLDER
    )
}

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = after_help())]
pub(super) struct Arguments {
    /// The loop: its id, the beginning of it, or words of its task [default: the most recently active one]
    #[arg(add = super::completions::loops())]
    r#loop: Option<String>,
    /// Print one JSON object on stdout, for scripts
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Start a manual report
    Start {
        #[arg(value_enum)]
        action: Action,
        /// The task
        description: String,
    },
    /// Complete the manual report and write it
    Complete {
        #[arg(value_enum)]
        outcome: ManualOutcomeArgument,
        /// Summary of the result
        summary: String,
        /// Recommendations, one per line
        recommendations: Option<String>,
    },
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Action {
    Loop,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ManualOutcomeArgument {
    /// Not verified: the report says so
    Success,
    Failed,
    Partial,
}

impl From<ManualOutcomeArgument> for ManualOutcome {
    fn from(outcome: ManualOutcomeArgument) -> Self {
        match outcome {
            ManualOutcomeArgument::Success => Self::Success,
            ManualOutcomeArgument::Failed => Self::Failed,
            ManualOutcomeArgument::Partial => Self::Partial,
        }
    }
}

pub(super) fn run(arguments: &Arguments) -> CommandResult {
    let place = CommandContext::here(None)?;
    match &arguments.verb {
        None => show(&place, arguments.r#loop.as_deref(), arguments.json),
        Some(Verb::Start { action: Action::Loop, description }) => start(&place, description),
        Some(Verb::Complete { outcome, summary, recommendations }) => {
            complete(&place, (*outcome).into(), summary, recommendations.as_deref())
        }
    }
}

fn show(place: &CommandContext, word: Option<&str>, as_json: bool) -> CommandResult {
    let report = find(place, word)?;
    if as_json {
        terminal::json(&report.json());
        return Ok(ExitCode::SUCCESS);
    }
    for line in report.page() {
        terminal::print(terminal::painted(&line));
    }
    if let Some(written) = report::newest_of(place, &report.id) {
        terminal::print("");
        terminal::print(paint(FAINT, format!("  {}", written.markdown.display())));
    }
    Ok(ExitCode::SUCCESS)
}

/// The named loop, else the last one started for a task; `ralph verify` runs do not count.
fn find(place: &CommandContext, word: Option<&str>) -> Result<LoopReport, CommandError> {
    let of = |id: &LoopId| report::of_loop(place, id);
    if word.is_some() {
        let id = place.named_loop(word)?;
        let none = || {
            CommandError::new(
                exit::USAGE,
                format!("`{id}` has no report because it was not started for a task"),
            )
        };
        return of(&id)?.ok_or_else(|| none().hint(format!("show its events with `ralph log {id}`")));
    }
    for id in place.repo_home.loops() {
        if let Some(report) = of(&id)? {
            return Ok(report);
        }
    }
    Err(CommandError::new(exit::USAGE, "no loop in this repo yet")
        .hint("start one with `ralph loop \"task\"` or `/ralph-loop task`"))
}

/// What `start` stores for `complete`.
#[derive(Serialize, Deserialize)]
struct Started {
    description: String,
    at: Timestamp,
}

fn start(place: &CommandContext, description: &str) -> CommandResult {
    if description.trim().is_empty() {
        return Err(CommandError::new(exit::USAGE, "no description given").hint("describe the task"));
    }
    place.repo_home.create()?;
    if let Some(before) = started(place)? {
        let when = terminal::ago(before.at, clock::now());
        terminal::remark(format_args!("discarding an unfinished report started {when}"));
    }
    let started = Started { description: description.to_owned(), at: clock::now() };
    let text = serde_json::to_vec(&started).map_err(std::io::Error::other)?;
    files::replace(&place.repo_home.manual_report(), &text)?;
    terminal::print("Started. `ralph report complete success|failed|partial \"summary\"` writes the report.");
    Ok(ExitCode::SUCCESS)
}

fn started(place: &CommandContext) -> Result<Option<Started>, CommandError> {
    let text = files::read_if_there(&place.repo_home.manual_report())?;
    Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
}

fn complete(
    place: &CommandContext,
    outcome: ManualOutcome,
    summary: &str,
    recommendations: Option<&str>,
) -> CommandResult {
    let nothing = || {
        CommandError::new(exit::USAGE, "no report was started in this repo")
            .hint("start one with `ralph report start loop \"the task\"`")
    };
    let started = started(place)?.ok_or_else(nothing)?;
    let report = ManualReport {
        task: started.description,
        began: started.at,
        ended: clock::now(),
        outcome,
        summary: summary.to_owned(),
        recommendations: recommendations.map(str::to_owned),
    };
    let setting = report::setting(place);
    let written =
        report::write_text(place, &report.markdown(), &report.json(), setting).map_err(|error| {
            CommandError::new(exit::NOT_VERIFIED, format!("the report could not be written: {error}"))
        })?;
    std::fs::remove_file(place.repo_home.manual_report())?;
    terminal::print(format_args!("Status: {}", outcome.status().word()));
    match written {
        Some(written) => {
            terminal::print(written.markdown.display());
            terminal::print(written.json.display());
        }
        None => terminal::remark("reports are disabled (`reports: off`); nothing was written"),
    }
    Ok(ExitCode::SUCCESS)
}
