//! A loop's ledger on disk: append-only, hash-chained JSON lines. The state is computed from them; there is no other
//! trusted copy.
//!
//! Guarantees: a kill at any point leaves the old or the new state; a torn last line (full disk, power loss) never counts
//! and is cut before the next append; a damaged ledger is moved aside, never deleted. Writers hold the repo's lock.
//!
//! An agent can write here too. So a process keeps what it has read and written in memory ([`Loop`]): the driver accepts
//! only a pause, a cancel or a note from other processes, and a judging process accepts no line in its own name. A
//! *verified* line counts only after a gate run by the same process.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use ralph_core::ledger::event::{CancelCause, Event, PauseCause, Subject};
use ralph_core::ledger::line::{self as ledger_line, ChainHead, LedgerLine, LineError};
use ralph_core::ledger::state::State;
use ralph_core::model::id::LoopId;

use crate::store::home::RepoHome;
use crate::store::ledger_heads;
use crate::sys::files::{self, Lock};
use crate::sys::{clock, proc};

const LEDGER: &str = "ledger.jsonl";

#[derive(Debug, thiserror::Error)]
pub(crate) enum LedgerError {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{path}: {source}; nothing was changed")]
    Newer { path: PathBuf, source: LineError },
    /// Another process wrote to the ledger of a loop that this process drives.
    #[error("the ledger was changed by another process: {what}")]
    Tampered { what: String },
}

impl From<LedgerError> for io::Error {
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::Io { source, .. } if source.kind() == io::ErrorKind::WouldBlock => source,
            other => Self::other(other),
        }
    }
}

/// Which lines of other processes count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ForeignLines {
    /// Hooks and commands at the same time.
    Write,
    /// The same, but no verdict and no run in this process's name.
    WriteInTheirOwnName,
    /// This process drives the loop: the user may only pause it, cancel it or add a note.
    PauseOrCancel,
}

impl ForeignLines {
    fn may_write(self, event: &Event) -> bool {
        let own = own_pid();
        match (self, event) {
            (Self::Write, _) => true,
            (Self::WriteInTheirOwnName, Event::Judged(judgement)) => judgement.process != Some(own),
            (Self::WriteInTheirOwnName, Event::RunStarted { pid, .. }) => *pid != own,
            (Self::WriteInTheirOwnName, _) => true,
            (Self::PauseOrCancel, event) => matches!(
                event,
                Event::Paused { why: PauseCause::Command | PauseCause::Word }
                    | Event::Cancelled { why: CancelCause::Command | CancelCause::Failed { .. } }
                    | Event::Noted { .. }
                    // An agent may give up; that never verifies anything.
                    | Event::AgentBlocked { .. }
            ),
        }
    }
}

/// The loop of `ralph verify` runs in a repo.
pub(crate) fn verify_loop() -> LoopId {
    LoopId::new("verify")
}

/// The same for an agent's shell: its results are never reused.
pub(crate) fn agent_verify_loop() -> LoopId {
    LoopId::new("verify-by-agent")
}

pub(crate) fn own_pid() -> i32 {
    i32::try_from(std::process::id()).unwrap_or_default()
}

/// The ledger of one loop, with everything this process has read and written of it.
#[derive(Debug)]
pub(crate) struct Loop {
    home: RepoHome,
    dir: PathBuf,
    others: ForeignLines,
    known: Mutex<LedgerReading>,
    /// Whether the second copy of its head was looked at.
    head_compared: AtomicBool,
}

impl Loop {
    pub(crate) fn new(home: &RepoHome, id: &LoopId) -> Self {
        Self::at(home, home.loop_dir(id), ForeignLines::Write)
    }

    /// For a process that judges a stop of this loop.
    pub(crate) fn judged_here(home: &RepoHome, id: &LoopId) -> Self {
        Self::at(home, home.loop_dir(id), ForeignLines::WriteInTheirOwnName)
    }

    /// For the process that drives the loop.
    pub(crate) fn driven_here(home: &RepoHome, id: &LoopId) -> Self {
        Self::at(home, home.loop_dir(id), ForeignLines::PauseOrCancel)
    }

    pub(crate) fn in_folder(dir: &Path) -> Self {
        Self::at(&RepoHome::of_loop_dir(dir), dir.to_owned(), ForeignLines::Write)
    }

