//! Regression tests for faults of claude-workflow and the loop plugin it builds on.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::RALPH;
use ralph_testkit::{Sandbox, Session, search_path};

const GATE: &str = "verify:\n  - test -e done.txt\n";

/// A loop without gates: only a promise can end it.
fn on_words_alone(sandbox: &Sandbox) -> Session<'_> {
    Session::looping(sandbox, "fix --completion-promise \"ALL DONE\"")
}

#[test]
fn claude_workflow_01_the_plugin_hook_is_wired_and_blocks() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Session::looping(&sandbox, "fix --completion-promise DONE");
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugin");
    let text = fs::read_to_string(format!("{root}/hooks/hooks.json")).expect("the plugin's hooks");
    let hooks: Value = serde_json::from_str(&text).expect("JSON");
    let command = hooks["hooks"]["Stop"][0]["hooks"][0]["command"].as_str().expect("a command line");
    let folder = std::path::Path::new(RALPH).parent().expect("a folder");
    let input = sandbox.path("input.json");
    fs::write(&input, talk.stop("Done.").text()).expect("the input");
    let output = Command::new("sh")
        .args(["-c", command])
        .env_clear()
        .env("PATH", format!("{}:{}", folder.display(), search_path()))
        .env("HOME", sandbox.home())
        .env("CLAUDE_PLUGIN_ROOT", root)
        .current_dir(sandbox.project())
        .stdin(fs::File::open(&input).expect("the input"))
        .output()
        .expect("a shell");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!(answer["decision"], "block", "{answer:#}");
}

#[test]
fn claude_workflow_02_at_the_limit_it_is_paused_and_can_be_resumed() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Session::looping(&sandbox, "fix --completion-promise DONE --max-iterations 2");
    talk.agent_works_with("Bash").stops("Not yet.").blocked();
    talk.agent_works_with("Bash").stops("Not yet.").allowed().expect("a banner");
    let file = sandbox.path(".claude/ralph-loop.local.md");
    assert!(fs::read_to_string(&file).expect("it is still there").contains("active: false"));
    assert!(talk.user_says("continue").shown_to_user().contains("#2 / 4"), "with a new budget");
    talk.agent_works_with("Bash").stops("Not yet.").blocked();
}

#[test]
fn claude_workflow_03_bare_text_is_not_a_promise_and_the_agent_is_told_what_is_missing() {
    let sandbox = Sandbox::new();
    let talk = on_words_alone(&sandbox);
    let (_, detail) = talk.agent_works_with("Bash").stops("ALL DONE").blocked();
    assert!(detail.contains("<promise>ALL DONE</promise>"), "{detail}");
}

#[test]
fn claude_workflow_04_a_mention_ends_nothing_and_another_promise_hides_nothing() {
    let sandbox = Sandbox::new();
    let talk = on_words_alone(&sandbox);
    for message in [
        "I will output <promise>ALL DONE</promise> once done; 1 task remains",
        "```\n<promise>ALL DONE</promise>\n```",
        "> <promise>ALL DONE</promise>",
        "<promise>SOMETHING ELSE</promise>",
        "`<promise>ALL DONE</promise>`",
    ] {
        talk.agent_works_with("Bash").stops(message).blocked();
    }
    talk.agent_works_with("Bash")
        .stops("<promise>OTHER</promise>\n\n<promise>ALL  DONE</promise>")
        .allowed()
        .expect("a banner");
}

#[test]
fn claude_workflow_05_and_06_the_promise_is_compared_with_correctly_counted_boxes() {
    let sandbox = Sandbox::new();
    sandbox.file("tasks.md", "- [X] one\n  - [ ] indented\n- [text](http://url)\n- [x] three\n");
    let talk = Session::looping(&sandbox, "--tasks tasks.md --completion-promise DONE");
    let (reason, _) = talk.agent_works_with("Bash").stops("<promise>DONE</promise>").blocked();
    assert!(reason.contains("1 of 3 tasks are open"), "{reason}");
    sandbox.file("tasks.md", "- [X] one\n  - [x] indented\n- [text](http://url)\n- [x] three\n");
    talk.agent_works_with("Bash").stops("<promise>DONE</promise>").allowed().expect("a banner");
}

