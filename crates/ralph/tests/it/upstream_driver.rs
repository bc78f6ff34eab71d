//! Regression tests for faults of multi-agent-ralph-loop.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use ralph_testkit::{Finished, Sandbox, Session};

const GATE: &str = "verify:\n  - name: door\n    run: test -e done.txt\n";

/// An agent that prints the searched words, and does nothing.
const CLAIMS: &str = "command:echo not VERIFIED_DONE yet; echo VERIFIED_DONE";
const WORKS: &str = "command:touch done.txt";

/// A session whose loop the state tool began.
fn begun_by_tool(sandbox: &Sandbox) -> Session<'_> {
    sandbox.ralph(&["state", "init", "session-1", "loop", "fix it"]).success();
    Session::new(sandbox)
}

fn files_in(folder: PathBuf) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn drive(sandbox: &Sandbox, words: &[&str]) -> Finished {
    sandbox.ralph(&[&["loop"], words].concat())
}

#[test]
fn multi_agent_ralph_loop_01_the_stop_gate_needs_no_file_of_another_tool() {
    let sandbox = Sandbox::gated(GATE);
    let talk = begun_by_tool(&sandbox);
    talk.agent_works_with("Bash").stops("Done.").blocked();
}

#[test]
fn multi_agent_ralph_loop_02_a_stop_after_a_block_is_judged_like_the_first() {
    let sandbox = Sandbox::gated(GATE);
    let talk = begun_by_tool(&sandbox);
    talk.agent_works_with("Bash").stops("Done.").blocked();
    for _ in 0..3 {
        let again =
            json!({"stop_hook_active": true, "last_assistant_message": "Done.", "background_tasks": []});
        talk.agent_works_with("Bash").event_with("Stop", &again).answer().blocked();
    }
}

#[test]
fn multi_agent_ralph_loop_03_the_loop_runs_the_gates_and_flags_may_come_anywhere() {
    let sandbox = Sandbox::gated(GATE);
    for words in [
        ["--max-iterations", "1", "--agent", CLAIMS, "fix it"],
        ["fix it", "--max-iterations", "1", "--agent", CLAIMS],
        ["--agent", CLAIMS, "fix it", "--max-iterations", "1"],
    ] {
        let ran = drive(&sandbox, &words);
        assert_eq!(ran.code, Some(1), "{ran:#?}");
        assert!(!ran.stdout.lines().any(|line| line == "VERIFIED_DONE"), "{ran:#?}");
    }
    assert_eq!(sandbox.events_named("gate_ran").len(), 3, "once in each");
    for words in
        [["--mmc", "fix it"], ["fix it", "--mmc"], ["--with-glm5", "fix it"], ["fix it", "--with-glm5"]]
    {
        let shown = drive(&sandbox, &[&words[..], &["--dry-run"]].concat()).success().stdout;
        assert!(shown.contains("fix it") && shown.contains("30"), "{words:?}: {shown}");
        assert!(!shown.contains("--mmc") && !shown.contains("--with-glm5"), "the flag is no task: {shown}");
    }
}

#[test]
fn multi_agent_ralph_loop_04_the_renamed_type_is_known_too() {
    let sandbox = Sandbox::gated(GATE);
    sandbox.ralph(&["state", "init", "session-1", "iterate", "fix it"]).success();
    Session::new(&sandbox).agent_works_with("Bash").stops("Done.").blocked();
}

