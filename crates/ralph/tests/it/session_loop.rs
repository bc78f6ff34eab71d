//! A session's loop with the real binary: how it starts, blocks, pauses and ends.

use std::fs;

use serde_json::json;

use ralph_testkit::{HookAnswer, Sandbox, Session};

const GATE: &str = "verify:\n  - test -e done.txt\n";
const PROMISE: &str = "All of it works.\n\n<promise>DONE</promise>";

#[test]
fn a_loop_continues_until_the_promise_is_given_and_the_gates_pass() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Session::looping(&sandbox, "\"fix it\" --completion-promise DONE");
    let (reason, detail) = talk.agent_works_with("Bash").stops("I looked.").blocked();
    assert!(reason.contains("iteration 1") && reason.contains("gate `test -e done.txt` failed"), "{reason}");
    assert!(detail.contains("fix it") && detail.contains("<promise>DONE</promise>"), "{detail}");
    let (_, detail) = talk.agent_works_with("Bash").stops(PROMISE).blocked();
    assert!(detail.contains("false promise"), "{detail}");
    sandbox.file("done.txt", "");
    let (reason, _) = talk.agent_works_with("Bash").stops("It is there now.").blocked();
    assert!(reason.contains("the promise is missing"), "{reason}");
    let message = talk.agent_works_with("Bash").stops(PROMISE).allowed().expect("a banner");
    assert!(message.contains("Loop done, verified") && message.contains("False promises: 1"), "{message}");
    talk.user_says("Thank you.").silent();
    talk.stops("Anything else?").silent();
}

#[test]
fn s3_r2_without_a_number_a_loop_is_unlimited_and_the_start_says_so() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Session::new(&sandbox);
    let started =
        talk.command("ralph-loop", "\"fix it\" --until verified --completion-promise QUALITY_GATE_PASSED");
    assert!(started.shown_to_user().contains("(unlimited)"), "{started:#?}");
    assert!(started.context().contains("<promise>QUALITY_GATE_PASSED</promise>"), "{started:#?}");
    for _ in 0..12 {
        talk.agent_works_with("Bash").stops("Not yet.").blocked();
    }
    // At a stop the session gets the task again, abbreviated.
    let (_, detail) = talk.agent_works_with("Bash").stops("Not yet.").blocked();
    assert!(detail.contains("fix it"), "{detail}");
}

#[test]
fn arguments_come_in_any_order_and_invalid_ones_start_nothing() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Session::new(&sandbox);
    for (words, what) in [
        ("", "task"),
        ("fix --max-iterations abc", "abc"),
        ("fix --completion-promise", "--completion-promise"),
        ("--openspec nothing-there", "nothing-there"),
        ("fix --tasks no/such/file.md", "no/such/file.md"),
        ("fix --until pr", "pr"),
        ("fix --lang tlh", "tlh"),
        ("fix --archive", "--archive"),
    ] {
        let answer = talk.command("ralph-loop", words);
        let value = answer.ran.json();
        assert_eq!(value["decision"], "block", "{words}: {answer:#?}");
        let message = answer.shown_to_user();
        assert!(message.contains(what) && message.contains("Nothing was started"), "{words}: {message}");
    }
    assert!(sandbox.remembered().iter().all(|file| !file.contains("loops/")), "{:?}", sandbox.remembered());
    talk.stops("Done.").silent();
    for words in [
        "--max-iterations 2 fix the --completion-promise DONE tests",
        "--completion-promise=DONE fix the tests --max-iterations=2",
    ] {
        let talk = Session::named(&sandbox, "session-2");
        let started = talk.command("ralph-loop", words);
        assert!(started.shown_to_user().contains("fix the tests"), "{started:#?}");
        assert!(started.shown_to_user().contains("/ 2"), "{started:#?}");
        talk.command("cancel-ralph", "");
    }
}

