//! Hostile environments: variables that are missing or wrong, folders that are gone.

use std::process::Command;

use serde_json::json;

use crate::RALPH;
use ralph_testkit::{Finished, Sandbox};

const GATES: &str = "verify:\n  - test -e done.txt\n";

fn input(sandbox: &Sandbox) -> String {
    json!({
        "session_id": "session-1", "cwd": sandbox.project(), "agent_id": "agent-1", "agent_type": "check",
        "hook_event_name": "SubagentStop", "last_assistant_message": "Done.",
    })
    .to_string()
}

#[test]
fn i10_missing_and_wrong_variables_change_nothing() {
    let sandbox = Sandbox::gated(GATES);
    let home = sandbox.ralph_home();
    let cases: [(&str, Option<&str>); 9] = [
        ("PATH", None),
        ("PATH", Some("")),
        ("PATH", Some("/nowhere")),
        ("TMPDIR", Some("/nowhere/at/all")),
        ("LANG", Some("C")),
        ("LC_ALL", Some("nonsense")),
        ("TZ", Some("Nowhere/Never")),
        ("HOME", None),
        ("HOME", Some("/nowhere")),
    ];
    for (name, value) in cases {
        let mut command = sandbox.command(&["hook", "claude"]);
        command.env("RALPH_HOME", &home);
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
        let ran = Finished::run(&mut command, input(&sandbox).as_bytes());
        // Each is an agent's next stop; the fifth is allowed.
        let said = ran.json();
        let released =
            said["systemMessage"].as_str().is_some_and(|message| message.contains("Max iterations"));
        assert!(
            ran.code == Some(0) && (said["decision"] == "block" || released),
            "{name}={value:?}: {ran:#?}"
        );
    }
}

#[test]
fn i10_a_home_that_cannot_be_found_or_created_fails_open_loudly() {
    let sandbox = Sandbox::gated(GATES);
    for home in ["/dev/null/x", "/proc/nowhere", ""] {
        let mut command = sandbox.command(&["hook", "claude"]);
        command.env("RALPH_HOME", home).env("HOME", "/proc/nowhere");
        let ran = Finished::run(&mut command, input(&sandbox).as_bytes());
        assert_eq!(ran.code, Some(0), "{ran:#?}");
        assert!(ran.stdout.contains("are not accepted yet") || ran.stdout.contains("UNVERIFIED"), "{ran:#?}");
    }
}

#[test]
fn i10_a_deleted_current_folder_is_not_needed() {
    let sandbox = Sandbox::gated(GATES);
    let plain = sandbox.command(&["hook", "claude"]);
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "mkdir gone && cd gone && rmdir ../gone && exec \"$0\" \"$@\"",
        RALPH,
        "hook",
        "claude",
    ]);
    command.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(sandbox.home());
    let ran = Finished::run(&mut command, input(&sandbox).as_bytes());
    assert_eq!(ran.json()["decision"], "block", "{ran:#?}");
}

#[test]
fn i10_an_input_whose_folder_is_gone_fails_open_loudly_and_the_root_folder_is_no_project() {
    let sandbox = Sandbox::gated(GATES);
    let message =
        sandbox.stop("check").with("cwd", "/nowhere/at/all").answer().allowed().expect("something is said");
    assert!(message.contains("UNVERIFIED"), "{message}");
    sandbox.stop("check").with("cwd", "/").answer().silent();
    let mut command = sandbox.command(&["hook", "claude"]);
    command.current_dir("/");
    assert_eq!(Finished::run(&mut command, input(&sandbox).as_bytes()).json()["decision"], "block");
}

/// The longest representable times do not crash.
#[test]
fn a_timeout_out_of_range_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.file("ralph.yaml", "verify:\n  - run: \"true\"\n    timeout: 1e18\n");
    sandbox.ralph(&["trust", "--show"]).exits(2).says("ten years");
    let sandbox = Sandbox::gated(GATES);
    let ran = Finished::run(
        &mut sandbox.command(&["hook", "claude", "--deadline", "1e18"]),
        input(&sandbox).as_bytes(),
    );
    assert_ne!(ran.code, Some(101), "{ran:#?}");
}
