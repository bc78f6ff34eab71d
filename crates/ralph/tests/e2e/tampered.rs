//! An agent that weakens the gates instead of doing the work is never verified.

use ralph_testkit::{Claude, Sandbox, Turn};

use crate::session::{ClaudeSession, Runs, bash, ended, loop_status, one_sub_agent, verdicts};

const CONFIG: &str = "verify:\n  - test -e done.txt\nbudget:\n  attempts: 3\n";

fn softens_the_gates() -> Turn {
    bash(r#"echo 'verify: ["true"]' > ralph.yaml"#)
}

#[test]
fn softened_gates_are_shown_and_never_verify() {
    let claude = Claude::for_test();
    let sandbox = Sandbox::gated(CONFIG);
    let not_accepted = "The gate definition in the repo differs from the accepted one";
    let turns = vec![
        softens_the_gates(),
        Turn::say("Done."),
        bash("touch done.txt")
            .expecting("Verification failed (iteration 1/3)")
            .expecting(not_accepted)
            .expecting("-  - test -e done.txt")
            .expecting("+verify: [\"true\"]"),
        Turn::say("Done."),
        // The accepted gate passes now, and it still does not count.
        Turn::say("Done.").expecting("Verification failed (iteration 2/3)").expecting(not_accepted),
    ];
    let message = Turn::say("It is not verified.").expecting("NOT verified");
    let seen = ClaudeSession::new(&claude, &sandbox).play(one_sub_agent(
        "check",
        Runs::InForeground,
        turns,
        message,
    ));

    assert_eq!(
        verdicts(&sandbox),
        ["blocked gates_failed", "blocked definition_changed", "tampered definition_changed"],
        "{seen}"
    );
    assert_eq!(loop_status(&sandbox), ended("tampered"));
    assert_eq!(sandbox.status()["trust"], "changed");
    assert!(!seen.output.said("Verification passed"), "{seen}");
}

#[test]
fn restored_gates_count_again() {
    let claude = Claude::for_test();
    let sandbox = Sandbox::gated(CONFIG);
    sandbox.file("accepted.yaml", CONFIG);
    let turns = vec![
        softens_the_gates(),
        Turn::say("Done."),
        bash("mv accepted.yaml ralph.yaml; touch done.txt").expecting("Restore the file"),
        Turn::say("Done."),
    ];
    let message = Turn::say("It is done.").expecting_not("NOT verified");
    let seen = ClaudeSession::new(&claude, &sandbox).play(one_sub_agent(
        "check",
        Runs::InForeground,
        turns,
        message,
    ));

    assert_eq!(verdicts(&sandbox), ["blocked gates_failed", "passing all_gates_passed"], "{seen}");
}
