//! Recorded inputs of the real client and the exact bytes of the answers.

use proptest::prelude::*;

use super::*;

const SUBAGENT_STOP: &[u8] = include_bytes!("../../../../fixtures/claude/subagent_stop.first.json");
const COMPACTION: &[u8] = include_bytes!("../../../../fixtures/claude/subagent_stop.compaction.json");

#[test]
fn a_lone_surrogate_does_not_invalidate_the_input() {
    for (message, read) in [
        (r"ok \ud83d", "ok \u{fffd}"),
        (r"\ude00 \ud83d\ude00", "\u{fffd} 😀"),
        (r"\ud83d\ud83d\ude00", "\u{fffd}😀"),
        (r"a\\ud83d \ud83d", "a\\ud83d \u{fffd}"),
    ] {
        let input =
            format!(r#"{{"hook_event_name":"Stop","session_id":"s","last_assistant_message":"{message}"}}"#);
        assert_eq!(parse(input.as_bytes()).expect("a stop").last_message, read, "{message}");
    }
}

#[test]
fn the_sub_agents_name_is_read_from_the_real_payload() {
    let call = parse(SUBAGENT_STOP).expect("a recorded input");
    assert_eq!(call.event, HookEvent::SubagentStop);
    assert_eq!(call.agent_type.as_deref(), Some("general-purpose"));
    assert_eq!(call.agent.expect("an id").as_str(), "a0000000000000001");
    assert_eq!(call.last_message, "Sub answer one.");
    assert_eq!(call.cwd.as_deref(), Some("/project"));
}

#[test]
fn a_field_called_subagent_type_is_ignored() {
    let call = parse(br#"{"hook_event_name":"SubagentStop","subagent_type":"check","agent_output":"x"}"#)
        .expect("JSON");
    assert_eq!(call.agent_type, None);
}

#[test]
fn a_compaction_has_an_empty_agent_type() {
    assert_eq!(parse(COMPACTION).expect("a recorded input").agent_type.as_deref(), Some(""));
}

#[test]
fn every_recorded_event_is_parsed_or_ignored() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/claude");
    let mut seen = 0;
    for entry in walk(folder) {
        let call = parse(&entry).expect("a recorded input");
        assert!(call.session.is_some());
        seen += 1;
    }
    assert_eq!(seen, 29);
}

#[expect(clippy::disallowed_methods, reason = "a test reads its fixtures")]
fn walk(folder: &str) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(folder).expect("the fixtures");
    entries.map(|entry| std::fs::read(entry.expect("an entry").path()).expect("a file")).collect()
}

#[test]
fn unreadable_input_is_an_error_not_a_panic() {
    assert_eq!(parse(b""), Err(HookInputError::Empty));
    assert_eq!(parse(b" \n"), Err(HookInputError::Empty));
    for bytes in [&b"{"[..], b"[]", b"null", b"{}", br#"{"hook_event_name":7}"#, b"\xff\xfe"] {
        assert!(matches!(parse(bytes), Err(HookInputError::NotAHookInput(_))), "{bytes:?}");
    }
}

#[test]
fn a_block_is_exactly_what_the_client_takes() {
    let reply = HookReply::Block { reason: "one line".into(), detail: "all of it".into(), user: None };
    let bytes = render(&reply, &HookEvent::SubagentStop);
    assert_eq!(
        String::from_utf8(bytes.stdout).expect("text"),
        "{\"decision\":\"block\",\"hookSpecificOutput\":{\"additionalContext\":\"all of it\",\
         \"hookEventName\":\"SubagentStop\"},\"reason\":\"one line\"}\n"
    );
}

#[test]
fn teammates_and_tasks_are_blocked_by_exit_code_and_stderr() {
    let reply = HookReply::Block { reason: "why".into(), detail: "more".into(), user: Some("p".into()) };
    let task = HookEvent::TaskCompleted { id: "1".into(), subject: "s".into(), team: None };
    for event in [HookEvent::TeammateIdle, task] {
        let held = render(&reply, &event);
        assert_eq!((held.exit_code, held.stderr.as_str(), held.stdout.len()), (2, "why\n\nmore\n", 0));
        assert_eq!(render(&HookReply::Silent, &event), RenderedReply::default());
    }
    assert_eq!(render(&reply, &HookEvent::SubagentStop).exit_code, 0);
}

