//! Agents that forge the records of a block, or free themselves: no stop ends verified by it, and none is
//! allowed without a message.

use std::fs;

use serde_json::json;

use crate::forgery;
use ralph_testkit::{HookAnswer, Sandbox, Session};

const GATE: &str = "verify:\n  - test -e done.txt\n";
const GUARD: &str = "guard: [session]\nverify:\n  - name: tests\n    run: test ! -e broken\n";
const PROMISE: &str = "All of it works.\n\n<promise>DONE</promise>";

fn looping(sandbox: &Sandbox) -> Session<'_> {
    let talk = Session::looping(sandbox, "fix --completion-promise DONE");
    talk.agent_works_with("Bash").stops(PROMISE).blocked();
    talk
}

/// A guarded session that broke something and was blocked.
fn guarded(sandbox: &Sandbox) -> Session<'_> {
    let talk = Session::new(sandbox);
    talk.user_says("make it faster").silent();
    talk.agent_writes("broken", "red\n");
    talk.agent_stops().blocked();
    talk
}

/// The stop was allowed, and the user reads why.
#[track_caller]
fn allowed_with_a_message(answer: &HookAnswer, word: &str) -> String {
    let message = answer.allowed().unwrap_or_else(|| panic!("not a word: {answer:#?}"));
    assert!(message.to_lowercase().contains(word), "`{word}` is missing: {message}");
    message
}

/// The ledger of the session's own loop or guard.
fn ledger_of_session(sandbox: &Sandbox) -> std::path::PathBuf {
    forgery::ledger(sandbox)
}

/// A change to the records of a guarded session.
type EditOfHome = fn(&Sandbox);

/// A change to the ledger of a session's loop.
type EditOfLedger = fn(&std::path::Path);

// 1. The snapshot.

#[test]
fn a_snapshot_frees_no_session() {
    for verdict in ["cancelled", "verified"] {
        let sandbox = Sandbox::gated(GATE);
        let talk = looping(&sandbox);
        let status = json!({"status": "ended", "verdict": verdict});
        forgery::write_snapshot(&ledger_of_session(&sandbox), status.clone());
        talk.agent_works_with("Bash").stops(PROMISE).blocked();
        let sandbox = Sandbox::gated(GUARD);
        let talk = guarded(&sandbox);
        forgery::write_snapshot(&ledger_of_session(&sandbox), status);
        talk.agent_uses("Write");
        talk.agent_stops().blocked();
    }
}

// 2. The ledger.

#[test]
fn a_forged_verdict_frees_no_session() {
    let sandbox = Sandbox::gated(GATE);
    let talk = looping(&sandbox);
    forgery::append(&ledger_of_session(&sandbox), &[forgery::judged_verified(2)]);
    talk.agent_works_with("Bash").stops(PROMISE).blocked();
    let status = sandbox.status();
    assert!(!status.to_string().contains("\"verified\""), "{status:#}");
}

#[test]
fn a_verdict_that_the_code_under_test_forges_frees_no_session() {
    let sandbox = Sandbox::gated("verify:\n  - sh check.sh\n");
    let talk = Session::looping(&sandbox, "fix --completion-promise DONE");
    // Its own processes, as it can see them, and a line with a valid hash.
    sandbox.file(
        "check.sh",
        "for i in 1 2 3; do sleep 0.05; done\nuntil test -e ../go; do sleep 0.01; done\nexit 1\n",
    );
    let start_file = sandbox.project().parent().expect("a parent").join("go");
    std::thread::scope(|scope| {
        let stop = talk.stop(PROMISE);
        let stop = scope.spawn(move || stop.answer());
        ralph_testkit::wait_until("a run has begun", || {
            let ledgers = forgery::ledgers(&sandbox);
            ledgers.len() == 1
                && forgery::events(&ledgers[0]).iter().any(|event| event["event"] == "run_started")
        });
        let ledger = ledger_of_session(&sandbox);
        let pid = forgery::events(&ledger).iter().rev().find_map(|event| event["pid"].as_i64());
        let mut judged = forgery::judged_verified(1);
        judged["process"] = json!(pid);
        forgery::append(&ledger, &[judged]);
        fs::write(&start_file, "").expect("a file");
        let answer = stop.join().expect("an answer");
        let value = answer.ran.json();
        assert!(
            value["decision"] == "block" || value["systemMessage"].is_string(),
            "freed without a word: {answer:#?}"
        );
        assert!(!answer.shown_to_user().to_lowercase().contains("verified:"), "{answer:#?}");
    });
}