#[test]
fn a_running_loop_is_replaced_only_on_request() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Session::looping(&sandbox, "first --completion-promise DONE");
    let refused = talk.command("ralph-loop", "second --completion-promise DONE");
    assert!(
        refused.shown_to_user().contains("first") && refused.shown_to_user().contains("--replace"),
        "{refused:#?}"
    );
    let replaced = talk.command("ralph-loop", "second --completion-promise DONE --replace");
    assert!(replaced.shown_to_user().contains("second"), "{replaced:#?}");
    assert_eq!(sandbox.events_named("cancelled").len(), 1);
}

#[test]
fn without_promise_and_gates_nothing_blocks_and_the_start_says_so() {
    let sandbox = Sandbox::new();
    let talk = Session::new(&sandbox);
    let started = talk.command("ralph-loop", "look around");
    assert!(started.shown_to_user().contains("This loop has neither a promise nor gates"), "{started:#?}");
    let message = talk.stops("I looked.").allowed().expect("a banner");
    assert!(message.contains("completed on claim, unverified"), "{message}");
}

#[test]
fn unaccepted_gates_do_not_run_and_the_start_says_so() {
    let sandbox = Sandbox::new();
    sandbox.file("ralph.yaml", &format!("verify: [\"{}\"]\n", sandbox.counting("true")));
    let talk = Session::new(&sandbox);
    let started = talk.command("ralph-loop", "fix --completion-promise DONE");
    assert!(started.shown_to_user().contains("ralph trust"), "{started:#?}");
    sandbox
        .ralph(&["start", "other", "--completion-promise", "DONE"])
        .success()
        .says("review them with `ralph trust`");
    talk.agent_works_with("Bash").stops("Not yet.").blocked();
    let message = talk.agent_works_with("Bash").stops(PROMISE).allowed().expect("a banner");
    assert!(message.contains("unverified"), "{message}");
    assert_eq!(sandbox.runs(), 0);
}

#[test]
fn s1_r15_pausing_saves_progress_and_resuming_keeps_it() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Session::looping(&sandbox, "fix --completion-promise DONE");
    talk.agent_works_with("Bash").stops("Not yet.").blocked();
    for (pause, resume) in
        [("暫停", "繼續"), ("停", "持續執行"), ("中斷", "continue"), ("stop", "继续"), ("pausa", "continuar")]
    {
        let answer = talk.user_says(pause);
        assert_eq!(answer.ran.json()["continue"], json!(false), "{pause}: {answer:#?}");
        assert!(answer.shown_to_user().contains("Loop paused"), "{pause}: {answer:#?}");
        talk.stops("Not yet.").allowed().expect("a word that it rests");
        let answer = talk.user_says(resume);
        assert!(answer.shown_to_user().contains("Loop resumed"), "{resume}: {answer:#?}");
        assert!(answer.context().contains("fix"), "{resume}: {answer:#?}");
        assert_eq!(talk.state()["attempts"], 1);
    }
    talk.agent_works_with("Bash").stops("Not yet.").blocked();
    assert_eq!(talk.state()["attempts"], 2);
}

#[test]
fn control_words_count_neither_inside_a_sentence_nor_from_a_program() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Session::looping(&sandbox, "fix --completion-promise DONE");
    for prompt in [
        "please stop the server",
        "請繼續做下一步",
        "continue with step 2",
        "別暫停",
        "no pausa ahora",
        "<task-notification>\nstop\n</task-notification>",
        "Stop hook feedback:\nstop",
    ] {
        talk.user_says(prompt).silent();
        assert_eq!(talk.state()["status"]["status"], "running", "{prompt}");
    }
    let stranger = Session::named(&sandbox, "session-2");
    stranger.user_says("stop").silent();
    assert_eq!(talk.state()["status"]["status"], "running");
}

