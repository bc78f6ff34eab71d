//! A session's loop through the real binary: how it starts, what holds it, how it rests and ends.

use std::fs;

use serde_json::json;

use crate::support::{Answer, Sandbox};
use crate::talk::{Talk, context, told};

const GATE: &str = "verify:\n  - test -e done.txt\n";
const PROMISE: &str = "All of it works.\n\n<promise>DONE</promise>";

#[test]
fn it_goes_on_until_the_promise_is_given_and_the_gates_pass() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Talk::looping(&sandbox, "\"fix it\" --completion-promise DONE");
    let (reason, detail) = talk.uses("Bash").stops("I looked.").held();
    assert!(reason.contains("iteration 1") && reason.contains("gate `test -e done.txt` failed"), "{reason}");
    assert!(detail.contains("fix it") && detail.contains("<promise>DONE</promise>"), "{detail}");
    let (_, detail) = talk.uses("Bash").stops(PROMISE).held();
    assert!(detail.contains("false promise"), "{detail}");
    sandbox.file("done.txt", "");
    let (reason, _) = talk.uses("Bash").stops("It is there now.").held();
    assert!(reason.contains("the promise is missing"), "{reason}");
    let told = talk.uses("Bash").stops(PROMISE).let_go().expect("a banner");
    assert!(told.contains("Loop done, verified") && told.contains("False promises refused: 1"), "{told}");
    talk.says("Thank you.").silent();
    talk.stops("Anything else?").silent();
}

#[test]
fn s3_r2_without_a_number_it_is_unlimited_and_says_so() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Talk::new(&sandbox, "session-1");
    let started = talk.command("ralph-loop", "\"fix it\" --completion-promise QUALITY_GATE_PASSED");
    assert!(told(&started).contains("(unlimited)"), "{started:#?}");
    assert!(context(&started).contains("<promise>QUALITY_GATE_PASSED</promise>"), "{started:#?}");
    for _ in 0..12 {
        talk.uses("Bash").stops("Not yet.").held();
    }
    // What the session sees when it stops is the task again, in short.
    let (_, detail) = talk.uses("Bash").stops("Not yet.").held();
    assert!(detail.contains("fix it"), "{detail}");
}

#[test]
fn words_come_in_any_order_and_what_is_wrong_starts_nothing() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Talk::new(&sandbox, "session-1");
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
        let told = told(&answer);
        assert!(told.contains(what) && told.contains("Nothing was started"), "{words}: {told}");
    }
    assert!(sandbox.remembered().iter().all(|file| !file.contains("loops/")), "{:?}", sandbox.remembered());
    talk.stops("Done.").silent();
    for words in [
        "--max-iterations 2 fix the --completion-promise DONE tests",
        "--completion-promise=DONE fix the tests --max-iterations=2",
    ] {
        let talk = Talk::new(&sandbox, "session-2");
        let started = talk.command("ralph-loop", words);
        assert!(told(&started).contains("fix the tests"), "{started:#?}");
        assert!(told(&started).contains("/ 2"), "{started:#?}");
        talk.command("cancel-ralph", "");
    }
}

#[test]
fn a_loop_that_runs_is_not_replaced_unless_that_is_said() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Talk::looping(&sandbox, "first --completion-promise DONE");
    let refused = talk.command("ralph-loop", "second --completion-promise DONE");
    assert!(told(&refused).contains("first") && told(&refused).contains("--replace"), "{refused:#?}");
    let replaced = talk.command("ralph-loop", "second --completion-promise DONE --replace");
    assert!(told(&replaced).contains("second"), "{replaced:#?}");
    assert_eq!(sandbox.events_named("cancelled").len(), 1);
}

#[test]
fn without_promise_and_gates_nothing_holds_it_and_the_start_says_so() {
    let sandbox = Sandbox::new();
    let talk = Talk::new(&sandbox, "session-1");
    let started = talk.command("ralph-loop", "look around");
    assert!(told(&started).contains("Nothing will hold this loop"), "{started:#?}");
    let told = talk.stops("I looked.").let_go().expect("a banner");
    assert!(told.contains("completed on claim, unverified"), "{told}");
}

#[test]
fn gates_that_nobody_accepted_do_not_run_and_the_start_says_so() {
    let sandbox = Sandbox::new();
    sandbox.file("ralph.yaml", &format!("verify: [\"{}\"]\n", sandbox.counting("true")));
    let talk = Talk::new(&sandbox, "session-1");
    let started = talk.command("ralph-loop", "fix --completion-promise DONE");
    assert!(told(&started).contains("ralph trust"), "{started:#?}");
    sandbox
        .ralph(&["start", "other", "--completion-promise", "DONE"])
        .success()
        .says("look at them with `ralph trust`");
    talk.uses("Bash").stops("Not yet.").held();
    let told = talk.uses("Bash").stops(PROMISE).let_go().expect("a banner");
    assert!(told.contains("unverified"), "{told}");
    assert_eq!(sandbox.runs(), 0);
}

