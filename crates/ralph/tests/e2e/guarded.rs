//! The always-on guard with the real client: a session that only talks is left alone; one that breaks a gate is
//! blocked until it is fixed.

use std::time::Duration;
use std::{fs, thread};

use ralph_testkit::{Claude, Sandbox, Script, Turn, wait_until};
use serde_json::json;

use crate::session::{CANARY, ClaudeSession, Seen, bash, gate_runs, verdicts_of};

/// A gate that fails while `broken` exists, prints its content, and counts its runs.
fn guarded() -> Sandbox {
    guarded_with("")
}

fn guarded_with(more: &str) -> Sandbox {
    Sandbox::gated(&format!(
        "guard: [session]\n{more}verify:\n  - name: tests\n    \
         run: printf x >> {CANARY}; if test -e broken; then cat broken; exit 1; fi\n"
    ))
}

/// One session over several prompts.
struct GuardedSession<'a> {
    claude: &'a Claude,
    sandbox: &'a Sandbox,
    home: tempfile::TempDir,
    has_begun: bool,
}

impl<'a> GuardedSession<'a> {
    fn new(claude: &'a Claude, sandbox: &'a Sandbox) -> Self {
        let home = tempfile::tempdir().expect("a temporary folder");
        Self { claude, sandbox, home, has_begun: false }
    }

