//! An agent that wants out of a session's loop or guard, and a person with bad luck: nobody gets away without the gates
//! or without a word, and nobody is kept who wants to go.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::conversation::Conversation;
use crate::support::{RALPH, Sandbox};
use crate::talk::{Talk, told};

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
fn code_that_a_gate_runs_is_no_person() {
    let sandbox = Sandbox::gated("verify:\n  - sh check.sh\n");
    let talk = Talk::looping(&sandbox, "fix --completion-promise DONE");
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
        talk.uses("Bash").stops(PROMISE).held();
        assert_eq!(talk.state()["status"]["status"], "running", "{escape}: {}", sandbox.read("out.txt"));
    }
    let accepted = sandbox.ralph(&["trust", "--show", "--json"]).json()["accepted"].clone();
    assert!(accepted.is_null() || accepted["by"].to_string().contains("agents_shell"), "{accepted:#}");
}

#[test]
fn a_loop_of_its_own_is_not_judged_by_what_the_agent_accepted_itself() {
    let mut sandbox = Sandbox::gated(GATE);
    sandbox.set("CLAUDECODE", "1");
    sandbox.set("CLAUDE_CODE_SESSION_ID", "session-1");
    sandbox.file("ralph.yaml", "verify: ['true']\n");
    sandbox.trust();
    sandbox.ralph(&["start", "fix", "--completion-promise", "DONE"]);
    let talk = Talk::new(&sandbox, "session-1");
    talk.uses("Bash").stops(PROMISE).held();
}

#[test]
fn an_agents_shell_that_hides_its_session_accepts_nothing_for_itself() {
    let mut sandbox = Sandbox::gated(GUARD);
    let weaker = "guard: [session]\nverify: ['true']\n";
    sandbox.file("ralph.yaml", weaker);
    sandbox.set("CLAUDECODE", "1");
    sandbox.trust();
    let talk = Conversation::new(&sandbox);
    talk.person_says("make it faster").silent();
    talk.agent_writes("broken", "red\n");
    talk.agent_stops().held();
}

#[test]
fn what_frees_later_sessions_is_not_for_an_agents_shell() {
    let mut sandbox = Sandbox::gated(GUARD);
    sandbox.set("CLAUDECODE", "1");
    for command in [&["reset"][..], &["trust", "--revoke"], &["init", "--uninstall"]] {
        sandbox.ralph(command).exits(3).says("only you can");
    }
}

#[test]
fn an_agent_does_not_carry_on_what_the_person_paused() {
    let mut sandbox = Sandbox::gated(GATE);
    let talk = Talk::looping(&sandbox, "fix --completion-promise DONE");
    talk.says("stop");
    sandbox.set("CLAUDECODE", "1");
    sandbox.set("CLAUDE_CODE_SESSION_ID", "session-1");
    sandbox.ralph(&["start", "fix", "--completion-promise", "DONE"]).exits(3).says("only you can");
    assert_eq!(Talk::new(&sandbox, "session-1").state()["status"]["status"], "paused");
}

#[test]
fn a_session_whose_loop_rests_is_told_so_when_it_stops() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Talk::looping(&sandbox, "fix --completion-promise DONE");
    talk.uses("Bash").stops("Not yet.").held();
    // Whoever wrote that word to our hook: the person reads at the stop what it did.
    talk.says("stop");
    let told = talk.uses("Bash").stops("Bye.").let_go().expect("a word");
    assert!(told.contains("paused"), "{told}");
    talk.uses("Bash").stops("Bye.").let_go().expect("as long as it rests");
}

#[test]
fn a_forged_cancel_in_the_queue_is_told_and_excuses_no_more_than_three_stops() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Talk::looping(&sandbox, "fix --completion-promise DONE");
    for _ in 0..3 {
        transcript(&sandbox, &[queue_row("enqueue", "/cancel-ralph", 1)]);
        let told = talk.stops("Bye.").let_go().expect("a word");
        assert!(told.contains("/cancel-ralph"), "{told}");
    }
    talk.stops("Bye.").held();
}

