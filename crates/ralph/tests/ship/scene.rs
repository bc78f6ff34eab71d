//! A repo with a remote, a forge and an agent that is a script.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use ralph_testkit::{Finished, Sandbox, ScriptedForge};
use serde_json::Value;

use crate::RALPH;

/// The gate of most scenes: the work is done when the file exists and says so.
pub(crate) const GATE: &str = "grep -q fixed work.txt || { echo 'FAIL work.txt is not fixed'; exit 1; }";

/// A script's first lines. `$run` is how often the agent was run, including this time.
const OPENING: &str = r#"#!/bin/sh
run=1
while [ -e "$NOTES/prompt.$run" ]; do run=$((run + 1)); done
cat > "$NOTES/prompt.$run"
commit() { git add -A && git commit -q -m "$1"; }
"#;

pub(crate) struct Scene {
    pub(crate) sandbox: Sandbox,
    pub(crate) forge: ScriptedForge,
}

impl Scene {
    /// The usual gate, quick polls, and an agent that does this.
    pub(crate) fn new(agent: &str) -> Self {
        Self::with("ship: { poll: 20ms, ci_timeout: 20s }", agent)
    }

    /// Further lines of `ralph.yaml`.
    pub(crate) fn with(settings: &str, agent: &str) -> Self {
        Self::of(&format!("verify:\n  - name: test\n    run: \"{GATE}\"\n{settings}\n"), agent)
    }

    pub(crate) fn of(config: &str, agent: &str) -> Self {
        let mut sandbox = Sandbox::new();
        let notes = sandbox.home().join("notes");
        fs::create_dir(&notes).expect("a folder");
        sandbox.set("NOTES", notes.to_str().expect("a readable path"));
        sandbox.set("RALPH", RALPH);
        sandbox.file("ralph.yaml", config);
        sandbox.file("work.txt", "broken\n");
        sandbox.git(&["add", "-A"]);
        sandbox.git(&["commit", "-q", "-m", "first"]);
        sandbox.trust();
        let forge = ScriptedForge::beside(&mut sandbox);
        let script = sandbox.home().join("agent.sh");
        fs::write(&script, format!("{OPENING}{agent}\n")).expect("a script");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("executable");
        Self { sandbox, forge }
    }

    fn arguments(&self, more: &[&str]) -> Vec<String> {
        let agent = format!("command:{}", self.sandbox.home().join("agent.sh").display());
        let words = ["loop", "fix the work", "--agent", &agent];
        words.iter().chain(more).map(|word| (*word).to_owned()).collect()
    }

    #[track_caller]
    pub(crate) fn drive(&self, more: &[&str]) -> Finished {
        finish(self.start(more))
    }

    pub(crate) fn start(&self, more: &[&str]) -> Child {
        let words = self.arguments(more);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        spawn(self.sandbox.command(&words))
    }

    #[track_caller]
    pub(crate) fn resume(&self) -> Finished {
        finish(spawn(self.sandbox.command(&["resume"])))
    }

    /// The prompt of the agent's run with this number.
    pub(crate) fn prompt(&self, number: u32) -> String {
        fs::read_to_string(self.sandbox.home().join(format!("notes/prompt.{number}"))).unwrap_or_default()
    }

    /// How often the agent was run.
    pub(crate) fn runs(&self) -> u32 {
        (1..).take_while(|number| !self.prompt(*number).is_empty()).last().unwrap_or(0)
    }

    /// The state of the loop.
    pub(crate) fn state(&self) -> Value {
        self.sandbox.state()
    }

    /// The steps beyond the gates, in order.
    pub(crate) fn steps(&self) -> Vec<String> {
        let steps = self.sandbox.events_named("shipped").into_iter();
        steps.map(|event| event["step"].as_str().expect("a word").to_owned()).collect()
    }

    pub(crate) fn events(&self, name: &str) -> usize {
        self.sandbox.events_named(name).len()
    }

    /// A commit of the remote's branch, if there is one.
    pub(crate) fn remote(&self, branch: &str) -> String {
        let bare = self.sandbox.home().join("remote.git");
        let bare = format!("--git-dir={}", bare.display());
        self.sandbox.git(&[&bare, "for-each-ref", "--format=%(objectname)", &format!("refs/heads/{branch}")])
    }
}

fn spawn(mut command: std::process::Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary")
}

#[track_caller]
pub(crate) fn finish(mut child: Child) -> Finished {
    let deadline = Instant::now() + Duration::from_secs(100);
    while child.try_wait().expect("a child of ours").is_none() {
        if Instant::now() > deadline {
            let _gone = child.kill();
            let output = child.wait_with_output().expect("output");
            panic!("it never ended: {:#?}", Finished::of(output));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Finished::of(child.wait_with_output().expect("output"))
}
