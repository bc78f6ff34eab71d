//! `RALPH_TRACE=FILE`, and `-v` on commands: one line for each step with the time it took, so that a slow or surprising
//! answer can be explained. Off, a step costs one load of a flag.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ralph_core::model::foreign_text;

use crate::sys::env;

const VARIABLE: &str = "RALPH_TRACE";

static ON: AtomicBool = AtomicBool::new(false);
static TRACE: Mutex<Option<Trace>> = Mutex::new(None);

struct Trace {
    out: Output,
    started: Instant,
    /// When the step before ended: steps follow each other without a gap, so their times add up to the whole.
    last: Instant,
}

enum Output {
    File(File),
    Stderr,
}

/// Starts the clock, and the trace where the environment asks for one.
pub(crate) fn start() {
    let Some(path) = env::path_in(VARIABLE) else { return };
    match open(&path) {
        Ok(file) => begin(Output::File(file)),
        Err(error) => {
            let path = foreign_text::for_terminal(&path.to_string_lossy(), &[]);
            let _stderr_closed =
                writeln!(io::stderr(), "ralph: {VARIABLE}: cannot write {path}: {error}; nothing is traced");
        }
    }
}

/// Traces to stderr, as `-v` asks; a file that `RALPH_TRACE` names wins.
pub(crate) fn to_stderr() {
    if !ON.load(Ordering::Relaxed) {
        begin(Output::Stderr);
    }
}

fn begin(out: Output) {
    let now = Instant::now();
    *TRACE.lock().unwrap_or_else(PoisonError::into_inner) = Some(Trace { out, started: now, last: now });
    ON.store(true, Ordering::Relaxed);
}

/// Several processes may append to one file; a pipe or a device is refused, as opening one could wait for ever.
fn open(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a file")) }
}

/// A step has ended: what was done since the one before.
pub(crate) fn step(what: impl FnOnce() -> String) {
    if ON.load(Ordering::Relaxed) {
        write(&what());
    }
}

fn write(what: &str) {
    let mut trace = TRACE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(Trace { out, started, last }) = trace.as_mut() else { return };
    let now = Instant::now();
    let (whole, step) = (milliseconds(now - *started), milliseconds(now - std::mem::replace(last, now)));
    let what = foreign_text::for_terminal(what, &[]);
    let line = format!("{} {whole:>10.3} ms {step:>+10.3} ms  {what}\n", std::process::id());
    let _a_trace_stops_nothing = match out {
        Output::File(file) => file.write_all(line.as_bytes()),
        Output::Stderr => io::stderr().write_all(line.as_bytes()),
    };
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
