//! The processes of this machine, read from `/proc`.
//!
//! Every answer is a snapshot: a process may end, or exec another program, between two reads. Each function documents
//! what can be wrong for that reason; `descendants` handles it.

use std::collections::HashSet;
use std::io::PipeReader;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;
use std::{fs, thread};

use ralph_core::ledger::event::ProcessIdentity;
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Pid, PidfdFlags, Signal};

use super::Ancestor;

/// The largest pipe without privileges: fewer waits between a command that floods its output and the reader.
const PIPE: usize = 1024 * 1024;

/// Longest command line shown, in characters.
const SHOWN: usize = 80;

#[derive(Debug, Clone)]
pub(super) struct Process {
    pub(super) pid: Pid,
    pub(super) parent: Option<Pid>,
    pub(super) group: Option<Pid>,
    pub(super) session: Option<Pid>,
    /// Clock ticks after boot: identifies the process together with the PID, since PIDs are reused.
    pub(super) start: u64,
    pub(super) dead: bool,
}

/// Makes this process the parent of every orphaned descendant, so that none escapes by detaching. Call it once at the
/// start. Linux only; does nothing elsewhere.
pub(crate) fn adopt_orphans() {
    // Kernels before 3.4 do not support it; orphans are then found by the marker.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).ok();
}

/// The unique identity of a process: start time, boot and namespace.
pub(crate) fn identity(pid: i32) -> Option<ProcessIdentity> {
    let process = read_process(Pid::from_raw(pid).filter(|_| pid > 0)?).filter(|process| !process.dead)?;
    let namespace = fs::metadata(of(process.pid, "ns/pid")).ok().map(|found| found.ino());
    Some(ProcessIdentity {
        process: pid,
        started: process.start,
        boot: boot(),
        // Not readable for another user's process; but its PID is visible, so the namespace is ours.
        pid_namespace: namespace.or_else(pid_namespace),
    })
}

pub(super) fn boot() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    boot.trim().to_owned()
}

/// The namespace of our own PID.
pub(crate) fn pid_namespace() -> Option<u64> {
    fs::metadata("/proc/self/ns/pid").ok().map(|found| found.ino())
}

/// Whether ours is the initial PID namespace, which has this fixed inode number.
pub(crate) fn is_first_pid_namespace() -> bool {
    const FIRST: u64 = 0xEFFF_FFFC;
    pid_namespace() == Some(FIRST)
}

/// The ancestors of this process, parent first.
///
/// Starts at `/proc/self` instead of our PID: a process in its own namespace may see the `/proc` of another.
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
    // The PID passed here does not affect the parent.
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

/// Prevents other processes of the same user from reading and changing this one: no debugger can attach, its memory
/// cannot be opened. Child processes are not protected after exec, and root is not kept out.
pub(crate) fn forbid_debuggers() {
    // If the kernel refuses this, we are as unprotected as any other program.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
}

/// Undoes [`forbid_debuggers`], which also stops other processes from reading our environment and finding us by the
/// marker in it.
pub(crate) fn permit_debuggers() {
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable).ok();
}

pub(super) fn adopts_orphans() -> bool {
    matches!(rustix::process::child_subreaper(), Ok(Some(_)))
}

pub(super) fn widen(pipe: &PipeReader) {
    rustix::pipe::fcntl_setpipe_size(pipe, PIPE).ok();
}

/// Our own children, sorted, or `None` if the kernel does not list them.
///
/// The lists are kept per thread, move when a thread ends, and may skip a child while a sibling is reaped. These
/// effects are temporary, so two equal reads are required.
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
            // The thread has ended, and its children moved to another thread.
            Err(_) if !thread.path().exists() => {}
            Err(_) => return None,
        }
    }
    Some(children)
}

/// This process and its descendants, or `None` if the kernel does not list children. Not atomic: a process that loses
/// its parent during the walk may be missing, and is found as our child the next time.
pub(super) fn own_tree() -> Option<Vec<Process>> {
    let mut tree = vec![read_process(rustix::process::getpid())?];
    let mut met = HashSet::new();
    let mut waiting = own_children()?;
    while let Some(pid) = waiting.pop() {
        let Some(process) = read_process(pid) else { continue };
        if met.insert(pid) {
            tree.push(process);
            waiting.extend(children_of(pid).unwrap_or_default());
        }
    }
    Some(tree)
}

/// All processes. Not atomic: the parent of a listed child may already be gone.
pub(super) fn everyone() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| read_process(parse_pid(entry.file_name().to_str()?)?)).collect()
}

fn read_process(pid: Pid) -> Option<Process> {
    parse_stat(pid, &fs::read(of(pid, "stat")).ok()?)
}

/// `pid (name) state parent group session …`, where the name may contain anything, including `) `.
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
        // A main thread that has ended looks like a zombie while other threads continue.
        dead: matches!(*fields.first()?, "Z" | "X") && threads <= 1,
    })
}

pub(super) fn is_same_user(pid: Pid) -> bool {
    let uid = rustix::process::geteuid().as_raw();
    fs::metadata(of(pid, "")).is_ok_and(|found| found.uid() == uid)
}

/// The initial environment of `pid`: `NAME=value` and a zero byte for each variable.
pub(super) fn environment(pid: Pid) -> Vec<u8> {
    await_program(pid);
    fs::read(of(pid, "environ")).unwrap_or_default()
}

/// During exec a process has neither arguments nor environment. That takes well under a millisecond, but is typical
/// for a process that was just started in the background.
fn await_program(pid: Pid) {
    const TRIES: usize = 10;
    for _ in 0..TRIES {
        match fs::read(of(pid, "cmdline")) {
            Ok(line) if line.is_empty() => thread::sleep(Duration::from_millis(1)),
            _ => return,
        }
    }
}

/// The pipes that `pid` has open, by inode.
pub(super) fn pipes(pid: Pid) -> Vec<u64> {
    let Ok(files) = fs::read_dir(of(pid, "fd")) else { return Vec::new() };
    let targets = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
    targets
        .filter_map(|target| target.to_str()?.strip_prefix("pipe:[")?.strip_suffix(']')?.parse().ok())
        .collect()
}

/// "pid command line", for display.
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

/// Signals exactly this process, never another one that reuses its PID.
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
    read_process(process.pid).is_some_and(|found| found.start == process.start)
}

fn of(pid: Pid, what: &str) -> String {
    format!("/proc/{pid}/{what}")
}

fn parse_pid(text: &str) -> Option<Pid> {
    // A process that is exiting may report -1 as its session.
    Pid::from_raw(text.parse().ok().filter(|pid| *pid > 0)?)
}
