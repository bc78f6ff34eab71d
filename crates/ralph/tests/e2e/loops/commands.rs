//! The hook answers the user's loop commands: the model neither receives nor answers them.

use ralph_testkit::{Claude, Script, Turn};

use super::{BLOCKED, LOOP, PROMISE, START, VERIFIED, attempts, loop_status, refused, session, unfinished};
use crate::session::{ClaudeSession, bash, ended, life_of, verdicts_of};

/// One blocked stop, then an API error: the turn ends, the loop does not.
fn left_running() -> Vec<Turn> {
    vec![Turn::say("I looked around."), refused()]
}

#[test]
fn cancelling_is_answered_without_the_model() {
    let claude = Claude::for_test();
    let sandbox = unfinished();
    let mut turns = left_running();
    turns.push(Turn::say("Hello.").expecting("Say hello.").expecting_not("Cancelled"));
    let seen = session(&claude, &sandbox)
        .prompt(START)
        .then_prompt("/ralph:cancel-ralph")
        .then_prompt("/ralph:cancel-ralph")
        .then_prompt("Say hello.")
        .play(Script::new().main(turns));
    assert_eq!(life_of(&sandbox, LOOP).last().expect("a life"), "cancelled command", "{seen}");
    assert_eq!(verdicts_of(&sandbox, LOOP), [BLOCKED], "{seen}");
    let results = seen.output.results();
    assert!(results[1].contains("Cancelled Ralph loop (was at iteration 2)"), "{seen}");
    assert!(results[2].contains("No active Ralph loop found."), "{seen}");
    assert_eq!(seen.requests_of_session(), 3, "{seen}");
    assert!(!sandbox.exists(".claude/ralph-loop.local.md"));
}

#[test]
fn the_status_is_answered_without_the_model() {
    let claude = Claude::for_test();
    let sandbox = unfinished();
    let seen = session(&claude, &sandbox)
        .prompt("/ralph:ralph-status")
        .then_prompt(START)
        .then_prompt("/ralph:ralph-status")
        .play(Script::new().main(left_running()));
    let results = seen.output.results();
    assert!(results[0].contains("No active Ralph loop found."), "{seen}");
    assert!(results[2].contains("make the file") && results[2].contains("DONE"), "{seen}");
    assert!(results[2].contains("#1 / "), "{seen}");
    assert_eq!(seen.requests_of_session(), 2, "{seen}");
}

#[test]
fn invalid_arguments_start_nothing() {
    let claude = Claude::for_test();
    let sandbox = unfinished();
    let cases = [
        ("/ralph:ralph-loop \"make the file\" --max-iterations abc", "abc"),
        ("/ralph:ralph-loop \"make the file\" --completion-promise", "--completion-promise"),
        ("/ralph:ralph-loop", "task"),
    ];
    let seen = session(&claude, &sandbox)
        .prompt(cases[0].0)
        .then_prompt(cases[1].0)
        .then_prompt(cases[2].0)
        .play(Script::new());
    let results = seen.output.results();
    for (result, (words, named)) in results.iter().zip(cases) {
        assert!(
            result.contains(named) && result.contains("Nothing was started."),
            "{words}: {result}\n{seen}"
        );
    }
    assert_eq!((results.len(), seen.requests_of_session()), (3, 0), "{seen}");
    assert_eq!(sandbox.events(), Vec::<serde_json::Value>::new());
    assert!(!sandbox.exists(".claude/ralph-loop.local.md"));
}