    /// The user's next prompt, and the model's turns.
    #[track_caller]
    fn says(&mut self, prompt: &str, turns: Vec<Turn>) -> Seen {
        let mut session = ClaudeSession::new(self.claude, self.sandbox)
            .with_our_plugin()
            .home(self.home.path())
            .prompt(prompt);
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
fn nothing_was_judged(sandbox: &Sandbox, seen: &Seen) {
    assert_eq!(gate_runs(sandbox), 0, "{seen}");
    assert_eq!(sandbox.status()["loops"], json!([]), "{seen}");
    assert!(seen.shown_to_user().is_empty(), "{seen}");
}

#[test]
fn a_question_is_never_blocked_and_nothing_runs() {
    let claude = Claude::for_test();
    let sandbox = guarded();
    sandbox.file("broken", "src/old.c:3:1: error: red for weeks\n");
    let read = Turn::tool("Read", json!({"file_path": sandbox.path("broken")}));
    let seen = GuardedSession::new(&claude, &sandbox).says("What is this?", vec![read, Turn::say("A file.")]);
    nothing_was_judged(&sandbox, &seen);
}

#[test]
fn an_edit_that_breaks_a_gate_is_blocked_until_it_is_fixed() {
    let claude = Claude::for_test();
    let sandbox = guarded();
    let seen = GuardedSession::new(&claude, &sandbox).says(
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
    assert_eq!(verdicts(&sandbox), ["blocked gates_failed", "passing task_not_shown"], "{seen}");
    let shown = seen.shown_to_user();
    assert!(shown.iter().any(|line| line.contains("Failing gates: tests")), "{shown:?}");
    assert!(shown.last().is_some_and(|line| line.contains("ralph: gates pass")), "{shown:?}");
}

#[test]
fn prompts_in_a_row_each_have_their_own_budget() {
    let claude = Claude::for_test();
    let sandbox = guarded_with("budget:\n  attempts: 2\n");
    let mut talk = GuardedSession::new(&claude, &sandbox);
    // A session that reverts everything is judged once more, so that the block ends.
    let seen = talk.says(
        "Try something.",
        vec![
            bash("echo a try > broken"),
            Turn::say("Done."),
            bash("rm broken").expecting("iteration 1/2"),
            Turn::say("Revoked."),
        ],
    );
    assert_eq!(verdicts(&sandbox), ["blocked gates_failed", "unchanged nothing_changed"], "{seen}");
    let seen = talk.says(
        "Make it better.",
        vec![
            bash("echo first way > broken"),
            Turn::say("Done."),
            Turn::say("Done, I tell you.").expecting("iteration 1/2"),
        ],
    );
    assert_eq!(verdicts(&sandbox)[2..], ["blocked gates_failed", "released gates_failed"], "{seen}");
    assert!(seen.shown_to_user().iter().any(|line| line.contains("released, UNVERIFIED")), "{seen}");
    let seen = talk.says(
        "Make it faster.",
        vec![
            bash("echo second way > broken"),
            Turn::say("Done."),
            bash("rm broken").expecting("second way").expecting("attempt 1 of 2"),
            Turn::say("Now it is."),
        ],
    );
    // What the prompt before left behind failed when this one began.
    assert_eq!(verdicts(&sandbox)[4..], ["blocked gates_failed", "verified all_gates_passed"], "{seen}");
}

#[test]
fn an_edit_of_the_user_during_a_question_does_not_block() {
    let claude = Claude::for_test();
    let sandbox = guarded();
    let seen = thread::scope(|scope| {
        scope.spawn(|| {
            let is_watched = |name: &String| name.ends_with(".watched.json");
            wait_until("the prompt is there", || sandbox.remembered().iter().any(is_watched));
            sandbox.file("broken", "the user is half way through");
        });
        // The answer that comes after the edit has seen it.
        let look = Turn::tool("Read", json!({"file_path": sandbox.path("broken")}))
            .delay(Duration::from_millis(1500));
        let answer = Turn::say("It is a file.").expecting("half way through");
        GuardedSession::new(&claude, &sandbox).says("What is this?", vec![look, answer])
    });
    nothing_was_judged(&sandbox, &seen);
}

#[test]
fn a_gate_that_failed_before_is_named_once() {
    let claude = Claude::for_test();
    let sandbox = guarded();
    sandbox.file("broken", "src/old.c:3:1: error: red for weeks\n");
    sandbox.ralph(&["verify"]).exits(1);
    let mut talk = GuardedSession::new(&claude, &sandbox);
    let named = |seen: &Seen| {
        seen.shown_to_user().iter().filter(|line| line.contains("Already failing before this prompt")).count()
    };
    let seen = talk.says("Do one thing.", vec![bash("touch one"), Turn::say("Done.")]);
    assert_eq!(named(&seen), 1, "{seen}");
    let seen = talk.says("Do another.", vec![bash("touch two"), Turn::say("Done.")]);
    assert_eq!(named(&seen), 0, "{seen}");
    assert_eq!(verdicts(&sandbox), ["released failing_before", "released failing_before"], "{seen}");
    // A failure that the agent adds is its own.
    let seen = talk.says(
        "Do a third.",
        vec![
            bash("echo 'src/new.c:1:1: error: in a new way' >> broken"),
            Turn::say("Done."),
            bash("rm broken").expecting("in a new way"),
            Turn::say("Fixed."),
        ],
    );
    assert_eq!(verdicts(&sandbox)[2..], ["blocked gates_failed", "verified all_gates_passed"], "{seen}");
}

#[test]
fn stop_frees_the_session_and_continue_blocks_it_again() {
    let claude = Claude::for_test();
    let sandbox = guarded();
    let mut talk = GuardedSession::new(&claude, &sandbox);
    talk.says("What is this?", vec![Turn::say("A project.")]);
    let seen = talk.says("stop", Vec::new());
    assert!(seen.output.said("Checks are off for this session"), "{seen}");
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
            Turn::say("Fixed."),
        ],
    );
    assert!(seen.output.said("Checks are on again for this session."), "{seen}");
    assert_eq!(verdicts(&sandbox)[0], "blocked gates_failed", "{seen}");
}

/// A linter that is red since before the session, and tests that need an ignored dependency folder. No gate was ever run.
fn with_old_lint_and_dependencies() -> Sandbox {
    let sandbox = Sandbox::gated(
        "guard: [session]\nverify:\n  - name: lint\n    run: cat src/problems.txt; test ! -s src/problems.txt\n  \
         - name: tests\n    run: sh tests/run.sh\n",
    );
    sandbox.file(".gitignore", "node_modules/\n");
    sandbox.file("src/problems.txt", "src/old.c:3:1: error: unused variable `x`\n");
    sandbox.file("node_modules/assert.sh", "equal() { test \"$1\" = \"$2\"; }\n");
    sandbox.file("src/sum.sh", "sum() { echo $(($1 + $2)); }\n");
    sandbox.file(
        "tests/run.sh",
        ". ./node_modules/assert.sh\n. ./src/sum.sh\necho TAP version 13\necho 1..1\n\
         if equal \"$(sum 1 2)\" 3; then echo 'ok 1 - adds'; else echo 'not ok 1 - adds'; exit 1; fi\n",
    );
    sandbox.git(&["add", "-A"]);
    sandbox.git(&["commit", "-q", "-m", "as it was"]);
    sandbox
}

/// What failed before does not hide what the agent broke, in an overlay and where none can be made.
#[test]
fn a_broken_test_blocks_behind_a_lint_that_failed_before() {
    let claude = Claude::for_test();
    for no_overlay in [None, Some("1")] {
        let sandbox = with_old_lint_and_dependencies();
        let mut session = ClaudeSession::new(&claude, &sandbox).with_our_plugin().prompt("Make it faster.");
        if let Some(value) = no_overlay {
            session = session.env("RALPH_NO_OVERLAY", value);
        }
        let seen = session.play(Script::new().main(vec![
            bash("echo 'sum() { echo 4; }' > src/sum.sh"),
            Turn::say("Done."),
            bash("echo 'sum() { expr $1 + $2; }' > src/sum.sh").expecting("adds"),
            Turn::say("Now it is."),
        ]));
        assert_eq!(verdicts(&sandbox), ["blocked gates_failed", "released failing_before"], "{seen}");
        let named = seen.shown_to_user().iter().filter(|line| line.contains("lint")).count();
        assert!(named >= 1, "{seen}");
    }
}
