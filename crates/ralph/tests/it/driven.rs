//! A disturbed loop of the driver: a scripted agent that works by the number of its iteration, and what must
//! be true of the loop's ledger once it is over, whatever happened before.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ralph_core::ledger::event::{AgentEnd, Event, Subject};
use ralph_core::ledger::line::{self as ledger_line, ChainHead};
use ralph_core::model::verdict::{Reason, Verdict};

use ralph_testkit::Sandbox;

/// A repo, an agent and a gate by which an undisturbed loop is verified in its `iterations`th iteration.
pub(crate) struct DrivenLoop {
    pub(crate) sandbox: Sandbox,
    agent: String,
    pub(crate) iterations: u32,
}

/// Whether a loop was only disturbed by kills: an error may leave the gates of an iteration undecided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disturbed {
    ByKills,
    ByErrors,
}

impl DrivenLoop {
    /// Agent and gate take `pause` each (an argument of `sleep`), with a process beside them while they run.
    pub(crate) fn new(iterations: u32, pause: &str) -> Self {
        let at_work = |work: &str| format!("sleep 60 & sleep {pause}; {work}; end=$?; kill $!; exit $end");
        // It writes the number that its prompt begins with: `Iteration 2 of 15.`
        let agent = at_work("read -r _ number _ && echo $number > work.txt");
        let gate = at_work(&format!("test \"$(cat work.txt)\" -ge {iterations}"));
        Self::of(iterations, &agent, &gate)
    }

    pub(crate) fn of(iterations: u32, agent: &str, gate: &str) -> Self {
        let sandbox = Sandbox::gated(&ralph_testkit::verify_list(&[gate]));
        Self { sandbox, agent: format!("command:{agent}"), iterations }
    }

    pub(crate) fn begins(&self, more: &[&str]) -> Command {
        let mut command = self.sandbox.command(&["loop", "count", "--quiet", "--agent", &self.agent]);
        command.args(more);
        command
    }

    /// Resumes a loop whose driver was killed; starts it if nothing was recorded yet.
    pub(crate) fn resumes(&self, more: &[&str]) -> Command {
        let begun = driven_events(&self.sandbox.ralph_home()).expect("a ledger that can be read");
        if !begun.is_empty() { self.sandbox.command(&["resume", "--quiet"]) } else { self.begins(more) }
    }

    /// Everything that must be true once the loop is over.
    pub(crate) fn is_over_and_complete(&self, disturbed: Disturbed) -> Result<(), String> {
        let events = driven_events(&self.sandbox.ralph_home())?;
        iterations_are_complete(&events, self.iterations, disturbed)?;
        self.has_its_report(disturbed)?;
        let left = self.processes();
        ensure(left.is_empty(), || format!("processes are left: {left:#?}"))?;
        locks_are_free(&self.sandbox.ralph_home())
    }

    /// The end was reported for people and for scripts, once. An error may have paused it before, which is reported
    /// too.
    fn has_its_report(&self, disturbed: Disturbed) -> Result<(), String> {
        let count = |folder: &str, end: &str| {
            let files = fs::read_dir(self.sandbox.path(folder)).into_iter().flatten().flatten();
            files.filter(|file| file.path().extension().is_some_and(|extension| extension == end)).count()
        };
        let counts = (count("docs/actions/loop", "md"), count(".claude/metadata/actions/loop", "json"));
        let right = counts == (1, 1) || (disturbed == Disturbed::ByErrors && counts.0 > 1 && counts.1 > 1);
        ensure(right, || format!("reports and their data: {counts:?}"))
    }

    /// The tree before the first iteration and after each one is stored under its own ref, as the ledger says.
    pub(crate) fn has_every_checkpoint(&self) -> Result<(), String> {
        let mut kept = BTreeMap::new();
        for event in driven_events(&self.sandbox.ralph_home())? {
            if let Event::Committed { iteration, commit } = event {
                kept.insert(iteration, commit);
            }
        }
        let refs =
            self.sandbox.git(&["for-each-ref", "--format=%(refname:lstrip=3) %(objectname)", "refs/ralph/"]);
        let there: BTreeMap<u32, String> = refs
            .lines()
            .filter_map(|line| line.split_once(' '))
            .map(|(number, commit)| (number.parse().expect("a number"), commit.to_owned()))
            .collect();
        let all = (0..=self.iterations).eq(kept.keys().copied());
        ensure(all && kept == there, || format!("checkpoints are missing: {kept:?} but {there:?}"))
    }

    /// Every living process that was started in this sandbox, whatever marks it has: "pid command line".
    pub(crate) fn processes(&self) -> Vec<String> {
        let name = |pid: u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            format!("{pid} {}", String::from_utf8_lossy(&line).replace('\0', " "))
        };
        self.pids().into_iter().map(name).collect()
    }

    fn pids(&self) -> Vec<u32> {
        let home = [b"HOME=", self.sandbox.home().as_os_str().as_encoded_bytes()].concat();
        let entries = fs::read_dir("/proc").expect("processes").flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_ours = |pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|entry| entry == home)
        };
        pids.filter(is_ours).collect()
    }
}

