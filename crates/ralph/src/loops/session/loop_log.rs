//! The log of a session's loop, beside those of driven loops: `~/.ralph/logs/loop-TIME-LOOP.log`, and `loop-latest.log`.
//!
//! It is for reading along and never read back; a log that cannot be written stops nothing.

use ralph_core::ledger::decide::Decision;
use ralph_core::ledger::event::{CancelCause, Event, PauseCause};
use ralph_core::ledger::state::State;
use ralph_core::model::language::Lang;
use ralph_core::say::words;

use crate::loops::session::SessionLoop;
use crate::show::progress;
use crate::sys::clock;

impl SessionLoop {
    /// Logs what changed the loop outside of a stop.
    pub(crate) fn log_events(&self, events: &[Event]) {
        let lines: Vec<String> = events.iter().filter_map(line_of).collect();
        self.log(&lines);
    }

    /// Logs a judged stop; `before` is the state that it was judged in.
    pub(crate) fn log_stop(&self, before: &State, decision: &Decision) {
        let number = before.attempts.saturating_add(1);
        let line = match decision {
            Decision::Block { reason, .. } => {
                format!("stop {number}: blocked. {}", words::reason_in(reason, Lang::En))
            }
            Decision::Allow { verdict, reason, .. } => {
                format!(
                    "stop {number}: {}. {}",
                    words::verdict(*verdict, Lang::En),
                    words::reason_in(reason, Lang::En)
                )
            }
            Decision::Wait { what, .. } => format!("stop allowed for now, waiting for {what}"),
            Decision::Gather | Decision::Act(_) | Decision::Prove | Decision::Ignore(_) => return,
        };
        self.log(&[line]);
    }

    fn log(&self, lines: &[String]) {
        if lines.is_empty() {
            return;
        }
        let dir = self.workspace.home.logs_dir();
        let _nothing_depends_on_it =
            progress::append_to_log(&dir, &self.id, lines, clock::now(), &clock::zone());
    }
}

fn line_of(event: &Event) -> Option<String> {
    Some(match event {
        Event::Began { goal, preset, .. } => {
            let task = goal.as_ref().map(ralph_core::model::goal::Goal::headline).unwrap_or_default();
            format!("started ({preset}): {task}")
        }
        Event::Bound { session, .. } => format!("in session {session}"),
        Event::Paused { why } => format!("paused ({})", pause_word(why)),
        Event::Resumed { renewed: true } => "resumed; the limit was granted once more".into(),
        Event::Resumed { renewed: false } => "resumed".into(),
        Event::Cancelled { why: CancelCause::Failed { why } } => format!("given up: {why}"),
        Event::Cancelled { .. } => "cancelled".into(),
        Event::AgentCalled { name, .. } => format!("agent `{name}` called"),
        Event::AgentFinished { name, report, .. } => match report {
            Some(report) => format!("agent `{name}` finished: {}", report.line()),
            None => format!("agent `{name}` finished"),
        },
        Event::ErrorSeen { error, in_a_row } => format!("error {in_a_row} in a row: {}", error.what),
        _ => return None,
    })
}

fn pause_word(why: &PauseCause) -> &'static str {
    match why {
        PauseCause::Word | PauseCause::Command => "by you",
        PauseCause::Errors => "errors",
        PauseCause::Limit { .. } => "limit",
        PauseCause::SessionEnded { .. } | PauseCause::Cleared { .. } => "the session ended",
        _ => "see `ralph log`",
    }
}
