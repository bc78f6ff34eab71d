//! `ralph log`: what was, event by event.

use std::process::ExitCode;
use std::time::Duration;

use ralph_core::duration;
use ralph_core::feedback;
use ralph_core::ledger::event::{CancelCause, Event, ExportOddity, PauseCause, ResetCause};
use ralph_core::ledger::line::Line;
use ralph_core::verdict::Verdict;
use serde_json::json;

use super::Done;
use super::context::Place;
use crate::ui::{self, BAD, FAINT, GOOD, ODD, STRONG, paint};
use crate::{clock, ledger};

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  ralph log               the loop last active\n  ralph log verify -f     follow `ralph verify`"
)]
pub(super) struct Arguments {
    /// Which loop (its id or the beginning of it); without one, the loop last active
    r#loop: Option<String>,
    /// Go on showing events as they come
    #[arg(short, long)]
    follow: bool,
    /// One JSON object a line, for scripts
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Done {
    let place = Place::here(None)?;
    let id = place.named_loop(arguments.r#loop.as_deref())?;
    let dir = place.repo_home.loop_dir(&id);
    let mut shown = 0;
    if !arguments.json {
        ui::say(paint(STRONG, &id));
    }
    loop {
        let reading = ledger::read(&dir)?;
        for line in reading.lines.iter().skip(shown) {
            show(line, arguments.json);
        }
        shown = shown.max(reading.lines.len());
        if let Some(damage) = reading.damage.filter(|_| !arguments.follow) {
            ui::remark(paint(BAD, format!("line {}: {}", damage.line, damage.what)));
        }
        if !arguments.follow {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn show(line: &Line, as_json: bool) {
    if as_json {
        let value = json!({"seq": line.seq, "at": line.at, "event": line.event, "hash": line.hash});
        ui::say(value);
        return;
    }
    let when = line.at.to_zoned(clock::zone()).strftime("%m-%d %H:%M:%S").to_string();
    ui::say(format_args!("{}  {}", paint(FAINT, when), sentence(&line.event)));
}

fn sentence(event: &Event) -> String {
    match event {
        Event::Began { goal: Some(goal), .. } => format!("began: {}", goal.headline()),
        Event::Began { subject, task, .. } => {
            let task = task.as_ref().map(|task| format!(", task {task}")).unwrap_or_default();
            format!("began: `{}`{task}", subject.name())
        }
        Event::Adopted { iteration, .. } => {
            format!("carried on from another tool's state at iteration {iteration}")
        }
        Event::Reset { why } => format!("the count starts again: {}", reset_cause(why)),
        Event::ExportNoted { what } => paint(ODD, oddity(what)),
        Event::RunStarted { tree, files, note, .. } => {
            let note = note.as_ref().map(|note| paint(ODD, format!(" ({note})"))).unwrap_or_default();
            format!(
                "gates on tree {} of {files} files{note}",
                tree.as_str().chars().take(12).collect::<String>()
            )
        }
        Event::GateRan { report, receipt } => {
            let style = if receipt.is_some() { GOOD } else { BAD };
            format!(
                "gate `{}` {} in {}",
                report.gate,
                paint(style, report.outcome.sentence()),
                duration::show(report.took)
            )
        }
        Event::Interrupted { why } => paint(ODD, format!("interrupted: {why}")),
        Event::Judged(judgement) => {
            let style = if judgement.verdict == Verdict::Verified { GOOD } else { BAD };
            let limit = judgement.limit.map(|limit| format!(" [{}]", limit.code())).unwrap_or_default();
            let verdict = paint(style, judgement.verdict);
            format!(
                "attempt {}: {verdict}{limit}: {}",
                judgement.attempt,
                feedback::sentence(&judgement.reason)
            )
        }
        Event::CannotTell { trouble, in_a_row, verdict } => {
            format!("{} ({in_a_row} in a row, {verdict}): {trouble}", paint(ODD, "cannot tell"))
        }
        Event::Looked { gates } => {
            let names = gates.iter().map(|gate| format!("`{gate}`")).collect::<Vec<_>>().join(", ");
            format!("looked at {names}, judging nobody")
        }
        Event::Waited { what, .. } => format!("waiting for {what}"),
        Event::Bound { session, .. } => format!("carried by session {session}"),
        Event::Paused { why } => paint(ODD, format!("paused: {}", pause_cause(why))),
        Event::Resumed { renewed: true } => "resumed, with the same budget once more".into(),
        Event::Resumed { renewed: false } => "resumed".into(),
        Event::Cancelled { why } => paint(ODD, format!("cancelled: {}", cancel_cause(why))),
        Event::AgentCalled { agent, name } => format!("agent `{name}` called ({agent})"),
        Event::AgentFinished { name, report, .. } => {
            let report = report.map(|report| format!(": {}", report.line())).unwrap_or_default();
            format!("agent `{name}` finished{report}")
        }
        Event::Erred { error, in_a_row } => {
            paint(BAD, format!("error ({in_a_row} in a row): {:?}: {}", error.kind, error.what))
        }
        Event::LedgerMended { what } => paint(ODD, format!("the ledger was mended: {what}")),
    }
}

fn reset_cause(why: &ResetCause) -> String {
    match why {
        ResetCause::TaskChanged { to, .. } => format!("another task ({})", to.as_deref().unwrap_or("none")),
        ResetCause::Stale { idle_seconds } => format!("nothing for {} min", idle_seconds / 60),
        ResetCause::ExportDeleted { .. } => "the state file in the repo was deleted".into(),
        ResetCause::NewPrompt { .. } => "the person asked for something new".into(),
        ResetCause::Command => "`ralph reset`".into(),
    }
}

fn pause_cause(why: &PauseCause) -> String {
    match why {
        PauseCause::Word => "the person said so".into(),
        PauseCause::Command => "`ralph pause`".into(),
        PauseCause::SessionEnded { reason } => format!("its session ended ({reason})"),
        PauseCause::Cleared { .. } => "its session was cleared".into(),
        PauseCause::Errors => "too many errors in a row".into(),
        PauseCause::Limit { limit } => format!("a limit was reached ({})", limit.code()),
    }
}

fn cancel_cause(why: &CancelCause) -> &'static str {
    match why {
        CancelCause::Command => "the person said so",
        CancelCause::FileDeleted => "its file in the repo was deleted",
        CancelCause::Replaced => "another loop took its place",
    }
}

fn oddity(what: &ExportOddity) -> String {
    match what {
        ExportOddity::DeletedAgain { .. } => {
            "the state file was deleted again by the same agent; the count goes on".into()
        }
        ExportOddity::Disagrees { ledger, .. } => {
            format!("the state file was edited; the count stays at {ledger}")
        }
        ExportOddity::Unreadable { kept_as } => {
            format!("the state file could not be read; kept as {kept_as}")
        }
    }
}
