//! The live view of a driven loop on a terminal: iteration, time, agent activity, gate status.
//!
//! The loop only updates the state, which is fast; a thread draws it ten times a second, however many events arrive.
//! So neither a flood of events nor a blocked terminal can delay the loop.

mod scene;

use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{mem, thread};

use ralph_core::ledger::drive_plan::DrivePlan;
use ralph_core::ledger::loop_event::LoopEvent;
use ralph_core::say::banner::TaskProgress;

use self::scene::{ClockTime, ViewState};
use crate::show::progress::lines::Lines;
use crate::show::terminal::ODD;
use crate::show::terminal::inline::{Inline, Terminal};
use crate::show::terminal::row::TerminalRow;
use crate::sys::clock;
use crate::sys::signals::Signals;

/// The redraw interval.
const TICK: Duration = Duration::from_millis(100);
/// How long to wait at the end for a blocked terminal.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) struct View {
    board: Arc<Board>,
    /// Receives a message when everything is drawn.
    drawn: Receiver<()>,
}

/// Shared by the loop and the drawing thread.
struct Board {
    content: Mutex<Content>,
    over: Condvar,
}

struct Content {
    scene: ViewState,
    /// Finished lines that are not drawn yet; they stay on the terminal.
    above: Vec<TerminalRow>,
    is_over: bool,
}

impl Board {
    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl View {
    pub(super) fn start(
        plan: &DrivePlan,
        tasks: Option<TasksLook>,
        signals: &Signals,
        lines: Lines,
        terminal: Terminal,
        says_end: bool,
    ) -> Self {
        let content = Content {
            scene: ViewState::new(plan, lines, says_end, now()),
            above: Vec::new(),
            is_over: false,
        };
        let board = Arc::new(Board { content: Mutex::new(content), over: Condvar::new() });
        let (is_drawn, drawn) = mpsc::channel();
        let artist = Painter {
            board: Arc::clone(&board),
            signals: signals.clone(),
            boxes: tasks.map(TaskPoller::new),
        };
        // Without a thread there is no view, but the log is still written.
        let _no_view = thread::Builder::new().spawn(move || {
            artist.draw_until_it_is_over(terminal);
            let _view_dropped = is_drawn.send(());
        });
        Self { board, drawn }
    }

    pub(super) fn receive(&mut self, event: &LoopEvent) {
        let mut content = self.board.content();
        let finished = content.scene.receive(event, now());
        content.above.extend(finished);
    }

    pub(super) fn note(&mut self, line: &str) {
        self.board.content().above.push(TerminalRow::of(ODD, line));
    }
}

impl Drop for View {
    /// Clears the drawing and writes finished lines before anything else is printed.
    fn drop(&mut self) {
        self.board.content().is_over = true;
        self.board.over.notify_all();
        let _terminal_takes_nothing = self.drawn.recv_timeout(PATIENCE);
    }
}

fn now() -> ClockTime {
    ClockTime { tick: Instant::now(), clock: clock::now() }
}

/// The drawing thread.
struct Painter {
    board: Arc<Board>,
    signals: Signals,
    boxes: Option<TaskPoller>,
}

impl Painter {
    fn draw_until_it_is_over(mut self, terminal: Terminal) {
        let mut inline = Inline::new(terminal);
        let mut last = Instant::now();
        let mut pause = Duration::ZERO;
        for turn in 0.. {
            let (above, scene) = self.look(pause);
            pause = TICK;
            // We were suspended, as after Ctrl-Z: the shell has written below the drawing.
            if last.elapsed() > TICK * 20 {
                inline.let_stand();
            }
            let rows = scene.as_ref().map(|scene| scene.draw(now(), turn, inline.size())).unwrap_or_default();
            inline.draw(&above, &rows);
            last = Instant::now();
            if scene.is_none() {
                return;
            }
        }
    }

    /// What to draw after a pause; no state once it is over.
    fn look(&mut self, pause: Duration) -> (Vec<TerminalRow>, Option<ViewState>) {
        let tasks = self.boxes.as_mut().and_then(TaskPoller::look);
        let content = self.board.content();
        let waited = self.board.over.wait_timeout_while(content, pause, |content| !content.is_over);
        let (mut content, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let above = mem::take(&mut content.above);
        content.scene.tasks = tasks;
        content.scene.is_asked_to_end = self.signals.caught().is_some();
        let scene = (!content.is_over).then(|| content.scene.clone());
        (above, scene)
    }
}

/// Returns how many checkboxes of the loop's task list are ticked; `None` if it cannot be read now.
pub(crate) type TasksLook = Box<dyn Fn() -> Option<TaskProgress> + Send>;

/// The checkboxes of the task list, read while the agent ticks them.
struct TaskPoller {
    look: TasksLook,
    looked: Option<Instant>,
    seen: Option<TaskProgress>,
}

impl TaskPoller {
    fn new(look: TasksLook) -> Self {
        Self { look, looked: None, seen: None }
    }

    fn look(&mut self) -> Option<TaskProgress> {
        const EVERY: Duration = Duration::from_secs(1);
        if self.looked.is_none_or(|looked| looked.elapsed() >= EVERY) {
            self.looked = Some(Instant::now());
            // While the list is being written, the last result stays.
            self.seen = (self.look)().or(self.seen);
        }
        self.seen
    }
}

#[cfg(test)]
mod tests;
