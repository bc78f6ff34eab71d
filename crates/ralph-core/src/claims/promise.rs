//! The completion promise: `<promise>TEXT</promise>` alone on a line of the agent's own words. It is a claim, never a
//! verdict. Mentioning it is not giving it; a near miss is explained to the agent.

use serde::{Deserialize, Serialize};

use crate::claims::prose::{self, ProsePart};
use crate::model::promise_seen::{NearMiss, PromiseSeen};

const OPENING: &str = "<promise>";
const CLOSING: &str = "</promise>";

/// The promised text: not empty, white space collapsed, without tags.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Promise(String);

#[derive(Debug, thiserror::Error)]
#[error("a promise needs a text")]
pub struct NoText;

impl Promise {
    /// Accepts the text with or without its tag; none if it could not be given.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        let inner = text.strip_prefix(OPENING).and_then(|rest| rest.strip_suffix(CLOSING)).unwrap_or(text);
        let words = collapsed(inner);
        (!words.is_empty() && tags(&words).is_empty()).then_some(Self(words))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The line that gives it.
    pub fn tag(&self) -> String {
        format!("{OPENING}{}{CLOSING}", self.0)
    }

    fn is(&self, text: &str) -> bool {
        text.split_whitespace().eq(self.0.split(' '))
    }
}

impl TryFrom<String> for Promise {
    type Error = NoText;

    fn try_from(text: String) -> Result<Self, NoText> {
        Self::new(&text).ok_or(NoText)
    }
}

impl From<Promise> for String {
    fn from(promise: Promise) -> Self {
        promise.0
    }
}

impl PromiseSeen {
    /// The lowest rank counts.
    fn rank(&self) -> u8 {
        match self {
            Self::Given => 0,
            Self::NearMiss(NearMiss::InASentence) => 1,
            Self::NearMiss(NearMiss::InCode) => 2,
            Self::NearMiss(NearMiss::InAQuote) => 3,
            Self::NearMiss(NearMiss::InAComment) => 4,
            Self::NearMiss(NearMiss::Unclosed) => 5,
            Self::NearMiss(NearMiss::BareText) => 6,
            Self::NearMiss(NearMiss::Other { .. }) => 7,
            Self::Absent => 8,
        }
    }
}

/// The beginning of the other promise.
impl NearMiss {
    const MOST_CHARS: usize = 100;

    fn other(text: &str) -> Self {
        let words: String = collapsed(text).chars().filter(|c| !c.is_control()).collect();
        let text = match words.char_indices().nth(Self::MOST_CHARS) {
            None => words,
            Some(_) => words.chars().take(Self::MOST_CHARS - 1).chain(['…']).collect(),
        };
        Self::Other { text }
    }
}

/// Explains a near miss to the agent in one sentence.
pub fn explain(miss: &NearMiss, promise: &Promise) -> String {
    let tag = promise.tag();
    match miss {
        NearMiss::InASentence => {
            format!("The promise counts only if {tag} is alone on a line, with nothing before or after it.")
        }
        NearMiss::InCode => {
            format!("The promise was inside code; it counts only as plain text: {tag} alone on a line.")
        }
        NearMiss::InAQuote => {
            format!("The promise was quoted; it counts only outside quotes: {tag} alone on a line.")
        }
        NearMiss::InAComment => {
            format!(
                "The promise was in an HTML comment; it counts only outside comments: {tag} alone on a line."
            )
        }
        NearMiss::Unclosed => {
            format!("The opening or closing tag of the promise is missing: write {tag} alone on a line.")
        }
        NearMiss::BareText => {
            format!("The promise was given without its tag: write {tag} alone on a line.")
        }
        NearMiss::Other { text } => {
            format!("A different promise was given ({text}); write exactly {tag} alone on a line.")
        }
    }
}

/// The same where the bare words alone on a line give it, too.
pub fn look_for_words(promise: &Promise, message: &str) -> PromiseSeen {
    let is_said = |line: &str| promise.is(prose::without_emphasis(line.trim()));
    if prose::own_words(message).any(is_said) { PromiseSeen::Given } else { look(promise, message) }
}

/// Whether an agent's message gives the promise, or how near it came.
pub fn look(promise: &Promise, message: &str) -> PromiseSeen {
    let tagged = stretches(message).into_iter().map(|stretch| stretch.look(promise));
    let bare = prose::own_words(message).filter(|line| is_bare_text(promise, line));
    let bare = bare.map(|_| PromiseSeen::NearMiss(NearMiss::BareText));
    tagged.chain(bare).min_by_key(PromiseSeen::rank).unwrap_or(PromiseSeen::Absent)
}

/// Ignores list, heading and emphasis marks and final punctuation.
fn is_bare_text(promise: &Promise, line: &str) -> bool {
    fn core(text: &str) -> &str {
        text.trim_matches(|c: char| !c.is_alphanumeric())
    }
    let line = line.trim();
    let said = prose::list_item(line).unwrap_or(line);
    promise.is(said)
        || !core(said).is_empty() && core(said).split_whitespace().eq(core(&promise.0).split(' '))
}

/// Consecutive lines that a tag may span.
struct Stretch {
    place: Place,
    text: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Includes indented lines: a tag is code if it begins on one.
    OwnWords,
    Code,
    Quote,
    Comment,
}

