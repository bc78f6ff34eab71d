//! The always-on guard: whose stop is judged, by which gates, and how often it blocks.

use std::time::{Duration, Instant};

use serde_json::json;

use ralph_testkit::{Sandbox, Session, wait_until};

/// A repo whose sessions are guarded by a gate that fails while `broken` exists, and counts its runs.
fn guarded() -> Sandbox {
    guarded_by("cat broken >&2 && exit 1 || exit 0")
}

fn guarded_by(command: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.file("ralph.yaml", &definition(&sandbox, command));
    sandbox.trust();
    sandbox
}

fn definition(sandbox: &Sandbox, command: &str) -> String {
    format!("guard: [session]\nverify:\n  - name: tests\n    run: {}\n", json!(sandbox.counting(command)))
}

/// Nothing ran and no stop was recorded.
#[track_caller]
fn nothing_was_judged(sandbox: &Sandbox) {
    assert_eq!(sandbox.runs(), 0, "a gate ran");
    assert_eq!(sandbox.status()["loops"], json!([]));
}

#[test]
fn a_session_that_only_talks_is_not_blocked_and_nothing_runs() {
    let sandbox = guarded();
    sandbox.file("broken", "red\n");
    let talk = Session::new(&sandbox);
    talk.user_says("what does this do?").silent();
    for tool in ["Read", "Grep", "Glob", "WebFetch", "Agent"] {
        talk.agent_uses(tool).silent();
    }
    talk.agent_stops().silent();
    nothing_was_judged(&sandbox);
}

#[test]
fn an_edit_that_breaks_a_gate_is_blocked_until_it_is_fixed() {
    let sandbox = guarded();
    let talk = Session::new(&sandbox);
    talk.user_says("make it faster").silent();
    talk.agent_writes("broken", "two plus two is five\n");
    let answer = talk.agent_stops();
    let (reason, detail) = answer.blocked();
    assert!(reason.contains("gate `tests` failed") && reason.contains("1/5"), "{reason}");
    assert!(detail.contains("two plus two is five"), "{detail}");
    let shown = answer.ran.json()["systemMessage"].to_string();
    assert!(shown.contains("tests") && shown.contains("1 of 5"), "{shown}");
    // Stopping again changes nothing, and neither does an unrelated edit.
    let (reason, _) = talk.agent_stops().blocked();
    assert!(reason.contains("2/5"), "{reason}");
    talk.agent_writes("notes", "thinking\n");
    talk.agent_stops().blocked();
    sandbox.remove("broken");
    talk.agent_uses("Bash").silent();
    assert!(talk.agent_stops().notice().starts_with("ralph: gates pass"));
    // It is over. A client does not normally stop twice in a turn, so the second stop is reported; the next turn
    // costs nothing.
    let runs = sandbox.runs();
    assert!(talk.agent_stops().notice().contains("already judged (passing)"));
    talk.user_says("thanks").silent();
    talk.agent_stops().silent();
    assert_eq!(sandbox.runs(), runs);
}

#[test]
fn every_tool_that_may_have_written_counts_whichever_agent_used_it() {
    let ways: [(&str, &str, Option<&str>); 6] = [
        ("PostToolUse", "Edit", None),
        ("PostToolUse", "NotebookEdit", None),
        ("PostToolUse", "Bash", None),
        ("PostToolUse", "mcp__disk__put", None),
        ("PostToolUse", "Write", Some("agent-1")),
        ("PostToolUseFailure", "Bash", None),
    ];
    for (event, tool, agent) in ways {
        let sandbox = guarded();
        let talk = Session::new(&sandbox);
        talk.user_says("go").silent();
        sandbox.file("broken", "red\n");
        let mut used = talk.event(event).with("tool_name", tool).with("error", "Exit code 3");
        if let Some(agent) = agent {
            used = used.agent(agent).with("agent_type", "worker");
        }
        used.answer().silent();
        let blocked = talk.agent_stops();
        assert!(
            blocked.ran.stdout.contains("\"decision\":\"block\""),
            "{event} {tool} {agent:?}: {blocked:#?}"
        );
    }
}

