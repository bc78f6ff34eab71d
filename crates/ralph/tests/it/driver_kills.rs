//! `kill -9` of the driver at any moment: a resume ends the loop with the same iterations, none lost and
//! none counted twice, and nothing of the killed driver is left.
//!
//! 50 of these stories by default; `RALPH_KILLS=2000` plays more, as `.ci/run` does, `RALPH_KILLS_SEED=…` plays others.

use std::fs;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ralph_testkit::{Dice, Finished, misbehave, wait_until};

use crate::driven::{Disturbed, DrivenLoop, driven_events, lines_written};

/// A loop takes some tenths of a second: long enough for every part of it to be hit.
const PAUSE: &str = "0.02";
const ITERATIONS: u32 = 3;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

fn moment_within(dice: &mut Dice, longest: Duration) -> Duration {
    let micros = u64::try_from(longest.as_micros()).expect("not that long").max(1);
    Duration::from_micros(dice.roll() % micros)
}

/// When to kill. Machines are slow at times, so it does not always depend on the clock.
#[derive(Debug)]
enum Moment {
    After(Duration),
    /// This long after this many events were recorded.
    Events(usize, Duration),
}

impl Moment {
    /// A random moment of a loop that takes this long and has this many events before the kill.
    fn any(dice: &mut Dice, takes: Duration, before: usize) -> Self {
        // What an undisturbed loop writes, plus the additional events of a resume.
        const MOST_EVENTS: u64 = 20;
        match dice.roll() % 2 {
            0 => Self::After(moment_within(dice, takes)),
            _ => {
                let events = usize::try_from(dice.roll() % MOST_EVENTS).expect("a few").max(before);
                Self::Events(events, moment_within(dice, takes / 15))
            }
        }
    }

    /// Waits for it, or for the end of the process to be killed.
    fn wait(&self, child: &mut Child, ralph_home: &Path) {
        match self {
            Self::After(time) => sleep(*time),
            Self::Events(count, then) => {
                let is_there = || lines_written(ralph_home) >= *count;
                while !is_there() && child.try_wait().expect("a child").is_none() {
                    sleep(Duration::from_millis(1));
                }
                sleep(*then);
            }
        }
    }
}

/// How a driver that was killed then ended, since it may have finished earlier.
fn killed_at(mut command: Command, moment: &Moment, ralph_home: &Path) -> ExitStatus {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary");
    moment.wait(&mut child, ralph_home);
    child.kill().expect("a child of ours");
    child.wait().expect("an end")
}

fn to_its_end(mut command: Command) -> Finished {
    Finished::of(command.output().expect("the binary"))
}

/// How long an undisturbed loop takes on this machine now.
fn undisturbed(more: &[&str]) -> Duration {
    let driven = DrivenLoop::new(ITERATIONS, PAUSE);
    let begun = Instant::now();
    let ran = to_its_end(driven.begins(more)).success();
    let took = begun.elapsed();
    assert!(ran.stdout.lines().any(|line| line == "VERIFIED_DONE"), "{ran:#?}");
    driven.is_over_and_complete(Disturbed::ByKills).expect("undisturbed");
    let left = driven.sandbox.remembered().into_iter().find(|path| path.contains("checkpoint-index"));
    assert_eq!(left, None, "a leftover of git's index");
    took
}

/// Kills it one to three times, each time at a random moment of a whole loop, then resumes it to its end. Returns how
/// many
/// of the kills came in time.
fn story(seed: u64, takes: Duration, more: &[&str]) -> Result<u32, String> {
    let mut dice = Dice::new(seed);
    let driven = DrivenLoop::new(ITERATIONS, PAUSE);
    let home = driven.sandbox.ralph_home();
    let (kills, mut in_time, mut message) = (1 + dice.roll() % 3, 0, Vec::new());
    for _ in 0..kills {
        let moment = Moment::any(&mut dice, takes, driven_events(&home)?.len());
        let ended = killed_at(driven.resumes(more), &moment, &home);
        let events = driven_events(&home)?;
        message.push(format!("{ended}, {moment:?}, {} events, the last {:?}", events.len(), events.last()));
        if ended.signal() != Some(9) {
            break;
        }
        in_time += 1;
    }
    let last = to_its_end(driven.resumes(more));
    let ended = if last.code == Some(0) { Ok(()) } else { Err("it does not go on to its end".to_owned()) };
    let checked = ended.and_then(|()| driven.is_over_and_complete(Disturbed::ByKills));
    let keeps = more.is_empty();
    let checked = checked.and_then(|()| if keeps { driven.has_every_checkpoint() } else { Ok(()) });
    checked.map(|()| in_time).map_err(|wrong| {
        let events = driven_events(&home).unwrap_or_default();
        let events: Vec<String> = events.iter().map(|event| format!("{event:.200?}")).collect();
        format!("seed {seed}: {wrong}\n{}\n{last:#?}\n{events:#?}", message.join("\n"))
    })
}

