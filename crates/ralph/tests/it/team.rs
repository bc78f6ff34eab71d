//! Teams in a session: a teammate that goes idle, a task that is marked completed, an agent that is called. The payloads
//! are the recorded ones, with the folder of the sandbox.

use std::fs;

use serde_json::{Value, json};

use ralph_testkit::{ClientEvent, HookAnswer, Sandbox};

const GATES: &str = "verify: [test -e done]\nguard: [teammates, tasks]\n";

/// A committed repo whose gate fails until `done` exists.
fn team(config: &str) -> Sandbox {
    let sandbox = Sandbox::gated(config);
    sandbox.git(&["add", "-A"]);
    sandbox.git(&["commit", "-qm", "a beginning"]);
    sandbox
}

fn recorded<'a>(sandbox: &'a Sandbox, name: &str) -> ClientEvent<'a> {
    let path = format!("{}/../ralph-core/fixtures/claude/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let mut input: Value = serde_json::from_slice(&fs::read(path).expect("a fixture")).expect("JSON");
    input["cwd"] = json!(sandbox.project());
    sandbox.event(input)
}

fn idles(sandbox: &Sandbox) -> HookAnswer {
    recorded(sandbox, "teammate_idle").answer()
}

fn completes(sandbox: &Sandbox, id: &str) -> HookAnswer {
    recorded(sandbox, "task_completed").with("task_id", id).answer()
}

/// Asserts that it was blocked in the only way the client supports here; returns the feedback.
#[track_caller]
fn blocked(answer: &HookAnswer) -> String {
    assert_eq!((answer.ran.code, answer.ran.stdout.as_str()), (Some(2), ""), "{answer:#?}");
    answer.ran.stderr.clone()
}

/// The list of tasks as the client keeps it.
fn list(sandbox: &Sandbox, name: &str, tasks: &[(&str, &str)]) {
    let folder = sandbox.home().join(".claude/tasks").join(name);
    fs::create_dir_all(&folder).expect("our own");
    for (id, status) in tasks {
        let task = json!({"id": id, "subject": "x", "status": status, "blocks": [], "blockedBy": []});
        fs::write(folder.join(format!("{id}.json")), task.to_string()).expect("our own");
    }
}

/// The session of the recordings.
const SESSION: &str = "00000000-0000-4000-8000-000000000001";

#[test]
fn s4_r9_a_teammate_may_idle_when_the_gates_pass_and_gets_feedback_until_then() {
    let sandbox = team(GATES);
    for attempt in 1..=4 {
        let message = blocked(&idles(&sandbox));
        assert!(message.contains("gate `test -e done` failed"), "{message}");
        assert!(message.contains(&format!("`bob` blocked: attempt {attempt} of 5")), "{message}");
    }
    sandbox.file("done", "");
    assert!(idles(&sandbox).allowed().is_some_and(|message| message.contains("passed")));
    assert_eq!(sandbox.state()["status"], json!({"status": "ended", "verdict": "passing"}));
}

#[test]
fn s4_r9_the_fifth_time_a_teammate_is_released_and_user_and_agent_are_notified() {
    let sandbox = team(GATES);
    for _ in 1..=4 {
        blocked(&idles(&sandbox));
    }
    let message = idles(&sandbox).allowed().expect("said");
    assert!(message.contains("UNVERIFIED"), "{message}");
    let next = recorded(&sandbox, "user_prompt_submit").answer();
    let said = next.ran.json();
    assert!(
        said["systemMessage"]
            .as_str()
            .is_some_and(|message| message.contains("`bob`") && message.contains("UNVERIFIED"))
    );
    let context = said["hookSpecificOutput"]["additionalContext"].as_str().expect("for the agent");
    assert!(
        context.contains("the teammate `bob` was allowed to stop, but its work is NOT verified"),
        "{context}"
    );
}

#[test]
fn the_stop_and_the_idle_event_of_a_teammate_are_one_attempt() {
    let sandbox = team("verify: [test -e done]\nguard: [bob]\n");
    let stops = || recorded(&sandbox, "subagent_stop.teammate").answer();
    for _ in 1..=4 {
        stops().blocked();
    }
    assert!(stops().allowed().is_some_and(|message| message.contains("UNVERIFIED")));
    // Not five more for the same work.
    idles(&sandbox).silent();
    // Other work has its own budget.
    sandbox.file("more", "");
    blocked(&idles(&sandbox));
}

