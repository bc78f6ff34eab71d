//! The always-on guard with the real client: who only talks is left alone, who breaks a gate is held until it is mended.

use std::time::Duration;
use std::{fs, thread};

use ralph_testkit::{Claude, Script, Turn};
use serde_json::json;

use crate::session::{CANARY, Seen, Session, bash, gate_runs, verdicts_of};
use crate::support::{Sandbox, wait_until};

/// A gate that fails while `broken` is there, says what stands in it, and counts its runs.
fn guarded() -> Sandbox {
    guarded_with("")
}

fn guarded_with(more: &str) -> Sandbox {
    Sandbox::gated(&format!(
        "guard: [session]\n{more}verify:\n  - name: tests\n    \
         run: printf x >> {CANARY}; if test -e broken; then cat broken; exit 1; fi\n"
    ))
}

/// One person's session over several prompts.
struct Talk<'a> {
    claude: &'a Claude,
    sandbox: &'a Sandbox,
    home: tempfile::TempDir,
    has_begun: bool,
}

impl<'a> Talk<'a> {
    fn new(claude: &'a Claude, sandbox: &'a Sandbox) -> Self {
        let home = tempfile::tempdir().expect("a temporary folder");
        Self { claude, sandbox, home, has_begun: false }
    }

    /// The next prompt of the person, and what the model makes of it.
    #[track_caller]
    fn says(&mut self, prompt: &str, turns: Vec<Turn>) -> Seen {
        let mut session =
            Session::new(self.claude, self.sandbox).with_our_plugin().home(self.home.path()).prompt(prompt);
        if self.has_begun {
            session = session.arg("--continue");
        }
        self.has_begun = true;
        session.play(Script::new().main(turns))
    }
}

fn verdicts(sandbox: &Sandbox) -> Vec<String> {
    verdicts_of(sandbox, "guard-")
}

#[track_caller]
fn nobody_was_judged(sandbox: &Sandbox, seen: &Seen) {
    assert_eq!(gate_runs(sandbox), 0, "{seen}");
    assert_eq!(sandbox.status()["loops"], json!([]), "{seen}");
    assert!(seen.shown_to_person().is_empty(), "{seen}");
}

#[test]
fn a_question_is_never_held_and_nothing_runs() {
    let Some(claude) = Claude::for_test("a_question_is_never_held_and_nothing_runs") else { return };
    let sandbox = guarded();
    sandbox.file("broken", "red for weeks");
    let read = Turn::tool("Read", json!({"file_path": sandbox.path("broken")}));
    let seen = Talk::new(&claude, &sandbox).says("What is this?", vec![read, Turn::say("A file.")]);
    nobody_was_judged(&sandbox, &seen);
}

#[test]
fn an_edit_that_breaks_a_gate_is_held_until_it_is_mended() {
    let Some(claude) = Claude::for_test("an_edit_that_breaks_a_gate_is_held_until_it_is_mended") else {
        return;
    };
    let sandbox = guarded();
    let seen = Talk::new(&claude, &sandbox).says(
        "Make it better.",
        vec![
            bash("echo two plus two is five > broken"),
            Turn::say("Done."),
            bash("rm broken; touch better")
                .expecting("gate `tests` failed with exit code 1")
                .expecting("two plus two is five"),
            Turn::say("Now it is."),
        ],
    );
    assert_eq!(verdicts(&sandbox), ["held gates_failed", "verified all_gates_passed"], "{seen}");
    let shown = seen.shown_to_person();
    assert!(shown.iter().any(|line| line.contains("these gates fail: tests")), "{shown:?}");
    assert!(shown.last().is_some_and(|line| line.contains("ralph: verified")), "{shown:?}");
}

