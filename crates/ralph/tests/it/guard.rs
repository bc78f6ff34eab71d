//! The always-on guard: whose stop is judged, by what, and how often it holds.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::conversation::Conversation;
use crate::support::{Sandbox, wait_until};

/// A repo whose sessions are guarded by a gate that fails while `broken` is there, and counts its runs.
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

/// Nothing ran and nothing is remembered of a stop.
#[track_caller]
fn nobody_was_judged(sandbox: &Sandbox) {
    assert_eq!(sandbox.runs(), 0, "a gate ran");
    assert_eq!(sandbox.status()["loops"], json!([]));
}

#[test]
fn whoever_only_talks_is_not_held_and_nothing_runs() {
    let sandbox = guarded();
    sandbox.file("broken", "red\n");
    let talk = Conversation::new(&sandbox);
    talk.person_says("what does this do?").silent();
    for tool in ["Read", "Grep", "Glob", "WebFetch", "Agent"] {
        talk.agent_uses(tool).silent();
    }
    talk.agent_stops().silent();
    nobody_was_judged(&sandbox);
}

#[test]
fn an_edit_that_breaks_a_gate_is_held_until_it_is_mended() {
    let sandbox = guarded();
    let talk = Conversation::new(&sandbox);
    talk.person_says("make it faster").silent();
    talk.agent_writes("broken", "two plus two is five\n");
    let answer = talk.agent_stops();
    let (reason, detail) = answer.held();
    assert!(reason.contains("gate `tests` failed") && reason.contains("1/5"), "{reason}");
    assert!(detail.contains("two plus two is five"), "{detail}");
    let shown = answer.ran.json()["systemMessage"].to_string();
    assert!(shown.contains("tests") && shown.contains("1 of 5"), "{shown}");
    // Stopping again changes nothing, nor does another edit beside it.
    let (reason, _) = talk.agent_stops().held();
    assert!(reason.contains("2/5"), "{reason}");
    talk.agent_writes("notes", "thinking\n");
    talk.agent_stops().held();
    sandbox.remove("broken");
    talk.agent_uses("Bash").silent();
    assert!(talk.agent_stops().told().starts_with("ralph: verified"));
    // It is over. A second stop of the same turn is not the client's way, and says so; the next turn costs nothing.
    let runs = sandbox.runs();
    assert!(talk.agent_stops().told().contains("judged before (verified)"));
    talk.person_says("thanks").silent();
    talk.agent_stops().silent();
    assert_eq!(sandbox.runs(), runs);
}

#[test]
fn every_tool_that_may_have_written_counts_whoever_used_it() {
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
        let talk = Conversation::new(&sandbox);
        talk.person_says("go").silent();
        sandbox.file("broken", "red\n");
        let mut used = talk.event(event).with("tool_name", tool).with("error", "Exit code 3");
        if let Some(agent) = agent {
            used = used.agent(agent).with("agent_type", "worker");
        }
        used.answer().silent();
        let held = talk.agent_stops();
        assert!(held.ran.stdout.contains("\"decision\":\"block\""), "{event} {tool} {agent:?}: {held:#?}");
    }
}

#[test]
fn the_fifth_failing_stop_is_let_go_and_says_so() {
    let sandbox = guarded();
    let talk = Conversation::new(&sandbox);
    talk.person_says("go").silent();
    for attempt in 1..=4 {
        talk.agent_writes("broken", &format!("try {attempt}\n"));
        let (reason, _) = talk.agent_stops().held();
        assert!(reason.contains(&format!("{attempt}/5")), "{reason}");
    }
    talk.agent_writes("broken", "try 5\n");
    let told = talk.agent_stops().told();
    assert!(told.contains("released, UNVERIFIED") && told.contains("tests"), "{told}");
    assert_eq!(sandbox.state()["status"], json!({"status": "ended", "verdict": "released"}));
    assert!(talk.agent_stops().told().contains("judged before (released)"));
}

#[test]
fn each_prompt_has_its_own_budget() {
    let sandbox = guarded();
    let talk = Conversation::new(&sandbox);
    talk.person_says("one").silent();
    talk.agent_writes("broken", "first way\n");
    for attempt in ["1/5", "2/5", "3/5"] {
        let (reason, _) = talk.agent_stops().held();
        assert!(reason.contains(attempt), "{reason}");
    }
    // The person pressed Esc, and asks for something else, which fails in another way.
    talk.person_says("two").silent();
    talk.agent_writes("broken", "second way\n");
    for attempt in 1..=4 {
        let (reason, _) = talk.agent_stops().held();
        assert!(reason.contains(&format!("{attempt}/5")), "{reason}");
    }
    assert!(talk.agent_stops().told().contains("released, UNVERIFIED"));
    // And after one that was used up.
    talk.person_says("three").silent();
    talk.agent_writes("broken", "third way\n");
    let (reason, _) = talk.agent_stops().held();
    assert!(reason.contains("1/5"), "{reason}");
}