#[test]
fn law_9_a_driver_killed_at_any_time_loses_no_iteration_and_counts_none_twice() {
    let stories = number("RALPH_KILLS").unwrap_or(50);
    let seed = number("RALPH_KILLS_SEED").unwrap_or_default().wrapping_mul(1_000_003);
    let begun = Instant::now();
    // One in four keeps checkpoints, which is mostly work of git.
    let kinds: [&[&str]; 4] = [&["--no-checkpoints"], &["--no-checkpoints"], &["--no-checkpoints"], &[]];
    let (plain, kept) = (undisturbed(kinds[0]), undisturbed(kinds[3]));
    let (next, done) = (AtomicU64::new(0), Mutex::new((0, Vec::new())));
    let work = || {
        loop {
            let story_number = next.fetch_add(1, Ordering::Relaxed);
            if story_number >= stories {
                return;
            }
            let more = kinds[usize::try_from(story_number % 4).expect("small")];
            let takes = if more.is_empty() { kept } else { plain };
            let outcome = story(seed.wrapping_add(story_number), takes, more);
            let mut done = done.lock().expect("no panic");
            match outcome {
                Ok(in_time) => done.0 += in_time,
                Err(wrong) => done.1.push(wrong),
            }
        }
    };
    // Most of the time all processes sleep.
    let workers = 2 * std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
    let (kills, wrong) = done.into_inner().expect("no panic");
    let took = begun.elapsed().as_secs_f64();
    let shown = format!(
        "{stories} loops, {kills} kills, {took:.0} s; undisturbed {plain:?}, with checkpoints {kept:?}"
    );
    writeln!(std::io::stdout(), "{shown}").expect("stdout is open");
    assert!(
        wrong.is_empty(),
        "{} of {stories}:\n\n{}",
        wrong.len(),
        wrong[..wrong.len().min(5)].join("\n\n")
    );
    assert!(u64::from(kills) >= stories / 2, "only {kills} kills came in time: are they spread?");
}

/// A process that runs when the driver is killed is gone after a resume, however long it would have run and wherever
/// it went: otherwise the half-done work of two agents would be judged as one.
#[test]
fn processes_left_by_a_killed_driver_are_ended_on_resume() {
    // Waits until a file is gone, with a process beside it that left the session.
    let stuck = |name: &str| {
        let detached = misbehave("in-session sleep 61");
        format!("if test -e ../slow-{name}; then {detached} & touch ../runs-{name}; sleep 60; fi")
    };
    let verify = |root: &str| format!("{}; {root} verify > /dev/null; true", stuck("agent"));
    for name in ["agent", "gate", "inner"] {
        let gate = format!("{}; {}; test -e work.txt", stuck("gate"), stuck("inner"));
        let agent = if name == "inner" { verify(crate::RALPH) } else { stuck("agent") };
        let driven = DrivenLoop::of(1, &format!("{agent}; touch work.txt"), &gate);
        let beside = |what: &str| driven.sandbox.path(&format!("../{what}-{name}"));
        fs::write(beside("slow"), "").expect("a file");
        let mut killed =
            driven.begins(&["--no-checkpoints"]).stderr(Stdio::null()).spawn().expect("the binary");
        wait_until(name, || beside("runs").exists());
        killed.kill().expect("a child of ours");
        killed.wait().expect("an end");
        assert!(!driven.processes().is_empty(), "{name}: nothing was left to be ended");
        fs::remove_file(beside("slow")).expect("our own");
        let ran = to_its_end(driven.resumes(&[])).success();
        let whole = driven.is_over_and_complete(Disturbed::ByKills);
        assert!(whole.is_ok(), "{name}: {whole:?}\n{ran:#?}");
    }
}

