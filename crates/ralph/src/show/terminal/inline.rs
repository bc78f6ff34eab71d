//! A few lines at the bottom of the terminal that are redrawn, while finished lines scroll up above them and stay. No
//! alternate screen, no hidden cursor, so nothing has to be restored after a crash.

use std::io::{self, Write};

use anstream::{AutoStream, ColorChoice};

use super::row::TerminalRow;

/// A spinner.
pub(crate) fn wheel(turn: usize) -> char {
    const WHEEL: [char; 8] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧'];
    WHEEL[turn % WHEEL.len()]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

/// The output terminal.
pub(crate) struct Terminal {
    to: Box<dyn Write + Send>,
    size: fn() -> Size,
    in_colours: bool,
}

impl Terminal {
    pub(crate) fn stderr() -> Self {
        let in_colours = AutoStream::choice(&io::stderr()) != ColorChoice::Never;
        Self { to: Box::new(io::stderr()), size: size_of_stderr, in_colours }
    }

    #[cfg(test)]
    pub(crate) fn of(to: impl Write + Send + 'static, size: fn() -> Size) -> Self {
        Self { to: Box::new(to), size, in_colours: false }
    }

    pub(crate) fn size(&self) -> Size {
        (self.size)()
    }
}

/// A common default if it is unknown.
fn size_of_stderr() -> Size {
    let reported = rustix::termios::tcgetwinsize(io::stderr()).ok();
    let side = |number: Option<u16>, usual| number.filter(|number| *number > 0).map_or(usual, usize::from);
    Size {
        columns: side(reported.map(|size| size.ws_col), 80),
        rows: side(reported.map(|size| size.ws_row), 24),
    }
}

/// The lines currently drawn.
pub(crate) struct Inline {
    terminal: Terminal,
    picture: Picture,
}

impl Inline {
    pub(crate) fn new(terminal: Terminal) -> Self {
        Self { terminal, picture: Picture::default() }
    }

    pub(crate) fn size(&self) -> Size {
        self.terminal.size()
    }

    /// Draws: `above` stays on the terminal, `rows` until the next call.
    pub(crate) fn draw(&mut self, above: &[TerminalRow], rows: &[TerminalRow]) {
        if above.is_empty() && rows.is_empty() && self.picture.drawn.is_empty() {
            return;
        }
        let frame = self.picture.frame(above, rows, self.size(), self.terminal.in_colours);
        // In one write, to avoid flicker.
        let _terminal_gone = self.terminal.to.write_all(frame.as_bytes());
    }

    /// Keeps what is drawn and starts below it, because another process wrote to the terminal.
    pub(crate) fn let_stand(&mut self) {
        self.picture.drawn.clear();
    }
}

#[derive(Debug, Default)]
struct Picture {
    /// The width in cells of each line on the terminal.
    drawn: Vec<usize>,
}

impl Picture {
    /// The bytes to send to the terminal.
    fn frame(&mut self, above: &[TerminalRow], rows: &[TerminalRow], size: Size, in_colours: bool) -> String {
        // The last column stays empty: terminals disagree on the cursor position after it.
        let width = size.columns.saturating_sub(1);
        // Moving up stops at the top of the screen, so no more rows than that may be drawn.
        let rows: Vec<TerminalRow> =
            rows.iter().take(size.rows.saturating_sub(1)).map(|row| row.cut(width)).collect();
        let mut frame = self.to_the_top(size.columns);
        if !above.is_empty() {
            frame.push_str("\x1b[J");
        }
        for row in above {
            frame.push_str(&row.show(in_colours));
            frame.push_str("\r\n");
        }
        // Without wrapping, a character that is wider than expected is cut at the line end instead of breaking the
        // layout.
        frame.push_str("\x1b[?7l");
        for row in &rows {
            frame.push_str("\x1b[K");
            frame.push_str(&row.show(in_colours));
            frame.push_str("\r\n");
        }
        frame.push_str("\x1b[?7h\x1b[J");
        self.drawn = rows.iter().map(TerminalRow::cells).collect();
        frame
    }

    /// A terminal that became narrower has wrapped the drawn lines.
    fn to_the_top(&self, columns: usize) -> String {
        let lines: usize = self.drawn.iter().map(|cells| cells.div_ceil(columns.max(1)).max(1)).sum();
        match lines {
            0 => "\r".into(),
            lines => format!("\x1b[{lines}A\r"),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A minimal terminal emulator.
    pub(crate) struct Screen {
        lines: Vec<String>,
        row: usize,
    }

    impl Screen {
        pub(crate) fn new() -> Self {
            Self { lines: vec![String::new()], row: 0 }
        }

        pub(crate) fn take(&mut self, frame: &str) {
            let mut rest = frame;
            while let Some(c) = rest.chars().next() {
                rest = &rest[c.len_utf8()..];
                match c {
                    '\x1b' => {
                        let end = rest.find(|c: char| c.is_ascii_alphabetic()).expect("a whole sequence");
                        self.obey(&rest[1..end], &rest[end..=end]);
                        rest = &rest[end + 1..];
                    }
                    '\r' => {}
                    '\n' => {
                        self.row += 1;
                        if self.row == self.lines.len() {
                            self.lines.push(String::new());
                        }
                    }
                    c => self.lines[self.row].push(c),
                }
            }
        }

        fn obey(&mut self, number: &str, what: &str) {
            match what {
                "A" => {
                    self.row =
                        self.row.checked_sub(number.parse().expect("a number")).expect("not above the top");
                }
                "J" => {
                    self.lines.truncate(self.row + 1);
                    self.lines[self.row].clear();
                }
                "K" => self.lines[self.row].clear(),
                "h" | "l" if number == "?7" => {}
                other => panic!("{number}{other} is not known"),
            }
        }

        pub(crate) fn text(&self) -> String {
            self.lines.join("\n")
        }
    }

    const SIZE: Size = Size { columns: 20, rows: 5 };

    fn rows(texts: &[&str]) -> Vec<TerminalRow> {
        texts.iter().map(|text| TerminalRow::new(*text)).collect()
    }

    #[test]
    fn finished_lines_stay_and_rows_are_redrawn() {
        let (mut picture, mut screen) = (Picture::default(), Screen::new());
        let mut step = |above: &[&str], below: &[&str]| {
            screen.take(&picture.frame(&rows(above), &rows(below), SIZE, false));
            screen.text()
        };
        assert_eq!(step(&[], &["one", "two"]), "one\ntwo\n");
        assert_eq!(step(&[], &["1"]), "1\n");
        assert_eq!(step(&["done"], &["2", "3"]), "done\n2\n3\n");
        assert_eq!(step(&["and this, which is longer than a line"], &["4"]), {
            "done\nand this, which is longer than a line\n4\n"
        });
        assert_eq!(step(&[], &[]), "done\nand this, which is longer than a line\n");
    }

    #[test]
    fn a_picture_is_never_wider_or_higher_than_the_terminal() {
        let mut picture = Picture::default();
        let many = rows(&["a line that is much too long for it"; 9]);
        let frame = picture.frame(&[], &many, SIZE, false);
        assert_eq!(picture.drawn, [19, 19, 19, 19]);
        assert_eq!(frame.matches("\r\n").count(), 4);
    }

    #[test]
    fn a_terminal_that_became_narrower_has_wrapped_what_was_there() {
        let mut picture = Picture::default();
        picture.frame(&[], &rows(&["0123456789abcde", "x", ""]), SIZE, false);
        let narrower = picture.frame(&[], &rows(&["y"]), Size { columns: 8, rows: 5 }, false);
        assert!(narrower.starts_with("\x1b[4A\r"), "{narrower:?}");
    }
}
