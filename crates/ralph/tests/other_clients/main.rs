//! `ralph loop` with the clients that fewer people have it run: fetched and run only when they are asked for.
//!
//!   cargo test -p ralph --test other_clients

#[path = "../e2e/driver/scene.rs"]
#[allow(dead_code, reason = "the scene is shared; these tests need only some of it")]
mod scene;
#[path = "../it/support.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    clippy::disallowed_methods,
    reason = "the sandbox is shared; these tests need only some of it"
)]
mod support;

use ralph_testkit::{AgentClient, Script};
use scene::{Scene, as_scripted, claims_and_does_nothing, is_verified, mends_one_thing_a_run};

#[test]
fn copilot_mends_one_thing_a_run() {
    let Some(client) = AgentClient::copilot_for_test("copilot_mends_one_thing_a_run") else { return };
    mends_one_thing_a_run(client);
}

#[test]
fn opencode_mends_one_thing_a_run() {
    let Some(client) = AgentClient::opencode_for_test("opencode_mends_one_thing_a_run") else { return };
    mends_one_thing_a_run(client);
}

#[test]
fn copilot_claims_and_does_nothing() {
    let Some(client) = AgentClient::copilot_for_test("copilot_claims_and_does_nothing") else { return };
    claims_and_does_nothing(client);
}

#[test]
fn opencode_claims_and_does_nothing() {
    let Some(client) = AgentClient::opencode_for_test("opencode_claims_and_does_nothing") else { return };
    claims_and_does_nothing(client);
}

/// With `--continue` each run remembers what the one before said.
fn goes_on_where_it_was(client: AgentClient) {
    let mut scene = Scene::new(client);
    let turns = scene.mends_all();
    let (ran, served) = scene.drive(Script::new().main(turns), &["--continue"]);
    as_scripted(&ran, &served);
    let ran = ran.exits(0);
    assert!(is_verified(&ran), "{ran:#?}");
    assert!(served.lane("main")[2].body.to_string().contains("VERIFIED_DONE"), "{ran:#?}");
}

#[test]
fn copilot_goes_on_where_it_was() {
    let Some(client) = AgentClient::copilot_for_test("copilot_goes_on_where_it_was") else { return };
    goes_on_where_it_was(client);
}

#[test]
fn opencode_goes_on_where_it_was() {
    let Some(client) = AgentClient::opencode_for_test("opencode_goes_on_where_it_was") else { return };
    goes_on_where_it_was(client);
}