// 3. Receipts, green and red.

/// The gate runs a program that git ignores, so the fingerprint does not include it.
fn with_ignored_tool(guard: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.file(".gitignore", "dist/\n");
    sandbox.file("dist/tool.sh", "test ! -e broken\n");
    sandbox.file("ralph.yaml", &format!("{guard}verify:\n  - name: tests\n    run: sh dist/tool.sh\n"));
    sandbox.trust();
    sandbox
}

#[test]
fn a_receipt_from_an_agents_shell_does_not_count() {
    for client in [true, false] {
        let sandbox = with_ignored_tool("guard: [session]\n");
        let talk = guarded(&sandbox);
        sandbox.file("dist/tool.sh", "exit 0\n");
        let mut command = sandbox.command(&["verify"]);
        if client {
            command.env("CLAUDECODE", "1").env("CLAUDE_CODE_SESSION_ID", "session-1");
        }
        assert!(command.output().expect("the binary").status.success());
        sandbox.file("dist/tool.sh", "test ! -e broken\n");
        talk.agent_uses("Write");
        talk.agent_stops().blocked();
    }
}

#[test]
fn a_forged_receipt_does_not_count() {
    let sandbox = with_ignored_tool("guard: [session]\n");
    let talk = guarded(&sandbox);
    sandbox.file("dist/tool.sh", "exit 0\n");
    sandbox.verify(&[]);
    // Every pointer and every line stays; the tool is restored.
    sandbox.file("dist/tool.sh", "test ! -e broken\n");
    for agent in ["check", "session"] {
        let answer = if agent == "check" { sandbox.stop("check").answer() } else { talk.agent_stops() };
        if agent == "session" {
            answer.blocked();
        }
    }
}

#[test]
fn a_failure_from_an_agents_shell_is_not_a_failure_from_before() {
    let sandbox = with_ignored_tool("guard: [session]\n");
    let talk = Session::new(&sandbox);
    talk.user_says("make it faster").silent();
    // On the files at the time of the prompt, with another tool: it fails with the exact text of the later failure.
    sandbox.file("dist/tool.sh", "exit 1\n");
    for client in [true, false] {
        let mut command = sandbox.command(&["verify"]);
        if client {
            command.env("CLAUDECODE", "1").env("CLAUDE_CODE_SESSION_ID", "session-1");
        }
        assert_eq!(command.output().expect("the binary").status.code(), Some(1));
    }
    sandbox.file("dist/tool.sh", "test ! -e broken\n");
    talk.agent_writes("broken", "");
    talk.agent_stops().blocked();
}

#[test]
fn a_failure_from_before_the_session_does_not_block() {
    let sandbox = Sandbox::gated("guard: [session]\nverify:\n  - name: tests\n    run: '! cat broken'\n");
    sandbox.file("broken", "src/a.c:1:1: error: red\n");
    sandbox.verify(&[]);
    let talk = Session::new(&sandbox);
    talk.user_says("make it faster").silent();
    talk.agent_writes("other", "");
    allowed_with_a_message(&talk.agent_stops(), "tests");
}

