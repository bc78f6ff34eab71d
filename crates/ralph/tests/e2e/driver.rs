//! `ralph loop` with the real clients as its agent: a small repo with failing tests, a scripted model that fixes one
//! thing
//! per run, and the driver's verdict. Only the gates decide, whichever agent runs and whatever it claims.

mod scene;

use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ralph_testkit::{AgentClient, Script, Turn};

use self::scene::{
    GATES, RealAgentScene, as_scripted, claims_and_does_nothing, fixes_one_thing_a_run, is_verified,
};
use crate::RALPH;

#[test]
fn claude_fixes_one_thing_a_run() {
    let client = AgentClient::claude();
    fixes_one_thing_a_run(client);
}

#[test]
fn codex_fixes_one_thing_a_run() {
    let client = AgentClient::codex();
    fixes_one_thing_a_run(client);
}

#[test]
fn gemini_fixes_one_thing_a_run() {
    let client = AgentClient::gemini();
    fixes_one_thing_a_run(client);
}

/// The client's running total spans the whole session; the cost of the loop is the sum of its runs.
#[test]
fn a_resumed_session_costs_the_sum_of_its_runs() {
    let client = AgentClient::claude();
    let mut costs = Vec::new();
    for memory in ["--fresh", "--continue"] {
        let mut scene = RealAgentScene::new(client.clone());
        let turns = scene.fixes_all();
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
    let client = AgentClient::claude();
    claims_and_does_nothing(client);
}

#[test]
fn codex_claims_and_does_nothing() {
    let client = AgentClient::codex();
    claims_and_does_nothing(client);
}

#[test]
fn gemini_claims_and_does_nothing() {
    let client = AgentClient::gemini();
    claims_and_does_nothing(client);
}

/// Without a limit the loop tries one other approach, and then it is stuck.
#[test]
fn an_agent_that_never_does_anything_is_stuck() {
    let client = AgentClient::claude();
    let mut scene = RealAgentScene::new(client);
    let (ran, served) = scene.drive(Script::new().then_repeat(Turn::say("VERIFIED_DONE")), &[]);
    as_scripted(&ran, &served);
    let ran = ran.exits(4);
    assert!(!is_verified(&ran), "{ran:#?}");
    assert_eq!(scene.times("strategy_changed"), 1, "{ran:#?}");
    scene.left_behind(&["FAILED"]);
}

#[test]
fn a_missing_permission_is_reported_and_the_third_one_pauses() {
    let client = AgentClient::claude();
    let mut scene = RealAgentScene::new(client);
    let curl = |number: usize| scene.client.shell(&format!("curl http://127.0.0.1:9/{number}"));
    // Every run fixes something, so that only the permission is missing.
    let mut turns = Vec::new();
    for (number, file) in ["one", "two", "else"].into_iter().enumerate() {
        let then = if number == 0 { curl(number) } else { curl(number).expecting("curl") };
        turns.push(then);
        turns.extend(scene.fixes(file, ""));
    }
    let (ran, served) = scene.drive(Script::new().main(turns), &[]);
    as_scripted(&ran, &served);
    let ran = ran.exits(3);
    assert!(!is_verified(&ran), "{ran:#?}");
    assert_eq!(scene.times("iteration_began"), 3, "{ran:#?}");
    let all = format!("{}\n{}", ran.stdout, ran.stderr);
    // A download is never proposed as something to allow.
    assert!(all.contains("Bash(curl:*): denied; allow the narrow command or run it yourself"), "{all}");
    assert!(!all.contains("allow: "), "{all}");
    let paused = scene.sandbox.events_named("paused");
    assert_eq!(paused.len(), 1, "{paused:?}");
    assert_eq!(paused[0]["why"]["cause"], "denied", "{paused:?}");
    scene.left_behind(&["PARTIAL"]);

    // With that line in the user's own config the loop continues, and the command is run.
    scene.sandbox.user_config("allow:\n  - Bash(curl:*)\n");
    let mut turns = vec![scene.client.shell("curl http://127.0.0.1:9/again")];
    let fix = scene.client.write(&scene.sandbox.path("three.txt"), "right");
    turns.extend([fix.expecting_not("permission").expecting("127.0.0.1"), Turn::say("Done.")]);
    let model = scene.speaks_to(Script::new().main(turns));
    let ran = scene.sandbox.ralph(&["resume"]);
    as_scripted(&ran, &model.finish());
    assert!(is_verified(&ran.exits(0)));
    scene.left_behind(&["PARTIAL", "COMPLETED"]);
}

/// The hooks of a guarded repo do not block an agent of the driver: only the driver judges, once per iteration.
#[test]
fn installed_hooks_leave_the_verdict_to_the_driver() {
    let client = AgentClient::claude();
    let mut scene = RealAgentScene::new(client);
    scene.sandbox.file("ralph.yaml", &format!("guard: [session]\n{GATES}"));
    scene.sandbox.trust();
    scene.sandbox.ralph(&["init", "--yes"]).success();
    let settings = scene.sandbox.read(".claude/settings.local.json");
    assert!(settings.contains(RALPH), "our hooks are not installed: {settings}");
    let turns = scene.fixes_all();
    let (ran, served) = scene.drive(Script::new().main(turns), &[]);
    as_scripted(&ran, &served);
    let ran = ran.exits(0);
    assert!(is_verified(&ran), "{ran:#?}");
    assert_eq!((scene.times("iteration_began"), served.lane("main").len()), (3, 6), "{ran:#?}");
    assert_eq!(scene.times("judged"), 3, "another process judged, too: {:#?}", scene.sandbox.events());
}

fn in_seconds(seconds: i64) -> i64 {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock");
    i64::try_from(since.as_secs()).expect("this century") + seconds
}

/// The answer of a subscription service whose usage limit is reached until then.
fn usage_limit_until(seconds: i64) -> Turn {
    Turn::api_error(429, "rate_limit_error", "This request would exceed your account's rate limit.")
        .header("anthropic-ratelimit-unified-status", "rejected")
        .header("anthropic-ratelimit-unified-representative-claim", "five_hour")
        .header("anthropic-ratelimit-unified-reset", seconds.to_string())
        .header("retry-after", "3600")
}

/// A subscription has no key; only then does the client report when it can be used again.
fn with_a_subscription(scene: &mut RealAgentScene) {
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
fn a_usage_limit_is_waited_out_until_its_stated_end() {
    let client = AgentClient::claude();
    let mut scene = RealAgentScene::new(client);
    let reset = in_seconds(12);
    let turns = [vec![usage_limit_until(reset)], scene.fixes_all()].concat();
    let model = scene.speaks_to(Script::new().main(turns));
    with_a_subscription(&mut scene);
    let ran = scene.sandbox.ralph(&scene.arguments(&["--max-iterations", "3"]));
    let served = model.finish();
    as_scripted(&ran, &served);
    let ran = ran.exits(0);
    assert!(in_seconds(0) >= reset, "it did not wait: {ran:#?}");
    assert!(is_verified(&ran), "three iterations were allowed and needed: {ran:#?}");
    let waits = scene.sandbox.events_named("waiting_until");
    assert_eq!(waits.len(), 1, "{waits:?}");
    assert_eq!(served.lane("main").len(), 7, "{ran:#?}");
}

#[test]
fn a_wait_survives_a_kill_and_the_user_can_end_it() {
    let client = AgentClient::claude();
    let mut scene = RealAgentScene::new(client);
    let turns = [vec![usage_limit_until(in_seconds(3600))], scene.fixes_all()].concat();
    let model = scene.speaks_to(Script::new().main(turns));
    with_a_subscription(&mut scene);
    let waits = || scene.times("waiting_until") == 1;
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
    let until = scene.sandbox.events_named("waiting_until")[0]["until"].clone();
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

/// An overload has no stated end. A refused run neither uses up an iteration nor counts as an error.
#[test]
fn an_overload_costs_no_iteration() {
    let client = AgentClient::claude();
    let mut scene = RealAgentScene::new(client);
    let overloaded = Turn::api_error(529, "overloaded_error", "Overloaded");
    let turns = [vec![overloaded.clone(), overloaded], scene.fixes_all()].concat();
    let model = scene.speaks_to(Script::new().main(turns));
    // The client retries it once, not ten times.
    scene.sandbox.set("CLAUDE_CODE_MAX_RETRIES", "1");
    let mut first = scene.begin(&["--max-iterations", "3"]);
    wait_for("it waits", Duration::from_secs(60), || scene.times("waiting_until") == 1);
    interrupted(&mut first);
    let ran = scene.sandbox.ralph(&["resume", "--now"]);
    as_scripted(&ran, &model.finish());
    let ran = ran.exits(0);
    assert!(is_verified(&ran), "{ran:#?}");
    scene.left_behind(&["PARTIAL", "COMPLETED"]);
}

/// Ctrl-C during a wait ends it at once, with the exit code of an interrupt.
#[track_caller]
fn interrupted(child: &mut Child) {
    let begun = Instant::now();
    let process = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).expect("our own child");
    assert_eq!(child.wait().expect("its end").code(), Some(130));
    assert!(begun.elapsed() < Duration::from_secs(5), "it took {:?}", begun.elapsed());
}
