//! A client that the program does not know, passed in a list of its own: everything that a client is can be said from
//! outside, and nothing in the program needs to know which one it is.
//!
//! The file is its own program: called with words of ralph it is ralph with that list, otherwise it tests.

#![expect(clippy::disallowed_methods, reason = "a test starts programs of its own")]
#![expect(clippy::print_stdout, reason = "a test without the usual harness says what it did itself")]

mod client;

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Output, Stdio};

use ralph::Client;
use serde_json::{Value, json};

use crate::client::STAND_IN;

static CLIENTS: &[&Client] = &[&STAND_IN];

/// The first word that makes us ralph.
const COMMANDS: [&str; 3] = ["hook", "trust", "cancel"];

const TESTS: [(&str, fn()); 5] = [
    ("a_failing_gate_blocks_and_a_passing_one_does_not", a_failing_gate_blocks_and_a_passing_one_does_not),
    ("a_session_that_only_looked_is_not_checked", a_session_that_only_looked_is_not_checked),
    ("it_is_not_blocked_as_often_as_it_would_override", it_is_not_blocked_as_often_as_it_would_override),
    ("its_shell_is_an_agents_shell", its_shell_is_an_agents_shell),
    ("no_other_client_is_known", no_other_client_is_known),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| COMMANDS.contains(&word.as_str())) {
        return ralph::run_with(CLIENTS);
    }
    let filter = words.iter().find(|word| !word.starts_with('-'));
    for (name, test) in TESTS {
        match filter {
            Some(filter) if !name.contains(filter.as_str()) => {}
            _ if words.iter().any(|word| word == "--list") => println!("{name}: test"),
            _ => {
                test();
                println!("test {name} ... ok");
            }
        }
    }
    ExitCode::SUCCESS
}

fn a_failing_gate_blocks_and_a_passing_one_does_not() {
    let scene = Scene::guarded();
    scene.event(json!({"kind": "turn_begin", "turn": 1, "request": "do it"}));
    scene.file("work.txt", "half");
    scene.event(json!({"kind": "tool_done", "turn": 1, "tool": "shell.run"}));

    let blocked = scene.event(json!({"kind": "turn_end", "turn": 1, "answer": "Done!"}));
    assert_eq!(blocked.code, 2, "{blocked:?}");
    assert!(blocked.stderr.contains("not whole yet"), "{blocked:?}");
    assert!(blocked.stdout.contains("sh gate.sh"), "{blocked:?}");

    scene.file("work.txt", "whole");
    scene.event(json!({"kind": "tool_done", "turn": 1, "tool": "shell.run"}));
    let allowed = scene.event(json!({"kind": "turn_end", "turn": 1, "answer": "Done."}));
    assert_eq!(allowed.code, 0, "{allowed:?}");
    assert!(allowed.stdout.contains("verified"), "{allowed:?}");
    assert_eq!(scene.gate_runs(), 2);
}

fn a_session_that_only_looked_is_not_checked() {
    let scene = Scene::guarded();
    scene.event(json!({"kind": "turn_begin", "turn": 1, "request": "what is it?"}));
    scene.event(json!({"kind": "tool_done", "turn": 1, "tool": "peek"}));
    // The user's own edit.
    scene.file("work.txt", "half");
    let stopped = scene.event(json!({"kind": "turn_end", "turn": 1, "answer": "It is work."}));
    assert_eq!((stopped.code, stopped.stdout.as_str()), (0, ""), "{stopped:?}");
    assert_eq!(scene.gate_runs(), 0);
}

fn it_is_not_blocked_as_often_as_it_would_override() {
    let scene = Scene::guarded();
    scene.event(json!({"kind": "turn_begin", "turn": 1, "request": "do it"}));
    scene.file("work.txt", "half");
    scene.event(json!({"kind": "tool_done", "turn": 1, "tool": "shell.run"}));
    let stops = [(); 3].map(|()| scene.event(json!({"kind": "turn_end", "turn": 1, "answer": "Done!"})));
    assert_eq!(stops.each_ref().map(|stop| stop.code), [2, 2, 0], "{stops:?}");
    assert!(stops[2].stdout.contains("UNVERIFIED"), "{stops:?}");
}

