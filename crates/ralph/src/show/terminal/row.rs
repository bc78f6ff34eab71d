//! One line of text in several styles, with its width in terminal cells.
//!
//! Widths are overestimated: some terminals draw a character in one cell, others in two, and a line that is too short
//! does no harm while one that is too long breaks the layout.

use anstyle::Style;
use unicode_width::UnicodeWidthChar as _;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TerminalRow {
    parts: Vec<(Style, String)>,
}

impl TerminalRow {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self::default().then(text)
    }

    pub(crate) fn of(style: Style, text: impl Into<String>) -> Self {
        Self::default().and(style, text)
    }

    #[must_use]
    pub(crate) fn then(self, text: impl Into<String>) -> Self {
        self.and(Style::new(), text)
    }

    /// Always on one line.
    #[must_use]
    pub(crate) fn and(mut self, style: Style, text: impl Into<String>) -> Self {
        let text = super::plain(text.into().replace(char::is_control, " "));
        self.parts.push((style, text));
        self
    }

    pub(crate) fn cells(&self) -> usize {
        self.parts.iter().map(|(_, text)| cells(text)).sum()
    }

    /// The beginning that fits.
    #[must_use]
    pub(crate) fn cut(&self, most: usize) -> Self {
        if self.cells() <= most {
            return self.clone();
        }
        let mut left = most.saturating_sub(1);
        let mut parts = Vec::new();
        for (style, text) in &self.parts {
            let head = head_of(text, left);
            left -= cells(head);
            let is_whole = head.len() == text.len();
            parts.push((*style, head.to_owned()));
            if !is_whole {
                break;
            }
        }
        if let Some((_, text)) = parts.last_mut().filter(|_| most > 0) {
            text.push('…');
        }
        Self { parts }
    }

    /// The text without styles, filled up with blanks.
    pub(crate) fn padded(&self, width: usize) -> String {
        format!("{}{}", self.show(false), " ".repeat(width.saturating_sub(self.cells())))
    }

    /// The text with or without its styles.
    pub(crate) fn show(&self, in_colours: bool) -> String {
        let mut shown = String::new();
        for (style, text) in &self.parts {
            if in_colours && *style != Style::new() {
                shown.push_str(&super::paint(*style, text));
            } else {
                shown.push_str(text);
            }
        }
        shown
    }
}

/// The longest prefix that fits into that many cells.
fn head_of(text: &str, most: usize) -> &str {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += cells_of(c);
        if used > most {
            return &text[..at];
        }
    }
    text
}

pub(crate) fn cells(text: &str) -> usize {
    text.chars().map(cells_of).sum()
}

fn cells_of(c: char) -> usize {
    match c {
        // It turns the previous character into an emoji, which is wider.
        '\u{fe0f}' => 1,
        c => c.width().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::terminal::{BAD, GOOD};

    #[test]
    fn cuts_at_a_whole_character() {
        let table = [
            ("short", 10, "short"),
            ("exactly ten", 11, "exactly ten"),
            ("one too many", 11, "one too ma…"),
            ("測試測試", 8, "測試測試"),
            ("測試測試", 7, "測試測…"),
            ("測試測試", 6, "測試…"),
            ("☑️ done", 6, "☑️ do…"),
            ("a\tb\nc\u{1b}[2J", 20, "a b c [2J"),
            ("anything", 1, "…"),
            ("anything", 0, ""),
        ];
        for (text, most, shown) in table {
            let cut = TerminalRow::new(text).cut(most);
            assert_eq!(cut.show(false), shown, "{text:?} in {most}");
            assert!(cut.cells() <= most, "{text:?} in {most}");
        }
    }

    #[test]
    fn a_cut_closes_styles() {
        let row = TerminalRow::of(GOOD, "good").then(" and ").and(BAD, "bad");
        for most in 0..=row.cells() + 1 {
            let cut = row.cut(most);
            assert!(cut.cells() <= most, "{most}");
            let shown = cut.show(true);
            assert_eq!(shown.matches("\u{1b}[0m").count(), shown.matches("\u{1b}[3").count(), "{shown:?}");
        }
        assert_eq!(row.cut(7).show(false), "good a…");
    }

    proptest::proptest! {
        #[test]
        fn a_cut_row_fits(text in "\\PC{0,40}", more in ".{0,40}", most in 0_usize..60) {
            let cut = TerminalRow::new(text).and(BAD, more).cut(most);
            proptest::prop_assert!(cut.cells() <= most);
            proptest::prop_assert_eq!(cells(&cut.show(false)), cut.cells());
        }
    }
}
