//! Regression tests for faults of the tools whose layouts we read: one test for each fault that was seen there.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use ralph_testkit::{Sandbox, is_alive, verify_list};

const PASSED: &str = "Verification passed: All verify commands passed";

fn iteration(reason: &str) -> u32 {
    let after = reason.split_once("(iteration ").expect("an iteration").1;
    after.chars().take_while(char::is_ascii_digit).collect::<String>().parse().expect("a number")
}

#[test]
fn trellis_01_the_real_field_names_are_read() {
    let sandbox = Sandbox::trellis("verify: ['false']\n");
    let (reason, _) = sandbox.stop("check").answer().blocked();
    assert_eq!(iteration(&reason), 1);
    assert!(sandbox.exists(".trellis/.ralph-state.json"));
    sandbox.stop("implement").with("subagent_type", "check").answer().silent();
}

#[test]
fn trellis_02_a_gate_slower_than_the_hook_is_reported_and_verifies_nothing() {
    let sandbox = Sandbox::trellis("verify: [sleep 5]\n");
    let answer = sandbox.stop("check").deadline("500ms").answer();
    let message = answer.allowed().expect("a message");
    assert!(
        message.contains("UNVERIFIED") && message.contains("did not finish before the hook's deadline"),
        "{message}"
    );
    assert!(answer.took < Duration::from_secs(4), "{:?}", answer.took);
}

#[test]
fn trellis_03_the_fifth_attempt_is_verified() {
    let sandbox = Sandbox::trellis("verify: [test -e done.txt]\n");
    for _ in 0..4 {
        sandbox.stop("check").answer().blocked();
    }
    sandbox.file("done.txt", "");
    assert_eq!(sandbox.stop("check").answer().allowed().as_deref(), Some(PASSED));
}

#[test]
fn trellis_04_the_config_is_real_yaml() {
    let sandbox = Sandbox::trellis(
        "nested:\n  verify: [exit 9]\nverify:\n  - \"test 1 = 1\"  # quick\n  - |\n    true\n    true\npost_create: # after\n  - exit 7\n",
    );
    assert_eq!(sandbox.stop("check").answer().allowed().as_deref(), Some(PASSED));
    let gates = sandbox.status()["gates"].clone();
    let runs: Vec<&str> =
        gates.as_array().expect("gates").iter().filter_map(|gate| gate["run"].as_str()).collect();
    assert_eq!(runs, ["test 1 = 1", "true\ntrue\n"]);
}

#[test]
fn trellis_05_the_hook_and_verify_read_the_same_commands() {
    let sandbox =
        Sandbox::trellis("verify:\n  - 'test \"a b\" = \"a b\"'\n  - sh -c 'exit \"$(printf 4)\"'\n");
    let by_hand = sandbox.verify(&[]);
    let (_, detail) = sandbox.stop("check").answer().blocked();
    let command = by_hand["gates"][1]["run"].as_str().expect("a command");
    assert_eq!(command, "sh -c 'exit \"$(printf 4)\"'");
    assert!(detail.contains(&format!("Command: {command}")) && detail.contains("exit code 4"), "{detail}");
}

#[test]
fn trellis_06_talking_about_a_marker_is_not_stating_it() {
    let sandbox = Sandbox::trellis("copy: []\n");
    sandbox.file(".trellis/tasks/login/check.jsonl", "{\"reason\":\"lint\"}\n");
    for lie in ["I did NOT run it so I will not output LINT_FINISH", "Report:\n```\nLINT_FINISH\n```\n"] {
        sandbox.stop("check").saying(lie).answer().blocked();
    }
    let message = sandbox.stop("check").saying("LINT_FINISH").answer().allowed().expect("a message");
    assert!(message.contains("unverified"), "{message}");
}

#[test]
fn trellis_07_prose_as_a_reason_is_answered_by_one_plain_marker() {
    let sandbox = Sandbox::trellis("copy: []\n");
    sandbox.file(".trellis/tasks/login/check.jsonl", "{\"file\":\"a\",\"reason\":\"Backend guidelines\"}\n");
    let (reason, _) = sandbox.stop("check").saying("done").answer().blocked();
    assert!(reason.contains("BACKEND_GUIDELINES_FINISH"), "{reason}");
    sandbox.stop("check").saying("ALL_CHECKS_FINISH").answer().allowed().expect("claimed");
    assert_eq!(sandbox.state()["status"]["verdict"], "claimed");
}