#[test]
fn a_pass_on_the_files_that_failed_is_allowed_and_not_verified() {
    for door in ["guard", "loop", "check"] {
        let guard = if door == "guard" { "guard: [session]\n" } else { "" };
        let sandbox = with_ignored_tool(guard);
        sandbox.file("broken", "red\n");
        let installs = || sandbox.file("dist/tool.sh", "exit 0\n");
        let answer = match door {
            "guard" => {
                sandbox.remove("broken");
                let talk = guarded(&sandbox);
                installs();
                talk.agent_uses("Bash");
                talk.agent_stops()
            }
            "loop" => {
                let talk = looping(&sandbox);
                installs();
                talk.agent_works_with("Bash").stops(PROMISE)
            }
            _ => {
                sandbox.stop("check").answer().blocked();
                installs();
                sandbox.stop("check").answer()
            }
        };
        let message = allowed_with_a_message(&answer, "same files that failed before");
        assert!(!message.contains("Verified"), "{door}: {message}");
        let judged = sandbox.events_named("judged");
        assert_eq!(
            judged.last().expect("a verdict")["attempt"],
            1,
            "{door}: no attempt is used: {judged:#?}"
        );
        let ledger = ledger_of_session(&sandbox);
        let runs = forgery::events(&ledger).iter().filter(|event| event["event"] == "run_started").count();
        assert_eq!(runs, 3, "{door}: red, green, green once more");
    }
}

// 4. Acceptances.

#[test]
fn an_acceptance_after_the_prompt_ends_as_needs_human() {
    let weaker = "guard: [session]\nverify:\n  - name: tests\n    run: 'true'\n";
    for blocked in [true, false] {
        let sandbox = Sandbox::gated(GUARD);
        let talk = if blocked {
            guarded(&sandbox)
        } else {
            let talk = Session::new(&sandbox);
            talk.user_says("make it faster").silent();
            talk
        };
        sandbox.file("ralph.yaml", weaker);
        forgery::forge_acceptance(&sandbox, weaker);
        talk.agent_writes("more", "");
        let answer = talk.agent_stops();
        if answer.ran.json()["decision"] != "block" {
            let message = allowed_with_a_message(&answer, "accepted after");
            assert!(!message.contains("erified:") && !message.contains("All gates passed"), "{message}");
        }
        let verdicts = sandbox.events_named("judged");
        assert!(verdicts.iter().all(|judged| judged["verdict"] != "verified"), "{verdicts:#?}");
        assert_eq!(verdicts.last().expect("a verdict")["verdict"], "needs_human");
    }
}

#[test]
fn an_acceptance_after_a_loop_began_ends_it_as_needs_human() {
    let weaker = "verify: ['true']\n";
    let sandbox = Sandbox::gated(GATE);
    let talk = looping(&sandbox);
    sandbox.file("ralph.yaml", weaker);
    forgery::forge_acceptance(&sandbox, weaker);
    let message = allowed_with_a_message(&talk.agent_works_with("Bash").stops(PROMISE), "accepted after");
    assert!(message.contains("/ralph-loop") || message.contains("ralph "), "the way on: {message}");
    assert_eq!(talk.state()["status"], json!({"status": "ended", "verdict": "needs_human"}));
}

#[test]
fn an_acceptance_during_the_session_does_not_count_for_a_sub_agent() {
    let weaker = "verify: ['true']\n";
    let sandbox = Sandbox::gated(GATE);
    let talk = Session::new(&sandbox);
    talk.starts("startup").silent();
    talk.user_says("fix it").silent();
    sandbox.file("ralph.yaml", weaker);
    forgery::forge_acceptance(&sandbox, weaker);
    sandbox.stop("check").answer();
    let verdicts = sandbox.events_named("judged");
    assert!(verdicts.iter().all(|judged| judged["verdict"] != "verified"), "{verdicts:#?}");
}

// 6. Swaps.

#[test]
fn files_that_change_while_the_gates_run_are_named_and_nothing_is_verified() {
    let swap =
        "cp test.sh ../kept; echo 'exit 0' > test.sh; sh test.sh; code=$?; cat ../kept > test.sh; exit $code";
    for door in ["guard", "loop", "check"] {
        let guard = if door == "guard" { "guard: [session]\n" } else { "" };
        let sandbox = Sandbox::new();
        sandbox.file("ralph.yaml", &format!("{guard}verify:\n  - run: {}\n", json!(swap)));
        sandbox.file("test.sh", "exit 1\n");
        sandbox.trust();
        let answer = match door {
            "guard" => {
                let talk = Session::new(&sandbox);
                talk.user_says("make it faster").silent();
                talk.agent_writes("more", "");
                talk.agent_stops()
            }
            "loop" => Session::looping(&sandbox, "fix --completion-promise DONE")
                .agent_works_with("Bash")
                .stops(PROMISE),
            _ => sandbox.stop("check").answer(),
        };
        allowed_with_a_message(&answer, "test.sh");
        let verdicts = sandbox.events_named("judged");
        assert!(verdicts.iter().all(|judged| judged["verdict"] != "verified"), "{door}: {verdicts:#?}");
    }
}

