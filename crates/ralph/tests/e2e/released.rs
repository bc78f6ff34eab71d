//! A sub-agent that never does the work is let go at the limit, and nobody can take that for a pass.

use ralph_testkit::{Claude, Lane, Script, Turn};

use crate::session::{CANARY, Runs, Session, ended, gate_runs, one_sub_agent, standing, verdicts};
use crate::support::Sandbox;

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
    let told = Turn::say("It is not verified.")
        .expecting("the sub-agent `check` was let go, but its work is NOT verified")
        .expecting("Max iterations reached (5/5)")
        .expecting("gate `done` failed");
    let seen = Session::new(claude, &sandbox).play(one_sub_agent("check", runs, never_does_the_work(), told));

    let held = "held gates_failed";
    assert_eq!(verdicts(&sandbox), [held, held, held, held, "released gates_failed"], "{seen}");
    assert_eq!(standing(&sandbox), ended("released"));
    assert_eq!(gate_runs(&sandbox), 5, "every stop is judged, the last one too");
    let blocks = seen.answers().iter().filter(|answer| answer["decision"] == "block").count();
    assert_eq!((blocks, seen.answers().len()), (4, 5), "{seen}");
    assert_eq!(
        seen.shown_to_person(),
        [format!(
            "{shown_at} says: ralph: `check`: Max iterations reached (5/5); let go UNVERIFIED. \
             Unresolved: gate `done` failed"
        )],
        "{seen}"
    );
    assert!(!seen.output.said("Verification passed"), "{seen}");
}

#[test]
fn a_sub_agent_that_never_does_the_work_is_released_loudly() {
    let Some(claude) = Claude::for_test("a_sub_agent_that_never_does_the_work_is_released_loudly") else {
        return;
    };
    released_at_the_limit(&claude, Runs::InForeground, "PostToolUse:Agent");
}

#[test]
fn one_in_the_background_is_released_as_loudly() {
    let Some(claude) = Claude::for_test("one_in_the_background_is_released_as_loudly") else { return };
    released_at_the_limit(&claude, Runs::InBackground, "UserPromptSubmit");
}

/// What a hook says to the person inside a sub-agent is lost on the client, and a worker may keep to itself what it was
/// told: both wait for the main session.
#[test]
fn the_release_of_a_sub_agents_sub_agent_is_told_to_everybody() {
    let Some(claude) = Claude::for_test("the_release_of_a_sub_agents_sub_agent_is_told_to_everybody") else {
        return;
    };
    let sandbox = Sandbox::gated("verify: test -e done.txt\nbudget:\n  attempts: 1\n");
    let not_verified = "the sub-agent `check` was let go, but its work is NOT verified";
    let check = Lane::new("check").when_first_user_contains("CHECK-TASK").turn(Turn::say("Done."));
    let worker = Lane::new("worker").when_first_user_contains("WORK-TASK").turns(vec![
        Turn::agent("check", "CHECK-TASK", false),
        Turn::say("All is well.").expecting(not_verified),
    ]);
    let main = vec![
        Turn::agent("worker", "WORK-TASK", false),
        Turn::say("It is not verified.").expecting(not_verified),
    ];
    let seen = Session::new(&claude, &sandbox).play(Script::new().lane(check).lane(worker).main(main));

    assert_eq!(verdicts(&sandbox), ["released gates_failed"], "{seen}");
    let shown = seen.shown_to_person();
    assert_eq!(shown.len(), 1, "{shown:?}\n{seen}");
    assert!(shown[0].contains("Max iterations reached (1/1); let go UNVERIFIED"), "{shown:?}");
}
