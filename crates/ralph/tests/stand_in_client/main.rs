//! A client that the program does not know, passed in a list of its own: every property of a client can be defined
//! outside, and the program never needs to know which one it is.
//!
//! The file is its own program: called with arguments of ralph it is ralph with that list, otherwise it runs the tests.

#![expect(clippy::print_stdout, reason = "a test without the usual harness says what it did itself")]

mod client;

use std::fs;
use std::process::{Command, ExitCode};

use ralph::Client;
use ralph_testkit::{Finished, Sandbox};
use serde_json::{Value, json};

use crate::client::STAND_IN;

static CLIENTS: &[&Client] = &[&STAND_IN];

/// The first argument that makes this program ralph.
const COMMANDS: [&str; 3] = ["hook", "trust", "cancel"];

const TESTS: [(&str, fn()); 5] = [
    ("a_failing_gate_blocks_and_a_passing_one_does_not", a_failing_gate_blocks_and_a_passing_one_does_not),
    ("a_session_that_only_read_is_not_checked", a_session_that_only_read_is_not_checked),
    ("it_is_not_blocked_as_often_as_it_would_override", it_is_not_blocked_as_often_as_it_would_override),
    ("its_shell_is_an_agents_shell", its_shell_is_an_agents_shell),
    ("other_clients_are_unknown", other_clients_are_unknown),
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
    let project = GuardedProject::new();
    project.event(json!({"kind": "turn_begin", "turn": 1, "request": "do it"}));
    project.file("work.txt", "half");
    project.event(json!({"kind": "tool_done", "turn": 1, "tool": "shell.run"}));

    let blocked = project.event(json!({"kind": "turn_end", "turn": 1, "answer": "Done!"}));
    assert_eq!(blocked.code, Some(2), "{blocked:?}");
    assert!(blocked.stderr.contains("not whole yet"), "{blocked:?}");
    assert!(blocked.stdout.contains("sh gate.sh"), "{blocked:?}");

    project.file("work.txt", "whole");
    project.event(json!({"kind": "tool_done", "turn": 1, "tool": "shell.run"}));
    let allowed = project.event(json!({"kind": "turn_end", "turn": 1, "answer": "Done."}));
    assert_eq!(allowed.code, Some(0), "{allowed:?}");
    assert!(allowed.stdout.contains("gates pass"), "{allowed:?}");
    assert_eq!(project.gate_runs(), 2);
}

fn a_session_that_only_read_is_not_checked() {
    let project = GuardedProject::new();
    project.event(json!({"kind": "turn_begin", "turn": 1, "request": "what is it?"}));
    project.event(json!({"kind": "tool_done", "turn": 1, "tool": "peek"}));
    // The user's own edit.
    project.file("work.txt", "half");
    let stopped = project.event(json!({"kind": "turn_end", "turn": 1, "answer": "It is work."}));
    assert_eq!((stopped.code, stopped.stdout.as_str()), (Some(0), ""), "{stopped:?}");
    assert_eq!(project.gate_runs(), 0);
}

fn it_is_not_blocked_as_often_as_it_would_override() {
    let project = GuardedProject::new();
    project.event(json!({"kind": "turn_begin", "turn": 1, "request": "do it"}));
    project.file("work.txt", "half");
    project.event(json!({"kind": "tool_done", "turn": 1, "tool": "shell.run"}));
    let stops = [(); 3].map(|()| project.event(json!({"kind": "turn_end", "turn": 1, "answer": "Done!"})));
    assert_eq!(stops.each_ref().map(|stop| stop.code), [Some(2), Some(2), Some(0)], "{stops:?}");
    assert!(stops[2].stdout.contains("UNVERIFIED"), "{stops:?}");
}

fn its_shell_is_an_agents_shell() {
    let project = GuardedProject::new();
    let refused = Finished::run(project.ralph(&["cancel"]).env("STANDIN_SHELL", "1"), b"");
    assert!(refused.stderr.contains("belongs to an agent (stand-in)"), "{refused:?}");
}

fn other_clients_are_unknown() {
    let project = GuardedProject::new();
    let refused = Finished::run(&mut project.ralph(&["hook", "claude"]), b"{}");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("unknown client `claude`; supported: stand-in"), "{refused:?}");
}

/// A project whose sessions are guarded by one gate.
struct GuardedProject {
    sandbox: Sandbox,
}

impl GuardedProject {
    fn new() -> Self {
        let project = Self { sandbox: Sandbox::new() };
        project.file("ralph.yaml", "verify: [sh gate.sh]\nguard: [session]\n");
        // The client's variables must not reach a gate.
        project.file(
            "gate.sh",
            "echo run >>\"$HOME/gate-runs\"\n\
             test -z \"$STANDIN_WORKSPACE\" || { echo 'a variable of the client'; exit 1; }\n\
             test \"$(cat work.txt)\" = whole || { echo 'work.txt is not whole yet'; exit 1; }\n",
        );
        project.file("work.txt", "whole");
        let shown = Finished::run(&mut project.ralph(&["trust", "--show", "--json"]), b"").json();
        let sha256 = shown["sha256"].as_str().expect("a digest");
        Finished::run(&mut project.ralph(&["trust", "--hash", sha256]), b"").success();
        project
    }

    fn file(&self, name: &str, text: &str) {
        self.sandbox.file(name, &format!("{}\n", text.trim_end()));
    }

    fn gate_runs(&self) -> usize {
        let runs = self.sandbox.home().join("gate-runs");
        fs::read_to_string(runs).unwrap_or_default().lines().count()
    }

    /// This program, as ralph.
    fn ralph(&self, words: &[&str]) -> Command {
        let this = std::env::current_exe().expect("this program");
        let mut command = self.sandbox.isolated(this.to_str().expect("UTF-8"));
        command.args(words);
        command
    }

    /// An event of the client, sent from elsewhere: only its variable names the project.
    fn event(&self, mut event: Value) -> Finished {
        event["conversation"] = json!("c1");
        let mut hook = self.ralph(&["hook", STAND_IN.name, "--deadline", "60"]);
        hook.current_dir("/").env("STANDIN_WORKSPACE", self.sandbox.project());
        Finished::run(&mut hook, event.to_string().as_bytes())
    }
}