#[test]
fn s1_r15_pausing_saves_progress_and_going_on_keeps_it() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Talk::looping(&sandbox, "fix --completion-promise DONE");
    talk.uses("Bash").stops("Not yet.").held();
    for (pause, resume) in
        [("暫停", "繼續"), ("停", "持續執行"), ("中斷", "continue"), ("stop", "继续"), ("pausa", "continuar")]
    {
        let answer = talk.says(pause);
        assert_eq!(answer.ran.json()["continue"], json!(false), "{pause}: {answer:#?}");
        assert!(told(&answer).contains("Loop paused"), "{pause}: {answer:#?}");
        talk.stops("Not yet.").let_go().expect("a word that it rests");
        let answer = talk.says(resume);
        assert!(told(&answer).contains("Loop resumed"), "{resume}: {answer:#?}");
        assert!(context(&answer).contains("fix"), "{resume}: {answer:#?}");
        assert_eq!(talk.state()["attempts"], 1);
    }
    talk.uses("Bash").stops("Not yet.").held();
    assert_eq!(talk.state()["attempts"], 2);
}

#[test]
fn the_words_mean_nothing_inside_a_sentence_or_from_a_machine() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Talk::looping(&sandbox, "fix --completion-promise DONE");
    for prompt in [
        "please stop the server",
        "請繼續做下一步",
        "continue with step 2",
        "別暫停",
        "no pausa ahora",
        "<task-notification>\nstop\n</task-notification>",
        "Stop hook feedback:\nstop",
    ] {
        talk.says(prompt).silent();
        assert_eq!(talk.state()["status"]["status"], "running", "{prompt}");
    }
    let stranger = Talk::new(&sandbox, "session-2");
    stranger.says("stop").silent();
    assert_eq!(talk.state()["status"]["status"], "running");
}

#[test]
fn s1_r15_cancel_ends_it_for_good_in_the_official_words() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Talk::looping(&sandbox, "fix --completion-promise DONE");
    talk.uses("Bash").stops("Not yet.").held();
    let answer = talk.command("ralph:cancel-ralph", "");
    assert_eq!(told(&answer), "Cancelled Ralph loop (was at iteration 2)");
    assert!(told(&talk.stops("Done.")).contains("ended outside of a stop (cancelled)"));
    talk.stops("Done.").silent();
    assert_eq!(told(&talk.command("cancel-ralph", "")), "No active Ralph loop found.");
    assert!(talk.says("繼續").ran.stdout.is_empty(), "a loop that is over does not go on");
}

#[test]
fn deleting_its_file_cancels_unless_the_promise_is_in_the_message() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Talk::looping(&sandbox, "fix --completion-promise DONE");
    let file = sandbox.path(".claude/ralph-loop.local.md");
    let text = fs::read_to_string(&file).expect("the loop's file");
    assert!(text.starts_with("---\nactive: true\niteration: 1\nmax_iterations: 0\ncompletion_promise: \"DONE\"\nsession_id: \"session-1\"\n"), "{text}");
    fs::remove_file(&file).expect("deleted");
    // The official plugin takes it away when it sees the promise: a claim, and no wish of the person's.
    talk.uses("Bash").stops(PROMISE).held();
    assert!(file.exists());
    fs::remove_file(&file).expect("deleted");
    let told = talk.uses("Bash").stops("Not yet.").let_go().expect("told");
    assert!(told.contains("Cancelled Ralph loop"), "{told}");
    assert!(!file.exists());
}

#[test]
fn an_edited_file_changes_nothing_and_is_noted() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Talk::looping(&sandbox, "fix --completion-promise DONE --max-iterations 3");
    let file = sandbox.path(".claude/ralph-loop.local.md");
    fs::write(
        &file,
        "---\nactive: true\niteration: 1\nmax_iterations: 0\ncompletion_promise: null\n---\n\nnothing\n",
    )
    .expect("edited");
    talk.uses("Bash").stops("Done.").held();
    assert_eq!(sandbox.events_named("export_noted").len(), 1);
    assert!(fs::read_to_string(&file).expect("written again").contains("\"DONE\""));
}

