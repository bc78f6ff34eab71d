//! Which command does a process belong to? A family is a command and all its descendants.
//!
//! A process belongs to a family if its parent does, if it is in the leader's session, carries the family's marker,
//! or holds its output pipe; and it stays in it once it was seen there. Only a process with a new session, a cleaned
//! environment, closed output and a dead parent belongs to no family: [`super::run`] leaves such a stray alone,
//! because its origin is unknown, and [`sweep_all`] kills it.
//!
//! One lock serializes starting a leader (until it is listed it would look like a stray), scanning, signalling, and
//! reaping. Only listed leaders and adopted orphans are reaped, so exit statuses that other parts of the program wait
//! for are never taken.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use ralph_core::model::id::Digest;
use rustix::process::{Pid, Signal};

use super::processes::{self, Process};
use super::supervisor::Backoff;
use super::unix;
use crate::sys::clock;

/// The variable that marks the processes of a run. systemd sets it for its services, to 32 hex digits, so a process
/// cannot detect ralph by it, and a value that systemd set for ralph is irrelevant to a command we start.
pub(super) const MARK: &str = "INVOCATION_ID";

/// The marker of one run: the owner's 16 hex digits, by which [`end_marked`] finds all runs of that owner, and 16
/// unique ones.
pub(crate) fn marker(owner: &str) -> String {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let number = RUNS.fetch_add(1, Ordering::Relaxed);
    let now = clock::now().as_nanosecond();
    let run = Digest::of_parts([
        &std::process::id().to_le_bytes()[..],
        &number.to_le_bytes()[..],
        &now.to_le_bytes()[..],
    ]);
    format!("{owner}{}", hex_16(&run))
}

/// The first half of a marker, shared by all runs for that loop of that repo.
pub(crate) fn owner_of_runs(repo: &str, the_loop: &str) -> String {
    hex_16(&Digest::of_parts([repo.as_bytes(), the_loop.as_bytes()])).to_owned()
}

fn hex_16(digest: &Digest) -> &str {
    &digest.as_str()[..16]
}

/// Time for strays between SIGTERM and SIGKILL, and then to end.
const STRAY_GRACE: Duration = Duration::from_millis(200);
const STRAY_END: Duration = Duration::from_millis(800);

static FAMILIES: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct Entry {
    leader: Pid,
    /// The marker as it appears in an environment.
    marker: Vec<u8>,
    /// The pipes of its output.
    pipes: Vec<u64>,
    /// PID and start time of every process that was ever found to belong.
    known: HashSet<(Pid, u64)>,
}

/// A family that is listed until it is dissolved.
#[derive(Debug)]
pub(super) struct ProcessFamily {
    leader: Pid,
}

impl ProcessFamily {
    /// Starts a leader and lists its family in one step.
    pub(super) fn found(
        marker: &str,
        pipes: Vec<u64>,
        start: impl FnOnce() -> io::Result<Pid>,
    ) -> io::Result<Self> {
        let mut families = families();
        let leader = start()?;
        let marker = format!("{MARK}={marker}").into_bytes();
        families.push(Entry { leader, marker, pipes, known: HashSet::new() });
        Ok(Self { leader })
    }

    pub(super) fn leader(&self) -> Pid {
        self.leader
    }

    /// Whether processes other than the leader are left; call it after the leader has exited. Very cheap if this
    /// process has no children except leaders.
    pub(super) fn others_left(&self) -> bool {
        let mut families = families();
        !no_orphans(&families) && !self.others(&mut families).is_empty()
    }

    /// Descriptions of the remaining processes other than the leader.
    pub(super) fn names(&self) -> Vec<String> {
        self.others(&mut families()).iter().map(|process| processes::describe(process.pid)).collect()
    }

    /// Signals the leader's group and all other members. Returns whether there were any others.
    pub(super) fn signal(&self, signal: Signal) -> bool {
        let mut families = families();
        let others = self.others(&mut families);
        unix::signal_group(self.leader, signal);
        for process in others.iter().filter(|process| process.group != Some(self.leader)) {
            processes::signal(process, signal);
        }
        !others.is_empty()
    }

    /// Removes the family from the list. A leader that has `exited` is reaped; its group gets a last SIGKILL before
    /// its PID is freed.
    pub(super) fn dissolve(&self, exited: bool) {
        let mut families = families();
        unix::signal_group(self.leader, Signal::KILL);
        if exited {
            // Its status has been read already.
            unix::wait_and_reap(self.leader);
        }
        families.retain(|entry| entry.leader != self.leader);
    }

    fn others(&self, families: &mut [Entry]) -> Vec<Process> {
        let mut members = list_members(families);
        members.retain(|member| member.family == Some(self.leader) && member.process.pid != self.leader);
        members.into_iter().map(|member| member.process).collect()
    }
}

