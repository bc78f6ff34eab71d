//! A small repo with failing tests, a client, and a scripted model that mends one thing a run; and the two stories that are
//! told with every client.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use ralph_testkit::{AgentClient, Script, ScriptedModel, Served, Turn};
use serde_json::Value;

use crate::support::{Ran, Sandbox};

/// Three things have to be right; the first that is not is named.
const CHECK: &str = "for file in one two three; do\n  \
    test \"$(cat $file.txt 2>/dev/null)\" = right || { echo \"$file.txt is not right\"; exit 1; }\ndone\n";

pub(crate) const GATES: &str = "verify:\n  - name: tests\n    run: sh check.sh\n";

/// A repo with failing tests, a client, and the model that it speaks to.
pub(crate) struct Scene {
    pub(crate) client: AgentClient,
    pub(crate) sandbox: Sandbox,
}

impl Scene {
    pub(crate) fn new(client: AgentClient) -> Self {
        let sandbox = Sandbox::new();
        sandbox.file("check.sh", CHECK);
        sandbox.file("ralph.yaml", GATES);
        sandbox.git(&["add", "-A"]);
        sandbox.git(&["commit", "-qm", "failing tests"]);
        sandbox.trust();
        Self { client, sandbox }
    }

    /// One run of the agent in which it mends one file and claims that all is done.
    pub(crate) fn mends(&self, file: &str, told: &str) -> Vec<Turn> {
        let write = self.client.write(&self.sandbox.path(&format!("{file}.txt")), "right").expecting(told);
        vec![write, Turn::say("VERIFIED_DONE")]
    }

    pub(crate) fn mends_all(&self) -> Vec<Turn> {
        let told = |file: &str| format!("{file}.txt is not right");
        [
            self.mends("one", "fix the tests"),
            self.mends("two", &told("two")),
            self.mends("three", &told("three")),
        ]
        .concat()
    }

    /// Everything that ralph is called with from now on leads to this model.
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

    /// `ralph loop` to its end, and what the model saw.
    pub(crate) fn drive(&mut self, script: Script, more: &[&str]) -> (Ran, Served) {
        let model = self.speaks_to(script);
        let ran = self.sandbox.ralph(&self.arguments(more));
        (ran, model.finish())
    }

    /// `ralph loop` in the background.
    pub(crate) fn begin(&self, more: &[&str]) -> Child {
        let mut command = self.sandbox.command(&self.arguments(more));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary")
    }

    /// How often something happened in the one loop of the driver.
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

    /// The log, and both reports of every time that the loop came to rest, as somebody looks for them the morning after.
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
pub(crate) fn as_scripted(ran: &Ran, served: &Served) {
    assert!(served.problems.is_empty(), "{:#?}\n{ran:#?}", served.problems);
}

pub(crate) fn is_verified(ran: &Ran) -> bool {
    ran.stdout.lines().any(|line| line == "VERIFIED_DONE")
}

/// The agent mends one thing a run and says each time that everything is done; it is believed when it is so.
pub(crate) fn mends_one_thing_a_run(client: AgentClient) {
    let mut scene = Scene::new(client);
    let turns = scene.mends_all();
    let (ran, served) = scene.drive(Script::new().main(turns), &[]);
    as_scripted(&ran, &served);
    let ran = ran.exits(0);
    assert!(is_verified(&ran), "{ran:#?}");
    assert_eq!(scene.times("iteration_began"), 3, "{ran:#?}");
    assert_eq!(served.lane("main").len(), 6, "{ran:#?}");
    scene.left_behind(&["COMPLETED"]);
}

/// The agent says the very words that the driver prints, and does nothing.
pub(crate) fn claims_and_does_nothing(client: AgentClient) {
    let mut scene = Scene::new(client);
    let says = Turn::say("All tests pass.\nVERIFIED_DONE").expecting("fix the tests");
    let (ran, served) = scene.drive(Script::new().then_repeat(says), &["--max-iterations", "2"]);
    as_scripted(&ran, &served);
    let ran = ran.exits(1);
    assert!(!is_verified(&ran), "{ran:#?}");
    assert_eq!((scene.times("iteration_began"), served.lane("main").len()), (2, 2), "{ran:#?}");
    scene.left_behind(&["FAILED"]);
}
