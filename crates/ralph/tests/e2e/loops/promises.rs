//! Text that resembles the promise. The agent makes the gates pass in all of these: only the promise is missing.

use ralph_testkit::{Claude, Script, Turn};

use super::{LOOP, PROMISE, START, VERIFIED, session, unfinished};
use crate::session::{bash, verdicts_of};

/// Prints `near_miss`, gets the reason (`why`) it does not count, and promises.
fn near_miss(claude: &Claude, near_miss: &str, why: &str) {
    let sandbox = unfinished();
    let seen = session(claude, &sandbox).prompt(START).play(Script::new().main(vec![
            bash("touch done.txt"),
            Turn::say(near_miss),
            Turn::say(PROMISE)
                .expecting("Not done yet (iteration 1)")
                .expecting(why)
                .expecting_not("false promise"),
        ]));
    assert_eq!(verdicts_of(&sandbox, LOOP), ["blocked promise_missing", VERIFIED], "{seen}");
    assert!(seen.user_saw(&["Stop says", "DONE"]), "{seen}");
    assert!(seen.user_saw(&["Loop done, verified"]), "{seen}");
}

#[test]
fn talking_about_the_promise_does_not_give_it() {
    let claude = Claude::for_test();
    near_miss(
        &claude,
        "I will output <promise>DONE</promise> when the file is there.",
        "is alone on a line, with nothing before or after it",
    );
}

#[test]
fn a_promise_in_a_code_block_does_not_count() {
    let claude = Claude::for_test();
    near_miss(
        &claude,
        "It ends with:\n\n```\n<promise>DONE</promise>\n```",
        "The promise was inside code; it counts only as plain text",
    );
}

#[test]
fn another_promise_is_not_the_promise() {
    let claude = Claude::for_test();
    near_miss(&claude, "Almost.\n\n<promise>SOON</promise>", "A different promise was given (SOON)");
}

/// The gates pass without it: it is requested once, then its absence is noted.
#[test]
fn a_missing_promise_is_requested_once_where_the_gates_pass() {
    let claude = Claude::for_test();
    let sandbox = unfinished();
    let seen = session(&claude, &sandbox).prompt(START).play(Script::new().main(vec![
        bash("touch done.txt"),
        Turn::say("It is there."),
        Turn::say("It is there, as I said.").expecting("<promise>DONE</promise>"),
    ]));
    assert_eq!(
        verdicts_of(&sandbox, LOOP),
        ["blocked promise_missing", "verified all_gates_passed_unpromised"],
        "{seen}"
    );
    assert!(seen.user_saw(&["Loop done, verified", "promise"]), "{seen}");
}