/// The agent's promise is in its output, which is not read again: if the driver is killed while the gates run, the loop
/// needs no further iteration to get the promise again.
#[test]
fn a_promise_given_before_the_kill_counts_after_it() {
    let agent = "touch work.txt; echo; echo '<promise>DONE</promise>'";
    let gate = "if test -e ../slow; then touch ../runs; sleep 60; fi; test -e work.txt";
    let driven = DrivenLoop::of(1, agent, gate);
    let more = ["--no-checkpoints", "--completion-promise", "DONE"];
    let beside = |what: &str| driven.sandbox.path(&format!("../{what}"));
    fs::write(beside("slow"), "").expect("a file");
    let mut killed = driven.begins(&more).stderr(Stdio::null()).spawn().expect("the binary");
    wait_until("the gate runs", || beside("runs").exists());
    killed.kill().expect("a child of ours");
    killed.wait().expect("an end");
    fs::remove_file(beside("slow")).expect("our own");
    to_its_end(driven.resumes(&more)).success();
    driven.is_over_and_complete(Disturbed::ByKills).expect("one iteration");
}

/// An agent that works until it is signalled.
fn works_until_signalled() -> DrivenLoop {
    DrivenLoop::of(1, "until test -e ../go; do sleep 0.01; done; touch work.txt", "test -e work.txt")
}

/// Two drivers start at the same moment: one drives, the other names it.
fn one_drives_and_the_other_names_the_driver(driven: &DrivenLoop, both: [Command; 2]) -> Result<(), String> {
    let mut begun = both.map(|mut command| {
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary")
    });
    wait_until("one of them is refused", || {
        begun.iter_mut().any(|child| child.try_wait().expect("a child of ours").is_some())
    });
    fs::write(driven.sandbox.path("../go"), "").expect("a file");
    let pids = begun.each_ref().map(std::process::Child::id);
    let ran = begun.map(|child| Finished::of(child.wait_with_output().expect("an end")));
    let drove = ran.iter().position(|ran| ran.code == Some(0) && ran.stdout.contains("VERIFIED_DONE"));
    let right = drove.is_some_and(|drove| {
        let other = &ran[1 - drove];
        let says_who = other.stderr.contains(&format!("process {}", pids[drove]));
        other.code == Some(3) && other.stdout.is_empty() && says_who
    });
    if right { Ok(()) } else { Err(format!("{pids:?} {ran:#?}")) }
}

/// Several rounds at a time: each is mostly waiting.
fn fifty_times(round: impl Fn() -> Result<(), String> + Sync) {
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while next.fetch_add(1, Ordering::Relaxed) < 50 {
                    round().expect("one of two drives");
                }
            });
        }
    });
}

#[test]
fn of_two_concurrent_resumes_one_drives_and_the_other_names_the_driver() {
    fifty_times(|| {
        let driven = works_until_signalled();
        let mut killed =
            driven.begins(&["--no-checkpoints"]).stderr(Stdio::null()).spawn().expect("the binary");
        let home = driven.sandbox.ralph_home();
        wait_until("its agent runs", || driven_events(&home).is_ok_and(|events| events.len() >= 3));
        killed.kill().expect("a child of ours");
        killed.wait().expect("an end");
        one_drives_and_the_other_names_the_driver(&driven, [driven.resumes(&[]), driven.resumes(&[])])?;
        driven.is_over_and_complete(Disturbed::ByKills)
    });
}

#[test]
fn of_two_loops_started_at_once_in_one_work_tree_one_is_driven() {
    fifty_times(|| {
        let driven = works_until_signalled();
        let begins = || driven.begins(&["--no-checkpoints"]);
        one_drives_and_the_other_names_the_driver(&driven, [begins(), begins()])?;
        driven.is_over_and_complete(Disturbed::ByKills)
    });
}
