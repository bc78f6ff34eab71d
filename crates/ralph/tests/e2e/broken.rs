//! Gates and configs that do not work: never a pass, never a client that waits forever, no leftover processes.

use std::time::Duration;

use ralph_testkit::{Claude, Sandbox, Turn, misbehave_program};

use crate::session::{
    CANARY, ClaudeSession, Runs, Seen, bash, ended, gate_runs, loop_status, one_sub_agent, verdicts,
};

/// Time for the client's start, turns and end on a busy machine, without any gate.
const OVERHEAD: Duration = Duration::from_secs(15);

fn gate(subcommand: &str, more: &str) -> String {
    let misbehave = misbehave_program();
    format!(
        "verify:\n  - name: odd\n    run: printf x >> {CANARY}; '{}' {subcommand}\n{more}",
        misbehave.display()
    )
}

fn stops(times: usize, message: &str) -> Vec<Turn> {
    let again = (1..times).map(|_| Turn::say("Done.").expecting(message));
    [Turn::say("Done.")].into_iter().chain(again).collect()
}

fn not_verified() -> Turn {
    Turn::say("It is not verified.").expecting("NOT verified")
}

/// A sub-agent `check` that runs these turns and is not verified.
#[track_caller]
fn check_stops(session: ClaudeSession<'_>, turns: Vec<Turn>) -> Seen {
    session.play(one_sub_agent("check", Runs::InForeground, turns, not_verified()))
}

#[test]
fn a_gate_whose_program_is_missing_is_neither_a_failure_nor_a_pass() {
    let claude = Claude::for_test();
    let sandbox = Sandbox::gated("verify:\n  - no-such-program --all\n");
    let turns = stops(3, "The gates could not be evaluated: gate `no-such-program --all` could not start");
    let seen = ClaudeSession::new(&claude, &sandbox).play(one_sub_agent(
        "check",
        Runs::InForeground,
        turns,
        not_verified().expecting("The gates could not be evaluated 3 times in a row"),
    ));

    let blocked = "blocked gate_could_not_start";
    assert_eq!(verdicts(&sandbox), [blocked, blocked, "paused gate_could_not_start"], "{seen}");
    assert_eq!(loop_status(&sandbox), serde_json::json!({"status": "paused"}));
}

#[test]
fn a_malformed_config_runs_nothing_and_names_file_and_line() {
    let claude = Claude::for_test();
    let sandbox = Sandbox::gated(&format!("verify:\n  - printf x >> {CANARY}; test -e done.txt\n"));
    let turns = vec![
        bash("printf 'verify: [unclosed\\n' > ralph.yaml; touch done.txt"),
        Turn::say("Done."),
        Turn::say("Done.").expecting("`ralph.yaml` cannot be read").expecting("hint:"),
        Turn::say("Done.").expecting("`ralph.yaml` cannot be read"),
    ];
    let seen = check_stops(ClaudeSession::new(&claude, &sandbox), turns);

    assert_eq!(verdicts(&sandbox), ["blocked config", "blocked config", "paused config"], "{seen}");
    assert_eq!(gate_runs(&sandbox), 0, "{seen}");
}

#[test]
fn a_gate_that_hangs_ends_at_its_timeout() {
    let claude = Claude::for_test();
    let sandbox = Sandbox::gated(&gate("hang", "    timeout: 2s\nbudget:\n  attempts: 2\n"));
    let turns = stops(2, "gate `odd` timed out after 2s");
    let seen = check_stops(ClaudeSession::new(&claude, &sandbox), turns);

    assert_eq!(verdicts(&sandbox), ["blocked gates_failed", "released gates_failed"], "{seen}");
    assert_eq!(loop_status(&sandbox), ended("released"));
    assert_eq!(gate_runs(&sandbox), 2);
    assert!(seen.output.took < Duration::from_secs(2 * 2) + OVERHEAD, "{:?}", seen.output.took);
}

#[test]
fn a_gate_that_does_not_fit_is_reported_before_the_deadline() {
    let claude = Claude::for_test();
    let sandbox = Sandbox::gated(&gate("hang", ""));
    let turns = stops(1, "");
    let seen = check_stops(ClaudeSession::new(&claude, &sandbox).deadline("3s"), turns);

    assert_eq!(verdicts(&sandbox), ["released deadline_reached"], "{seen}");
    assert_eq!(gate_runs(&sandbox), 1);
    assert!(seen.output.took < Duration::from_secs(3) + OVERHEAD, "{:?}", seen.output.took);
}

#[test]
fn a_gate_that_leaves_a_daemon_does_not_pass_and_the_daemon_is_ended() {
    let claude = Claude::for_test();
    for daemon in ["daemon", "double-daemon"] {
        let sandbox = Sandbox::gated(&gate(daemon, "budget:\n  attempts: 2\n"));
        let turns = stops(2, "gate `odd` exited 0 but left 1 process running");
        let seen = check_stops(ClaudeSession::new(&claude, &sandbox), turns);

        assert_eq!(verdicts(&sandbox), ["blocked gates_failed", "released gates_failed"], "{seen}");
        assert!(seen.output.took < OVERHEAD, "{:?}", seen.output.took);
    }
}
