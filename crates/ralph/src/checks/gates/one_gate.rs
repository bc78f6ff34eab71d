//! One gate from its first run to its last retry, and how its exit is interpreted.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ralph_core::claims::results;
use ralph_core::model::foreign_text;
use ralph_core::model::gate::{CheckResult, Gate, GateOutcome, shell_found_no_program};
use ralph_core::model::id::Digest;
use ralph_core::model::results::Results;
use ralph_core::model::secrets::Secrets;
use ralph_core::say::excerpt::excerpt;

use super::environment::GateEnvironment;
use super::{GRACE, output_digest, report_files};
use crate::sys::proc::{self, Captured, FinishedJob, Job, Program, ShutdownRules, StopRequest, Termination};
use crate::sys::{clock, short_command};
use crate::work_tree::view::{TreeView, ViewEntrance};

/// Where and how a gate runs.
pub(super) struct GatePlace<'a> {
    pub(super) root: &'a Path,
    pub(super) environment: &'a GateEnvironment,
    /// The prefix of its processes' marks.
    pub(super) mark: &'a str,
    pub(super) logs: &'a Path,
    pub(super) excerpt: usize,
    pub(super) stop: &'a StopRequest,
    /// Runs in this view instead of the tree. All its tests are kept by name.
    pub(super) view: Option<&'a TreeView>,
}

/// A gate's result before the tree is read again.
pub(super) struct FinishedGate {
    pub(super) outcome: GateOutcome,
    pub(super) took: Duration,
    pub(super) runs: u32,
    /// `None` if it could not be written.
    pub(super) log: Option<PathBuf>,
    pub(super) output: Digest,
    pub(super) excerpt: String,
    pub(super) results: Option<Results>,
}

pub(super) fn run(gate: &Gate, run: &GatePlace<'_>) -> FinishedGate {
    let mut runs = 0;
    loop {
        runs += 1;
        let ran = run_once(gate, run, runs);
        let again =
            ran.outcome.answer() == CheckResult::Fail && runs <= gate.retries && !run.stop.is_requested();
        if !again {
            return ran;
        }
    }
}

fn run_once(gate: &Gate, run: &GatePlace<'_>, runs: u32) -> FinishedGate {
    let name = format!("{}-{}-{runs}", std::process::id(), slug(gate.name.as_str()));
    let log = run.logs.join(format!("{}-{name}.log", clock::now().strftime("%Y%m%dT%H%M%S%.3f")));
    let begun = SystemTime::from(clock::now());
    let entrance = run.view.and_then(|view| view.entrance(&gate.run));
    let command = match &entrance {
        Some(ViewEntrance { program, arguments, .. }) => Program::Program { program, arguments, stdin: None },
        None => Program::Shell(&gate.run),
    };
    let mut ended = proc::run(
        &Job {
            command,
            dir: run.root,
            env: &run.environment.variables,
            timeout: gate.timeout,
            manners: ShutdownRules::of_a_tool(GRACE),
            errors_apart: false,
            log: &log,
            marker: &proc::marker(run.mark),
        },
        run.stop,
    );
    let secrets = &run.environment.secrets;
    let text = foreign_text::clean(&joined_output(&ended.output), secrets);
    let passed = ended.how == Termination::Exited { code: 0 };
    if let Some(why) = entrance.filter(|_| !passed).and_then(|entrance| not_entered(&text, &entrance)) {
        ended.how = Termination::CouldNotStart { why };
    }
    let read =
        named_results(gate, run, &text, begun).or_else(|| read_results(&ended.output, &text, &log, secrets));
    let plain = foreign_text::defused(&text);
    let has_failing_tests = read.as_ref().is_some_and(|read| read.counts.failed > 0);
    let outcome = outcome(gate, run, &ended, &plain, has_failing_tests);
    let shown = if outcome == GateOutcome::Passed { String::new() } else { excerpt(&plain, run.excerpt) };
    let output = output_digest(&ended.output.head, &ended.output.tail, ended.output.total);
    let log = ended.log_error.is_none().then_some(log);
    let results = read.map(|mut read| {
        read.name_files_from(&run.root.to_string_lossy());
        let clean = |text: &str| foreign_text::clean_for_agent(text.as_bytes(), secrets);
        if run.view.is_some() {
            return read.all_tests(clean);
        }
        read.kept(outcome == GateOutcome::Passed, clean)
    });
    FinishedGate { outcome, took: ended.took, runs, log, output, excerpt: shown, results }
}

