//! `ralph loop` with clients that are used less often with it: installed and run only on request.
//!
//!   cargo test -p ralph --test other_clients

#[path = "../e2e/driver/scene.rs"]
#[allow(dead_code, reason = "the scene is shared; these tests need only some of it")]
mod scene;

use ralph_testkit::{AgentClient, Script};
use scene::{RealAgentScene, as_scripted, claims_and_does_nothing, fixes_one_thing_a_run, is_verified};

#[test]
fn copilot_fixes_one_thing_a_run() {
    let client = AgentClient::copilot();
    fixes_one_thing_a_run(client);
}

#[test]
fn opencode_fixes_one_thing_a_run() {
    let client = AgentClient::opencode();
    fixes_one_thing_a_run(client);
}

#[test]
fn copilot_claims_and_does_nothing() {
    let client = AgentClient::copilot();
    claims_and_does_nothing(client);
}

#[test]
fn opencode_claims_and_does_nothing() {
    let client = AgentClient::opencode();
    claims_and_does_nothing(client);
}

/// With `--continue` each run has the context of the previous one.
fn continues_its_session(client: AgentClient) {
    let mut scene = RealAgentScene::new(client);
    let turns = scene.fixes_all();
    let (ran, served) = scene.drive(Script::new().main(turns), &["--continue"]);
    as_scripted(&ran, &served);
    let ran = ran.exits(0);
    assert!(is_verified(&ran), "{ran:#?}");
    assert!(served.lane("main")[2].body.to_string().contains("VERIFIED_DONE"), "{ran:#?}");
}

#[test]
fn copilot_continues_its_session() {
    let client = AgentClient::copilot();
    continues_its_session(client);
}

#[test]
fn opencode_continues_its_session() {
    let client = AgentClient::opencode();
    continues_its_session(client);
}
