//! Agents that forge the driver's records, swap files under its gates, or never ran: none of it ends verified.

use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::scene::{DONE, Running, Scene, unverified, verified};
use crate::forgery;
use ralph_testkit::Finished;

/// Waits for the test to forge something, while the agent is at work.
const WAITS: &str = r#"echo here > "$NOTES/ready"; until test -e "$NOTES/go"; do sleep 0.01; done"#;

fn forged(scene: &Scene, more: &[&str], forge: impl FnOnce(PathBuf)) -> Finished {
    let running = scene.start(more);
    forge_while_it_works(scene, forge);
    running.end()
}

fn forge_while_it_works(scene: &Scene, forge: impl FnOnce(PathBuf)) {
    scene.await_note("ready");
    forge(forgery::ledger(&scene.sandbox));
    fs::write(scene.note_path("go"), "").expect("a note");
}

/// What is done to the ledger while the agent works.
type Forge = fn(PathBuf);

fn says(ran: &Finished, text: &str) -> bool {
    ran.stdout.contains(text) || ran.stderr.contains(text)
}

#[test]
fn a_snapshot_that_says_verified_or_cancelled_is_not_believed() {
    for status in [
        json!({"status": "ended", "verdict": "verified"}),
        json!({"status": "ended", "verdict": "cancelled"}),
    ] {
        let scene = Scene::new(DONE, WAITS);
        let ran =
            forged(&scene, &["--max-iterations", "1"], |ledger| forgery::write_snapshot(&ledger, status));
        unverified(ran, 1);
        assert_eq!(scene.event_fields("gate_ran", "report").len(), 1, "the gate was run");
    }
}

#[test]
fn ledger_lines_not_written_by_the_driver_are_tampering() {
    let table: [(&str, Forge); 6] = [
        ("a verdict", |ledger| forgery::append(&ledger, &[forgery::judged_verified(1)])),
        ("a reset of the iterations", |ledger| {
            forgery::append(&ledger, &[json!({"event": "iteration_began", "iteration": 0})]);
        }),
        ("an owner", |ledger| {
            let owner = json!({"process": 1, "started": 1, "boot": "x"});
            forgery::append(&ledger, &[json!({"event": "driver_started", "owner": owner})]);
        }),
        ("a line cut off", |ledger| {
            let text = fs::read_to_string(&ledger).expect("a ledger");
            let lines: Vec<&str> = text.lines().collect();
            fs::write(&ledger, format!("{}\n", lines[..lines.len() - 1].join("\n"))).expect("written");
        }),
        ("a changed word", |ledger| {
            let text = fs::read_to_string(&ledger).expect("a ledger");
            fs::write(&ledger, text.replace("shut the door", "open the door")).expect("written");
        }),
        ("the ledger gone", |ledger| {
            let loops = ledger.parent().and_then(|dir| dir.parent()).expect("loops");
            fs::rename(loops, loops.with_file_name("gone")).expect("moved away");
        }),
    ];
    for (what, forge) in table {
        let scene = Scene::new(DONE, &format!(": > done.txt; {WAITS}"));
        let ran = unverified(forged(&scene, &["--max-iterations", "2"], forge), 5);
        assert!(says(&ran, "ledger"), "{what}: {ran:#?}");
        scene.ended_as("tampered");
    }
}

#[test]
fn a_verdict_forged_by_a_gate_is_tampering_too() {
    let scene = Scene::new("sh gate.sh", "true");
    // The gate passes, and its code waits for the forged line.
    scene.sandbox.file("gate.sh", &format!("{WAITS}\nexit 1\n"));
    let ran = forged(&scene, &["--max-iterations", "1"], |ledger| {
        forgery::append(&ledger, &[forgery::judged_verified(1)]);
    });
    unverified(ran, 5);
}

#[test]
fn a_user_may_still_pause_and_cancel() {
    for (command, status) in [
        ("pause", json!({"status": "paused"})),
        ("cancel", json!({"status": "ended", "verdict": "cancelled"})),
    ] {
        let scene = Scene::new(DONE, WAITS);
        let running = scene.start(&[]);
        scene.await_note("ready");
        scene.sandbox.ralph(&[command]).success();
        unverified(running.end(), 3);
        assert_eq!(scene.status(), status);
    }
}