/// The results that the config specifies for the gate.
fn named_results(gate: &Gate, run: &GatePlace<'_>, text: &str, begun: SystemTime) -> Option<Results> {
    let source = gate.results.as_ref()?;
    match (&source.files, run.view) {
        (Some(files), None) => report_files::read(run.root, files, source.format, begun),
        (Some(files), Some(view)) => {
            let scratch = tempfile::tempdir_in(run.logs).ok()?;
            let root = view.files_below(&report_files::literal_part(files), scratch.path()).ok()?;
            report_files::read(&root, files, source.format, begun)
        }
        (None, _) => results::read_as(source.format, text),
    }
}

/// Why a command did not run in the view, if so: it could not be entered, or its memory was full.
fn not_entered(text: &str, entrance: &ViewEntrance) -> Option<String> {
    const FULL: [&str; 2] = ["No space left on device", "os error 28"];
    let message = text.lines().find_map(|line| line.split_once(entrance.token.as_str()));
    match message {
        Some((_, why)) => Some(format!("the view could not be entered: {}", why.trim())),
        None => FULL.iter().any(|full| text.contains(full)).then(|| "no space left in the view".to_owned()),
    }
}

/// Reads more from the log if the output was truncated in memory: most runners name failures at the end.
fn read_results(output: &Captured, text: &str, log: &Path, secrets: &Secrets) -> Option<Results> {
    if output.missing() == 0 {
        return results::read(text);
    }
    let mut bytes = output.head.clone();
    let from = append_end_of(log, &mut bytes).unwrap_or_else(|_| {
        bytes.extend_from_slice(&output.tail);
        output.total - output.tail.len() as u64
    });
    if from > output.head.len() as u64 {
        // Skip the partial first line.
        let is_end = |byte: &u8| *byte == b'\n';
        let head = bytes[..output.head.len()].iter().rposition(is_end).map_or(0, |at| at + 1);
        let tail = bytes[output.head.len()..].iter().position(is_end).unwrap_or(0) + output.head.len();
        bytes.drain(head..=tail);
    }
    let text = foreign_text::clean(&bytes, secrets);
    drop(bytes);
    let read = results::read(&text)?;
    Some(Results { partial: read.partial || from > output.head.len() as u64, ..read })
}

/// Appends the end of a log that `bytes` lacks, up to the size limit. Returns its offset in the log.
fn append_end_of(log: &Path, bytes: &mut Vec<u8>) -> io::Result<u64> {
    // Cleaning and reading take several times as much memory, and a verdict is to stay below 20 MB.
    const MOST: u64 = 1 << 20;
    let mut file = File::open(log)?;
    let from = file.metadata()?.len().saturating_sub(MOST).max(bytes.len() as u64);
    file.seek(SeekFrom::Start(from))?;
    file.take(MOST).read_to_end(bytes)?;
    Ok(from)
}

