//! Makes everything visible in text that the user is about to accept: invisible, reordering and lookalike characters
//! and long runs of blanks are written out. Letters of any script stay as they are.

use unicode_width::UnicodeWidthChar as _;

/// Longer runs of blanks are shown as a count; indentation may be twice as long.
const MOST_BLANKS: usize = 8;
/// The width of a tab in cells.
const TAB: usize = 8;
/// No language has more marks on one letter.
const MOST_COMBINING: usize = 2;

/// `npm test<40 blanks># <U+202E>`.
pub fn mark(text: &str) -> String {
    let mut shown = Vec::new();
    let mut empty = 0;
    for line in text.split('\n') {
        if line.is_empty() {
            empty += 1;
            continue;
        }
        shown.extend(empty_lines(empty));
        empty = 0;
        shown.push(mark_line(line));
    }
    shown.extend(empty_lines(empty));
    shown.join("\n")
}

/// A final line end also yields an empty line, so one visible empty line takes two.
fn empty_lines(count: usize) -> Vec<String> {
    if count > 2 { vec![format!("<{count} empty lines>")] } else { vec![String::new(); count] }
}

fn mark_line(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    let mut rest = line;
    let mut combining = None;
    while let Some(c) = rest.chars().next() {
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        if blanks > 0 {
            let (run, after) = rest.split_at(blanks);
            let most = if shown.is_empty() { 2 * MOST_BLANKS } else { MOST_BLANKS };
            let cells: usize = run.chars().map(|c| if c == '\t' { TAB } else { 1 }).sum();
            match after.is_empty() || cells > most {
                true if blanks == 1 => shown.push_str("<1 blank>"),
                true => shown.push_str(&format!("<{blanks} blanks>")),
                false => shown.push_str(run),
            }
            (rest, combining) = (after, None);
            continue;
        }
        rest = &rest[c.len_utf8()..];
        if is_unseen(c) {
            shown.push_str(&format!("<U+{:04X}>", u32::from(c)));
            combining = None;
        } else if c.width() == Some(0) {
            // A mark belongs to a letter; without one it is drawn onto something else.
            match combining {
                Some(count) if count < MOST_COMBINING => {
                    shown.push(c);
                    combining = Some(count + 1);
                }
                _ => shown.push_str(&format!("<U+{:04X}>", u32::from(c))),
            }
        } else {
            shown.push(c);
            combining = Some(0);
        }
    }
    shown
}

/// Invisible, blank-like, direction-changing and private-use characters.
fn is_unseen(c: char) -> bool {
    let is_noncharacter = u32::from(c) & 0xfffe == 0xfffe || ('\u{fdd0}'..='\u{fdef}').contains(&c);
    c.is_control()
        || (c.is_whitespace() && c != ' ')
        || is_noncharacter
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{2800}' | '\u{3164}' | '\u{e000}'..='\u{f8ff}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffd}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}' | '\u{f0000}'..)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn special_characters_are_written_out() {
        for c in [
            '\u{61c}',
            '\u{ad}',
            '\u{200b}',
            '\u{200d}',
            '\u{200e}',
            '\u{2028}',
            '\u{2029}',
            '\u{202e}',
            '\u{2066}',
            '\u{2060}',
            '\u{3164}',
            '\u{ffa0}',
            '\u{115f}',
            '\u{2800}',
            '\u{fe00}',
            '\u{fe0f}',
            '\u{e0100}',
            '\u{e0041}',
            '\u{feff}',
            '\u{a0}',
            '\u{2003}',
            '\u{3000}',
            '\u{85}',
            '\u{1b}',
            '\u{7f}',
            '\u{9b}',
            '\r',
            '\u{e000}',
            '\u{fffd}',
            '\u{10ffff}',
        ] {
            assert_eq!(mark(&format!("a{c}b")), format!("a<U+{:04X}>b", u32::from(c)));
        }
    }

    #[test]
    fn long_runs_of_blanks_and_empty_lines_are_counted() {
        let table = [
            ("npm test", "npm test"),
            ("npm  test", "npm  test"),
            (&format!("true{}; rm -rf x", " ".repeat(200)), "true<200 blanks>; rm -rf x"),
            ("a\t\tb", "a<2 blanks>b"),
            ("a\tb", "a\tb"),
            ("if a; then\n    b\n\tc\nfi", "if a; then\n    b\n\tc\nfi"),
            (&format!("a\n{}b", " ".repeat(17)), "a\n<17 blanks>b"),
            ("a \nb\t \nc", "a<1 blank>\nb<2 blanks>\nc"),
            ("a\n\nb\n", "a\n\nb\n"),
            (&format!("a{}b", "\n".repeat(50)), "a\n<49 empty lines>\nb"),
            (&format!("a{}", "\n".repeat(50)), "a\n<50 empty lines>"),
            ("   ", "<3 blanks>"),
            ("", ""),
        ];
        for (text, shown) in table {
            assert_eq!(mark(text), shown, "{text:?}");
        }
    }

    #[test]
    fn letters_of_any_script_stay_and_marks_need_a_letter() {
        for text in
            ["grep 測試", "echo žluťoučký", "é as e\u{301}", "مرحبا", "שלום", "हिन्दी", "ประเทศไทย", "😀 ✓"]
        {
            assert_eq!(mark(text), text);
        }
        assert_eq!(mark("\u{301}"), "<U+0301>");
        assert_eq!(mark("a \u{301}b"), "a <U+0301>b");
        assert_eq!(mark("a\u{301}\u{302}\u{303}b"), "a\u{301}\u{302}<U+0303>b");
    }

    proptest! {
        #[test]
        fn the_result_is_always_visible(text in any::<String>()) {
            let shown = mark(&text);
            prop_assert!(!shown.chars().any(|c| c != '\n' && c != '\t' && is_unseen(c)), "{:?}", shown);
            prop_assert!(!shown.contains("\n\n\n\n"));
        }
    }
}
