//! From nothing to a held agent by `ralph init` alone, and `ralph doctor` on what it set up.

use ralph_testkit::{Claude, Turn};

use crate::session::{Runs, Session, bash, one_sub_agent, verdicts};
use crate::support::Sandbox;

const MAKEFILE: &str = "test:\n\ttest -e done.txt\n";

/// A fresh project with one Make target that `init` finds.
fn fresh_project() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.file("Makefile", MAKEFILE);
    sandbox
}

#[test]
fn init_alone_is_enough_to_hold_a_check_agent() {
    let Some(claude) = Claude::for_test("init_alone_is_enough_to_hold_a_check_agent") else { return };
    let sandbox = fresh_project();
    sandbox.ralph(&["init", "--yes"]).success();
    let turns = vec![
        Turn::say("Done."),
        bash("touch done.txt").expecting("gate `test` failed").expecting("Command: make test"),
        Turn::say("Now it is done."),
    ];
    let last = Turn::say("It is done.").expecting("Now it is done.");
    let seen = Session::new(&claude, &sandbox).already_installed().play(one_sub_agent(
        "check",
        Runs::InForeground,
        turns,
        last,
    ));
    assert_eq!(verdicts(&sandbox), ["held gates_failed", "verified all_gates_passed"], "{seen}");

    let healthy = sandbox.ralph(&["doctor", "--json"]).success().json();
    assert_eq!(healthy["healthy"], true, "{healthy:#}");
    assert!(healthy.to_string().contains("check-"), "it says when it last judged: {healthy:#}");

    sandbox.ralph(&["init", "--uninstall"]).success();
    assert!(!sandbox.exists("ralph.yaml") && !sandbox.exists(".claude/settings.local.json"));
}

/// In a file that everybody gets, the command is silent where ralph is not installed, and works where it is.
#[test]
fn the_shared_form_works_where_ralph_is_on_the_path_and_is_silent_where_it_is_not() {
    let name = "the_shared_form_works_where_ralph_is_on_the_path_and_is_silent_where_it_is_not";
    let Some(claude) = Claude::for_test(name) else { return };
    for installed in [true, false] {
        let sandbox = fresh_project();
        sandbox.ralph(&["init", "--yes", "--shared"]).success();
        let session = Session::new(&claude, &sandbox).already_installed();
        let session = if installed { session.with_ralph_on_path() } else { session };
        let works = vec![
            Turn::say("Done."),
            bash("touch done.txt").expecting("gate `test` failed"),
            Turn::say("Done now."),
        ];
        let turns = if installed { works } else { vec![Turn::say("Done.")] };
        let seen = session.play(one_sub_agent("check", Runs::InForeground, turns, Turn::say("It is done.")));
        let expected: &[&str] =
            if installed { &["held gates_failed", "verified all_gates_passed"] } else { &[] };
        assert_eq!(verdicts(&sandbox), expected, "{seen}");
    }
}