    fn at(home: &RepoHome, dir: PathBuf, others: ForeignLines) -> Self {
        let known = Mutex::new(LedgerReading::default());
        Self { home: home.clone(), dir, others, known, head_compared: AtomicBool::new(false) }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The current state, read without changing anything.
    pub(crate) fn state(&self) -> Result<State, LedgerError> {
        let mut known = self.known();
        match self.open_to_read().map_err(|source| self.failed(source))? {
            // A damaged end is repaired by the next writer.
            Some(mut file) => drop(self.catch_up(&mut known, &mut file)?),
            None => self.reset_missing(&mut known)?,
        }
        Ok(known.state.clone())
    }

    /// All lines, for users and checks; changes nothing.
    pub(crate) fn lines(&self) -> io::Result<WholeLedger> {
        let (mut lines, mut reading) = (Vec::new(), LedgerReading::default());
        let text = read_text(&self.dir)?;
        let damage = reading.read_lines(&text, ForeignLines::Write, |line| lines.push(line));
        let damage = damage.or_else(|| wrong_snapshot(&lines));
        Ok(WholeLedger { lines, state: reading.state, damage })
    }

    /// The head that was recorded in the second place.
    pub(crate) fn recorded_head(&self) -> Option<ChainHead> {
        ledger_heads::read(&self.home.head_file(&self.dir)?)
    }

    /// The lines since an offset, and the next offset. Reads only new lines and does not verify the chain. A ledger that
    /// became shorter is read from its beginning.
    pub(crate) fn follow(&self, from: u64) -> io::Result<(Vec<LedgerLine>, u64)> {
        let Some(mut file) = self.open_to_read()? else { return Ok((Vec::new(), 0)) };
        let from = if file.metadata()?.len() < from { 0 } else { from };
        file.seek(SeekFrom::Start(from))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines = text[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let lines = lines.filter_map(|line| ledger_line::read_alone(std::str::from_utf8(line).ok()?).ok());
        Ok((lines.map(|(line, _)| line).collect(), from + whole as u64))
    }

    /// Whether it contains these bytes: rules out most ledgers without parsing them.
    pub(crate) fn mentions(&self, bytes: &[u8]) -> bool {
        /// Larger than any session's ledger.
        const LONGEST: u64 = 8 << 20;
        let mut text = Vec::new();
        let read =
            File::open(self.dir.join(LEDGER)).and_then(|file| file.take(LONGEST).read_to_end(&mut text));
        read.is_ok() && text.windows(bytes.len().max(1)).any(|window| window == bytes)
    }

    /// The line at a known offset; its own hash is checked.
    pub(crate) fn line_at(&self, offset: u64) -> Option<LedgerLine> {
        /// Larger than any event.
        const LONGEST: u64 = 1 << 20;
        let mut file = self.open_to_read().ok()??;
        file.seek(SeekFrom::Start(offset)).ok()?;
        let mut text = Vec::new();
        file.take(LONGEST).read_to_end(&mut text).ok()?;
        let end = text.iter().position(|byte| *byte == b'\n')?;
        let (line, _) = ledger_line::read_alone(std::str::from_utf8(&text[..end]).ok()?).ok()?;
        Some(line)
    }

    /// Appends events: all of them or none.
    pub(crate) fn append(&self, events: &[Event]) -> Result<State, LedgerError> {
        let mut open = self.open(clock::now())?;
        open.append(clock::now(), events)?;
        Ok(open.state().clone())
    }

    /// Appends the events that follow from the state; returns the new state and whether anything was written.
    pub(crate) fn append_following(
        &self,
        follows: impl FnOnce(&State) -> Vec<Event>,
    ) -> Result<(State, bool), LedgerError> {
        let now = clock::now();
        let mut open = self.open(now)?;
        let events = follows(open.state());
        if !events.is_empty() {
            open.append(now, &events)?;
            open.sweep();
        }
        Ok((open.state().clone(), !events.is_empty()))
    }

    /// Opens it for writing under the repo's lock, creating it if needed.
    pub(crate) fn open(&self, now: Timestamp) -> Result<Ledger<'_>, LedgerError> {
        self.home.create().map_err(|source| self.failed(source))?;
        let lock = self.home.lock_state().map_err(|source| self.failed(source))?;
        self.open_under(LockGuard::Ours(lock), now)
    }

    /// The same for a caller that holds the lock already.
    pub(crate) fn open_with<'l>(&'l self, lock: &'l Lock, now: Timestamp) -> Result<Ledger<'l>, LedgerError> {
        self.open_under(LockGuard::Callers(lock), now)
    }

    fn open_under<'l>(&'l self, lock: LockGuard<'l>, now: Timestamp) -> Result<Ledger<'l>, LedgerError> {
        let mut known = self.known();
        let failed = |source| self.failed(source);
        files::private_dir(&self.dir).map_err(failed)?;
        let mut file = files::open_private(&self.dir.join(LEDGER)).map_err(failed)?;
        let damage = self.catch_up(&mut known, &mut file)?;
        if let Some(Damage { what: DamageKind::Line(source), .. }) = &damage
            && source.is_from_newer_version()
        {
            return Err(LedgerError::Newer { path: self.dir.join(LEDGER), source: source.clone() });
        }
        let mut ledger = Ledger {
            dir: &self.dir,
            file,
            known,
            keeps_text: self.others == ForeignLines::PauseOrCancel,
            head_file: self.home.head_file(&self.dir),
            _lock: lock,
        };
        let missing = self.missing_lines(ledger.end().1);
        let repaired = ledger.repair(damage).map_err(failed)?;
        let notes: Vec<String> = missing.into_iter().chain(repaired).collect();
        if !notes.is_empty() {
            ledger.append(now, &[Event::LedgerRepaired { what: notes.join("; ") }])?;
        }
        Ok(ledger)
    }

    /// Lines that were written once and are gone, looked for when this process first writes.
    fn missing_lines(&self, end: &ChainHead) -> Option<String> {
        if self.head_compared.swap(true, Ordering::Relaxed) {
            return None;
        }
        ledger_heads::missing_since(&self.recorded_head()?, end)
    }

    /// `None` if there is no ledger.
    fn open_to_read(&self) -> io::Result<Option<File>> {
        files::open_if_there(&self.dir.join(LEDGER))
    }

    fn reset_missing(&self, known: &mut LedgerReading) -> Result<(), LedgerError> {
        if self.others == ForeignLines::PauseOrCancel && known.end > 0 {
            return Err(LedgerError::Tampered { what: "the file is missing".into() });
        }
        *known = LedgerReading::default();
        Ok(())
    }

    /// Reads and applies the accepted lines written since.
    fn catch_up(&self, known: &mut LedgerReading, file: &mut File) -> Result<Option<Damage>, LedgerError> {
        let stamp = LedgerStamp::of(file).map_err(|source| self.failed(source))?;
        if known.stamp == Some(stamp) {
            return Ok(None);
        }
        let damage = match self.others {
            ForeignLines::PauseOrCancel => self.compare_whole(known, file)?,
            ForeignLines::Write | ForeignLines::WriteInTheirOwnName => {
                self.read_new(known, file, stamp.length).map_err(|source| self.failed(source))?
            }
        };
        known.stamp = damage.is_none().then_some(stamp);
        Ok(damage)
    }

    /// For the driving process: everything it wrote must be unchanged, and added lines must be allowed.
    fn compare_whole(
        &self,
        known: &mut LedgerReading,
        file: &mut File,
    ) -> Result<Option<Damage>, LedgerError> {
        let text = read_from(file, 0).map_err(|source| self.failed(source))?;
        if !text.starts_with(&known.text) {
            let what = match text.len() {
                0 => "the file is missing",
                length if length < known.text.len() => "lines are missing",
                _ => "a line was changed",
            };
            return Err(LedgerError::Tampered { what: what.into() });
        }
        // Lines from before the first read were written by its predecessors.
        let others = if known.text.is_empty() { ForeignLines::Write } else { self.others };
        let from = known.text.len();
        let damage = known.read_on(&text[from..], others);
        known.text.extend_from_slice(&text[from..usize::try_from(known.end).unwrap_or(from)]);
        match damage {
            Some(Damage { line, what })
                if others == ForeignLines::PauseOrCancel && what != DamageKind::Torn =>
            {
                Err(LedgerError::Tampered { what: format!("line {line}: {what}") })
            }
            damage => Ok(damage),
        }
    }

    /// For all other processes: reads only new lines, or everything if they do not continue the known chain.
    fn read_new(
        &self,
        known: &mut LedgerReading,
        file: &mut File,
        length: u64,
    ) -> io::Result<Option<Damage>> {
        if known.end > 0 && length > known.end {
            let others = self.others;
            let text = read_from(file, known.end)?;
            let damage = known.read_on(&text, others);
            if damage.as_ref().is_none_or(|damage| damage.what != DamageKind::Line(LineError::Chain)) {
                return Ok(damage);
            }
        }
        *known = read_from_snapshot(file, length)?.unwrap_or_default();
        let text = read_from(file, known.end)?;
        // Lines from before the first read were written by other processes.
        Ok(known.read_on(&text, ForeignLines::Write))
    }

    /// Restores what this process wrote; keeps a copy of what was there instead.
    pub(crate) fn restore(&self) -> Result<(), LedgerError> {
        let failed = |source| self.failed(source);
        self.home.create().map_err(failed)?;
        let _lock = self.home.lock_state().map_err(failed)?;
        let known = self.known();
        files::private_dir(&self.dir).map_err(failed)?;
        let found = read_text(&self.dir).map_err(failed)?;
        move_aside(&self.dir, &found).map_err(failed)?;
        files::replace(&self.dir.join(LEDGER), &known.text).map_err(failed)
    }

    fn known(&self) -> MutexGuard<'_, LedgerReading> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, source: io::Error) -> LedgerError {
        LedgerError::Io { path: self.dir.join(LEDGER), source }
    }
}

