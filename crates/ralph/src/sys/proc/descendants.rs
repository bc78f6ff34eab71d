//! Whose process is this? A family is a command and all that came out of it.
//!
//! A process belongs to a family if its parent does, if it is in the leader's session, carries the family's
//! marker, or holds its output pipe; and it stays in it for good once it was seen there. It takes a new session, a
//! cleaned environment, closed output and a dead parent together to be nobody's: such a stray is left alone by
//! [`super::run`], which cannot know whose it is, and ended by [`sweep_all`].
//!
//! One lock orders what must not mix: starting a leader (until it is listed it would look like a stray), looking
//! around, signalling, and reaping. Nobody is reaped who is not a listed leader or an adopted orphan, so the
//! statuses other parts of the program wait for are never taken.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use ralph_core::model::id::Digest;
use rustix::process::{Pid, Signal};

use super::processes::{self, Process};
use super::supervisor::Pauses;
use super::unix;
use crate::sys::clock;

/// The variable that marks the processes of a run. systemd sets it for its services, to 32 hex digits: what runs inside
/// learns nothing from it, and what systemd set for us means nothing to a command that we start.
pub(super) const MARK: &str = "INVOCATION_ID";

/// The mark of one run: the owner's 16 hex digits, by which [`end_marked`] finds all runs of that owner, and 16 that no other
/// run has.
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

/// The first half of a mark, for everything that is run for that loop of that repo.
pub(crate) fn owner_of_runs(repo: &str, the_loop: &str) -> String {
    hex_16(&Digest::of_parts([repo.as_bytes(), the_loop.as_bytes()])).to_owned()
}

fn hex_16(digest: &Digest) -> &str {
    &digest.as_str()[..16]
}

/// What strays get between SIGTERM and SIGKILL, and then to be gone.
const STRAY_GRACE: Duration = Duration::from_millis(200);
const STRAY_END: Duration = Duration::from_millis(800);

static FAMILIES: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct Entry {
    leader: Pid,
    /// The marker as it stands in an environment.
    marker: Vec<u8>,
    /// Those that it prints into.
    pipes: Vec<u64>,
    /// Pid and start of everyone ever found to belong.
    known: HashSet<(Pid, u64)>,
}

/// A listed family. It is listed until it is dissolved.
#[derive(Debug)]
pub(super) struct Family {
    leader: Pid,
}

impl Family {
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

    /// Whether anyone but the leader is left, asked once the leader has exited: until then all may hide below it.
    /// Costs next to nothing when this process has no children but leaders.
    pub(super) fn others_left(&self) -> bool {
        let mut families = families();
        !no_orphans(&families) && !self.others(&mut families).is_empty()
    }

    /// Who is left beside the leader, for people.
    pub(super) fn names(&self) -> Vec<String> {
        self.others(&mut families()).iter().map(|process| processes::describe(process.pid)).collect()
    }

    /// Signals the leader's group and everyone else who belongs. Tells whether there was anyone else.
    pub(super) fn signal(&self, signal: Signal) -> bool {
        let mut families = families();
        let others = self.others(&mut families);
        unix::signal_group(self.leader, signal);
        for process in others.iter().filter(|process| process.group != Some(self.leader)) {
            processes::signal(process, signal);
        }
        !others.is_empty()
    }

    /// Strikes the family off the list. A leader that has `exited` is reaped; the group gets a last SIGKILL
    /// before its number is free.
    pub(super) fn dissolve(&self, exited: bool) {
        let mut families = families();
        unix::signal_group(self.leader, Signal::KILL);
        if exited {
            // Its status has been read already.
            unix::bury(self.leader);
        }
        families.retain(|entry| entry.leader != self.leader);
    }

    fn others(&self, families: &mut [Entry]) -> Vec<Process> {
        let mut members = census(families);
        members.retain(|member| member.family == Some(self.leader) && member.process.pid != self.leader);
        members.into_iter().map(|member| member.process).collect()
    }
}

/// Ends every descendant that belongs to no running job, and tells who they were. For the end of a run, and for
/// SIGTERM once [`super::Stop`] was asked and the jobs have come back.
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

/// Ends everyone who came out of us, whatever session they are in, and tells who could not be ended. Only for a moment at
/// which nothing of ours runs: then whoever is there was left behind, however well it hides.
pub(crate) fn end_everyone_left() -> Vec<String> {
    let left = || -> Vec<Process> {
        if processes::adopts_orphans()
            && processes::own_children().is_some_and(|children| children.is_empty())
        {
            return Vec::new();
        }
        let me = rustix::process::getpid();
        let families = families();
        let everyone = look_around();
        let mut below = with_all_below(&everyone, |process| {
            process.parent == Some(me) && !is_leader(process.pid, &families)
        });
        for dead in below.extract_if(.., |process| process.dead) {
            reap_orphan(&dead, me, &families);
        }
        below
    };
    let deadline = Instant::now() + STRAY_END;
    let mut pauses = Pauses::default();
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

/// Ends every process of this user whose marker begins so, with everyone below, wherever they are: what a killed
/// predecessor of ours left. Tells who they were.
pub(crate) fn end_marked(beginning: &str) -> Vec<String> {
    let mark = format!("{MARK}={beginning}").into_bytes();
    let me = rustix::process::getpid();
    let left = || -> Vec<Process> {
        let marked = |process: &Process| {
            processes::environment(process.pid).split(|byte| *byte == 0).any(|entry| entry.starts_with(&mark))
        };
        let mut everyone = processes::everyone();
        // The kernel's own threads have no session, and nothing to read.
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
    let mut pauses = Pauses::default();
    while !now.is_empty() && Instant::now() < deadline {
        for process in &now {
            processes::signal(process, Signal::KILL);
        }
        thread::sleep(pauses.next());
        now = left();
    }
    names
}

/// Those of whom it is true, and all who came out of them: a run inside of a run bears its own mark.
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
    let mut pauses = Pauses::default();
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
    let members = census(families).into_iter().filter(|member| member.family.is_none());
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

/// Whether our children are listed leaders and no one else. Since orphans come to us, a leader that has exited
/// then has left nobody behind.
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
    /// The leader of its family; none for a stray.
    family: Option<Pid>,
}

/// Everyone alive who came out of a command, and to which family they belong. Dead orphans are reaped on the way.
fn census(families: &mut [Entry]) -> Vec<Member> {
    let everyone = look_around();
    let mut members = descendants(&everyone, families);
    if !processes::adopts_orphans() {
        members.extend(runaways(&everyone, &members, families));
    }
    for member in &members {
        remember(member, families);
    }
    members
}

/// Everyone who may matter, read again if somebody came to us meanwhile: the chain from us to them would be
/// broken where their old parent was.
fn look_around() -> Vec<Process> {
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

/// Those below us if nobody can get out, else all there are.
fn read_everyone() -> Vec<Process> {
    let tree = if processes::adopts_orphans() { processes::own_tree() } else { None };
    tree.unwrap_or_else(processes::everyone)
}

/// Walks down from us, from the children in sessions other than ours: those in ours were started by other parts
/// of the program, and are none of our business, with all that is below them.
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

/// Those who left with their parent's death because we do not adopt: somewhere on the machine, of our user, and
/// of a family by their own marks.
fn runaways(everyone: &[Process], members: &[Member], families: &[Entry]) -> Vec<Member> {
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

/// By what is at hand first; the marks `/proc` has to be asked for are read once, however many families there are.
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