#[test]
fn trellis_08_a_timeout_ends_the_whole_tree() {
    let mut sandbox = Sandbox::trellis(&verify_list(&["(sleep 50 & echo $! > pid; wait)"]));
    sandbox.file(".gitignore", "pid\n");
    sandbox.set("RALPH_GATE_TIMEOUT", "400ms");
    sandbox.stop("check").answer().blocked();
    assert!(!is_alive(sandbox.read("pid").trim().parse().expect("a number")));
}

#[test]
fn trellis_09_stops_at_once_are_all_counted() {
    let sandbox = Sandbox::gated("verify: ['false']\nbudget: {attempts: 100}\n");
    let children: Vec<_> = (0..8).map(|_| sandbox.stop("check").spawn()).collect();
    let mut seen: Vec<u32> = children
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().expect("an end");
            let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            iteration(answer["reason"].as_str().expect("a reason"))
        })
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, (1..=8).collect::<Vec<_>>());
}

#[test]
fn trellis_10_two_check_agents_have_two_counters_and_an_unwritable_state_still_ends() {
    let sandbox = Sandbox::trellis("verify: ['false']\n");
    fs::create_dir(sandbox.path(".trellis/.ralph-state.json")).expect("a folder in its place");
    for expected in 1..=4 {
        for agent in ["a", "b"] {
            let (reason, _) = sandbox.stop("check").agent(agent).answer().blocked();
            assert_eq!(iteration(&reason), expected);
        }
    }
    sandbox.stop("check").agent("a").answer().allowed().expect("bounded");
}

#[test]
fn trellis_11_a_change_of_zone_changes_no_count() {
    let mut sandbox = Sandbox::trellis("verify: ['false']\n");
    for (zone, expected) in [("Asia/Tokyo", 1), ("America/Los_Angeles", 2), ("Pacific/Kiritimati", 3)] {
        sandbox.set("TZ", zone);
        let (reason, _) = sandbox.stop("check").answer().blocked();
        assert_eq!(iteration(&reason), expected, "{zone}");
    }
    assert!(sandbox.state()["started_at"].as_str().expect("a time").ends_with('Z'), "the ledger has UTC");
}

#[test]
fn trellis_12_the_failing_test_at_the_end_of_stdout_is_shown_beside_a_warning_on_stderr() {
    let gate = "echo deprecated >&2; i=0; while [ $i -lt 200 ]; do echo banner of the runner; i=$((i+1)); done; echo 'FAILED login_test: 500'; exit 1";
    let (_, detail) = Sandbox::trellis(&verify_list(&[gate])).stop("check").answer().blocked();
    assert!(detail.contains("FAILED login_test: 500"), "{detail}");
}

#[test]
fn trellis_13_allow_is_never_sent_to_the_client() {
    let sandbox = Sandbox::trellis("verify: ['true']\n");
    let passed = sandbox.stop("check").answer().ran.json();
    assert!(passed.get("decision").is_none(), "{passed}");
}

#[test]
fn trellis_14_one_engine_for_every_layout() {
    for sandbox in [
        Sandbox::gated("verify: ['false']\n"),
        Sandbox::trellis("verify: ['false']\n"),
        Sandbox::ideal("verify: ['false']\n"),
    ] {
        for expected in 1..=4 {
            assert_eq!(iteration(&sandbox.stop("check").answer().blocked().0), expected);
        }
        sandbox.stop("check").answer().allowed().expect("released");
        assert_eq!(sandbox.state()["status"]["verdict"], "released");
    }
}

#[test]
fn trellis_15_an_untrusted_checkout_runs_nothing() {
    let sandbox = Sandbox::new();
    sandbox.file(".trellis/worktree.yaml", "verify: [touch canary]\n");
    sandbox.file(".trellis/.current-task", "tasks/a\n");
    sandbox.stop("check").answer().allowed().expect("a message");
    sandbox.ralph(&["verify"]).exits(3);
    sandbox.ralph(&["status"]).success();
    assert!(!sandbox.exists("canary"));
}

#[test]
fn cc_workflow_01_a_real_payload_is_a_check_agent() {
    let sandbox = Sandbox::ideal("verify: ['false']\n");
    sandbox.stop("check").answer().blocked();
    sandbox.stop("research").with("subagent_type", "check").answer().silent();
}

#[test]
fn cc_workflow_02_the_task_is_read_where_it_is_written() {
    let sandbox = Sandbox::ideal("verify: ['false']\n");
    sandbox.file(".current-task", "not this one\n");
    sandbox.stop("check").answer().blocked();
    assert_eq!(sandbox.state()["task"], ".ideal/iterations/3");
}

