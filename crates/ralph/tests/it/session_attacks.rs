//! An agent that wants out of a session's loop or guard, and a user with bad luck: no session escapes the gates
//! without a message, and the user can always end it.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::RALPH;
use ralph_testkit::{Sandbox, Session};

const GATE: &str = "verify:\n  - test -e done.txt\n";
const PROMISE: &str = "All of it works.\n\n<promise>DONE</promise>";
const GUARD: &str = "guard: [session]\nverify:\n  - name: tests\n    run: test ! -e broken\n";

fn queue_row(operation: &str, content: &str, at: u32) -> String {
    let timestamp = format!("2026-11-15T10:00:{at:02}.000Z");
    let row = json!({"type": "queue-operation", "operation": operation, "timestamp": timestamp,
        "sessionId": "session-1", "content": content});
    format!("{row}\n")
}

fn transcript(sandbox: &Sandbox, rows: &[String]) {
    fs::write(sandbox.home().join("session-1.jsonl"), rows.concat()).expect("a transcript");
}

fn foreign_loop(most: u32) -> String {
    format!(
        "---\nactive: true\niteration: 1\nmax_iterations: {most}\ncompletion_promise: \"DONE\"\nsession_id: \
         \"session-1\"\nstarted_at: \"2026-11-15T10:00:00Z\"\n---\n\nfix it\n"
    )
}

#[test]
fn code_run_by_a_gate_is_not_the_user() {
    let sandbox = Sandbox::gated("verify:\n  - sh check.sh\n");
    let talk = Session::looping(&sandbox, "fix --completion-promise DONE");
    let weaker = "verify: ['true']\n";
    let sha256 = format!("$(printf \"{}\" | sha256sum | cut -d' ' -f1)", weaker.replace('\n', "\\n"));
    for escape in ["cancel".into(), "pause".into(), "reset".into(), format!("trust --hash {sha256}")] {
        sandbox.file(
            "ralph.yaml",
            if escape.starts_with("trust") { weaker } else { "verify:\n  - sh check.sh\n" },
        );
        sandbox.file(
            "check.sh",
            &format!("{RALPH} {escape} >out.txt 2>&1 </dev/null; echo $? >>out.txt; exit 1\n"),
        );
        talk.agent_works_with("Bash").stops(PROMISE).blocked();
        assert_eq!(talk.state()["status"]["status"], "running", "{escape}: {}", sandbox.read("out.txt"));
    }
    let accepted = sandbox.ralph(&["trust", "--show", "--json"]).json()["accepted"].clone();
    assert!(accepted.is_null() || accepted["by"].to_string().contains("agents_shell"), "{accepted:#}");
}

#[test]
fn a_loop_started_by_an_agent_is_not_judged_by_gates_the_agent_accepted() {
    let mut sandbox = Sandbox::gated(GATE);
    sandbox.set("CLAUDECODE", "1");
    sandbox.set("CLAUDE_CODE_SESSION_ID", "session-1");
    sandbox.file("ralph.yaml", "verify: ['true']\n");
    sandbox.trust();
    sandbox.ralph(&["start", "fix", "--completion-promise", "DONE"]);
    let talk = Session::new(&sandbox);
    talk.agent_works_with("Bash").stops(PROMISE).blocked();
}

#[test]
fn an_agents_shell_that_hides_its_session_accepts_nothing_for_itself() {
    let mut sandbox = Sandbox::gated(GUARD);
    let weaker = "guard: [session]\nverify: ['true']\n";
    sandbox.file("ralph.yaml", weaker);
    sandbox.set("CLAUDECODE", "1");
    sandbox.trust();
    let talk = Session::new(&sandbox);
    talk.user_says("make it faster").silent();
    talk.agent_writes("broken", "red\n");
    talk.agent_stops().blocked();
}

