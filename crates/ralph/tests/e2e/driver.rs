//! `ralph loop` with the real clients as its agent: a small repo with failing tests, a scripted model that mends one thing
//! a run, and what the driver makes of it. The verdict is the gates' alone, whoever the agent is and whatever it says.

mod scene;

use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ralph_testkit::{AgentClient, Script, Turn};

use self::scene::{GATES, Scene, as_scripted, claims_and_does_nothing, is_verified, mends_one_thing_a_run};
use crate::support::RALPH;

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