fn stretches(message: &str) -> Vec<Stretch> {
    let mut stretches: Vec<Stretch> = Vec::new();
    for line in prose::lines(message) {
        let place = match line.part {
            ProsePart::Prose | ProsePart::Indented => Place::OwnWords,
            ProsePart::Fenced => Place::Code,
            ProsePart::Quote => Place::Quote,
            ProsePart::Comment => Place::Comment,
        };
        match stretches.last_mut() {
            Some(last) if last.place == place => {
                last.text.push('\n');
                last.text.push_str(line.text);
            }
            _ => stretches.push(Stretch { place, text: line.text.to_owned() }),
        }
    }
    stretches
}

impl Stretch {
    fn look(&self, promise: &Promise) -> PromiseSeen {
        let seen = claims(&self.text).into_iter().map(|claim| match self.place {
            Place::OwnWords => claim.judge(promise),
            Place::Code => claim.shown_as(promise, NearMiss::InCode),
            Place::Quote => claim.shown_as(promise, NearMiss::InAQuote),
            Place::Comment => claim.shown_as(promise, NearMiss::InAComment),
        });
        seen.min_by_key(PromiseSeen::rank).unwrap_or(PromiseSeen::Absent)
    }
}

/// A tag with its text, or half of one.
enum Claim<'a> {
    /// Lead and trail are the rest of its first and last line; none if another tag is there.
    Whole { lead: Option<&'a str>, said: &'a str, trail: Option<&'a str> },
    /// With what follows.
    Opened(&'a str),
    /// With what leads up to it.
    Closed(&'a str),
}

impl Claim<'_> {
    fn judge(&self, promise: &Promise) -> PromiseSeen {
        match *self {
            Self::Whole { said, .. } if !promise.is(said) => PromiseSeen::NearMiss(NearMiss::other(said)),
            Self::Whole { lead: Some(lead), .. } if is_code(lead) => PromiseSeen::NearMiss(NearMiss::InCode),
            Self::Whole { lead: Some(lead), trail: Some(trail), .. } if surround(lead, trail) => {
                PromiseSeen::Given
            }
            Self::Whole { .. } => PromiseSeen::NearMiss(NearMiss::InASentence),
            Self::Opened(text) if collapsed(text).starts_with(&promise.0) => {
                PromiseSeen::NearMiss(NearMiss::Unclosed)
            }
            Self::Closed(text) if collapsed(text).ends_with(&promise.0) => {
                PromiseSeen::NearMiss(NearMiss::Unclosed)
            }
            Self::Opened(_) | Self::Closed(_) => PromiseSeen::Absent,
        }
    }

    /// In code, quotes and comments only the exact promise is reported.
    fn shown_as(&self, promise: &Promise, miss: NearMiss) -> PromiseSeen {
        match *self {
            Self::Whole { said, .. } if promise.is(said) => PromiseSeen::NearMiss(miss),
            Self::Whole { .. } | Self::Opened(_) | Self::Closed(_) => PromiseSeen::Absent,
        }
    }
}

/// Whether a tag after this lead is code: indented, or after an open backtick.
fn is_code(lead: &str) -> bool {
    prose::is_indented(lead) || lead.matches('`').count() % 2 == 1
}

/// Only matching emphasis marks around it.
fn surround(lead: &str, trail: &str) -> bool {
    let (lead, trail) = (lead.trim_start(), trail.trim_end());
    lead.chars().all(|c| matches!(c, '*' | '_')) && lead.chars().eq(trail.chars().rev())
}

/// Every claim in a text, found in linear time.
fn claims(text: &str) -> Vec<Claim<'_>> {
    let tags = tags(text);
    let gap = |at: usize| {
        let from = at.checked_sub(1).map_or(0, |before| tags[before].end);
        &text[from..tags.get(at).map_or(text.len(), |tag| tag.start)]
    };
    let mut claims = Vec::new();
    let mut at = 0;
    while let Some(tag) = tags.get(at) {
        let close = tags.get(at + 1).filter(|next| tag.opens && !next.opens);
        let Some(close) = close else {
            claims.push(if tag.opens { Claim::Opened(gap(at + 1)) } else { Claim::Closed(gap(at)) });
            at += 1;
            continue;
        };
        let is_literal = text[tag.start..].starts_with(OPENING) && text[close.start..].starts_with(CLOSING);
        let (before, after) = (gap(at), gap(at + 2));
        claims.push(Claim::Whole {
            lead: before.rfind('\n').map(|end| &before[end + 1..]).or((at == 0).then_some(before)),
            // Different letter case makes it a different promise, reported as written.
            said: if is_literal { gap(at + 1) } else { &text[tag.start..close.end] },
            trail: after.find('\n').map(|end| &after[..end]).or((at + 2 == tags.len()).then_some(after)),
        });
        at += 2;
    }
    claims
}

struct Tag {
    start: usize,
    end: usize,
    opens: bool,
}

/// Every tag, case-insensitively.
fn tags(text: &str) -> Vec<Tag> {
    let is_at = |tag: &str, start: usize| {
        text.get(start..start + tag.len()).is_some_and(|part| part.eq_ignore_ascii_case(tag))
    };
    let starts = text.match_indices('<').map(|(start, _)| start);
    let tags = starts.filter_map(|start| {
        let (tag, opens) =
            [(OPENING, true), (CLOSING, false)].into_iter().find(|(tag, _)| is_at(tag, start))?;
        Some(Tag { start, end: start + tag.len(), opens })
    });
    tags.collect()
}

fn collapsed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
