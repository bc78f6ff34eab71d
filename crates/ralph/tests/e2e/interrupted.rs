//! A hook that the client ends at its own timeout ends its gates too, and an unjudged stop is not verified.

use std::process::Child;
use std::thread;
use std::time::Duration;

use ralph_testkit::{Claude, Sandbox, Turn, misbehave_program};
use rustix::process::{Pid, Signal, kill_process};

use crate::session::{CANARY, ClaudeSession, Runs, gate_runs, loop_status, one_sub_agent, verdicts};

#[test]
fn a_hook_ended_by_the_client_leaves_no_gate_and_no_verdict() {
    let claude = Claude::for_test();
    for fault in ["hang", "ignore-term"] {
        let sandbox = Sandbox::gated(&format!(
            "verify:\n  - printf x >> {CANARY}; '{}' {fault}\n",
            misbehave_program().display()
        ));
        let seen = ClaudeSession::new(&claude, &sandbox).client_timeout(2).play(one_sub_agent(
            "check",
            Runs::InForeground,
            vec![Turn::say("Done.")],
            Turn::say("It is not verified.")
                .expecting("the gates for `check` were interrupted (signal 15)")
                .expecting("NOT verified"),
        ));

        assert_eq!(gate_runs(&sandbox), 1, "{seen}");
        assert_eq!(verdicts(&sandbox), ["interrupted"], "{seen}");
        assert_eq!(loop_status(&sandbox), serde_json::json!({"status": "running"}));
        let outcomes: Vec<_> =
            seen.output.hook_responses("SubagentStop").iter().map(|row| row["outcome"].clone()).collect();
        assert_eq!(outcomes, ["cancelled"], "{seen}");
        let shown = seen.shown_to_user();
        assert_eq!(shown.len(), 1, "{shown:?}\n{seen}");
        assert!(shown[0].contains("its work is NOT verified"), "{shown:?}");
        assert!(seen.output.took < Duration::from_secs(20), "{:?}", seen.output.took);
    }
}

#[test]
fn a_hook_ended_while_another_ralph_runs_the_gates_reports_it_too() {
    let claude = Claude::for_test();
    let config = format!("verify:\n  - printf x >> {CANARY}; '{}' hang\n", misbehave_program().display());
    let sandbox = Sandbox::gated(&config);
    let other = Other(sandbox.command(&["verify", "--json"]).spawn().expect("the binary"));
    while gate_runs(&sandbox) == 0 {
        thread::sleep(Duration::from_millis(20));
    }
    let message = Turn::say("It is not verified.").expecting("NOT verified");
    let script = one_sub_agent("check", Runs::InForeground, vec![Turn::say("Done.")], message);
    let seen = ClaudeSession::new(&claude, &sandbox).client_timeout(2).play(script);
    drop(other);

    assert_eq!(gate_runs(&sandbox), 1, "{seen}");
    assert_eq!(verdicts(&sandbox), ["interrupted"], "{seen}");
    assert_eq!(seen.shown_to_user().len(), 1, "{seen}");
}

/// A ralph in another terminal, interrupted with its gates when it goes out of scope.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _gone_already = kill_process(Pid::from_child(&self.0), Signal::TERM);
        self.0.wait().expect("an end");
    }
}