#[test]
fn multi_agent_ralph_loop_05_the_state_tool_keeps_values_and_its_folder_and_fail_frees() {
    let sandbox = Sandbox::gated(GATE);
    let outside = ["../../escaped", "/tmp/escaped", "a/b", ".."];
    for session in outside {
        let ran = sandbox.ralph(&["state", "init", session, "loop", "fix it"]);
        assert_eq!(ran.code, Some(2), "{session}: {ran:#?}");
    }
    assert!(sandbox.remembered().iter().all(|path| !path.contains("escaped")));
    let talk = begun_by_tool(&sandbox);
    sandbox.ralph(&["state", "update", "session-1", "loop", "ready", "false"]).success();
    sandbox.ralph(&["state", "update", "session-1", "loop", "files", "a.rs,b.rs"]).success();
    sandbox.ralph(&["state", "update", "session-1", "loop", "odd", "\"; halt; \""]).success();
    let read: Value = sandbox.ralph(&["state", "read", "session-1", "loop"]).success().json();
    let text = read.to_string();
    assert!(text.contains(r#""ready":false"#) && text.contains(r#""files":"a.rs,b.rs""#), "{read:#}");
    assert!(text.contains("halt"), "{read:#}");
    talk.agent_works_with("Bash").stops("Done.").blocked();
    sandbox.ralph(&["state", "fail", "session-1", "loop", "the service is down"]).success();
    let freed = talk.agent_works_with("Bash").stops("Done.").allowed().expect("it is free, and says so");
    assert!(freed.contains("ended outside a stop (failed)"), "{freed}");
}

#[test]
fn multi_agent_ralph_loop_06_and_12_other_projects_do_not_count_and_a_block_names_the_gate() {
    let (sandbox, other) = (Sandbox::gated(GATE), Sandbox::gated(GATE));
    begun_by_tool(&other);
    let talk = Session::named(&sandbox, "session-2");
    assert!(talk.agent_works_with("Bash").stops("Done.").ran.stdout.is_empty(), "no loop was started here");
    let (reason, detail) = begun_by_tool(&sandbox).agent_works_with("Bash").stops("Done.").blocked();
    assert!(format!("{reason}{detail}").contains("`door`"), "{reason}\n{detail}");
}

#[test]
fn multi_agent_ralph_loop_07_false_is_false_and_the_real_names_are_read() {
    let sandbox = Sandbox::gated("verify: ['false']\nguard: [session]\n");
    let talk = Session::new(&sandbox);
    talk.starts("startup");
    talk.user_says("fix it");
    sandbox.file("changed.txt", "x");
    talk.agent_works_with("Edit").stops("Done.").blocked();
    // Unknown names match no agent: they neither block nor free one, and a message says so.
    let invented = json!({"sessionId": "session-1", "hookEventName": "Stop", "stopHookActive": false});
    let answer = sandbox.hook_with(invented.to_string().as_bytes());
    assert!(answer.ran.json()["systemMessage"].is_string(), "{answer:#?}");
}

#[test]
fn multi_agent_ralph_loop_08_the_promised_logs_are_written() {
    let sandbox = Sandbox::gated(GATE);
    drive(&sandbox, &["fix it", "--agent", WORKS]).success();
    let logs = files_in(sandbox.ralph_home().join("logs"));
    assert_eq!(logs.len(), 2, "{logs:?}");
    assert!(logs.iter().all(|name| name.starts_with("loop-") && name.ends_with(".log")), "{logs:?}");
    let latest = fs::read_to_string(sandbox.ralph_home().join("logs/loop-latest.log")).expect("the newest");
    assert!(latest.contains("fix it") && latest.contains("iteration 1"), "{latest}");
}

#[test]
fn multi_agent_ralph_loop_09_one_report_for_each_loop_and_the_seeds_grep_finds_the_failed_ones() {
    let sandbox = Sandbox::gated(GATE);
    assert_eq!(drive(&sandbox, &["fix it", "--agent", CLAIMS, "--max-iterations", "1"]).code, Some(1));
    assert_eq!(drive(&sandbox, &["fix it", "--agent", CLAIMS, "--max-iterations", "1"]).code, Some(1));
    drive(&sandbox, &["fix it", "--agent", WORKS]).success();
    let reports = files_in(sandbox.path("docs/actions/loop"));
    assert_eq!(reports.len(), 3, "one each, also within a second: {reports:?}");
    assert_eq!(files_in(sandbox.path(".claude/metadata/actions/loop")).len(), 3);
    let said = |status: &str| {
        let has = |name: &&String| sandbox.read(&format!("docs/actions/loop/{name}")).contains(status);
        reports.iter().filter(has).count()
    };
    assert_eq!((said("Status: FAILED"), said("Status: COMPLETED")), (2, 1));
}

#[test]
fn multi_agent_ralph_loop_10_an_answer_is_one_json_object() {
    let sandbox = Sandbox::gated(GATE);
    let talk = begun_by_tool(&sandbox);
    let answer = talk.agent_works_with("Bash").stops("Done.");
    let objects: Result<Vec<Value>, _> =
        serde_json::Deserializer::from_str(&answer.ran.stdout).into_iter().collect();
    assert_eq!(objects.expect("JSON").len(), 1, "{answer:#?}");
}

#[test]
fn multi_agent_ralph_loop_11_a_dry_run_changes_nothing() {
    let sandbox = Sandbox::gated(GATE);
    sandbox.git(&["add", "."]);
    sandbox.git(&["commit", "-qm", "all"]);
    let (head, remembered) = (sandbox.git(&["rev-parse", "HEAD"]), sandbox.remembered());
    let shown = drive(&sandbox, &["fix it", "--agent", WORKS, "--dry-run"]).success().stdout;
    assert!(shown.contains("test -e done.txt") && shown.contains("First prompt"), "{shown}");
    assert_eq!(sandbox.git(&["status", "--porcelain"]), "");
    assert_eq!(sandbox.git(&["rev-parse", "HEAD"]), head);
    assert_eq!(sandbox.git(&["for-each-ref", "refs/ralph"]), "");
    assert_eq!(sandbox.remembered(), remembered);
}