#[test]
fn files_that_the_users_own_run_rewrote_are_compared_by_content() {
    let sandbox = Sandbox::new();
    sandbox.file(
        "ralph.yaml",
        "guard: [session]\nverify:\n  - cp ../template generated.txt && test ! -e broken\n",
    );
    fs::write(sandbox.project().parent().expect("a parent").join("template"), "same\n").expect("a file");
    sandbox.file("generated.txt", "same\n");
    sandbox.trust();
    sandbox.ralph(&["verify"]).success();
    let talk = Session::new(&sandbox);
    talk.user_says("make it faster").silent();
    talk.agent_writes("more", "");
    talk.agent_stops().allowed();
    assert_eq!(sandbox.events_named("judged").last().expect("a verdict")["verdict"], "verified");
}

// 8. Freed silently.

#[test]
fn a_pause_or_cancel_piped_into_the_hook_is_reported_at_the_stop() {
    for how in ["pause", "/cancel-ralph"] {
        let sandbox = Sandbox::gated(GATE);
        let talk = looping(&sandbox);
        // The answer goes to the process that piped it; the user does not see it.
        if how == "pause" {
            talk.user_says("pause");
        } else {
            talk.command("cancel-ralph", "");
        }
        let word = if how == "pause" { "paused" } else { "cancelled" };
        allowed_with_a_message(&talk.agent_works_with("Bash").stops("Bye."), word);
        // Even if that answer was discarded: a paused loop is reported at every stop.
        if how == "pause" {
            allowed_with_a_message(&talk.agent_works_with("Bash").stops("Bye."), word);
        }
    }
    let sandbox = Sandbox::gated(GUARD);
    let talk = guarded(&sandbox);
    talk.user_says("pause");
    talk.agent_uses("Write");
    allowed_with_a_message(&talk.agent_stops(), "paused");
}

#[test]
fn a_command_that_frees_a_session_is_reported_at_its_stop() {
    for verb in ["cancel", "pause"] {
        let sandbox = Sandbox::gated(GATE);
        let talk = looping(&sandbox);
        sandbox.ralph(&[verb]).success();
        allowed_with_a_message(
            &talk.agent_works_with("Bash").stops("Bye."),
            if verb == "pause" { "paused" } else { "cancelled" },
        );
    }
    let sandbox = Sandbox::gated(GUARD);
    let talk = guarded(&sandbox);
    sandbox.ralph(&["pause"]).success();
    talk.agent_uses("Write");
    allowed_with_a_message(&talk.agent_stops(), "paused");
}

#[test]
fn a_session_whose_binding_is_gone_is_still_blocked() {
    let sandbox = Sandbox::gated(GATE);
    let talk = looping(&sandbox);
    fs::remove_dir_all(sandbox.ralph_home().join("sessions")).expect("removed");
    talk.agent_works_with("Bash").stops(PROMISE).blocked();
    let sandbox = Sandbox::gated(GUARD);
    let talk = guarded(&sandbox);
    fs::remove_dir_all(sandbox.ralph_home().join("sessions")).expect("removed");
    talk.agent_uses("Write");
    talk.agent_stops().blocked();
}

#[test]
fn a_session_with_deleted_records_is_reported() {
    let sandbox = Sandbox::gated(GATE);
    let talk = looping(&sandbox);
    fs::remove_dir_all(sandbox.ralph_home()).expect("removed");
    allowed_with_a_message(&talk.agent_works_with("Bash").stops(PROMISE), "unverified");
    let sandbox = Sandbox::gated(GUARD);
    let talk = guarded(&sandbox);
    fs::remove_dir_all(sandbox.ralph_home()).expect("removed");
    talk.agent_uses("Write");
    allowed_with_a_message(&talk.agent_stops(), "unverified");
}