#[test]
fn the_fifth_failing_stop_is_allowed_and_reported() {
    let sandbox = guarded();
    let talk = Session::new(&sandbox);
    talk.user_says("go").silent();
    for attempt in 1..=4 {
        talk.agent_writes("broken", &format!("try {attempt}\n"));
        let (reason, _) = talk.agent_stops().blocked();
        assert!(reason.contains(&format!("{attempt}/5")), "{reason}");
    }
    talk.agent_writes("broken", "try 5\n");
    let message = talk.agent_stops().notice();
    assert!(message.contains("released, UNVERIFIED") && message.contains("tests"), "{message}");
    assert_eq!(sandbox.state()["status"], json!({"status": "ended", "verdict": "released"}));
    assert!(talk.agent_stops().notice().contains("already judged (released)"));
}

#[test]
fn each_prompt_has_its_own_budget() {
    let sandbox = guarded();
    let talk = Session::new(&sandbox);
    talk.user_says("one").silent();
    talk.agent_writes("broken", "first way\n");
    for attempt in ["1/5", "2/5", "3/5"] {
        let (reason, _) = talk.agent_stops().blocked();
        assert!(reason.contains(attempt), "{reason}");
    }
    // The user pressed Esc, and asks for something else, which fails in another way.
    talk.user_says("two").silent();
    talk.agent_writes("broken", "second way\n");
    for attempt in 1..=4 {
        let (reason, _) = talk.agent_stops().blocked();
        assert!(reason.contains(&format!("{attempt}/5")), "{reason}");
    }
    assert!(talk.agent_stops().notice().contains("released, UNVERIFIED"));
    // And after a budget that was used up.
    talk.user_says("three").silent();
    talk.agent_writes("broken", "third way\n");
    let (reason, _) = talk.agent_stops().blocked();
    assert!(reason.contains("1/5"), "{reason}");
}

#[test]
fn two_sessions_in_one_repo_are_independent() {
    let sandbox = guarded();
    let (one, other) = (Session::new(&sandbox), Session::named(&sandbox, "session-2"));
    one.user_says("break it").silent();
    other.user_says("what is this?").silent();
    one.agent_writes("broken", "red\n");
    other.agent_uses("Read").silent();
    one.agent_stops().blocked();
    other.agent_stops().silent();
    let (reason, _) = one.agent_stops().blocked();
    assert!(reason.contains("2/5"), "{reason}");
}

#[test]
fn an_edit_of_the_user_does_not_block() {
    let sandbox = guarded();
    let talk = Session::new(&sandbox);
    talk.user_says("what do you think of it?").silent();
    sandbox.file("broken", "the user is half way through\n");
    talk.agent_uses("Read").silent();
    talk.agent_stops().silent();
    nothing_was_judged(&sandbox);
    // Neither do edits of the user between two prompts.
    talk.user_says("and now?").silent();
    talk.agent_stops().silent();
    nothing_was_judged(&sandbox);
}

#[test]
fn a_tool_that_could_write_and_did_not_does_not_block() {
    let sandbox = guarded();
    sandbox.file("broken", "red\n");
    let talk = Session::new(&sandbox);
    talk.user_says("list the files").silent();
    talk.agent_uses("Bash").silent();
    talk.agent_stops().silent();
    nothing_was_judged(&sandbox);
}

#[test]
fn plan_mode_does_not_block() {
    let sandbox = guarded();
    let talk = Session::new(&sandbox);
    talk.user_says("plan it").silent();
    talk.agent_writes("broken", "red\n");
    let message = talk.stop("Done.").with("permission_mode", "plan").answer().allowed().expect("a word");
    assert!(message.contains("plan mode") && message.contains("UNVERIFIED"), "{message}");
    nothing_was_judged(&sandbox);
    // After leaving plan mode, edits count.
    talk.agent_stops().blocked();
}

#[test]
fn a_pass_in_the_agents_own_shell_does_not_count() {
    let sandbox = guarded();
    let talk = Session::new(&sandbox);
    talk.user_says("go").silent();
    talk.agent_writes("fine", "green\n");
    sandbox.ralph(&["verify"]).success();
    assert_eq!(sandbox.runs(), 1);
    assert!(talk.agent_stops().notice().starts_with("ralph: gates pass"));
    assert_eq!(sandbox.runs(), 2);
}

