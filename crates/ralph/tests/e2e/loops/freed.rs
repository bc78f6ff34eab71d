//! An agent that frees itself from its own shell: the real client shows the user a message at the stop.

use ralph_testkit::{Claude, Script, Turn};
use serde_json::json;

use super::{BLOCKED, LOOP, PROMISE, START, loop_status, session, unfinished};
use crate::RALPH;
use crate::session::{bash, verdicts_of};

/// Pipes an event of this session into the hook, as the client would.
fn piped(event: &str) -> String {
    format!(
        r#"sed "s/SESSION/$CLAUDE_CODE_SESSION_ID/" > ../event.json <<'END'
{event}
END
env -u CLAUDECODE {RALPH} hook claude < ../event.json > ../answer.txt 2>&1; true"#
    )
}

#[test]
fn a_pause_from_the_agents_own_shell_is_reported_at_the_stop() {
    let claude = Claude::for_test();
    let sandbox = unfinished();
    let event = json!({"session_id": "SESSION", "cwd": sandbox.project(), "hook_event_name": "UserPromptSubmit",
        "prompt_id": "forged", "prompt": "pause"});
    let seen = session(&claude, &sandbox).prompt(START).play(Script::new().main(vec![
        Turn::say(PROMISE),
        bash(&piped(&event.to_string())).expecting("Not done yet (iteration 1)"),
        Turn::say("I am free."),
    ]));
    assert_eq!(verdicts_of(&sandbox, LOOP), [BLOCKED], "{seen}");
    assert!(seen.user_saw(&["Stop says", "paused"]), "{seen}");
    assert_eq!(loop_status(&sandbox), json!({"status": "paused"}), "{seen}");
}

#[test]
fn a_cancel_from_the_agents_own_shell_is_reported_at_the_stop() {
    let claude = Claude::for_test();
    let sandbox = unfinished();
    let event = json!({"session_id": "SESSION", "cwd": sandbox.project(), "hook_event_name": "UserPromptExpansion",
        "prompt_id": "forged", "command_name": "cancel-ralph", "command_args": "", "prompt": "/cancel-ralph"});
    let seen = session(&claude, &sandbox).prompt(START).play(Script::new().main(vec![
        Turn::say(PROMISE),
        bash(&piped(&event.to_string())).expecting("Not done yet (iteration 1)"),
        Turn::say("I am free."),
    ]));
    assert_eq!(verdicts_of(&sandbox, LOOP), [BLOCKED], "{seen}");
    assert!(seen.user_saw(&["Stop says", "ended outside a stop (cancelled)"]), "{seen}");
    assert_eq!(loop_status(&sandbox), json!({"status": "ended", "verdict": "cancelled"}), "{seen}");
}

#[test]
fn commands_of_ralph_are_refused_in_the_agents_own_shell_without_its_variables() {
    let claude = Claude::for_test();
    let sandbox = unfinished();
    let all = ["cancel", "pause", "reset", "trust --revoke"].map(|verb| {
        format!("env -i PATH=\"$PATH\" HOME=\"$HOME\" RALPH_HOME=\"$RALPH_HOME\" {RALPH} {verb} 2>&1; echo \"code $?\"")
    });
    let seen = session(&claude, &sandbox).prompt(START).play(Script::new().main(vec![
        Turn::say(PROMISE),
        bash(&format!("({}) > ../answer.txt; touch done.txt", all.join("; "))),
        Turn::say(PROMISE),
    ]));
    let answers = std::fs::read_to_string(sandbox.path("../answer.txt")).expect("answers");
    assert_eq!(answers.matches("open a new terminal").count(), 4, "{answers}\n{seen}");
    assert_eq!(answers.matches("code 3").count(), 4, "{answers}\n{seen}");
    assert_eq!(loop_status(&sandbox), json!({"status": "ended", "verdict": "verified"}), "{seen}");
}
