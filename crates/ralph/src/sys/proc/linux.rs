//! The processes of this machine, as `/proc` tells of them.
//!
//! Every answer is of a moment: a process may end, or change its program, between two readings. What can be
//! wrong for that reason is said at each function; `family` builds the certainty on top.

use std::collections::HashSet;
use std::io::PipeReader;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;
use std::{fs, thread};

use ralph_core::ledger::event::ProcessIdentity;
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Pid, PidfdFlags, Signal};

use super::Ancestor;

/// As much as a pipe may be without privileges: fewer waits between a command that floods and its reader.
const PIPE: usize = 1024 * 1024;

/// Longest command line shown, in characters.
const SHOWN: usize = 80;

#[derive(Debug, Clone)]
pub(super) struct Process {
    pub(super) pid: Pid,
    pub(super) parent: Option<Pid>,
    pub(super) group: Option<Pid>,
    pub(super) session: Option<Pid>,
    /// Clock ticks after boot: with the pid it names a process for good, since pids are used again.
    pub(super) start: u64,
    pub(super) dead: bool,
}

/// Makes this process the parent of every descendant that loses its own, so that none gets away by detaching.
/// Call it once at the start. Only Linux can; elsewhere it does nothing.
pub(crate) fn adopt_orphans() {
    // Kernels before 3.4 cannot; the marker is then what finds orphans.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).ok();
}

/// What names a process for good: when it started, since which boot and in which namespace.
pub(crate) fn identity(pid: i32) -> Option<ProcessIdentity> {
    let process = look_at(Pid::from_raw(pid).filter(|_| pid > 0)?).filter(|process| !process.dead)?;
    let namespace = fs::metadata(of(process.pid, "ns/pid")).ok().map(|found| found.ino());
    Some(ProcessIdentity {
        process: pid,
        started: process.start,
        boot: boot(),
        // Another user's is not shown; but we see its number, so it is ours.
        pid_namespace: namespace.or_else(pid_namespace),
    })
}

pub(super) fn boot() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    boot.trim().to_owned()
}

/// The namespace that our own process number is from.
pub(crate) fn pid_namespace() -> Option<u64> {
    fs::metadata("/proc/self/ns/pid").ok().map(|found| found.ino())
}

/// Whether no other namespace is above ours; the kernel gives the first one this number.
pub(crate) fn is_first_pid_namespace() -> bool {
    const FIRST: u64 = 0xEFFF_FFFC;
    pid_namespace() == Some(FIRST)
}

/// The processes that we came out of, our parent first.
///
/// Begins at `/proc/self` and not at our number: in a namespace of its own a process may still see the `/proc` of another.
pub(crate) fn ancestors() -> Vec<Ancestor> {
    let own = fs::read("/proc/self/stat").unwrap_or_default();
    let mut found = Vec::new();
    let mut next = parent_in(&own);
    while let Some(pid) = next.filter(|_| found.len() < super::MOST_ANCESTORS) {
        let Ok(stat) = fs::read(of(pid, "stat")) else { break };
        found.extend(ancestor(pid, &stat));
        next = parent_in(&stat);
    }
    found
}

fn parent_in(stat: &[u8]) -> Option<Pid> {
    // Whose stat it is makes no difference to whom it names.
    parse_stat(Pid::INIT, stat)?.parent
}

fn ancestor(pid: Pid, stat: &[u8]) -> Option<Ancestor> {
    let process = parse_stat(pid, stat)?;
    let (name_begin, name_end) =
        (stat.iter().position(|byte| *byte == b'(')?, stat.iter().rposition(|byte| *byte == b')')?);
    let rest = str::from_utf8(&stat[name_end + 1..]).ok()?;
    let terminal: i64 = rest.split_ascii_whitespace().nth(4)?.parse().ok()?;
    Some(Ancestor {
        process: pid.as_raw_nonzero().get(),
        started: process.start,
        name: String::from_utf8_lossy(stat.get(name_begin + 1..name_end)?).into_owned(),
        leads_a_terminal: process.session == Some(pid) && terminal != 0,
    })
}

/// Keeps other processes of the same user from reading and changing this one: no debugger attaches, its memory cannot be
/// opened. What we start can be looked at again, once it is another program. Root is not kept out.
pub(crate) fn forbid_debuggers() {
    // A kernel that refuses this leaves us as every other program is.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
}

/// Undoes [`forbid_debuggers`]: with it goes that others can read our environment, and find us by the mark in it.
pub(crate) fn permit_debuggers() {
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable).ok();
}

pub(super) fn adopts_orphans() -> bool {
    matches!(rustix::process::child_subreaper(), Ok(Some(_)))
}

pub(super) fn widen(pipe: &PipeReader) {
    rustix::pipe::fcntl_setpipe_size(pipe, PIPE).ok();
}

/// Our own children, sorted, or `None` where the kernel does not list them.
///
/// The lists are kept by thread, move when a thread ends, and may skip a child while a sibling is reaped. None of
/// that lasts, so the answer is what two readings agree on.
pub(super) fn own_children() -> Option<Vec<Pid>> {
    const READINGS: usize = 8;
    let mut before = read_own_children()?;
    for _ in 0..READINGS {
        let after = read_own_children()?;
        if after == before {
            break;
        }
        before = after;
    }
    Some(before)
}

