//! `ralph log`: what was, event by event.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use ralph_core::ledger::event::{CancelCause, Event, ExportOddity, ResetCause, Subject};
use ralph_core::ledger::line::Line;
use ralph_core::ledger::state::{State, Status};
use ralph_core::model::note::NoteValue;
use ralph_core::model::secrets::Secrets;
use ralph_core::model::verdict::Verdict;
use ralph_core::model::{duration, foreign_text};
use ralph_core::say::feedback;
use serde_json::json;

use super::Done;
use super::context::Place;
use crate::show::progress::lines;
use crate::show::terminal::{self, BAD, FAINT, GOOD, ODD, STRONG, paint};
use crate::store::ledger::Loop;
use crate::sys::clock;

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  ralph log               the loop last active\n  ralph log verify -f     follow `ralph verify`"
)]
pub(super) struct Arguments {
    /// Which loop (its id or the beginning of it); without one, the loop last active
    r#loop: Option<String>,
    /// Go on showing events as they come, until the loop is over
    #[arg(short, long)]
    follow: bool,
    /// One JSON object a line, for scripts
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Done {
    let place = Place::here(None)?;
    let id = place.named_loop(arguments.r#loop.as_deref())?;
    let ledger = place.workspace.loop_of(&id);
    if !arguments.json {
        terminal::say(paint(STRONG, &id));
    }
    let shown =
        if arguments.follow { follow(&ledger, arguments.json) } else { show_all(&ledger, arguments.json) };
    match shown {
        // Whoever reads has seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        Ok(()) | Err(_) => Ok(ExitCode::SUCCESS),
    }
}

fn show_all(ledger: &Loop, as_json: bool) -> io::Result<()> {
    let reading = ledger.lines()?;
    for line in &reading.lines {
        show(line, as_json)?;
    }
    if let Some(damage) = reading.damage {
        terminal::remark(paint(BAD, format!("line {}: {}", damage.line, damage.what)));
    }
    Ok(())
}

/// Shows events as they come.
fn follow(ledger: &Loop, as_json: bool) -> io::Result<()> {
    const LOOK_EVERY: Duration = Duration::from_millis(100);
    let (mut state, mut place) = (State::default(), 0);
    loop {
        let (lines, end) = ledger.follow(place)?;
        place = end;
        for line in &lines {
            state.apply(line.at, &line.event);
            show(line, as_json)?;
        }
        if is_over(&state) {
            return Ok(());
        }
        if terminal::reader_leaves_within(LOOK_EVERY) {
            return Ok(());
        }
    }
}

/// Looks of a person at the gates are no loop: one comes after the other.
fn is_over(state: &State) -> bool {
    matches!(state.status, Status::Ended { .. }) && state.subject != Some(Subject::Plain)
}

fn show(line: &Line, as_json: bool) -> io::Result<()> {
    if as_json {
        let value = json!({"seq": line.seq, "at": line.at, "event": line.event, "hash": line.hash});
        return terminal::json_line_to_somebody(&value);
    }
    if matches!(line.event, Event::Carried { .. }) {
        return Ok(());
    }
    let when = line.at.to_zoned(clock::zone()).strftime("%m-%d %H:%M:%S").to_string();
    terminal::say_to_somebody(format_args!("{}  {}", paint(FAINT, when), sentence(&line.event)))
}

fn sentence(event: &Event) -> String {
    match event {
        Event::Began { goal: Some(goal), .. } => format!("began: {}", terminal::plain(goal.headline())),
        Event::Began { subject, task, .. } => {
            let task =
                task.as_ref().map(|task| format!(", task {}", terminal::plain(task))).unwrap_or_default();
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
                terminal::plain(&report.gate),
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
                terminal::plain(feedback::sentence(&judgement.reason))
            )
        }
        Event::CannotTell { trouble, in_a_row, verdict } => {
            format!("{} ({in_a_row} in a row, {verdict}): {trouble}", paint(ODD, "cannot tell"))
        }
        Event::Looked { gates } => {
            let names = gates.iter().map(|gate| format!("`{gate}`")).collect::<Vec<_>>().join(", ");
            format!("looked at {names}, judging nobody")
        }
        Event::PromptSeen { .. } => "the user's prompt: the session is guarded from here on".into(),
        Event::Wrote { tool } => format!("`{tool}` ran, which may write"),
        Event::Waited { what, .. } => format!("waiting for {what}"),
        Event::Carried { .. } => "the state so far".into(),
        Event::Unbound => "no session is asked for it any more".into(),
        Event::Noted { key, value } => format!("noted `{key}`: {}", noted(value)),
        Event::Bound { session, .. } => format!("carried by session {session}"),
        Event::Paused { why } => paint(ODD, format!("paused: {}", lines::pause_cause(why))),
        Event::Resumed { renewed: true } => "resumed, with the same budget once more".into(),
        Event::Resumed { renewed: false } => "resumed".into(),
        Event::Cancelled { why } => paint(ODD, format!("cancelled: {}", cancel_cause(why))),
        Event::AgentCalled { agent, name } => format!("agent `{name}` called ({agent})"),
        Event::AgentFinished { name, report, .. } => {
            let report = report.map(|report| format!(": {}", report.line())).unwrap_or_default();
            format!("agent `{name}` finished{report}")
        }
        Event::IterationBegan { iteration, .. } => format!("iteration {iteration}: the agent runs"),
        Event::AgentEnded { iteration, run } => {
            let cost = run.cost.map(|cost| format!(", {cost}")).unwrap_or_default();
            format!(
                "iteration {iteration}: {} after {}{cost}",
                lines::agent_end(&run.ended),
                duration::show(run.took)
            )
        }
        Event::Kept { iteration, commit } => {
            let short: String = commit.chars().take(12).collect();
            format!("iteration {iteration}: the tree is kept as {short}")
        }
        Event::WaitsUntil { until, why } => {
            let until = until.to_zoned(clock::zone()).strftime("%m-%d %H:%M:%S");
            paint(ODD, format!("waits until {until}: {why}"))
        }
        Event::StrategyChanged => paint(ODD, "no progress: the next iteration begins in another way"),
        Event::Owned { owner } => format!("driven by process {}", owner.process),
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

fn cancel_cause(why: &CancelCause) -> String {
    match why {
        CancelCause::Command => "the person said so".into(),
        CancelCause::FileDeleted => "its file in the repo was deleted".into(),
        CancelCause::Replaced => "another loop took its place".into(),
        CancelCause::Failed { why } => format!("the person gave it up: {why}"),
    }
}

/// On one line: the whole of it is in `ralph state read`.
fn noted(value: &NoteValue) -> String {
    let text = match value {
        NoteValue::Bool(value) => value.to_string(),
        NoteValue::Number(value) => value.to_string(),
        NoteValue::Text(text) => foreign_text::clean(text.as_bytes(), &Secrets::default()),
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(100).collect()
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