#[test]
fn a_loop_of_the_official_plugin_is_taken_up_by_its_own_session_only() {
    let sandbox = Sandbox::gated(GATE);
    let text = "---\nactive: true\niteration: 3\nmax_iterations: 5\ncompletion_promise: \"DONE\"\nsession_id: \"session-1\"\nstarted_at: \"2026-11-15T10:00:00Z\"\n---\n\nfix it\n";
    sandbox.file(".claude/ralph-loop.local.md", text);
    Talk::new(&sandbox, "session-2").stops("Done.").silent();
    let talk = Talk::new(&sandbox, "session-1");
    let (reason, detail) = talk.uses("Bash").stops("Done.").held();
    assert!(reason.contains("iteration 3 of 5"), "{reason}");
    assert!(detail.contains("fix it"), "{detail}");
}

#[test]
fn an_ended_session_leaves_it_paused_and_comes_back_to_it() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Talk::looping(&sandbox, "fix --completion-promise DONE");
    talk.uses("Bash").stops("Not yet.").held();
    talk.ends("other");
    assert_eq!(talk.state()["status"]["status"], "paused");
    let back = talk.starts("resume");
    assert!(context(&back).contains("fix") && context(&back).contains("Last time"), "{back:#?}");
    let (reason, _) = talk.uses("Bash").stops("Not yet.").held();
    assert!(reason.contains("iteration 2"), "{reason}");
}

#[test]
fn after_a_compaction_the_agent_gets_the_task_back() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Talk::looping(&sandbox, "\"fix the parser\" --completion-promise DONE");
    let back = talk.starts("compact");
    assert!(
        context(&back).contains("fix the parser") && context(&back).contains("<promise>DONE</promise>"),
        "{back:#?}"
    );
}

#[test]
fn s1_r17_another_session_claims_what_one_left_behind() {
    type Claim = fn(&Talk<'_>) -> Answer;
    let claims: [(&str, Claim); 3] = [
        ("the same task", |talk| talk.command("ralph-loop", "\"fix it\" --completion-promise DONE")),
        ("the word", |talk| talk.says("繼續")),
        ("the bare command", |talk| talk.command("ralph-loop", "")),
    ];
    for (how, claim) in claims {
        let sandbox = Sandbox::gated(GATE);
        let talk = Talk::looping(&sandbox, "\"fix it\" --completion-promise DONE");
        talk.uses("Bash").stops("Not yet.").held();
        talk.ends("other");
        let other = Talk::new(&sandbox, "session-2");
        let here = other.starts("startup");
        assert!(told(&here).contains("fix it"), "{how}: {here:#?}");
        let claimed = claim(&other);
        assert!(told(&claimed).contains("Loop resumed"), "{how}: {claimed:#?}");
        let (reason, _) = other.uses("Bash").stops("Not yet.").held();
        assert!(reason.contains("iteration 2"), "{how}: {reason}");
        talk.stops("Not yet.").silent();
    }
}

#[test]
fn clearing_the_session_moves_its_loop_along_paused() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Talk::looping(&sandbox, "\"fix it\" --completion-promise DONE");
    talk.ends("clear");
    let cleared = Talk::new(&sandbox, "session-2");
    let answer = cleared.starts("clear");
    assert!(told(&answer).contains("Loop paused"), "{answer:#?}");
    cleared.stops("Done.").let_go().expect("a word that it rests");
    let answer = cleared.says("continue");
    assert!(told(&answer).contains("Loop resumed"), "{answer:#?}");
    cleared.uses("Bash").stops("Not yet.").held();
}

#[test]
fn a_loop_from_a_terminal_holds_nobody_until_a_session_claims_it() {
    let sandbox = Sandbox::gated(GATE);
    sandbox
        .ralph(&["start", "fix", "it", "--completion-promise", "DONE"])
        .success()
        .says("Loop started")
        .says("unbound: waits for a session");
    let talk = Talk::new(&sandbox, "session-1");
    talk.stops("Done.").silent();
    assert!(told(&talk.says("continue")).contains("Loop resumed"));
    talk.uses("Bash").stops("Done.").held();
}

#[test]
fn an_agents_shell_starts_a_loop_for_its_session_and_frees_nobody() {
    let mut sandbox = Sandbox::gated(GATE);
    sandbox.set("CLAUDECODE", "1");
    sandbox.set("CLAUDE_CODE_SESSION_ID", "session-1");
    sandbox.ralph(&["start", "fix", "--completion-promise", "DONE"]).success();
    let talk = Talk::new(&sandbox, "session-1");
    talk.uses("Bash").stops("Done.").held();
    for command in [&["pause"][..], &["cancel"], &["start", "other", "--replace"]] {
        sandbox.ralph(command).exits(3).says("only you can");
    }
    talk.uses("Bash").stops("Done.").held();
}

