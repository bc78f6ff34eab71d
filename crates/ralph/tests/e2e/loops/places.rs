//! Where a loop holds: in its own session and nowhere else, whatever folder that session goes to, and in the same session
//! when it comes back or has forgotten.

use std::{fs, thread};

use ralph_testkit::{Claude, Script, Turn};

use super::{HELD, LOOP, PROMISE, START, VERIFIED, attempts, refused, session, unfinished};
use crate::session::{bash, life_of, memory, verdicts_of};
use crate::support::{Sandbox, wait_until};

#[test]
fn another_session_of_the_repo_is_never_held() {
    let Some(claude) = Claude::for_test("another_session_of_the_repo_is_never_held") else { return };
    let sandbox = unfinished();
    let go = sandbox.path("../go");
    thread::scope(|scope| {
        let looping = scope.spawn(|| {
            session(&claude, &sandbox).prompt(START).play(Script::new().main(vec![
                bash("touch ../waits; until test -e ../go; do sleep 0.1; done; touch done"),
                Turn::say(PROMISE),
            ]))
        });
        wait_until("the loop's agent waits", || sandbox.exists("../waits"));
        let before = memory(&sandbox);
        let stranger = session(&claude, &sandbox)
            .beside_another()
            .prompt("What is in this folder?")
            .play(Script::new().main(vec![Turn::say("Nothing much.").expecting_not("ralph holds")]));
        let after = memory(&sandbox);
        fs::write(&go, "").expect("a file");
        assert_eq!(stranger.requests_of_session(), 1, "{stranger}");
        assert_eq!(stranger.shown_to_person(), Vec::<&str>::new(), "{stranger}");
        let answers = stranger.output.rows.iter().filter(|row| row["subtype"] == "hook_response");
        assert!(answers.clone().count() > 0 && answers.clone().all(|row| row["stdout"] == ""), "{stranger}");
        assert_eq!(before, after, "what ralph remembers");
        let seen = looping.join().expect("the loop's session");
        assert_eq!(verdicts_of(&sandbox, LOOP), [VERIFIED], "{seen}");
    });
}

#[test]
fn a_session_in_a_subfolder_is_judged_at_the_root() {
    let Some(claude) = Claude::for_test("a_session_in_a_subfolder_is_judged_at_the_root") else { return };
    let sandbox = Sandbox::gated("verify:\n  - pwd >> ../judged-in; test -e done\n");
    sandbox.file("sub/here", "");
    let seen = session(&claude, &sandbox).prompt(START).play(Script::new().main(vec![
        bash("cd sub"),
        bash("pwd; touch ../other"),
        Turn::say("I am in a subfolder.").expecting("/project/sub"),
        bash("pwd; touch ../done").expecting("Not done yet (iteration 1)"),
        Turn::say(PROMISE).expecting("/project/sub"),
    ]));
    assert_eq!(verdicts_of(&sandbox, LOOP), [HELD, VERIFIED], "{seen}");
    let root = sandbox.project().display().to_string();
    assert_eq!(sandbox.read("../judged-in").lines().collect::<Vec<_>>(), [root.as_str(); 2], "{seen}");
}

#[test]
fn a_resumed_session_goes_on_with_its_count() {
    let Some(claude) = Claude::for_test("a_resumed_session_goes_on_with_its_count") else { return };
    let sandbox = unfinished();
    let home = sandbox.home();
    let first = session(&claude, &sandbox)
        .home(&home)
        .cut_off_after(2)
        .prompt(START)
        .play(Script::new().main(vec![Turn::say("I looked around."), bash("touch other")]));
    assert_eq!(life_of(&sandbox, LOOP), ["began", "bound", HELD, "paused session_ended"], "{first}");

    let seen = session(&claude, &sandbox).home(&home).resuming(&first).prompt("Where were we?").play(
        Script::new().main(vec![
            Turn::say("Here.").expecting("The task:\nmake the file").expecting("Stops judged so far: 1."),
            bash("touch done").expecting("Not done yet (iteration 2)"),
            Turn::say(PROMISE),
        ]),
    );
    assert_eq!(
        life_of(&sandbox, LOOP)[3..],
        ["paused session_ended", "bound", "resumed", HELD, VERIFIED],
        "{seen}"
    );
    assert_eq!(attempts(&sandbox), [1, 2, 3]);
}

#[test]
fn after_a_compaction_the_task_is_given_back() {
    let Some(claude) = Claude::for_test("after_a_compaction_the_task_is_given_back") else { return };
    let sandbox = unfinished();
    let seen = session(&claude, &sandbox).prompt(START).then_prompt("/compact").then_prompt("Go on.").play(
        Script::new().main(vec![
            Turn::say("I looked around."),
            // Ends the turn, and not the loop.
            refused(),
            Turn::say("<summary>Somebody looked around.</summary>").expecting("summary"),
            bash("touch done")
                .expecting("Somebody looked around.")
                .expecting("The task:\nmake the file")
                .expecting("Stops judged so far: 1.")
                .expecting("<promise>DONE</promise>"),
            Turn::say(PROMISE),
        ]),
    );
    assert_eq!(verdicts_of(&sandbox, LOOP), [HELD, VERIFIED], "{seen}");
}

/// Clearing gives the session another id. What was said is gone by the person's own wish, so the loop waits for a word.
#[test]
fn a_cleared_session_keeps_its_loop_paused() {
    let Some(claude) = Claude::for_test("a_cleared_session_keeps_its_loop_paused") else { return };
    let sandbox = unfinished();
    let seen = session(&claude, &sandbox)
        .prompt(START)
        .then_prompt("/clear")
        .then_prompt("What is two and two?")
        .then_prompt("continue")
        .play(Script::new().main(vec![
            Turn::say("I looked around."),
            // Ends the turn, and not the loop.
            refused(),
            Turn::say("Four.").expecting("What is two and two?").expecting_not("make the file"),
            bash("touch done").expecting("The task:\nmake the file"),
            Turn::say(PROMISE),
        ]));
    assert_eq!(life_of(&sandbox, LOOP)[4..], ["paused cleared", "bound", "resumed", VERIFIED], "{seen}");
    assert_eq!(attempts(&sandbox), [1, 2]);
    assert!(seen.output.said("Loop paused"), "{seen}");
}
