//! The hook: who is blocked, who is not, and which messages are sent.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::RALPH;
use ralph_testkit::{Finished, HookAnswer, Sandbox, is_alive, misbehave, verify_list, wait_until};

const FAILING: &str = "verify:\n  - test -e done.txt\n";

#[test]
fn a_check_agent_is_blocked_until_the_gate_passes() {
    let sandbox = Sandbox::gated("verify:\n  - test -e done.txt\n");
    let (reason, detail) = sandbox.stop("check").answer().blocked();
    assert_eq!(
        reason,
        "Verification failed (iteration 1/5): gate `test -e done.txt` failed with exit code 1"
    );
    assert!(detail.contains("attempt 1 of 5") && detail.contains("Command: test -e done.txt"), "{detail}");

    sandbox.file("done.txt", "");
    let shown = sandbox.stop("check").answer().allowed();
    assert_eq!(shown.as_deref(), Some("Verification passed: All verify commands passed"));
}

/// Nothing ran and nothing was written.
#[track_caller]
fn leaves_no_trace(sandbox: &Sandbox, call: impl FnOnce() -> HookAnswer) {
    let before = sandbox.memory();
    call().silent();
    assert_eq!(sandbox.memory(), before);
    assert_eq!(sandbox.runs(), 0);
}

fn gated_and_counting() -> Sandbox {
    let sandbox = Sandbox::new();
    let gate = sandbox.counting("false");
    sandbox.file("ralph.yaml", &verify_list(&[&gate]));
    sandbox.trust();
    sandbox
}

#[test]
fn other_events_run_nothing_and_write_nothing() {
    let sandbox = gated_and_counting();
    for event in
        ["Stop", "PreToolUse", "PostToolUse", "UserPromptSubmit", "SubagentStart", "TeammateIdle", "Else"]
    {
        leaves_no_trace(&sandbox, || sandbox.stop("worker").with("hook_event_name", event).answer());
    }
}

#[test]
fn other_agents_run_nothing_and_write_nothing() {
    let sandbox = gated_and_counting();
    for agent in
        ["implement", "checker", "recheck", "Check", "plugin:implement", "check:other", "general-purpose"]
    {
        leaves_no_trace(&sandbox, || sandbox.stop(agent).answer());
    }
}

#[test]
fn an_empty_or_missing_agent_name_is_a_compaction_and_is_allowed() {
    let sandbox = gated_and_counting();
    for name in [json!(""), Value::Null] {
        leaves_no_trace(&sandbox, || sandbox.stop("check").with("agent_type", name).answer());
    }
}

#[test]
fn the_name_is_read_from_agent_type_and_nowhere_else() {
    let sandbox = gated_and_counting();
    leaves_no_trace(&sandbox, || sandbox.stop("implement").with("subagent_type", "check").answer());
}

#[test]
fn an_agent_of_a_plugin_is_blocked_by_its_bare_name() {
    let sandbox = Sandbox::gated(FAILING);
    let (_, detail) = sandbox.stop("some-plugin:check").answer().blocked();
    assert!(detail.contains("Stop of `check` blocked"), "{detail}");
}

#[test]
fn a_folder_without_config_is_ignored() {
    let sandbox = Sandbox::new();
    leaves_no_trace(&sandbox, || sandbox.stop("check").answer());
    let sandbox = Sandbox::without_git();
    leaves_no_trace(&sandbox, || sandbox.stop("check").answer());
}

#[test]
fn a_stop_without_a_session_is_allowed_and_reported() {
    let sandbox = gated_and_counting();
    for session in [json!(""), Value::Null] {
        let shown = sandbox.stop("check").with("session_id", session).answer().allowed().expect("a message");
        assert!(shown.contains("names no session") && shown.contains("UNVERIFIED"), "{shown}");
    }
    assert_eq!(sandbox.runs(), 0);
}