#[test]
fn s1_r15_cancel_ends_the_loop_for_good_in_the_official_words() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Session::looping(&sandbox, "fix --completion-promise DONE");
    talk.agent_works_with("Bash").stops("Not yet.").blocked();
    let answer = talk.command("ralph:cancel-ralph", "");
    assert_eq!(answer.shown_to_user(), "Cancelled Ralph loop (was at iteration 2)");
    assert!(talk.stops("Done.").shown_to_user().contains("ended outside a stop (cancelled)"));
    talk.stops("Done.").silent();
    assert_eq!(talk.command("cancel-ralph", "").shown_to_user(), "No active Ralph loop found.");
    assert!(talk.user_says("繼續").ran.stdout.is_empty(), "a loop that is over does not go on");
}

#[test]
fn deleting_the_loop_file_cancels_unless_the_promise_is_in_the_message() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Session::looping(&sandbox, "fix --completion-promise DONE");
    let file = sandbox.path(".claude/ralph-loop.local.md");
    let text = fs::read_to_string(&file).expect("the loop's file");
    assert!(text.starts_with("---\nactive: true\niteration: 1\nmax_iterations: 0\ncompletion_promise: \"DONE\"\nsession_id: \"session-1\"\n"), "{text}");
    fs::remove_file(&file).expect("deleted");
    // The official plugin deletes it when it sees the promise: that is a claim, not a cancel of the user.
    talk.agent_works_with("Bash").stops(PROMISE).blocked();
    assert!(file.exists());
    fs::remove_file(&file).expect("deleted");
    let message = talk.agent_works_with("Bash").stops("Not yet.").allowed().expect("a message");
    assert!(message.contains("Cancelled Ralph loop"), "{message}");
    assert!(!file.exists());
}

#[test]
fn an_edited_file_changes_nothing_and_is_noted() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Session::looping(&sandbox, "fix --completion-promise DONE --max-iterations 3");
    let file = sandbox.path(".claude/ralph-loop.local.md");
    fs::write(
        &file,
        "---\nactive: true\niteration: 1\nmax_iterations: 0\ncompletion_promise: null\n---\n\nnothing\n",
    )
    .expect("edited");
    talk.agent_works_with("Bash").stops("Done.").blocked();
    assert_eq!(sandbox.events_named("export_noted").len(), 1);
    assert!(fs::read_to_string(&file).expect("written again").contains("\"DONE\""));
}

#[test]
fn a_loop_of_the_official_plugin_is_adopted_by_its_own_session_only() {
    let sandbox = Sandbox::gated(GATE);
    let text = "---\nactive: true\niteration: 3\nmax_iterations: 5\ncompletion_promise: \"DONE\"\nsession_id: \"session-1\"\nstarted_at: \"2026-11-15T10:00:00Z\"\n---\n\nfix it\n";
    sandbox.file(".claude/ralph-loop.local.md", text);
    Session::named(&sandbox, "session-2").stops("Done.").silent();
    let talk = Session::new(&sandbox);
    let (reason, detail) = talk.agent_works_with("Bash").stops("Done.").blocked();
    assert!(reason.contains("iteration 3 of 5"), "{reason}");
    assert!(detail.contains("fix it"), "{detail}");
}

#[test]
fn an_ended_session_leaves_its_loop_paused_and_can_return_to_it() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Session::looping(&sandbox, "fix --completion-promise DONE");
    talk.agent_works_with("Bash").stops("Not yet.").blocked();
    talk.ends("other");
    assert_eq!(talk.state()["status"]["status"], "paused");
    let back = talk.starts("resume");
    assert!(back.context().contains("fix") && back.context().contains("Last time"), "{back:#?}");
    let (reason, _) = talk.agent_works_with("Bash").stops("Not yet.").blocked();
    assert!(reason.contains("iteration 2"), "{reason}");
}

#[test]
fn after_a_compaction_the_agent_gets_the_task_again() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Session::looping(&sandbox, "\"fix the parser\" --completion-promise DONE");
    let back = talk.starts("compact");
    assert!(
        back.context().contains("fix the parser") && back.context().contains("<promise>DONE</promise>"),
        "{back:#?}"
    );
}

