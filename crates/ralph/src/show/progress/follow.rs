//! All followers of a driven loop: always its log, and one of live view, plain lines, JSON lines, or almost nothing.

use std::io::{self, IsTerminal as _};

use jiff::tz::TimeZone;
use ralph_core::ledger::drive_plan::DrivePlan;
use ralph_core::ledger::loop_event::LoopEvent;
use ralph_core::model::foreign_text;

use crate::show::progress::follower::Follower;
use crate::show::progress::json;
use crate::show::progress::lines::Lines;
use crate::show::progress::log::ProgressLog;
use crate::show::progress::outbox::{MessageWeight, Outbox};
use crate::show::progress::view::{TasksLook, View};
use crate::show::terminal;
use crate::show::terminal::inline::Terminal;
use crate::store::home::Home;
use crate::sys::signals::Signals;
use crate::sys::{clock, env};

/// The requested output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// A live view on a terminal, plain lines elsewhere.
    People,
    /// `--quiet`: only the final result.
    Quiet,
    /// `--json`: one object per line on stdout.
    Json,
}

pub(crate) struct Following {
    log: Option<ProgressLog>,
    shown: Shown,
}

enum Shown {
    View(View),
    Lines { lines: Lines, to: Outbox },
    Json { to: Outbox, signals: Signals },
    Quiet(Lines),
}

/// `tasks`: reads the task list for the view while the agent works.
pub(crate) fn new(
    output: Output,
    plan: &DrivePlan,
    home: &Home,
    tasks: Option<TasksLook>,
    signals: &Signals,
) -> Following {
    let zone = clock::zone();
    let lines = Lines::new(plan, zone.clone());
    let mut shown = Shown::new(output, plan, tasks, signals, lines.clone());
    let log = open_log(plan, home, lines, &zone, &mut shown);
    Following { log, shown }
}

fn open_log(
    plan: &DrivePlan,
    home: &Home,
    lines: Lines,
    zone: &TimeZone,
    shown: &mut Shown,
) -> Option<ProgressLog> {
    let dir = home.logs_dir();
    match ProgressLog::open(&dir, &plan.loop_id, lines, clock::now(), zone) {
        Ok(log) => Some(log),
        Err(error) => {
            shown.note(format!("cannot write the log of this loop: {}: {error}", dir.display()));
            None
        }
    }
}

impl Follower for Following {
    fn receive(&mut self, event: &LoopEvent) {
        if let Some(log) = &mut self.log
            && let Err(error) = log.receive(event, clock::now())
        {
            self.shown.note(format!("cannot continue the log of this loop: {error}"));
            self.log = None;
        }
        self.shown.receive(event);
    }
}

impl Shown {
    fn new(
        output: Output,
        plan: &DrivePlan,
        tasks: Option<TasksLook>,
        signals: &Signals,
        lines: Lines,
    ) -> Self {
        match output {
            Output::Quiet => Self::Quiet(lines),
            Output::Json => {
                Self::Json { to: Outbox::new(io::stdout(), json::left_out), signals: signals.clone() }
            }
            Output::People if io::stderr().is_terminal() && !env::is_dumb_terminal() => {
                // If stdout is the same terminal, the summary is printed there.
                let says_end = !io::stdout().is_terminal();
                Self::View(View::start(plan, tasks, signals, lines, Terminal::stderr(), says_end))
            }
            Output::People => Self::Lines {
                lines,
                to: Outbox::new(io::stderr(), |count| {
                    format!("  ({count} lines omitted: the reader was too slow)")
                }),
            },
        }
    }

    fn receive(&mut self, event: &LoopEvent) {
        let weight =
            if matches!(event, LoopEvent::Agent(_)) { MessageWeight::Light } else { MessageWeight::Heavy };
        match self {
            Self::View(view) => view.receive(event),
            Self::Lines { lines, to } => {
                for line in lines.of(event) {
                    to.put(terminal::plain(line), weight);
                }
            }
            Self::Json { to, signals } => {
                let line = json::line(event, clock::now(), signals.caught());
                to.put(foreign_text::json_for_terminal(&line), weight);
            }
            Self::Quiet(lines) => {
                if let LoopEvent::Ends { state, .. } = event {
                    terminal::remark(lines.end(state));
                }
            }
        }
    }

    /// Reports a problem of the display itself, once.
    fn note(&mut self, line: String) {
        match self {
            Self::View(view) => view.note(&line),
            Self::Lines { to, .. } => to.put(terminal::plain(line), MessageWeight::Heavy),
            Self::Json { .. } | Self::Quiet(_) => terminal::remark(line),
        }
    }
}