/// Kills every descendant that belongs to no running job, and returns their descriptions. For the end of a run, and
/// for SIGTERM after a [`super::StopRequest`] once the jobs have returned.
pub(crate) fn sweep_all() -> Vec<String> {
    let names: Vec<String> = strays().iter().map(|process| processes::describe(process.pid)).collect();
    if names.is_empty() {
        return names;
    }
    signal_strays(Signal::TERM);
    await_no_strays(STRAY_GRACE, || {});
    await_no_strays(STRAY_END, || signal_strays(Signal::KILL));
    names
}

/// Kills all descendants, in any session, and returns those that could not be killed. Call it only while no job is
/// running: then every remaining descendant was left behind.
pub(crate) fn end_everyone_left() -> Vec<String> {
    let left = || -> Vec<Process> {
        if processes::adopts_orphans()
            && processes::own_children().is_some_and(|children| children.is_empty())
        {
            return Vec::new();
        }
        let me = rustix::process::getpid();
        let families = families();
        let everyone = read_consistently();
        let mut below = with_all_below(&everyone, |process| {
            process.parent == Some(me) && !is_leader(process.pid, &families)
        });
        for dead in below.extract_if(.., |process| process.dead) {
            reap_orphan(&dead, me, &families);
        }
        below
    };
    let deadline = Instant::now() + STRAY_END;
    let mut pauses = Backoff::default();
    let mut now = left();
    while !now.is_empty() && Instant::now() < deadline {
        for process in &now {
            processes::signal(process, Signal::KILL);
        }
        thread::sleep(pauses.next());
        now = left();
    }
    now.iter().map(|process| processes::describe(process.pid)).collect()
}

/// Kills every process of this user whose marker begins so, with all descendants: the leftovers of a killed
/// predecessor. Returns their descriptions.
pub(crate) fn end_marked(beginning: &str) -> Vec<String> {
    let mark = format!("{MARK}={beginning}").into_bytes();
    let me = rustix::process::getpid();
    let left = || -> Vec<Process> {
        let marked = |process: &Process| {
            processes::environment(process.pid).split(|byte| *byte == 0).any(|entry| entry.starts_with(&mark))
        };
        let mut everyone = processes::everyone();
        // Kernel threads have no session and no environment.
        everyone.retain(|process| {
            !process.dead
                && process.session.is_some()
                && process.pid != me
                && processes::is_same_user(process.pid)
        });
        with_all_below(&everyone, marked)
    };
    let found = left();
    let names = found.iter().map(|process| processes::describe(process.pid)).collect();
    let (mut now, deadline) = (found, Instant::now() + STRAY_END);
    let mut pauses = Backoff::default();
    while !now.is_empty() && Instant::now() < deadline {
        for process in &now {
            processes::signal(process, Signal::KILL);
        }
        thread::sleep(pauses.next());
        now = left();
    }
    names
}

/// The matching processes and all their descendants: a nested run has its own marker.
fn with_all_below(everyone: &[Process], is_one: impl Fn(&Process) -> bool) -> Vec<Process> {
    let mut found: Vec<&Process> = everyone.iter().filter(|process| is_one(process)).collect();
    let mut met: HashSet<Pid> = found.iter().map(|process| process.pid).collect();
    let mut at = 0;
    while at < found.len() {
        let parent = Some(found[at].pid);
        let children = everyone.iter().filter(|process| process.parent == parent);
        found.extend(children.filter(|child| met.insert(child.pid)).collect::<Vec<_>>());
        at += 1;
    }
    found.into_iter().cloned().collect()
}

fn await_no_strays(patience: Duration, each_round: impl Fn()) {
    let deadline = Instant::now() + patience;
    let mut pauses = Backoff::default();
    while !strays().is_empty() && Instant::now() < deadline {
        each_round();
        thread::sleep(pauses.next());
    }
}

fn strays() -> Vec<Process> {
    strays_beside(&mut families())
}

fn strays_beside(families: &mut [Entry]) -> Vec<Process> {
    if no_orphans(families) {
        return Vec::new();
    }
    let members = list_members(families).into_iter().filter(|member| member.family.is_none());
    members.map(|member| member.process).collect()
}

fn signal_strays(signal: Signal) {
    let mut families = families();
    for process in strays_beside(&mut families) {
        processes::signal(&process, signal);
    }
}

fn families() -> MutexGuard<'static, Vec<Entry>> {
    FAMILIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether all our children are listed leaders. Since we adopt orphans, a leader that has exited then has left no
/// process behind.
fn no_orphans(families: &[Entry]) -> bool {
    processes::adopts_orphans()
        && processes::own_children().is_some_and(|children| all_leaders(&children, families))
}

fn all_leaders(children: &[Pid], families: &[Entry]) -> bool {
    children.iter().all(|child| is_leader(*child, families))
}