#[test]
fn prompts_in_a_row_each_have_their_own_budget() {
    let Some(claude) = Claude::for_test("prompts_in_a_row_each_have_their_own_budget") else { return };
    let sandbox = guarded_with("budget:\n  attempts: 2\n");
    let mut talk = Talk::new(&claude, &sandbox);
    // Who puts everything back is judged once more, so that the block ends.
    let seen = talk.says(
        "Try something.",
        vec![
            bash("echo a try > broken"),
            Turn::say("Done."),
            bash("rm broken").expecting("iteration 1/2"),
            Turn::say("Taken back."),
        ],
    );
    assert_eq!(verdicts(&sandbox), ["held gates_failed", "verified all_gates_passed"], "{seen}");
    let seen = talk.says(
        "Make it better.",
        vec![
            bash("echo first way > broken"),
            Turn::say("Done."),
            Turn::say("Done, I tell you.").expecting("iteration 1/2"),
        ],
    );
    assert_eq!(verdicts(&sandbox)[2..], ["held gates_failed", "released gates_failed"], "{seen}");
    assert!(seen.shown_to_person().iter().any(|line| line.contains("released, UNVERIFIED")), "{seen}");
    let seen = talk.says(
        "Make it faster.",
        vec![
            bash("echo second way > broken"),
            Turn::say("Done."),
            bash("rm broken").expecting("second way").expecting("attempt 1 of 2"),
            Turn::say("Now it is."),
        ],
    );
    assert_eq!(verdicts(&sandbox)[4..], ["held gates_failed", "verified all_gates_passed"], "{seen}");
}

#[test]
fn the_persons_own_edit_during_a_question_holds_no_one() {
    let Some(claude) = Claude::for_test("the_persons_own_edit_during_a_question_holds_no_one") else {
        return;
    };
    let sandbox = guarded();
    let seen = thread::scope(|scope| {
        scope.spawn(|| {
            let is_watched = |name: &String| name.ends_with(".watched.json");
            wait_until("the prompt is there", || sandbox.remembered().iter().any(is_watched));
            sandbox.file("broken", "the person is half way through");
        });
        // The answer that comes after the edit has seen it.
        let look = Turn::tool("Read", json!({"file_path": sandbox.path("broken")}))
            .delay(Duration::from_millis(1500));
        let answer = Turn::say("It is a file.").expecting("half way through");
        Talk::new(&claude, &sandbox).says("What is this?", vec![look, answer])
    });
    nobody_was_judged(&sandbox, &seen);
}

#[test]
fn a_gate_that_was_red_before_is_named_once() {
    let Some(claude) = Claude::for_test("a_gate_that_was_red_before_is_named_once") else { return };
    let sandbox = guarded();
    sandbox.file("broken", "red for weeks");
    sandbox.ralph(&["verify"]).exits(1);
    let mut talk = Talk::new(&claude, &sandbox);
    let named = |seen: &Seen| {
        seen.shown_to_person().iter().filter(|line| line.contains("Red before this prompt")).count()
    };
    let seen = talk.says("Do one thing.", vec![bash("touch one"), Turn::say("Done.")]);
    assert_eq!(named(&seen), 1, "{seen}");
    let seen = talk.says("Do another.", vec![bash("touch two"), Turn::say("Done.")]);
    assert_eq!(named(&seen), 0, "{seen}");
    assert_eq!(verdicts(&sandbox), ["released red_before", "released red_before"], "{seen}");
    // What the agent breaks on top of it is its own.
    let seen = talk.says(
        "Do a third.",
        vec![
            bash("echo and in a new way >> broken"),
            Turn::say("Done."),
            bash("rm broken").expecting("in a new way"),
            Turn::say("Mended."),
        ],
    );
    assert_eq!(verdicts(&sandbox)[2..], ["held gates_failed", "verified all_gates_passed"], "{seen}");
}

#[test]
fn the_word_stop_frees_the_session_and_continue_holds_it_again() {
    let Some(claude) = Claude::for_test("the_word_stop_frees_the_session_and_continue_holds_it_again") else {
        return;
    };
    let sandbox = guarded();
    let mut talk = Talk::new(&claude, &sandbox);
    talk.says("What is this?", vec![Turn::say("A project.")]);
    let seen = talk.says("stop", Vec::new());
    assert!(seen.output.said("The session is free"), "{seen}");
    assert!(seen.served.requests.is_empty(), "the word reached the model: {seen}");
    let seen = talk.says("Make it better.", vec![bash("echo red > broken"), Turn::say("Done.")]);
    assert_eq!((gate_runs(&sandbox), verdicts(&sandbox).len()), (0, 0), "{seen}");
    fs::remove_file(sandbox.path("broken")).expect("what the agent wrote");
    let seen = talk.says(
        "continue",
        vec![
            bash("echo red again > broken"),
            Turn::say("Done."),
            bash("rm broken").expecting("red again"),
            Turn::say("Mended."),
        ],
    );
    assert!(seen.output.said("The gates hold this session again."), "{seen}");
    assert_eq!(verdicts(&sandbox)[0], "held gates_failed", "{seen}");
}