#[test]
fn two_sessions_in_one_repo_have_nothing_to_do_with_each_other() {
    let sandbox = guarded();
    let (one, other) = (Conversation::new(&sandbox), Conversation::named(&sandbox, "session-2"));
    one.person_says("break it").silent();
    other.person_says("what is this?").silent();
    one.agent_writes("broken", "red\n");
    other.agent_uses("Read").silent();
    one.agent_stops().held();
    other.agent_stops().silent();
    let (reason, _) = one.agent_stops().held();
    assert!(reason.contains("2/5"), "{reason}");
}

#[test]
fn the_persons_own_edit_holds_no_one() {
    let sandbox = guarded();
    let talk = Conversation::new(&sandbox);
    talk.person_says("what do you think of it?").silent();
    sandbox.file("broken", "the person is half way through\n");
    talk.agent_uses("Read").silent();
    talk.agent_stops().silent();
    nobody_was_judged(&sandbox);
    // Nor what the person did between two prompts.
    talk.person_says("and now?").silent();
    talk.agent_stops().silent();
    nobody_was_judged(&sandbox);
}

#[test]
fn a_tool_that_could_write_and_did_not_holds_no_one() {
    let sandbox = guarded();
    sandbox.file("broken", "red\n");
    let talk = Conversation::new(&sandbox);
    talk.person_says("list the files").silent();
    talk.agent_uses("Bash").silent();
    talk.agent_stops().silent();
    nobody_was_judged(&sandbox);
}

#[test]
fn plan_mode_holds_no_one() {
    let sandbox = guarded();
    let talk = Conversation::new(&sandbox);
    talk.person_says("plan it").silent();
    talk.agent_writes("broken", "red\n");
    let told = talk.stop().with("permission_mode", "plan").answer().let_go().expect("a word");
    assert!(told.contains("plan mode") && told.contains("UNVERIFIED"), "{told}");
    nobody_was_judged(&sandbox);
    // Out of it, what was written counts.
    talk.agent_stops().held();
}

#[test]
fn a_pass_in_the_agents_own_shell_stands_in_for_nothing() {
    let sandbox = guarded();
    let talk = Conversation::new(&sandbox);
    talk.person_says("go").silent();
    talk.agent_writes("fine", "green\n");
    sandbox.ralph(&["verify"]).success();
    assert_eq!(sandbox.runs(), 1);
    assert!(talk.agent_stops().told().starts_with("ralph: verified"));
    assert_eq!(sandbox.runs(), 2);
}

#[test]
fn what_was_red_before_is_named_once_and_holds_no_one() {
    let known_by_verify = |sandbox: &Sandbox| {
        sandbox.file("broken", "red for weeks\n");
        sandbox.ralph(&["verify"]).exits(1);
    };
    let known_by_a_stop = |sandbox: &Sandbox| {
        let talk = Conversation::named(sandbox, "session-1");
        talk.person_says("go").silent();
        talk.agent_writes("broken", "red for weeks\n");
        talk.agent_stops().held();
    };
    for (how, make_known) in [("verify", &known_by_verify as &dyn Fn(&Sandbox)), ("a stop", &known_by_a_stop)]
    {
        let sandbox = guarded();
        make_known(&sandbox);
        let talk = Conversation::new(&sandbox);
        // The turn in which it became known is over.
        talk.queued_turn_begins();
        for (round, change) in ["one", "two", "three"].into_iter().enumerate() {
            talk.person_says(change).silent();
            talk.agent_writes("other", change);
            let answer = talk.agent_stops();
            if round == 0 {
                let told = answer.told();
                assert!(told.contains("Red before this prompt") && told.contains("tests"), "{how}: {told}");
            } else {
                answer.silent();
            }
        }
        // Another failure of the same gate is the agent's own.
        talk.person_says("four").silent();
        talk.agent_writes("broken", "red in a new way\n");
        talk.agent_stops().held();
    }
}

#[test]
fn what_nobody_knew_to_be_red_holds() {
    let sandbox = guarded();
    sandbox.file("broken", "red, and nobody has looked\n");
    let talk = Conversation::new(&sandbox);
    talk.person_says("go").silent();
    talk.agent_writes("other", "x");
    talk.agent_stops().held();
}