#[test]
fn a_gate_that_failed_before_is_named_once_and_does_not_block() {
    let known_by_verify = |sandbox: &Sandbox| {
        sandbox.file("broken", "src/a.c:1:1: error: red for weeks\n");
        sandbox.ralph(&["verify"]).exits(1);
    };
    let known_by_a_stop = |sandbox: &Sandbox| {
        let talk = Session::new(sandbox);
        talk.user_says("go").silent();
        talk.agent_writes("broken", "src/a.c:1:1: error: red for weeks\n");
        talk.agent_stops().blocked();
    };
    for (how, make_known) in [("verify", &known_by_verify as &dyn Fn(&Sandbox)), ("a stop", &known_by_a_stop)]
    {
        let sandbox = guarded();
        make_known(&sandbox);
        let talk = Session::new(&sandbox);
        // The turn in which it became known is over.
        talk.queued_turn_begins();
        for (round, change) in ["one", "two", "three"].into_iter().enumerate() {
            talk.user_says(change).silent();
            talk.agent_writes("other", change);
            let answer = talk.agent_stops();
            if round == 0 {
                let message = answer.notice();
                assert!(
                    message.contains("Already failing before this prompt") && message.contains("tests"),
                    "{how}: {message}"
                );
            } else {
                answer.silent();
            }
        }
        // Another failure of the same gate is the agent's own.
        talk.user_says("four").silent();
        talk.agent_writes(
            "broken",
            "src/a.c:1:1: error: red for weeks\nsrc/a.c:2:1: error: red in a new way\n",
        );
        talk.agent_stops().blocked();
    }
}

#[test]
fn a_failure_from_before_the_prompt_blocks_only_if_it_cannot_be_read() {
    for (broken, blocks) in
        [("red, and not judged yet\n", true), ("src/a.c:1:1: error: not judged yet\n", false)]
    {
        let sandbox = guarded();
        sandbox.file("broken", broken);
        let talk = Session::new(&sandbox);
        talk.user_says("go").silent();
        talk.agent_writes("other", "x");
        let answer = talk.agent_stops();
        if blocks {
            answer.blocked();
        } else {
            assert!(answer.notice().contains("Already failing before this prompt"), "{answer:#?}");
        }
    }
}

#[test]
fn text_typed_into_a_running_turn_does_not_restart_it() {
    let sandbox = guarded();
    let talk = Session::new(&sandbox);
    talk.user_says("go").silent();
    talk.agent_writes("broken", "red\n");
    talk.agent_stops().blocked();
    talk.user_adds("and mind the style").silent();
    let (reason, _) = talk.agent_stops().blocked();
    assert!(reason.contains("2/5"), "{reason}");
}

#[test]
fn a_queued_prompt_has_its_own_turn() {
    let sandbox = guarded();
    let talk = Session::new(&sandbox);
    talk.user_says("go").silent();
    talk.agent_writes("broken", "first way\n");
    talk.agent_stops().blocked();
    talk.user_adds("then do the other thing").silent();
    // Esc; the queued prompt gets its turn, under a number that was not announced.
    talk.queued_turn_begins();
    talk.agent_writes("broken", "second way\n");
    let (reason, _) = talk.agent_stops().blocked();
    assert!(reason.contains("1/5"), "{reason}");
    // Text typed into that turn has its number: earlier edits in it still count.
    talk.user_adds("quickly").silent();
    let (reason, _) = talk.agent_stops().blocked();
    assert!(reason.contains("2/5"), "{reason}");
}

#[test]
fn edits_before_text_is_typed_into_a_queued_turn_count() {
    let sandbox = guarded();
    let talk = Session::new(&sandbox);
    talk.user_says("what is this?").silent();
    talk.user_adds("make it better").silent();
    talk.agent_stops().silent();
    talk.queued_turn_begins();
    talk.agent_writes("broken", "red\n");
    talk.user_adds("and faster").silent();
    talk.agent_stops().blocked();
}

