//! From nothing to a blocked agent by `ralph init` alone, and `ralph doctor` on that setup.

use ralph_testkit::{Claude, Sandbox, Script, Turn};
use serde_json::json;

use crate::session::{ClaudeSession, Runs, bash, one_sub_agent, verdicts, verdicts_of};

const MAKEFILE: &str = "test:\n\ttest -e done.txt\n";

/// A fresh project with one Make target that `init` finds.
fn fresh_project() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.file("Makefile", MAKEFILE);
    sandbox
}

#[test]
fn init_alone_is_enough_to_block_a_check_agent() {
    let claude = Claude::for_test();
    let sandbox = fresh_project();
    sandbox.ralph(&["init", "--yes"]).success();
    let turns = vec![
        Turn::say("Done."),
        bash("touch done.txt").expecting("gate `test` failed").expecting("Command: make test"),
        Turn::say("Now it is done."),
    ];
    let last = Turn::say("It is done.").expecting("Now it is done.");
    let seen = ClaudeSession::new(&claude, &sandbox).already_installed().play(one_sub_agent(
        "check",
        Runs::InForeground,
        turns,
        last,
    ));
    assert_eq!(verdicts(&sandbox), ["blocked gates_failed", "passing all_gates_passed"], "{seen}");

    let healthy = sandbox.ralph(&["doctor", "--json"]).success().json();
    assert_eq!(healthy["healthy"], true, "{healthy:#}");
    assert!(healthy.to_string().contains("check-"), "it says when it last judged: {healthy:#}");

    sandbox.ralph(&["init", "--uninstall"]).success();
    assert!(!sandbox.exists("ralph.yaml") && !sandbox.exists(".claude/settings.local.json"));
}

/// In a shared settings file the command is silent where ralph is not installed, and works where it is.
#[test]
fn shared_hooks_work_where_ralph_is_on_the_path_and_are_silent_elsewhere() {
    let claude = Claude::for_test();
    for installed in [true, false] {
        let sandbox = fresh_project();
        sandbox.ralph(&["init", "--yes", "--shared"]).success();
        let session = ClaudeSession::new(&claude, &sandbox).already_installed();
        let session = if installed { session.with_ralph_on_path() } else { session };
        let works = vec![
            Turn::say("Done."),
            bash("touch done.txt").expecting("gate `test` failed"),
            Turn::say("Done now."),
        ];
        let turns = if installed { works } else { vec![Turn::say("Done.")] };
        let seen = session.play(one_sub_agent("check", Runs::InForeground, turns, Turn::say("It is done.")));
        let expected: &[&str] =
            if installed { &["blocked gates_failed", "passing all_gates_passed"] } else { &[] };
        assert_eq!(verdicts(&sandbox), expected, "{seen}");
    }
}

#[test]
fn init_alone_is_enough_to_start_a_loop_by_the_plain_command() {
    let claude = Claude::for_test();
    let sandbox = fresh_project();
    sandbox.ralph(&["init", "--yes"]).success();
    let seen = ClaudeSession::new(&claude, &sandbox)
        .already_installed()
        .prompt("/ralph-loop \"make the file\" --completion-promise DONE")
        .play(Script::new().main(vec![
            Turn::say("I looked around."),
            Turn::say("<promise>DONE</promise>").expecting("gate `test` failed"),
            bash("touch done.txt").expecting("false promise"),
            Turn::say("Now it is there.\n\n<promise>DONE</promise>"),
        ]));
    assert_eq!(
        verdicts_of(&sandbox, "make-the-file"),
        ["blocked gates_failed", "blocked gates_failed", "verified all_gates_passed"],
        "{seen}"
    );
    let begun = sandbox.events_named("began");
    let session = seen.output.rows.iter().find_map(|row| row["session_id"].as_str()).expect("a session");
    assert!(begun.iter().any(|event| event["session"] == session), "bound to {session}: {begun:#?}");
    let report = sandbox.ralph(&["doctor", "--json"]).success().json();
    assert_eq!(report["loops"][0]["false_promises"], 1, "{report:#}");
    sandbox.ralph(&["init", "--uninstall"]).success();
    let left = std::fs::read_dir(sandbox.path(".claude")).expect("the loop's report").flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["metadata"], "only the report stays: {seen}");
}

#[test]
fn init_with_the_guard_blocks_only_a_session_that_changed_something() {
    let claude = Claude::for_test();
    let sandbox = fresh_project();
    sandbox.ralph(&["init", "--yes", "--guard", "session,check"]).success();
    let session = || ClaudeSession::new(&claude, &sandbox).already_installed();
    let look = Turn::tool("Read", json!({"file_path": sandbox.path("Makefile")}));
    let seen =
        session().prompt("What is here?").play(Script::new().main(vec![look, Turn::say("A Makefile.")]));
    assert!(verdicts_of(&sandbox, "guard-").is_empty(), "it only talked");
    assert!(seen.output.hook_responses("PostToolUse").is_empty(), "a tool that only looks costs no process");
    let seen = session().prompt("Do it.").play(Script::new().main(vec![
        bash("echo almost > draft.txt"),
        Turn::say("Done."),
        bash("touch done.txt").expecting("gate `test` failed"),
        Turn::say("Done now."),
    ]));
    assert_eq!(
        verdicts_of(&sandbox, "guard-"),
        ["blocked gates_failed", "verified all_gates_passed"],
        "{seen}"
    );
    sandbox.ralph(&["doctor", "--json"]).success();
}
