//! Terminal output: the only module that prints. Colours only on a terminal; a closed pipe is not an error. Printed
//! text contains foreign names, paths and words, so all escape sequences except our own colours are removed.

pub(crate) mod crash;
pub(crate) mod inline;
pub(crate) mod live;
pub(crate) mod row;
pub(crate) mod snippet;
pub(crate) mod table;

use std::fmt::Display;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use anstyle::{AnsiColor, Color, Style};
use ralph_core::model::foreign_text;
use ralph_core::say::report::{StyledLine, Tone};

pub(crate) const GOOD: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Green)));
pub(crate) const BAD: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Red))).bold();
pub(crate) const ODD: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Yellow)));
pub(crate) const FAINT: Style = Style::new().dimmed();
pub(crate) const STRONG: Style = Style::new().bold();

/// All escape sequences of our styles and those of [`snippet`].
const OUR_SEQUENCES: [&str; 10] = [
    "\u{1b}[0m",
    "\u{1b}[1m",
    "\u{1b}[2m",
    "\u{1b}[31m",
    "\u{1b}[32m",
    "\u{1b}[33m",
    "\u{1b}[91m",
    "\u{1b}[92m",
    "\u{1b}[94m",
    "\u{1b}[96m",
];

fn harmless(line: impl Display) -> String {
    foreign_text::for_terminal(&line.to_string(), &OUR_SEQUENCES)
}

/// Text in a style; the style is dropped if the output is not a terminal.
pub(crate) fn paint(style: Style, text: impl Display) -> String {
    format!("{style}{}{style:#}", plain(text))
}

/// Foreign text (a task, a path, a name) for use in our own line: without colours too.
pub(crate) fn plain(text: impl Display) -> String {
    foreign_text::for_terminal(&text.to_string(), &[])
}

/// A line of a report, painted.
pub(crate) fn painted(line: &StyledLine) -> String {
    let span = |tone: Tone, text: &str| match tone {
        Tone::Plain => plain(text),
        Tone::Strong => paint(STRONG, text),
        Tone::Faint => paint(FAINT, text),
        Tone::Good => paint(GOOD, text),
        Tone::Odd => paint(ODD, text),
        Tone::Bad => paint(BAD, text),
    };
    line.spans().iter().map(|part| span(part.tone, &part.text)).collect()
}

pub(crate) fn print(line: impl Display) {
    let _reader_gone = writeln!(anstream::stdout(), "{}", harmless(line));
}

/// Like [`print`], for endless output: without a reader it should stop.
pub(crate) fn print_checked(line: impl Display) -> io::Result<()> {
    writeln!(anstream::stdout(), "{}", harmless(line))
}

/// Waits that long, or until stdout has no reader any more.
pub(crate) fn reader_leaves_within(time: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let stdout = io::stdout();
    let mut asked = [PollFd::new(&stdout, PollFlags::empty())];
    match poll(&mut asked, Timespec::try_from(time).ok().as_ref()) {
        // A closed pipe, or a terminal that is gone. Files report nothing.
        Ok(ready) => {
            ready > 0 && asked[0].revents().intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL)
        }
        Err(_) => {
            std::thread::sleep(time);
            false
        }
    }
}

/// For anything except the result itself: progress, hints, errors.
pub(crate) fn remark(line: impl Display) {
    let _reader_gone = writeln!(anstream::stderr(), "{}", harmless(line));
}

pub(crate) fn error(line: impl Display) {
    remark(format_args!("{} {line}", paint(BAD, "error:")));
}

pub(crate) fn hint(line: impl Display) {
    remark(format_args!("{} {line}", paint(FAINT, "hint:")));
}

/// Raw bytes, for other programs.
pub(crate) fn print_whole(bytes: &[u8]) -> ExitCode {
    let _reader_gone = io::stdout().write_all(bytes);
    ExitCode::SUCCESS
}

pub(crate) fn json(value: &serde_json::Value) {
    print(foreign_text::json_for_terminal(&serde_json::to_string_pretty(value).unwrap_or_default()));
}

/// One line of JSON for a reader that may disappear.
pub(crate) fn print_json_checked(value: &serde_json::Value) -> io::Result<()> {
    print_checked(foreign_text::json_for_terminal(&value.to_string()))
}

/// Whether the user can be asked: stdin and stdout are terminals.
pub(crate) fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Asks; only an explicit yes counts.
pub(crate) fn ask(question: impl Display) -> bool {
    matches!(answer_to(question, "[y/N]").as_deref(), Some("y" | "Y" | "yes"))
}

/// Asks with yes as the default: Enter means yes, no input means no.
pub(crate) fn ask_for_the_usual(question: impl Display) -> bool {
    matches!(answer_to(question, "[Y/n]").as_deref(), Some("" | "y" | "Y" | "yes"))
}

fn answer_to(question: impl Display, choices: &str) -> Option<String> {
    let _reader_gone = write!(anstream::stdout(), "{} {choices} ", harmless(question));
    let _reader_gone = io::stdout().flush();
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer).ok().filter(|read| *read > 0);
    read.map(|_| answer.trim().to_owned())
}

/// A relative time for display.
pub(crate) fn ago(then: jiff::Timestamp, now: jiff::Timestamp) -> String {
    let seconds = (now.as_second() - then.as_second()).max(0);
    match seconds {
        0..5 => "just now".into(),
        5..120 => format!("{seconds} s ago"),
        120..7200 => format!("{} min ago", seconds / 60),
        7200..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}
