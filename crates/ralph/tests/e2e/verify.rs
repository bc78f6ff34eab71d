//! An agent that runs `ralph verify` itself before it stops.

use ralph_testkit::{Claude, Sandbox, Turn};

use crate::session::{
    CANARY, ClaudeSession, Runs, Seen, bash, ended, gate_runs, loop_status, one_sub_agent, verdicts,
};

/// The agent verifies by itself with this command line, then stops.
fn verifies_then_stops(command: &str) -> (Sandbox, Seen) {
    let claude = Claude::for_test();
    let sandbox = Sandbox::gated(&format!("verify:\n  - printf x >> {CANARY}; test -e done.txt\n"));
    let turns = vec![
        bash(&format!("touch done.txt && {command}")),
        Turn::say("Done.").expecting("Verification passed: All verify commands passed"),
    ];
    let seen = ClaudeSession::new(&claude, &sandbox).with_ralph_on_path().play(one_sub_agent(
        "check",
        Runs::InForeground,
        turns,
        Turn::say("It is done.").expecting_not("NOT verified"),
    ));
    assert_eq!(verdicts(&sandbox), ["passing all_gates_passed"], "{seen}");
    (sandbox, seen)
}

#[test]
fn a_stop_after_the_agents_own_verify_is_verified() {
    let (sandbox, seen) = verifies_then_stops("ralph verify");
    assert_eq!(loop_status(&sandbox), ended("passing"));
    // Seen with 2.1.325: the client's Bash tool and its hooks have the same environment. The stop is still decided by
    // a run
    // of its own.
    assert_eq!(gate_runs(&sandbox), 2, "{seen}");
}

#[test]
fn a_receipt_made_under_another_path_does_not_count() {
    let (sandbox, seen) = verifies_then_stops("PATH=\"/opt/own/bin:$PATH\" ralph verify");
    assert_eq!(gate_runs(&sandbox), 2, "once in the agent's shell, once for the stop: {seen}");
}
