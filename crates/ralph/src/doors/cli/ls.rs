//! `ralph ls`: the loops of this repo, one line each, the most recently active first.

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use ralph_core::ledger::event::Subject;
use ralph_core::ledger::state::State;
use ralph_core::model::duration;
use ralph_core::model::id::LoopId;
use ralph_core::model::short_id::ShortId;
use ralph_core::say::loop_row::LoopRow;
use serde_json::json;

use super::context::CommandContext;
use super::{CommandError, CommandResult};
use crate::loops::driver::driven::DrivenLoop;
use crate::show::language;
use crate::show::terminal::inline::Terminal;
use crate::show::terminal::row::{self, TerminalRow};
use crate::show::terminal::{self, BAD, FAINT, GOOD, ODD, STRONG, paint};
use crate::sys::clock;

/// How many are listed unless the user asks for more.
pub(super) const USUAL: usize = 10;

#[derive(clap::Args)]
#[command(after_help = "Examples:\n  ralph ls            the ten most recently active loops\n  \
ralph ls -n 50      more of them\n  ralph ls --json     for scripts\n\n\
Every command that takes a LOOP accepts the id of the first column, the beginning of an id, or words\n\
of the task: `ralph show k3f9`, `ralph log login`.")]
pub(super) struct Arguments {
    /// List this many loops
    #[arg(short = 'n', long, value_name = "N", default_value_t = USUAL)]
    number: usize,
    /// List all loops
    #[arg(short, long, conflicts_with = "number")]
    all: bool,
    /// Print a JSON list on stdout, for scripts
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> CommandResult {
    let place = CommandContext::here(None)?;
    let most = if arguments.all { usize::MAX } else { arguments.number };
    let list = LoopList::newest(&place, most)?;
    if arguments.json {
        terminal::json(&json!(list.rows().collect::<Vec<_>>()));
        return Ok(ExitCode::SUCCESS);
    }
    if list.loops.is_empty() {
        terminal::print("No loop in this repo yet.");
        terminal::hint("start one with `ralph loop \"task\"`, or `/ralph-loop task` in a session");
    }
    list.show(|_, _| Vec::new());
    Ok(ExitCode::SUCCESS)
}

/// Some loops of a repo.
pub(super) struct LoopList {
    /// Each with its state.
    pub(super) loops: Vec<(LoopRow, State)>,
    /// How many more there are, at most.
    further: usize,
}

impl LoopList {
    /// The most recently active ones. Runs of `ralph verify` are not loops, and a guarded session is none before its first
    /// judged stop.
    pub(super) fn newest(place: &CommandContext, most: usize) -> Result<Self, CommandError> {
        let ids = place.repo_home.loops();
        let shorts: Vec<ShortId> = ids.iter().map(ShortId::of).collect();
        let mut loops = Vec::new();
        let mut seen = 0;
        for (id, short) in ids.iter().zip(&shorts) {
            if loops.len() >= most {
                break;
            }
            seen += 1;
            let state = place.state_of(id)?;
            if state.subject.as_ref().is_some_and(|subject| *subject != Subject::Plain) {
                loops.push((row_of(id, short.among(&shorts), &state), state));
            }
        }
        Ok(Self { loops, further: ids.len() - seen })
    }

    /// A single one, whatever it is.
    pub(super) fn of(place: &CommandContext, id: &LoopId) -> Result<Self, CommandError> {
        let shorts: Vec<ShortId> = place.repo_home.loop_names().map(|id| ShortId::of(&id)).collect();
        let state = place.state_of(id)?;
        Ok(Self { loops: vec![(row_of(id, ShortId::of(id).among(&shorts), &state), state)], further: 0 })
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &LoopRow> {
        self.loops.iter().map(|(row, _)| row)
    }

    /// Prints the list, with these further lines below each loop.
    pub(super) fn show(&self, more: impl Fn(&LoopRow, &State) -> Vec<String>) {
        let width = |text: &dyn Fn(&LoopRow) -> String| {
            self.rows().map(|row| row::cells(&text(row))).max().unwrap_or(0)
        };
        let widths = Widths {
            short: width(&|row| row.short.clone()),
            state: width(&|row| row.shown_state.clone()),
            agent: width(&agent),
            count: width(&LoopRow::count),
            elapsed: width(&elapsed),
            cost: width(&cost),
            age: width(&age),
        };
        let columns = if io::stdout().is_terminal() { Terminal::stderr().size().columns } else { 110 };
        for (row, state) in &self.loops {
            terminal::print(line(row, &widths, columns));
            for line in more(row, state) {
                terminal::print(format_args!("{:width$}  {line}", "", width = widths.short));
            }
        }
        if self.further > 0 {
            terminal::print(paint(FAINT, format!("up to {} older: `ralph ls --all`", self.further)));
        }
    }
}

/// The row of one loop.
pub(super) fn row_of(id: &LoopId, short: &str, state: &State) -> LoopRow {
    let found = DrivenLoop { id: id.clone(), state: state.clone() };
    let is_driven = state.subject == Some(Subject::Driver) && found.driven_by().is_some();
    LoopRow::new(id, short, state, is_driven, language::of_loop(state), clock::now())
}

struct Widths {
    short: usize,
    state: usize,
    agent: usize,
    count: usize,
    elapsed: usize,
    cost: usize,
    age: usize,
}

/// The task takes the space that the other columns leave.
fn line(row: &LoopRow, widths: &Widths, columns: usize) -> String {
    const LEAST: usize = 12;
    const GAPS: usize = 2 * 7;
    let others = widths.short
        + widths.state
        + widths.agent
        + widths.count
        + widths.elapsed
        + widths.cost
        + widths.age
        + GAPS;
    let room = columns.saturating_sub(others + 1).max(LEAST);
    let task = TerminalRow::new(row.task.as_str()).cut(room).padded(room);
    let style = match row.state {
        "verified" => GOOD,
        "running" | "paused" | "not judged" | "done, unverified" | "cancelled" => ODD,
        _ => BAD,
    };
    let Widths { short, state, agent: agents, count, elapsed: times, cost: costs, age: ages } = *widths;
    format!(
        "{}  {}  {task}  {:agents$}  {:>count$}  {:>times$}  {:>costs$}  {}",
        paint(STRONG, format!("{:short$}", row.short)),
        paint(style, TerminalRow::new(row.shown_state.as_str()).padded(state)),
        agent(row),
        row.count(),
        elapsed(row),
        cost(row),
        paint(FAINT, format!("{:>ages$}", age(row))),
    )
}

fn agent(row: &LoopRow) -> String {
    TerminalRow::new(row.agent.as_str()).cut(16).show(false)
}

fn elapsed(row: &LoopRow) -> String {
    if row.elapsed.is_zero() { "0s".into() } else { duration::show(row.elapsed) }
}

fn cost(row: &LoopRow) -> String {
    row.cost_micros.map_or_else(|| "-".to_owned(), |cost| cost.to_string())
}

fn age(row: &LoopRow) -> String {
    row.last_activity.map(|at| terminal::ago(at, clock::now())).unwrap_or_default()
}