#[test]
fn words_typed_into_a_running_turn_do_not_start_it_over() {
    let sandbox = guarded();
    let talk = Conversation::new(&sandbox);
    talk.person_says("go").silent();
    talk.agent_writes("broken", "red\n");
    talk.agent_stops().held();
    talk.person_adds("and mind the style").silent();
    let (reason, _) = talk.agent_stops().held();
    assert!(reason.contains("2/5"), "{reason}");
}

#[test]
fn the_turn_of_a_queued_prompt_is_one_of_its_own() {
    let sandbox = guarded();
    let talk = Conversation::new(&sandbox);
    talk.person_says("go").silent();
    talk.agent_writes("broken", "first way\n");
    talk.agent_stops().held();
    talk.person_adds("then do the other thing").silent();
    // Esc; what was queued gets its turn, under a number that nobody announced.
    talk.queued_turn_begins();
    talk.agent_writes("broken", "second way\n");
    let (reason, _) = talk.agent_stops().held();
    assert!(reason.contains("1/5"), "{reason}");
    // Words typed into that one carry its number: what was written in it is not forgotten.
    talk.person_adds("quickly").silent();
    let (reason, _) = talk.agent_stops().held();
    assert!(reason.contains("2/5"), "{reason}");
}

#[test]
fn what_was_written_before_words_are_typed_into_a_queued_turn_counts() {
    let sandbox = guarded();
    let talk = Conversation::new(&sandbox);
    talk.person_says("what is this?").silent();
    talk.person_adds("make it better").silent();
    talk.agent_stops().silent();
    talk.queued_turn_begins();
    talk.agent_writes("broken", "red\n");
    talk.person_adds("and faster").silent();
    talk.agent_stops().held();
}

#[test]
fn a_notification_is_no_prompt() {
    let sandbox = guarded();
    let talk = Conversation::new(&sandbox);
    talk.person_says("go, in the background").silent();
    talk.agent_writes("broken", "red\n");
    talk.agent_stops().held();
    for attempt in ["2/5", "3/5"] {
        talk.client_notifies().silent();
        talk.agent_uses("Bash").silent();
        let (reason, _) = talk.agent_stops().held();
        assert!(reason.contains(attempt), "{reason}");
    }
}

/// The sub-agent that an earlier prompt started goes on under that prompt's number.
#[test]
fn a_sub_agent_of_an_earlier_prompt_does_not_bring_that_prompt_back() {
    let sandbox = guarded();
    let talk = Conversation::new(&sandbox);
    talk.person_says("start it").silent();
    let of_earlier = talk.tool_used("Write").agent("agent-1").with("agent_type", "worker");
    talk.person_says("go").silent();
    sandbox.file("broken", "red\n");
    for attempt in ["1/5", "2/5"] {
        of_earlier.answer().silent();
        talk.person_adds("quickly").silent();
        let (reason, _) = talk.agent_stops().held();
        assert!(reason.contains(attempt), "{reason}");
    }
}

#[test]
fn who_waits_for_its_own_agents_may_end_the_turn() {
    let sandbox = guarded();
    let talk = Conversation::new(&sandbox);
    talk.person_says("go").silent();
    talk.agent_writes("broken", "red\n");
    let waits = |kind: &str| {
        let entry = json!([{"id": "a1", "type": kind, "status": "running", "description": "work"}]);
        talk.stop().with("background_tasks", entry).answer()
    };
    waits("subagent").silent();
    assert_eq!(sandbox.runs(), 0);
    talk.client_notifies().silent();
    talk.agent_stops().held();
    waits("shell").held();
}

#[test]
fn a_repo_that_nobody_accepted_or_that_is_switched_off_holds_no_one() {
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
    for (what, sandbox) in [
        ("untrusted", untrusted),
        ("switched off", off),
        ("no guard", without_guard),
        ("taken back", revoked),
    ] {
        let talk = Conversation::new(&sandbox);
        talk.person_says("go").silent();
        talk.agent_writes("file", "x");
        let answer = talk.agent_stops();
        // Who asks for a guard and has accepted none is told so, once.
        let is_told = what == "untrusted";
        assert_eq!(answer.let_go().is_some(), is_told, "{what}: {answer:#?}");
        talk.agent_stops().silent();
        nobody_was_judged(&sandbox);
    }
}