#[test]
fn unreadable_input_is_allowed_with_one_line_and_never_exit_code_2() {
    let sandbox = gated_and_counting();
    let before = sandbox.memory();
    let table: [(&[u8], &str); 9] = [
        (b"", "is empty"),
        (b" \n\t ", "is empty"),
        (b"not json", "is not a valid JSON object"),
        (b"[]", "is not a valid JSON object"),
        (b"42", "is not a valid JSON object"),
        (b"{}", "is not a valid JSON object"),
        (b"{\"hook_event_name\": 7}", "is not a valid JSON object"),
        (
            b"{\"hook_event_name\": \"SubagentStop\", \"agent_type\": [\"check\"]}",
            "is not a valid JSON object",
        ),
        (b"{\"hook_event_name\": \"SubagentStop\", \"agent_type\": \"che", "is not a valid JSON object"),
    ];
    for (input, why) in table {
        let ran = sandbox.hook_with(input).ran;
        assert_eq!(ran.code, Some(0), "{ran:#?}");
        let shown = ran.json()["systemMessage"].as_str().unwrap_or_default().to_owned();
        assert!(shown.contains(why) && shown.contains("UNVERIFIED"), "{ran:#?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{ran:#?}");
        assert!(ran.stderr.contains(why) && ran.stderr.contains("stop allowed, UNVERIFIED"), "{ran:#?}");
    }
    assert_eq!(sandbox.memory(), before);
}

#[test]
fn an_input_of_20_megabytes_is_rejected() {
    let sandbox = gated_and_counting();
    let mut input = br#"{"hook_event_name":"SubagentStop","agent_type":"check","session_id":""#.to_vec();
    input.resize(20 << 20, b'x');
    let ran = sandbox.hook_with(&input).ran;
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("larger than 16 MiB"), "{}", ran.stdout);
}

#[test]
fn a_large_last_message_is_fine() {
    let sandbox = Sandbox::gated(FAILING);
    sandbox.stop("check").saying(&"many words ".repeat(300_000)).answer().blocked();
}

