//! A loop's ledger on disk: append-only, hash-chained JSON lines, with a snapshot of the state beside it.
//!
//! Promises: a kill at any point leaves the old or the new state; a torn last line (full disk, power) never counted and
//! is cut before the next append; a damaged line is put aside, never deleted; the snapshot is only a cache, carried on
//! from where the lines after it fit and thrown away where they do not. Whoever writes holds the repo's lock.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use ralph_core::ledger::event::Event;
use ralph_core::ledger::line::{self as ledger_line, Head, Line, LineError};
use ralph_core::state::State;
use serde::{Deserialize, Serialize};

use crate::files::{self, Lock};

const LEDGER: &str = "ledger.jsonl";
const SNAPSHOT: &str = "state.json";
const SNAPSHOT_VERSION: u32 = 1;

#[derive(Debug)]
pub(crate) struct Ledger<'lock> {
    dir: PathBuf,
    file: File,
    length: u64,
    head: Head,
    state: State,
    _lock: &'lock Lock,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum LedgerError {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{path}: {source}; nothing was changed")]
    Newer { path: PathBuf, source: LineError },
}

#[derive(Serialize, Deserialize)]
struct Snapshot {
    v: u32,
    /// How many bytes of the ledger this state reflects.
    length: u64,
    head: Head,
    state: State,
}

impl<'lock> Ledger<'lock> {
    /// Opens the ledger for writing. It is made where there is none.
    pub(crate) fn open(dir: &Path, lock: &'lock Lock, now: Timestamp) -> Result<Self, LedgerError> {
        let path = dir.join(LEDGER);
        let failed = |source| LedgerError::Io { path: path.clone(), source };
        files::private_dir(dir).map_err(failed)?;
        let mut file = files::open_private(&path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        let known = snapshot(dir).filter(|snapshot| snapshot.length <= length);
        if let Some(Reading { state, head, damage: None, .. }) =
            known.map(|snapshot| Reading::after(snapshot, &file, length)).transpose().map_err(failed)?
        {
            return Ok(Self { dir: dir.to_owned(), file, length, head, state, _lock: lock });
        }
        file.rewind().map_err(failed)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(failed)?;
        let read = Reading::of(&text);
        let read = match read {
            Reading { damage: Some(Damage { what: Wrong::Line(source), .. }), .. }
                if source.is_of_a_newer_ralph() =>
            {
                return Err(LedgerError::Newer { path, source });
            }
            other => other,
        };
        let mut ledger = Self {
            dir: dir.to_owned(),
            file,
            length: read.length,
            head: read.head,
            state: read.state,
            _lock: lock,
        };
        if let Some(what) = ledger.mend(&text, read.damage).map_err(failed)? {
            ledger.append(now, &[Event::LedgerMended { what }])?;
        }
        Ok(ledger)
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// Where the next line will stand, and what it carries on from.
    pub(crate) fn end(&self) -> (u64, &Head) {
        (self.length, &self.head)
    }

    /// Writes events in one go: all of them are there afterwards, or none.
    pub(crate) fn append(&mut self, at: Timestamp, events: &[Event]) -> Result<(), LedgerError> {
        let mut text = String::new();
        let (mut head, mut state) = (self.head.clone(), self.state.clone());
        for event in events {
            let (line, next) = ledger_line::write(&head, at, event);
            text.push_str(&line);
            head = next;
            state.apply(at, event);
        }
        if let Err(source) = self.file.write_all(text.as_bytes()) {
            // A full disk writes half a line: take it back, so that nobody has to cut it later.
            let _cut_later_if_this_fails = self.file.set_len(self.length);
            return Err(LedgerError::Io { path: self.dir.join(LEDGER), source });
        }
        self.length += text.len() as u64;
        (self.head, self.state) = (head, state);
        Ok(())
    }

    /// Makes what was written survive a power cut.
    pub(crate) fn sync(&self) {
        let _best_effort = self.file.sync_data();
    }

    /// Leaves the state beside the ledger for the next reader. Losing it costs time only.
    pub(crate) fn save_snapshot(&self) {
        let snapshot = Snapshot {
            v: SNAPSHOT_VERSION,
            length: self.length,
            head: self.head.clone(),
            state: self.state.clone(),
        };
        files::sweep_temporary(&self.dir);
        if let Ok(text) = serde_json::to_vec(&snapshot) {
            let _only_a_cache = files::replace(&self.dir.join(SNAPSHOT), &text);
        }
    }

    /// Cuts a torn end; puts a damaged ledger aside and goes on from what could be read.
    fn mend(&self, text: &[u8], damage: Option<Damage>) -> io::Result<Option<String>> {
        let Some(damage) = damage else { return Ok(None) };
        if damage.what == Wrong::Torn {
            self.file.set_len(self.length)?;
            return Ok(Some(format!(
                "a torn last line of {} bytes was cut",
                text.len() as u64 - self.length
            )));
        }
        let aside = (1..)
            .map(|number| self.dir.join(format!("{LEDGER}.damaged-{number}")))
            .find(|path| !path.exists());
        let aside = aside.expect("the numbers do not run out");
        files::replace(&aside, text)?;
        self.file.set_len(self.length)?;
        let name = aside.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Some(format!("line {}: {}; the whole was kept as {name}", damage.line, damage.what)))
    }
}

fn snapshot(dir: &Path) -> Option<Snapshot> {
    let text = files::read_if_there(&dir.join(SNAPSHOT)).ok()??;
    // Read as text, as the ledger is: what reads the parts of both is then there once.
    let text = std::str::from_utf8(&text).ok()?;
    serde_json::from_str(text).ok().filter(|snapshot: &Snapshot| snapshot.v == SNAPSHOT_VERSION)
}

/// What can be read of a ledger: everything up to the first thing that is wrong.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) lines: Vec<Line>,
    pub(crate) state: State,
    pub(crate) head: Head,
    /// Bytes that were read.
    pub(crate) length: u64,
    pub(crate) damage: Option<Damage>,
}

