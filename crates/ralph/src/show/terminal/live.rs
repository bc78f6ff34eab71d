//! A run of gates while it goes on: spinners with times on a terminal, plain lines elsewhere, nothing for scripts. What
//! became of each gate is in the table at the end, with everything that is known then.
//!
//! The spinners are drawn by hand: it is a dozen lines, and the libraries for it bring in the maths library, whose loading
//! every hook call would pay for.

use std::io::{self, IsTerminal as _};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ralph_core::model::duration;
use ralph_core::model::gate::Gate;
use ralph_core::model::id::GateName;

use super::inline::{Inline, Terminal, wheel};
use super::row::Row;
use super::{FAINT, ODD, paint, remark, table};
use crate::sys::env;

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
            () if io::stderr().is_terminal() && !env::is_dumb_terminal() => {
                Self::Spinners(Spinners::start(width))
            }
            () => Self::Lines,
        }
    }
}

impl Live {
    pub(crate) fn started(&mut self, gate: &Gate) {
        match self {
            Self::Quiet => {}
            Self::Lines => remark(format_args!("  running `{}`", gate.name)),
            Self::Spinners(spinners) => spinners.tell(News::Started(gate.name.clone())),
        }
    }

    pub(crate) fn ended(&mut self, gate: &Gate) {
        if let Self::Spinners(spinners) = self {
            spinners.tell(News::Ended(gate.name.clone()));
        }
    }

    pub(crate) fn changed(&mut self, files: &[String]) {
        let line = format!("  the tree changed while gates ran: {}", files.join(", "));
        match self {
            Self::Quiet => {}
            Self::Lines => remark(paint(FAINT, line)),
            Self::Spinners(spinners) => spinners.tell(News::Line(Row::of(FAINT, line))),
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
    Line(Row),
}

impl Spinners {
    fn start(width: usize) -> Self {
        let (news, inbox) = mpsc::channel();
        let draw = move || {
            let mut drawing =
                Drawing { width, running: Vec::new(), turn: 0, inline: Inline::new(Terminal::stderr()) };
            loop {
                let mut above = None;
                match inbox.recv_timeout(Duration::from_millis(100)) {
                    Ok(News::Started(gate)) => drawing.running.push((gate, Instant::now())),
                    Ok(News::Ended(gate)) => drawing.running.retain(|(running, _)| *running != gate),
                    Ok(News::Line(row)) => above = Some(row),
                    Err(RecvTimeoutError::Timeout) => drawing.turn += 1,
                    Err(RecvTimeoutError::Disconnected) => return drawing.inline.draw(&[], &[]),
                }
                drawing.draw(above.as_slice());
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
    inline: Inline,
}

impl Drawing {
    fn draw(&mut self, above: &[Row]) {
        let rows: Vec<Row> = self.running.iter().map(|(gate, since)| self.row(gate, *since)).collect();
        self.inline.draw(above, &rows);
    }

    fn row(&self, gate: &GateName, since: Instant) -> Row {
        let (name, width) = (gate.as_str(), self.width);
        let time = duration::show(Duration::from_secs(since.elapsed().as_secs().max(1)));
        Row::of(ODD, wheel(self.turn)).then(format!(" {name:width$}  running  {time}"))
    }
}