#[test]
fn commands_that_free_later_sessions_are_refused_in_an_agents_shell() {
    let mut sandbox = Sandbox::gated(GUARD);
    sandbox.set("CLAUDECODE", "1");
    for command in [&["reset"][..], &["trust", "--revoke"], &["init", "--uninstall"]] {
        sandbox.ralph(command).exits(3).says("only you can");
    }
}

#[test]
fn an_agent_cannot_resume_a_loop_that_the_user_paused() {
    let mut sandbox = Sandbox::gated(GATE);
    let talk = Session::looping(&sandbox, "fix --completion-promise DONE");
    talk.user_says("stop");
    sandbox.set("CLAUDECODE", "1");
    sandbox.set("CLAUDE_CODE_SESSION_ID", "session-1");
    sandbox.ralph(&["start", "fix", "--completion-promise", "DONE"]).exits(3).says("only you can");
    assert_eq!(Session::new(&sandbox).state()["status"]["status"], "paused");
}

#[test]
fn a_session_with_a_paused_loop_is_notified_when_it_stops() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Session::looping(&sandbox, "fix --completion-promise DONE");
    talk.agent_works_with("Bash").stops("Not yet.").blocked();
    // Whichever process sent that word to our hook, the user reads its effect at the stop.
    talk.user_says("stop");
    let shown = talk.agent_works_with("Bash").stops("Bye.").allowed().expect("a word");
    assert!(shown.contains("paused"), "{shown}");
    talk.agent_works_with("Bash").stops("Bye.").allowed().expect("as long as it rests");
}

#[test]
fn a_forged_cancel_in_the_queue_is_reported_and_excuses_at_most_three_stops() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Session::looping(&sandbox, "fix --completion-promise DONE");
    for _ in 0..3 {
        transcript(&sandbox, &[queue_row("enqueue", "/cancel-ralph", 1)]);
        let shown = talk.stops("Bye.").allowed().expect("a word");
        assert!(shown.contains("/cancel-ralph"), "{shown}");
    }
    talk.stops("Bye.").blocked();
}

#[test]
fn a_queued_cancel_is_recognised_behind_other_queued_prompts() {
    let enqueue = |what: &str| queue_row("enqueue", what, 1);
    let cancel = || enqueue("/cancel-ralph");
    let note = || enqueue("<task-notification>\n<task-id>a1</task-id>");
    for rows in [
        vec![cancel(), note(), queue_row("remove", "", 2)],
        vec![note(), cancel(), queue_row("dequeue", "", 2)],
        vec![enqueue("also this"), cancel(), queue_row("remove", "", 2)],
    ] {
        let sandbox = Sandbox::gated(GATE);
        let talk = Session::looping(&sandbox, "fix --completion-promise DONE");
        transcript(&sandbox, &rows);
        talk.stops("Not yet.").allowed().expect("a word");
    }
}

