//! `ralph loop` with the real clients as its agent: a small repo with failing tests, a scripted model that mends one thing
//! a run, and what the driver makes of it. The verdict is the gates' alone, whoever the agent is and whatever it says.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ralph_testkit::{AgentClient, Script, ScriptedModel, Served, Turn};
use serde_json::Value;

use crate::support::{RALPH, Ran, Sandbox};

/// Three things have to be right; the first that is not is named.
const CHECK: &str = "for file in one two three; do\n  \
    test \"$(cat $file.txt 2>/dev/null)\" = right || { echo \"$file.txt is not right\"; exit 1; }\ndone\n";

const GATES: &str = "verify:\n  - name: tests\n    run: sh check.sh\n";

/// A repo with failing tests, a client, and the model that it speaks to.
struct Scene {
    client: AgentClient,
    sandbox: Sandbox,
}

impl Scene {
    fn new(client: AgentClient) -> Self {
        let sandbox = Sandbox::new();
        sandbox.file("check.sh", CHECK);
        sandbox.file("ralph.yaml", GATES);
        sandbox.git(&["add", "-A"]);
        sandbox.git(&["commit", "-qm", "failing tests"]);
        sandbox.trust();
        Self { client, sandbox }
    }

    /// One run of the agent in which it mends one file and claims that all is done.
    fn mends(&self, file: &str, told: &str) -> Vec<Turn> {
        let write = self.client.write(&self.sandbox.path(&format!("{file}.txt")), "right").expecting(told);
        vec![write, Turn::say("VERIFIED_DONE")]
    }

    fn mends_all(&self) -> Vec<Turn> {
        let told = |file: &str| format!("{file}.txt is not right");
        [
            self.mends("one", "fix the tests"),
            self.mends("two", &told("two")),
            self.mends("three", &told("three")),
        ]
        .concat()
    }

    /// Everything that ralph is called with from now on leads to this model.
    fn speaks_to(&mut self, script: Script) -> ScriptedModel {
        let model = self.client.model(script).expect("a port on loopback");
        for (name, value) in self.client.environment(&self.sandbox.home(), &model) {
            self.sandbox.set(&name, value.into_string().expect("words"));
        }
        model
    }