#[derive(Debug)]
enum LockGuard<'l> {
    Ours(#[expect(dead_code, reason = "held for as long as the ledger is open")] Lock),
    Callers(#[expect(dead_code, reason = "held for as long as the ledger is open")] &'l Lock),
}

/// A ledger open for writing.
#[derive(Debug)]
pub(crate) struct Ledger<'l> {
    dir: &'l Path,
    file: File,
    known: MutexGuard<'l, LedgerReading>,
    /// Whether every byte is kept in memory for later comparison.
    keeps_text: bool,
    /// Where its head is kept a second time.
    head_file: Option<PathBuf>,
    _lock: LockGuard<'l>,
}

impl Ledger<'_> {
    pub(crate) fn state(&self) -> &State {
        &self.known.state
    }

    /// The offset of the next line and the hash that it continues.
    pub(crate) fn end(&self) -> (u64, &ChainHead) {
        (self.known.end, &self.known.head)
    }

    /// Appends events in one write: all of them or none.
    pub(crate) fn append(&mut self, at: Timestamp, events: &[Event]) -> Result<(), LedgerError> {
        self.write(at, events)?;
        // A process that has ended judges nothing any more.
        self.known.runs.retain(|process, _| proc::is_alive(*process));
        if self.known.snapshot_is_due() {
            let snapshot = self.known.state.to_snapshot();
            self.write(at, &[snapshot])?;
            self.known.since_snapshot = 0;
        }
        Ok(())
    }

    fn write(&mut self, at: Timestamp, events: &[Event]) -> Result<(), LedgerError> {
        let mut text = String::new();
        let mut head = self.known.head.clone();
        for event in events {
            let (line, next) = ledger_line::write(&head, at, event);
            text.push_str(&line);
            head = next;
        }
        if let Err(source) = self.file.write_all(text.as_bytes()) {
            // A full disk writes half a line: cut it now.
            let _cut_later_if_this_fails = self.file.set_len(self.known.end);
            return Err(LedgerError::Io { path: self.dir.join(LEDGER), source });
        }
        for event in events {
            self.known.apply(at, event);
        }
        self.known.end += text.len() as u64;
        if self.keeps_text {
            self.known.text.extend_from_slice(text.as_bytes());
        }
        self.known.head = head;
        self.known.stamp = LedgerStamp::of(&self.file).ok();
        if let Some(file) = &self.head_file {
            ledger_heads::record(file, &self.known.head);
        }
        Ok(())
    }

    /// Removes temporary files that killed writers left beside the ledger.
    pub(crate) fn sweep(&self) {
        files::sweep_temporary(self.dir);
    }

    /// Makes the written lines survive a power loss.
    pub(crate) fn sync(&self) {
        let _best_effort = self.file.sync_data();
    }

    /// Cuts a torn end; moves a damaged ledger aside and continues from the readable part.
    fn repair(&mut self, damage: Option<Damage>) -> io::Result<Option<String>> {
        let Some(damage) = damage else { return Ok(None) };
        let length = self.known.end;
        if damage.what == DamageKind::Torn {
            let torn = self.file.metadata()?.len().saturating_sub(length);
            self.file.set_len(length)?;
            return Ok(Some(format!("{CUT_TORN_LINE} of {torn} bytes")));
        }
        let name = move_aside(self.dir, &read_from(&mut self.file, 0)?)?;
        self.file.set_len(length)?;
        Ok(Some(format!("line {}: {}; the damaged ledger was kept as {name}", damage.line, damage.what)))
    }
}