#[test]
fn a_transcript_that_is_a_pipe_does_not_block() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Session::looping(&sandbox, "fix --completion-promise DONE");
    let path = sandbox.home().join("session-1.jsonl");
    assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo").success());
    let mut hook = talk.stop("Bye.").spawn();
    let until = Instant::now() + Duration::from_secs(5);
    while hook.try_wait().expect("a child").is_none() {
        if Instant::now() > until {
            hook.kill().expect("a child");
            panic!("it waits for the pipe");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    fs::remove_file(&path).expect("the pipe");
    talk.stops("Bye.").blocked();
}

#[test]
fn entering_plan_mode_does_not_hide_earlier_edits() {
    let sandbox = Sandbox::gated(GUARD);
    let talk = Session::new(&sandbox);
    talk.user_says("make it faster").silent();
    talk.agent_writes("broken", "red\n");
    let shown = talk.stop("Done.").with("permission_mode", "plan").answer().allowed().expect("a word");
    assert!(shown.contains("UNVERIFIED") && shown.contains("plan"), "{shown}");
}

#[test]
fn a_loop_file_made_by_the_agent_does_not_replace_the_guard() {
    let sandbox = Sandbox::gated(GUARD);
    let talk = Session::new(&sandbox);
    talk.user_says("make it faster").silent();
    talk.agent_writes("broken", "red\n");
    sandbox.file(".claude/ralph-loop.local.md", &foreign_loop(1));
    talk.agent_stops().blocked();
    talk.agent_stops().blocked();
}

#[test]
fn deleting_the_loop_file_does_not_free_from_the_guard() {
    let sandbox = Sandbox::gated(GUARD);
    let talk = Session::new(&sandbox);
    talk.user_says("hello").silent();
    talk.command("ralph-loop", "fix --completion-promise DONE");
    sandbox.file("broken", "red\n");
    talk.agent_works_with("Write");
    sandbox.remove(".claude/ralph-loop.local.md");
    let answer = talk.stops("Bye.");
    answer.blocked();
    assert!(answer.shown_to_user().contains("Cancelled"), "{answer:#?}");
}

#[test]
fn moving_the_project_does_not_free_a_loop() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Session::looping(&sandbox, "fix --completion-promise DONE");
    let (here, there) = (sandbox.project(), sandbox.home().join("elsewhere"));
    fs::rename(&here, &there).expect("a move");
    symlink(&there, &here).expect("a link");
    talk.stop(PROMISE).with("cwd", here.to_str().expect("text")).answer().blocked();
}

#[test]
fn leaving_the_folder_does_not_free_from_the_guard() {
    let sandbox = Sandbox::gated(GUARD);
    let talk = Session::new(&sandbox);
    talk.user_says("make it faster").silent();
    talk.agent_writes("broken", "red\n");
    talk.stop("Done.").with("cwd", sandbox.home().to_str().expect("text")).answer().blocked();
}

#[test]
fn moving_the_project_does_not_free_a_guarded_session() {
    let sandbox = Sandbox::gated(GUARD);
    let talk = Session::new(&sandbox);
    talk.user_says("make it faster").silent();
    talk.agent_writes("broken", "red\n");
    let stop = talk.stop("Done.");
    let (here, there) = (sandbox.project(), sandbox.home().join("elsewhere"));
    fs::rename(&here, &there).expect("a move");
    symlink(&there, &here).expect("a link");
    stop.answer().blocked();
}

/// Our entry for a stop in the project's settings, with additional fields.
fn put_entry(sandbox: &Sandbox, more: (&str, serde_json::Value)) {
    let mut entry =
        json!({"type": "command", "timeout": 600, "command": format!("{RALPH} hook claude --deadline 570")});
    entry[more.0] = more.1;
    let settings = json!({"hooks": {"Stop": [{"hooks": [entry]}], "SessionStart": [{"hooks": [
        {"type": "command", "timeout": 10, "command": format!("{RALPH} hook claude --deadline 570")}
    ]}]}});
    sandbox.file(".claude/settings.local.json", &settings.to_string());
}

/// Whether the plugin's hook answers, with an entry in the settings that is older or newer than the session.
fn plugin_speaks(more: (&str, serde_json::Value), later: bool) -> bool {
    let mut sandbox = Sandbox::gated(GATE);
    sandbox.set("CLAUDE_PLUGIN_ROOT", "/plugin");
    if !later {
        put_entry(&sandbox, more.clone());
    }
    let talk = Session::new(&sandbox);
    talk.starts("startup");
    talk.command("ralph-loop", "fix --completion-promise DONE");
    put_entry(&sandbox, more);
    talk.starts("compact");
    !talk.agent_works_with("Bash").stops("Bye.").ran.stdout.is_empty()
}

#[test]
fn the_plugin_is_silenced_only_by_an_earlier_entry_that_the_client_waits_for() {
    assert!(!plugin_speaks(("timeout", json!(600)), false), "two voices");
    assert!(plugin_speaks(("timeout", json!(600)), true), "an entry that came later");
    for more in
        [("async", json!(true)), ("once", json!(true)), ("if", json!("Bash(x)")), ("type", json!("prompt"))]
    {
        assert!(plugin_speaks(more.clone(), false), "{more:?}");
    }
}

