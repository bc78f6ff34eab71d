//! Teams in the real client: a task that is marked completed too early, and a teammate that goes idle.

use ralph_testkit::{Claude, Lane, Sandbox, Script, Turn};
use serde_json::{Value, json};

use crate::session::{ClaudeSession, bash};

/// A committed repo whose gate fails until `done` exists.
fn team(guard: &str) -> Sandbox {
    let sandbox = Sandbox::gated(&format!("verify: [test -e done.txt]\nguard: [{guard}]\n"));
    sandbox.git(&["add", "-A"]);
    sandbox.git(&["commit", "-qm", "a beginning"]);
    sandbox
}

fn verdicts(sandbox: &Sandbox) -> Vec<Value> {
    sandbox.events_named("judged").into_iter().map(|judged| judged["verdict"].clone()).collect()
}

/// The client offers the task tools with this model.
const MODEL: [&str; 2] = ["--model", "claude-sonnet-4-5"];

#[test]
fn s4_r9_a_task_stays_open_until_the_gates_pass() {
    let claude = Claude::for_test();
    let sandbox = team("tasks");
    let task = |status: &str| Turn::tool("TaskUpdate", json!({"taskId": "1", "status": status}));
    let script = Script::new().main(vec![
        Turn::tool("TaskCreate", json!({"subject": "Build it", "description": "all of it"})),
        task("in_progress"),
        task("completed"),
        bash("touch done.txt").expecting("gate `test -e done.txt` failed").expecting("attempt 1 of 5"),
        task("completed"),
        Turn::tool("TaskList", json!({})).expecting("Updated task #1"),
        Turn::say("Done.").expecting("#1 [completed] Build it"),
    ]);
    ClaudeSession::new(&claude, &sandbox).arg(MODEL[0]).arg(MODEL[1]).play(script);
    assert_eq!(verdicts(&sandbox), ["blocked", "passing"]);
}

#[test]
fn s4_r9_a_teammate_continues_until_the_gates_pass() {
    let claude = Claude::for_test();
    let sandbox = team("teammates");
    let mate = Lane::new("mate")
        .when_first_user_contains("MATE-TASK")
        .turn(Turn::say("I rest."))
        .turn(bash("touch done.txt").expecting("gate `test -e done.txt` failed"))
        .turn(Turn::say("Now it is done."));
    let calls = json!({
        "description": "mate", "prompt": "MATE-TASK go", "subagent_type": "general-purpose", "name": "bob",
    });
    let main = vec![Turn::tool("Agent", calls)];
    let script = Script::new().lane(mate).main(main).then_repeat(Turn::say("I wait for it."));
    let (terminal, model) = ClaudeSession::new(&claude, &sandbox)
        .arg(MODEL[0])
        .arg(MODEL[1])
        .env("CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS", "1")
        .prompt("go")
        .in_terminal(script);
    terminal.wait_until("the teammate may rest", |_| verdicts(&sandbox).len() >= 2);
    drop(terminal);
    let served = model.finish();
    assert!(served.problems.is_empty(), "{:#?}", served.problems);
    assert_eq!(verdicts(&sandbox), ["blocked", "passing"]);
    assert_eq!(sandbox.events_named("began")[0]["subject"]["name"], "bob");
}