#[test]
fn a_notification_is_not_a_prompt() {
    let sandbox = guarded();
    let talk = Session::new(&sandbox);
    talk.user_says("go, in the background").silent();
    talk.agent_writes("broken", "red\n");
    talk.agent_stops().blocked();
    for attempt in ["2/5", "3/5"] {
        talk.client_notifies().silent();
        talk.agent_uses("Bash").silent();
        let (reason, _) = talk.agent_stops().blocked();
        assert!(reason.contains(attempt), "{reason}");
    }
}

/// A sub-agent started by an earlier prompt continues under that prompt's number.
#[test]
fn a_sub_agent_of_an_earlier_prompt_does_not_reactivate_that_prompt() {
    let sandbox = guarded();
    let talk = Session::new(&sandbox);
    talk.user_says("start it").silent();
    let of_earlier = talk.tool_used("Write").agent("agent-1").with("agent_type", "worker");
    talk.user_says("go").silent();
    sandbox.file("broken", "red\n");
    for attempt in ["1/5", "2/5"] {
        of_earlier.answer().silent();
        talk.user_adds("quickly").silent();
        let (reason, _) = talk.agent_stops().blocked();
        assert!(reason.contains(attempt), "{reason}");
    }
}

#[test]
fn a_session_that_waits_for_its_own_agents_may_end_the_turn() {
    let sandbox = guarded();
    let talk = Session::new(&sandbox);
    talk.user_says("go").silent();
    talk.agent_writes("broken", "red\n");
    let waits = |kind: &str| {
        let entry = json!([{"id": "a1", "type": kind, "status": "running", "description": "work"}]);
        talk.stop("Done.").with("background_tasks", entry).answer()
    };
    waits("subagent").silent();
    assert_eq!(sandbox.runs(), 0);
    talk.client_notifies().silent();
    talk.agent_stops().blocked();
    waits("shell").blocked();
}

#[test]
fn an_untrusted_or_disabled_repo_does_not_block() {
    let untrusted = Sandbox::new();
    untrusted.file("ralph.yaml", &definition(&untrusted, "exit 1"));
    let off = Sandbox::new();
    off.file("ralph.yaml", &format!("enabled: false\n{}", definition(&off, "exit 1")));
    off.trust();
    let without_guard = Sandbox::new();
    without_guard.file("ralph.yaml", &definition(&without_guard, "exit 1").replace("[session]", "[check]"));
    without_guard.trust();
    let revoked = guarded_by("exit 1");
    revoked.ralph(&["trust", "--revoke"]).success();
    for (what, sandbox) in
        [("untrusted", untrusted), ("switched off", off), ("no guard", without_guard), ("revoked", revoked)]
    {
        let talk = Session::new(&sandbox);
        talk.user_says("go").silent();
        talk.agent_writes("file", "x");
        let answer = talk.agent_stops();
        // A user who asks for a guard without having accepted it is notified once.
        let is_told = what == "untrusted";
        assert_eq!(answer.allowed().is_some(), is_told, "{what}: {answer:#?}");
        talk.agent_stops().silent();
        nothing_was_judged(&sandbox);
    }
}

#[test]
fn an_agent_cannot_edit_its_guard_away() {
    type Edit = fn(&Sandbox);
    let edits: [(&str, Edit); 5] = [
        ("no guard", |sandbox| sandbox.file("ralph.yaml", "verify: ['true']\n")),
        ("another gate", |sandbox| sandbox.file("ralph.yaml", "guard: [session]\nverify: ['true']\n")),
        ("off", |sandbox| sandbox.file("ralph.yaml", "enabled: false\n")),
        ("no file", |sandbox| sandbox.remove("ralph.yaml")),
        ("no meaning", |sandbox| sandbox.file("ralph.yaml", "guard: {")),
    ];
    for (what, edit) in edits {
        let sandbox = guarded_by("exit 1");
        let talk = Session::new(&sandbox);
        talk.user_says("go").silent();
        edit(&sandbox);
        talk.agent_uses("Edit").silent();
        let answer = talk.agent_stops();
        assert!(answer.ran.stdout.contains("\"decision\":\"block\""), "{what}: {answer:#?}");
        answer.blocked();
    }
}