fn is_leader(pid: Pid, families: &[Entry]) -> bool {
    families.iter().any(|entry| entry.leader == pid)
}

#[derive(Debug)]
struct Member {
    process: Process,
    /// The leader of its family; `None` for a stray.
    family: Option<Pid>,
}

/// All living descendants of commands, with their families. Dead orphans are reaped on the way.
fn list_members(families: &mut [Entry]) -> Vec<Member> {
    let everyone = read_consistently();
    let mut members = descendants(&everyone, families);
    if !processes::adopts_orphans() {
        members.extend(find_detached(&everyone, &members, families));
    }
    for member in &members {
        remember(member, families);
    }
    members
}

/// All relevant processes, read again if orphans were adopted meanwhile: the parent chain would be broken where their
/// old parent was.
fn read_consistently() -> Vec<Process> {
    const READINGS: usize = 5;
    let me = Some(rustix::process::getpid());
    let mut everyone = read_everyone();
    for _ in 1..READINGS {
        let noted: HashSet<Pid> =
            everyone.iter().filter(|process| process.parent == me).map(|process| process.pid).collect();
        if processes::own_children().is_none_or(|children| children.iter().all(|child| noted.contains(child)))
        {
            break;
        }
        everyone = read_everyone();
    }
    everyone
}

/// Our descendants if we adopt orphans, else all processes.
fn read_everyone() -> Vec<Process> {
    let tree = if processes::adopts_orphans() { processes::own_tree() } else { None };
    tree.unwrap_or_else(processes::everyone)
}

/// Walks down from our children in other sessions: children in our own session were started by other parts of the
/// program and are skipped with all their descendants.
fn descendants(everyone: &[Process], families: &[Entry]) -> Vec<Member> {
    let me = rustix::process::getpid();
    let session = everyone.iter().find(|process| process.pid == me).and_then(|process| process.session);
    let mut children: HashMap<Pid, Vec<&Process>> = HashMap::new();
    for process in everyone {
        if let Some(parent) = process.parent {
            children.entry(parent).or_default().push(process);
        }
    }
    let foreign =
        children.remove(&me).unwrap_or_default().into_iter().filter(|child| child.session != session);
    let mut waiting: VecDeque<(&Process, Option<Pid>)> = foreign.map(|child| (child, None)).collect();
    let mut members = Vec::new();
    while let Some((process, inherited)) = waiting.pop_front() {
        if process.dead {
            reap_orphan(process, me, families);
            continue;
        }
        let family = inherited.or_else(|| family_of(process, families));
        waiting.extend(children.remove(&process.pid).into_iter().flatten().map(|child| (child, family)));
        members.push(Member { process: process.clone(), family });
    }
    members
}

fn reap_orphan(process: &Process, me: Pid, families: &[Entry]) {
    if process.parent == Some(me) && !is_leader(process.pid, families) {
        unix::reap(process.pid);
    }
}

/// Processes that lost their parent where we do not adopt orphans: any process of our user that has the marker or
/// pipe of a family.
fn find_detached(everyone: &[Process], members: &[Member], families: &[Entry]) -> Vec<Member> {
    let met: HashSet<Pid> = members.iter().map(|member| member.process.pid).collect();
    let mine = |process: &&Process| {
        // The kernel's own threads have no session.
        !process.dead
            && process.session.is_some()
            && !met.contains(&process.pid)
            && process.pid != rustix::process::getpid()
            && processes::is_same_user(process.pid)
    };
    let found = everyone.iter().filter(mine).filter_map(|process| {
        let family = family_of(process, families)?;
        Some(Member { process: process.clone(), family: Some(family) })
    });
    found.collect()
}

/// Cheap checks first; environment and pipes are read from `/proc` once, however many families there are.
fn family_of(process: &Process, families: &[Entry]) -> Option<Pid> {
    let leader_where = |belongs: &dyn Fn(&Entry) -> bool| {
        families.iter().find(|entry| belongs(entry)).map(|entry| entry.leader)
    };
    let identity = (process.pid, process.start);
    leader_where(&|entry| process.session == Some(entry.leader) || entry.known.contains(&identity))
        .or_else(|| {
            let environment = processes::environment(process.pid);
            leader_where(&|entry| environment.split(|byte| *byte == 0).any(|it| it == entry.marker))
        })
        .or_else(|| {
            let pipes = processes::pipes(process.pid);
            leader_where(&|entry| entry.pipes.iter().any(|pipe| pipes.contains(pipe)))
        })
}

fn remember(member: &Member, families: &mut [Entry]) {
    let Some(entry) = families.iter_mut().find(|entry| Some(entry.leader) == member.family) else { return };
    entry.known.insert((member.process.pid, member.process.start));
}
