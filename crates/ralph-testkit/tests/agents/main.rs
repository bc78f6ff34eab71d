//! The profiles of the driver against the real clients: the command line that the driver would run, the real program, a
//! scripted model, and the stream read as the driver reads it. A flag that a client does not have, a prompt that does not
//! arrive or a row of the stream that we misread shows up here, before any loop is run.

mod scene;

use std::time::SystemTime;

use ralph_core::clients::stream::UsageLimit;
use ralph_testkit::{AgentClient, Turn};
use scene::{is_refused, resumes_its_session, works_as_its_profile_says};

#[test]
fn claude_works_as_its_profile_says() {
    let client = AgentClient::claude();
    works_as_its_profile_says(client, "Write", "Bash", Some((300, 60)));
}

#[test]
fn codex_works_as_its_profile_says() {
    let client = AgentClient::codex();
    works_as_its_profile_says(client, "edit", "shell", Some((300, 60)));
}

#[test]
fn gemini_works_as_its_profile_says() {
    let client = AgentClient::gemini();
    works_as_its_profile_says(client, "write_file", "run_shell_command", Some((300, 60)));
}

#[test]
fn claude_resumes_its_session() {
    let client = AgentClient::claude();
    resumes_its_session(client, "claude-haiku-4-5");
}

#[test]
fn codex_resumes_its_session() {
    let client = AgentClient::codex();
    resumes_its_session(client, "another-model");
}

#[test]
fn gemini_resumes_its_session() {
    let client = AgentClient::gemini();
    resumes_its_session(client, "gemini-2.5-pro");
}

fn seconds_from_now(limit: &UsageLimit) -> Option<i64> {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    limit.until.map(|until| until.as_second() - i64::try_from(now).unwrap())
}

#[test]
fn a_subscription_of_claude_says_when_it_can_be_used_again() {
    let client = AgentClient::claude();
    let reset = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() + 3600;
    let refusal = Turn::api_error(429, "rate_limit_error", "This request would exceed your rate limit.")
        .header("anthropic-ratelimit-unified-status", "rejected")
        .header("anthropic-ratelimit-unified-representative-claim", "five_hour")
        .header("anthropic-ratelimit-unified-reset", reset.to_string());
    let subscription = [("ANTHROPIC_API_KEY", ""), ("CLAUDE_CODE_OAUTH_TOKEN", "dummy")];
    let limit = is_refused(client, &refusal, &subscription, Some(429));
    let until = limit.until.expect("a stated end");
    assert_eq!(Ok(until.as_second()), i64::try_from(reset));
}

#[test]
fn an_overload_of_claude_is_a_limit() {
    let client = AgentClient::claude();
    let refusal = Turn::api_error(529, "overloaded_error", "Overloaded");
    let limit = is_refused(client, &refusal, &[("CLAUDE_CODE_MAX_RETRIES", "1")], Some(529));
    assert_eq!(limit.until, None);
}

#[test]
fn a_refusal_of_codex_is_a_limit() {
    let client = AgentClient::codex();
    for (status, kind, message) in [
        (429, "usage_limit_reached", None),
        (429, "rate_limit_exceeded", Some(429)),
        (503, "server_is_overloaded", None),
        (503, "of some other kind", Some(503)),
    ] {
        let refusal = Turn::api_error(status, kind, "Not now.");
        assert_eq!(is_refused(client.clone(), &refusal, &[], message).until, None);
    }
}

/// Only a distant end: the client itself waits for a near one, and four minutes for an overload.
#[test]
fn a_quota_of_gemini_is_a_limit_with_its_end() {
    let client = AgentClient::gemini();
    let refusal = Turn::api_error(429, "RESOURCE_EXHAUSTED", "Quota exceeded. Please retry in 3600s.");
    let limit = is_refused(client, &refusal, &[], Some(429));
    let seconds = seconds_from_now(&limit).expect("a stated end");
    assert!((3500..=3600).contains(&seconds), "{limit:?}");
}