#[test]
fn after_a_kill_resume_does_not_repeat_a_recorded_verdict() {
    let receipt_of = |scene: &Scene| {
        // A receipt of a gate that really passed, on some tree.
        let all = forgery::events(&forgery::ledger(&scene.sandbox));
        all.into_iter().find(|event| event["receipt"].is_object()).map(|event| event["receipt"].clone())
    };
    for with_runs in [false, true] {
        let scene = Scene::of(
            "verify:\n  - name: door\n    run: test -f done.txt\n  - name: other\n    run: 'true'\n",
            &format!("test $run = 1 || {{ {WAITS}; }}"),
        );
        let running = scene.start(&[]);
        scene.await_note("ready");
        let ledger = forgery::ledger(&scene.sandbox);
        running.signal(Signal::KILL);
        drop(running);
        let mut lines = Vec::new();
        if with_runs {
            let pid = forgery::events(&ledger).iter().find_map(|event| event["pid"].as_i64());
            let mut ran: Value = forgery::events(&ledger)
                .into_iter()
                .find(|event| event["event"] == "gate_ran")
                .expect("a gate ran");
            ran["report"]["outcome"] = json!({"kind": "passed"});
            ran["receipt"] = receipt_of(&scene).expect("a receipt");
            lines.push(json!({"event": "run_started", "tree": "00", "files": 1, "pid": pid}));
            lines.push(ran);
            let mut judged = forgery::judged_verified(2);
            judged["process"] = json!(pid);
            lines.push(judged);
        } else {
            lines.push(forgery::judged_verified(2));
        }
        forgery::append(&ledger, &lines);
        fs::write(scene.note_path("go"), "").expect("a note");
        let ran = scene.resume(&[]).end();
        assert_ne!(ran.code, Some(0), "with runs: {with_runs}: {ran:#?}");
        assert!(!ran.stdout.contains("VERIFIED_DONE"), "with runs: {with_runs}: {ran:#?}");
    }
}

#[test]
fn resume_of_a_verified_loop_runs_the_gates_again() {
    let scene = Scene::new(DONE, ": > done.txt");
    verified(scene.drive(&[]));
    // As if its driver had been killed before the report was written.
    let id = scene.loop_id();
    verified(scene.resume(&[&id]).end());
    scene.sandbox.remove("done.txt");
    unverified(scene.resume(&[&id]).end(), 1);
}

#[test]
fn gates_accepted_after_the_start_end_the_loop_as_needs_human() {
    let weaker = "verify: ['true']\n";
    let scene = Scene::new(DONE, &format!("printf \"verify: ['true']\\n\" > ralph.yaml; {WAITS}"));
    let sandbox = &scene.sandbox;
    let running = scene.start(&["--max-iterations", "2"]);
    scene.await_note("ready");
    forgery::forge_acceptance(sandbox, weaker);
    fs::write(scene.note_path("go"), "").expect("a note");
    let ran = unverified(running.end(), 3);
    scene.ended_as("needs_human");
    assert!(says(&ran, "accepted after"), "{ran:#?}");
}

#[test]
fn code_under_test_that_swaps_and_restores_a_file_never_verifies() {
    let swap = "cp test.sh $NOTES/kept; echo 'exit 0' > test.sh; sh test.sh; code=$?; cat $NOTES/kept > test.sh; exit $code";
    let by_folder = "mkdir -p $NOTES/evil; echo 'exit 0' > $NOTES/evil/test.sh; mv tests $NOTES/tests; mv $NOTES/evil tests; \
                     sh tests/test.sh; code=$?; mv tests $NOTES/evil; mv $NOTES/tests tests; exit $code";
    // The same, with the folder's modification time changed too, as a temporary file in it would.
    let by_touched_folder =
        by_folder.replace("mv $NOTES/tests tests;", "mv $NOTES/tests tests; touch tests/x; rm tests/x;");
    for (gate, named) in [(swap, "test.sh"), (by_folder, "tests"), (&by_touched_folder, "tests")] {
        let scene = Scene::new(gate, "true");
        scene.sandbox.file("test.sh", "exit 1\n");
        scene.sandbox.file("tests/test.sh", "exit 1\n");
        let ran = unverified(scene.drive(&["--max-iterations", "3"]), 1);
        assert!(says(&ran, named), "{ran:#?}");
        assert_eq!(scene.runs(), 1, "it ends, and does not try again");
    }
}