fn read_own_children() -> Option<Vec<Pid>> {
    let mut children = children_of(rustix::process::getpid())?;
    children.sort_unstable_by_key(|pid| pid.as_raw_nonzero());
    Some(children)
}

fn children_of(parent: Pid) -> Option<Vec<Pid>> {
    let mut children = Vec::new();
    for thread in fs::read_dir(of(parent, "task")).ok()?.flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(list) => children.extend(list.split_ascii_whitespace().filter_map(parse_pid)),
            // The thread has ended, and another has its children now.
            Err(_) if !thread.path().exists() => {}
            Err(_) => return None,
        }
    }
    Some(children)
}

/// This process and all below it, or `None` where the kernel does not list children. Not of one moment: whoever
/// loses a parent while we walk may be missing, and is found as a child of ours the next time.
pub(super) fn own_tree() -> Option<Vec<Process>> {
    let mut tree = vec![look_at(rustix::process::getpid())?];
    let mut met = HashSet::new();
    let mut waiting = own_children()?;
    while let Some(pid) = waiting.pop() {
        let Some(process) = look_at(pid) else { continue };
        if met.insert(pid) {
            tree.push(process);
            waiting.extend(children_of(pid).unwrap_or_default());
        }
    }
    Some(tree)
}

/// All processes there are. Not of one moment: a parent may be gone that a child still names.
pub(super) fn everyone() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| look_at(parse_pid(entry.file_name().to_str()?)?)).collect()
}

fn look_at(pid: Pid) -> Option<Process> {
    parse_stat(pid, &fs::read(of(pid, "stat")).ok()?)
}

/// `pid (name) state parent group session …`, where the name may hold anything, also `) `.
fn parse_stat(pid: Pid, stat: &[u8]) -> Option<Process> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let fields: Vec<&str> = str::from_utf8(&stat[name_end + 1..]).ok()?.split_ascii_whitespace().collect();
    let threads: u32 = fields.get(17)?.parse().ok()?;
    Some(Process {
        pid,
        parent: parse_pid(fields.get(1)?),
        group: parse_pid(fields.get(2)?),
        session: parse_pid(fields.get(3)?),
        start: fields.get(19)?.parse().ok()?,
        // A first thread that has ended looks like a zombie while the others go on.
        dead: matches!(*fields.first()?, "Z" | "X") && threads <= 1,
    })
}

pub(super) fn is_same_user(pid: Pid) -> bool {
    let uid = rustix::process::geteuid().as_raw();
    fs::metadata(of(pid, "")).is_ok_and(|found| found.uid() == uid)
}

/// The environment `pid` was started with, as `NAME=value` and a zero byte for each variable.
pub(super) fn environment(pid: Pid) -> Vec<u8> {
    await_program(pid);
    fs::read(of(pid, "environ")).unwrap_or_default()
}

/// In the middle of an exec a process has neither arguments nor environment to show. That takes well under a
/// millisecond, but it is just what a process does that was started to be left behind.
fn await_program(pid: Pid) {
    const TRIES: usize = 10;
    for _ in 0..TRIES {
        match fs::read(of(pid, "cmdline")) {
            Ok(line) if line.is_empty() => thread::sleep(Duration::from_millis(1)),
            _ => return,
        }
    }
}

/// The pipes `pid` holds, by inode.
pub(super) fn pipes(pid: Pid) -> Vec<u64> {
    let Ok(files) = fs::read_dir(of(pid, "fd")) else { return Vec::new() };
    let targets = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
    targets
        .filter_map(|target| target.to_str()?.strip_prefix("pipe:[")?.strip_suffix(']')?.parse().ok())
        .collect()
}

/// "pid command line", for people.
pub(super) fn describe(pid: Pid) -> String {
    let line = fs::read(of(pid, "cmdline")).unwrap_or_default();
    let line = if line.is_empty() { fs::read(of(pid, "comm")).unwrap_or_default() } else { line };
    let words = String::from_utf8_lossy(&line).replace(char::is_control, " ");
    let words = words.trim_end();
    match words.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{pid} {}…", &words[..end]),
        None => format!("{pid} {words}"),
    }
}

/// Signals this very process, never one that has got its number since.
pub(super) fn signal(process: &Process, signal: Signal) {
    match rustix::process::pidfd_open(process.pid, PidfdFlags::empty()) {
        Ok(handle) if is_still(process) => {
            rustix::process::pidfd_send_signal(handle, signal).ok();
        }
        Err(Errno::NOSYS | Errno::PERM) if is_still(process) => {
            rustix::process::kill_process(process.pid, signal).ok();
        }
        Ok(_) | Err(_) => {}
    }
}

fn is_still(process: &Process) -> bool {
    look_at(process.pid).is_some_and(|found| found.start == process.start)
}

fn of(pid: Pid, what: &str) -> String {
    format!("/proc/{pid}/{what}")
}

fn parse_pid(text: &str) -> Option<Pid> {
    // A process on its way out may show -1 where its session was.
    Pid::from_raw(text.parse().ok().filter(|pid| *pid > 0)?)
}