#[test]
fn an_input_that_never_ends_is_answered_within_seconds() {
    let sandbox = gated_and_counting();
    for beginning in ["", "{\"hook_event_name\": \"SubagentStop\","] {
        let begun = Instant::now();
        let mut child = sandbox.piped(&["hook", "claude"]);
        let mut open_end = child.stdin.take().expect("a pipe");
        open_end.write_all(beginning.as_bytes()).expect("a reader");
        let status = child.wait().expect("an end");
        let took = begun.elapsed();
        drop(open_end);
        assert_eq!(status.code(), Some(0));
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
    assert_eq!(sandbox.runs(), 0);
}

#[test]
fn a_deleted_folder_allows_the_stop_with_a_message() {
    let sandbox = gated_and_counting();
    sandbox.file("gone/x", "");
    let gone = sandbox.path("gone");
    fs::remove_dir_all(&gone).expect("removed");
    let shown = sandbox.stop("check").with("cwd", json!(gone)).answer().allowed().expect("a message");
    assert!(shown.contains("UNVERIFIED"), "{shown}");
    let shown = sandbox.stop("check").with("cwd", Value::Null).answer().allowed().expect("a message");
    assert!(shown.contains("names no folder"), "{shown}");
}

#[test]
fn the_current_folder_of_the_process_may_be_deleted() {
    let sandbox = Sandbox::gated(FAILING);
    sandbox.file("gone/x", "");
    let script = "cd gone && rm -r ../gone && exec \"$0\" hook claude";
    let mut child = Command::new("sh")
        .args(["-c", script, RALPH])
        .current_dir(sandbox.project())
        .env("HOME", sandbox.home())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a shell");
    let input = sandbox.stop("check").text();
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("a reader");
    let ran = Finished::of(child.wait_with_output().expect("an end"));
    HookAnswer { ran, took: Duration::ZERO }.blocked();
}

#[test]
fn the_project_of_the_session_wins_over_the_current_folder_of_the_agent() {
    let mut sandbox = Sandbox::gated(FAILING);
    let elsewhere = sandbox.home();
    sandbox.stop("check").with("cwd", json!(elsewhere)).answer().silent();
    let project = sandbox.project().to_string_lossy().into_owned();
    sandbox.set("CLAUDE_PROJECT_DIR", project);
    sandbox.stop("check").with("cwd", json!(elsewhere)).answer().blocked();
}

#[test]
fn without_home_it_still_answers() {
    let sandbox = Sandbox::gated(FAILING);
    let run = |ralph_home: bool| {
        let mut command = sandbox.command(&["hook", "claude"]);
        command.env_remove("HOME").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if ralph_home {
            command.env("RALPH_HOME", sandbox.ralph_home());
        } else {
            // The user database is used instead; a test must not write to the folder it names.
            command.env("RALPH_HOME", sandbox.home().join("empty"));
        }
        let mut child = command.spawn().expect("the binary");
        let input = sandbox.stop("check").text();
        child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("a reader");
        HookAnswer { ran: Finished::of(child.wait_with_output().expect("an end")), took: Duration::ZERO }
    };
    run(true).blocked();
    let shown = run(false).allowed().expect("a message");
    assert!(shown.contains("ralph trust"), "{shown}");
}

#[test]
fn wrong_usage_of_the_hook_never_exits_with_2() {
    let sandbox = Sandbox::gated(FAILING);
    for arguments in [
        &["hook"][..],
        &["hook", "nobody"],
        &["hook", "claude", "--deadline"],
        &["hook", "claude", "--deadline", "soon"],
        &["hook", "claude", "--gate-timeout", "later"],
        &["hook", "claude", "--unknown"],
        &["hook", "claude", "extra"],
    ] {
        let ran = sandbox.ralph(arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{arguments:?}: {ran:#?}");
        assert!(!ran.stderr.is_empty(), "{arguments:?}");
    }
    sandbox.ralph(&["hook", "--help"]).success().says("settings.json");
}

#[test]
fn a_deadline_allows_the_stop_without_an_attempt_and_verify_does_not_replace_it() {
    let config = "verify:\n  - 'true'\n  - sleep 3\n";
    let sandbox = Sandbox::gated(config);
    let shown = sandbox.stop("check").deadline("2s").answer().allowed().expect("a message");
    assert!(shown.contains("UNVERIFIED") && shown.contains("not finished: `sleep 3`"), "{shown}");
    assert_eq!(sandbox.state()["attempts"], 0);
    assert_eq!(sandbox.state()["status"], json!({"status": "ended", "verdict": "released"}));

    // The finished gate has a receipt, but may have to run before the unfinished one: both run.
    let verified = sandbox.verify(&[]);
    assert_eq!(verified["verdict"], "verified");
    assert_eq!(verified["gates"][0]["reused"], false, "{verified:#}");
    assert_eq!(verified["gates"][1]["reused"], false, "{verified:#}");

    // A stop is decided by its own runs: again they do not fit.
    let shown = sandbox.stop("check").deadline("1s").answer().allowed().expect("a message");
    assert!(shown.contains("UNVERIFIED"), "{shown}");
}

#[test]
fn stop_hook_active_decides_nothing() {
    let sandbox = Sandbox::gated(FAILING);
    for attempt in 1..=4 {
        let (reason, _) = sandbox.stop("check").with("stop_hook_active", true).answer().blocked();
        assert!(reason.contains(&format!("(iteration {attempt}/5)")), "{reason}");
    }
    let shown = sandbox.stop("check").with("stop_hook_active", true).answer().allowed().expect("loud");
    assert!(shown.contains("Max iterations reached (5/5)"), "{shown}");
}

#[test]
fn four_blocks_then_a_loud_release_that_is_reported_once() {
    let sandbox = gated_and_counting();
    for _ in 0..4 {
        sandbox.stop("check").answer().blocked();
    }
    let shown = sandbox.stop("check").answer().allowed().expect("loud");
    assert!(
        shown.starts_with("Max iterations reached (5/5); stop allowed, UNVERIFIED. Unresolved: gate "),
        "{shown}"
    );
    assert_eq!(sandbox.runs(), 5, "the fifth was verified too");
    assert_eq!(sandbox.state()["status"], json!({"status": "ended", "verdict": "released"}));

    // Agent and user are notified after the session's next tool, once.
    let shown = sandbox.session_event("PostToolUse").ran.json();
    let context = shown["hookSpecificOutput"]["additionalContext"].as_str().expect("context");
    assert_eq!(shown["hookSpecificOutput"]["hookEventName"], "PostToolUse");
    assert!(context.contains("NOT verified"), "{shown}");
    let user_message = shown["systemMessage"].as_str().expect("a message");
    assert!(user_message.contains("`check`: Max iterations reached (5/5)"), "{user_message}");
    for event in ["UserPromptSubmit", "Stop", "PostToolUse"] {
        sandbox.session_event(event).silent();
    }
}

#[test]
fn the_session_end_can_notify_the_user_too_but_not_another_session() {
    let sandbox = Sandbox::gated("verify: ['false']\nbudget: {attempts: 1}\n");
    sandbox.stop("check").answer().allowed().expect("loud");
    let other =
        json!({"session_id": "session-2", "cwd": sandbox.project(), "hook_event_name": "UserPromptSubmit"});
    sandbox.event(other).answer().silent();
    let shown = sandbox.session_event("Stop").allowed().expect("a message");
    assert!(shown.contains("Max iterations reached (1/1)"), "{shown}");
}

#[test]
fn a_pass_on_the_last_attempt_is_a_pass() {
    let sandbox = Sandbox::gated(FAILING);
    for _ in 0..4 {
        sandbox.stop("check").answer().blocked();
    }
    sandbox.file("done.txt", "");
    let shown = sandbox.stop("check").answer().allowed();
    assert_eq!(shown.as_deref(), Some("Verification passed: All verify commands passed"));
    assert_eq!(sandbox.state()["status"]["verdict"], "passing");
}

#[test]
fn the_count_restarts_after_a_pass_and_after_a_release() {
    let sandbox = Sandbox::gated("verify: [test -e done.txt]\nbudget: {attempts: 2}\n");
    let iteration = |number: u32| {
        let (reason, _) = sandbox.stop("check").answer().blocked();
        assert!(reason.contains(&format!("(iteration {number}/2)")), "{reason}");
    };
    iteration(1);
    sandbox.stop("check").answer().allowed().expect("released");
    iteration(1);
    sandbox.file("done.txt", "");
    sandbox.stop("check").answer().allowed().expect("verified");
    sandbox.remove("done.txt");
    iteration(1);
}

#[test]
fn the_guard_names_the_agents_to_block() {
    let sandbox = Sandbox::gated("verify: ['false']\nguard: [review, 'test-*', 'agent:session']\n");
    for blocked in ["review", "test-unit", "plugin:test-e2e", "session"] {
        sandbox.stop(blocked).agent(blocked).answer().blocked();
    }
    for free in ["check", "tester", "reviewer"] {
        sandbox.stop(free).answer().silent();
    }
}

#[test]
fn enabled_false_switches_everything_off() {
    let sandbox = Sandbox::new();
    let gate = sandbox.counting("false");
    sandbox.file("ralph.yaml", &format!("enabled: false\n{}", verify_list(&[&gate])));
    sandbox.trust();
    leaves_no_trace(&sandbox, || sandbox.stop("check").answer());
}

#[test]
fn two_agents_at_once_and_two_sessions_do_not_share_a_count() {
    let sandbox = Sandbox::gated(FAILING);
    let iteration = |agent: &str, session: &str| {
        let (reason, _) = sandbox.stop("check").agent(agent).session(session).answer().blocked();
        let after = reason.split_once("(iteration ").expect("an iteration").1;
        after.split('/').next().expect("a number").to_owned()
    };
    let seen: Vec<String> =
        [("a", "1"), ("b", "1"), ("a", "2"), ("a", "1"), ("b", "1"), ("a", "1"), ("a", "2")]
            .iter()
            .map(|(agent, session)| iteration(agent, session))
            .collect();
    assert_eq!(seen, ["1", "1", "1", "2", "2", "3", "2"]);
}

#[test]
fn a_release_in_another_session_does_not_allow_a_stop_here() {
    let sandbox = Sandbox::gated("verify: ['false']\nbudget: {attempts: 2}\n");
    sandbox.stop("check").session("a").answer().blocked();
    sandbox.stop("check").session("a").answer().allowed().expect("released");
    sandbox.stop("check").session("b").answer().blocked();
}

fn all_at_once(sandbox: &Sandbox, agent: impl Fn(usize) -> String) -> Vec<HookAnswer> {
    let begun = Instant::now();
    let children: Vec<_> =
        (0..100).map(|number| sandbox.stop("check").agent(&agent(number)).spawn()).collect();
    children
        .into_iter()
        .map(|child| HookAnswer {
            ran: Finished::of(child.wait_with_output().expect("an end")),
            took: begun.elapsed(),
        })
        .collect()
}

#[test]
fn a_hundred_hooks_at_once_of_one_agent_lose_no_count() {
    let sandbox = Sandbox::gated("verify: ['false']\nbudget: {attempts: 1000}\n");
    let mut iterations: Vec<u32> = all_at_once(&sandbox, |_| "agent-1".into())
        .iter()
        .map(|answer| {
            let (reason, _) = answer.blocked();
            let after = reason.split_once("(iteration ").expect("an iteration").1;
            after.split('/').next().expect("a number").parse().expect("a number")
        })
        .collect();
    iterations.sort_unstable();
    assert_eq!(iterations, (1..=100).collect::<Vec<_>>());
    assert_eq!(sandbox.state()["attempts"], 100);
    assert_eq!(sandbox.events_named("judged").len(), 100);
}

#[test]
fn a_hundred_agents_at_once_are_a_hundred_loops() {
    let sandbox = Sandbox::gated("verify: ['false']\n");
    for answer in all_at_once(&sandbox, |number| format!("agent-{number}")) {
        let (reason, _) = answer.blocked();
        assert!(reason.contains("(iteration 1/5)"), "{reason}");
    }
    let status = sandbox.status();
    let loops = status["loops"].as_array().expect("loops");
    assert_eq!(loops.len(), 100);
    assert!(loops.iter().all(|entry| entry["state"]["attempts"] == 1 && entry["damage"].is_null()));
}

#[test]
fn at_sigterm_the_gate_process_tree_is_killed_first_and_recorded() {
    let sandbox = Sandbox::new();
    let pids = sandbox.home().join("pids");
    let gate =
        format!("echo $$ >> {0}; {1} & echo $! >> {0}; wait", pids.display(), misbehave("ignore-term"));
    sandbox.file("ralph.yaml", &verify_list(&[&gate]));
    sandbox.trust();
    let mut child = sandbox.stop("check").spawn();
    let read = || -> Vec<u32> {
        let text = fs::read_to_string(&pids).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    };
    wait_until("two processes run", || read().len() == 2);
    std::thread::sleep(Duration::from_millis(100));
    let begun = Instant::now();
    kill_process(Pid::from_child(&child), Signal::TERM).expect("sent");
    child.wait().expect("an end");
    let took = begun.elapsed();
    assert!(took < Duration::from_millis(1400), "the client kills after 1.4 s; it took {took:?}");
    for pid in read() {
        assert!(!is_alive(pid), "process {pid} outlived the hook");
    }
    let interrupted = sandbox.events_named("interrupted");
    assert_eq!(interrupted.len(), 1);
    assert_eq!(interrupted[0]["why"], "signal 15");
    assert_eq!(sandbox.state()["attempts"], 0);
}

/// A client ends its hook with all processes of the hook, and may reach the gate first.
#[test]
fn a_gate_signalled_before_the_hook_has_not_failed() {
    for hook_signalled_too in [true, false] {
        let sandbox = Sandbox::new();
        let own_pid = sandbox.home().join("pid");
        let gate = format!("echo $$ > {0}.new; mv {0}.new {0}; exec sleep 30", own_pid.display());
        sandbox.file("ralph.yaml", &verify_list(&[&gate]));
        sandbox.trust();
        let mut child = sandbox.stop("check").spawn();
        wait_until("the gate runs", || own_pid.exists());
        let gate: i32 = fs::read_to_string(&own_pid).expect("a number").trim().parse().expect("a number");
        kill_process(Pid::from_raw(gate).expect("a process"), Signal::TERM).expect("sent");
        if hook_signalled_too {
            std::thread::sleep(Duration::from_millis(50));
            kill_process(Pid::from_child(&child), Signal::TERM).expect("sent");
        }
        child.wait().expect("an end");
        let (interrupted, attempts) = if hook_signalled_too { (1, 0) } else { (0, 1) };
        assert_eq!(
            sandbox.events_named("interrupted").len(),
            interrupted,
            "hook signalled too: {hook_signalled_too}"
        );
        assert_eq!(sandbox.state()["attempts"], attempts, "hook signalled too: {hook_signalled_too}");
    }
}

#[test]
fn an_interrupted_stop_can_be_judged_again() {
    let sandbox = Sandbox::new();
    let flag = sandbox.home().join("ready");
    let gate = format!("touch {0}; test -e done.txt || sleep 20", flag.display());
    sandbox.file("ralph.yaml", &verify_list(&[&gate]));
    sandbox.trust();
    let mut child = sandbox.stop("check").spawn();
    wait_until("the gate runs", || flag.exists());
    kill_process(Pid::from_child(&child), Signal::KILL).expect("sent");
    child.wait().expect("an end");
    sandbox.file("done.txt", "");
    let shown = sandbox.stop("check").answer().allowed();
    assert_eq!(shown.as_deref(), Some("Verification passed: All verify commands passed"));
}

#[test]
fn the_answer_to_the_client_is_one_object_of_known_fields() {
    let sandbox = Sandbox::gated(FAILING);
    let block = sandbox.stop("check").answer().ran.json();
    let keys: Vec<&String> = block.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["decision", "hookSpecificOutput", "reason"]);
    assert_eq!(block["hookSpecificOutput"]["hookEventName"], "SubagentStop");
    sandbox.file("done.txt", "");
    let pass = sandbox.stop("check").answer().ran.json();
    let keys: Vec<&String> = pass.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["systemMessage"]);
}

#[test]
fn changes_since_the_last_attempt_are_reported() {
    let sandbox = Sandbox::gated("verify: ['cat word.txt >&2; false']\n");
    sandbox.file("word.txt", "one\n");
    sandbox.stop("check").answer().blocked();
    let (_, detail) = sandbox.stop("check").answer().blocked();
    assert!(detail.contains("No file changed since the last attempt."), "{detail}");
    sandbox.file("other.txt", "x");
    let (_, detail) = sandbox.stop("check").answer().blocked();
    assert!(detail.contains("Files changed since the last attempt, but the failure is the same"), "{detail}");
    sandbox.file("word.txt", "two\n");
    let (_, detail) = sandbox.stop("check").answer().blocked();
    assert!(detail.contains("The failure has changed"), "{detail}");
}

#[test]
fn a_session_id_that_is_a_path_stays_a_name() {
    let sandbox = Sandbox::gated("verify: ['false']\nbudget: {attempts: 1}\n");
    // `.local` holds the second copies of ledger heads.
    let names = || -> Vec<_> {
        let entries = fs::read_dir(sandbox.home()).expect("a folder").flatten();
        entries.map(|entry| entry.file_name()).filter(|name| name != ".local").collect()
    };
    let before = names();
    sandbox
        .stop("check")
        .session("../../../../evil")
        .agent("../../evil")
        .answer()
        .allowed()
        .expect("released");
    assert_eq!(before, names());
    let heads = fs::read_dir(sandbox.home().join(".local/state/ralph/heads")).expect("a folder").flatten();
    assert!(heads.map(|entry| entry.file_name()).all(|name| !name.to_string_lossy().contains("evil")));
    assert!(sandbox.remembered().iter().all(|name| !name.contains("evil")));
}
