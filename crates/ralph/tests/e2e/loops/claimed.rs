//! A loop whose session is gone stays paused until another one claims it. Its count is kept.

use ralph_testkit::{Claude, Script, Turn};

use super::{BLOCKED, LOOP, PROMISE, START, resumed_and_verified, session, unfinished};
use crate::session::{bash, life_of};

/// A session that ends after one blocked stop; then a new one types `words`.
fn claimed_by(claude: &Claude, words: &str) {
    let sandbox = unfinished();
    let gone = session(claude, &sandbox)
        .cut_off_after(2)
        .prompt(START)
        .play(Script::new().main(vec![Turn::say("I looked around."), bash("touch other")]));
    assert_eq!(life_of(&sandbox, LOOP), ["began", "bound", BLOCKED, "paused session_ended"], "{gone}");

    let seen = session(claude, &sandbox).prompt(words).play(Script::new().main(vec![
        Turn::say("I looked again.")
            .expecting("The task:\nmake the file")
            .expecting("Stops judged so far: 1."),
        bash("touch done.txt").expecting("Not done yet (iteration 2)"),
        Turn::say(PROMISE),
    ]));
    resumed_and_verified(&sandbox, &seen);
    assert!(seen.output.said("There is a paused loop here: make the file"), "{seen}");
    assert!(seen.user_saw(&["Loop resumed"]), "{seen}");
    assert_ne!(gone.output.session(), seen.output.session());
}

#[test]
fn a_new_session_claims_the_loop_by_the_same_task() {
    let claude = Claude::for_test();
    claimed_by(&claude, START);
}

#[test]
fn a_new_session_claims_the_loop_by_a_word() {
    let claude = Claude::for_test();
    claimed_by(&claude, "繼續");
}
