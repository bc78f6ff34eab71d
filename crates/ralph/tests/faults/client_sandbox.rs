//! An agent whose client keeps it in a sandbox with its own process numbers.

use ralph_testkit::{Sandbox, Session, note};

use crate::RALPH;

const GATE: &str = "verify:\n  - name: tests\n    run: test -f done.txt\n";

/// A sandbox with its own process numbers, in which no outside process is visible. Where this machine allows none,
/// the unit
/// tests of `ancestry` still cover the rules.
#[test]
fn a_sandbox_of_the_client_is_refused_and_the_user_outside_is_not() {
    const SANDBOX: [&str; 5] = ["unshare", "--map-root-user", "--pid", "--fork", "--mount-proc"];
    let sandbox = Sandbox::gated(GATE);
    if sandbox.in_agents_shell(&[&SANDBOX[..], &["true"]].concat()).code != Some(0) {
        note(
            "faults: a sandbox with its own process numbers is not allowed here: only the unit tests of `ancestry` cover it",
        );
        return;
    }
    Session::looping(&sandbox, "\"fix it\" --completion-promise DONE");
    let process = format!("(process {})", sandbox.client().process());
    let refused = sandbox.in_agents_shell(&[&SANDBOX[..], &[RALPH, "cancel"]].concat()).exits(3);
    refused.says("may be an agent's sandbox").says(&process).says("only you can cancel a loop");
    sandbox.in_agents_shell(&[&SANDBOX[..], &[RALPH, "status"]].concat()).success();
    // If the outside numbers are still visible, the client is found among the ancestors.
    let refused = sandbox.in_agents_shell(&[&SANDBOX[..4], &[RALPH, "cancel"]].concat()).exits(3);
    refused.says("was started by").says(&process);
    sandbox.ralph(&["cancel"]).success().says("Cancelled");
    // Without a loop there is no client to protect.
    sandbox.in_agents_shell(&[&SANDBOX[..], &[RALPH, "pause"]].concat()).success();
}
