//! The live view of a driven loop on a terminal: where it is, for how long, what the agent does, how the gates stand.
//!
//! The loop only changes the scene, which takes no time; a thread draws it ten times a second, however much happens. So
//! neither a flood of events nor a terminal that takes nothing can hold the loop up.

mod scene;

use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{mem, thread};

use ralph_core::ledger::drive_plan::DrivePlan;
use ralph_core::ledger::loop_event::LoopEvent;
use ralph_core::say::banner::Progress;

use self::scene::{Now, Scene};
use crate::show::progress::lines::Lines;
use crate::show::terminal::ODD;
use crate::show::terminal::inline::{Inline, Terminal};
use crate::show::terminal::row::Row;
use crate::sys::clock;
use crate::sys::signals::Signals;

/// How often it is drawn.
const TICK: Duration = Duration::from_millis(100);
/// How long a terminal that takes nothing is waited for at the end.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) struct View {
    board: Arc<Board>,
    /// Says that everything is drawn.
    drawn: Receiver<()>,
}

/// What the loop and the thread that draws share.
struct Board {
    content: Mutex<Content>,
    over: Condvar,
}

struct Content {
    scene: Scene,
    /// Lines that are finished and not drawn yet; they stay on the terminal.
    above: Vec<Row>,
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
        let content =
            Content { scene: Scene::new(plan, lines, says_end, now()), above: Vec::new(), is_over: false };
        let board = Arc::new(Board { content: Mutex::new(content), over: Condvar::new() });
        let (is_drawn, drawn) = mpsc::channel();
        let artist =
            Artist { board: Arc::clone(&board), signals: signals.clone(), boxes: tasks.map(Boxes::new) };
        // Without room for a thread there is no view; the log is there all the same.
        let _nobody_draws = thread::Builder::new().spawn(move || {
            artist.draw_until_it_is_over(terminal);
            let _nobody_waits = is_drawn.send(());
        });
        Self { board, drawn }
    }

    pub(super) fn receive(&mut self, event: &LoopEvent) {
        let mut content = self.board.content();
        let finished = content.scene.receive(event, now());
        content.above.extend(finished);
    }

    pub(super) fn note(&mut self, line: &str) {
        self.board.content().above.push(Row::of(ODD, line));
    }
}

impl Drop for View {
    /// What is drawn is taken away, and what is finished has been written, before anything else is printed.
    fn drop(&mut self) {
        self.board.content().is_over = true;
        self.board.over.notify_all();
        let _terminal_takes_nothing = self.drawn.recv_timeout(PATIENCE);
    }
}

fn now() -> Now {
    Now { tick: Instant::now(), clock: clock::now() }
}

/// The thread that draws.
struct Artist {
    board: Arc<Board>,
    signals: Signals,
    boxes: Option<Boxes>,
}

impl Artist {
    fn draw_until_it_is_over(mut self, terminal: Terminal) {
        let mut inline = Inline::new(terminal);
        let mut last = Instant::now();
        let mut pause = Duration::ZERO;
        for turn in 0.. {
            let (above, scene) = self.look(pause);
            pause = TICK;
            // We stood still, as after Ctrl-Z: the shell has written below what was drawn.
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

    /// What is to be drawn after a pause; no scene once it is over.
    fn look(&mut self, pause: Duration) -> (Vec<Row>, Option<Scene>) {
        let tasks = self.boxes.as_mut().and_then(Boxes::look);
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

/// Says how many boxes of the loop's task list are ticked; none where it cannot be told now.
pub(crate) type TasksLook = Box<dyn Fn() -> Option<Progress> + Send>;

/// The boxes of the task list, looked at while the agent ticks them.
struct Boxes {
    look: TasksLook,
    looked: Option<Instant>,
    seen: Option<Progress>,
}

impl Boxes {
    fn new(look: TasksLook) -> Self {
        Self { look, looked: None, seen: None }
    }

    fn look(&mut self) -> Option<Progress> {
        const EVERY: Duration = Duration::from_secs(1);
        if self.looked.is_none_or(|looked| looked.elapsed() >= EVERY) {
            self.looked = Some(Instant::now());
            // A list that is being written keeps the last answer.
            self.seen = (self.look)().or(self.seen);
        }
        self.seen
    }
}

#[cfg(test)]
mod tests;
