//! A sentence of ours with somebody else's words in it, kept apart until it is rendered.

use unicode_width::UnicodeWidthStr as _;

/// Longer fields are cut: a report is read by people.
const LONGEST: usize = 300;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    /// Our own words.
    Words(String),
    /// Somebody else's.
    Foreign(String),
    /// Something to type, or to write into a file.
    Code(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Phrase(Vec<Piece>);

impl Phrase {
    pub(super) fn new(words: impl Into<String>) -> Self {
        Self::default().words(words)
    }

    pub(super) fn words(mut self, words: impl Into<String>) -> Self {
        self.0.push(Piece::Words(words.into()));
        self
    }

    pub(super) fn foreign(mut self, text: impl AsRef<str>) -> Self {
        self.0.push(Piece::Foreign(one_line(text.as_ref())));
        self
    }

    pub(super) fn code(mut self, text: impl AsRef<str>) -> Self {
        self.0.push(Piece::Code(one_line(text.as_ref())));
        self
    }

    /// One line of Markdown that renders as just these words, whatever is in them.
    pub(super) fn markdown(&self) -> String {
        self.0
            .iter()
            .map(|piece| match piece {
                Piece::Words(text) => text.clone(),
                Piece::Foreign(text) => inline(text),
                Piece::Code(text) => code_span(text),
            })
            .collect()
    }

    pub(super) fn text(&self) -> String {
        self.parts().map(|(_, text)| text).collect()
    }

    /// The pieces for a terminal; whether one is something to type.
    pub(super) fn parts(&self) -> impl Iterator<Item = (bool, &str)> {
        self.0.iter().map(|piece| match piece {
            Piece::Words(text) | Piece::Foreign(text) => (false, text.as_str()),
            Piece::Code(text) => (true, text.as_str()),
        })
    }
}

/// Somebody else's text as one line of a length that can be read.
pub(super) fn one_line(text: &str) -> String {
    clipped(&text.split_whitespace().collect::<Vec<_>>().join(" "), LONGEST)
}

/// At most so many cells of a text.
pub(super) fn clipped(text: &str, cells: usize) -> String {
    // Marks without a width could go on for ever.
    let mut kept: String = text.chars().take(4 * cells).collect();
    if kept.len() == text.len() && kept.width() <= cells {
        return kept;
    }
    while kept.width() + 1 > cells && kept.pop().is_some() {}
    format!("{}…", kept.trim_end())
}

/// Text for the middle of a line of Markdown: nothing in it is markup, and no part of it reads `Status: `.
pub(super) fn inline(text: &str) -> String {
    let text = one_line(text);
    let mut safe = String::with_capacity(text.len() + 8);
    let mut before = None;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let after = chars.peek().map(|(_, next)| *next);
        let is_inside_a_word =
            before.is_some_and(char::is_alphanumeric) && after.is_some_and(char::is_alphanumeric);
        let escapes = match c {
            '\\' | '`' | '*' | '[' | ']' | '<' | '|' | '~' | '&' => true,
            '_' => !is_inside_a_word,
            ':' => ends_with_status(&text[..at]) && after.is_none_or(char::is_whitespace),
            // At the start of a line or of a list's item these begin something.
            '#' | '>' | '-' | '+' | '=' => before.is_none(),
            '.' | ')' => text[..at].bytes().all(|byte| byte.is_ascii_digit()),
            _ => false,
        };
        if escapes {
            safe.push('\\');
        }
        safe.push(c);
        before = Some(c);
    }
    safe
}

/// The line by which scripts tell how a loop ended is ours alone.
fn ends_with_status(text: &str) -> bool {
    const WORD: &str = "status";
    let start = text.len().saturating_sub(WORD.len());
    text.get(start..).is_some_and(|end| end.eq_ignore_ascii_case(WORD))
}

/// Code that cannot leave its span. Inside one nothing can be escaped, so what would forge a line is no code.
fn code_span(text: &str) -> String {
    let forges = text.match_indices(':').any(|(at, _)| {
        ends_with_status(&text[..at]) && text[at + 1..].chars().next().is_none_or(char::is_whitespace)
    });
    if forges || text.trim().is_empty() {
        return inline(text);
    }
    let longest_run = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest_run + 1);
    // A bar would end the cell of a table, in code too; there is no code in a table.
    let gap = if longest_run > 0 { " " } else { "" };
    format!("{fence}{gap}{text}{gap}{fence}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn markup_in_somebody_elses_text_is_only_text() {
        let table = [
            ("fix the tests", "fix the tests"),
            ("a\n# b\n\n- c", "a # b - c"),
            ("# heading", r"\# heading"),
            ("1. item", r"1\. item"),
            ("v1.2 (beta)", "v1.2 (beta)"),
            ("- [ ] box", r"\- \[ \] box"),
            ("snake_case _em_ *b*", r"snake_case \_em\_ \*b\*"),
            ("<b>x</b> | `y` & ~~z~~", r"\<b>x\</b> \| \`y\` \& \~\~z\~\~"),
            ("x Status: FAILED", r"x Status\: FAILED"),
            ("x status:", r"x status\:"),
            ("Status:\u{a0}FAILED", r"Status\: FAILED"),
            ("git status:*", r"git status:\*"),
            ("a: b", "a: b"),
        ];
        for (text, markdown) in table {
            assert_eq!(inline(text), markdown);
        }
    }

    #[test]
    fn code_stays_in_its_span() {
        let table = [
            ("Bash(npm test:*)", "`Bash(npm test:*)`"),
            ("a`b", "`` a`b ``"),
            ("``", "``` `` ```"),
            ("Bash(Status: FAILED)", r"Bash(Status\: FAILED)"),
            ("Bash(git status:*)", "`Bash(git status:*)`"),
        ];
        for (text, markdown) in table {
            assert_eq!(Phrase::default().code(text).markdown(), markdown);
        }
    }

    #[test]
    fn a_long_text_is_cut_by_the_cells_it_takes() {
        assert_eq!(clipped("abcdef", 6), "abcdef");
        assert_eq!(clipped("abcdefg", 6), "abcde…");
        assert_eq!(clipped("測試測試", 6), "測試…");
    }

    proptest! {
        #[test]
        fn no_text_makes_a_second_line_or_a_status(text in ".{0,60}", word in "(S|s)(t|T)atus:[ \t\n]?") {
            let phrase = Phrase::default().foreign(format!("{text}{word}{text}"));
            for markdown in [phrase.markdown(), Phrase::default().code(phrase.text()).markdown()] {
                prop_assert!(!markdown.contains('\n'));
                prop_assert!(!markdown.to_lowercase().contains("status: "), "{markdown}");
            }
        }
    }
}