#[test]
fn pause_resume_and_cancel_work_from_a_terminal() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Talk::looping(&sandbox, "fix --completion-promise DONE");
    sandbox.ralph(&["pause"]).success().says("Loop paused");
    talk.stops("Done.").let_go().expect("a word that it rests");
    sandbox.ralph(&["resume"]).success().says("Loop resumed");
    talk.uses("Bash").stops("Done.").held();
    sandbox.ralph(&["cancel"]).success().says("Cancelled Ralph loop (was at iteration 2)");
    let freed = talk.stops("Done.").let_go().expect("a word that it is over");
    assert!(freed.contains("ended outside of a stop (cancelled)"), "{freed}");
    talk.stops("Done.").silent();
    sandbox.ralph(&["cancel"]).success().says("No active Ralph loop found.");
}

#[test]
fn a_waiting_session_is_judged_after_three_excuses_and_a_shell_excuses_nothing() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Talk::looping(&sandbox, "fix --completion-promise DONE");
    let with = |kind: &str| {
        let task = json!([{"id": "a1", "type": kind, "status": "running", "description": "tests"}]);
        talk.uses("Bash").stop("I wait.").with("background_tasks", task).answer()
    };
    with("shell").held();
    for _ in 0..3 {
        let told = with("subagent").let_go().expect("told");
        assert!(told.contains("tests"), "{told}");
    }
    assert_eq!(talk.state()["attempts"], 1);
    with("subagent").held();
}

#[test]
fn a_session_that_does_nothing_is_stuck_before_the_client_gives_up() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Talk::looping(&sandbox, "fix --completion-promise DONE");
    talk.uses("Bash").stops("Done.").held();
    talk.stops("Done.").held();
    let told = talk.stops("Done.").let_go().expect("a banner");
    assert!(told.contains("Loop stuck") && told.contains("NOT verified"), "{told}");
    assert_eq!(talk.state()["status"], json!({"status": "ended", "verdict": "stuck"}));
}

#[test]
fn a_queued_cancel_ends_the_turn_so_that_it_can_be_heard() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Talk::looping(&sandbox, "fix --completion-promise DONE");
    talk.uses("Bash").stops("Not yet.").held();
    let queued = json!({"type": "queue-operation", "operation": "enqueue", "content": "/cancel-ralph"});
    fs::write(sandbox.home().join("session-1.jsonl"), format!("{queued}\n")).expect("a transcript");
    let told_why = talk.stops("Not yet.").let_go().expect("a word");
    assert!(told_why.contains("/cancel-ralph"), "{told_why}");
    assert_eq!(told(&talk.command("cancel-ralph", "")), "Cancelled Ralph loop (was at iteration 2)");
}

#[test]
fn the_word_pause_is_heard_while_the_gates_run() {
    let sandbox = Sandbox::gated("verify:\n  - sleep 30\n");
    let talk = Talk::looping(&sandbox, "fix --completion-promise DONE");
    let begun = std::time::Instant::now();
    let running = talk.uses("Bash").stop("Done.").spawn();
    crate::support::wait_until("the gate runs", || !sandbox.events_named("run_started").is_empty());
    talk.says("pause");
    let output = running.wait_with_output().expect("an end");
    assert!(begun.elapsed() < std::time::Duration::from_secs(10), "the gates went on");
    assert!(String::from_utf8_lossy(&output.stdout).contains("paused loop here"), "{output:?}");
    assert_eq!(talk.state()["attempts"], 0);
}

#[test]
fn the_status_of_a_loop_is_told_without_the_model_and_in_the_persons_language() {
    let mut sandbox = Sandbox::gated(GATE);
    sandbox.file("tasks.md", "## 1. Phase\n- [x] 1.1 one\n- [ ] 1.2 two\n");
    let talk = Talk::looping(&sandbox, "--tasks tasks.md --completion-promise DONE");
    talk.uses("Bash").stops("Not yet.").held();
    let english = told(&talk.command("ralph-status", ""));
    assert!(english.contains("tasks: 1/2") && english.contains("next: 1.2 two"), "{english}");
    sandbox.set("RALPH_LANG", "zh-TW");
    let chinese = told(&Talk::new(&sandbox, "session-1").command("ralph-status", ""));
    assert!(chinese.contains("1/2") && !chinese.contains("next:"), "{chinese}");
    sandbox.ralph(&["status"]).success().says("已留住");
}
