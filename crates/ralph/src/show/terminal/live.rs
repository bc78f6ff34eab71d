//! Progress of a gate run: spinners with times on a terminal, plain lines elsewhere, nothing for scripts. The results
//! are in the final table.
//!
//! The spinners are drawn by hand: the libraries for it pull in the maths library, and every hook call would pay for
//! loading it.

use std::io::{self, IsTerminal as _};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ralph_core::model::duration;
use ralph_core::model::gate::Gate;
use ralph_core::model::id::GateName;

use super::inline::{Inline, Terminal, wheel};
use super::row::TerminalRow;
use super::{FAINT, ODD, paint, remark, table};
use crate::sys::env;

pub(crate) enum GateDisplay {
    Quiet,
    Lines,
    Spinners(Spinners),
}

impl GateDisplay {
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

impl GateDisplay {
    pub(crate) fn started(&mut self, gate: &Gate) {
        match self {
            Self::Quiet => {}
            Self::Lines => remark(format_args!("  running `{}`", gate.name)),
            Self::Spinners(spinners) => spinners.send(News::Started(gate.name.clone())),
        }
    }

    pub(crate) fn ended(&mut self, gate: &Gate) {
        if let Self::Spinners(spinners) = self {
            spinners.send(News::Ended(gate.name.clone()));
        }
    }

    pub(crate) fn changed(&mut self, files: &[String]) {
        let line = format!("  the tree changed while gates ran: {}", files.join(", "));
        match self {
            Self::Quiet => {}
            Self::Lines => remark(paint(FAINT, line)),
            Self::Spinners(spinners) => spinners.send(News::Line(TerminalRow::of(FAINT, line))),
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
    Line(TerminalRow),
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
        // Without a thread there are no spinners, but the table is still printed.
        let thread = std::thread::Builder::new().spawn(draw).ok();
        Self { news: Some(news), thread }
    }

    fn send(&self, news: News) {
        let _thread_gone = self.news.as_ref().map(|sender| sender.send(news));
    }
}

impl Drop for Spinners {
    /// Clears the last line before anything else is printed.
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
    fn draw(&mut self, above: &[TerminalRow]) {
        let rows: Vec<TerminalRow> =
            self.running.iter().map(|(gate, since)| self.row(gate, *since)).collect();
        self.inline.draw(above, &rows);
    }

    fn row(&self, gate: &GateName, since: Instant) -> TerminalRow {
        let (name, width) = (gate.as_str(), self.width);
        let time = duration::show(Duration::from_secs(since.elapsed().as_secs().max(1)));
        TerminalRow::of(ODD, wheel(self.turn)).then(format!(" {name:width$}  running  {time}"))
    }
}
