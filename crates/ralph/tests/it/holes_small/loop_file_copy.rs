//! Starting a loop does not destroy the loop file of another tool.

use ralph_testkit::{Sandbox, Session};

const FILE: &str = ".claude/ralph-loop.local.md";

fn foreign(task: &str, session: &str) -> String {
    format!(
        "---\nactive: true\niteration: 3\nmax_iterations: 5\ncompletion_promise: \"DONE\"\nsession_id: \"{session}\"\nstarted_at: \"2026-11-15T10:00:00Z\"\n---\n\n{task}\n"
    )
}

#[test]
fn another_tools_loop_file_is_copied_before_it_is_overwritten() {
    let sandbox = Sandbox::gated("verify:\n  - test -e done.txt\n");
    for (number, text) in
        [foreign("their task", "session-9"), "not even a loop file\n".into()].iter().enumerate()
    {
        sandbox.file(FILE, text);
        let session = format!("session-{}", number + 1);
        let answer =
            Session::named(&sandbox, &session).command("ralph-loop", "fix --completion-promise DONE");
        let copy = format!("{FILE}.backup-{}", number + 1);
        assert!(answer.shown_to_user().contains(&copy), "{answer:#?}");
        assert_eq!(sandbox.read(&copy), *text);
        assert!(sandbox.read(FILE).contains("\nfix\n"), "{}", sandbox.read(FILE));
    }
}

#[test]
fn on_the_command_line_too() {
    let sandbox = Sandbox::gated("verify:\n  - test -e done.txt\n");
    sandbox.file(FILE, &foreign("their task", "session-9"));
    sandbox.ralph(&["start", "fix"]).success().says(&format!("{FILE}.backup-1"));
    assert_eq!(sandbox.read(&format!("{FILE}.backup-1")), foreign("their task", "session-9"));
}

#[test]
fn our_own_file_and_the_one_that_is_adopted_need_no_copy() {
    let sandbox = Sandbox::gated("verify:\n  - test -e done.txt\n");
    sandbox.file(FILE, &foreign("fix it", "session-1"));
    let talk = Session::new(&sandbox);
    talk.agent_works_with("Bash").stops("Done.").blocked();
    talk.agent_works_with("Bash").stops("Done.").blocked();
    talk.command("cancel-ralph", "");
    talk.command("ralph-loop", "fix --completion-promise DONE");
    let edited = sandbox.read(FILE).replace("DONE", "EDITED");
    sandbox.file(FILE, &edited);
    talk.agent_works_with("Bash").stops("Not yet.").blocked();
    talk.command("cancel-ralph", "");
    let answer = talk.command("ralph-loop", "more --completion-promise DONE");
    assert!(!answer.shown_to_user().contains("backup"), "{answer:#?}");
    assert!(!sandbox.exists(&format!("{FILE}.backup-1")));
}