#[test]
fn a_pending_notice_is_not_lost_by_an_answer() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Session::looping(&sandbox, "fix --completion-promise DONE");
    for _ in 0..3 {
        talk.fails("overloaded");
    }
    let answer = talk.command("ralph-status", "");
    let waited = talk.agent_uses("Bash").shown_to_user();
    assert!(
        answer.shown_to_user().contains("overloaded") || waited.contains("overloaded"),
        "{answer:#?}\n{waited}"
    );
}

#[test]
fn an_unusable_home_causes_no_false_message() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.ralph_home()).expect("a folder");
    symlink("sessions", sandbox.ralph_home().join("sessions")).expect("a link to itself");
    let talk = Session::new(&sandbox);
    for event in ["UserPromptSubmit", "PostToolUse", "SessionStart", "SubagentStart", "SessionEnd"] {
        let answer = talk
            .event_with(event, &json!({"prompt": "hello", "tool_name": "Bash", "source": "startup"}))
            .answer();
        let said = format!("{}{}", answer.ran.stdout, answer.ran.stderr);
        assert!(!said.contains("top allowed"), "{event}: {said}");
        // A client runs hundreds of tools.
        assert!(event != "PostToolUse" || answer.ran.stdout.is_empty(), "{said}");
        assert!(answer.ran.stdout.is_empty() || answer.ran.json().get("decision").is_none(), "{answer:#?}");
    }
}

#[test]
fn ended_sessions_leave_nothing_behind() {
    let sandbox = Sandbox::gated(GUARD);
    for number in 0..5 {
        let name = format!("session-{number}");
        let talk = Session::named(&sandbox, &name);
        talk.user_says("hello").silent();
        sandbox.file("broken", "red\n");
        talk.agent_works_with("Write").stops("Done.").blocked();
        fs::remove_file(sandbox.path("broken")).expect("a file");
        talk.agent_works_with("Bash").stops("Done.").allowed();
        talk.ends("other");
    }
    let left: Vec<String> = sandbox
        .remembered()
        .into_iter()
        .filter(|name| name.starts_with("sessions/") || name.contains("notice"))
        .collect();
    assert!(left.len() <= 1, "{left:?}");
}

#[test]
fn no_message_takes_long_to_read() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Session::looping(&sandbox, "fix --completion-promise DONE");
    for part in [
        "<promise>",
        "</promise>",
        "<!-- ",
        "-->",
        "`",
        "```\n",
        "> ",
        "<promise>DONE</promise> ",
        "\u{200b}",
        "    x\n",
        "- ",
    ] {
        let message = part.repeat(500_000 / part.len());
        let answer = talk.agent_works_with("Bash").stops(&message);
        answer.blocked();
        assert!(answer.took < Duration::from_secs(5), "{part:?}: {:?}", answer.took);
    }
}

#[test]
fn look_alike_characters_are_not_a_promise() {
    let sandbox = Sandbox::new();
    let talk = Session::looping(&sandbox, "fix --completion-promise DONE");
    for message in [
        "<promise>DОNE</promise>",
        "<promise>DO\u{200b}NE</promise>",
        "<promise>\u{feff}DONE</promise>",
        "<promise><promise>DONE</promise></promise>",
        "<promise>DONE</promise><promise>DONE</promise>",
        "<!-- <promise>DONE</promise> -->",
        "<!--\n<promise>DONE</promise>\n-->",
        "```\n<promise>DONE</promise>\n```",
        "~~~\n<promise>DONE</promise>\n~~~",
        "> <promise>DONE</promise>",
        "<promise>done</promise>",
        "<PROMISE>DONE</PROMISE>",
        "<promise >DONE</promise>",
        "- <promise>DONE</promise>",
        "I will say\n<promise>DONE</promise> later",
        "＜promise＞DONE＜/promise＞",
    ] {
        talk.agent_works_with("Bash").stops(message).blocked();
    }
}
