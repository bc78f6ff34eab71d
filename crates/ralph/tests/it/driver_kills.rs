//! `kill -9` of the driver at any moment: whoever goes on with the loop ends it with the same iterations, none lost and
//! none counted twice, and nothing of the one who was killed is left.
//!
//! `RALPH_KILLS=2000` tells more of these stories, `RALPH_KILLS_SEED=…` others.

use std::fs;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ralph_testkit::Dice;

use crate::driven::{Disturbed, DrivenLoop, driven_events, lines_written};
use crate::support::{Ran, wait_until};

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

/// When somebody is killed. Machines are slow at times, so it is not always the clock that says when.
#[derive(Debug)]
enum Moment {
    After(Duration),
    /// So long after this many events were there.
    Events(usize, Duration),
}

impl Moment {
    /// Any moment of a loop that takes so long and has so many events before the kill.
    fn any(dice: &mut Dice, takes: Duration, before: usize) -> Self {
        // What an undisturbed loop writes, and what goes on after a kill adds to it.
        const MOST_EVENTS: u64 = 20;
        match dice.roll() % 2 {
            0 => Self::After(moment_within(dice, takes)),
            _ => {
                let events = usize::try_from(dice.roll() % MOST_EVENTS).expect("a few").max(before);
                Self::Events(events, moment_within(dice, takes / 15))
            }
        }
    }

