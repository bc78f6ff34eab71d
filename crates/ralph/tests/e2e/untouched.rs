//! Unguarded agents are not affected, and without acceptance nothing runs.

use ralph_testkit::{Claude, Lane, Sandbox, Script, Turn};

use crate::session::{CANARY, ClaudeSession, Runs, gate_runs, memory, one_sub_agent};

fn canary_gate() -> String {
    format!("verify:\n  - printf x >> {CANARY}; test -e done.txt\n")
}

#[test]
fn another_sub_agent_and_the_main_session_are_not_touched() {
    let claude = Claude::for_test();
    for runs in [Runs::InForeground, Runs::InBackground] {
        let sandbox = Sandbox::gated(&canary_gate());
        let before = memory(&sandbox);
        let script = one_sub_agent("worker", runs, vec![Turn::say("Done.")], Turn::say("All done."));
        let seen = ClaudeSession::new(&claude, &sandbox).play(script);

        assert_eq!(
            seen.answers(),
            [serde_json::Value::Null],
            "the hook was asked once and said nothing: {seen}"
        );
        assert!(!seen.output.hook_responses("Stop").is_empty(), "{seen}");
        assert_eq!(gate_runs(&sandbox), 0, "{seen}");
        assert_eq!(memory(&sandbox), before, "{seen}");
        assert_eq!(seen.shown_to_user(), [""; 0], "{seen}");
    }
}

#[test]
fn in_an_untrusted_repo_nothing_runs_and_the_user_is_notified_once() {
    let claude = Claude::for_test();
    let sandbox = Sandbox::new();
    sandbox.file("ralph.yaml", &canary_gate());
    let script = Script::new()
        .lane(
            Lane::new("sub-agent")
                .when_first_user_contains("SUB-TASK")
                .turns(vec![Turn::say("Done."), Turn::say("Done as well.")]),
        )
        .main(vec![
            Turn::agent("check", "SUB-TASK 1", false),
            Turn::agent("check", "SUB-TASK 2", false),
            Turn::say("All done."),
        ]);
    let seen = ClaudeSession::new(&claude, &sandbox).play(script);

    assert_eq!(gate_runs(&sandbox), 0, "{seen}");
    assert_eq!(sandbox.status()["trust"], "untrusted");
    assert_eq!(sandbox.status()["loops"].as_array().map(Vec::len), Some(0));
    let shown = seen.shown_to_user();
    assert_eq!(shown.len(), 1, "{shown:?}\n{seen}");
    assert!(shown[0].contains("the gates of ralph.yaml are not accepted yet"), "{shown:?}");
    assert!(shown[0].contains("accept them with `ralph trust` in"), "{shown:?}");
    assert_eq!(seen.answers().len(), 2, "{seen}");
    assert!(seen.answers().iter().all(|answer| answer.get("decision").is_none()), "{seen}");
}
