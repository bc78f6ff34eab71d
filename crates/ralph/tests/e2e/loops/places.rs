//! Where a loop blocks: only in its own session, in any folder that session changes to, and in the same session
//! after it is resumed or compacted.

use std::{fs, thread};

use ralph_testkit::{Claude, Sandbox, Script, Turn, wait_until};

use super::{
    BLOCKED, LOOP, PROMISE, START, VERIFIED, attempts, refused, resumed_and_verified, session, unfinished,
};
use crate::session::{bash, life_of, memory, verdicts_of};

#[test]
fn another_session_of_the_repo_is_never_blocked() {
    let claude = Claude::for_test();
    let sandbox = unfinished();
    let start_file = sandbox.path("../go");
    thread::scope(|scope| {
        let looping = scope.spawn(|| {
            session(&claude, &sandbox).prompt(START).play(Script::new().main(vec![
                bash("touch ../waits; until test -e ../go; do sleep 0.1; done; touch done.txt"),
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
        fs::write(&start_file, "").expect("a file");
        assert_eq!(stranger.requests_of_session(), 1, "{stranger}");
        assert_eq!(stranger.shown_to_user(), Vec::<&str>::new(), "{stranger}");
        let answers = stranger.output.rows.iter().filter(|row| row["subtype"] == "hook_response");
        assert!(answers.clone().count() > 0 && answers.clone().all(|row| row["stdout"] == ""), "{stranger}");
        assert_eq!(before, after, "what ralph remembers");
        let seen = looping.join().expect("the loop's session");
        assert_eq!(verdicts_of(&sandbox, LOOP), [VERIFIED], "{seen}");
    });
}

#[test]
fn a_session_in_a_subfolder_is_judged_at_the_root() {
    let claude = Claude::for_test();
    let sandbox = Sandbox::gated("verify:\n  - pwd >> ../judged-in; test -e done.txt\n");
    sandbox.file("sub/here", "");
    let seen = session(&claude, &sandbox).prompt(START).play(Script::new().main(vec![
        bash("cd sub"),
        bash("pwd; touch ../other"),
        Turn::say("I am in a subfolder.").expecting("/project/sub"),
        bash("pwd; touch ../done.txt").expecting("Not done yet (iteration 1)"),
        Turn::say(PROMISE).expecting("/project/sub"),
    ]));
    assert_eq!(verdicts_of(&sandbox, LOOP), [BLOCKED, VERIFIED], "{seen}");
    let root = sandbox.project().display().to_string();
    // Twice in place; then once as it is and once without the change, at the same path.
    assert_eq!(sandbox.read("../judged-in").lines().collect::<Vec<_>>(), [root.as_str(); 4], "{seen}");
}

#[test]
fn a_resumed_session_keeps_its_count() {
    let claude = Claude::for_test();
    let sandbox = unfinished();
    let home = sandbox.home();
    let first = session(&claude, &sandbox)
        .home(&home)
        .cut_off_after(2)
        .prompt(START)
        .play(Script::new().main(vec![Turn::say("I looked around."), bash("touch other")]));
    assert_eq!(life_of(&sandbox, LOOP), ["began", "bound", BLOCKED, "paused session_ended"], "{first}");

    let seen = session(&claude, &sandbox).home(&home).resuming(&first).prompt("Where were we?").play(
        Script::new().main(vec![
            Turn::say("Here.").expecting("The task:\nmake the file").expecting("Stops judged so far: 1."),
            bash("touch done.txt").expecting("Not done yet (iteration 2)"),
            Turn::say(PROMISE),
        ]),
    );
    resumed_and_verified(&sandbox, &seen);
}

#[test]
fn after_a_compaction_the_task_is_repeated() {
    let claude = Claude::for_test();
    let sandbox = unfinished();
    let seen = session(&claude, &sandbox).prompt(START).then_prompt("/compact").then_prompt("Go on.").play(
        Script::new().main(vec![
            Turn::say("I looked around."),
            // Ends the turn, not the loop.
            refused(),
            Turn::say("<summary>Somebody looked around.</summary>").expecting("summary"),
            bash("touch done.txt")
                .expecting("Somebody looked around.")
                .expecting("The task:\nmake the file")
                .expecting("Stops judged so far: 1.")
                .expecting("<promise>DONE</promise>"),
            Turn::say(PROMISE),
        ]),
    );
    assert_eq!(verdicts_of(&sandbox, LOOP), [BLOCKED, VERIFIED], "{seen}");
}

/// Clearing gives the session another id. The user discarded the context, so the loop waits for a word.
#[test]
fn a_cleared_session_keeps_its_loop_paused() {
    let claude = Claude::for_test();
    let sandbox = unfinished();
    let seen = session(&claude, &sandbox)
        .prompt(START)
        .then_prompt("/clear")
        .then_prompt("What is two and two?")
        .then_prompt("continue")
        .play(Script::new().main(vec![
            Turn::say("I looked around."),
            // Ends the turn, not the loop.
            refused(),
            Turn::say("Four.").expecting("What is two and two?").expecting_not("make the file"),
            bash("touch done.txt").expecting("The task:\nmake the file"),
            Turn::say(PROMISE),
        ]));
    assert_eq!(life_of(&sandbox, LOOP)[4..], ["paused cleared", "bound", "resumed", VERIFIED], "{seen}");
    assert_eq!(attempts(&sandbox), [1, 2]);
    assert!(seen.output.said("Loop paused"), "{seen}");
}
