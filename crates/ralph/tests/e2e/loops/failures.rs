//! A turn that dies by an error is no stop: nobody is let go, the error is counted, and the loop is still there.

use ralph_testkit::{Claude, Script, Turn};

use super::{HELD, LOOP, PROMISE, START, VERIFIED, refused, session, unfinished};
use crate::session::{bash, life_of};

#[test]
fn an_error_of_the_api_is_counted_and_ends_nothing() {
    let Some(claude) = Claude::for_test("an_error_of_the_api_is_counted_and_ends_nothing") else { return };
    let sandbox = unfinished();
    let seen =
        session(&claude, &sandbox).prompt(START).then_prompt("Try again.").play(Script::new().main(vec![
            Turn::say("I looked around."),
            refused(),
            Turn::say("Again.").expecting("Try again."),
            bash("touch done").expecting("Not done yet (iteration 2)"),
            Turn::say(PROMISE),
        ]));
    assert_eq!(
        life_of(&sandbox, LOOP),
        ["began", "bound", HELD, "erred agent_execution", HELD, VERIFIED],
        "{seen}"
    );
}

#[test]
fn three_errors_in_a_row_pause_it_and_name_them() {
    let Some(claude) = Claude::for_test("three_errors_in_a_row_pause_it_and_name_them") else { return };
    let sandbox = unfinished();
    let erred = "erred agent_execution";
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
        ["began", "bound", erred, erred, erred, "paused errors", "paused session_ended"],
        "{seen}"
    );
    assert!(seen.person_saw(&["nope"]), "{seen}");
}
