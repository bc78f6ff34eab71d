//! One line of text in several styles, which knows how many cells of a terminal it takes.
//!
//! Cells are counted generously: what one terminal draws in a single cell another draws in two, and a line that is a cell
//! short does no harm where one that is too long would break the picture.

use anstyle::Style;
use unicode_width::UnicodeWidthChar as _;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    parts: Vec<(Style, String)>,
}

impl Row {
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

    /// On one line, whatever is in it.
    #[must_use]
    pub(crate) fn and(mut self, style: Style, text: impl Into<String>) -> Self {
        let text = super::plain(text.into().replace(char::is_control, " "));
        self.parts.push((style, text));
        self
    }

    pub(crate) fn cells(&self) -> usize {
        self.parts.iter().map(|(_, text)| cells(text)).sum()
    }

    /// The beginning of it that fits.
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

/// The longest beginning that takes no more than so many cells.
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
        // It makes an emoji of the character before it, which is wider then.
        '\u{fe0f}' => 1,
        c => c.width().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::terminal::{BAD, GOOD};

    #[test]
    fn what_does_not_fit_is_cut_at_a_whole_character() {
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
            let cut = Row::new(text).cut(most);
            assert_eq!(cut.show(false), shown, "{text:?} in {most}");
            assert!(cut.cells() <= most, "{text:?} in {most}");
        }
    }

    #[test]
    fn the_cut_goes_through_styles_and_ends_them() {
        let row = Row::of(GOOD, "good").then(" and ").and(BAD, "bad");
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
        fn no_row_is_ever_longer_than_it_may_be(text in "\\PC{0,40}", more in ".{0,40}", most in 0_usize..60) {
            let cut = Row::new(text).and(BAD, more).cut(most);
            proptest::prop_assert!(cut.cells() <= most);
            proptest::prop_assert_eq!(cells(&cut.show(false)), cut.cells());
        }
    }
}