#[test]
fn deleting_the_loop_file_cancels_the_loop() {
    let claude = Claude::for_test();
    let sandbox = unfinished();
    // The client lets only the user change its own folder.
    sandbox.file("off.sh", "rm .claude/ralph-loop.local.md");
    let seen = session(&claude, &sandbox).prompt(START).play(Script::new().main(vec![
        bash("cat .claude/ralph-loop.local.md"),
        Turn::say("I looked around.").expecting("active: true").expecting("make the file"),
        bash("sh off.sh").expecting("Not done yet (iteration 1)"),
        Turn::say("It is off."),
    ]));
    assert_eq!(life_of(&sandbox, LOOP), ["began", "bound", BLOCKED, "cancelled file_deleted"], "{seen}");
    assert!(seen.user_saw(&["Stop says", "Cancelled Ralph loop (was at iteration 2)"]), "{seen}");
    assert_eq!(loop_status(&sandbox), ended("cancelled"));
}

#[test]
fn a_loop_pauses_and_continues_by_a_word() {
    let claude = Claude::for_test();
    let sandbox = unfinished();
    let mut turns = left_running();
    turns.extend([
        Turn::say("Four.").expecting("What is two and two?"),
        bash("touch done.txt").expecting("The task:\nmake the file"),
        Turn::say(PROMISE),
    ]);
    let seen = session(&claude, &sandbox)
        .prompt(START)
        .then_prompt("暫停")
        .then_prompt("What is two and two?")
        .then_prompt("continue")
        .play(Script::new().main(turns));
    // The client does not wait for the hook that reports its error: it may come before the pause or be lost after it.
    let life: Vec<String> = life_of(&sandbox, LOOP)
        .into_iter()
        .skip(3)
        .filter(|event| event != "error_seen agent_execution")
        .collect();
    assert_eq!(life, ["paused word", "resumed", VERIFIED], "{seen}");
    assert!(seen.output.results()[1].contains("Loop paused"), "{seen}");
    assert_eq!(seen.requests_of_session(), 5, "the word itself is no prompt for the model: {seen}");
}

/// Without the plugin: what `init` writes is enough, and the command has no prefix.
#[test]
fn after_init_the_plain_command_starts_and_cancels_a_loop() {
    let claude = Claude::for_test();
    let sandbox = unfinished();
    sandbox.ralph(&["init", "--yes"]).success();
    let seen = ClaudeSession::new(&claude, &sandbox)
        .already_installed()
        .prompt(&START.replace("/ralph:", "/"))
        .then_prompt("/ralph-loop \"make another file\" --completion-promise DONE")
        .then_prompt("/cancel-ralph")
        .play(Script::new().main(vec![
            Turn::say("I looked around.").expecting("The task:\nmake the file"),
            Turn::say(PROMISE).expecting("Not done yet (iteration 1)"),
            bash("touch done.txt").expecting("false promise"),
            Turn::say(PROMISE),
            bash("rm done.txt").expecting("The task:\nmake another file"),
            Turn::say("Not yet."),
            refused(),
        ]));
    assert_eq!(verdicts_of(&sandbox, LOOP), [BLOCKED, BLOCKED, VERIFIED], "{seen}");
    assert_eq!(life_of(&sandbox, "make-another-file").last().expect("a life"), "cancelled command", "{seen}");
    assert!(seen.output.results()[2].contains("Cancelled Ralph loop (was at iteration 2)"), "{seen}");
}

/// The plugin and `ralph init` together: the client calls us twice for every stop.
#[test]
fn with_the_plugin_and_hooks_in_the_settings_each_stop_counts_once() {
    let claude = Claude::for_test();
    let sandbox = unfinished();
    sandbox.ralph(&["init", "--yes"]).success();
    let seen = session(&claude, &sandbox).prompt(START).play(Script::new().main(vec![
        Turn::say("I looked around."),
        bash("touch done.txt").expecting("Not done yet (iteration 1)"),
        Turn::say(PROMISE),
    ]));
    assert_eq!(seen.output.hook_responses("Stop").len(), 4, "two voices at each of two stops: {seen}");
    assert_eq!(verdicts_of(&sandbox, LOOP), [BLOCKED, VERIFIED], "{seen}");
    assert_eq!(attempts(&sandbox), [1, 2]);
    assert_eq!(seen.shown_to_user().len(), 3, "{seen}");
}
