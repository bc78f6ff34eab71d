//! Text from a repo, a path or another tool's file cannot control the terminal that it is shown on.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;

use ralph_testkit::{Finished, Pty, Sandbox};

/// An operating-system command (the clipboard), colours, a cleared screen, one-byte controls, a bell, a backspace, text
/// that runs backwards and its end mark.
const EVIL: &str = "a\u{1b}]52;c;ZXZpbA==\u{7}b\u{1b}[2Jc\u{9b}31md\u{9d}0;t\u{9c}e\u{7}f\u{8}g\u{202e}h\u{61c}i\u{1b}P+q\u{1b}\\j\u{7f}k\rl";

const LINES: [&[&str]; 10] = [
    &["status"],
    &["log"],
    &["log", "--json"],
    &["status", "--json"],
    &["trust", "--show"],
    &["trust", "--show", "--json"],
    &["report"],
    &["verify"],
    &["diff"],
    &["doctor"],
];

/// A trusted repo in a folder with such a name, with a session's loop that was adopted from such a file.
struct EvilNames {
    sandbox: Sandbox,
    root: PathBuf,
}

impl EvilNames {
    fn new() -> Self {
        let sandbox = Sandbox::without_git();
        let root = sandbox.project().join(EVIL);
        fs::create_dir_all(root.join(".claude")).expect("folders");
        let git = Command::new("git").args(["init", "-q"]).current_dir(&root).status().expect("git");
        assert!(git.success());
        let scene = Self { sandbox, root };
        fs::write(scene.root.join("ralph.yaml"), "verify:\n  - test -e done\n").expect("a file");
        let sha256 =
            scene.ralph(&["trust", "--show", "--json"]).json()["sha256"].as_str().expect("one").to_owned();
        scene.ralph(&["trust", "--hash", &sha256]).success();
        let file = format!(
            "---\nactive: true\niteration: 1\nmax_iterations: 5\ncompletion_promise: \"x{EVIL}\"\nsession_id: \"session-1\"\nstarted_at: \"2026-11-15T10:00:00Z\"\n---\n\nfix {EVIL}\n"
        );
        fs::write(scene.root.join(".claude/ralph-loop.local.md"), file).expect("a file");
        scene
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.sandbox.command(arguments);
        command.current_dir(&self.root).env("TERM", "dumb");
        command
    }

    fn ralph(&self, arguments: &[&str]) -> Finished {
        Finished::of(self.command(arguments).output().expect("the binary"))
    }

    /// The same on a terminal.
    fn in_terminal(&self, arguments: &[&str]) -> Finished {
        let mut command = self.command(arguments);
        command.env("TERM", "xterm").env("PAGER", "cat");
        Pty::open().start(&command).finish()
    }

    fn stop(&self) -> ralph_testkit::HookAnswer {
        self.sandbox
            .event(json!({
                "session_id": "session-1",
                "transcript_path": "/nowhere/session.jsonl",
                "cwd": self.root,
                "prompt_id": "prompt-1",
                "permission_mode": "default",
                "hook_event_name": "Stop",
                "stop_hook_active": false,
                "last_assistant_message": "Done.",
                "background_tasks": [],
                "session_crons": [],
            }))
            .answer()
    }
}

fn steers(c: char) -> bool {
    let may = ['\n', '\t', '\u{1b}'];
    (c.is_control() && !may.contains(&c)) || ('\u{202a}'..='\u{202e}').contains(&c) || c == '\u{61c}'
}

/// The text without our own colours.
fn without_our_colours(text: &str) -> String {
    let ours = ["0", "1", "2", "31", "32", "33", "91", "94", "96"];
    ours.iter().fold(text.to_owned(), |text, code| text.replace(&format!("\u{1b}[{code}m"), ""))
}

#[track_caller]
fn is_harmless(ran: &Finished, what: &str) {
    for text in [&ran.stdout, &ran.stderr] {
        assert!(!text.contains(['\u{1b}', '\r']) && !text.contains(steers), "{what}: {text:?}");
    }
}

#[test]
fn a_task_and_a_path_with_escapes_come_out_as_plain_text() {
    let scene = EvilNames::new();
    let (reason, _) = scene.stop().blocked();
    assert!(!reason.contains(steers) && !reason.contains('\u{1b}'), "{reason:?}");
    for arguments in LINES {
        let ran = scene.ralph(arguments);
        is_harmless(&ran, &format!("{arguments:?}"));
        assert!(!(ran.stdout.clone() + &ran.stderr).is_empty(), "{arguments:?}");
        let mut ran = scene.in_terminal(arguments);
        // A terminal ends its lines with both.
        ran.stdout = without_our_colours(&ran.stdout).replace("\r\n", "\n");
        // The progress display moves the cursor while gates run, only at the beginning of its own line.
        if *arguments != ["verify"] {
            is_harmless(&ran, &format!("{arguments:?} on a terminal"));
        }
        assert!(
            !ran.stdout.contains("\u{1b}]") && !ran.stdout.contains("\u{1b}[2J"),
            "{arguments:?}: {ran:#?}"
        );
    }
    let status = scene.ralph(&["status", "--json"]).json();
    assert_eq!(status["root"].as_str(), scene.root.to_str(), "scripts get the data as it is");
}

#[test]
fn a_log_that_is_followed_is_plain_text_too() {
    let scene = EvilNames::new();
    scene.stop().blocked();
    let mut child = scene
        .command(&["log", "-f"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary");
    std::thread::sleep(Duration::from_millis(600));
    child.kill().expect("a child of ours");
    let ran = Finished::of(child.wait_with_output().expect("an end"));
    assert!(ran.stdout.contains("fix a"), "{ran:#?}");
    is_harmless(&ran, "log -f");
}

#[test]
fn an_error_that_names_a_path_is_plain_text() {
    let scene = EvilNames::new();
    fs::remove_file(scene.root.join("ralph.yaml")).expect("removed");
    fs::create_dir(scene.root.join("ralph.yaml")).expect("a folder");
    for arguments in [&["verify"][..], &["status"], &["trust", "--show"]] {
        is_harmless(&scene.ralph(arguments), &format!("{arguments:?}"));
    }
    let ran = scene.ralph(&["log", EVIL]);
    is_harmless(&ran, "a loop that is not there");
}

#[test]
fn a_driven_loop_is_shown_as_plain_text() {
    let scene = EvilNames::new();
    let task = format!("fix {EVIL}");
    let agent = "command:printf 'fix \\033]52;c;ZXZpbA==\\007 \\302\\2332J'; : > done";
    let ran = scene.ralph(&["loop", &task, "--agent", agent, "--max-iterations", "1"]);
    is_harmless(&ran, "loop");
    is_harmless(
        &scene.ralph(&["loop", &task, "--agent", agent, "--max-iterations", "1", "--json"]),
        "loop --json",
    );
    for arguments in LINES {
        is_harmless(&scene.ralph(arguments), &format!("{arguments:?} after a driven loop"));
    }
}