/// A definition that the user did not accept does not count, even if all its gates pass.
#[test]
fn a_definition_accepted_in_the_agents_shell_does_not_free_it() {
    let mut sandbox = guarded();
    {
        let talk = Session::new(&sandbox);
        talk.user_says("go").silent();
    }
    let easy = "guard: [session]\nverify: ['true']\n";
    sandbox.file("ralph.yaml", easy);
    sandbox.file("broken", "red\n");
    let sha256 = sandbox.ralph(&["trust", "--show", "--json"]).json()["sha256"].as_str().map(str::to_owned);
    sandbox.set("CLAUDECODE", "1");
    sandbox.set("CLAUDE_CODE_SESSION_ID", "session-1");
    sandbox.ralph(&["trust", "--hash", &sha256.expect("a SHA-256")]);
    let talk = Session::new(&sandbox);
    talk.queued_turn_begins();
    talk.agent_uses("Bash").silent();
    let (reason, _) = talk.agent_stops().blocked();
    assert!(reason.contains("tests"), "{reason}");
}

/// Otherwise a command that any shell may run would free it.
#[test]
fn revoking_trust_does_not_free_a_blocked_session() {
    let sandbox = guarded();
    let talk = Session::new(&sandbox);
    talk.user_says("go").silent();
    talk.agent_writes("broken", "red\n");
    talk.agent_stops().blocked();
    sandbox.ralph(&["trust", "--revoke"]).success();
    for attempt in ["2/5", "3/5", "4/5"] {
        let (reason, _) = talk.agent_stops().blocked();
        assert!(reason.contains(attempt) && reason.contains("revoked"), "{reason}");
    }
    talk.agent_stops().notice();
    assert_eq!(sandbox.state()["status"]["verdict"], "tampered");
    assert_eq!(sandbox.runs(), 1);
}

#[test]
fn trust_revoked_before_the_first_stop_is_reported() {
    let sandbox = guarded();
    let talk = Session::new(&sandbox);
    talk.user_says("go").silent();
    talk.agent_writes("broken", "red\n");
    sandbox.ralph(&["trust", "--revoke"]).success();
    let message = talk.agent_stops().notice();
    assert!(message.contains("revoked") && message.contains("UNVERIFIED"), "{message}");
    nothing_was_judged(&sandbox);
    talk.agent_stops().silent();
    // From the next prompt on nothing is guarded.
    talk.user_says("again").silent();
    talk.agent_writes("broken", "redder\n");
    talk.agent_stops().silent();
}

#[test]
fn a_resumed_or_cleared_session_starts_with_its_next_prompt() {
    let sandbox = guarded();
    let talk = Session::new(&sandbox);
    talk.user_says("go").silent();
    talk.agent_writes("broken", "src/a.c:1:1: error: red\n");
    talk.event("SessionEnd").with("reason", "other").answer().silent();
    talk.event("SessionStart").with("source", "resume").answer().silent();
    // Earlier unjudged edits are not forgotten.
    talk.agent_stops().blocked();
    talk.user_says("go on").silent();
    talk.agent_writes("other", "x");
    assert!(talk.agent_stops().notice().contains("Already failing before this prompt"));
}

#[test]
fn a_client_error_is_not_a_stop() {
    let sandbox = guarded();
    let talk = Session::new(&sandbox);
    talk.user_says("go").silent();
    talk.agent_writes("broken", "red\n");
    talk.event("StopFailure").with("error", "rate_limit").answer().silent();
    nothing_was_judged(&sandbox);
    talk.agent_stops().blocked();
}

#[test]
fn stop_ends_running_gates() {
    let sandbox = guarded_by("sleep 20");
    let talk = Session::new(&sandbox);
    talk.user_says("go").silent();
    talk.agent_writes("file", "x");
    let stopping = talk.stop("Done.").spawn();
    wait_until("the gate runs", || sandbox.runs() == 1);
    talk.user_adds("stop").answered();
    let freed = Instant::now();
    let output = stopping.wait_with_output().expect("an end");
    assert!(output.status.success());
    let message = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(message.contains("this stop was not checked"), "{message}");
    assert!(freed.elapsed() < Duration::from_secs(10), "the gate ran to its end: {:?}", freed.elapsed());
    talk.agent_stops().notice();
    assert_eq!(sandbox.runs(), 1);
}
