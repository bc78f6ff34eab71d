//! Separates prose in Markdown from code, quotes and comments, so that an example of a claim is never mistaken for the
//! claim.

/// One line without its line end, and its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProseLine<'a> {
    pub(crate) text: &'a str,
    pub(crate) part: ProsePart,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProsePart {
    /// Prose, including blank lines.
    Prose,
    /// Fenced code, including the fences.
    Fenced,
    /// Indented by four columns or more: code, unless the caller knows that it is a nested list.
    Indented,
    Quote,
    Comment,
}

/// Every line of a text, in order. An unclosed fence or comment runs to the end.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = ProseLine<'_>> {
    let mut open = Open::Nothing;
    without_byte_order_mark(text).lines().map(move |line| {
        let (part, next) = open.read(line);
        open = next;
        ProseLine { text: line, part }
    })
}

/// The lines that are prose.
pub(crate) fn own_words(text: &str) -> impl Iterator<Item = &str> {
    lines(text).filter(|line| line.part == ProsePart::Prose).map(|line| line.text)
}

fn without_byte_order_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// The block left open by earlier lines.
#[derive(Clone, Copy)]
enum Open {
    Nothing,
    Fence(Fence),
    /// A comment at the start of a line, which runs to its end marker.
    Comment,
    /// A comment inside a paragraph, which ends with the paragraph at the latest.
    CommentInParagraph,
}

impl Open {
    /// The kind of this line and the block open after it.
    fn read(self, line: &str) -> (ProsePart, Self) {
        match self {
            Self::Fence(fence) => {
                (ProsePart::Fenced, if fence.is_closed_by(line) { Self::Nothing } else { self })
            }
            Self::Comment => (ProsePart::Comment, if line.contains("-->") { Self::Nothing } else { self }),
            Self::CommentInParagraph if line.trim().is_empty() || list_item(line.trim_start()).is_some() => {
                Self::Nothing.read(line)
            }
            Self::CommentInParagraph => {
                (ProsePart::Comment, if line.contains("-->") { Self::Nothing } else { self })
            }
            Self::Nothing => Self::begin(line),
        }
    }

    fn begin(line: &str) -> (ProsePart, Self) {
        // A block may begin in a list item, after the list marks.
        let content = innermost_item(line);
        if let Some(fence) = Fence::opened_by(line, content) {
            (ProsePart::Fenced, Self::Fence(fence))
        } else if content.starts_with("<!--") {
            (ProsePart::Comment, if content.contains("-->") { Self::Nothing } else { Self::Comment })
        } else if content.starts_with('>') {
            (ProsePart::Quote, Self::Nothing)
        } else if is_indented(line) && !content.is_empty() {
            (ProsePart::Indented, Self::Nothing)
        } else if leaves_a_comment_open(line) {
            (ProsePart::Prose, Self::CommentInParagraph)
        } else {
            (ProsePart::Prose, Self::Nothing)
        }
    }
}

#[derive(Clone, Copy)]
struct Fence {
    mark: char,
    length: usize,
    column: usize,
}

impl Fence {
    fn opened_by(line: &str, content: &str) -> Option<Self> {
        let mark = content.chars().next().filter(|first| matches!(first, '`' | '~'))?;
        let info = content.trim_start_matches(mark);
        let length = content.len() - info.len();
        // "```like this```" is inline code.
        let is_inline = mark == '`' && info.contains('`');
        let before = &line[..line.trim_end().len() - content.len()];
        (length >= 3 && !is_inline).then(|| Self { mark, length, column: columns(before.chars()) })
    }

    /// Only a bare fence of the same character, at least as long and indented less than four columns, closes.
    fn is_closed_by(self, line: &str) -> bool {
        let fence = line.trim();
        fence.len() >= self.length
            && fence.chars().all(|c| c == self.mark)
            && columns(line.chars().take_while(|c| c.is_whitespace())) <= self.column + 3
    }
}

/// The width of these characters; tabs align to multiples of four.
fn columns(chars: impl Iterator<Item = char>) -> usize {
    chars.fold(0, |column, c| if c == '\t' { column / 4 * 4 + 4 } else { column + 1 })
}

/// Whether a line is indented by four columns or more.
pub(crate) fn is_indented(line: &str) -> bool {
    columns(line.chars().take(4).take_while(|c| matches!(c, ' ' | '\t'))) >= 4
}

/// Whether a comment begins on this line, outside code, and stays open.
fn leaves_a_comment_open(line: &str) -> bool {
    line.rsplit_once("<!--")
        .is_some_and(|(before, after)| !after.contains("-->") && before.matches('`').count() % 2 == 0)
}

/// The text of a list item after its mark.
pub(crate) fn list_item(line: &str) -> Option<&str> {
    let rest = match line.strip_prefix(['-', '*', '+']) {
        Some(rest) => rest,
        None => {
            let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
            if rest.len() == line.len() {
                return None;
            }
            rest.strip_prefix(['.', ')'])?
        }
    };
    rest.starts_with([' ', '\t']).then(|| rest.trim())
}

fn innermost_item(line: &str) -> &str {
    let mut content = line.trim();
    while let Some(item) = list_item(content) {
        content = item;
    }
    content
}

