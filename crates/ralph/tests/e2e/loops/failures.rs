//! A turn that ends with an error is not a stop: the error is counted, and the loop continues.

use ralph_testkit::{Claude, Script, Turn};

use super::{BLOCKED, LOOP, PROMISE, START, VERIFIED, refused, session, unfinished};
use crate::session::{bash, life_of};

#[test]
fn an_api_error_is_counted_and_does_not_end_the_loop() {
    let claude = Claude::for_test();
    let sandbox = unfinished();
    let seen =
        session(&claude, &sandbox).prompt(START).then_prompt("Try again.").play(Script::new().main(vec![
            Turn::say("I looked around."),
            refused(),
            Turn::say("Again.").expecting("Try again."),
            bash("touch done.txt").expecting("Not done yet (iteration 2)"),
            Turn::say(PROMISE),
        ]));
    assert_eq!(
        life_of(&sandbox, LOOP),
        ["began", "bound", BLOCKED, "error_seen agent_execution", BLOCKED, VERIFIED],
        "{seen}"
    );
}

#[test]
fn three_errors_in_a_row_pause_the_loop_and_are_named() {
    let claude = Claude::for_test();
    let sandbox = unfinished();
    let error_seen = "error_seen agent_execution";
    let seen = session(&claude, &sandbox)
        .prompt(START)
        .then_prompt("Try again.")
        .then_prompt("And again.")
        .then_prompt("How does it look?")
        .play(Script::new().main(vec![
            refused(),
            refused(),
            refused(),
            Turn::say("It does not.").expecting("How does it look?"),
        ]));
    assert_eq!(
        life_of(&sandbox, LOOP),
        ["began", "bound", error_seen, error_seen, error_seen, "paused errors", "paused session_ended"],
        "{seen}"
    );
    assert!(seen.user_saw(&["nope"]), "{seen}");
}