/// The usual trace of a kill; every other repair had a damaged ledger before it.
const CUT_TORN_LINE: &str = "removed an incomplete last line";

/// Keeps an abandoned ledger under a name of its own.
fn move_aside(dir: &Path, text: &[u8]) -> io::Result<String> {
    let free = |path: &PathBuf| !path.exists();
    let aside = (1..).map(|number| dir.join(format!("{LEDGER}.damaged-{number}"))).find(free);
    let aside = aside.expect("the numbers do not run out");
    files::replace(&aside, text)?;
    Ok(aside.file_name().unwrap_or_default().to_string_lossy().into_owned())
}

/// A file's metadata at its last read or write: an equal stamp means that nothing is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LedgerStamp {
    length: u64,
    inode: u64,
    changed: (i64, i64),
}

impl LedgerStamp {
    fn of(file: &File) -> io::Result<Self> {
        let meta = file.metadata()?;
        Ok(Self { length: meta.len(), inode: meta.ino(), changed: (meta.ctime(), meta.ctime_nsec()) })
    }
}

/// The readable part of a ledger: everything before the first error.
#[derive(Debug, Default)]
struct LedgerReading {
    /// The bytes read, if this process drives the loop.
    text: Vec<u8>,
    /// How many bytes were read.
    end: u64,
    stamp: Option<LedgerStamp>,
    state: State,
    head: ChainHead,
    /// The processes that have started a gate run since their last verdict, and whether a gate has finished.
    runs: BTreeMap<i32, bool>,
    running: i32,
    /// Lines since the last snapshot.
    since_snapshot: u32,
}

#[derive(Debug)]
pub(crate) struct Damage {
    /// Counted from 1.
    pub(crate) line: u64,
    pub(crate) what: DamageKind,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DamageKind {
    #[error("incomplete line")]
    Torn,
    #[error(transparent)]
    Line(LineError),
    #[error("claims verified, but its process ran no gate before it")]
    Unfounded,
    #[error("not allowed from another process: {0}")]
    Foreign(String),
    #[error("its snapshot does not match the lines before it")]
    WrongSnapshot,
}

impl LedgerReading {
    fn read_on(&mut self, text: &[u8], others: ForeignLines) -> Option<Damage> {
        self.read_lines(text, others, |_| ())
    }

