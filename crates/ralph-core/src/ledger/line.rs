//! One line of the ledger: a JSON object whose last field is the SHA-256 of everything before it, and which names the
//! hash of the line before. An edited, dropped, added or reordered line is found at its number.
//!
//! The hash is over bytes, so checking needs no canonical form and old readers can check new lines.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ledger::event::Event;
use crate::model::id::Digest;

/// The version of the line's form that this build writes.
pub const VERSION: u32 = 1;

const HASH_FIELD: &str = ",\"hash\":\"";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub seq: u64,
    pub at: Timestamp,
    pub event: Event,
    pub hash: Digest,
}

/// The end of a chain: what the next line must carry on from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub seq: u64,
    pub hash: Digest,
}

impl Head {
    /// What the first line carries on from.
    pub fn origin() -> Self {
        Self { seq: 0, hash: Digest::of("") }
    }
}

impl Default for Head {
    fn default() -> Self {
        Self::origin()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    #[error("not a ledger line: {0}")]
    NotALine(String),
    #[error("written by a newer ralph (form {0}; this one knows {VERSION})")]
    Newer(u32),
    /// Its hash fits, so it was written whole: by somebody who knows more events than we do.
    #[error("written by a newer ralph ({0})")]
    NewEvent(String),
    #[error("its hash does not fit its content")]
    Altered,
    #[error("it does not carry on from the line before it")]
    Chain,
}

impl LineError {
    /// Whether another ralph can read it: nothing is damaged then, and nothing may be changed.
    pub fn is_of_a_newer_ralph(&self) -> bool {
        matches!(self, Self::Newer(_) | Self::NewEvent(_))
    }
}

#[derive(Serialize)]
struct Written<'a> {
    v: u32,
    seq: u64,
    at: Timestamp,
    prev: &'a Digest,
    event: &'a Event,
}

#[derive(Deserialize)]
struct Read {
    seq: u64,
    at: Timestamp,
    prev: Digest,
    event: Event,
    hash: Digest,
}

#[derive(Deserialize)]
struct VersionOnly {
    v: u32,
}

#[derive(Deserialize)]
struct HashOnly {
    hash: Digest,
}

/// The text of the next line after `head`, with its line end, and the new head.
pub fn write(head: &Head, at: Timestamp, event: &Event) -> (String, Head) {
    let seq = head.seq + 1;
    let line = Written { v: VERSION, seq, at, prev: &head.hash, event };
    let mut text = serde_json::to_string(&line).expect("an event is always JSON");
    text.pop();
    let hash = Digest::of(&text);
    text.push_str(HASH_FIELD);
    text.push_str(hash.as_str());
    text.push_str("\"}\n");
    (text, Head { seq, hash })
}

/// Reads the line that must carry on from `head`.
pub fn read(head: &Head, text: &str) -> Result<Line, LineError> {
    let line = read_alone(text)?;
    let carries_on = line.1 == head.hash && line.0.seq == head.seq + 1;
    if carries_on { Ok(line.0) } else { Err(LineError::Chain) }
}

/// Reads a line by itself: its own hash is checked, its place in the chain is not. Gives the hash it carries on from.
pub fn read_alone(text: &str) -> Result<(Line, Digest), LineError> {
    let text = text.trim_end_matches('\n');
    let not_a_line = |error: serde_json::Error| LineError::NotALine(error.to_string());
    let VersionOnly { v } = serde_json::from_str(text).map_err(not_a_line)?;
    if v > VERSION {
        return Err(LineError::Newer(v));
    }
    let Some((content, _)) = text.rsplit_once(HASH_FIELD) else {
        return Err(LineError::NotALine("it has no hash".into()));
    };
    let fits = |hash: &Digest| Digest::of(content) == *hash;
    let read: Read = serde_json::from_str(text).map_err(|error| match serde_json::from_str(text) {
        Ok(HashOnly { hash }) if fits(&hash) => LineError::NewEvent(error.to_string()),
        _ => not_a_line(error),
    })?;
    if !fits(&read.hash) {
        return Err(LineError::Altered);
    }
    Ok((Line { seq: read.seq, at: read.at, event: read.event, hash: read.hash }, read.prev))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ledger::event::ResetCause;

    fn chain(count: usize) -> (Vec<String>, Vec<Head>) {
        let mut heads = vec![Head::origin()];
        let mut lines = Vec::new();
        for number in 0..count {
            let event = Event::Waited {
                what: format!("for {number}, \"hash\":\"x"),
                entries: Vec::new(),
                until: None,
            };
            let at = Timestamp::from_second(number as i64).expect("a small number");
            let (text, head) = write(&heads[number], at, &event);
            lines.push(text);
            heads.push(head);
        }
        (lines, heads)
    }

    #[test]
    fn what_was_written_is_read() {
        let event = Event::Reset { why: ResetCause::Command };
        let (text, head) = write(&Head::origin(), Timestamp::UNIX_EPOCH, &event);
        let line = read(&Head::origin(), &text).expect("our own line");
        assert_eq!((line.event, line.hash, line.seq), (event, head.hash, head.seq));
    }

    #[test]
    fn a_line_from_a_newer_ralph_is_told_apart_from_a_damaged_one() {
        assert_eq!(read_alone(r#"{"v":99,"something":"new"}"#).map(drop), Err(LineError::Newer(99)));
        assert!(matches!(read_alone("{\"v\":1"), Err(LineError::NotALine(_))));
    }

    #[test]
    fn an_event_that_only_a_newer_ralph_knows_is_told_apart_from_a_damaged_one() {
        let event = Event::Reset { why: ResetCause::Command };
        let (text, _) = write(&Head::origin(), Timestamp::UNIX_EPOCH, &event);
        let unknown = text.replace("\"reset\"", "\"dreamt\"");
        assert!(
            matches!(read_alone(&unknown), Err(LineError::NotALine(_))),
            "its hash does not fit any more"
        );
        let (content, _) = unknown.rsplit_once(HASH_FIELD).expect("a line of ours");
        let whole = format!("{content}{HASH_FIELD}{}\"}}\n", Digest::of(content));
        let error = read_alone(&whole).expect_err("nobody knows it");
        assert!(matches!(&error, LineError::NewEvent(why) if why.contains("dreamt")), "{error:?}");
        assert!(error.is_of_a_newer_ralph());
    }

    #[test]
    fn a_dropped_or_reordered_line_is_found() {
        let (lines, heads) = chain(3);
        assert!(read(&heads[0], &lines[0]).is_ok());
        assert_eq!(read(&heads[0], &lines[1]), Err(LineError::Chain));
        assert_eq!(read(&heads[2], &lines[1]), Err(LineError::Chain));
    }

    proptest! {
        #[test]
        fn one_changed_byte_is_found(at in 0usize..400, byte in 32u8..127) {
            let (lines, heads) = chain(2);
            let mut bytes = lines[1].clone().into_bytes();
            let at = at % (bytes.len() - 1);
            prop_assume!(bytes[at] != byte);
            bytes[at] = byte;
            if let Ok(text) = String::from_utf8(bytes) {
                prop_assert!(read(&heads[1], &text).is_err());
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,200}") {
            let _line = read_alone(&text);
        }
    }
}
