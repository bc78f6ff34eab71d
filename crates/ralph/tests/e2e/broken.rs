//! Gates and configs that do not work: never a pass, never a client that waits for ever, nothing left running.

use std::time::Duration;

use ralph_testkit::{Claude, Turn, misbehave};

use crate::session::{CANARY, Runs, Session, bash, ended, gate_runs, one_sub_agent, standing, verdicts};
use crate::support::Sandbox;

/// Start, turns and end of the client on a busy machine, without any gate.
const OVERHEAD: Duration = Duration::from_secs(15);

fn gate(subcommand: &str, more: &str) -> String {
    let misbehave = misbehave();
    format!(
        "verify:\n  - name: odd\n    run: printf x >> {CANARY}; '{}' {subcommand}\n{more}",
        misbehave.display()
    )
}

fn stops(times: usize, told: &str) -> Vec<Turn> {
    let again = (1..times).map(|_| Turn::say("Done.").expecting(told));
    [Turn::say("Done.")].into_iter().chain(again).collect()
}

fn not_verified() -> Turn {
    Turn::say("It is not verified.").expecting("NOT verified")
}

#[test]
fn a_gate_whose_program_is_missing_is_not_the_agents_fault_and_not_a_pass() {
    let Some(claude) =
        Claude::for_test("a_gate_whose_program_is_missing_is_not_the_agents_fault_and_not_a_pass")
    else {
        return;
    };
    let sandbox = Sandbox::gated("verify:\n  - no-such-program --all\n");
    let turns =
        stops(3, "Cannot tell whether the work is done: gate `no-such-program --all` could not start");
    let seen = Session::new(&claude, &sandbox).play(one_sub_agent(
        "check",
        Runs::InForeground,
        turns,
        not_verified().expecting("Could not tell 3 times in a row"),
    ));

    let held = "held gate_could_not_start";
    assert_eq!(verdicts(&sandbox), [held, held, "paused gate_could_not_start"], "{seen}");
    assert_eq!(standing(&sandbox), serde_json::json!({"status": "paused"}));
}

#[test]
fn a_malformed_config_runs_nothing_and_names_its_place() {
    let Some(claude) = Claude::for_test("a_malformed_config_runs_nothing_and_names_its_place") else {
        return;
    };
    let sandbox = Sandbox::gated(&format!("verify:\n  - printf x >> {CANARY}; test -e done.txt\n"));
    let turns = vec![
        bash("printf 'verify: [unclosed\\n' > ralph.yaml; touch done.txt"),
        Turn::say("Done."),
        Turn::say("Done.").expecting("`ralph.yaml` cannot be read").expecting("hint:"),
        Turn::say("Done.").expecting("`ralph.yaml` cannot be read"),
    ];
    let seen = Session::new(&claude, &sandbox).play(one_sub_agent(
        "check",
        Runs::InForeground,
        turns,
        not_verified(),
    ));

    assert_eq!(verdicts(&sandbox), ["held config", "held config", "paused config"], "{seen}");
    assert_eq!(gate_runs(&sandbox), 0, "{seen}");
}

#[test]
fn a_gate_that_hangs_is_ended_at_its_own_time_out() {
    let Some(claude) = Claude::for_test("a_gate_that_hangs_is_ended_at_its_own_time_out") else { return };
    let sandbox = Sandbox::gated(&gate("hang", "    timeout: 2s\nbudget:\n  attempts: 2\n"));
    let turns = stops(2, "gate `odd` timed out after 2s");
    let seen = Session::new(&claude, &sandbox).play(one_sub_agent(
        "check",
        Runs::InForeground,
        turns,
        not_verified(),
    ));

    assert_eq!(verdicts(&sandbox), ["held gates_failed", "released gates_failed"], "{seen}");
    assert_eq!(standing(&sandbox), ended("released"));
    assert_eq!(gate_runs(&sandbox), 2);
    assert!(seen.output.took < Duration::from_secs(2 * 2) + OVERHEAD, "{:?}", seen.output.took);
}

#[test]
fn a_gate_that_does_not_fit_is_said_before_the_deadline_is_over() {
    let Some(claude) = Claude::for_test("a_gate_that_does_not_fit_is_said_before_the_deadline_is_over")
    else {
        return;
    };
    let sandbox = Sandbox::gated(&gate("hang", ""));
    let turns = stops(1, "");
    let seen = Session::new(&claude, &sandbox).deadline("3s").play(one_sub_agent(
        "check",
        Runs::InForeground,
        turns,
        not_verified(),
    ));

    assert_eq!(verdicts(&sandbox), ["released gates_did_not_fit"], "{seen}");
    assert_eq!(gate_runs(&sandbox), 1);
    assert!(seen.output.took < Duration::from_secs(3) + OVERHEAD, "{:?}", seen.output.took);
}

#[test]
fn a_gate_that_leaves_a_daemon_does_not_pass_and_the_daemon_goes() {
    let Some(claude) = Claude::for_test("a_gate_that_leaves_a_daemon_does_not_pass_and_the_daemon_goes")
    else {
        return;
    };
    for daemon in ["daemon", "double-daemon"] {
        let sandbox = Sandbox::gated(&gate(daemon, "budget:\n  attempts: 2\n"));
        let turns = stops(2, "gate `odd` exited 0 but left 1 process running");
        let seen = Session::new(&claude, &sandbox).play(one_sub_agent(
            "check",
            Runs::InForeground,
            turns,
            not_verified(),
        ));

        assert_eq!(verdicts(&sandbox), ["held gates_failed", "released gates_failed"], "{seen}");
        assert!(seen.output.took < OVERHEAD, "{:?}", seen.output.took);
    }
}
