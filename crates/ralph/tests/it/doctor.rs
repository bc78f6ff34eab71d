//! `ralph doctor` names every problem of the setup.

use std::fs;

use serde_json::{Value, json};

use crate::RALPH;
use ralph_testkit::Sandbox;

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

/// The checks that are fine, as `name: what`.
#[track_caller]
fn good(sandbox: &Sandbox, expected: &str) {
    let report = sandbox.ralph(&["doctor", "--json"]).json();
    let text = |finding: &Value| {
        format!("{}: {}", finding["name"].as_str().unwrap(), finding["what"].as_str().unwrap())
    };
    let found: Vec<String> = report["good"].as_array().expect("good").iter().map(text).collect();
    assert!(found.iter().any(|line| line.contains(expected)), "not said: {expected}\n{found:#?}");
}

fn edit_settings(sandbox: &Sandbox, change: impl FnOnce(&mut Value)) {
    let path = ".claude/settings.local.json";
    let mut settings: Value = serde_json::from_str(&sandbox.read(path)).expect("JSON");
    change(&mut settings);
    sandbox.file(path, &settings.to_string());
}

#[test]
fn a_fresh_init_is_healthy() {
    assert_eq!(problems(&set_up()), Vec::<String>::new());
}

#[test]
fn a_repo_without_setup_has_two_problems() {
    let sandbox = Sandbox::new();
    names(&sandbox, "ralph's hook is not installed");
    names(&sandbox, "no ralph.yaml found");
}

#[test]
fn a_binary_that_was_moved_away_is_named() {
    let sandbox = Sandbox::new();
    sandbox.file("Makefile", "test:\n\ttrue\n");
    let copy = sandbox.home().join("ralph");
    // By another process: a test that forks while we have the copy open for writing would make it "busy".
    let copied = std::process::Command::new("cp").arg(RALPH).arg(&copy).status().expect("cp");
    assert!(copied.success());
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
    names(&sandbox, "the installed hook failed: exit code 127");
}

#[test]
fn a_timeout_that_is_a_string_is_named_because_the_client_drops_the_file() {
    let sandbox = set_up();
    edit_settings(&sandbox, |settings| {
        settings["hooks"]["SubagentStop"][0]["hooks"][0]["timeout"] = json!("30");
    });
    names(&sandbox, "which is not a number; the client silently ignores the hooks in this file");
    names(&sandbox, "ralph's hook is not installed");
}

#[test]
fn settings_that_are_not_json_and_disabled_hooks_are_named() {
    let sandbox = set_up();
    edit_settings(&sandbox, |settings| settings["disableAllHooks"] = json!(true));
    names(&sandbox, "`disableAllHooks` is true");
    sandbox.file(".claude/settings.local.json", "{ \"hooks\": ");
    names(&sandbox, "not JSON");
}

#[test]
fn revoked_trust_is_named() {
    let sandbox = set_up();
    sandbox.ralph(&["trust", "--revoke"]).success();
    names(&sandbox, "trust was revoked");
}

#[test]
fn a_changed_and_a_broken_config_are_named() {
    let sandbox = set_up();
    sandbox.file("ralph.yaml", "verify: [\"true\"]\n");
    names(&sandbox, "differs from the accepted one");
    sandbox.file("ralph.yaml", "verify: [\n");
    names(&sandbox, "ralph.yaml: line 1");
}

