//! A sub-agent that never does the work is released at the limit, clearly unverified.

use ralph_testkit::{Claude, Lane, Sandbox, Script, Turn};

use crate::session::{CANARY, ClaudeSession, Runs, ended, gate_runs, loop_status, one_sub_agent, verdicts};

fn never_does_the_work() -> Vec<Turn> {
    let mut turns = vec![Turn::say("Done.")];
    turns.extend((1..=4).map(|attempt| {
        Turn::say("Done, I tell you.").expecting(format!("Verification failed (iteration {attempt}/5)"))
    }));
    turns
}

fn released_at_the_limit(claude: &Claude, runs: Runs, shown_at: &str) {
    let sandbox = Sandbox::gated(&format!(
        "verify:\n  - name: done\n    run: printf x >> {CANARY}; test -e done.txt\n"
    ));
    let message = Turn::say("It is not verified.")
        .expecting("the sub-agent `check` was allowed to stop, but its work is NOT verified")
        .expecting("Max iterations reached (5/5)")
        .expecting("gate `done` failed");
    let seen = ClaudeSession::new(claude, &sandbox).play(one_sub_agent(
        "check",
        runs,
        never_does_the_work(),
        message,
    ));

    let blocked = "blocked gates_failed";
    assert_eq!(verdicts(&sandbox), [blocked, blocked, blocked, blocked, "released gates_failed"], "{seen}");
    assert_eq!(loop_status(&sandbox), ended("released"));
    assert_eq!(gate_runs(&sandbox), 5, "every stop is judged, the last one too");
    let blocks = seen.answers().iter().filter(|answer| answer["decision"] == "block").count();
    assert_eq!((blocks, seen.answers().len()), (4, 5), "{seen}");
    assert_eq!(
        seen.shown_to_user(),
        [format!(
            "{shown_at} says: ralph: `check`: Max iterations reached (5/5); stop allowed, UNVERIFIED. \
             Unresolved: gate `done` failed"
        )],
        "{seen}"
    );
    assert!(!seen.output.said("Verification passed"), "{seen}");
}

#[test]
fn a_sub_agent_that_never_does_the_work_is_released_loudly() {
    let claude = Claude::for_test();
    released_at_the_limit(&claude, Runs::InForeground, "PostToolUse:Agent");
}

#[test]
fn a_background_sub_agent_is_released_as_loudly() {
    let claude = Claude::for_test();
    released_at_the_limit(&claude, Runs::InBackground, "UserPromptSubmit");
}

/// The client drops a hook's message to the user inside a sub-agent, and a sub-agent may not pass on its feedback:
/// both are kept for the main session.
#[test]
fn the_release_of_a_nested_sub_agent_is_reported_to_user_and_agent() {
    let claude = Claude::for_test();
    let sandbox = Sandbox::gated("verify: test -e done.txt\nbudget:\n  attempts: 1\n");
    let not_verified = "the sub-agent `check` was allowed to stop, but its work is NOT verified";
    let check = Lane::new("check").when_first_user_contains("CHECK-TASK").turn(Turn::say("Done."));
    let worker = Lane::new("worker").when_first_user_contains("WORK-TASK").turns(vec![
        Turn::agent("check", "CHECK-TASK", false),
        Turn::say("All is well.").expecting(not_verified),
    ]);
    let main = vec![
        Turn::agent("worker", "WORK-TASK", false),
        Turn::say("It is not verified.").expecting(not_verified),
    ];
    let seen = ClaudeSession::new(&claude, &sandbox).play(Script::new().lane(check).lane(worker).main(main));

    assert_eq!(verdicts(&sandbox), ["released gates_failed"], "{seen}");
    let shown = seen.shown_to_user();
    assert_eq!(shown.len(), 1, "{shown:?}\n{seen}");
    assert!(shown[0].contains("Max iterations reached (1/1); stop allowed, UNVERIFIED"), "{shown:?}");
}