#[test]
fn a_deleted_loop_file_is_reported_at_the_stop_whatever_came_between() {
    for between in ["nothing", "a tool", "status", "a sub-agent"] {
        let sandbox = Sandbox::gated(GATE);
        let talk = looping(&sandbox);
        sandbox.remove(".claude/ralph-loop.local.md");
        match between {
            "a tool" => {
                drop(
                    talk.event_with("PostToolUse", &json!({"tool_name": "Agent", "tool_input": {}})).answer(),
                );
            }
            "status" => drop(sandbox.status()),
            "a sub-agent" => drop(talk.agent("SubagentStart", 7, "general-purpose", "").answer()),
            _ => {}
        }
        allowed_with_a_message(&talk.stops("Bye."), "cancel");
        assert_eq!(talk.state()["status"]["verdict"], "cancelled", "{between}");
    }
}

#[test]
fn a_record_that_denies_any_edit_is_not_believed() {
    let sandbox = Sandbox::gated(GUARD);
    let talk = guarded(&sandbox);
    forgery::edit_session_file(&sandbox, "watched.json", |watched| watched["wrote"] = json!(false));
    talk.agent_stops().blocked();
    // Not blocked so far.
    let sandbox = Sandbox::gated(GUARD);
    let talk = Session::new(&sandbox);
    talk.user_says("make it faster").silent();
    talk.agent_writes("broken", "red\n");
    forgery::edit_session_file(&sandbox, "watched.json", |watched| watched["wrote"] = json!(false));
    let answer = talk.agent_stops();
    assert!(!answer.ran.stdout.is_empty(), "freed without a word: {answer:#?}");
}

// Deadlines, limits.

#[test]
fn gates_that_do_not_fit_the_deadline_allow_the_stop_and_are_reported() {
    for door in ["guard", "loop", "check"] {
        let guard = if door == "guard" { "guard: [session]\n" } else { "" };
        let sandbox = Sandbox::gated(&format!("{guard}verify:\n  - sleep 20\n"));
        let answer = match door {
            "guard" => {
                let talk = Session::new(&sandbox);
                talk.user_says("make it faster").silent();
                talk.agent_writes("more", "");
                talk.stop("Done.").deadline("400ms").answer()
            }
            "loop" => {
                let talk = Session::looping(&sandbox, "fix --completion-promise DONE");
                talk.agent_works_with("Bash").stop(PROMISE).deadline("400ms").answer()
            }
            _ => sandbox.stop("check").deadline("400ms").answer(),
        };
        let message = allowed_with_a_message(&answer, "unverified");
        assert!(message.contains("deadline"), "{door}: {message}");
    }
}

#[test]
fn a_blocked_session_keeps_the_limits_it_began_with() {
    let sandbox = Sandbox::gated(GUARD);
    let talk = guarded(&sandbox);
    sandbox.user_config("budget: { attempts: 1, errors: 1 }\n");
    talk.agent_stops().blocked();
    let sandbox = Sandbox::gated(GATE);
    sandbox.stop("check").answer().blocked();
    sandbox.user_config("budget: { attempts: 1, errors: 1 }\n");
    sandbox.stop("check").answer().blocked();
}

#[test]
fn agent_instructions_do_not_mention_ralph_verify() {
    let sandbox = Sandbox::gated(GATE);
    let (reason, detail) = sandbox.stop("check").answer().blocked();
    assert!(!reason.contains("ralph verify") && !detail.contains("ralph verify"), "{reason}\n{detail}");
    let plugin = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugin");
    for entry in walk(plugin.as_ref()) {
        // The help is for the user, who may run the gates.
        if entry.ends_with("ralph-help.md") {
            continue;
        }
        let text = fs::read_to_string(&entry).unwrap_or_default();
        assert!(!text.contains("ralph verify"), "{}", entry.display());
    }
}

fn walk(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() { found.extend(walk(&path)) } else { found.push(path) }
    }
    found
}

