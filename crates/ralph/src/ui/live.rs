//! A run of gates while it goes on: spinners with times on a terminal, plain lines elsewhere, nothing for scripts. What
//! became of each gate is in the table at the end, with everything that is known then.
//!
//! The spinners are drawn by hand: it is a dozen lines, and the libraries for it bring in the maths library, whose loading
//! every hook call would pay for.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ralph_core::duration;
use ralph_core::gate::Gate;
use ralph_core::id::GateName;

use super::{FAINT, paint, remark, table};
use crate::gates::Watch;

pub(crate) enum Live {
    Quiet,
    Lines,
    Spinners(Spinners),
}

impl Live {
    pub(crate) fn new(gates: &[Gate], quiet: bool) -> Self {
        let width = table::width(gates.iter().map(|gate| &gate.name));
        match () {
            () if quiet => Self::Quiet,
            () if io::stderr().is_terminal() => Self::Spinners(Spinners::start(width)),
            () => Self::Lines,
        }
    }
}

impl Watch for Live {
    fn started(&mut self, gate: &Gate) {
        match self {
            Self::Quiet => {}
            Self::Lines => remark(format_args!("  running `{}`", gate.name)),
            Self::Spinners(spinners) => spinners.tell(News::Started(gate.name.clone())),
        }
    }

    fn ended(&mut self, gate: &Gate) {
        if let Self::Spinners(spinners) = self {
            spinners.tell(News::Ended(gate.name.clone()));
        }
    }

    fn changed(&mut self, files: &[String]) {
        let line = paint(FAINT, format!("  the tree changed while gates ran: {}", files.join(", ")));
        match self {
            Self::Quiet => {}
            Self::Lines => remark(line),
            Self::Spinners(spinners) => spinners.tell(News::Line(line)),
        }
    }
}

/// A thread that redraws one line for each running gate, until it is dropped.
pub(crate) struct Spinners {
    news: Option<Sender<News>>,
    thread: Option<JoinHandle<()>>,
}

enum News {
    Started(GateName),
    Ended(GateName),
    Line(String),
}

impl Spinners {
    fn start(width: usize) -> Self {
        let (news, inbox) = mpsc::channel();
        let draw = move || {
            let mut drawing = Drawing { width, running: Vec::new(), turn: 0, lines: 0 };
            loop {
                match inbox.recv_timeout(Duration::from_millis(100)) {
                    Ok(news) => drawing.take(news),
                    Err(RecvTimeoutError::Timeout) => drawing.turn += 1,
                    Err(RecvTimeoutError::Disconnected) => return drawing.clear(),
                }
                drawing.draw();
            }
        };
        // Without room for a thread there are no spinners, and the table comes all the same.
        let thread = std::thread::Builder::new().spawn(draw).ok();
        Self { news: Some(news), thread }
    }

    fn tell(&self, news: News) {
        let _nobody_draws = self.news.as_ref().map(|sender| sender.send(news));
    }
}

impl Drop for Spinners {
    /// The last line is cleared before anything else is printed.
    fn drop(&mut self) {
        self.news = None;
        let _it_only_draws = self.thread.take().map(JoinHandle::join);
    }
}

struct Drawing {
    width: usize,
    running: Vec<(GateName, Instant)>,
    turn: usize,
    /// How many lines are on the screen.
    lines: usize,
}

impl Drawing {
    fn take(&mut self, news: News) {
        match news {
            News::Started(gate) => self.running.push((gate, Instant::now())),
            News::Ended(gate) => self.running.retain(|(running, _)| *running != gate),
            News::Line(line) => {
                self.clear();
                remark(line);
            }
        }
    }

    fn clear(&mut self) {
        if self.lines > 0 {
            // Up to the first of our lines, and everything below it away.
            let _terminal_gone = write!(io::stderr(), "\x1b[{}A\r\x1b[J", self.lines);
        }
        self.lines = 0;
    }

    fn draw(&mut self) {
        const WHEEL: [char; 8] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧'];
        self.clear();
        let wheel = WHEEL[self.turn % WHEEL.len()];
        for (gate, since) in &self.running {
            let (name, width) = (gate.as_str(), self.width);
            let time = duration::show(Duration::from_secs(since.elapsed().as_secs().max(1)));
            remark(format_args!("{} {name:width$}  running  {time}", paint(super::ODD, wheel)));
        }
        self.lines = self.running.len();
    }
}