fn its_shell_is_an_agents_shell() {
    let scene = Scene::guarded();
    let refused = Ran::of(scene.ralph(&["cancel"]).env("STANDIN_SHELL", "1"), "");
    assert!(refused.stderr.contains("belongs to an agent (stand-in)"), "{refused:?}");
}

fn no_other_client_is_known() {
    let scene = Scene::guarded();
    let refused = Ran::of(&mut scene.ralph(&["hook", "claude"]), "{}");
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("there is no client `claude`; there is: stand-in"), "{refused:?}");
}

/// A project whose sessions are guarded by one gate.
struct Scene {
    dir: tempfile::TempDir,
}

impl Scene {
    fn guarded() -> Self {
        let scene = Self { dir: tempfile::tempdir().expect("a temporary folder") };
        for folder in ["project", "home"] {
            fs::create_dir(scene.dir.path().join(folder)).expect("a folder");
        }
        scene.file("ralph.yaml", "verify: [sh gate.sh]\nguard: [session]\n");
        // What the client sets must not reach a gate.
        scene.file(
            "gate.sh",
            "echo run >>\"$HOME/gate-runs\"\n\
             test -z \"$STANDIN_WORKSPACE\" || { echo 'a variable of the client'; exit 1; }\n\
             grep -qx whole work.txt || { echo 'work.txt is not whole yet'; exit 1; }\n",
        );
        scene.file("work.txt", "whole");
        let git = Command::new("git").args(["init", "-q"]).current_dir(scene.project()).status();
        assert!(git.expect("git").success());
        let shown = Ran::of(&mut scene.ralph(&["trust", "--show", "--json"]), "");
        let shown: Value = serde_json::from_str(&shown.stdout).expect("JSON");
        let sha256 = shown["sha256"].as_str().expect("a digest");
        let accepted = Ran::of(&mut scene.ralph(&["trust", "--hash", sha256]), "");
        assert_eq!(accepted.code, 0, "{accepted:?}");
        scene
    }

    fn project(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    fn file(&self, name: &str, text: &str) {
        fs::write(self.project().join(name), format!("{}\n", text.trim_end())).expect("a file");
    }

    fn gate_runs(&self) -> usize {
        fs::read_to_string(self.dir.path().join("home/gate-runs")).unwrap_or_default().lines().count()
    }

    /// This very program, as ralph.
    fn ralph(&self, words: &[&str]) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        let path = std::env::split_paths("/usr/local/bin:/usr/bin:/bin").collect::<Vec<_>>();
        command
            .args(words)
            .env_clear()
            .env("PATH", std::env::join_paths(path).expect("a search path"))
            .env("HOME", self.dir.path().join("home"))
            .env("LANG", "C.UTF-8")
            .current_dir(self.project());
        command
    }

    /// An event of the client, sent from elsewhere: only its variable says where the project is.
    fn event(&self, mut event: Value) -> Ran {
        event["conversation"] = json!("c1");
        let mut hook = self.ralph(&["hook", STAND_IN.name, "--deadline", "60"]);
        hook.current_dir("/").env("STANDIN_WORKSPACE", self.project());
        Ran::of(&mut hook, &event.to_string())
    }
}

#[derive(Debug)]
struct Ran {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Ran {
    fn of(command: &mut Command, input: &str) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("this program starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        // A command that reads nothing may be gone already.
        let _not_read = stdin.write_all(input.as_bytes());
        drop(stdin);
        let Output { status, stdout, stderr } = child.wait_with_output().expect("its output");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { code: status.code().unwrap_or(-1), stdout: text(stdout), stderr: text(stderr) }
    }
}