#[test]
fn s1_r17_another_session_claims_an_abandoned_loop() {
    type Claim = fn(&Session<'_>) -> HookAnswer;
    let claims: [(&str, Claim); 3] = [
        ("the same task", |talk| talk.command("ralph-loop", "\"fix it\" --completion-promise DONE")),
        ("the word", |talk| talk.user_says("繼續")),
        ("the bare command", |talk| talk.command("ralph-loop", "")),
    ];
    for (how, claim) in claims {
        let sandbox = Sandbox::gated(GATE);
        let talk = Session::looping(&sandbox, "\"fix it\" --completion-promise DONE");
        talk.agent_works_with("Bash").stops("Not yet.").blocked();
        talk.ends("other");
        let other = Session::named(&sandbox, "session-2");
        let here = other.starts("startup");
        assert!(here.shown_to_user().contains("fix it"), "{how}: {here:#?}");
        let claimed = claim(&other);
        assert!(claimed.shown_to_user().contains("Loop resumed"), "{how}: {claimed:#?}");
        let (reason, _) = other.agent_works_with("Bash").stops("Not yet.").blocked();
        assert!(reason.contains("iteration 2"), "{how}: {reason}");
        talk.stops("Not yet.").silent();
    }
}

#[test]
fn clearing_the_session_moves_its_loop_to_the_new_one_paused() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Session::looping(&sandbox, "\"fix it\" --completion-promise DONE");
    talk.ends("clear");
    let cleared = Session::named(&sandbox, "session-2");
    let answer = cleared.starts("clear");
    assert!(answer.shown_to_user().contains("Loop paused"), "{answer:#?}");
    cleared.stops("Done.").allowed().expect("a word that it rests");
    let answer = cleared.user_says("continue");
    assert!(answer.shown_to_user().contains("Loop resumed"), "{answer:#?}");
    cleared.agent_works_with("Bash").stops("Not yet.").blocked();
}

#[test]
fn a_loop_from_a_terminal_blocks_only_after_a_session_claims_it() {
    let sandbox = Sandbox::gated(GATE);
    sandbox
        .ralph(&["start", "fix", "it", "--completion-promise", "DONE"])
        .success()
        .says("Loop started")
        .says("waiting for a session");
    let talk = Session::new(&sandbox);
    talk.stops("Done.").silent();
    assert!(talk.user_says("continue").shown_to_user().contains("Loop resumed"));
    talk.agent_works_with("Bash").stops("Done.").blocked();
}

#[test]
fn an_agents_shell_can_start_a_loop_for_its_session_but_not_free_it() {
    let mut sandbox = Sandbox::gated(GATE);
    sandbox.set("CLAUDECODE", "1");
    sandbox.set("CLAUDE_CODE_SESSION_ID", "session-1");
    sandbox.ralph(&["start", "fix", "--completion-promise", "DONE"]).success();
    let talk = Session::new(&sandbox);
    talk.agent_works_with("Bash").stops("Done.").blocked();
    for command in [&["pause"][..], &["cancel"], &["start", "other", "--replace"]] {
        sandbox.ralph(command).exits(3).says("only you can");
    }
    talk.agent_works_with("Bash").stops("Done.").blocked();
}

#[test]
fn pause_resume_and_cancel_work_from_a_terminal() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Session::looping(&sandbox, "fix --completion-promise DONE");
    sandbox.ralph(&["pause"]).success().says("Loop paused");
    talk.stops("Done.").allowed().expect("a word that it rests");
    sandbox.ralph(&["resume"]).success().says("Loop resumed");
    talk.agent_works_with("Bash").stops("Done.").blocked();
    sandbox.ralph(&["cancel"]).success().says("Cancelled Ralph loop (was at iteration 2)");
    let freed = talk.stops("Done.").allowed().expect("a word that it is over");
    assert!(freed.contains("ended outside a stop (cancelled)"), "{freed}");
    talk.stops("Done.").silent();
    sandbox.ralph(&["cancel"]).success().says("No active Ralph loop found.");
}

