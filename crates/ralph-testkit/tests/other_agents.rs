//! The same as `agents`, for the clients that fewer people have the driver run: fetched and run only when they are asked for.
//!
//!   cargo test -p ralph-testkit --test other_agents

#[path = "agents/scene.rs"]
mod scene;

use ralph_testkit::{AgentClient, Turn};
use scene::{goes_on_with_its_session, is_refused, works_as_its_profile_says};

#[test]
fn copilot_works_as_its_profile_says() {
    let Some(client) = AgentClient::copilot_for_test("copilot_works_as_its_profile_says") else { return };
    works_as_its_profile_says(client, "create", "bash", None);
}

#[test]
fn opencode_works_as_its_profile_says() {
    let Some(client) = AgentClient::opencode_for_test("opencode_works_as_its_profile_says") else { return };
    works_as_its_profile_says(client, "write", "bash", Some((300, 60)));
}

#[test]
fn copilot_goes_on_with_its_session() {
    let Some(client) = AgentClient::copilot_for_test("copilot_goes_on_with_its_session") else { return };
    goes_on_with_its_session(client, "another");
}

#[test]
fn opencode_goes_on_with_its_session() {
    let Some(client) = AgentClient::opencode_for_test("opencode_goes_on_with_its_session") else { return };
    goes_on_with_its_session(client, "scripted/another");
}

#[test]
fn what_refuses_copilot_is_a_limit() {
    let Some(client) = AgentClient::copilot_for_test("what_refuses_copilot_is_a_limit") else { return };
    for (status, kind) in [(429, "rate_limit_exceeded"), (503, "server_is_overloaded")] {
        let refusal = Turn::api_error(status, kind, "Not now.");
        assert_eq!(is_refused(client.clone(), &refusal, &[], Some(status)).until, None);
    }
}

#[test]
fn what_refuses_opencode_is_a_limit() {
    let Some(client) = AgentClient::opencode_for_test("what_refuses_opencode_is_a_limit") else { return };
    let refusal = Turn::api_error(429, "rate_limit_exceeded", "Not now.");
    assert_eq!(is_refused(client, &refusal, &[], Some(429)).until, None);
}