#[test]
fn the_clients_cap_is_named_where_the_budget_is_larger() {
    let sandbox = Sandbox::gated("verify: [\"true\"]\nbudget: { attempts: 20 }\n");
    sandbox.ralph(&["init", "--yes"]).success();
    edit_settings(&sandbox, |settings| settings["env"] = json!({"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "8"}));
    names(&sandbox, "the client overrides ralph after 8 consecutive blocks");
    edit_settings(&sandbox, |settings| settings["env"] = json!({"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "20"}));
    assert_eq!(problems(&sandbox), Vec::<String>::new());
    edit_settings(&sandbox, |settings| settings["env"] = json!({"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "10"}));
    names(
        &sandbox,
        "overrides ralph after 10 consecutive blocks without a tool call, possibly before the attempts (20)",
    );
}

#[test]
fn a_removed_cap_that_init_had_raised_is_named() {
    let sandbox = set_up();
    good(&sandbox, "the client accepts 1000 consecutive blocks");
    edit_settings(&sandbox, |settings| settings["env"] = json!({}));
    names(
        &sandbox,
        "after 8 consecutive blocks without a tool call, possibly before a loop without a limit (unlimited)",
    );
}

#[test]
fn timeouts_are_compared_again_after_a_config_change() {
    let sandbox = set_up();
    sandbox.file("ralph.yaml", "verify: [{run: make test, timeout: 20m}]\n");
    sandbox.trust();
    names(&sandbox, "the gates may take longer than the client's timeout (600 s; needed: 1260 s)");
    sandbox.ralph(&["init", "--yes"]).success();
    assert_eq!(problems(&sandbox), Vec::<String>::new());
}

#[test]
fn another_loop_plugin_is_named() {
    let sandbox = set_up();
    edit_settings(&sandbox, |settings| {
        settings["enabledPlugins"] = json!({"ralph-loop@claude-plugins-official": true});
    });
    names(&sandbox, "the plugin `ralph-loop@claude-plugins-official` also blocks sessions");
}

#[test]
fn each_event_without_a_hook_is_named() {
    let hooks = json_of(".claude/settings.local.json", &set_up())["hooks"].clone();
    let events: Vec<String> = hooks.as_object().expect("hooks").keys().cloned().collect();
    assert_eq!(events.len(), 13);
    for event in events {
        let sandbox = set_up();
        edit_settings(&sandbox, |settings| {
            settings["hooks"].as_object_mut().expect("hooks").remove(&event);
        });
        let named = problems(&sandbox);
        let expected = format!("events: {event} does not call ralph: ");
        assert!(named.len() == 1 && named[0].starts_with(&expected), "{event}: {named:#?}");
        let report = sandbox.ralph(&["doctor", "--json"]).json();
        let by = |entry: &&Value| entry["heard_by"].is_null();
        let deaf: Vec<&Value> = report["events"].as_array().expect("events").iter().filter(by).collect();
        assert!(deaf.len() == 1 && deaf[0]["event"] == *event, "{report:#}");
    }
}

fn json_of(path: &str, sandbox: &Sandbox) -> Value {
    serde_json::from_str(&sandbox.read(path)).expect("JSON")
}

#[test]
fn a_hook_entry_with_a_narrower_matcher_or_a_short_timeout_is_named() {
    let sandbox = set_up();
    edit_settings(&sandbox, |settings| {
        settings["hooks"]["PostToolUse"][0]["matcher"] = json!("Agent|Task");
        settings["hooks"]["Stop"][0]["hooks"][0]["timeout"] = json!(10);
    });
    names(&sandbox, "PostToolUse calls ralph only for `Agent|Task`: ");
    names(&sandbox, "Stop: ralph's deadline of 570 s must be shorter than the client's timeout of 10 s");
    sandbox.ralph(&["init", "--yes"]).success();
    assert_eq!(problems(&sandbox), Vec::<String>::new());
}

const PLUGIN_ON: &str = r#"{"enabledPlugins": {"ralph@ralph": true}}"#;

#[test]
fn of_two_hook_sources_doctor_names_the_one_that_answers() {
    let sandbox = set_up();
    sandbox.file(".claude/settings.json", PLUGIN_ON);
    assert_eq!(problems(&sandbox), Vec::<String>::new());
    good(&sandbox, "plugins: the plugin `ralph@ralph` is enabled too: ");
    good(&sandbox, "settings.local.json answers, and the plugin stays silent");
    // Two settings files with different lines judge each stop twice.
    sandbox.ralph(&["init", "--yes", "--shared"]).success();
    names(&sandbox, "both call ralph on Stop: every event is handled twice");
}

#[test]
fn the_plugin_alone_is_enough_where_ralph_is_on_the_path() {
    let mut sandbox = Sandbox::gated("verify: [\"true\"]\n");
    let settings =
        r#"{"enabledPlugins": {"ralph@ralph": true}, "env": {"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "1000"}}"#;
    sandbox.file(".claude/settings.json", settings);
    names(&sandbox, "gave no answer to a recorded stop");
    let folder = std::path::Path::new(RALPH).parent().expect("a folder");
    sandbox.set("PATH", format!("{}:/usr/bin:/bin", folder.display()));
    assert_eq!(problems(&sandbox), Vec::<String>::new());
    good(&sandbox, "hook: the plugin `ralph@ralph`: ");
}

#[test]
fn a_guard_of_sessions_alone_is_tested_by_a_command() {
    let sandbox = Sandbox::new();
    sandbox.ralph(&["init", "--yes", "--no-try", "--gate", "true", "--guard", "session"]).success();
    assert_eq!(problems(&sandbox), Vec::<String>::new());
    good(&sandbox, "answered a recorded command");
    good(&sandbox, "guard: guarded: every session that changes files here");
}

#[test]
fn doctor_reports_the_loop_what_keeps_it_running_and_early_promises() {
    let mut sandbox = Sandbox::gated("verify: [\"test -e done\"]\n");
    sandbox.ralph(&["init", "--yes"]).success();
    good(&sandbox, "loop: no open loop in this repo; start one with `/ralph-loop TASK");
    let event = |name: &str| json!({"session_id": "session-1", "prompt_id": "p1", "cwd": sandbox.project(), "hook_event_name": name});
    let mut start = event("UserPromptExpansion");
    start["command_name"] = json!("ralph-loop");
    start["command_args"] = json!("\"make it\" --completion-promise DONE");
    sandbox.event(start).answer();
    good(&sandbox, "continues after 0 judged stops: not judged yet");
    assert_eq!(problems(&sandbox), Vec::<String>::new(), "our own loop is no other plugin's");
    let mut stop = event("Stop");
    stop["last_assistant_message"] = json!("<promise>DONE</promise>");
    sandbox.event(stop).answer().blocked();
    good(&sandbox, "continues after 1 judged stops: gate `test -e done` failed");
    good(&sandbox, "the promise was rejected 1 time because checks were failing");
    let report = sandbox.ralph(&["doctor", "--json"]).json();
    let entry = &report["loops"][0];
    assert_eq!(
        (&entry["open"], &entry["attempts"], &entry["false_promises"]),
        (&json!(true), &json!(1), &json!(1))
    );
    assert_eq!(report["healthy"], true, "a loop at work is no fault");
    // In the shell of another session.
    sandbox.set("CLAUDE_CODE_SESSION_ID", "session-2");
    good(&sandbox, "loop: no loop is attached to this session; start one with `/ralph-loop TASK");
}