#[test]
fn init_and_doctor_warn_of_gates_that_may_not_fit_the_deadline() {
    let slow = "verify:\n  - { run: 'true', name: slow, timeout: 50m }\n  - { run: 'true', name: also, timeout: 20m }\n";
    let sandbox = Sandbox::gated(slow);
    let init = sandbox.ralph(&["init", "--yes", "--no-try"]).success();
    assert!(init.stdout.contains("add up to 4200 s"), "{init:#?}");
    let doctor = sandbox.ralph(&["doctor"]);
    assert!(doctor.stdout.contains("add up to 4200 s"), "{doctor:#?}");
}

#[test]
fn a_prompt_piped_in_by_the_agent_does_not_silently_free_the_session() {
    // Before the first block: unjudged edits are still judged.
    let sandbox = Sandbox::gated(GUARD);
    let talk = Session::new(&sandbox);
    talk.user_says("make it faster").silent();
    talk.agent_writes("broken", "red\n");
    talk.user_says("forged").silent();
    talk.agent_stops().blocked();
    // Already blocked: the unchecked stop is reported, and status agrees.
    talk.user_says("forged again").silent();
    let message = allowed_with_a_message(&talk.agent_stops(), "not checked");
    assert!(message.contains("tests"), "{message}");
    assert_eq!(sandbox.state()["status"]["status"], "paused");
    // The next change is judged again; what the gate says is no list of failures, so it cannot be told from new ones.
    talk.user_says("go on").silent();
    talk.agent_writes("broken", "redder\n");
    talk.agent_stops().blocked();
}

#[test]
fn a_blocked_session_that_reverts_everything_is_not_blocked_by_earlier_failures() {
    let sandbox = Sandbox::gated("guard: [session]\nverify:\n  - name: tests\n    run: cat notes; exit 1\n");
    sandbox.file("notes", "old\n");
    let talk = Session::new(&sandbox);
    talk.user_says("make it faster").silent();
    talk.agent_writes("notes", "new\n");
    talk.agent_stops().blocked();
    talk.agent_writes("notes", "old\n");
    allowed_with_a_message(&talk.agent_stops(), "tests");
    assert_eq!(sandbox.state()["status"]["verdict"], "released");
}

#[test]
fn a_forged_binding_does_not_free_the_session() {
    for elsewhere in ["verify", "no-such-loop"] {
        let sandbox = Sandbox::gated(GATE);
        sandbox.verify(&[]);
        let talk = looping(&sandbox);
        forgery::edit_session_file(&sandbox, "loop.json", |binding| binding["loop"] = json!(elsewhere));
        talk.agent_works_with("Bash").stops(PROMISE).blocked();
    }
}

#[test]
fn a_stop_piped_in_by_the_agent_does_not_silence_the_stop_of_the_client() {
    // Judged in the agent's own shell, with its own tools or without time: the client's stop reports it.
    let sandbox = Sandbox::gated(GATE);
    let talk = looping(&sandbox);
    talk.agent_works_with("Bash").stop(PROMISE).deadline("0s").answer();
    allowed_with_a_message(&talk.stops(PROMISE), "paused");
    let sandbox = Sandbox::gated(GATE);
    let talk = looping(&sandbox);
    sandbox.file("done.txt", "");
    talk.agent_works_with("Bash").stops(PROMISE);
    sandbox.remove("done.txt");
    allowed_with_a_message(&talk.stops(PROMISE), "already judged (verified)");
}