/// A failing test leaves no process running either.
impl Drop for DrivenLoop {
    fn drop(&mut self) {
        let pids =
            self.pids().into_iter().filter_map(|pid| rustix::process::Pid::from_raw(pid.cast_signed()));
        for pid in pids {
            let _gone_already = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

/// The events of the one driven loop, with the hash chain checked. Half a line at the end never counted; a
/// loop whose first line was never complete has none.
pub(crate) fn driven_events(ralph_home: &Path) -> Result<Vec<Event>, String> {
    let mut found: Vec<Vec<Event>> = Vec::new();
    for path in ledgers(ralph_home) {
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let (mut head, mut events) = (ChainHead::origin(), Vec::new());
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let line = ledger_line::read(&head, line)
                .map_err(|error| format!("{}: line {}: {error}", path.display(), head.seq + 1))?;
            head = ChainHead { seq: line.seq, hash: line.hash };
            events.push(line.event);
        }
        let is_driven = |event: &Event| matches!(event, Event::Began { subject: Subject::Driver, .. });
        if events.iter().any(is_driven) {
            found.push(events);
        }
    }
    ensure(found.len() <= 1, || format!("{} loops, and only one was asked for", found.len()))?;
    Ok(found.pop().unwrap_or_default())
}

/// How many lines all ledgers have, whatever they contain.
pub(crate) fn lines_written(ralph_home: &Path) -> usize {
    let lines = |path: &PathBuf| fs::read(path).unwrap_or_default().split(|byte| *byte == b'\n').count() - 1;
    ledgers(ralph_home).iter().map(lines).sum()
}

fn ledgers(ralph_home: &Path) -> Vec<PathBuf> {
    let inside = |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let repos = inside(ralph_home.join("repos"));
    let loops = repos.flat_map(|repo| inside(repo.join("loops")));
    loops.map(|dir| dir.join("ledger.jsonl")).filter(|path| path.exists()).collect()
}

/// Each iteration began once, its agent ended once, and it was judged once, in this order and without a gap; the
/// last one is verified, by receipts for the current tree.
fn iterations_are_complete(events: &[Event], expected: u32, disturbed: Disturbed) -> Result<(), String> {
    let (mut steps, mut unsure, mut failed, mut blocked) = (Vec::new(), 0, 0, 0);
    let mut verified = None;
    for event in events {
        match event {
            Event::IterationBegan { iteration, .. } => steps.push(("began", *iteration)),
            // An agent that never started is run again under the same number.
            Event::AgentEnded { run, .. } if matches!(run.ended, AgentEnd::CouldNotStart { .. }) => {}
            Event::AgentEnded { iteration, run } => {
                failed += u32::from(matches!(run.ended, AgentEnd::Failed { .. }));
                steps.push(("ended", *iteration));
            }
            Event::Judged(judgement) => {
                steps.push(("judged", judgement.attempt + unsure));
                // Unreadable gates count as changed gates.
                let by_gates =
                    matches!(judgement.reason, Reason::AllGatesPassed | Reason::GatesFailed { .. });
                blocked += u32::from(!by_gates);
                verified = (judgement.verdict == Verdict::Verified).then_some(judgement.tree.as_ref());
            }
            Event::NotEvaluated { .. } if disturbed == Disturbed::ByErrors => {
                unsure += 1;
                steps.push(("judged", steps.last().map_or(0, |(_, number)| *number)));
            }
            Event::NotEvaluated { .. } => return Err(format!("a kill is no trouble: {event:?}")),
            _ => {}
        }
    }
    let number = steps.iter().filter(|(what, _)| *what == "judged").count();
    let number = u32::try_from(number).expect("a few");
    let whole = (1..=number).flat_map(|number| ["began", "ended", "judged"].map(|what| (what, number)));
    ensure(steps.iter().copied().eq(whole), || format!("iterations are lost or double: {steps:?}"))?;
    // An error may cost the work of an iteration, or the record of it.
    let cost = if disturbed == Disturbed::ByErrors { unsure + failed + blocked } else { 0 };
    let fits = (expected..=expected + cost).contains(&number);
    ensure(fits, || format!("{number} iterations, and {expected} were needed: {steps:?}"))?;
    let tree = verified.flatten().ok_or_else(|| format!("it does not end verified: {:?}", events.last()))?;
    let shows = |event: &Event| matches!(event, Event::GateRan { receipt: Some(receipt), .. } if receipt.tree() == tree);
    ensure(events.iter().any(shows), || "verified without a receipt".to_owned())
}

fn locks_are_free(ralph_home: &Path) -> Result<(), String> {
    for repo in fs::read_dir(ralph_home.join("repos")).expect("repos").flatten() {
        for name in ["lock", "gates.lock"] {
            let path = repo.path().join(name);
            let file = fs::File::options().append(true).open(&path);
            let file = file.map_err(|error| format!("{}: {error}", path.display()))?;
            file.try_lock().map_err(|error| format!("{} is not free: {error}", path.display()))?;
        }
    }
    Ok(())
}
