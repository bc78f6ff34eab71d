//! An agent that waits for its own agents may end its turn; a shell in the background excuses nothing.

use ralph_testkit::{Claude, Script, Turn};
use serde_json::json;

use super::{BLOCKED, LOOP, PROMISE, START, VERIFIED, attempts, session, unfinished};
use crate::session::{Runs, bash, life_of, one_sub_agent, verdicts_of};

#[test]
fn a_stop_that_waits_for_a_sub_agent_is_not_an_attempt() {
    let claude = Claude::for_test();
    let sandbox = unfinished();
    let work = vec![bash("touch done.txt"), Turn::say("The file is there.")];
    let script = one_sub_agent("worker", Runs::InBackground, work, Turn::say(PROMISE));
    let seen = session(&claude, &sandbox).prompt(START).play(script);
    assert_eq!(
        life_of(&sandbox, LOOP),
        ["began", "bound", "agent_called worker", "waited", "agent_finished worker", VERIFIED],
        "{seen}"
    );
    assert_eq!(attempts(&sandbox), [1], "{seen}");
    assert!(seen.user_saw(&["Waiting for background work"]), "{seen}");
}

#[test]
fn a_background_shell_does_not_excuse_a_stop() {
    let claude = Claude::for_test();
    let sandbox = unfinished();
    let command = "until test -e ../go; do sleep 0.1; done";
    let server = json!({"command": command, "description": "A server", "run_in_background": true});
    let script = Script::new().main(vec![
        Turn::tool("Bash", server),
        Turn::say("The server runs.").expecting("background"),
        bash("touch done.txt").expecting("Not done yet (iteration 1)"),
        Turn::say(PROMISE),
    ]);
    // The client notifies its agent when the server ends, possibly in a separate turn.
    let seen = session(&claude, &sandbox)
        .prompt(START)
        .then_prompt("Stop the server.")
        .play(script.main(vec![bash("touch ../go")]).then_repeat(Turn::say("It ended.")));
    assert_eq!(verdicts_of(&sandbox, LOOP), [BLOCKED, VERIFIED], "{seen}");
    assert!(!life_of(&sandbox, LOOP).contains(&"waited".to_owned()), "{seen}");
}