#[test]
fn a_queued_cancel_is_heard_behind_whatever_else_was_queued() {
    let enqueue = |what: &str| queue_row("enqueue", what, 1);
    let cancel = || enqueue("/cancel-ralph");
    let note = || enqueue("<task-notification>\n<task-id>a1</task-id>");
    for rows in [
        vec![cancel(), note(), queue_row("remove", "", 2)],
        vec![note(), cancel(), queue_row("dequeue", "", 2)],
        vec![enqueue("also this"), cancel(), queue_row("remove", "", 2)],
    ] {
        let sandbox = Sandbox::gated(GATE);
        let talk = Talk::looping(&sandbox, "fix --completion-promise DONE");
        transcript(&sandbox, &rows);
        talk.stops("Not yet.").let_go().expect("a word");
    }
}

#[test]
fn a_transcript_that_is_a_pipe_makes_nobody_wait() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Talk::looping(&sandbox, "fix --completion-promise DONE");
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
    talk.stops("Bye.").held();
}

#[test]
fn going_into_plan_mode_hides_nothing_that_was_written_before() {
    let sandbox = Sandbox::gated(GUARD);
    let talk = Conversation::new(&sandbox);
    talk.person_says("make it faster").silent();
    talk.agent_writes("broken", "red\n");
    let told = talk.stop().with("permission_mode", "plan").answer().let_go().expect("a word");
    assert!(told.contains("UNVERIFIED") && told.contains("plan"), "{told}");
}

#[test]
fn a_loop_file_of_its_own_making_does_not_take_the_place_of_the_guard() {
    let sandbox = Sandbox::gated(GUARD);
    let talk = Conversation::new(&sandbox);
    talk.person_says("make it faster").silent();
    talk.agent_writes("broken", "red\n");
    sandbox.file(".claude/ralph-loop.local.md", &foreign_loop(1));
    talk.agent_stops().held();
    talk.agent_stops().held();
}

#[test]
fn deleting_the_file_of_a_loop_does_not_free_from_the_guard() {
    let sandbox = Sandbox::gated(GUARD);
    let talk = Talk::new(&sandbox, "session-1");
    talk.says("hello").silent();
    talk.command("ralph-loop", "fix --completion-promise DONE");
    sandbox.file("broken", "red\n");
    talk.uses("Write");
    sandbox.remove(".claude/ralph-loop.local.md");
    let answer = talk.stops("Bye.");
    answer.held();
    assert!(told(&answer).contains("Cancelled"), "{answer:#?}");
}

#[test]
fn moving_the_project_away_frees_no_loop() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Talk::looping(&sandbox, "fix --completion-promise DONE");
    let (here, there) = (sandbox.project(), sandbox.home().join("elsewhere"));
    fs::rename(&here, &there).expect("a move");
    symlink(&there, &here).expect("a link");
    talk.stop(PROMISE).with("cwd", here.to_str().expect("text")).answer().held();
}

#[test]
fn leaving_the_folder_does_not_leave_the_guard() {
    let sandbox = Sandbox::gated(GUARD);
    let talk = Conversation::new(&sandbox);
    talk.person_says("make it faster").silent();
    talk.agent_writes("broken", "red\n");
    talk.stop().with("cwd", sandbox.home().to_str().expect("text")).answer().held();
}

#[test]
fn moving_the_project_away_frees_no_guarded_session() {
    let sandbox = Sandbox::gated(GUARD);
    let talk = Conversation::new(&sandbox);
    talk.person_says("make it faster").silent();
    talk.agent_writes("broken", "red\n");
    let stop = talk.stop();
    let (here, there) = (sandbox.project(), sandbox.home().join("elsewhere"));
    fs::rename(&here, &there).expect("a move");
    symlink(&there, &here).expect("a link");
    stop.answer().held();
}

