//! A session loop with the real client: it is blocked until the promise is given and the gates pass.

mod background;
mod claimed;
mod commands;
mod failures;
mod freed;
mod limits;
mod places;
mod promises;

use ralph_testkit::{Claude, Sandbox, Script, Turn};
use serde_json::Value;

use crate::session::{ClaudeSession, Seen, bash, life_of, verdicts_of};

/// The user's prompt; the loop's id begins with [`LOOP`].
const START: &str = "/ralph:ralph-loop \"make the file\" --completion-promise DONE";
const LOOP: &str = "make-the-file";

const PROMISE: &str = "It is finished.\n\n<promise>DONE</promise>";

const BLOCKED: &str = "blocked gates_failed";
const VERIFIED: &str = "verified all_gates_passed";

/// A repo whose one gate requires the file `done`.
fn unfinished() -> Sandbox {
    Sandbox::gated("verify:\n  - test -e done.txt\n")
}

fn session<'a>(claude: &Claude, sandbox: &'a Sandbox) -> ClaudeSession<'a> {
    ClaudeSession::new(claude, sandbox).with_our_plugin()
}

/// An error that the client does not retry: its turn ends, and the loop does not.
fn refused() -> Turn {
    Turn::api_error(403, "permission_error", "nope")
}

/// The verdicts with the attempt of each.
fn attempts(sandbox: &Sandbox) -> Vec<u64> {
    let judged = sandbox.events_named("judged");
    judged.iter().map(|event| event["attempt"].as_u64().expect("a number")).collect()
}

/// The status of the one loop, by `ralph status --json`.
fn loop_status(sandbox: &Sandbox) -> Value {
    sandbox.state()["status"].clone()
}

#[test]
fn a_loop_ends_only_with_the_promise_and_green_gates() {
    let claude = Claude::for_test();
    let sandbox = unfinished();
    let seen = session(&claude, &sandbox).prompt(START).play(Script::new().main(vec![
            Turn::say("I looked around.")
                .expecting("ralph keeps this session working until the task is verified"),
            Turn::say(PROMISE)
                .expecting("Not done yet (iteration 1): gate `test -e done.txt` failed")
                .expecting("ralph keeps this session working on the task: make the file")
                .expecting_not("false promise"),
            bash("touch done.txt").expecting("Not done yet (iteration 2)").expecting("false promise"),
            Turn::say("Now it is there.\n\n<promise>DONE</promise>"),
        ]));
    assert_eq!(verdicts_of(&sandbox, LOOP), [BLOCKED, BLOCKED, VERIFIED], "{seen}");
    assert_eq!(attempts(&sandbox), [1, 2, 3]);
    let false_promises: Vec<Value> =
        sandbox.events_named("judged").iter().map(|event| event["false_promise"].clone()).collect();
    assert_eq!(false_promises, [Value::Null, true.into(), Value::Null], "{seen}");
    assert!(seen.user_saw(&["UserPromptExpansion says", "make the file"]), "{seen}");
    assert!(seen.user_saw(&["Stop says", "test -e done.txt"]), "{seen}");
    assert!(seen.user_saw(&["Loop done, verified"]), "{seen}");
    assert!(!sandbox.exists(".claude/ralph-loop.local.md"), "the file of a loop that is over");
}

/// A loop that was paused with its session after one judged stop continued in the next run, to a verified end.
#[track_caller]
fn resumed_and_verified(sandbox: &Sandbox, seen: &Seen) {
    let life = life_of(sandbox, LOOP);
    assert_eq!(life[3..], ["paused session_ended", "bound", "resumed", BLOCKED, VERIFIED], "{seen}");
    assert_eq!(attempts(sandbox), [1, 2, 3]);
}
