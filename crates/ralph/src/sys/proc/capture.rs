//! The output of a command: its head and tail in memory, the rest in a capped log.
//!
//! Memory stays bounded and the command is never blocked, however much it prints: a reader drains the pipe and keeps
//! only head and tail. A log that cannot be written is a remark, not a failure of the command.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, PipeReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ralph_core::clients::stream::Channel;

use super::OutputTap;

pub(super) const HEAD: usize = 64 * 1024;
pub(super) const TAIL: usize = 256 * 1024;
pub(super) const LOG_CAP: u64 = 16 * 1024 * 1024;

/// Fits the L2 cache together with the tail, so that copying costs little more than reading.
const BUFFER: usize = 128 * 1024;

/// The raw output. `head` and `tail` never overlap.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Captured {
    /// The first 64 KiB.
    pub(crate) head: Vec<u8>,
    /// The last 256 KiB of what came after the head.
    pub(crate) tail: Vec<u8>,
    /// Total bytes printed.
    pub(crate) total: u64,
}

impl Captured {
    /// Bytes between head and tail, which may be in the log.
    pub(crate) fn missing(&self) -> u64 {
        self.total - (self.head.len() + self.tail.len()) as u64
    }
}

/// Records output as it arrives and returns it, bounded, at the end.
pub(super) struct Recorder {
    tap: Option<OutputTap>,
    head: Vec<u8>,
    tail: Tail,
    total: u64,
    log: Log,
}

impl Recorder {
    pub(super) fn new(log: &Path, tap: Option<OutputTap>) -> Self {
        Self { tap, head: Vec::new(), tail: Tail::default(), total: 0, log: Log::create(log) }
    }

    pub(super) fn add(&mut self, channel: Channel, bytes: &[u8]) {
        if let Some(tap) = &mut self.tap {
            tap(channel, bytes);
        }
        self.total += bytes.len() as u64;
        self.log.append_until_cap(bytes);
        let room = HEAD - self.head.len();
        let (first, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(first);
        self.tail.push(rest);
    }

    /// The output and any problem with the log.
    pub(super) fn finish(self) -> (Captured, Option<String>) {
        let tail = self.tail.into_bytes();
        let log_error = self.log.close(&tail, self.total);
        (Captured { head: self.head, tail, total: self.total }, log_error)
    }

    pub(super) fn shared(self) -> Recording {
        Recording(Arc::new(Mutex::new(Some(self))))
    }
}

/// A recorder shared by the reader, which fills it, and the supervisor, which takes it when the job has ended. If an
/// unreachable process still holds the pipe, the reader finds the recorder taken and ends.
#[derive(Clone)]
pub(super) struct Recording(Arc<Mutex<Option<Recorder>>>);

impl Recording {
    /// Reads until the last holder of the pipe has closed it.
    pub(super) fn drain(&self, channel: Channel, mut pipe: PipeReader) {
        let mut buffer = vec![0; BUFFER];
        loop {
            match pipe.read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => match self.lock().as_mut() {
                    Some(recorder) => recorder.add(channel, &buffer[..count]),
                    None => return,
                },
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    pub(super) fn take(&self) -> Recorder {
        self.lock().take().expect("a recording is taken once, at the end of its job")
    }

    fn lock(&self) -> MutexGuard<'_, Option<Recorder>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last [`TAIL`] bytes, as a ring buffer that grows on demand.
#[derive(Debug, Default)]
struct Tail {
    ring: Vec<u8>,
    /// Position of the oldest byte once the ring is full, where the next byte is written.
    oldest: usize,
}

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(TAIL)..];
        let room = TAIL - self.ring.len();
        let (new, over) = bytes.split_at(room.min(bytes.len()));
        self.ring.extend_from_slice(new);
        self.replace_oldest(over);
    }

    fn replace_oldest(&mut self, bytes: &[u8]) {
        let (first, second) = bytes.split_at(bytes.len().min(TAIL - self.oldest));
        self.ring[self.oldest..][..first.len()].copy_from_slice(first);
        self.ring[..second.len()].copy_from_slice(second);
        self.oldest = (self.oldest + bytes.len()) % TAIL;
    }

    fn into_bytes(mut self) -> Vec<u8> {
        self.ring.rotate_left(self.oldest);
        self.ring
    }
}

#[derive(Debug)]
enum Log {
    Open { file: File, written: u64 },
    Failed { why: String },
}

impl Log {
    fn create(path: &Path) -> Self {
        let mut options = OpenOptions::new();
        match options.write(true).create(true).truncate(true).mode(0o600).open(path) {
            Ok(file) => Self::Open { file, written: 0 },
            Err(error) => Self::Failed { why: error.to_string() },
        }
    }

    fn append_until_cap(&mut self, bytes: &[u8]) {
        let Self::Open { file, written } = self else { return };
        let room = usize::try_from(LOG_CAP - *written).unwrap_or(usize::MAX);
        let kept = &bytes[..room.min(bytes.len())];
        match file.write_all(kept) {
            Ok(()) => *written += kept.len() as u64,
            Err(error) => *self = Self::Failed { why: error.to_string() },
        }
    }

    fn close(self, tail: &[u8], total: u64) -> Option<String> {
        match self {
            Self::Open { file, written } => {
                append_end(file, tail, total - written).err().map(|error| error.to_string())
            }
            Self::Failed { why } => Some(why),
        }
    }
}

/// Appends the tail of an output that went `beyond` the cap, and notes how many bytes in between are missing.
fn append_end(mut file: File, tail: &[u8], beyond: u64) -> io::Result<()> {
    match beyond.checked_sub(tail.len() as u64) {
        Some(lost) if lost > 0 => {
            write!(file, "\n[{lost} bytes omitted]\n")?;
            file.write_all(tail)
        }
        _ => {
            let fresh = usize::try_from(beyond).unwrap_or(tail.len()).min(tail.len());
            file.write_all(&tail[tail.len() - fresh..])
        }
    }
}