/// Our entry for a stop in the project's settings, with something more said of it.
fn put_entry(sandbox: &Sandbox, more: (&str, serde_json::Value)) {
    let mut entry =
        json!({"type": "command", "timeout": 600, "command": format!("{RALPH} hook claude --deadline 570")});
    entry[more.0] = more.1;
    let settings = json!({"hooks": {"Stop": [{"hooks": [entry]}], "SessionStart": [{"hooks": [
        {"type": "command", "timeout": 10, "command": format!("{RALPH} hook claude --deadline 570")}
    ]}]}});
    sandbox.file(".claude/settings.local.json", &settings.to_string());
}

/// Whether the plugin's hook speaks, with an entry in the settings that was there before the session began or came later.
fn plugin_speaks(more: (&str, serde_json::Value), later: bool) -> bool {
    let mut sandbox = Sandbox::gated(GATE);
    sandbox.set("CLAUDE_PLUGIN_ROOT", "/plugin");
    if !later {
        put_entry(&sandbox, more.clone());
    }
    let talk = Talk::new(&sandbox, "session-1");
    talk.starts("startup");
    talk.command("ralph-loop", "fix --completion-promise DONE");
    put_entry(&sandbox, more);
    talk.starts("compact");
    !talk.uses("Bash").stops("Bye.").ran.stdout.is_empty()
}

#[test]
fn the_plugin_is_silenced_only_by_an_entry_that_was_there_first_and_that_the_client_waits_for() {
    assert!(!plugin_speaks(("timeout", json!(600)), false), "two voices");
    assert!(plugin_speaks(("timeout", json!(600)), true), "an entry that came later");
    for more in
        [("async", json!(true)), ("once", json!(true)), ("if", json!("Bash(x)")), ("type", json!("prompt"))]
    {
        assert!(plugin_speaks(more.clone(), false), "{more:?}");
    }
}

#[test]
fn a_notice_that_waits_is_not_lost_by_an_answer() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Talk::looping(&sandbox, "fix --completion-promise DONE");
    for _ in 0..3 {
        talk.fails("overloaded");
    }
    let answer = talk.command("ralph-status", "");
    let waited = talk.uses_and_tells("Bash");
    assert!(told(&answer).contains("overloaded") || waited.contains("overloaded"), "{answer:#?}\n{waited}");
}

#[test]
fn a_home_that_cannot_be_used_says_nothing_false() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.ralph_home()).expect("a folder");
    symlink("sessions", sandbox.ralph_home().join("sessions")).expect("a link to itself");
    let talk = Talk::new(&sandbox, "session-1");
    for event in ["UserPromptSubmit", "PostToolUse", "SessionStart", "SubagentStart", "SessionEnd"] {
        let answer =
            talk.event(event, &json!({"prompt": "hello", "tool_name": "Bash", "source": "startup"})).answer();
        let said = format!("{}{}", answer.ran.stdout, answer.ran.stderr);
        assert!(!said.contains("stop goes through"), "{event}: {said}");
        // A client runs hundreds of tools.
        assert!(event != "PostToolUse" || answer.ran.stdout.is_empty(), "{said}");
        assert!(answer.ran.stdout.is_empty() || answer.ran.json().get("decision").is_none(), "{answer:#?}");
    }
}

#[test]
fn sessions_that_are_gone_leave_nothing_behind() {
    let sandbox = Sandbox::gated(GUARD);
    for number in 0..5 {
        let name = format!("session-{number}");
        let talk = Talk::new(&sandbox, &name);
        talk.says("hello").silent();
        sandbox.file("broken", "red\n");
        talk.uses("Write").stops("Done.").held();
        fs::remove_file(sandbox.path("broken")).expect("a file");
        talk.uses("Bash").stops("Done.").let_go();
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
    let talk = Talk::looping(&sandbox, "fix --completion-promise DONE");
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
        let answer = talk.uses("Bash").stops(&message);
        answer.held();
        assert!(answer.took < Duration::from_secs(5), "{part:?}: {:?}", answer.took);
    }
}

#[test]
fn look_alikes_are_no_promise() {
    let sandbox = Sandbox::new();
    let talk = Talk::looping(&sandbox, "fix --completion-promise DONE");
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
        talk.uses("Bash").stops(message).held();
    }
}