/// The text inside emphasis marks around all of it: `**so**`, `_so_`.
pub(crate) fn without_emphasis(text: &str) -> &str {
    let mut inner = text;
    while let Some(rest) = ['*', '_'].iter().find_map(|mark| inner.strip_prefix(*mark)?.strip_suffix(*mark)) {
        if rest.starts_with(char::is_whitespace) {
            break;
        }
        inner = rest;
    }
    inner
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::ProsePart::{Comment, Fenced, Indented, Prose, Quote};
    use super::*;

    #[test]
    fn every_line_has_one_kind() {
        let table: [(&str, &[ProsePart]); 34] = [
            ("one\n\ntwo", &[Prose, Prose, Prose]),
            ("\u{feff}one\r\ntwo\r\n", &[Prose, Prose]),
            ("```\nx\n```\ny", &[Fenced, Fenced, Fenced, Prose]),
            ("~~~sh\nx\n~~~\ny", &[Fenced, Fenced, Fenced, Prose]),
            ("```\n~~~\nx\n```\ny", &[Fenced, Fenced, Fenced, Fenced, Prose]),
            ("````\n```\nx\n```\n````\ny", &[Fenced, Fenced, Fenced, Fenced, Fenced, Prose]),
            ("```\nx\n`````\ny", &[Fenced, Fenced, Fenced, Prose]),
            ("```\n```sh\nx", &[Fenced, Fenced, Fenced]),
            ("```\n    ```\nx", &[Fenced, Fenced, Fenced]),
            ("```\nx\n\n> y", &[Fenced, Fenced, Fenced, Fenced]),
            ("``\nx", &[Prose, Prose]),
            ("```x``` is code\ny", &[Prose, Prose]),
            ("  ```\n  x\n  ```\ny", &[Fenced, Fenced, Fenced, Prose]),
            ("1. Run:\n     ```\n     x\n     ```\ny", &[Prose, Fenced, Fenced, Fenced, Prose]),
            ("- ```\n  x\n  ```\ny", &[Fenced, Fenced, Fenced, Prose]),
            ("1. - ```  \n     x\n     ```\ny", &[Fenced, Fenced, Fenced, Prose]),
            ("    x\n\ty\n  \tz\n   w", &[Indented, Indented, Indented, Prose]),
            ("     \n\t\nx", &[Prose, Prose, Prose]),
            ("    - x", &[Indented]),
            ("> x\ny", &[Quote, Prose]),
            ("   > x\n- > y\n>", &[Quote, Quote, Quote]),
            ("> ```\nx", &[Quote, Prose]),
            ("> <!--\nx", &[Quote, Prose]),
            ("<!-- x -->\ny", &[Comment, Prose]),
            ("<!--\nx\n\n```\n-->\ny", &[Comment, Comment, Comment, Comment, Comment, Prose]),
            ("<!-->\ny", &[Comment, Prose]),
            ("<!-- x\ny", &[Comment, Comment]),
            ("- <!-- x\n- y\n-->\nz", &[Comment, Comment, Comment, Prose]),
            ("w <!-- x\ny\n--> z\nz", &[Prose, Comment, Comment, Prose]),
            ("w <!-- x\ny\n\nz", &[Prose, Comment, Prose, Prose]),
            ("- w <!-- x\n- y", &[Prose, Prose]),
            ("w <!-- x --> y\nz", &[Prose, Prose]),
            ("an open `<!--` is code\nz", &[Prose, Prose]),
            ("", &[]),
        ];
        for (text, parts) in table {
            assert_eq!(lines(text).map(|line| line.part).collect::<Vec<_>>(), parts, "{text:?}");
        }
    }

    #[test]
    fn a_list_item_has_a_mark_and_a_space() {
        let table = [
            ("- x", Some("x")),
            ("*   x", Some("x")),
            ("+\tx ", Some("x")),
            ("1. x", Some("x")),
            ("12) x", Some("x")),
            ("- ", Some("")),
            ("-x", None),
            ("1.x", None),
            ("1 x", None),
            (". x", None),
            ("**x**", None),
            ("-", None),
            ("", None),
        ];
        for (line, says) in table {
            assert_eq!(list_item(line), says, "{line:?}");
        }
    }

    #[test]
    fn emphasis_surrounds_all_of_it() {
        let table = [
            ("**x**", "x"),
            ("_x_", "x"),
            ("**_x_**", "x"),
            ("***x***", "x"),
            ("**x", "**x"),
            ("**x_", "**x_"),
            ("* x *", "* x *"),
            ("*", "*"),
            ("`x`", "`x`"),
            ("x", "x"),
        ];
        for (text, inner) in table {
            assert_eq!(without_emphasis(text), inner, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_of_a_text_is_lost(text in "[-`~<!> \t\r\nx1.]{0,60}") {
            prop_assert!(lines(&text).map(|line| line.text).eq(text.lines()));
        }

        #[test]
        fn fenced_text_is_never_prose(inside in "[-~<!> \t\nx1.]{0,60}") {
            let text = format!("```\n{inside}\n```");
            prop_assert!(own_words(&text).next().is_none());
        }
    }
}