#[test]
fn s4_r9_problems_in_added_lines_are_named_before_any_gate_runs() {
    let sandbox = team(&format!("verify: ['{}']\nguard: [teammates]\n", "touch ../gate-ran"));
    sandbox.file("src/app.py", "def f():\n    breakpoint()\n");
    sandbox.file("data.json", "{\"a\": }");
    let message = blocked(&idles(&sandbox));
    for line in [
        "- src/app.py:2: a debugger statement (`breakpoint()`)",
        "- data.json: does not parse",
        "ralph checked the added lines. Stop of `bob` blocked: attempt 1 of 5.",
    ] {
        assert!(message.contains(line), "{line}: {message}");
    }
    assert!(!sandbox.path("../gate-ran").exists(), "there is something to fix first");
    assert_eq!(sandbox.events_named("judged")[0]["reason"]["code"], "hygiene_failed");
    sandbox.file("src/app.py", "def f():\n    pass\n");
    sandbox.file("data.json", "{}");
    assert!(idles(&sandbox).allowed().is_some_and(|message| message.contains("passed")));
    assert!(sandbox.path("../gate-ran").exists());
}

#[test]
fn lines_that_a_teammate_committed_are_checked_too() {
    let sandbox = team("verify: ['true']\nguard: [teammates]\n");
    recorded(&sandbox, "session_start.startup").answer().silent();
    sandbox.file("app.ts", "debugger;\n");
    sandbox.git(&["add", "-A"]);
    sandbox.git(&["commit", "-qm", "done"]);
    assert!(blocked(&idles(&sandbox)).contains("app.ts:1: a debugger statement"));
    recorded(&sandbox, "session_end").answer().silent();
    let left = sandbox.remembered().into_iter().find(|path| path.contains(".commit."));
    assert_eq!(left, None, "a session that is gone leaves nothing behind");
}

#[test]
fn s4_r9_a_task_runs_the_gates_only_where_it_is_the_last_one() {
    let sandbox = team(GATES);
    list(&sandbox, SESSION, &[("1", "in_progress"), ("2", "pending")]);
    list(&sandbox, "another-team", &[("9", "pending")]);
    completes(&sandbox, "1").silent();
    assert_eq!(
        sandbox.events_named("run_started").len(),
        0,
        "the work of others may break the gates for now"
    );
    list(&sandbox, SESSION, &[("1", "completed"), ("2", "in_progress")]);
    let message = blocked(&completes(&sandbox, "2"));
    assert!(message.contains("The task `Build it` is not completed yet: attempt 1 of 5"), "{message}");
    sandbox.file("done", "");
    assert!(completes(&sandbox, "2").allowed().is_some_and(|message| message.contains("passed")));
}

#[test]
fn a_task_that_is_not_the_last_is_still_checked_for_leftovers() {
    let sandbox = team(GATES);
    list(&sandbox, "session-00000000", &[("1", "in_progress"), ("2", "pending")]);
    sandbox.file("lib.rs", "fn f() { todo\u{21}() }\n");
    let message = blocked(&completes(&sandbox, "1"));
    assert!(message.contains("lib.rs:1: a placeholder") && message.contains("`Build it`"), "{message}");
    sandbox.remove("lib.rs");
    completes(&sandbox, "1").silent();
    assert_eq!(sandbox.state()["status"], json!({"status": "ended", "verdict": "claimed"}));
}

#[test]
fn without_a_readable_list_a_task_counts_as_the_last_one() {
    let sandbox = team(GATES);
    blocked(&completes(&sandbox, "1"));
    let answer = recorded(&sandbox, "task_completed").with("team_name", "../../etc").answer();
    blocked(&answer);
}

#[test]
fn a_teammate_not_named_in_the_guard_is_ignored() {
    for guard in
        ["", "guard: [check]\n", "guard: [session]\n", "guard: [\"agent:teammates\", \"agent:tasks\"]\n"]
    {
        let sandbox = team(&format!("verify: ['false']\n{guard}"));
        sandbox.file("app.ts", "debugger;\n");
        idles(&sandbox).silent();
        completes(&sandbox, "1").silent();
        assert_eq!(sandbox.events(), Vec::<Value>::new(), "{guard}");
    }
}

#[test]
fn unaccepted_gates_block_no_teammate_and_do_not_run() {
    let sandbox = Sandbox::new();
    sandbox.file("ralph.yaml", "verify: [touch ran]\nguard: [teammates, tasks]\n");
    idles(&sandbox).silent();
    completes(&sandbox, "1").silent();
    assert!(!sandbox.exists("ran"));
}

#[test]
fn s4_r9_an_agent_with_a_role_is_given_its_gates() {
    let sandbox = team("verify: [make check]\nguard: [check]\n");
    let starts = |name: &str| recorded(&sandbox, "subagent_start").with("agent_type", name).answer();
    for name in ["ralph-coder", "ralph:ralph-tester", "check"] {
        let answer = starts(name);
        let said = answer.ran.json();
        assert_eq!(said["hookSpecificOutput"]["hookEventName"], "SubagentStart", "{answer:#?}");
        let context = said["hookSpecificOutput"]["additionalContext"].as_str().expect("context");
        assert!(
            context.contains("- make check") && context.contains("ralph runs all gates when you stop"),
            "{context}"
        );
        assert!(!context.contains("works on"), "there is no loop: {context}");
    }
    starts("general-purpose").silent();
    sandbox.ralph(&["trust", "--revoke"]).success();
    starts("ralph-coder").silent();
}
