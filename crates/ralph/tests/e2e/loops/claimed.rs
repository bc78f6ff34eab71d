//! A loop whose session is gone waits, paused, until another one claims it. Its count is kept.

use ralph_testkit::{Claude, Script, Turn};

use super::{HELD, LOOP, PROMISE, START, VERIFIED, attempts, session, unfinished};
use crate::session::{bash, life_of};

/// A session that goes away after one held stop; then a new one types `words`.
fn claimed_by(claude: &Claude, words: &str) {
    let sandbox = unfinished();
    let gone = session(claude, &sandbox)
        .cut_off_after(2)
        .prompt(START)
        .play(Script::new().main(vec![Turn::say("I looked around."), bash("touch other")]));
    assert_eq!(life_of(&sandbox, LOOP), ["began", "bound", HELD, "paused session_ended"], "{gone}");

    let seen = session(claude, &sandbox).prompt(words).play(Script::new().main(vec![
        Turn::say("I looked again.")
            .expecting("The task:\nmake the file")
            .expecting("Stops judged so far: 1."),
        bash("touch done").expecting("Not done yet (iteration 2)"),
        Turn::say(PROMISE),
    ]));
    assert_eq!(
        life_of(&sandbox, LOOP)[3..],
        ["paused session_ended", "bound", "resumed", HELD, VERIFIED],
        "{seen}"
    );
    assert_eq!(attempts(&sandbox), [1, 2, 3]);
    assert!(seen.output.said("There is a paused loop here: make the file"), "{seen}");
    assert!(seen.person_saw(&["Loop resumed"]), "{seen}");
    assert_ne!(gone.output.session(), seen.output.session());
}

#[test]
fn a_new_session_claims_it_by_the_same_task() {
    let Some(claude) = Claude::for_test("a_new_session_claims_it_by_the_same_task") else { return };
    claimed_by(&claude, START);
}

#[test]
fn a_new_session_claims_it_by_a_word() {
    let Some(claude) = Claude::for_test("a_new_session_claims_it_by_a_word") else { return };
    claimed_by(&claude, "繼續");
}
