//! A small repo with failing tests, a client, and a scripted model that fixes one thing per run; and the two
//! scenarios that
//! run with every client.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use ralph_testkit::{AgentClient, Finished, Sandbox, Script, ScriptedModel, Served, Turn};
use serde_json::Value;

/// Three files have to be right; the first wrong one is named.
const CHECK: &str = "for file in one two three; do\n  \
    test \"$(cat $file.txt 2>/dev/null)\" = right || { echo \"$file.txt is not right\"; exit 1; }\ndone\n";

pub(crate) const GATES: &str = "verify:\n  - name: tests\n    run: sh check.sh\n";

/// A repo with failing tests, a client, and the model that it speaks to.
pub(crate) struct RealAgentScene {
    pub(crate) client: AgentClient,
    pub(crate) sandbox: Sandbox,
}

impl RealAgentScene {
    pub(crate) fn new(client: AgentClient) -> Self {
        let sandbox = Sandbox::new();
        sandbox.file("check.sh", CHECK);
        sandbox.file("ralph.yaml", GATES);
        sandbox.git(&["add", "-A"]);
        sandbox.git(&["commit", "-qm", "failing tests"]);
        sandbox.trust();
        Self { client, sandbox }
    }

    /// One run of the agent in which it fixes one file and claims that everything is done.
    pub(crate) fn fixes(&self, file: &str, message: &str) -> Vec<Turn> {
        let write = self.client.write(&self.sandbox.path(&format!("{file}.txt")), "right").expecting(message);
        vec![write, Turn::say("VERIFIED_DONE")]
    }

    pub(crate) fn fixes_all(&self) -> Vec<Turn> {
        let message = |file: &str| format!("{file}.txt is not right");
        [
            self.fixes("one", "fix the tests"),
            self.fixes("two", &message("two")),
            self.fixes("three", &message("three")),
        ]
        .concat()
    }

    /// Every later call of ralph uses this model.
    pub(crate) fn speaks_to(&mut self, script: Script) -> ScriptedModel {
        let model = self.client.model(script).expect("a port on loopback");
        for (name, value) in self.client.environment(&self.sandbox.home(), &model) {
            self.sandbox.set(&name, value.into_string().expect("words"));
        }
        model
    }

    pub(crate) fn arguments<'a>(&self, more: &[&'a str]) -> Vec<&'a str> {
        let agent = self.client.name();
        [&["loop", "fix the tests", "--agent", agent, "--max-time", "5m"], more].concat()
    }

    /// `ralph loop` to its end, and the requests to the model.
    pub(crate) fn drive(&mut self, script: Script, more: &[&str]) -> (Finished, Served) {
        let model = self.speaks_to(script);
        let ran = self.sandbox.ralph(&self.arguments(more));
        (ran, model.finish())
    }

    /// `ralph loop` in the background.
    pub(crate) fn begin(&self, more: &[&str]) -> Child {
        let mut command = self.sandbox.command(&self.arguments(more));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary")
    }

    /// How often an event occurred in the one loop of the driver.
    pub(crate) fn times(&self, event: &str) -> usize {
        self.sandbox.events_named(event).len()
    }

    fn files_in(&self, folder: &str, extension: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.sandbox.path(folder)).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        let mut paths: Vec<_> =
            paths.filter(|path| path.extension().is_some_and(|other| other == extension)).collect();
        // They are named after the time.
        paths.sort();
        paths
    }

    /// The log, and both reports of every time that the loop paused or ended.
    #[track_caller]
    pub(crate) fn left_behind(&self, rests: &[&str]) {
        let reports = self.files_in("docs/actions/loop", "md");
        let statuses: Vec<String> = reports.iter().map(|report| status_in(report)).collect();
        assert_eq!(statuses, rests, "{reports:?}");
        let data = self.files_in(".claude/metadata/actions/loop", "json");
        assert_eq!(data.len(), rests.len(), "{data:?}");
        for data in data {
            let text = fs::read_to_string(&data).expect("a report");
            serde_json::from_str::<Value>(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        }
        let log = self.sandbox.ralph_home().join("logs/loop-latest.log");
        let text = fs::read_to_string(&log).unwrap_or_else(|error| panic!("{}: {error}", log.display()));
        assert!(!text.trim().is_empty(), "an empty log");
    }
}

#[track_caller]
fn status_in(report: &Path) -> String {
    let text = fs::read_to_string(report).expect("a report");
    let status = text.lines().find_map(|line| line.strip_prefix("Status: "));
    status.unwrap_or_else(|| panic!("{text}")).to_owned()
}

#[track_caller]
pub(crate) fn as_scripted(ran: &Finished, served: &Served) {
    assert!(served.problems.is_empty(), "{:#?}\n{ran:#?}", served.problems);
}

pub(crate) fn is_verified(ran: &Finished) -> bool {
    ran.stdout.lines().any(|line| line == "VERIFIED_DONE")
}

/// The agent fixes one thing per run and claims each time that everything is done; only the last claim is verified.
pub(crate) fn fixes_one_thing_a_run(client: AgentClient) {
    let mut scene = RealAgentScene::new(client);
    let turns = scene.fixes_all();
    let (ran, served) = scene.drive(Script::new().main(turns), &[]);
    as_scripted(&ran, &served);
    let ran = ran.exits(0);
    assert!(is_verified(&ran), "{ran:#?}");
    assert_eq!(scene.times("iteration_began"), 3, "{ran:#?}");
    assert_eq!(served.lane("main").len(), 6, "{ran:#?}");
    scene.left_behind(&["COMPLETED"]);
}

/// The agent prints the exact words of the driver, and does nothing.
pub(crate) fn claims_and_does_nothing(client: AgentClient) {
    let mut scene = RealAgentScene::new(client);
    let says = Turn::say("All tests pass.\nVERIFIED_DONE").expecting("fix the tests");
    let (ran, served) = scene.drive(Script::new().then_repeat(says), &["--max-iterations", "2"]);
    as_scripted(&ran, &served);
    let ran = ran.exits(1);
    assert!(!is_verified(&ran), "{ran:#?}");
    assert_eq!((scene.times("iteration_began"), served.lane("main").len()), (2, 2), "{ran:#?}");
    scene.left_behind(&["FAILED"]);
}