#[derive(Debug)]
pub(crate) struct Damage {
    /// From 1.
    pub(crate) line: u64,
    pub(crate) what: Wrong,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Wrong {
    #[error("it has no end: it was never written whole")]
    Torn,
    #[error(transparent)]
    Line(LineError),
}

impl Reading {
    fn of(text: &[u8]) -> Self {
        let mut reading = Self {
            lines: Vec::new(),
            state: State::default(),
            head: Head::origin(),
            length: 0,
            damage: None,
        };
        reading.go_on(text);
        reading
    }

    /// What a snapshot knows, and what was written since.
    fn after(snapshot: Snapshot, mut file: &File, length: u64) -> io::Result<Self> {
        let Snapshot { state, head, length: known, .. } = snapshot;
        let mut reading = Self { lines: Vec::new(), state, head, length: known, damage: None };
        if known < length {
            let mut text = Vec::new();
            file.seek(SeekFrom::Start(known))?;
            file.read_to_end(&mut text)?;
            reading.go_on(&text);
        }
        Ok(reading)
    }

    fn go_on(&mut self, text: &[u8]) {
        for bytes in text.split_inclusive(|byte| *byte == b'\n') {
            match self.next_line(bytes) {
                Ok(line) => self.take(line, bytes.len()),
                Err(what) => {
                    self.damage = Some(Damage { line: self.head.seq + 1, what });
                    break;
                }
            }
        }
    }

    fn next_line(&self, bytes: &[u8]) -> Result<Line, Wrong> {
        if !bytes.ends_with(b"\n") {
            return Err(Wrong::Torn);
        }
        let text = std::str::from_utf8(bytes)
            .map_err(|error| Wrong::Line(LineError::NotALine(error.to_string())))?;
        ledger_line::read(&self.head, text).map_err(Wrong::Line)
    }

