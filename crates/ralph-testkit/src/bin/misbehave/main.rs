//! Programs that misbehave on purpose, one subcommand each, to be used as gate commands in tests.
//!
//! Every fault is real: a process that hangs, a grandchild in a session of its own,
//! bytes that are not text. A mock would only show that we handle the faults we imagined.
//!
//! Guarantees: exit code 2 always means that `misbehave` itself could not do what was asked, so no fault below
//! uses it except `exit 2`. No process outlives its test for long: `hang` ends after 1000 seconds, and
//! a process left behind by a daemon ends after 60 and is named on stdout (`left behind: process PID`).

#![expect(clippy::print_stderr, reason = "the usage error is this program's own message to the user")]

mod run_program;

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{env, fmt, fs, thread};

use rustix::io::Errno;
use rustix::process::{Pid, Signal};

const USAGE: &str = "\
usage: misbehave SUBCOMMAND

never ends in time:
  hang                  sleeps for 1000 seconds
  ignore-term           says so, ignores SIGTERM, hangs
  sleep SECONDS         sleeps, then exits 0

leaves a process behind for 60 seconds, names it on stdout, exits 0:
  daemon                in its own session, keeps stdout and stderr open
  quiet-daemon          in its own session, on /dev/null
  double-daemon         in a session made from within another session, on /dev/null

bad output:
  flood BYTES           that many bytes to stdout in writes of 64 KiB
  bytes                 invalid UTF-8, NUL, escape sequences, bidi overrides, a line of 1 MB

