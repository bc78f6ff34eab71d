//! `ralph verify` judges whatever was written to the log of its earlier runs, and those runs are not a loop to be paused.

use std::fs;
use std::path::PathBuf;

use ralph_core::ledger::event::{CancelCause, Event, PauseCause};
use ralph_core::ledger::line::{self, ChainHead};
use serde_json::{Value, json};

use ralph_testkit::Sandbox;

/// A repo in which `ralph verify` ran once, after which these events were added to the ledger of such runs.
fn with(events: &[Event]) -> Sandbox {
    let sandbox = Sandbox::gated("verify:\n  - test -e done.txt\n");
    sandbox.ralph(&["verify"]).exits(1);
    let (mut head, mut text) = (ChainHead::origin(), String::new());
    let log = sandbox.ralph(&["log", "verify", "--json"]).success().stdout;
    let known: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect("JSON lines")).collect();
    let at = known[0]["at"].as_str().and_then(|at| at.parse().ok()).expect("a time");
    let known =
        known.into_iter().map(|line| serde_json::from_value(line["event"].clone()).expect("an event"));
    for event in known.chain(events.iter().cloned()) {
        let (line, next) = line::write(&head, at, &event);
        text.push_str(&line);
        head = next;
    }
    let dir = loop_dir(&sandbox);
    fs::write(dir.join("ledger.jsonl"), text).expect("a ledger");
    let _none = fs::remove_file(dir.join("state.json"));
    sandbox
}

fn loop_dir(sandbox: &Sandbox) -> PathBuf {
    let mut repos = fs::read_dir(sandbox.ralph_home().join("repos")).expect("repos").flatten();
    repos.next().expect("the repo").path().join("loops/verify")
}

/// The first event of a session's loop, which has a goal.
fn began_with_a_goal() -> Event {
    let other = Sandbox::gated("verify:\n  - test -e done.txt\n");
    other.ralph(&["start", "fix"]).success();
    serde_json::from_value(other.events_named("began")[0].clone()).expect("an event")
}

#[test]
fn a_paused_or_ended_ledger_is_still_judged() {
    let paused = |why: PauseCause| Event::Paused { why };
    let cancelled = Event::Cancelled { why: CancelCause::Command };
    let table = [
        vec![paused(PauseCause::Command)],
        vec![paused(PauseCause::Errors)],
        vec![cancelled.clone()],
        vec![began_with_a_goal(), paused(PauseCause::Command)],
        vec![began_with_a_goal(), cancelled],
    ];
    for events in table {
        let sandbox = with(&events);
        let ran = sandbox.ralph(&["verify"]).exits(1).says("gate `test -e done.txt` failed");
        assert!(!ran.stderr.contains("internal error"), "{events:?}: {ran:#?}");
        sandbox.ralph(&["verify", "test -e done.txt"]).exits(1);
        sandbox.file("done.txt", "");
        sandbox.ralph(&["verify"]).success();
        assert_eq!(sandbox.verify(&["--fresh"])["verdict"], json!("verified"), "{events:?}");
    }
}

#[test]
fn a_subset_of_the_gates_still_runs() {
    let sandbox = with(&[Event::Paused { why: PauseCause::Command }]);
    sandbox.ralph(&["verify", "test -e done.txt"]).exits(1);
    sandbox.file("done.txt", "");
    sandbox.ralph(&["verify", "test -e done.txt"]).success();
}

#[test]
fn verify_runs_are_not_a_loop_to_pause_resume_or_cancel() {
    let sandbox = with(&[]);
    for (command, word) in [("pause", "verify"), ("resume", "verify"), ("cancel", "verify"), ("pause", "ver")]
    {
        sandbox.ralph(&[command, word]).exits(2).says(&format!(
            "`verify` is the log of your own `ralph verify` runs; there is nothing to {command}"
        ));
    }
    assert!(sandbox.events_named("paused").is_empty() && sandbox.events_named("cancelled").is_empty());
}
