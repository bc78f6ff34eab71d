//! The same as `agents`, for clients that are used less often with the driver: installed and run only on request.
//!
//!   cargo test -p ralph-testkit --test other_agents

#[path = "agents/scene.rs"]
mod scene;

use ralph_testkit::{AgentClient, Turn};
use scene::{is_refused, resumes_its_session, works_as_its_profile_says};

#[test]
fn copilot_works_as_its_profile_says() {
    let client = AgentClient::copilot();
    works_as_its_profile_says(client, "create", "bash", None);
}

#[test]
fn opencode_works_as_its_profile_says() {
    let client = AgentClient::opencode();
    works_as_its_profile_says(client, "write", "bash", Some((300, 60)));
}

#[test]
fn copilot_resumes_its_session() {
    let client = AgentClient::copilot();
    resumes_its_session(client, "another");
}

#[test]
fn opencode_resumes_its_session() {
    let client = AgentClient::opencode();
    resumes_its_session(client, "scripted/another");
}

#[test]
fn a_refusal_of_copilot_is_a_limit() {
    let client = AgentClient::copilot();
    for (status, kind) in [(429, "rate_limit_exceeded"), (503, "server_is_overloaded")] {
        let refusal = Turn::api_error(status, kind, "Not now.");
        assert_eq!(is_refused(client.clone(), &refusal, &[], Some(status)).until, None);
    }
}

#[test]
fn a_refusal_of_opencode_is_a_limit() {
    let client = AgentClient::opencode();
    let refusal = Turn::api_error(429, "rate_limit_exceeded", "Not now.");
    assert_eq!(is_refused(client, &refusal, &[], Some(429)).until, None);
}
