//! Process functions for systems without `/proc`: only process groups are killed, and ancestors are read with `ps`.
//! The same functions as `linux.rs`.

use std::io::PipeReader;
use std::time::Duration;

use ralph_core::ledger::event::ProcessIdentity;
use rustix::process::{Pid, Signal};

use super::Ancestor;
use crate::sys::short_command;

#[derive(Debug, Clone)]
pub(super) struct Process {
    pub(super) pid: Pid,
    pub(super) parent: Option<Pid>,
    pub(super) group: Option<Pid>,
    pub(super) session: Option<Pid>,
    pub(super) start: u64,
    pub(super) dead: bool,
}

/// Makes this process the parent of every orphaned descendant. Linux only.
pub(crate) fn adopt_orphans() {}

/// The unique identity of a process: its PID and the second at which it started, which also distinguishes boots.
pub(crate) fn identity(pid: i32) -> Option<ProcessIdentity> {
    let row = ask_ps(pid)?;
    Some(ProcessIdentity { process: pid, started: row.started, boot: boot(), pid_namespace: pid_namespace() })
}

pub(super) fn boot() -> String {
    String::new()
}

/// Only Linux has namespaces.
pub(crate) fn pid_namespace() -> Option<u64> {
    None
}

pub(crate) fn is_first_pid_namespace() -> bool {
    true
}

/// The ancestors of this process, parent first.
pub(crate) fn ancestors() -> Vec<Ancestor> {
    let mut found = Vec::new();
    let mut next = rustix::process::getppid().map(|parent| parent.as_raw_nonzero().get());
    while let Some(pid) = next.filter(|pid| *pid > 0 && found.len() < super::MOST_ANCESTORS) {
        let Some(row) = ask_ps(pid) else { break };
        next = Some(row.parent);
        found.push(Ancestor {
            process: pid,
            started: row.started,
            name: row.name,
            leads_a_terminal: row.leads_a_terminal,
        });
    }
    found
}

/// The output of `ps` for one process.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    parent: i32,
    started: u64,
    leads_a_terminal: bool,
    name: String,
}

fn ask_ps(pid: i32) -> Option<Row> {
    const LIMIT: Duration = Duration::from_secs(2);
    // With its full path, and a fixed language and time zone, since times are compared.
    let mut command = short_command::command("/bin/ps");
    command.env_clear().env("LC_ALL", "C").env("TZ", "UTC");
    command.args(["-o", "ppid=", "-o", "stat=", "-o", "tty=", "-o", "lstart=", "-o", "comm="]);
    command.args(["-p", &pid.to_string()]);
    let answer = short_command::run(command, None, &std::env::temp_dir(), LIMIT).ok()??;
    row(str::from_utf8(&answer.stdout).ok()?)
}

/// `ppid stat tty Mon Nov 16 18:27:02 2026 name`, where the name may be a path and may contain spaces.
fn row(line: &str) -> Option<Row> {
    const TIME: std::ops::Range<usize> = 3..8;
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let started = words.get(TIME)?.join(" ");
    let started = jiff::civil::DateTime::strptime("%a %b %d %H:%M:%S %Y", started).ok()?;
    let started = started.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_second();
    let name = words.get(TIME.end..)?.join(" ");
    Some(Row {
        parent: words.first()?.parse().ok()?,
        started: u64::try_from(started).ok()?,
        leads_a_terminal: words.get(1)?.contains('s') && !words.get(2)?.starts_with(['?', '-']),
        name: name.rsplit('/').next().unwrap_or_default().to_owned(),
    })
}

/// Only Linux supports this.
pub(crate) fn forbid_debuggers() {}

pub(crate) fn permit_debuggers() {}

pub(super) fn adopts_orphans() -> bool {
    false
}

pub(super) fn widen(_pipe: &PipeReader) {}

pub(super) fn own_children() -> Option<Vec<Pid>> {
    None
}

pub(super) fn own_tree() -> Option<Vec<Process>> {
    None
}

pub(super) fn everyone() -> Vec<Process> {
    Vec::new()
}

pub(super) fn is_same_user(_pid: Pid) -> bool {
    false
}

pub(super) fn environment(_pid: Pid) -> Vec<u8> {
    Vec::new()
}

pub(super) fn pipes(_pid: Pid) -> Vec<u64> {
    Vec::new()
}

pub(super) fn describe(pid: Pid) -> String {
    pid.to_string()
}

pub(super) fn signal(_process: &Process, _signal: Signal) {}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::Command;

    use super::*;

    #[test]
    fn parses_ps_output_of_every_system() {
        let name = |line: &str| row(line).map(|row| (row.parent, row.leads_a_terminal, row.name));
        // macOS, FreeBSD and Linux.
        let mac = "  501 Ss   ttys001  Mon Nov 16 18:27:02 2026     -zsh\n";
        assert_eq!(name(mac), Some((501, true, "-zsh".into())));
        let app = "    1 S    ??       Mon Nov  2 08:07:02 2026     /Applications/Visual Studio Code.app/Contents/MacOS/Electron\n";
        assert_eq!(name(app), Some((1, false, "Electron".into())));
        assert_eq!(name("731 Is -  Mon Nov 16 18:27:02 2026 sshd\n"), Some((731, false, "sshd".into())));
        assert_eq!(name("1 Ss ? Mon Nov 16 18:27:02 2026 claude\n"), Some((1, false, "claude".into())));
        let seconds = |line: &str| row(line).map(|row| row.started);
        assert_eq!(seconds("1 S ?? Thu Jan  1 00:01:40 1970 x\n"), Some(100));
        for broken in ["", "\n", "1 S ??", "x S ?? Mon Nov 16 18:27:02 2026 y"] {
            assert_eq!(row(broken), None, "{broken:?}");
        }
    }

    /// Uses the real `ps` if there is one: our parent is an ancestor, a child and an unrelated process are not.
    #[test]
    fn only_real_ancestors_are_listed() {
        let parent = rustix::process::getppid().expect("a parent").as_raw_nonzero().get();
        let Some(asked) = identity(parent) else {
            // Not `eprintln!`: the test harness keeps what a passing test prints with it to itself.
            writeln!(std::io::stderr(), "no `ps` here to ask: only its recorded rows were read")
                .expect("stderr");
            return;
        };
        let above = ancestors();
        assert!(above.len() < super::super::MOST_ANCESTORS);
        let first = above.first().expect("our parent");
        assert_eq!(first.process, parent);
        // Linux's `ps` computes the second each time, with rounding.
        assert!(first.started.abs_diff(asked.started) <= 1, "{first:?} {asked:?}");
        let mut child = Command::new("sleep").arg("60").spawn().expect("a process");
        let number = i32::try_from(child.id()).expect("a number");
        assert!(identity(number).is_some(), "it is alive");
        assert!(!above.iter().chain(&ancestors()).any(|it| it.process == number), "and no ancestor");
        child.kill().expect("its end");
        child.wait().expect("its end");
        assert_eq!(identity(number), None);
    }
}