#[test]
fn a_waiting_session_is_judged_after_three_excuses_and_a_shell_excuses_nothing() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Session::looping(&sandbox, "fix --completion-promise DONE");
    let with = |kind: &str| {
        let task = json!([{"id": "a1", "type": kind, "status": "running", "description": "tests"}]);
        talk.agent_works_with("Bash").stop("I wait.").with("background_tasks", task).answer()
    };
    with("shell").blocked();
    for _ in 0..3 {
        let message = with("subagent").allowed().expect("a message");
        assert!(message.contains("tests"), "{message}");
    }
    assert_eq!(talk.state()["attempts"], 1);
    with("subagent").blocked();
}

#[test]
fn a_session_that_does_nothing_is_stuck_before_the_client_gives_up() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Session::looping(&sandbox, "fix --completion-promise DONE");
    talk.agent_works_with("Bash").stops("Done.").blocked();
    talk.stops("Done.").blocked();
    let told = talk.stops("Done.").allowed().expect("a banner");
    assert!(told.contains("Loop stuck") && told.contains("NOT verified"), "{told}");
    assert_eq!(talk.state()["status"]["status"], "paused");
}

#[test]
fn a_queued_cancel_ends_the_turn_so_that_it_can_be_processed() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Session::looping(&sandbox, "fix --completion-promise DONE");
    talk.agent_works_with("Bash").stops("Not yet.").blocked();
    let queued = json!({"type": "queue-operation", "operation": "enqueue", "content": "/cancel-ralph"});
    fs::write(sandbox.home().join("session-1.jsonl"), format!("{queued}\n")).expect("a transcript");
    let told_why = talk.stops("Not yet.").allowed().expect("a word");
    assert!(told_why.contains("/cancel-ralph"), "{told_why}");
    assert_eq!(talk.command("cancel-ralph", "").shown_to_user(), "Cancelled Ralph loop (was at iteration 2)");
}

#[test]
fn pause_works_while_the_gates_run() {
    let sandbox = Sandbox::gated("verify:\n  - sleep 30\n");
    let talk = Session::looping(&sandbox, "fix --completion-promise DONE");
    let begun = std::time::Instant::now();
    let running = talk.agent_works_with("Bash").stop("Done.").spawn();
    ralph_testkit::wait_until("the gate runs", || !sandbox.events_named("run_started").is_empty());
    talk.user_says("pause");
    let output = running.wait_with_output().expect("an end");
    assert!(begun.elapsed() < std::time::Duration::from_secs(10), "the gates went on");
    assert!(String::from_utf8_lossy(&output.stdout).contains("paused loop here"), "{output:?}");
    assert_eq!(talk.state()["attempts"], 0);
}

#[test]
fn the_loop_status_is_shown_without_the_model_and_in_the_users_language() {
    let mut sandbox = Sandbox::gated(GATE);
    sandbox.file("tasks.md", "## 1. Phase\n- [x] 1.1 one\n- [ ] 1.2 two\n");
    let talk = Session::looping(&sandbox, "--tasks tasks.md --completion-promise DONE");
    talk.agent_works_with("Bash").stops("Not yet.").blocked();
    let english = talk.command("ralph-status", "").shown_to_user();
    assert!(english.contains("tasks: 1/2") && english.contains("next: 1.2 two"), "{english}");
    sandbox.set("RALPH_LANG", "zh-TW");
    let chinese = Session::new(&sandbox).command("ralph-status", "").shown_to_user();
    assert!(chinese.contains("1/2") && !chinese.contains("next:"), "{chinese}");
    sandbox.ralph(&["status"]).success().says("已留住");
}
