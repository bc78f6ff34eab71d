//! `ralph log`: what was, event by event.

use serde_json::Value;

use crate::support::Sandbox;

#[test]
fn the_story_of_a_loop_can_be_read() {
    let sandbox = Sandbox::gated("verify: [test -e done.txt]\n");
    sandbox.stop("check").answer().held();
    sandbox.file("done.txt", "");
    sandbox.stop("check").answer().let_go().expect("verified");
    let told = sandbox.ralph(&["log"]).success().stdout;
    let mut from = 0;
    for part in [
        "began: `check`",
        "gate `test -e done.txt` failed with exit code 1",
        "attempt 1: held: gate",
        "gate `test -e done.txt` passed",
        "attempt 2: verified",
    ] {
        let at = told[from..]
            .find(part)
            .unwrap_or_else(|| panic!("`{part}` is not there or not in order:\n{told}"));
        from += at;
    }
    let names: Vec<String> = sandbox
        .ralph(&["log", "--json"])
        .success()
        .stdout
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).expect("JSON")["event"]["event"]
                .as_str()
                .expect("a name")
                .to_owned()
        })
        .collect();
    assert_eq!(names, ["began", "run_started", "gate_ran", "judged", "run_started", "gate_ran", "judged"]);
}

#[test]
fn the_lines_are_numbered_and_chained() {
    let sandbox = Sandbox::gated("verify: ['false']\n");
    sandbox.stop("check").answer().held();
    let events = sandbox.events();
    for (at, event) in events.iter().enumerate() {
        assert_eq!(event["seq"], at as u64 + 1, "{event}");
        assert_eq!(event["hash"].as_str().expect("a hash").len(), 64);
    }
}

#[test]
fn without_a_loop_there_is_nothing_to_tell() {
    Sandbox::gated("verify: ['true']\n").ralph(&["log"]).exits(2).says("there is no loop in this repo yet");
}
