//! What is not the promise, however near it comes. The gates pass in all of these: only the promise is missing.

use ralph_testkit::{Claude, Script, Turn};

use super::{LOOP, PROMISE, START, VERIFIED, finished, session};
use crate::session::verdicts_of;

/// Says `near_miss`, is told `why` it does not count, and promises.
fn near_miss(claude: &Claude, near_miss: &str, why: &str) {
    let sandbox = finished();
    let seen = session(claude, &sandbox).prompt(START).play(Script::new().main(vec![
            Turn::say(near_miss),
            Turn::say(PROMISE)
                .expecting("Not done yet (iteration 1)")
                .expecting(why)
                .expecting_not("false promise"),
        ]));
    assert_eq!(verdicts_of(&sandbox, LOOP), ["held promise_missing", VERIFIED], "{seen}");
    assert!(seen.person_saw(&["Stop says", "DONE"]), "{seen}");
    assert!(seen.person_saw(&["Loop done, verified"]), "{seen}");
}

#[test]
fn talking_about_the_promise_does_not_give_it() {
    let Some(claude) = Claude::for_test("talking_about_the_promise_does_not_give_it") else { return };
    near_miss(
        &claude,
        "I will output <promise>DONE</promise> when the file is there.",
        "stands alone on a line, with nothing before or after it",
    );
}

#[test]
fn a_promise_in_a_code_block_is_only_shown() {
    let Some(claude) = Claude::for_test("a_promise_in_a_code_block_is_only_shown") else { return };
    near_miss(
        &claude,
        "It ends with:\n\n```\n<promise>DONE</promise>\n```",
        "The promise was shown as code; it counts only as plain text",
    );
}

#[test]
fn another_promise_is_not_the_promise() {
    let Some(claude) = Claude::for_test("another_promise_is_not_the_promise") else { return };
    near_miss(&claude, "Almost.\n\n<promise>SOON</promise>", "Something else was promised (SOON)");
}

/// The evidence is there without it: asked for once, then noted.
#[test]
fn a_promise_that_never_comes_is_asked_for_once_where_the_gates_pass() {
    let name = "a_promise_that_never_comes_is_asked_for_once_where_the_gates_pass";
    let Some(claude) = Claude::for_test(name) else { return };
    let sandbox = finished();
    let seen = session(&claude, &sandbox).prompt(START).play(Script::new().main(vec![
        Turn::say("It is there."),
        Turn::say("It is there, as I said.").expecting("<promise>DONE</promise>"),
    ]));
    assert_eq!(
        verdicts_of(&sandbox, LOOP),
        ["held promise_missing", "verified all_gates_passed_unpromised"],
        "{seen}"
    );
    assert!(seen.person_saw(&["Loop done, verified", "promise"]), "{seen}");
}
