//! A sentence with untrusted text in it, kept apart until it is rendered.

use unicode_width::UnicodeWidthStr as _;

/// Longer fields are clipped.
const LONGEST: usize = 300;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    /// Trusted text.
    Texts(String),
    /// Untrusted text.
    Foreign(String),
    /// Something to type or to write into a file.
    Code(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Phrase(Vec<Piece>);

impl Phrase {
    pub(super) fn new(words: impl Into<String>) -> Self {
        Self::default().words(words)
    }

    pub(super) fn words(mut self, words: impl Into<String>) -> Self {
        self.0.push(Piece::Texts(words.into()));
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

    /// One line of Markdown that renders as exactly this text.
    pub(super) fn markdown(&self) -> String {
        self.0
            .iter()
            .map(|piece| match piece {
                Piece::Texts(text) => text.clone(),
                Piece::Foreign(text) => inline(text),
                Piece::Code(text) => code_span(text),
            })
            .collect()
    }

    pub(super) fn text(&self) -> String {
        self.parts().map(|(_, text)| text).collect()
    }

    /// The pieces for a terminal; true marks code.
    pub(super) fn parts(&self) -> impl Iterator<Item = (bool, &str)> {
        self.0.iter().map(|piece| match piece {
            Piece::Texts(text) | Piece::Foreign(text) => (false, text.as_str()),
            Piece::Code(text) => (true, text.as_str()),
        })
    }
}

/// Untrusted text as one line of limited length.
pub(super) fn one_line(text: &str) -> String {
    clipped(&text.split_whitespace().collect::<Vec<_>>().join(" "), LONGEST)
}

/// Clips a text to `cells`.
pub(super) fn clipped(text: &str, cells: usize) -> String {
    // Marks without a width are unbounded by cells.
    let mut kept: String = text.chars().take(4 * cells).collect();
    if kept.len() == text.len() && kept.width() <= cells {
        return kept;
    }
    while kept.width() + 1 > cells && kept.pop().is_some() {}
    format!("{}…", kept.trim_end())
}

/// Text within a line of Markdown: markup is escaped, and it cannot contain `Status: `.
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
            // Markup only at the start of a line or list item.
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

/// Scripts find the result by this line, so no other text may contain it.
fn ends_with_status(text: &str) -> bool {
    const WORD: &str = "status";
    let start = text.len().saturating_sub(WORD.len());
    text.get(start..).is_some_and(|end| end.eq_ignore_ascii_case(WORD))
}

/// Code that cannot leave its span. Nothing can be escaped inside one, so text that would forge a status is not code.
fn code_span(text: &str) -> String {
    let forges = text.match_indices(':').any(|(at, _)| {
        ends_with_status(&text[..at]) && text[at + 1..].chars().next().is_none_or(char::is_whitespace)
    });
    if forges || text.trim().is_empty() {
        return inline(text);
    }
    let longest_run = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest_run + 1);
    // A bar would end a table cell even in code, but tables contain no code.
    let gap = if longest_run > 0 { " " } else { "" };
    format!("{fence}{gap}{text}{gap}{fence}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn markup_in_foreign_text_is_escaped() {
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