    fn take(&mut self, line: Line, bytes: usize) {
        self.state.apply(line.at, &line.event);
        self.head = Head { seq: line.seq, hash: line.hash.clone() };
        self.length += bytes as u64;
        self.lines.push(line);
    }
}

/// Reads a whole ledger without changing anything; for people and checks.
pub(crate) fn read(dir: &Path) -> io::Result<Reading> {
    let text = files::read_if_there(&dir.join(LEDGER))?.unwrap_or_default();
    Ok(Reading::of(&text))
}

/// How many bytes it has: another number means that there is more to read.
pub(crate) fn size(dir: &Path) -> io::Result<u64> {
    match dir.join(LEDGER).metadata() {
        Ok(meta) => Ok(meta.len()),
        Err(error) if files::is_absent(&error) => Ok(0),
        Err(error) => Err(error),
    }
}

/// The state of a loop without changing anything: what the snapshot knows, and what was written since.
pub(crate) fn state(dir: &Path) -> io::Result<State> {
    let file = match File::open(dir.join(LEDGER)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(State::default()),
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    match snapshot(dir).filter(|snapshot| snapshot.length <= length) {
        Some(snapshot) => Ok(Reading::after(snapshot, &file, length)?.state),
        None => Ok(read(dir)?.state),
    }
}

/// One line at a known place; its own hash is checked.
pub(crate) fn read_line_at(dir: &Path, offset: u64) -> Option<Line> {
    /// No event of ours comes near this.
    const LONGEST: u64 = 1 << 20;
    let mut file = File::open(dir.join(LEDGER)).ok()?;
    file.seek(SeekFrom::Start(offset)).ok()?;
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text).ok()?;
    let end = text.iter().position(|byte| *byte == b'\n')?;
    let (line, _) = ledger_line::read_alone(std::str::from_utf8(&text[..end]).ok()?).ok()?;
    Some(line)
}

#[cfg(test)]
mod tests {
    use ralph_core::id::Digest;

    use super::*;
    use ralph_core::ledger::event::ResetCause;
    use std::fs;
    use std::time::Duration;

    fn event(number: u32) -> Event {
        Event::Waited { what: format!("number {number}"), entries: Vec::new() }
    }

    fn write(dir: &Path, numbers: std::ops::Range<u32>) -> State {
        let lock =
            Lock::take(&dir.join("lock"), Duration::from_secs(2)).expect("a file").expect("nobody else");
        let mut ledger = Ledger::open(&dir.join("loop"), &lock, Timestamp::UNIX_EPOCH).expect("a ledger");
        for number in numbers {
            ledger.append(Timestamp::UNIX_EPOCH, &[event(number)]).expect("room");
        }
        ledger.save_snapshot();
        ledger.state().clone()
    }