    fn read_lines(
        &mut self,
        text: &[u8],
        others: ForeignLines,
        mut on: impl FnMut(LedgerLine),
    ) -> Option<Damage> {
        for bytes in text.split_inclusive(|byte| *byte == b'\n') {
            match self.next_line(bytes, others) {
                Ok(line) => {
                    self.apply(line.at, &line.event);
                    self.head = ChainHead { seq: line.seq, hash: line.hash.clone() };
                    self.end += bytes.len() as u64;
                    on(line);
                }
                Err(what) => return Some(Damage { line: self.head.seq + 1, what }),
            }
        }
        None
    }

    fn next_line(&self, bytes: &[u8], others: ForeignLines) -> Result<LedgerLine, DamageKind> {
        if !bytes.ends_with(b"\n") {
            return Err(DamageKind::Torn);
        }
        let text = std::str::from_utf8(bytes)
            .map_err(|error| DamageKind::Line(LineError::NotALine(error.to_string())))?;
        let line = ledger_line::read(&self.head, text).map_err(DamageKind::Line)?;
        if !others.may_write(&line.event) {
            return Err(DamageKind::Foreign(line.event.name()));
        }
        if self.is_unproven_verdict(&line.event) {
            return Err(DamageKind::Unfounded);
        }
        Ok(line)
    }

    /// Whether to write a snapshot of the state, so that a stop reads only recent lines.
    fn snapshot_is_due(&self) -> bool {
        const EVERY: u32 = 200;
        self.since_snapshot >= EVERY && self.state.is_running() && self.runs.is_empty()
    }

    /// `ralph verify` may be answered by receipts; it never allows a stop.
    fn is_unproven_verdict(&self, event: &Event) -> bool {
        let Event::Judged(judgement) = event else { return false };
        let ran_gates = judgement.process.and_then(|process| self.runs.get(&process)) == Some(&true);
        judgement.verdict.gates_passed() && !ran_gates && self.state.subject != Some(Subject::Plain)
    }