#[test]
fn cc_workflow_03_the_first_line_of_the_pointer_is_the_task() {
    let sandbox = Sandbox::ideal("verify: ['false']\n");
    sandbox.file(".ideal/.current-task", "docs/iterations/4\nbranch: feature\ncreated: today\n");
    sandbox.stop("check").answer().blocked();
    assert_eq!(sandbox.state()["task"], "docs/iterations/4");
}

fn ideal_with_old_state(started_at: &str) -> Sandbox {
    let mut sandbox = Sandbox::ideal("verify: [test -e done.txt]\n");
    sandbox.set("TZ", "UTC");
    let state = json!({"task": ".ideal/iterations/3", "iteration": 1, "started_at": started_at});
    sandbox.file(".ideal/.verify-state.json", &state.to_string());
    sandbox
}

#[test]
fn cc_workflow_04_a_leftover_state_allows_no_stop_before_the_gates_ran() {
    let sandbox = ideal_with_old_state("2024-01-01T00:00:00");
    sandbox.file("done.txt", "");
    assert_eq!(sandbox.stop("check").answer().allowed().as_deref(), Some(PASSED));
    assert_eq!(sandbox.events_named("gate_ran").len(), 1);
}

#[test]
fn cc_workflow_05_a_time_with_a_zone_is_a_time() {
    for old in ["2024-01-01T00:00:00Z", "2024-01-01T00:00:00+08:00", "2024-01-01T00:00:00.123456+00:00"] {
        let message = ideal_with_old_state(old).stop("check").answer().allowed().expect("out of time");
        assert!(message.starts_with("Timeout (30 min) exceeded"), "{old}: {message}");
    }
}

#[test]
fn cc_workflow_06_five_verifications_and_four_blocks() {
    let sandbox = Sandbox::new();
    sandbox.file(".ideal/worktree.yaml", &verify_list(&[&sandbox.counting("false")]));
    sandbox.trust();
    for _ in 0..4 {
        sandbox.stop("check").answer().blocked();
    }
    let message = sandbox.stop("check").answer().allowed().expect("loud");
    assert!(message.starts_with("Max iterations (5) reached"), "{message}");
    assert_eq!(sandbox.runs(), 5);
}

#[test]
fn cc_workflow_07_markers_event_and_folder_are_checked() {
    let sandbox = Sandbox::ideal("copy: []\n");
    sandbox.file(".ideal/iterations/3/check.jsonl", "{\"reason\":\"lint\"}\n");
    let (reason, _) = sandbox.stop("check").saying("done").answer().blocked();
    assert!(reason.contains("LINT_FINISH"), "{reason}");
    sandbox.stop("check").with("hook_event_name", "PreToolUse").answer().silent();
    sandbox.stop("check").with("cwd", json!(sandbox.home())).answer().silent();
}

#[test]
fn cc_workflow_08_a_flow_list_is_a_list_and_a_typo_closes_the_gate() {
    let sandbox = Sandbox::ideal("verify: ['true', 'exit 3']\n");
    let (_, detail) = sandbox.stop("check").answer().blocked();
    assert!(detail.contains("Gate `exit 3` failed with exit code 3"), "{detail}");
    sandbox.file(".ideal/worktree.yaml", "verify: ['true', 'exit 3'\n");
    let (reason, _) = sandbox.stop("check").answer().blocked();
    assert!(reason.starts_with("The gates could not be evaluated"), "{reason}");
}

#[test]
fn cc_workflow_09_commands_with_spaces_stay_whole_and_lists_end_where_they_end() {
    let sandbox =
        Sandbox::ideal("copy:\n  - .env\nverify:\n  - test 'a b' = 'a b'\npost_create:\n  - exit 1\n");
    assert_eq!(sandbox.stop("check").answer().allowed().as_deref(), Some(PASSED));
}

#[test]
fn cc_workflow_10_answers_use_the_field_names_of_the_client() {
    let block = Sandbox::ideal("verify: ['false']\n").stop("check").answer().ran.json();
    assert_eq!(block["decision"], "block");
    assert_eq!(block["hookSpecificOutput"]["hookEventName"], "SubagentStop");
    assert!(block["hookSpecificOutput"]["additionalContext"].is_string());
    assert!(block.get("prompt").is_none());
}

#[test]
fn cc_workflow_11_a_timeout_can_be_tested_quickly() {
    let mut sandbox = Sandbox::ideal("verify: [sleep 120]\n");
    sandbox.set("RALPH_GATE_TIMEOUT", "200ms");
    let begun = Instant::now();
    let (reason, _) = sandbox.stop("check").answer().blocked();
    assert!(reason.contains("timed out after 200ms"), "{reason}");
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
}