    /// Waits for it, or for the end of whoever is to be killed.
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

/// How it ended that was killed then, since it may have been faster.
fn killed_at(mut command: Command, moment: &Moment, ralph_home: &Path) -> ExitStatus {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary");
    moment.wait(&mut child, ralph_home);
    child.kill().expect("a child of ours");
    child.wait().expect("an end")
}

fn to_its_end(mut command: Command) -> Ran {
    Ran::of(command.output().expect("the binary"))
}

/// How long a loop takes that nobody disturbs, here and now.
fn undisturbed(more: &[&str]) -> Duration {
    let driven = DrivenLoop::new(ITERATIONS, PAUSE);
    let begun = Instant::now();
    let ran = to_its_end(driven.begins(more)).success();
    let took = begun.elapsed();
    assert!(ran.stdout.lines().any(|line| line == "VERIFIED_DONE"), "{ran:#?}");
    driven.is_over_and_whole(Disturbed::ByKills).expect("undisturbed");
    let left = driven.sandbox.remembered().into_iter().find(|path| path.contains("checkpoint-index"));
    assert_eq!(left, None, "what git took in serves nobody any more");
    took
}

/// Kills it one to three times, each time at any moment of what a whole loop takes, then lets it go on to its end. How many
/// of the kills came in time is told.
fn story(seed: u64, takes: Duration, more: &[&str]) -> Result<u32, String> {
    let mut dice = Dice::new(seed);
    let driven = DrivenLoop::new(ITERATIONS, PAUSE);
    let home = driven.sandbox.ralph_home();
    let (kills, mut in_time, mut told) = (1 + dice.roll() % 3, 0, Vec::new());
    for _ in 0..kills {
        let moment = Moment::any(&mut dice, takes, driven_events(&home)?.len());
        let ended = killed_at(driven.goes_on(more), &moment, &home);
        let events = driven_events(&home)?;
        told.push(format!("{ended}, {moment:?}, {} events, the last {:?}", events.len(), events.last()));
        if ended.signal() != Some(9) {
            break;
        }
        in_time += 1;
    }
    let last = to_its_end(driven.goes_on(more));
    let ended = if last.code == Some(0) { Ok(()) } else { Err("it does not go on to its end".to_owned()) };
    let checked = ended.and_then(|()| driven.is_over_and_whole(Disturbed::ByKills));
    let keeps = more.is_empty();
    let checked = checked.and_then(|()| if keeps { driven.has_every_checkpoint() } else { Ok(()) });
    checked.map(|()| in_time).map_err(|wrong| {
        let events = driven_events(&home).unwrap_or_default();
        let events: Vec<String> = events.iter().map(|event| format!("{event:.200?}")).collect();
        format!("seed {seed}: {wrong}\n{}\n{last:#?}\n{events:#?}", told.join("\n"))
    })
}

#[test]
fn law_9_a_driver_killed_at_any_time_loses_no_iteration_and_counts_none_twice() {
    let stories = number("RALPH_KILLS").unwrap_or(200);
    let seed = number("RALPH_KILLS_SEED").unwrap_or_default().wrapping_mul(1_000_003);
    let begun = Instant::now();
    // One in four keeps checkpoints, which is git at work most of the time.
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
    // Most of the time everybody sleeps.
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
    writeln!(std::io::stdout(), "{shown}").expect("somebody reads");
    assert!(
        wrong.is_empty(),
        "{} of {stories}:\n\n{}",
        wrong.len(),
        wrong[..wrong.len().min(5)].join("\n\n")
    );
    assert!(u64::from(kills) >= stories / 2, "only {kills} kills came in time: are they spread?");
}

/// What runs when the driver is killed is gone once somebody goes on, however long it would have taken and wherever it
/// went: the half-done work of two would be judged as one.
#[test]
fn what_a_killed_driver_left_running_is_ended_by_whoever_goes_on() {
    // Waits for ever while it is told to, with somebody beside it who left the session.
    let stuck = |name: &str| {
        format!("if test -e ../slow-{name}; then setsid sleep 61 & touch ../runs-{name}; sleep 60; fi")
    };
    let verify = |root: &str| format!("{}; {root} verify > /dev/null; true", stuck("agent"));
    for name in ["agent", "gate", "inner"] {
        let gate = format!("{}; {}; test -e work", stuck("gate"), stuck("inner"));
        let agent = if name == "inner" { verify(crate::support::RALPH) } else { stuck("agent") };
        let driven = DrivenLoop::of(1, &format!("{agent}; touch work"), &gate);
        let beside = |what: &str| driven.sandbox.path(&format!("../{what}-{name}"));
        fs::write(beside("slow"), "").expect("a file");
        let mut killed =
            driven.begins(&["--no-checkpoints"]).stderr(Stdio::null()).spawn().expect("the binary");
        wait_until(name, || beside("runs").exists());
        killed.kill().expect("a child of ours");
        killed.wait().expect("an end");
        assert!(!driven.processes().is_empty(), "{name}: nothing was left to be ended");
        fs::remove_file(beside("slow")).expect("our own");
        let ran = to_its_end(driven.goes_on(&[])).success();
        let whole = driven.is_over_and_whole(Disturbed::ByKills);
        assert!(whole.is_ok(), "{name}: {whole:?}\n{ran:#?}");
    }
}

/// The agent's promise is in its words, and nobody will hear them again: killed while its gates run, the loop needs no
/// further iteration to be told the same once more.
#[test]
fn what_the_agent_promised_before_the_kill_counts_after_it() {
    let agent = "touch work; echo; echo '<promise>DONE</promise>'";
    let gate = "if test -e ../slow; then touch ../runs; sleep 60; fi; test -e work";
    let driven = DrivenLoop::of(1, agent, gate);
    let more = ["--no-checkpoints", "--completion-promise", "DONE"];
    let beside = |what: &str| driven.sandbox.path(&format!("../{what}"));
    fs::write(beside("slow"), "").expect("a file");
    let mut killed = driven.begins(&more).stderr(Stdio::null()).spawn().expect("the binary");
    wait_until("the gate runs", || beside("runs").exists());
    killed.kill().expect("a child of ours");
    killed.wait().expect("an end");
    fs::remove_file(beside("slow")).expect("our own");
    to_its_end(driven.goes_on(&more)).success();
    driven.is_over_and_whole(Disturbed::ByKills).expect("one iteration");
}

/// An agent that works until it is told to come to its end.
fn works_until_told() -> DrivenLoop {
    DrivenLoop::of(1, "until test -e ../go; do sleep 0.01; done; touch work", "test -e work")
}

/// Two who want the same at the same moment: one drives, the other says who does.
fn one_drives_and_the_other_says_who(driven: &DrivenLoop, both: [Command; 2]) -> Result<(), String> {
    let mut begun = both.map(|mut command| {
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary")
    });
    wait_until("one of them is refused", || {
        begun.iter_mut().any(|child| child.try_wait().expect("a child of ours").is_some())
    });
    fs::write(driven.sandbox.path("../go"), "").expect("a file");
    let pids = begun.each_ref().map(std::process::Child::id);
    let ran = begun.map(|child| Ran::of(child.wait_with_output().expect("an end")));
    let drove = ran.iter().position(|ran| ran.code == Some(0) && ran.stdout.contains("VERIFIED_DONE"));
    let right = drove.is_some_and(|drove| {
        let other = &ran[1 - drove];
        let says_who = other.stderr.contains(&format!("process {}", pids[drove]));
        other.code == Some(3) && other.stdout.is_empty() && says_who
    });
    if right { Ok(()) } else { Err(format!("{pids:?} {ran:#?}")) }
}

/// Several rounds at a time: most of each is waiting.
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
fn of_two_who_go_on_at_once_one_drives_and_the_other_says_who() {
    fifty_times(|| {
        let driven = works_until_told();
        let mut killed =
            driven.begins(&["--no-checkpoints"]).stderr(Stdio::null()).spawn().expect("the binary");
        let home = driven.sandbox.ralph_home();
        wait_until("its agent runs", || driven_events(&home).is_ok_and(|events| events.len() >= 3));
        killed.kill().expect("a child of ours");
        killed.wait().expect("an end");
        one_drives_and_the_other_says_who(&driven, [driven.goes_on(&[]), driven.goes_on(&[])])?;
        driven.is_over_and_whole(Disturbed::ByKills)
    });
}

#[test]
fn of_two_loops_that_begin_at_once_in_one_work_tree_one_is_driven() {
    fifty_times(|| {
        let driven = works_until_told();
        let begins = || driven.begins(&["--no-checkpoints"]);
        one_drives_and_the_other_says_who(&driven, [begins(), begins()])?;
        driven.is_over_and_whole(Disturbed::ByKills)
    });
}