    fn apply(&mut self, at: Timestamp, event: &Event) {
        match event {
            Event::RunStarted { pid, .. } => {
                self.running = *pid;
                self.runs.insert(*pid, false);
            }
            // Only one set of gates runs at a time per repo.
            Event::GateRan { .. } => {
                self.runs.insert(self.running, true);
            }
            Event::Judged(judgement) => {
                judgement.process.map(|process| self.runs.remove(&process));
            }
            Event::NotEvaluated { .. } | Event::RanWithoutVerdict { .. } | Event::Interrupted { .. } => {
                self.runs.remove(&self.running);
            }
            _ => {}
        }
        self.since_snapshot =
            if matches!(event, Event::Snapshot { .. }) { 0 } else { self.since_snapshot + 1 };
        self.state.apply(at, event);
    }
}

/// Starts from the last line with a snapshot; `None` if there is none near the end.
fn read_from_snapshot(file: &mut File, length: u64) -> io::Result<Option<LedgerReading>> {
    /// Far more than the lines between two snapshots.
    const NEAR: u64 = 1 << 20;
    /// Cannot occur inside a JSON string, where its quotes would be escaped.
    const MARK: &[u8] = b"\"event\":{\"event\":\"snapshot\"";
    let from = length.saturating_sub(NEAR);
    let text = read_from(file, from)?;
    let Some(place) = text.windows(MARK.len()).rposition(|window| window == MARK) else { return Ok(None) };
    let begin = text[..place].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let rest = &text[begin..];
    let Some(end) = rest.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    let line = std::str::from_utf8(&rest[..end]).ok().and_then(|line| ledger_line::read_alone(line).ok());
    let Some((LedgerLine { seq, event: Event::Snapshot { state }, hash, .. }, _)) = line else {
        return Ok(None);
    };
    let reading = |state| LedgerReading {
        state,
        head: ChainHead { seq, hash },
        end: from + (begin + end) as u64 + 1,
        ..LedgerReading::default()
    };
    Ok(State::from_snapshot(&state).map(reading))
}

/// The first line whose snapshot does not match the lines before it.
fn wrong_snapshot(lines: &[LedgerLine]) -> Option<Damage> {
    let mut state = State::default();
    for line in lines {
        state.apply(line.at, &line.event);
        if let Event::Snapshot { state: snapshot } = &line.event
            && State::from_snapshot(snapshot).as_ref() != Some(&state)
        {
            return Some(Damage { line: line.seq, what: DamageKind::WrongSnapshot });
        }
    }
    None
}

fn read_from(file: &mut File, from: u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    file.seek(SeekFrom::Start(from))?;
    file.read_to_end(&mut text)?;
    Ok(text)
}

/// A whole ledger, for users and checks.
#[derive(Debug)]
pub(crate) struct WholeLedger {
    pub(crate) lines: Vec<LedgerLine>,
    pub(crate) state: State,
    pub(crate) damage: Option<Damage>,
}

impl WholeLedger {
    /// The first record that is damaged, missing, or was found damaged before, with what is wrong.
    pub(crate) fn first_problem(&self, recorded: Option<&ChainHead>) -> Option<(u64, String)> {
        let repaired = self.lines.iter().find_map(|line| match &line.event {
            Event::LedgerRepaired { what } if !what.starts_with(CUT_TORN_LINE) => {
                Some((line.seq, format!("the ledger was damaged before: {what}")))
            }
            _ => None,
        });
        let damaged = self.damage.as_ref().map(|damage| (damage.line, damage.what.to_string()));
        let end = self
            .lines
            .last()
            .map_or_else(ChainHead::default, |line| ChainHead { seq: line.seq, hash: line.hash.clone() });
        let replaced = recorded.and_then(|recorded| {
            let same = self.lines.iter().find(|line| line.seq == recorded.seq)?;
            (same.hash != recorded.hash)
                .then(|| (same.seq, "it is not the record that was written".to_owned()))
        });
        let cut = recorded
            .and_then(|recorded| ledger_heads::missing_since(recorded, &end).map(|what| (end.seq + 1, what)));
        let all = [repaired, damaged, replaced, cut];
        all.into_iter().flatten().min_by_key(|(record, _)| *record)
    }
}

fn read_text(dir: &Path) -> io::Result<Vec<u8>> {
    Ok(files::read_if_there(&dir.join(LEDGER))?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use ralph_core::ledger::event::{Judgement, ResetCause};
    use ralph_core::ledger::state::Status;
    use ralph_core::model::id::{Digest, TreeHash};
    use ralph_core::model::layout::Layout;
    use ralph_core::model::limits::Limits;
    use ralph_core::model::preset;
    use ralph_core::model::verdict::{Reason, Verdict};

    use super::*;
    use crate::store::home::Home;

    struct Scene {
        _dir: tempfile::TempDir,
        home: RepoHome,
    }

    impl Scene {
        fn new() -> Self {
            let dir = tempfile::tempdir().expect("a folder");
            let home = Home::at(dir.path().to_owned()).repo("repo");
            home.create().expect("a folder");
            Self { _dir: dir, home }
        }

        fn id() -> LoopId {
            LoopId::new("loop")
        }

        fn dir(&self) -> PathBuf {
            self.home.loop_dir(&Self::id())
        }

        fn path(&self) -> PathBuf {
            self.dir().join(LEDGER)
        }

        fn loop_(&self) -> Loop {
            Loop::new(&self.home, &Self::id())
        }

        fn write(&self, numbers: std::ops::Range<u32>) -> State {
            let handle = self.loop_();
            let events: Vec<Event> = numbers.map(event).collect();
            for event in &events {
                handle.append(std::slice::from_ref(event)).expect("room");
            }
            // Opening it repairs it.
            handle.append(&[]).expect("room")
        }
    }

    fn began() -> Event {
        Event::Began {
            subject: Subject::Session,
            session: None,
            task: None,
            layout: Layout::Native,
            preset: "check".into(),
            definition: Some(Digest::of("gates")),
            limits: Limits::new(&preset::CHECK, Layout::Native.data().clocks),
            goal: None,
            prompt: None,
            drive: None,
            rewritten: Vec::new(),
        }
    }

    #[test]
    fn a_long_ledger_read_from_its_last_snapshot_gives_the_same_state() {
        let scene = Scene::new();
        let handle = scene.loop_();
        handle.append(&[began()]).expect("room");
        for number in 0..1_000 {
            handle.append(&[event(number)]).expect("room");
        }
        let whole = handle.lines().expect("readable");
        assert!(whole.damage.is_none());
        let snapshot = |line: &&LedgerLine| matches!(line.event, Event::Snapshot { .. });
        assert_eq!(whole.lines.iter().filter(snapshot).count(), 5);
        assert_eq!(scene.loop_().state().expect("readable"), whole.state);
        assert_eq!(handle.state().expect("readable"), whole.state);
        // Lines before the snapshot are not read, and a forged snapshot ends no loop.
        let text = fs::read_to_string(scene.path()).expect("the ledger");
        fs::write(scene.path(), text.replace("number 3\"", "number 4\"")).expect("tamper");
        assert_eq!(scene.loop_().state().expect("readable"), whole.state);
        assert!(scene.loop_().lines().expect("readable").damage.is_some());
        let mut ended = whole.state.clone();
        ended.status = Status::Ended { verdict: Verdict::Verified };
        let forged = |head: &ChainHead| ledger_line::write(head, clock::now(), &ended.to_snapshot()).0;
        let last = whole.lines.last().expect("a line");
        fs::write(scene.path(), text + &forged(&ChainHead { seq: last.seq, hash: last.hash.clone() }))
            .expect("forge");
        assert!(scene.loop_().state().expect("readable").is_running());
    }

    #[test]
    fn follow_returns_new_lines() {
        let scene = Scene::new();
        let handle = scene.loop_();
        assert_eq!(handle.follow(0).expect("nothing").1, 0);
        handle.append(&[event(1), event(2)]).expect("room");
        let (lines, place) = handle.follow(0).expect("readable");
        assert_eq!(lines.len(), 2);
        handle.append(&[event(3)]).expect("room");
        let (lines, end) = handle.follow(place).expect("readable");
        assert_eq!(lines.iter().map(|line| &line.event).collect::<Vec<_>>(), [&event(3)]);
        assert_eq!(handle.follow(end).expect("readable"), (Vec::new(), end));
        fs::write(scene.path(), "").expect("cut");
        assert_eq!(handle.follow(end).expect("readable"), (Vec::new(), 0));
    }

    fn event(number: u32) -> Event {
        Event::Waited { what: format!("number {number}"), entries: Vec::new(), until: None }
    }

    fn verified_by(process: i32) -> Event {
        Event::Judged(Judgement {
            attempt: 1,
            verdict: Verdict::Verified,
            reason: Reason::AllGatesPassed,
            limit: None,
            tree: None,
            failures: Vec::new(),
            head: None,
            tool_call: None,
            false_promise: false,
            shown: Vec::new(),
            process: Some(process),
        })
    }

    fn run_by(pid: i32) -> Event {
        Event::RunStarted { tree: TreeHash::new("t"), files: 1, pid, note: None }
    }

    #[test]
    fn law_9_a_ledger_torn_at_any_byte_keeps_every_whole_line() {
        let scene = Scene::new();
        scene.write(0..4);
        let whole = fs::read(scene.path()).expect("the ledger");
        for cut in 0..whole.len() {
            fs::write(scene.path(), &whole[..cut]).expect("cut");
            let lines = whole[..cut].iter().filter(|byte| **byte == b'\n').count();
            let state = scene.write(9..10);
            // One note about what is missing or torn.
            assert_eq!(state.events, lines as u64 + 2, "cut at {cut}");
            let reading = scene.loop_().lines().expect("readable");
            assert!(reading.damage.is_none(), "cut at {cut}: {:?}", reading.damage);
            assert_eq!(reading.state, state);
        }
    }

    #[test]
    fn a_ledger_with_a_changed_or_repeated_line_is_moved_aside_and_earlier_lines_count() {
        let scene = Scene::new();
        scene.write(0..3);
        let text = fs::read_to_string(scene.path()).expect("the ledger");
        fs::write(scene.path(), text.replace("number 1", "number 7")).expect("tamper");
        // The first line, the note about the repair, and the new one.
        assert_eq!(scene.write(5..6).events, 3);
        let kept = fs::read_to_string(scene.dir().join("ledger.jsonl.damaged-1")).expect("kept");
        assert!(kept.contains("number 7") && kept.contains("number 2"));
        let text = fs::read_to_string(scene.path()).expect("the ledger");
        let last = text.lines().last().expect("a line");
        fs::write(scene.path(), format!("{text}{last}\n")).expect("twice");
        assert_eq!(scene.write(0..0).events, 4);
        assert!(scene.dir().join("ledger.jsonl.damaged-2").exists());
    }

    #[test]
    fn appended_lines_are_read_and_changed_lines_cause_a_full_read() {
        let scene = Scene::new();
        let ours = scene.loop_();
        ours.append(&[event(1)]).expect("room");
        scene.write(2..4);
        assert_eq!(ours.state().expect("readable").events, 3);
        fs::remove_file(scene.path()).expect("a file");
        assert_eq!(ours.state().expect("readable").events, 0);
    }

    #[test]
    fn a_verdict_counts_only_after_a_run_of_the_same_process() {
        let ran =
            || Event::GateRan { report: crate::checks::gates::passed_report_for_tests(), receipt: None };
        let table: [(&str, Vec<Event>, bool); 5] = [
            ("no run", vec![verified_by(7)], false),
            ("a run without a gate", vec![run_by(7), verified_by(7)], false),
            ("another process's run", vec![run_by(8), ran(), verified_by(7)], false),
            ("its own run", vec![run_by(7), ran(), verified_by(7)], true),
            ("a second verdict of one run", vec![run_by(7), ran(), verified_by(7), verified_by(7)], false),
        ];
        for (what, events, counts) in table {
            let scene = Scene::new();
            let handle = scene.loop_();
            for event in &events {
                handle.append(std::slice::from_ref(event)).expect("room");
            }
            let reading = scene.loop_().lines().expect("readable");
            assert_eq!(reading.damage.is_none(), counts, "{what}: {:?}", reading.damage);
        }
    }

    #[test]
    fn other_processes_cannot_write_in_the_name_of_the_judging_one() {
        let scene = Scene::new();
        let ours = Loop::judged_here(&scene.home, &Scene::id());
        ours.append(&[run_by(own_pid())]).expect("room");
        scene.loop_().append(&[event(1)]).expect("room");
        scene.loop_().append(&[run_by(own_pid())]).expect("room");
        assert_eq!(ours.state().expect("readable").events, 2, "the line before it still counts");
        let state = ours.append(&[event(2)]).expect("room");
        assert_eq!(state.events, 4, "two lines, the note about the repair, the new one");
    }

    #[test]
    fn a_driven_loop_accepts_only_pause_cancel_and_note_from_other_processes() {
        let pause = Event::Paused { why: PauseCause::Command };
        let cancel = Event::Cancelled { why: CancelCause::Command };
        for (theirs, may) in [(pause, true), (cancel, true), (verified_by(1), false), (event(1), false)] {
            let scene = Scene::new();
            let ours = Loop::driven_here(&scene.home, &Scene::id());
            ours.append(&[event(0)]).expect("room");
            scene.loop_().append(std::slice::from_ref(&theirs)).expect("room");
            let state = ours.state();
            assert_eq!(state.is_ok(), may, "{theirs:?}: {state:?}");
        }
        let scene = Scene::new();
        let ours = Loop::driven_here(&scene.home, &Scene::id());
        ours.append(&[event(0)]).expect("room");
        fs::remove_dir_all(scene.dir()).expect("a folder");
        assert!(matches!(ours.append(&[event(1)]), Err(LedgerError::Tampered { .. })));
        ours.restore().expect("room");
        assert_eq!(ours.append(&[event(1)]).expect("room").status, Status::Fresh);
        assert_eq!(scene.loop_().lines().expect("readable").lines.len(), 2);
    }

    #[test]
    fn a_ledger_of_a_newer_ralph_is_left_alone() {
        let scene = Scene::new();
        scene.write(0..1);
        let known = fs::read_to_string(scene.path()).expect("the ledger");
        let content = r#"{"v":1,"seq":2,"prev":"","event":{"event":"from_the_future"}"#;
        let new_event = format!("{content},\"hash\":\"{}\"}}\n", Digest::of(content));
        for line in ["{\"v\":99,\"event\":\"from the future\"}\n", &new_event] {
            let text = format!("{known}{line}");
            fs::write(scene.path(), &text).expect("write");
            let opened = scene.loop_().append(&[]);
            assert!(matches!(opened, Err(LedgerError::Newer { .. })), "{opened:?}");
            assert_eq!(fs::read_to_string(scene.path()).expect("the ledger"), text);
        }
    }

    /// The first wrong record, as `ralph audit` names it.
    fn problem(scene: &Scene) -> Option<u64> {
        let handle = scene.loop_();
        let whole = handle.lines().expect("readable");
        whole.first_problem(handle.recorded_head().as_ref()).map(|(record, _)| record)
    }

    #[test]
    fn audit_names_the_record_of_every_changed_byte() {
        let scene = Scene::new();
        scene.write(0..4);
        let whole = fs::read(scene.path()).expect("the ledger");
        assert_eq!(problem(&scene), None);
        for place in 0..whole.len() {
            // A changed line end joins two lines: the first of them is wrong.
            let record = whole[..place].iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
            for bit in [1, 0x20, 0x80] {
                let mut changed = whole.clone();
                changed[place] ^= bit;
                fs::write(scene.path(), &changed).expect("change");
                assert_eq!(problem(&scene), Some(record), "byte {place}, bit {bit:#x}");
            }
        }
    }

    #[test]
    fn audit_names_dropped_swapped_repeated_and_cut_records() {
        let scene = Scene::new();
        scene.write(0..5);
        let text = fs::read_to_string(scene.path()).expect("the ledger");
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let check = |lines: &[&str], record: u64, what: &str| {
            fs::write(scene.path(), lines.concat()).expect("change");
            assert_eq!(problem(&scene), Some(record), "{what}");
        };
        for at in 0..lines.len() {
            let without: Vec<&str> = [&lines[..at], &lines[at + 1..]].concat();
            check(&without, at as u64 + 1, "dropped");
            check(&lines[..at], at as u64 + 1, "cut");
            if at + 1 < lines.len() {
                let mut swapped = lines.clone();
                swapped.swap(at, at + 1);
                check(&swapped, at as u64 + 1, "swapped");
            }
            let repeated: Vec<&str> = [&lines[..=at], &lines[at..]].concat();
            check(&repeated, at as u64 + 2, "repeated");
        }
    }

    /// A new process continues the shorter chain; that lines are missing stays on record.
    #[test]
    fn a_cut_ledger_that_is_continued_still_shows() {
        let scene = Scene::new();
        scene.write(0..5);
        let text = fs::read_to_string(scene.path()).expect("the ledger");
        let cut: String = text.split_inclusive('\n').take(2).collect();
        fs::write(scene.path(), cut).expect("cut");
        scene.write(7..9);
        assert_eq!(problem(&scene), Some(3));
        let line = &scene.loop_().lines().expect("readable").lines[2];
        let Event::LedgerRepaired { what } = &line.event else { panic!("{line:?}") };
        assert_eq!(what, "it ends at record 2, but record 5 was written");
    }

    #[test]
    fn one_line_can_be_read_by_offset() {
        let scene = Scene::new();
        let handle = scene.loop_();
        handle.append(&[event(1)]).expect("room");
        let offset = scene.path().metadata().expect("a file").len();
        let reset = Event::Reset { why: ResetCause::Command };
        handle.append(std::slice::from_ref(&reset)).expect("room");
        let line = handle.line_at(offset).expect("a line");
        assert_eq!(line.event, reset);
        assert!(handle.line_at(offset + 1).is_none());
    }
}
