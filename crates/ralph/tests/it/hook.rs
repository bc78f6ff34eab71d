//! The hook door: who is held, who is not, and what is said.

use crate::support::Sandbox;

#[test]
fn a_check_agent_is_held_until_the_gate_passes() {
    let sandbox = Sandbox::gated("verify:\n  - test -e done.txt\n");
    let (reason, detail) = sandbox.stop("check").answer().held();
    assert_eq!(
        reason,
        "Verification failed (iteration 1/5): gate `test -e done.txt` failed with exit code 1"
    );
    assert!(detail.contains("attempt 1 of 5") && detail.contains("Command: test -e done.txt"), "{detail}");

    sandbox.file("done.txt", "");
    let told = sandbox.stop("check").answer().let_go();
    assert_eq!(told.as_deref(), Some("Verification passed: All verify commands passed"));
}
