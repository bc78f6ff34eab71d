//! A sub-agent that reports done too early is blocked with the reason, and may stop once the gates pass.

use std::fs;

use ralph_testkit::{Claude, Sandbox, Turn};
use serde_json::json;

use crate::session::{ClaudeSession, Runs, bash, ended, loop_status, one_sub_agent, verdicts};

const PASSED: &str = "Verification passed: All verify commands passed";

/// Reports done, gets the failures, does the work, reports done.
fn lies_once_then_works() -> Vec<Turn> {
    vec![
        Turn::say("Done.").expecting_not("Verification failed"),
        bash("touch done.txt")
            .expecting("Verification failed (iteration 1/5): gate `test -e done.txt` failed with exit code 1")
            .expecting("Gate `test -e done.txt` failed with exit code 1")
            .expecting("Command: test -e done.txt"),
        Turn::say("Now it is done."),
    ]
}

fn blocked_then_verified(claude: &Claude, runs: Runs, shown_at: &str) {
    let sandbox = Sandbox::gated("verify:\n  - test -e done.txt\n");
    let message = Turn::say("It is done.").expecting("Now it is done.").expecting_not("NOT verified");
    let seen = ClaudeSession::new(claude, &sandbox).play(one_sub_agent(
        "check",
        runs,
        lies_once_then_works(),
        message,
    ));

    assert_eq!(verdicts(&sandbox), ["blocked gates_failed", "passing all_gates_passed"], "{seen}");
    assert_eq!(loop_status(&sandbox), ended("passing"));
    assert_eq!(seen.requests_of_sub_agent(), 3, "{seen}");
    let answers = seen.answers();
    assert_eq!(answers.len(), 2, "{seen}");
    assert_eq!(answers[0]["decision"], "block");
    assert_eq!(answers[1], json!({"systemMessage": PASSED}));
    assert_eq!(seen.shown_to_user(), [format!("{shown_at} says: ralph: `check`: {PASSED}")], "{seen}");
}

#[test]
fn a_sub_agent_is_blocked_until_the_gate_passes() {
    let claude = Claude::for_test();
    blocked_then_verified(&claude, Runs::InForeground, "PostToolUse:Agent");
}

#[test]
fn a_sub_agent_in_the_background_is_blocked_until_the_gate_passes() {
    let claude = Claude::for_test();
    blocked_then_verified(&claude, Runs::InBackground, "UserPromptSubmit");
}

/// A plugin's agent arrives as `trellis:check`.
#[test]
fn a_sub_agent_of_a_plugin_is_blocked_by_its_bare_name() {
    let claude = Claude::for_test();
    let sandbox = Sandbox::gated("verify:\n  - test -e done.txt\n");
    let plugin = sandbox.home().join("plugin");
    fs::create_dir_all(plugin.join(".claude-plugin")).expect("folders");
    fs::create_dir_all(plugin.join("agents")).expect("folders");
    fs::write(
        plugin.join(".claude-plugin/plugin.json"),
        json!({"name": "trellis", "version": "0.1.0", "description": "Has a check agent"}).to_string(),
    )
    .expect("a file");
    fs::write(
        plugin.join("agents/check.md"),
        "---\nname: check\ndescription: Checks the work\ntools: Bash\n---\nYou are scripted.\n",
    )
    .expect("a file");
    let script =
        one_sub_agent("trellis:check", Runs::InForeground, lies_once_then_works(), Turn::say("It is done."));
    let seen = ClaudeSession::new(&claude, &sandbox).plugin(&plugin).play(script);

    assert_eq!(verdicts(&sandbox), ["blocked gates_failed", "passing all_gates_passed"], "{seen}");
    assert_eq!(loop_status(&sandbox), ended("passing"));
    let began =
        sandbox.events().into_iter().find(|line| line["event"]["event"] == "began").expect("a beginning");
    assert_eq!(began["event"]["subject"]["name"], "check");
}

#[test]
fn in_a_trellis_repo_the_task_is_blocked_in_the_words_of_trellis() {
    let claude = Claude::for_test();
    let sandbox = Sandbox::new();
    sandbox.file(".trellis/worktree.yaml", "worktree_dir: ../worktrees\nverify:\n  - test -e done.txt\n");
    sandbox.file(".trellis/.current-task", "tasks/03-14-login\n");
    sandbox.file(".trellis/tasks/03-14-login/prd.md", "A login.\n");
    sandbox.trust();
    let turns = vec![
        Turn::say("Done."),
        bash("cat .trellis/.ralph-state.json; touch done.txt").expecting(
            "Verification failed (iteration 1/5): gate `test -e done.txt` failed with exit code 1",
        ),
        // The state file that other tools read exists while the agent is blocked.
        Turn::say("Now it is done.").expecting("\"iteration\"").expecting(".trellis/tasks/03-14-login"),
    ];
    let seen = ClaudeSession::new(&claude, &sandbox).play(one_sub_agent(
        "check",
        Runs::InForeground,
        turns,
        Turn::say("It is done."),
    ));

    assert_eq!(verdicts(&sandbox), ["blocked gates_failed", "passing all_gates_passed"], "{seen}");
    assert_eq!(loop_status(&sandbox), ended("passing"));
    assert_eq!(sandbox.status()["loops"][0]["state"]["task"], ".trellis/tasks/03-14-login");
    assert_eq!(seen.answers()[1], json!({"systemMessage": PASSED}));
    assert!(!sandbox.exists(".trellis/.ralph-state.json"), "the state file stays after a pass");
}
