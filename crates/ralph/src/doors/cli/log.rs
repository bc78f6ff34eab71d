//! `ralph log`: prints a loop's events.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use ralph_core::ledger::event::{CancelCause, Event, ExportNote, ResetCause, Subject};
use ralph_core::ledger::line::LedgerLine;
use ralph_core::ledger::state::{State, Status};
use ralph_core::model::gate::CheckResult;
use ralph_core::model::note::NoteValue;
use ralph_core::model::secrets::Secrets;
use ralph_core::model::verdict::Verdict;
use ralph_core::model::{duration, foreign_text};
use ralph_core::say::words;
use serde_json::json;

use super::CommandResult;
use super::context::CommandContext;
use crate::show::progress::lines;
use crate::show::terminal::{self, BAD, FAINT, GOOD, ODD, STRONG, paint};
use crate::store::ledger::Loop;
use crate::sys::clock;

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  ralph log               the most recently active loop\n  ralph log verify -f     follow `ralph verify`"
)]
pub(super) struct Arguments {
    /// Loop, by its id or a prefix of it [default: the most recently active one]
    r#loop: Option<String>,
    /// Keep printing new events until the loop ends
    #[arg(short, long)]
    follow: bool,
    /// Print one JSON object per line, for scripts
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> CommandResult {
    let place = CommandContext::here(None)?;
    let id = place.named_loop(arguments.r#loop.as_deref())?;
    let ledger = place.loop_of(&id);
    if !arguments.json {
        terminal::print(paint(STRONG, &id));
    }
    let shown =
        if arguments.follow { follow(&ledger, arguments.json) } else { show_all(&ledger, arguments.json) };
    match shown {
        // The reader closed the pipe.
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

/// Prints events as they are written.
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

/// `ralph verify` runs are not a loop: there is always a next one.
fn is_over(state: &State) -> bool {
    matches!(state.status, Status::Ended { .. }) && state.subject != Some(Subject::Plain)
}

fn show(line: &LedgerLine, as_json: bool) -> io::Result<()> {
    if as_json {
        let value = json!({"seq": line.seq, "at": line.at, "event": line.event, "hash": line.hash});
        return terminal::print_json_checked(&value);
    }
    if matches!(line.event, Event::Snapshot { .. }) {
        return Ok(());
    }
    let when = line.at.to_zoned(clock::zone()).strftime("%m-%d %H:%M:%S").to_string();
    terminal::print_checked(format_args!("{}  {}", paint(FAINT, when), sentence(&line.event)))
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
            format!("adopted from another tool at iteration {iteration}")
        }
        Event::Reset { why } => format!("count reset: {}", reset_cause(why)),
        Event::ExportNoted { what } => paint(ODD, oddity(what)),
        Event::RunStarted { tree, files, note, .. } => {
            let note = note.as_ref().map(|note| paint(ODD, format!(" ({note})"))).unwrap_or_default();
            format!(
                "running gates on tree {} ({files} files){note}",
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
                terminal::plain(words::reason(&judgement.reason))
            )
        }
        Event::NotEvaluated { trouble, in_a_row, verdict } => {
            format!("{} ({in_a_row} in a row, {verdict}): {trouble}", paint(ODD, "not evaluated"))
        }
        Event::RanWithoutVerdict { gates } => {
            let names = gates.iter().map(|gate| format!("`{gate}`")).collect::<Vec<_>>().join(", ");
            format!("ran {names} (no verdict)")
        }
        Event::PromptSeen { .. } => "user prompt: the session is guarded from here on".into(),
        Event::Wrote { tool } => format!("`{tool}` ran and may have changed files"),
        Event::Shipped(step) => terminal::plain(words::ship_step(step)),
        Event::ShipWaits(wait) => format!(
            "waits for {} of {} until {} at the latest",
            wait.step,
            ralph_core::ledger::ship::short(&wait.commit),
            wait.deadline.to_zoned(clock::zone()).strftime("%H:%M")
        ),
        Event::ClaimFileSeen { file, .. } => format!("saw `{}` for this code", terminal::plain(file)),
        Event::Waited { what, .. } => format!("waiting for {what}"),
        Event::Snapshot { .. } => "state snapshot".into(),
        Event::Unbound => "detached from its session".into(),
        Event::Noted { key, value } => format!("noted `{key}`: {}", noted(value)),
        Event::Bound { session, .. } => format!("attached to session {session}"),
        Event::Paused { why } => paint(ODD, format!("paused: {}", lines::pause_cause(why))),
        Event::Resumed { renewed: true } => "resumed with a new budget".into(),
        Event::Resumed { renewed: false } => "resumed".into(),
        Event::Cancelled { why } => paint(ODD, format!("cancelled: {}", cancel_cause(why))),
        Event::AgentCalled { agent, name, .. } => format!("agent `{name}` called ({agent})"),
        Event::AgentFinished { name, report, .. } => {
            let report = report.map(|report| format!(": {}", report.line())).unwrap_or_default();
            format!("agent `{name}` finished{report}")
        }
        Event::IterationBegan { iteration, .. } => format!("iteration {iteration}: agent started"),
        Event::AgentEnded { iteration, run } => {
            let cost = run.cost.map(|cost| format!(", {cost}")).unwrap_or_default();
            format!(
                "iteration {iteration}: {} after {}{cost}",
                lines::agent_end(&run.ended),
                duration::show(run.took)
            )
        }
        Event::Committed { iteration, commit } => {
            let short: String = commit.chars().take(12).collect();
            format!("iteration {iteration}: checkpoint {short}")
        }
        Event::WaitingUntil { until, why } => {
            let until = until.to_zoned(clock::zone()).strftime("%m-%d %H:%M:%S");
            paint(ODD, format!("waiting until {until}: {why}"))
        }
        Event::StrategyChanged => paint(ODD, "no progress; the next iteration tries a different approach"),
        Event::DriverStarted { owner } => format!("driven by process {}", owner.process),
        Event::ErrorSeen { error, in_a_row } => {
            paint(BAD, format!("error ({in_a_row} in a row): {:?}: {}", error.kind, error.what))
        }
        Event::BaselineRan { reports, .. } => {
            let failing = reports.iter().filter(|report| report.outcome.answer() != CheckResult::Pass);
            let names: Vec<String> =
                failing.map(|report| format!("`{}`", terminal::plain(&report.gate))).collect();
            match names.as_slice() {
                [] => "at the start every gate passes".into(),
                names => format!("at the start these gates do not pass: {}", names.join(", ")),
            }
        }
        Event::StartRecorded { tree } => {
            format!(
                "stored the files of the start, tree {}",
                tree.as_str().chars().take(12).collect::<String>()
            )
        }
        Event::AgentBlocked { why } => {
            paint(ODD, format!("the agent cannot continue: {}", terminal::plain(why)))
        }
        Event::LedgerRepaired { what } => paint(ODD, format!("ledger repaired: {what}")),
    }
}

fn reset_cause(why: &ResetCause) -> String {
    match why {
        ResetCause::TaskChanged { to, .. } => format!("task changed ({})", to.as_deref().unwrap_or("none")),
        ResetCause::Stale { idle_seconds } => format!("idle for {} min", idle_seconds / 60),
        ResetCause::ExportDeleted { .. } => "the state file in the repo was deleted".into(),
        ResetCause::NewPrompt { .. } => "new user prompt".into(),
        ResetCause::Command => "`ralph reset`".into(),
    }
}

fn cancel_cause(why: &CancelCause) -> String {
    match why {
        CancelCause::Command => "by the user".into(),
        CancelCause::FileDeleted => "its file in the repo was deleted".into(),
        CancelCause::Replaced => "replaced by another loop".into(),
        CancelCause::Failed { why } => format!("given up by the user: {why}"),
    }
}

/// On one line; `ralph state read` has the whole value.
fn noted(value: &NoteValue) -> String {
    let text = match value {
        NoteValue::Bool(value) => value.to_string(),
        NoteValue::Number(value) => value.to_string(),
        NoteValue::Text(text) => foreign_text::clean(text.as_bytes(), &Secrets::default()),
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(100).collect()
}

fn oddity(what: &ExportNote) -> String {
    match what {
        ExportNote::DeletedAgain { .. } => {
            "the state file was deleted again by the same agent; the count continues".into()
        }
        ExportNote::Disagrees { ledger, .. } => {
            format!("the state file was edited; the count stays at {ledger}")
        }
        ExportNote::Unreadable { kept_as } => {
            format!("the state file could not be read; kept as {kept_as}")
        }
    }
}