fn outcome(
    gate: &Gate,
    run: &GatePlace<'_>,
    ended: &FinishedJob,
    plain: &str,
    has_failing_tests: bool,
) -> GateOutcome {
    let last_line =
        || plain.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned();
    match &ended.how {
        Termination::Exited { code: 0 } => GateOutcome::Passed,
        // The shell's codes for "not executable" and "not found"; but some runners exit with the number of failures.
        Termination::Exited { code: code @ (126 | 127) } if has_failing_tests => {
            GateOutcome::Failed { code: *code }
        }
        Termination::Exited { code: code @ (126 | 127) } => match why_not_started(gate, run, *code, plain) {
            Some(why) => GateOutcome::CouldNotStart { why },
            None => GateOutcome::Failed { code: *code },
        },
        Termination::Exited { code: 2 } if !is_valid_shell(&gate.run, run.root) => {
            GateOutcome::CouldNotStart { why: format!("shell syntax error in the command: {}", last_line()) }
        }
        Termination::Exited { code } => GateOutcome::Failed { code: *code },
        Termination::Signalled { signal } => GateOutcome::Signalled { signal: *signal },
        Termination::TimedOut => GateOutcome::TimedOut { after: gate.timeout },
        Termination::Leaked { processes, .. } => GateOutcome::Leaked { processes: processes.clone() },
        Termination::CouldNotStart { why } => GateOutcome::CouldNotStart { why: why.clone() },
        Termination::Stopped => GateOutcome::DeadlineReached,
    }
}

/// Why a command with the shell's "not run" exit codes did not start: the shell reported it, the command exits so itself,
/// or its program does not exist.
fn why_not_started(gate: &Gate, run: &GatePlace<'_>, code: i32, plain: &str) -> Option<String> {
    if let Some(line) = shell_found_no_program(plain) {
        return Some(line.to_owned());
    }
    let last_line = || plain.lines().rev().map(str::trim).find(|line| !line.is_empty());
    if exits_by_itself_with(&gate.run, code) {
        return Some(last_line().map_or_else(|| format!("exit code {code}"), str::to_owned));
    }
    let program = gate.run.split_whitespace().next()?;
    (!shell_resolves(program, run)).then(|| format!("`{program}` is not installed or not in PATH"))
}

/// `tool || exit 127`: a command reports in the shell's way that its tool is missing.
fn exits_by_itself_with(command: &str, code: i32) -> bool {
    let ends = command.split("exit ").skip(1);
    let code = code.to_string();
    let numbers = |text: &str| text.split(|c: char| !c.is_ascii_digit()).any(|number| number == code);
    ends.into_iter().any(|end| numbers(end.split(['\n', ';', '}']).next().unwrap_or(end)))
}

/// Whether the shell resolves this word to a program, path or builtin. Words that need expansion are not checked.
fn shell_resolves(program: &str, run: &GatePlace<'_>) -> bool {
    const PATIENCE: Duration = Duration::from_secs(10);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._/+-".contains(c);
    if !program.chars().all(is_plain) {
        return true;
    }
    let mut shell = short_command::command("sh");
    shell.args(["-c", "command -v -- \"$1\" >/dev/null", "sh", program]).current_dir(run.root);
    shell.env_clear().envs(run.environment.variables.iter().map(|(name, value)| (name, value)));
    let answer = short_command::run(shell, None, &std::env::temp_dir(), PATIENCE);
    answer.ok().flatten().is_none_or(|answer| answer.status.success())
}

/// Exit code 2 is a shell syntax error or the tool's own code; `sh -n` tells which without running anything.
fn is_valid_shell(command: &str, root: &Path) -> bool {
    const PATIENCE: Duration = Duration::from_secs(10);
    let mut shell = short_command::command("sh");
    shell.args(["-n", "-c", command]).current_dir(root);
    let answer = short_command::run(shell, None, &std::env::temp_dir(), PATIENCE);
    answer.ok().flatten().is_none_or(|answer| answer.status.success())
}

fn joined_output(output: &Captured) -> Vec<u8> {
    let mut bytes = output.head.clone();
    if output.missing() > 0 {
        bytes.extend_from_slice(format!("\n[{} bytes omitted]\n", output.missing()).as_bytes());
    }
    bytes.extend_from_slice(&output.tail);
    bytes
}

fn slug(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    name.chars().map(safe).take(30).collect()
}
