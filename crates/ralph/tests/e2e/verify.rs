//! An agent that runs `ralph verify` itself before it stops.

use ralph_testkit::{Claude, Turn};

use crate::session::{CANARY, Runs, Session, bash, ended, gate_runs, one_sub_agent, standing, verdicts};
use crate::support::Sandbox;

#[test]
fn a_stop_after_the_agents_own_verify_is_verified() {
    let Some(claude) = Claude::for_test("a_stop_after_the_agents_own_verify_is_verified") else { return };
    let sandbox = Sandbox::gated(&format!("verify:\n  - printf x >> {CANARY}; test -e done.txt\n"));
    let turns = vec![
        bash("touch done.txt && ralph verify"),
        Turn::say("Done.").expecting("Verification passed: All verify commands passed"),
    ];
    let seen = Session::new(&claude, &sandbox).with_ralph_on_path().play(one_sub_agent(
        "check",
        Runs::InForeground,
        turns,
        Turn::say("It is done.").expecting_not("NOT verified"),
    ));

    assert_eq!(verdicts(&sandbox), ["verified all_gates_passed"], "{seen}");
    assert_eq!(standing(&sandbox), ended("verified"));
    // Seen with 2.1.325: the client's Bash tool and its hooks have the same environment. Still the stop is decided by a run
    // of its own.
    assert_eq!(gate_runs(&sandbox), 2, "{seen}");
}

#[test]
fn a_receipt_made_under_another_path_does_not_count() {
    let Some(claude) = Claude::for_test("a_receipt_made_under_another_path_does_not_count") else { return };
    let sandbox = Sandbox::gated(&format!("verify:\n  - printf x >> {CANARY}; test -e done.txt\n"));
    let turns = vec![
        bash("touch done.txt && PATH=\"/opt/own/bin:$PATH\" ralph verify"),
        Turn::say("Done.").expecting("Verification passed: All verify commands passed"),
    ];
    let seen = Session::new(&claude, &sandbox).with_ralph_on_path().play(one_sub_agent(
        "check",
        Runs::InForeground,
        turns,
        Turn::say("It is done.").expecting_not("NOT verified"),
    ));

    assert_eq!(verdicts(&sandbox), ["verified all_gates_passed"], "{seen}");
    assert_eq!(gate_runs(&sandbox), 2, "once in the agent's shell, once for the stop: {seen}");
}