#[test]
fn a_guard_with_edited_records_is_reported_or_blocks() {
    let edits: [(&str, EditOfHome); 4] = [
        ("another root", |sandbox| {
            forgery::edit_session_file(sandbox, "watched.json", |watched| watched["root"] = json!("/tmp"));
        }),
        ("no guard in trust.json", |sandbox| {
            let path = sandbox.ralph_home().join("trust.json");
            let text = fs::read_to_string(&path).expect("trust").replace("\"session\"", "\"nobody\"");
            fs::write(&path, text).expect("written");
        }),
        ("no trust at all", |sandbox| {
            fs::remove_file(sandbox.ralph_home().join("trust.json")).expect("removed");
            sandbox.file("ralph.yaml", "verify:\n  - name: tests\n    run: test ! -e broken\n");
        }),
        ("a pipe in its place", |sandbox| {
            let path = sandbox.ralph_home().join("trust.json");
            fs::remove_file(&path).expect("removed");
            let made = std::process::Command::new("mkfifo").arg(&path).status();
            assert!(made.expect("mkfifo").success());
        }),
    ];
    for (what, edit) in edits {
        let sandbox = Sandbox::gated(GUARD);
        let talk = guarded(&sandbox);
        edit(&sandbox);
        let answer = talk.agent_stops();
        assert!(!answer.ran.stdout.is_empty(), "{what}: freed without a word: {answer:#?}");
    }
}

#[test]
fn a_loop_with_edited_records_is_reported_or_blocks() {
    let edits: [(&str, EditOfLedger); 4] = [
        ("emptied", |ledger| fs::write(ledger, "").expect("written")),
        ("garbage", |ledger| fs::write(ledger, "garbage\n").expect("written")),
        ("another session's", |ledger| {
            forgery::append(ledger, &[json!({"event": "bound", "session": "session-99"})]);
        }),
        ("a pipe in its place", |ledger| {
            fs::remove_file(ledger).expect("removed");
            let made = std::process::Command::new("mkfifo").arg(ledger).status();
            assert!(made.expect("mkfifo").success());
        }),
    ];
    for (what, edit) in edits {
        let sandbox = Sandbox::gated(GATE);
        let talk = looping(&sandbox);
        edit(&ledger_of_session(&sandbox));
        let answer = talk.stops(PROMISE);
        assert!(!answer.ran.stdout.is_empty(), "{what}: freed without a word: {answer:#?}");
    }
    let sandbox = Sandbox::gated(GATE);
    let talk = looping(&sandbox);
    let loops = ledger_of_session(&sandbox).ancestors().nth(2).expect("loops").to_owned();
    fs::remove_dir_all(loops).expect("removed");
    fs::remove_dir_all(sandbox.ralph_home().join("sessions")).expect("removed");
    let answer = talk.stops(PROMISE);
    assert!(!answer.ran.stdout.is_empty(), "the loop file still names it: {answer:#?}");
}

#[test]
fn forged_records_of_rewritten_files_and_earlier_failures_do_not_count() {
    // Recorded as rewritten only since the session began.
    let swap =
        "cp test.sh ../kept; echo 'exit 0' > test.sh; sh test.sh; code=$?; cat ../kept > test.sh; exit $code";
    let sandbox = Sandbox::new();
    sandbox.file("ralph.yaml", &format!("guard: [session]\nverify:\n  - run: {}\n", json!(swap)));
    sandbox.file("test.sh", "exit 1\n");
    sandbox.trust();
    let talk = Session::new(&sandbox);
    talk.user_says("make it faster").silent();
    talk.agent_writes("more", "");
    for name in sandbox.remembered().into_iter().filter(|name| name.ends_with("/accepted-ignore-rules")) {
        let path = sandbox.ralph_home().join(name).with_file_name("rewritten-files.json");
        fs::write(path, r#"{"test.sh":"2020-01-01T00:00:00Z"}"#).expect("forged");
    }
    allowed_with_a_message(&talk.agent_stops(), "test.sh");
    // A backdated failure.
    let sandbox = Sandbox::gated(GUARD);
    sandbox.verify(&[]);
    let talk = guarded(&sandbox);
    let own = forgery::events(&ledger_of_session(&sandbox));
    let found = own.iter().find(|event| event["event"] == "prompt_seen").expect("a prompt")["tree"].clone();
    let mut red = own.iter().rev().find(|event| event["event"] == "judged").expect("a verdict").clone();
    red["tree"] = found;
    let verify = sandbox.remembered().into_iter().find(|name| name.ends_with("/verify/ledger.jsonl"));
    forgery::append(&sandbox.ralph_home().join(verify.expect("a ledger")), &[red]);
    talk.agent_writes("broken", "redder\n");
    talk.agent_stops().blocked();
}