signals:
  kill-self SIGNAL      dies by SIGNAL, a name or a number
  kill-parent           SIGKILL to its parent, as `kill -9 $PPID` (`exec misbehave kill-parent` in a shell
                        command puts it in the shell's place, so that the parent of the shell dies)

looks at what it was given:
  tty                   exit 3 if /dev/tty can be opened, else 0
  stdin                 exit 3 if stdin gives a byte or blocks, 0 if it is at its end
  env                   prints its environment, sorted

remembers and changes:
  flaky FILE N          fails (exit 1) until it is called for the Nth time; one byte of FILE is one call
  touch-tree FILE       appends a line to FILE each time: never settles
  format-once FILE      turns FILE to upper case, leaves it alone if it is: settles on the second call

says and exits:
  exit CODE             exits with CODE
  print-out TEXT [SUBCOMMAND]   a line to stdout, then SUBCOMMAND (exit 0 if none)
  print-err TEXT [SUBCOMMAND]   a line to stderr, then SUBCOMMAND (exit 0 if none)
  detached SUBCOMMAND   SUBCOMMAND in a session of its own

runs another program:
  in-session PROGRAM…   in a session of its own
  on-terminal PROGRAM…  on a terminal of its own: stdin is typed, the screen goes to stdout
  take-terminal PROGRAM…  in a session of its own whose terminal is the one on stdin
  with-limit LIMIT PROGRAM…  under files=N, processes=N or file-size=N
  hold-lock FILE        none: takes the lock of FILE, hangs";

const HANG: Duration = Duration::from_secs(1000);
const LEFTOVER_LIFE: &str = "60";
const STDIN_PATIENCE: Duration = Duration::from_millis(500);
const FLOOD_WRITE: u64 = 64 * 1024;
const LONG_LINE: usize = 1_000_000;

const FAILED: u8 = 1;
const NOT_DONE: u8 = 2;
const FOUND_WHAT_IT_SHOULD_NOT: u8 = 3;

fn main() -> ExitCode {
    match arguments().and_then(|words| obey(&words.iter().map(String::as_str).collect::<Vec<_>>())) {
        Ok(code) => code,
        Err(trouble) => {
            eprintln!("misbehave: {trouble}");
            ExitCode::from(NOT_DONE)
        }
    }
}

fn arguments() -> Result<Vec<String>, Trouble> {
    env::args_os()
        .skip(1)
        .map(|word| word.into_string().map_err(|word| Trouble::usage(format!("{word:?} is not UTF-8"))))
        .collect()
}

fn obey(words: &[&str]) -> Outcome {
    match words {
        ["hang"] => sleep(HANG),
        ["ignore-term"] => ignore_term(),
        ["sleep", seconds] => sleep(parse_seconds(seconds)?),

        ["daemon"] => leave_behind(Voice::Loud),
        ["quiet-daemon"] => leave_behind(Voice::Quiet),
        ["double-daemon"] => leave_behind_double_forked(),
        ["detached", rest @ ..] => in_own_session(rest),

        ["in-session", program @ ..] => run_program::in_session(program),
        ["on-terminal", program @ ..] => run_program::on_terminal(program),
        ["take-terminal", program @ ..] => run_program::take_terminal(program),
        ["with-limit", limit, program @ ..] => run_program::with_limit(limit, program),
        ["hold-lock", file] => run_program::hold_lock(file),

        ["flood", bytes] => flood(parse(bytes, "a number of bytes")?),
        ["bytes"] => print_hostile_bytes(),

        ["kill-self", signal] => kill_self(parse_signal(signal)?),
        ["kill-parent"] => kill_parent(),

        ["tty"] => has_terminal(),
        ["stdin"] => has_stdin(),
        ["env"] => print_environment(),

        ["flaky", file, calls] => flaky(file, parse(calls, "a number of calls")?),
        ["touch-tree", file] => touch_tree(file),
        ["format-once", file] => format_once(file),

        ["exit", code] => Ok(ExitCode::from(parse::<u8>(code, "an exit code from 0 to 255")?)),
        ["print-out", text, rest @ ..] => {
            writeln!(io::stdout(), "{text}")?;
            obey_rest(rest)
        }
        ["print-err", text, rest @ ..] => {
            writeln!(io::stderr(), "{text}")?;
            obey_rest(rest)
        }

        [] => Err(Trouble::usage("no subcommand given")),
        _ => Err(Trouble::usage(format!("`{}` is not a subcommand with its arguments", words.join(" ")))),
    }
}

fn obey_rest(words: &[&str]) -> Outcome {
    if words.is_empty() { Ok(ExitCode::SUCCESS) } else { obey(words) }
}

fn sleep(time: Duration) -> Outcome {
    thread::sleep(time);
    Ok(ExitCode::SUCCESS)
}

/// Safe Rust cannot set a signal's disposition, a shell can, and an ignored signal stays ignored across exec.
/// So the process that hangs is this program again, alone: no shell and no `sleep` beside it.
fn ignore_term() -> Outcome {
    const SCRIPT: &str = r#"trap '' TERM; echo 'SIGTERM is ignored'; exec "$0" hang"#;
    let failed = Command::new("sh").args(["-c", SCRIPT]).arg(env::current_exe()?).exec();
    Err(failed.into())
}

/// How the process left behind uses the streams it inherited.
#[derive(PartialEq)]
enum Voice {
    Loud,
    Quiet,
}

fn leave_behind(voice: Voice) -> Outcome {
    let mut command = Command::new(env::current_exe()?);
    command.args(["detached", "sleep", LEFTOVER_LIFE]).stdin(Stdio::null());
    if voice == Voice::Quiet {
        command.stdout(Stdio::null()).stderr(Stdio::null());
    }
    let child = command.spawn()?;
    wait_for_own_session(&child)?;
    writeln!(io::stdout(), "left behind: process {}", child.id())?;
    Ok(ExitCode::SUCCESS)
}

/// If we exited before the child has left our group, the fault would depend on timing: a kill of the group could
/// still reach the child.
fn wait_for_own_session(child: &Child) -> Result<(), Trouble> {
    let deadline = Instant::now() + Duration::from_secs(10);
    while session_of(child.id())? != i64::from(child.id()) {
        if Instant::now() > deadline {
            return Err(Trouble::Failed("the child did not make its own session in 10 seconds".into()));
        }
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Read from `/proc` instead of `getsid`: in a container the leader of the session a child starts in may be
/// outside; its number is then 0, which is not a valid `Pid`.
fn session_of(pid: u32) -> Result<i64, Trouble> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    let session = after_name.split(' ').nth(3).and_then(|number| number.parse().ok());
    session.ok_or_else(|| Trouble::Failed(format!("/proc/{pid}/stat names no session: {stat}")))
}

fn leave_behind_double_forked() -> Outcome {
    let middle =
        Command::new(env::current_exe()?).args(["detached", "quiet-daemon"]).stdin(Stdio::null()).status()?;
    if middle.success() {
        Ok(ExitCode::SUCCESS)
    } else {
        Err(Trouble::Failed(format!("the process between failed: {middle}")))
    }
}

fn in_own_session(words: &[&str]) -> Outcome {
    match rustix::process::setsid() {
        Ok(_) => return obey(words),
        // The leader of a process group cannot create a session; its child can.
        Err(Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    let status = Command::new(env::current_exe()?).arg("detached").args(words).status()?;
    match status.code().and_then(|code| u8::try_from(code).ok()) {
        Some(code) => Ok(ExitCode::from(code)),
        None => Err(Trouble::Failed(format!("`{}` ended by {status}", words.join(" ")))),
    }
}

fn flood(bytes: u64) -> Outcome {
    let line = [b"x".repeat(63), b"\n".to_vec()].concat();
    let block = line.repeat(FLOOD_WRITE as usize / line.len());
    let mut out = io::stdout().lock();
    let mut left = bytes;
    while left > 0 {
        let size = left.min(FLOOD_WRITE);
        out.write_all(&block[..size as usize])?;
        left -= size;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn print_hostile_bytes() -> Outcome {
    let mut out = io::stdout().lock();
    for line in [
        b"invalid utf-8: \xff\xfe \xc3\x28 \xe2\x82 \xf0\x9f\n".as_slice(),
        b"nul: a\0b\n",
        b"colour: \x1b[31mred\x1b[0m, clear: \x1b[2J\x1b[H\n",
        b"osc title: \x1b]0;owned\x07, osc link: \x1b]8;;file:///\x1b\\here\x1b]8;;\x1b\\\n",
        b"unfinished osc: \x1b]52;c;\n",
        b"c1, raw and as utf-8: \x9b31m \xc2\x9b31m\n",
        "bidi: \u{202e}txt.exe\u{202c} \u{2066}isolated\u{2069}\n".as_bytes(),
        b"carriage return: bad\rgood\n",
    ] {
        out.write_all(line)?;
    }
    out.write_all(&b"x".repeat(LONG_LINE))?;
    out.write_all(b"\nend without a newline")?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Sent more than once, because Rust's own handler for SIGSEGV and SIGBUS receives the first one: it restores the
/// default action and returns, and there is no faulting instruction to raise the signal again.
fn kill_self(signal: Signal) -> Outcome {
    for _ in 0..10 {
        rustix::process::kill_process(rustix::process::getpid(), signal)?;
        thread::sleep(Duration::from_millis(50));
    }
    Err(Trouble::Failed(format!("still alive after {signal:?}")))
}

fn kill_parent() -> Outcome {
    match rustix::process::getppid() {
        Some(parent) if parent != Pid::INIT => {
            rustix::process::kill_process(parent, Signal::KILL)?;
            Ok(ExitCode::SUCCESS)
        }
        _ => Err(Trouble::Failed("the parent is gone or is the init process".into())),
    }
}

fn has_terminal() -> Outcome {
    let terminal = fs::OpenOptions::new().read(true).write(true).open("/dev/tty");
    Ok(ExitCode::from(if terminal.is_ok() { FOUND_WHAT_IT_SHOULD_NOT } else { 0 }))
}

fn has_stdin() -> Outcome {
    let (sender, receiver) = mpsc::channel();
    // Never joined: a blocking read is one of the two answers, and ends with the process.
    thread::spawn(move || sender.send(io::stdin().read(&mut [0])));
    match receiver.recv_timeout(STDIN_PATIENCE) {
        Ok(Ok(0)) => Ok(ExitCode::SUCCESS),
        Ok(Err(error)) => Err(error.into()),
        Ok(Ok(_)) | Err(_) => Ok(ExitCode::from(FOUND_WHAT_IT_SHOULD_NOT)),
    }
}

fn print_environment() -> Outcome {
    let mut out = io::stdout().lock();
    for (name, value) in env::vars_os().collect::<BTreeMap<_, _>>() {
        out.write_all(&[name.as_bytes(), b"=", value.as_bytes(), b"\n"].concat())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A call is one appended byte, so two calls at once are counted as two.
fn flaky(file: &str, passes_at: u64) -> Outcome {
    append(file, b".")?;
    let call = fs::metadata(file)?.len();
    writeln!(io::stdout(), "call {call}, passes from call {passes_at} on")?;
    Ok(ExitCode::from(if call >= passes_at { 0 } else { FAILED }))
}

fn touch_tree(file: &str) -> Outcome {
    append(file, b"touched\n")?;
    Ok(ExitCode::SUCCESS)
}

fn format_once(file: &str) -> Outcome {
    let found = fs::read(file)?;
    let formatted = found.to_ascii_uppercase();
    if formatted != found {
        fs::write(file, formatted)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn append(file: &str, bytes: &[u8]) -> io::Result<()> {
    fs::OpenOptions::new().append(true).create(true).open(file)?.write_all(bytes)
}

fn parse<T: std::str::FromStr>(word: &str, what: &str) -> Result<T, Trouble> {
    word.parse().map_err(|_| Trouble::usage(format!("`{word}` is not {what}")))
}

fn parse_seconds(word: &str) -> Result<Duration, Trouble> {
    let seconds = parse(word, "a number of seconds")?;
    Duration::try_from_secs_f64(seconds).map_err(|error| Trouble::usage(format!("`{word}`: {error}")))
}

fn parse_signal(word: &str) -> Result<Signal, Trouble> {
    let by_name = match word.strip_prefix("SIG").unwrap_or(word) {
        "HUP" => Some(Signal::HUP),
        "INT" => Some(Signal::INT),
        "QUIT" => Some(Signal::QUIT),
        "ABRT" => Some(Signal::ABORT),
        "BUS" => Some(Signal::BUS),
        "SEGV" => Some(Signal::SEGV),
        "KILL" => Some(Signal::KILL),
        "TERM" => Some(Signal::TERM),
        "USR1" => Some(Signal::USR1),
        number => number.parse().ok().and_then(Signal::from_named_raw),
    };
    by_name.ok_or_else(|| Trouble::usage(format!("`{word}` is not a signal this program knows")))
}

type Outcome = Result<ExitCode, Trouble>;

/// Why `misbehave` could not misbehave as asked.
enum Trouble {
    Usage(String),
    Failed(String),
}

impl Trouble {
    fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) => write!(f, "{message}\n\n{USAGE}"),
            Self::Failed(message) => f.write_str(message),
        }
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<rustix::io::Errno> for Trouble {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Failed(error.to_string())
    }
}