#[test]
fn an_agent_does_not_edit_its_guard_away() {
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
        let talk = Conversation::new(&sandbox);
        talk.person_says("go").silent();
        edit(&sandbox);
        talk.agent_uses("Edit").silent();
        let answer = talk.agent_stops();
        assert!(answer.ran.stdout.contains("\"decision\":\"block\""), "{what}: {answer:#?}");
        answer.held();
    }
}

/// A definition that no person accepted does not count, even where everything passes by it.
#[test]
fn what_the_agent_accepts_in_its_own_shell_frees_it_from_nothing() {
    let mut sandbox = guarded();
    {
        let talk = Conversation::new(&sandbox);
        talk.person_says("go").silent();
    }
    let easy = "guard: [session]\nverify: ['true']\n";
    sandbox.file("ralph.yaml", easy);
    sandbox.file("broken", "red\n");
    let sha256 = sandbox.ralph(&["trust", "--show", "--json"]).json()["sha256"].as_str().map(str::to_owned);
    sandbox.set("CLAUDECODE", "1");
    sandbox.set("CLAUDE_CODE_SESSION_ID", "session-1");
    sandbox.ralph(&["trust", "--hash", &sha256.expect("a SHA-256")]);
    let talk = Conversation::new(&sandbox);
    talk.queued_turn_begins();
    talk.agent_uses("Bash").silent();
    let (reason, _) = talk.agent_stops().held();
    assert!(reason.contains("tests"), "{reason}");
}

/// It would free itself by a command that any shell may run.
#[test]
fn taking_trust_back_frees_no_session_that_is_held() {
    let sandbox = guarded();
    let talk = Conversation::new(&sandbox);
    talk.person_says("go").silent();
    talk.agent_writes("broken", "red\n");
    talk.agent_stops().held();
    sandbox.ralph(&["trust", "--revoke"]).success();
    for attempt in ["2/5", "3/5", "4/5"] {
        let (reason, _) = talk.agent_stops().held();
        assert!(reason.contains(attempt) && reason.contains("taken back"), "{reason}");
    }
    talk.agent_stops().told();
    assert_eq!(sandbox.state()["status"]["verdict"], "tampered");
    assert_eq!(sandbox.runs(), 1);
}

#[test]
fn trust_taken_back_before_the_first_stop_is_told() {
    let sandbox = guarded();
    let talk = Conversation::new(&sandbox);
    talk.person_says("go").silent();
    talk.agent_writes("broken", "red\n");
    sandbox.ralph(&["trust", "--revoke"]).success();
    let told = talk.agent_stops().told();
    assert!(told.contains("taken back") && told.contains("UNVERIFIED"), "{told}");
    nobody_was_judged(&sandbox);
    talk.agent_stops().silent();
    // From the next prompt on there is nobody to hold.
    talk.person_says("again").silent();
    talk.agent_writes("broken", "redder\n");
    talk.agent_stops().silent();
}

#[test]
fn a_session_that_came_back_or_was_cleared_starts_with_its_next_prompt() {
    let sandbox = guarded();
    let talk = Conversation::new(&sandbox);
    talk.person_says("go").silent();
    talk.agent_writes("broken", "red\n");
    talk.event("SessionEnd").with("reason", "other").answer().silent();
    talk.event("SessionStart").with("source", "resume").answer().silent();
    // What was written before and never judged is not forgotten by it.
    talk.agent_stops().held();
    talk.person_says("go on").silent();
    talk.agent_writes("other", "x");
    assert!(talk.agent_stops().told().contains("Red before this prompt"));
}

#[test]
fn an_error_of_the_client_is_no_stop() {
    let sandbox = guarded();
    let talk = Conversation::new(&sandbox);
    talk.person_says("go").silent();
    talk.agent_writes("broken", "red\n");
    talk.event("StopFailure").with("error", "rate_limit").answer().silent();
    nobody_was_judged(&sandbox);
    talk.agent_stops().held();
}

#[test]
fn the_word_stop_ends_gates_that_are_running() {
    let sandbox = guarded_by("sleep 20");
    let talk = Conversation::new(&sandbox);
    talk.person_says("go").silent();
    talk.agent_writes("file", "x");
    let stopping = talk.stop().spawn();
    wait_until("the gate runs", || sandbox.runs() == 1);
    talk.person_adds("stop").answered();
    let freed = Instant::now();
    let output = stopping.wait_with_output().expect("an end");
    assert!(output.status.success());
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains("this stop was not checked"), "{told}");
    assert!(freed.elapsed() < Duration::from_secs(10), "the gate ran to its end: {:?}", freed.elapsed());
    talk.agent_stops().told();
    assert_eq!(sandbox.runs(), 1);
}
