//! `ralph report`: what came of a loop; and the manual way to write one, for work that no loop of ours did.

use std::process::ExitCode;

use jiff::Timestamp;
use ralph_core::model::id::LoopId;
use ralph_core::say::report::{LoopReport, ManualOutcome, ManualReport};
use serde::{Deserialize, Serialize};

use super::context::Place;
use super::{Done, Failure};
use crate::loops::report;
use crate::show::exit;
use crate::show::terminal::{self, FAINT, paint};
use crate::sys::{clock, files};

fn after_help() -> String {
    format!(
        "Examples:\n  ralph report              the last loop of this repo\n  \
         ralph report fix-the-3f   one loop, by the beginning of its id\n  \
         ralph report start loop \"tidy up\"\n  ralph report complete success \"all tidy\" \"more tests\"\n\n\
         A report is written by itself when a loop ends: {}/*.md for people, {}/*.json\n\
         for scripts. `reports: home` or `reports: off` in your config puts them elsewhere.",
        report::MARKDOWN_FOLDER,
        report::JSON_FOLDER
    )
}

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = after_help())]
pub(super) struct Arguments {
    /// Which loop (its id or the beginning of it); without one, the loop last active
    r#loop: Option<String>,
    /// One JSON object on stdout, for scripts
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Begin a report by hand
    Start {
        #[arg(value_enum)]
        action: Action,
        /// What is to be done
        description: String,
    },
    /// End it: writes the report
    Complete {
        #[arg(value_enum)]
        outcome: Outcome,
        /// What came of it
        summary: String,
        /// What should be done about it; several on lines of their own
        recommendations: Option<String>,
    },
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Action {
    Loop,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Outcome {
    /// A claim: the report says that nobody checked it
    Success,
    Failed,
    Partial,
}

impl From<Outcome> for ManualOutcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Success => Self::Success,
            Outcome::Failed => Self::Failed,
            Outcome::Partial => Self::Partial,
        }
    }
}

pub(super) fn run(arguments: &Arguments) -> Done {
    let place = Place::here(None)?;
    match &arguments.verb {
        None => show(&place, arguments.r#loop.as_deref(), arguments.json),
        Some(Verb::Start { action: Action::Loop, description }) => start(&place, description),
        Some(Verb::Complete { outcome, summary, recommendations }) => {
            complete(&place, (*outcome).into(), summary, recommendations.as_deref())
        }
    }
}

fn show(place: &Place, word: Option<&str>, as_json: bool) -> Done {
    let report = find(place, word)?;
    if as_json {
        terminal::json(&report.json());
        return Ok(ExitCode::SUCCESS);
    }
    for line in report.page() {
        terminal::say(terminal::painted(&line));
    }
    if let Some(written) = report::newest_of(&place.workspace, &report.id) {
        terminal::say("");
        terminal::say(paint(FAINT, format!("  {}", written.markdown.display())));
    }
    Ok(ExitCode::SUCCESS)
}

/// The loop that is meant. Without a word the last one that was started for a task: a look at the gates is none.
fn find(place: &Place, word: Option<&str>) -> Result<LoopReport, Failure> {
    let of = |id: &LoopId| report::of_loop(&place.workspace, id);
    if word.is_some() {
        let id = place.named_loop(word)?;
        let none =
            || Failure::new(exit::USAGE, format!("`{id}` was not started for a task: it has no report"));
        return of(&id)?.ok_or_else(|| none().hint(format!("`ralph log {id}` shows what was")));
    }
    for id in place.workspace.repo_home.loops() {
        if let Some(report) = of(&id)? {
            return Ok(report);
        }
    }
    Err(Failure::new(exit::USAGE, "there was no loop in this repo yet")
        .hint("`ralph loop \"task\"` or `/ralph-loop task` starts one"))
}

/// What `start` remembers until `complete`.
#[derive(Serialize, Deserialize)]
struct Started {
    description: String,
    at: Timestamp,
}

fn start(place: &Place, description: &str) -> Done {
    if description.trim().is_empty() {
        return Err(Failure::new(exit::USAGE, "a report is about something").hint("say what is to be done"));
    }
    place.workspace.repo_home.create()?;
    if let Some(before) = started(place)? {
        let when = terminal::ago(before.at, clock::now());
        terminal::remark(format_args!("a report that was started {when} and never completed is given up"));
    }
    let started = Started { description: description.to_owned(), at: clock::now() };
    let text = serde_json::to_vec(&started).map_err(std::io::Error::other)?;
    files::replace(&place.workspace.repo_home.manual_report(), &text)?;
    terminal::say("Started. `ralph report complete success|failed|partial \"summary\"` writes the report.");
    Ok(ExitCode::SUCCESS)
}

fn started(place: &Place) -> Result<Option<Started>, Failure> {
    let text = files::read_if_there(&place.workspace.repo_home.manual_report())?;
    Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
}

fn complete(place: &Place, outcome: ManualOutcome, summary: &str, recommendations: Option<&str>) -> Done {
    let nothing = || {
        Failure::new(exit::USAGE, "no report was started in this repo")
            .hint("`ralph report start loop \"what is to be done\"` starts one")
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
    let setting = report::setting(&place.workspace);
    let written = report::write_text(&place.workspace, &report.markdown(), &report.json(), setting).map_err(
        |error| Failure::new(exit::NOT_VERIFIED, format!("the report could not be written: {error}")),
    )?;
    std::fs::remove_file(place.workspace.repo_home.manual_report())?;
    terminal::say(format_args!("Status: {}", outcome.status().word()));
    match written {
        Some(written) => {
            terminal::say(written.markdown.display());
            terminal::say(written.json.display());
        }
        None => terminal::remark("reports are switched off (`reports: off`): nothing was written"),
    }
    Ok(ExitCode::SUCCESS)
}
