//! Lines for a reader that may be slow or gone (a full or closed pipe). The loop queues them and continues; a
//! separate thread writes them.
//!
//! Agent lines may be dropped and counted if the reader is too slow. The loop's own lines are kept. A closed pipe is
//! not an error: the rest is discarded.

use std::io::Write;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Whether a line may be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageWeight {
    /// One of very many.
    Light,
    Heavy,
}

/// How many lines are queued before light ones are dropped, and before any is.
const MOST_LIGHT: usize = 2_000;
const MOST: usize = 50_000;
/// How long to wait at the end for a reader that reads nothing.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) struct Outbox {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Formats the number of dropped lines.
    left_out: fn(u64) -> String,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    lines: Vec<String>,
    left_out: u64,
    /// How many times the reader took something.
    taken: u64,
    /// No more lines will follow.
    closed: bool,
    /// Everything was written, or cannot be.
    done: bool,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outbox {
    pub(super) fn new(to: impl Write + Send + 'static, left_out: fn(u64) -> String) -> Self {
        let shared = Arc::<Shared>::default();
        let theirs = Arc::clone(&shared);
        // Without a thread nothing is shown; the loop continues, and its log is written.
        let thread = thread::Builder::new().spawn(move || deliver(&theirs, to)).ok();
        if thread.is_none() {
            shared.queue().done = true;
        }
        Self { shared, thread, left_out }
    }

    pub(super) fn put(&self, line: String, weight: MessageWeight) {
        let mut queue = self.shared.queue();
        if queue.done {
            return;
        }
        let most = if weight == MessageWeight::Light { MOST_LIGHT } else { MOST };
        if queue.lines.len() >= most {
            queue.left_out += 1;
            return;
        }
        let left_out = mem::take(&mut queue.left_out);
        if left_out > 0 {
            queue.lines.push((self.left_out)(left_out));
        }
        queue.lines.push(line);
        drop(queue);
        self.shared.changed.notify_all();
    }
}

fn deliver(shared: &Shared, mut to: impl Write) {
    loop {
        let mut queue = shared.queue();
        while queue.lines.is_empty() && !queue.closed {
            queue = shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        let lines = mem::take(&mut queue.lines);
        queue.taken += 1;
        let is_last = lines.is_empty();
        drop(queue);
        shared.changed.notify_all();
        let is_gone = is_last || write(&mut to, &lines, shared).is_err();
        if is_gone {
            let mut queue = shared.queue();
            queue.lines = Vec::new();
            queue.done = true;
            drop(queue);
            shared.changed.notify_all();
            return;
        }
    }
}

/// In small pieces, so that progress of the reader is visible.
fn write(to: &mut impl Write, lines: &[String], shared: &Shared) -> std::io::Result<()> {
    for piece in lines.chunks(64) {
        let mut text = piece.join("\n");
        text.push('\n');
        to.write_all(text.as_bytes())?;
        to.flush()?;
        shared.queue().taken += 1;
        shared.changed.notify_all();
    }
    Ok(())
}

impl Drop for Outbox {
    /// Waits until everything is written, as long as the reader makes progress.
    fn drop(&mut self) {
        let mut queue = self.shared.queue();
        queue.closed = true;
        self.shared.changed.notify_all();
        while !queue.done {
            let before = queue.taken;
            let waiting = self
                .shared
                .changed
                .wait_timeout_while(queue, PATIENCE, |queue| !queue.done && queue.taken == before);
            let (now, time) = waiting.unwrap_or_else(PoisonError::into_inner);
            queue = now;
            if time.timed_out() {
                return;
            }
        }
        drop(queue);
        let _it_only_writes = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::mpsc;
    use std::time::Instant;

    use super::*;

    fn left_out(count: u64) -> String {
        format!("{count} left out")
    }

    /// Passes written bytes to a test, as many as the test permits.
    struct Reader {
        gate: mpsc::Receiver<()>,
        seen: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Reader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.gate.recv().map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
            self.seen.lock().expect("the lock is not poisoned").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn reader() -> (mpsc::Sender<()>, Arc<Mutex<Vec<u8>>>, Reader) {
        let (open, gate) = mpsc::channel();
        let seen = Arc::<Mutex<Vec<u8>>>::default();
        (open, Arc::clone(&seen), Reader { gate, seen })
    }

    fn text(seen: &Mutex<Vec<u8>>) -> String {
        String::from_utf8(seen.lock().expect("the lock is not poisoned").clone()).expect("text")
    }

    #[test]
    fn everything_is_delivered_before_the_end() {
        let (open, seen, reader) = reader();
        let outbox = Outbox::new(reader, left_out);
        for number in 0..1_000 {
            outbox.put(number.to_string(), MessageWeight::Light);
            open.send(()).expect("it listens");
        }
        drop(outbox);
        let wanted: String = (0..1_000).map(|number| format!("{number}\n")).collect();
        assert_eq!(text(&seen), wanted);
    }

    #[test]
    fn a_slow_reader_does_not_delay_the_loop() {
        let (open, seen, reader) = reader();
        let outbox = Outbox::new(reader, left_out);
        let begun = Instant::now();
        for number in 0..100_000 {
            outbox.put(number.to_string(), MessageWeight::Light);
        }
        outbox.put("a verdict".into(), MessageWeight::Heavy);
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        assert!(outbox.shared.queue().lines.len() <= MOST_LIGHT + 2);
        for _ in 0..=MOST {
            let _until_it_has_all = open.send(());
        }
        drop(outbox);
        let text = text(&seen);
        assert!(text.starts_with("0\n1\n2\n"));
        assert!(text.ends_with(" left out\na verdict\n"), "{}", &text[text.len() - 60..]);
    }

    #[test]
    fn the_end_does_not_wait_for_a_stuck_reader() {
        let (_open, _seen, reader) = reader();
        let outbox = Outbox::new(reader, left_out);
        outbox.put("one".into(), MessageWeight::Heavy);
        let begun = Instant::now();
        drop(outbox);
        assert!(begun.elapsed() < PATIENCE * 3);
    }

    #[test]
    fn a_closed_pipe_is_not_an_error() {
        let (open, _seen, reader) = reader();
        drop(open);
        let outbox = Outbox::new(reader, left_out);
        outbox.put("one".into(), MessageWeight::Heavy);
        let begun = Instant::now();
        drop(outbox);
        assert!(begun.elapsed() < PATIENCE);
    }
}