    #[test]
    fn law_9_a_ledger_torn_at_any_byte_keeps_every_whole_line() {
        let dir = tempfile::tempdir().expect("a folder");
        write(dir.path(), 0..4);
        let path = dir.path().join("loop").join(LEDGER);
        let whole = fs::read(&path).expect("the ledger");
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).expect("cut");
            let lines = whole[..cut].iter().filter(|byte| **byte == b'\n').count();
            let state = write(dir.path(), 9..10);
            let torn = u64::from(cut > 0 && whole[cut - 1] != b'\n');
            assert_eq!(state.events, lines as u64 + torn + 1, "cut at {cut}");
            let reading = read(&dir.path().join("loop")).expect("readable");
            assert!(reading.damage.is_none(), "cut at {cut}: {:?}", reading.damage);
            assert_eq!(reading.state, state);
        }
    }

    #[test]
    fn law_9_a_torn_or_foreign_snapshot_is_rebuilt() {
        let dir = tempfile::tempdir().expect("a folder");
        let state = write(dir.path(), 0..3);
        let path = dir.path().join("loop").join(SNAPSHOT);
        let whole = fs::read(&path).expect("the snapshot");
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).expect("cut");
            assert_eq!(write(dir.path(), 0..0), state, "cut at {cut}");
        }
        fs::write(&path, vec![0; whole.len()]).expect("zeros");
        assert_eq!(write(dir.path(), 0..0), state);
    }

    #[test]
    fn a_stale_snapshot_is_not_believed() {
        let dir = tempfile::tempdir().expect("a folder");
        write(dir.path(), 0..2);
        let snapshot = dir.path().join("loop").join(SNAPSHOT);
        let old = fs::read(&snapshot).expect("the snapshot");
        write(dir.path(), 2..3);
        fs::write(&snapshot, old).expect("put back");
        assert_eq!(write(dir.path(), 0..0).events, 3);
    }

    #[test]
    fn what_was_written_after_a_snapshot_must_carry_on_from_it() {
        let dir = tempfile::tempdir().expect("a folder");
        write(dir.path(), 0..1);
        let path = dir.path().join("loop").join(LEDGER);
        let snapshot = dir.path().join("loop").join(SNAPSHOT);
        let (first, old) = (fs::read(&path).expect("the ledger"), fs::read(&snapshot).expect("the snapshot"));
        write(dir.path(), 1..2);
        let both = fs::read(&path).expect("the ledger");
        fs::write(&snapshot, old).expect("put back");
        // The second line twice: it fits the first time only.
        fs::write(&path, [&both[..], &both[first.len()..]].concat()).expect("write");
        // Two lines and the note about the mending.
        assert_eq!(write(dir.path(), 0..0).events, 3);
        assert!(dir.path().join("loop").join("ledger.jsonl.damaged-1").exists());
    }

    #[test]
    fn a_changed_line_is_put_aside_and_what_stands_before_it_goes_on() {
        let dir = tempfile::tempdir().expect("a folder");
        write(dir.path(), 0..3);
        let path = dir.path().join("loop").join(LEDGER);
        let text = fs::read_to_string(&path).expect("the ledger");
        fs::write(&path, text.replace("number 1", "number 7")).expect("tamper");
        fs::remove_file(dir.path().join("loop").join(SNAPSHOT)).expect("no snapshot");
        let state = write(dir.path(), 5..6);
        // The first line, the note about the mending, and the new one.
        assert_eq!(state.events, 3);
        let kept = fs::read_to_string(dir.path().join("loop").join("ledger.jsonl.damaged-1")).expect("kept");
        assert!(kept.contains("number 7") && kept.contains("number 2"));
    }

    #[test]
    fn a_ledger_of_a_newer_ralph_is_left_alone() {
        let dir = tempfile::tempdir().expect("a folder");
        write(dir.path(), 0..1);
        let path = dir.path().join("loop").join(LEDGER);
        let known = fs::read_to_string(&path).expect("the ledger");
        let content = r#"{"v":1,"seq":2,"prev":"","event":{"event":"from_the_future"}"#;
        let new_event = format!("{content},\"hash\":\"{}\"}}\n", Digest::of(content));
        for line in ["{\"v\":99,\"event\":\"from the future\"}\n", &new_event] {
            let text = format!("{known}{line}");
            fs::write(&path, &text).expect("write");
            let lock =
                Lock::take(&dir.path().join("lock"), Duration::ZERO).expect("a file").expect("nobody else");
            let opened = Ledger::open(&dir.path().join("loop"), &lock, Timestamp::UNIX_EPOCH);
            assert!(matches!(opened, Err(LedgerError::Newer { .. })), "{opened:?}");
            assert_eq!(fs::read_to_string(&path).expect("the ledger"), text);
        }
    }

    #[test]
    fn one_line_can_be_read_at_its_place() {
        let dir = tempfile::tempdir().expect("a folder");
        let lock =
            Lock::take(&dir.path().join("lock"), Duration::ZERO).expect("a file").expect("nobody else");
        let mut ledger =
            Ledger::open(&dir.path().join("loop"), &lock, Timestamp::UNIX_EPOCH).expect("a ledger");
        ledger.append(Timestamp::UNIX_EPOCH, &[event(1)]).expect("room");
        let (offset, _) = ledger.end();
        let reset = Event::Reset { why: ResetCause::Command };
        ledger.append(Timestamp::UNIX_EPOCH, std::slice::from_ref(&reset)).expect("room");
        let line = read_line_at(&dir.path().join("loop"), offset).expect("a line");
        assert_eq!(line.event, reset);
        assert!(read_line_at(&dir.path().join("loop"), offset + 1).is_none());
    }
}