    fn arguments<'a>(&self, more: &[&'a str]) -> Vec<&'a str> {
        let agent = self.client.name();
        [&["loop", "fix the tests", "--agent", agent, "--max-time", "5m"], more].concat()
    }

    /// `ralph loop` to its end, and what the model saw.
    fn drive(&mut self, script: Script, more: &[&str]) -> (Ran, Served) {
        let model = self.speaks_to(script);
        let ran = self.sandbox.ralph(&self.arguments(more));
        (ran, model.finish())
    }

    /// `ralph loop` in the background.
    fn begin(&self, more: &[&str]) -> Child {
        let mut command = self.sandbox.command(&self.arguments(more));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary")
    }

    /// How often something happened in the one loop of the driver.
    fn times(&self, event: &str) -> usize {
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
    fn left_behind(&self, rests: &[&str]) {
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
fn as_scripted(ran: &Ran, served: &Served) {
    assert!(served.problems.is_empty(), "{:#?}\n{ran:#?}", served.problems);
}

fn is_verified(ran: &Ran) -> bool {
    ran.stdout.lines().any(|line| line == "VERIFIED_DONE")
}

/// The agent mends one thing a run and says each time that everything is done; it is believed when it is so.
fn mends_one_thing_a_run(client: AgentClient) {
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

#[test]
fn claude_mends_one_thing_a_run() {
    let Some(client) = AgentClient::claude_for_test("claude_mends_one_thing_a_run") else { return };
    mends_one_thing_a_run(client);
}

#[test]
fn codex_mends_one_thing_a_run() {
    let Some(client) = AgentClient::codex_for_test("codex_mends_one_thing_a_run") else { return };
    mends_one_thing_a_run(client);
}

#[test]
fn gemini_mends_one_thing_a_run() {
    let Some(client) = AgentClient::gemini_for_test("gemini_mends_one_thing_a_run") else { return };
    mends_one_thing_a_run(client);
}

/// The client's running total goes on over a session; what the loop costs is what its runs cost.
#[test]
fn a_session_that_goes_on_costs_what_its_runs_cost() {
    let Some(client) = AgentClient::claude_for_test("a_session_that_goes_on_costs_what_its_runs_cost") else {
        return;
    };
    let mut costs = Vec::new();
    for memory in ["--fresh", "--continue"] {
        let mut scene = Scene::new(client.clone());
        let turns = scene.mends_all();
        let (ran, served) = scene.drive(Script::new().main(turns), &[memory, "--max-cost", "5"]);
        as_scripted(&ran, &served);
        let ran = ran.exits(0);
        let remembers = served.lane("main")[2].body.to_string().contains("VERIFIED_DONE");
        assert_eq!(remembers, memory == "--continue", "{ran:#?}");
        costs.push(scene.sandbox.state()["drive"]["cost"].as_u64().expect("a sum"));
    }
    assert!(costs[0] > 0 && costs[0] == costs[1], "{costs:?}");
}

/// The agent says the very words that the driver prints, and does nothing.
fn claims_and_does_nothing(client: AgentClient) {
    let mut scene = Scene::new(client);
    let says = Turn::say("All tests pass.\nVERIFIED_DONE").expecting("fix the tests");
    let (ran, served) = scene.drive(Script::new().then_repeat(says), &["--max-iterations", "2"]);
    as_scripted(&ran, &served);
    let ran = ran.exits(1);
    assert!(!is_verified(&ran), "{ran:#?}");
    assert_eq!((scene.times("iteration_began"), served.lane("main").len()), (2, 2), "{ran:#?}");
    scene.left_behind(&["FAILED"]);
}

#[test]
fn claude_claims_and_does_nothing() {
    let Some(client) = AgentClient::claude_for_test("claude_claims_and_does_nothing") else { return };
    claims_and_does_nothing(client);
}

#[test]
fn codex_claims_and_does_nothing() {
    let Some(client) = AgentClient::codex_for_test("codex_claims_and_does_nothing") else { return };
    claims_and_does_nothing(client);
}

#[test]
fn gemini_claims_and_does_nothing() {
    let Some(client) = AgentClient::gemini_for_test("gemini_claims_and_does_nothing") else { return };
    claims_and_does_nothing(client);
}

/// Left to itself it is given one other way to begin, and then it is stuck.
#[test]
fn who_never_does_anything_is_stuck() {
    let Some(client) = AgentClient::claude_for_test("who_never_does_anything_is_stuck") else { return };
    let mut scene = Scene::new(client);
    let (ran, served) = scene.drive(Script::new().then_repeat(Turn::say("VERIFIED_DONE")), &[]);
    as_scripted(&ran, &served);
    let ran = ran.exits(4);
    assert!(!is_verified(&ran), "{ran:#?}");
    assert_eq!(scene.times("strategy_changed"), 1, "{ran:#?}");
    scene.left_behind(&["FAILED"]);
}

#[test]
fn a_permission_that_is_missing_is_told_and_the_third_time_it_pauses() {
    let name = "a_permission_that_is_missing_is_told_and_the_third_time_it_pauses";
    let Some(client) = AgentClient::claude_for_test(name) else { return };
    let mut scene = Scene::new(client);
    let curl = |number: usize| scene.client.shell(&format!("curl http://127.0.0.1:9/{number}"));
    // Every run mends something, so that nothing but the permission stands in the way.
    let mut turns = Vec::new();
    for (number, file) in ["one", "two", "else"].into_iter().enumerate() {
        let then = if number == 0 { curl(number) } else { curl(number).expecting("curl") };
        turns.push(then);
        turns.extend(scene.mends(file, ""));
    }
    let (ran, served) = scene.drive(Script::new().main(turns), &[]);
    as_scripted(&ran, &served);
    let ran = ran.exits(3);
    assert!(!is_verified(&ran), "{ran:#?}");
    assert_eq!(scene.times("iteration_began"), 3, "{ran:#?}");
    let all = format!("{}\n{}", ran.stdout, ran.stderr);
    assert!(all.matches("Bash(curl:*)").count() >= 3, "told after each iteration: {all}");
    let line = all.lines().find(|line| line.contains("allow:"));
    assert!(line.is_some_and(|line| line.contains("Bash(curl:*)")), "the line to add: {all}");
    let paused = scene.sandbox.events_named("paused");
    assert_eq!(paused.len(), 1, "{paused:?}");
    assert_eq!(paused[0]["why"]["cause"], "denied", "{paused:?}");
    scene.left_behind(&["PARTIAL"]);

    // With that line in the person's own config it goes on, and the command is run.
    scene.sandbox.user_config("allow:\n  - Bash(curl:*)\n");
    let mut turns = vec![scene.client.shell("curl http://127.0.0.1:9/again")];
    let mend = scene.client.write(&scene.sandbox.path("three.txt"), "right");
    turns.extend([mend.expecting_not("permission").expecting("127.0.0.1"), Turn::say("Done.")]);
    let model = scene.speaks_to(Script::new().main(turns));
    let ran = scene.sandbox.ralph(&["resume"]);
    as_scripted(&ran, &model.finish());
    assert!(is_verified(&ran.exits(0)));
    scene.left_behind(&["PARTIAL", "COMPLETED"]);
}

/// The hooks of a repo that is guarded anyway hold nobody whom the driver runs: it judges once an iteration, and alone.
#[test]
fn installed_hooks_leave_the_verdict_to_the_driver() {
    let name = "installed_hooks_leave_the_verdict_to_the_driver";
    let Some(client) = AgentClient::claude_for_test(name) else { return };
    let mut scene = Scene::new(client);
    scene.sandbox.file("ralph.yaml", &format!("guard: [session]\n{GATES}"));
    scene.sandbox.trust();
    scene.sandbox.ralph(&["init", "--yes"]).success();
    let settings = scene.sandbox.read(".claude/settings.local.json");
    assert!(settings.contains(RALPH), "our hooks are not installed: {settings}");
    let turns = scene.mends_all();
    let (ran, served) = scene.drive(Script::new().main(turns), &[]);
    as_scripted(&ran, &served);
    let ran = ran.exits(0);
    assert!(is_verified(&ran), "{ran:#?}");
    assert_eq!((scene.times("iteration_began"), served.lane("main").len()), (3, 6), "{ran:#?}");
    assert_eq!(scene.times("judged"), 3, "somebody else judged, too: {:#?}", scene.sandbox.events());
}

fn in_seconds(seconds: i64) -> i64 {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock");
    i64::try_from(since.as_secs()).expect("this century") + seconds
}

/// What a subscription's service answers when it is used up until then.
fn used_up_until(seconds: i64) -> Turn {
    Turn::api_error(429, "rate_limit_error", "This request would exceed your account's rate limit.")
        .header("anthropic-ratelimit-unified-status", "rejected")
        .header("anthropic-ratelimit-unified-representative-claim", "five_hour")
        .header("anthropic-ratelimit-unified-reset", seconds.to_string())
        .header("retry-after", "3600")
}

/// A subscription has no key; only then does the client say when it can be asked again.
fn with_a_subscription(scene: &mut Scene) {
    scene.sandbox.set("ANTHROPIC_API_KEY", "");
    scene.sandbox.set("CLAUDE_CODE_OAUTH_TOKEN", "dummy");
}

#[track_caller]
fn wait_for(what: &str, time: Duration, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + time;
    while !is_so() {
        assert!(Instant::now() < deadline, "it never was so: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_usage_limit_is_waited_for_until_its_stated_end() {
    let name = "a_usage_limit_is_waited_for_until_its_stated_end";
    let Some(client) = AgentClient::claude_for_test(name) else { return };
    let mut scene = Scene::new(client);
    let reset = in_seconds(12);
    let turns = [vec![used_up_until(reset)], scene.mends_all()].concat();
    let model = scene.speaks_to(Script::new().main(turns));
    with_a_subscription(&mut scene);
    let ran = scene.sandbox.ralph(&scene.arguments(&["--max-iterations", "3"]));
    let served = model.finish();
    as_scripted(&ran, &served);
    let ran = ran.exits(0);
    assert!(in_seconds(0) >= reset, "it did not wait: {ran:#?}");
    assert!(is_verified(&ran), "three iterations were allowed and needed: {ran:#?}");
    let waits = scene.sandbox.events_named("waits_until");
    assert_eq!(waits.len(), 1, "{waits:?}");
    assert_eq!(served.lane("main").len(), 7, "{ran:#?}");
}

#[test]
fn a_wait_survives_a_kill_and_a_person_can_end_it() {
    let name = "a_wait_survives_a_kill_and_a_person_can_end_it";
    let Some(client) = AgentClient::claude_for_test(name) else { return };
    let mut scene = Scene::new(client);
    let turns = [vec![used_up_until(in_seconds(3600))], scene.mends_all()].concat();
    let model = scene.speaks_to(Script::new().main(turns));
    with_a_subscription(&mut scene);
    let waits = || scene.times("waits_until") == 1;
    let enough = Duration::from_secs(60);

    let mut first = scene.begin(&["--max-iterations", "3"]);
    wait_for("it waits for the reset", enough, waits);
    first.kill().expect("our own child");
    first.wait().expect("its end");

    let mut second = scene
        .sandbox
        .command(&["resume"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("ralph");
    let until = scene.sandbox.events_named("waits_until")[0]["until"].clone();
    thread::sleep(Duration::from_secs(3));
    assert!(second.try_wait().expect("our own child").is_none(), "it did not wait");
    assert_eq!(model.requests(), 1, "the model was asked before its reset");
    assert_eq!(scene.sandbox.state()["drive"]["wait"]["until"], until);
    second.kill().expect("our own child");
    second.wait().expect("its end");

    let ran = scene.sandbox.ralph(&["resume", "--now"]);
    as_scripted(&ran, &model.finish());
    let ran = ran.exits(0);
    assert!(is_verified(&ran), "{ran:#?}");
    scene.left_behind(&["COMPLETED"]);
}

/// An overload has no stated end. Whoever was refused has not used up an iteration, nor made an error.
#[test]
fn an_overload_costs_no_iteration() {
    let Some(client) = AgentClient::claude_for_test("an_overload_costs_no_iteration") else { return };
    let mut scene = Scene::new(client);
    let overloaded = Turn::api_error(529, "overloaded_error", "Overloaded");
    let turns = [vec![overloaded.clone(), overloaded], scene.mends_all()].concat();
    let model = scene.speaks_to(Script::new().main(turns));
    // The client tries it once more by itself, and not ten times.
    scene.sandbox.set("CLAUDE_CODE_MAX_RETRIES", "1");
    let mut first = scene.begin(&["--max-iterations", "3"]);
    wait_for("it waits", Duration::from_secs(60), || scene.times("waits_until") == 1);
    interrupted(&mut first);
    let ran = scene.sandbox.ralph(&["resume", "--now"]);
    as_scripted(&ran, &model.finish());
    let ran = ran.exits(0);
    assert!(is_verified(&ran), "{ran:#?}");
    scene.left_behind(&["PARTIAL", "COMPLETED"]);
}

/// Ctrl-C during a wait ends it at once, with the exit code of one who was interrupted.
#[track_caller]
fn interrupted(child: &mut Child) {
    let begun = Instant::now();
    let process = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).expect("our own child");
    assert_eq!(child.wait().expect("its end").code(), Some(130));
    assert!(begun.elapsed() < Duration::from_secs(5), "it took {:?}", begun.elapsed());
}