#[test]
fn claude_workflow_07_the_task_keeps_its_lines_and_the_promise_its_quotes() {
    let sandbox = Sandbox::gated(GATE);
    let task = "fix this:\n---\niteration: 7\n---\nend";
    let talk = Session::new(&sandbox);
    talk.command("ralph-loop", &format!("\"{task}\" --completion-promise \"say \\\"hi\\\": now\""));
    for _ in 0..3 {
        talk.agent_works_with("Bash").stops("Not yet.").blocked();
    }
    let text = fs::read_to_string(sandbox.path(".claude/ralph-loop.local.md")).expect("the loop's file");
    assert!(text.trim_end().ends_with(task), "{text}");
    assert!(text.contains("iteration: 4\n"), "{text}");
    assert!(text.contains(r#"completion_promise: "say \"hi\": now""#), "{text}");
}

#[test]
fn claude_workflow_08_a_stop_without_text_continues_and_the_message_of_the_event_counts() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Session::looping(&sandbox, "fix --completion-promise DONE");
    talk.agent_works_with("Bash").stops("").blocked();
    sandbox.file("done.txt", "");
    // The transcript does not have the last message yet; the event has.
    fs::write(sandbox.home().join("session-1.jsonl"), "").expect("a transcript");
    talk.stops("<promise>DONE</promise>").allowed().expect("a banner");
}

#[test]
fn claude_workflow_09_neither_another_session_nor_one_without_an_id_is_blocked() {
    let sandbox = Sandbox::gated(GATE);
    let _talk = Session::looping(&sandbox, "fix --completion-promise DONE");
    Session::named(&sandbox, "session-2").stops("Done.").silent();
    Session::named(&sandbox, "").stops("Done.").silent();
    let nameless =
        json!({"hook_event_name": "Stop", "cwd": sandbox.project(), "last_assistant_message": "Done."});
    sandbox.event(nameless).answer().silent();
}

#[test]
fn claude_workflow_10_repeats_end_by_our_own_count_and_the_client_flag_is_ignored() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Session::looping(&sandbox, "fix --completion-promise DONE");
    let again = || talk.stop("Done.").with("stop_hook_active", true).answer();
    again().blocked();
    again().blocked();
    assert!(again().allowed().expect("a banner").contains("stuck"));
}

#[test]
fn claude_workflow_11_a_report_is_one_typed_line_and_not_a_keyword() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Session::looping(&sandbox, "fix --completion-promise DONE");
    for (said, report) in [
        ("I cannot approve, REJECT", json!(null)),
        ("cannot approve\nREVIEW: REJECT", json!("reject")),
        ("0 FAIL, 失敗 0", json!(null)),
        ("1 FAIL before\nTESTS: FAIL\nmended\nTESTS: PASS", json!("pass")),
    ] {
        talk.agent("SubagentStop", 1, "ralph:ralph-reviewer", said).answer().silent();
        assert_eq!(talk.state()["last_report"], report, "{said}");
    }
}

#[test]
fn claude_workflow_12_no_change_is_guessed_by_its_age() {
    let sandbox = Sandbox::new();
    for change in ["older", "newer"] {
        sandbox.file(&format!("openspec/changes/{change}/tasks.md"), "- [ ] 1.1 x\n");
    }
    let refused = Session::new(&sandbox).command("ralph-loop", "--openspec").shown_to_user();
    assert!(refused.contains("older") && refused.contains("newer"), "{refused}");
}

#[test]
fn claude_workflow_13_a_word_in_a_sentence_starts_nothing() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Session::new(&sandbox);
    let before = sandbox.remembered();
    for prompt in ["請繼續", "繼續", "持續整合要怎麼設定?", "continue"] {
        talk.user_says(prompt).silent();
    }
    assert_eq!(sandbox.remembered(), before);
}