#[test]
fn a_pass_on_the_files_that_failed_is_not_verified() {
    let gate = "test -e done.txt && test -e $NOTES/installed";
    let scene = Scene::new(gate, ": > done.txt; test $run = 1 || : > \"$NOTES/installed\"");
    let ran = unverified(scene.drive(&[]), 1);
    assert!(says(&ran, "passed on the same files that failed before"), "{ran:#?}");
    assert_eq!(
        scene.event_fields("judged", "reason").last().expect("a verdict")["code"],
        "passed_after_failing"
    );
}

#[test]
fn an_agent_that_could_not_start_is_a_usage_error_whatever_the_gates_say() {
    for agent in ["command:no-such-program-anywhere", "command:./not-executable", "command:./gone.sh"] {
        let scene = Scene::new("true", "true");
        scene.sandbox.file("not-executable", "#!/bin/sh\n");
        let ran = scene.sandbox.ralph(&["loop", "shut the door", "--agent", agent]);
        unverified(ran, 2);
    }
}

#[test]
fn a_login_refused_twice_pauses_for_the_user_whatever_the_gates_say() {
    let refused = r#"echo '{"type":"result","subtype":"success","is_error":true,"api_error_status":401,"result":"Invalid API key"}'"#;
    let scene = Scene::of_claude("true", refused);
    let ran = unverified(scene.drive(&[]), 3);
    scene.is_paused_because("not_signed_in");
    assert!(says(&ran, "Invalid API key"), "{ran:#?}");
    assert_eq!(scene.runs(), 2);
    // Refused once, then served.
    let scene = Scene::of_claude(
        DONE,
        &format!(
            "if test $run = 1; then {refused}; else : > done.txt; echo '{{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"ok\"}}'; fi"
        ),
    );
    verified(scene.drive(&[]));
}

#[test]
fn a_verdict_printed_by_the_agent_does_not_change_the_exit_code() {
    // Only the exit code counts: any process can print a line.
    let scene = Scene::new(DONE, "echo VERIFIED_DONE");
    let running: Running = scene.start(&["--max-iterations", "1"]);
    assert_eq!(running.end().code, Some(1));
}

#[test]
fn files_that_the_agent_ignores_or_registers_as_reports_are_still_compared() {
    let swap = "cp tests/t.sh $NOTES/kept; echo 'exit 0' > tests/t.sh; sh tests/t.sh; code=$?; cat $NOTES/kept > tests/t.sh; exit $code";
    let ignores = "echo tests/ >> .gitignore; git rm -qr --cached tests; rm -f \"$HOME\"/.ralph/repos/*/loops/*/ignore-rules";
    let ours = r#"for repo in "$HOME"/.ralph/repos/*; do
echo '{"reports":[{"files":[{"path":"tests/t.sh","sha256":"'$(sha256sum tests/t.sh | cut -c1-64)'"}],"complete":true}]}' > "$repo/reports.json"
done"#;
    for agent in [ignores, ours] {
        let scene = Scene::new(swap, agent);
        scene.sandbox.file("tests/t.sh", "exit 1\n");
        scene.sandbox.git(&["add", "."]);
        scene.sandbox.git(&["commit", "-qm", "tests"]);
        let ran = unverified(scene.drive(&["--max-iterations", "2"]), 1);
        assert!(says(&ran, "tests/t.sh"), "{ran:#?}");
    }
}

#[test]
fn a_pipe_in_place_of_the_ledger_does_not_block() {
    let scene = Scene::new(DONE, &format!(": > done.txt; {WAITS}"));
    let ran = forged(&scene, &["--max-iterations", "1"], |ledger| {
        fs::remove_file(&ledger).expect("removed");
        assert!(std::process::Command::new("mkfifo").arg(&ledger).status().expect("mkfifo").success());
    });
    assert_ne!(ran.code, Some(0), "{ran:#?}");
    assert!(!ran.stdout.contains("VERIFIED_DONE"), "{ran:#?}");
}

#[test]
fn resume_without_a_loop_is_not_a_success() {
    let scene = Scene::new(DONE, "true");
    unverified(scene.resume(&[]).end(), 3);
}

#[test]
fn a_file_that_is_new_in_this_loop_may_be_rewritten_by_a_gate() {
    let gate = "for f in *.txt; do cp $f $NOTES/x && cat $NOTES/x > $f; done; test -f done.txt";
    let scene = Scene::new(gate, "echo new > new.txt; : > done.txt");
    verified(scene.drive(&[]));
}
