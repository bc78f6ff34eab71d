//! Clips an agent's text for display. It is clipped before cleaning, so that an endless line is cheap, and again after
//! it.

use crate::model::foreign_text;
use crate::model::secrets::Secrets;

/// The most characters shown of one message.
const MOST_SAID: usize = 2_000;
/// The most characters kept of the last message, from its end.
pub(crate) const MOST_MESSAGE: usize = 20_000;
const MOST_ABOUT: usize = 200;
const MOST_NAME: usize = 64;

/// A few sentences, with their lines.
pub(crate) fn paragraph(text: &str, secrets: &Secrets) -> String {
    cut(clean_head(text, MOST_SAID, secrets).trim(), MOST_SAID)
}

/// A whole message, or the end of a very long one.
pub(crate) fn message(text: &str, secrets: &Secrets) -> String {
    // Clean somewhat more than is kept, as in `clean_head`.
    let start = text.char_indices().rev().nth(4 * MOST_MESSAGE).map_or(0, |(at, _)| at);
    let clean = foreign_text::clean(&text.as_bytes()[start..], secrets);
    let clean = clean.trim();
    match clean.char_indices().rev().nth(MOST_MESSAGE - 1) {
        Some((at, _)) if at > 0 => format!("…{}", &clean[at..]),
        _ => clean.to_owned(),
    }
}

/// The same on one line, for a list.
pub(crate) fn one_line(text: &str, secrets: &Secrets) -> String {
    in_one_line(text, MOST_ABOUT, secrets)
}

/// The name of a tool or of a reason.
pub(crate) fn name(text: &str, secrets: &Secrets) -> String {
    in_one_line(text, MOST_NAME, secrets)
}

fn in_one_line(text: &str, most: usize, secrets: &Secrets) -> String {
    let words = clean_head(text, most, secrets);
    cut(&words.split_whitespace().collect::<Vec<_>>().join(" "), most)
}

/// Cleans somewhat more than is shown, so that a secret split by the cut is not visible.
fn clean_head(text: &str, most: usize, secrets: &Secrets) -> String {
    let end = text.char_indices().nth(4 * most).map_or(text.len(), |(at, _)| at);
    foreign_text::clean(&text.as_bytes()[..end], secrets)
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => {
            let end = text.char_indices().nth(most - 1).map_or(text.len(), |(at, _)| at);
            format!("{}…", &text[..end])
        }
    }
}
