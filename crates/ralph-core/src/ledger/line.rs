//! One line of the ledger: a JSON object whose last field is the SHA-256 of everything before it, and which names the
//! hash of the line before. An edited, dropped, added or reordered line is found at its number.
//!
//! The hash is over bytes, so checking needs no canonical form and old versions can check new lines.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ledger::event::Event;
use crate::model::id::Digest;

/// The format version that this build writes.
pub const VERSION: u32 = 1;

const HASH_FIELD: &str = ",\"hash\":\"";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerLine {
    pub seq: u64,
    pub at: Timestamp,
    pub event: Event,
    pub hash: Digest,
}

/// The head of a chain, which the next line must continue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainHead {
    pub seq: u64,
    pub hash: Digest,
}

impl ChainHead {
    /// The head before the first line.
    pub fn origin() -> Self {
        Self { seq: 0, hash: Digest::of("") }
    }
}

impl Default for ChainHead {
    fn default() -> Self {
        Self::origin()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    #[error("not a ledger line: {0}")]
    NotALine(String),
    #[error("written by a newer ralph (format {0}; this one supports {VERSION})")]
    Newer(u32),
    /// Its hash is valid, so a newer version wrote it with an unknown event.
    #[error("written by a newer ralph ({0})")]
    NewEvent(String),
    #[error("its hash does not match its content")]
    Altered,
    #[error("it does not continue the previous line")]
    Chain,
}

impl LineError {
    /// Whether a newer version wrote it: the ledger is intact and must not be changed.
    pub fn is_from_newer_version(&self) -> bool {
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
pub fn write(head: &ChainHead, at: Timestamp, event: &Event) -> (String, ChainHead) {
    let seq = head.seq + 1;
    let line = Written { v: VERSION, seq, at, prev: &head.hash, event };
    let mut text = serde_json::to_string(&line).expect("an event is always JSON");
    text.pop();
    let hash = Digest::of(&text);
    text.push_str(HASH_FIELD);
    text.push_str(hash.as_str());
    text.push_str("\"}\n");
    (text, ChainHead { seq, hash })
}

/// Reads the line that must continue `head`.
pub fn read(head: &ChainHead, text: &str) -> Result<LedgerLine, LineError> {
    let line = read_alone(text)?;
    let carries_on = line.1 == head.hash && line.0.seq == head.seq + 1;
    if carries_on { Ok(line.0) } else { Err(LineError::Chain) }
}

/// Reads a single line: checks its own hash but not its place in the chain. Returns the hash of the previous line.
pub fn read_alone(text: &str) -> Result<(LedgerLine, Digest), LineError> {
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
    Ok((LedgerLine { seq: read.seq, at: read.at, event: read.event, hash: read.hash }, read.prev))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ledger::event::ResetCause;

    fn chain(count: usize) -> (Vec<String>, Vec<ChainHead>) {
        let mut heads = vec![ChainHead::origin()];
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
        let (text, head) = write(&ChainHead::origin(), Timestamp::UNIX_EPOCH, &event);
        let line = read(&ChainHead::origin(), &text).expect("our own line");
        assert_eq!((line.event, line.hash, line.seq), (event, head.hash, head.seq));
    }

    #[test]
    fn a_line_of_a_newer_version_is_not_reported_as_damaged() {
        assert_eq!(read_alone(r#"{"v":99,"something":"new"}"#).map(drop), Err(LineError::Newer(99)));
        assert!(matches!(read_alone("{\"v\":1"), Err(LineError::NotALine(_))));
    }

    #[test]
    fn an_event_of_a_newer_version_is_not_reported_as_damaged() {
        let event = Event::Reset { why: ResetCause::Command };
        let (text, _) = write(&ChainHead::origin(), Timestamp::UNIX_EPOCH, &event);
        let unknown = text.replace("\"reset\"", "\"dreamt\"");
        assert!(
            matches!(read_alone(&unknown), Err(LineError::NotALine(_))),
            "its hash does not fit any more"
        );
        let (content, _) = unknown.rsplit_once(HASH_FIELD).expect("a line of ours");
        let whole = format!("{content}{HASH_FIELD}{}\"}}\n", Digest::of(content));
        let error = read_alone(&whole).expect_err("an unknown event");
        assert!(matches!(&error, LineError::NewEvent(why) if why.contains("dreamt")), "{error:?}");
        assert!(error.is_from_newer_version());
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