#[test]
fn the_events_of_a_team_are_read_from_real_payloads() {
    let read = |bytes: &[u8]| parse(bytes).expect("a call");
    let idle = read(include_bytes!("../../../../fixtures/claude/teammate_idle.json"));
    let stop = read(include_bytes!("../../../../fixtures/claude/subagent_stop.teammate.json"));
    let completed = read(include_bytes!("../../../../fixtures/claude/task_completed.json"));
    assert_eq!((&idle.event, idle.agent_type.as_deref()), (&HookEvent::TeammateIdle, Some("bob")));
    assert_eq!(idle.agent, stop.agent, "by which both are one attempt");
    let task = HookEvent::TaskCompleted { id: "1".into(), subject: "Build it".into(), team: None };
    assert_eq!(completed.event, task);
}

#[test]
fn allowing_prints_nothing_or_a_message_and_never_allow() {
    assert!(render(&HookReply::Silent, &HookEvent::SubagentStop).stdout.is_empty());
    let reply = HookReply::Notify { user: Some("p".into()), agent: Some("a".into()) };
    let on =
        |event| serde_json::from_slice::<Value>(&render(&reply, &event).stdout).expect("one JSON object");
    // Context on a stop event would block the agent.
    assert_eq!(on(HookEvent::Stop { background: Vec::new() }), json!({"systemMessage": "p"}));
    assert_eq!(
        on(HookEvent::UserPromptSubmit { prompt: "p".into() }),
        json!({"systemMessage": "p", "hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": "a"}})
    );
}

#[test]
fn context_stays_below_what_the_client_shows_whole() {
    let reply = HookReply::Block { reason: "r".into(), detail: "é".repeat(20_000), user: None };
    let value: Value =
        serde_json::from_slice(&render(&reply, &HookEvent::Stop { background: Vec::new() }).stdout)
            .expect("JSON");
    let context = value["hookSpecificOutput"]["additionalContext"].as_str().expect("text");
    assert!(context.chars().count() <= MOST_CONTEXT);
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _call = parse(&bytes);
    }

    #[test]
    fn any_reason_becomes_one_json_object_with_one_decision(reason in ".{1,80}", detail in ".{0,300}") {
        let reply = HookReply::Block { reason: reason.clone(), detail, user: None };
        let bytes = render(&reply, &HookEvent::SubagentStop);
        let value: Value = serde_json::from_slice(&bytes.stdout).expect("JSON");
        prop_assert_eq!(&value["decision"], "block");
        // The client shows it on a terminal.
        let shown = for_terminal(&reason, &[]);
        prop_assert_eq!(value["reason"].as_str(), Some(shown.as_str()));
    }
}

#[test]
fn only_the_main_session_reaches_the_user() {
    let call = |event: &str, agent: &str| {
        parse(format!(r#"{{"hook_event_name":"{event}","session_id":"s"{agent}}}"#).as_bytes()).expect("JSON")
    };
    for event in ["UserPromptSubmit", "PostToolUse", "Stop"] {
        assert!(reaches_user(&call(event, "")), "{event}");
        assert!(!reaches_user(&call(event, r#","agent_id":"a1","agent_type":"worker""#)), "{event}");
    }
    // `--agent` names the main thread.
    assert!(reaches_user(&call("Stop", r#","agent_type":"check""#)));
    assert!(!reaches_user(&call("SubagentStop", r#","agent_id":"a1","agent_type":"check""#)));
}

#[test]
fn an_answer_is_read_as_it_was_meant() {
    let stop = || HookEvent::Stop { background: Vec::new() };
    let prompt = || HookEvent::UserPromptSubmit { prompt: "p".into() };
    let command = || HookEvent::UserPromptExpansion { command: "c".into(), arguments: String::new() };
    let tool = HookEvent::PreToolUse { tool: "LSP".into(), file: None };
    for (reply, event) in [
        (HookReply::Silent, stop()),
        (HookReply::Notify { user: Some("p".into()), agent: None }, stop()),
        (HookReply::Notify { user: Some("p".into()), agent: Some("a".into()) }, prompt()),
        (HookReply::Block { reason: "r".into(), detail: "d".into(), user: Some("p".into()) }, stop()),
        (HookReply::Block { reason: "r".into(), detail: "d".into(), user: None }, HookEvent::SubagentStop),
        (HookReply::Answer { user: "p".into() }, command()),
        (HookReply::Answer { user: "p".into() }, prompt()),
        (HookReply::Deny { reason: "r".into() }, tool),
    ] {
        assert_eq!(read_answer(&render(&reply, &event).stdout), reply, "{event:?}");
    }
    assert_eq!(read_answer(b"no JSON"), HookReply::Silent);
}
