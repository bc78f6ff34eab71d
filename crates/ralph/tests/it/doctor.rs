//! `ralph doctor` names each thing that can be wrong with the wiring.

use std::fs;

use serde_json::{Value, json};

use crate::support::{RALPH, Sandbox};

fn set_up() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.file("Makefile", "test:\n\ttrue\n");
    sandbox.ralph(&["init", "--yes", "--no-try"]).success();
    sandbox
}

/// The problems as `name: what`, and that each has a fix.
#[track_caller]
fn problems(sandbox: &Sandbox) -> Vec<String> {
    let ran = sandbox.ralph(&["doctor", "--json"]);
    let report = ran.json();
    let problems = report["problems"].as_array().expect("problems").clone();
    assert_eq!(ran.code, Some(i32::from(!problems.is_empty())), "{ran:#?}");
    let text = |problem: &Value| {
        assert!(problem["fix"].as_str().is_some_and(|fix| !fix.is_empty()), "{problem}");
        format!("{}: {}", problem["name"].as_str().unwrap(), problem["what"].as_str().unwrap())
    };
    problems.iter().map(text).collect()
}

#[track_caller]
fn names(sandbox: &Sandbox, expected: &str) {
    let problems = problems(sandbox);
    assert!(
        problems.iter().any(|problem| problem.contains(expected)),
        "not named: {expected}\n{problems:#?}"
    );
}

fn edit_settings(sandbox: &Sandbox, change: impl FnOnce(&mut Value)) {
    let path = ".claude/settings.local.json";
    let mut settings: Value = serde_json::from_str(&sandbox.read(path)).expect("JSON");
    change(&mut settings);
    sandbox.file(path, &settings.to_string());
}

#[test]
fn what_init_set_up_is_healthy() {
    assert_eq!(problems(&set_up()), Vec::<String>::new());
}

#[test]
fn nothing_set_up_is_two_problems() {
    let sandbox = Sandbox::new();
    names(&sandbox, "no working settings file has our hook");
    names(&sandbox, "there is no ralph.yaml");
}

#[test]
fn a_binary_that_was_moved_away_is_named() {
    let sandbox = Sandbox::new();
    sandbox.file("Makefile", "test:\n\ttrue\n");
    let copy = sandbox.home().join("ralph");
    fs::copy(RALPH, &copy).expect("a copy");
    let ran = std::process::Command::new(&copy)
        .args(["init", "--yes", "--no-try"])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", sandbox.home())
        .current_dir(sandbox.project())
        .output();
    assert!(ran.expect("the copy").status.success());
    assert_eq!(problems(&sandbox), Vec::<String>::new());
    fs::remove_file(copy).expect("moved away");
    names(&sandbox, "the hook as installed failed: exit code 127");
}

#[test]
fn a_time_out_that_is_a_string_is_named_because_the_client_drops_the_file() {
    let sandbox = set_up();
    edit_settings(&sandbox, |settings| {
        settings["hooks"]["SubagentStop"][0]["hooks"][0]["timeout"] = json!("30");
    });
    names(&sandbox, "which is not a number; the client then ignores the hooks of this file");
    names(&sandbox, "no working settings file has our hook");
}

#[test]
fn settings_that_are_no_json_and_switched_off_hooks_are_named() {
    let sandbox = set_up();
    edit_settings(&sandbox, |settings| settings["disableAllHooks"] = json!(true));
    names(&sandbox, "`disableAllHooks` is true");
    sandbox.file(".claude/settings.local.json", "{ \"hooks\": ");
    names(&sandbox, "it is not JSON");
}

#[test]
fn trust_that_was_taken_back_is_named() {
    let sandbox = set_up();
    sandbox.ralph(&["trust", "--revoke"]).success();
    names(&sandbox, "trust was taken back");
}

#[test]
fn a_changed_and_a_broken_config_are_named() {
    let sandbox = set_up();
    sandbox.file("ralph.yaml", "verify: [\"true\"]\n");
    names(&sandbox, "is not the accepted one");
    sandbox.file("ralph.yaml", "verify: [\n");
    names(&sandbox, "ralph.yaml: line 1");
}

#[test]
fn the_clients_cap_is_named_where_the_budget_is_larger() {
    let sandbox = Sandbox::gated("verify: [\"true\"]\nbudget: { attempts: 20 }\n");
    sandbox.ralph(&["init", "--yes"]).success();
    names(&sandbox, "the client ends a turn after 8 holds in a row");
    edit_settings(&sandbox, |settings| settings["env"] = json!({"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "20"}));
    assert_eq!(problems(&sandbox), Vec::<String>::new());
}

#[test]
fn time_outs_are_compared_again_after_a_change_of_the_config() {
    let sandbox = set_up();
    sandbox.file("ralph.yaml", "verify: [{run: make test, timeout: 20m}]\n");
    sandbox.trust();
    names(&sandbox, "the gates may take longer than the client waits (600 s; 1260 s are needed)");
    sandbox.ralph(&["init", "--yes"]).success();
    assert_eq!(problems(&sandbox), Vec::<String>::new());
}

#[test]
fn another_loop_plugin_is_named() {
    let sandbox = set_up();
    edit_settings(&sandbox, |settings| {
        settings["enabledPlugins"] = json!({"ralph-loop@claude-plugins-official": true});
    });
    names(&sandbox, "the plugin `ralph-loop@claude-plugins-official` holds sessions too");
}
