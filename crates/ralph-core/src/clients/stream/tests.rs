//! Recorded output of real runs and the expected events.

use proptest::prelude::*;

use super::*;
use crate::clients::list;
use crate::clients::stream::dialect::Dialect;

macro_rules! recorded {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_bytes!(concat!("../../../fixtures/streams/", $name, ".jsonl")).as_slice())),+]
    };
}

const RECORDED: [(&str, &[u8]); 22] = recorded![
    "claude.api_error",
    "claude.background_subagent",
    "claude.block_then_exit2",
    "claude.denied",
    "claude.max_turns",
    "claude.overloaded",
    "claude.rate_limit",
    "claude.resumed",
    "claude.usage_limit",
    "codex.api_error",
    "codex.block_then_exit2",
    "codex.edit",
    "codex.overloaded",
    "codex.subagent",
    "codex.tool",
    "codex.usage_limit",
    "copilot.block",
    "gemini.block_then_exit2",
    "gemini.overloaded",
    "gemini.quota",
    "gemini.tool",
    "opencode.run",
];

fn bytes_of(name: &str) -> &'static [u8] {
    RECORDED.iter().find(|(recorded, _)| *recorded == name).expect("a recording").1
}

fn dialect_of(name: &str) -> Dialect {
    let dialect = name.split('.').next().expect("a name");
    serde_json::from_value(dialect.into()).expect("the file is named after its dialect")
}

fn read(dialect: Dialect, stream: &[u8]) -> (Vec<AgentEvent>, StreamSummary) {
    read_with(list::stream_reader(dialect, Micros::ZERO), stream)
}

fn read_with(mut reader: StreamReader, stream: &[u8]) -> (Vec<AgentEvent>, StreamSummary) {
    let mut events = Vec::new();
    reader.feed(Channel::Output, stream, &mut |event| events.push(event));
    let summary = reader.end(&mut |event| events.push(event));
    (events, summary)
}

fn recorded(name: &str) -> (Vec<AgentEvent>, StreamSummary) {
    read(dialect_of(name), bytes_of(name))
}

/// The expected summary of one recording.
struct Expected {
    name: &'static str,
    ok: bool,
    reason: &'static str,
    text: &'static str,
    cost: Option<u64>,
    /// In, cached, out.
    tokens: (u64, u64, u64),
    tools: &'static [(&'static str, u32)],
    retries: u32,
    status: Option<u16>,
    is_limit: bool,
}

const fn done(name: &'static str, text: &'static str) -> Expected {
    Expected {
        name,
        ok: true,
        reason: "completed",
        text,
        cost: None,
        tokens: (300, 0, 60),
        tools: &[],
        retries: 0,
        status: None,
        is_limit: false,
    }
}

const EXPECTED: [Expected; 22] = [
    Expected {
        ok: false,
        reason: "api_error",
        cost: Some(0),
        tokens: (0, 0, 0),
        status: Some(400),
        ..done("claude.api_error", "API Error: 400 nope")
    },
    // Two results; cost and tokens of both, including the sub-agent, counted once.
    Expected {
        cost: Some(5_600),
        tokens: (700, 0, 140),
        tools: &[("Agent", 1), ("Bash", 1)],
        ..done("claude.background_subagent", "Main done 2.")
    },
    Expected { cost: Some(2_400), ..done("claude.block_then_exit2", "Third answer.") },
    Expected {
        cost: Some(4_000),
        tokens: (500, 0, 100),
        tools: &[("Bash", 3), ("Write", 1)],
        ..done("claude.denied", "I could not.")
    },
    Expected {
        ok: false,
        reason: "max_turns",
        cost: Some(2_400),
        ..done("claude.max_turns", "Reached maximum number of turns (3)")
    },
    Expected {
        ok: false,
        reason: "api_error",
        cost: Some(0),
        tokens: (0, 0, 0),
        retries: 2,
        status: Some(529),
        is_limit: true,
        ..done(
            "claude.overloaded",
            "API Error: Repeated 529 Overloaded errors. The API is at capacity — this is usually temporary. Try again \
             in a moment. If it persists, check your inference gateway (127.0.0.1:1).",
        )
    },
    Expected {
        ok: false,
        reason: "api_error",
        cost: Some(0),
        tokens: (0, 0, 0),
        retries: 1,
        status: Some(429),
        is_limit: true,
        ..done("claude.rate_limit", "API Error: Request rejected (429) · limit")
    },
    // Its running total is twice as much, because the session had run before.
    Expected { cost: Some(800), tokens: (100, 0, 20), ..done("claude.resumed", "First answer.") },
    Expected {
        ok: false,
        reason: "api_error",
        cost: Some(0),
        tokens: (0, 0, 0),
        status: Some(429),
        is_limit: true,
        ..done("claude.usage_limit", "You've hit your 5-hour limit · resets 3:17am (UTC)")
    },
    Expected {
        ok: false,
        reason: "turn_failed",
        tokens: (0, 0, 0),
        status: Some(429),
        is_limit: true,
        ..done("codex.api_error", "exceeded retry limit, last status: 429 Too Many Requests")
    },
    done("codex.block_then_exit2", "Third answer."),
    Expected { tokens: (200, 0, 40), tools: &[("edit", 1)], ..done("codex.edit", "Done.") },
    Expected {
        ok: false,
        reason: "turn_failed",
        tokens: (0, 0, 0),
        retries: 1,
        status: Some(503),
        is_limit: true,
        ..done(
            "codex.overloaded",
            "unexpected status 503 Service Unavailable: Overloaded, url: http://127.0.0.1:1/v1/responses",
        )
    },
    Expected { tools: &[("spawn_agent", 1)], ..done("codex.subagent", "Main done.") },
    Expected { tools: &[("shell", 1)], ..done("codex.tool", "Done.") },
    Expected {
        ok: false,
        reason: "turn_failed",
        tokens: (0, 0, 0),
        is_limit: true,
        ..done("codex.usage_limit", "You’ve hit your usage limit. Try again later.")
    },
    Expected { tokens: (0, 0, 0), ..done("copilot.block", "Second answer.") },
    Expected { reason: "success", ..done("gemini.block_then_exit2", "Third answer.") },
    // Only the exit code shows this limit, see `add_exit`.
    Expected {
        ok: false,
        reason: "unknown",
        tokens: (0, 0, 0),
        ..done("gemini.overloaded", "[API Error: The model is overloaded. Please try again later.]")
    },
    Expected {
        ok: false,
        reason: "unknown",
        tokens: (0, 0, 0),
        is_limit: true,
        ..done(
            "gemini.quota",
            "[API Error: Quota exceeded for metric. Please retry in 3600s.]\nPlease wait and try again later. To increase \
             your limits, request a quota increase through AI Studio, or switch to another /auth method",
        )
    },
    Expected {
        reason: "success",
        tokens: (200, 0, 40),
        tools: &[("run_shell_command", 1)],
        ..done("gemini.tool", "Done.")
    },
    Expected { reason: "stop", cost: Some(0), tokens: (100, 0, 20), ..done("opencode.run", "First answer.") },
];

#[test]
fn every_recorded_stream_gives_the_expected_summary() {
    for (expected, (name, bytes)) in EXPECTED.iter().zip(RECORDED) {
        assert_eq!(expected.name, name);
        let (events, summary) = recorded(name);
        let result = summary.result.as_ref().expect(name);
        assert_eq!((result.ok, result.reason.as_deref()), (expected.ok, Some(expected.reason)), "{name}");
        assert_eq!(result.text, expected.text, "{name}");
        assert_eq!(summary.cost.map(Micros::get), expected.cost, "{name}");
        let Tokens { input, cached, output } = summary.tokens;
        assert_eq!((input, cached, output), expected.tokens, "{name}");
        let tools: Vec<(&str, u32)> =
            summary.tools.iter().map(|(tool, count)| (tool.as_str(), *count)).collect();
        assert_eq!(tools, expected.tools, "{name}");
        assert_eq!((summary.retries, result.status), (expected.retries, expected.status), "{name}");
        assert_eq!(summary.limit.is_some(), expected.is_limit, "{name}");
        assert_eq!(summary.unknown, 0, "{name}: {events:?}");
        assert_eq!(summary.lines, bytes.iter().filter(|byte| **byte == b'\n').count() as u64, "{name}");
        assert_eq!(summary.bytes, bytes.len() as u64, "{name}");
        assert!(summary.session.as_ref().is_some_and(|id| is_session_id(id.as_str())), "{name}");
        let last = events.iter().rposition(|event| matches!(event, AgentEvent::Result(_)));
        assert_eq!(events[last.expect(name)], AgentEvent::Result(result.clone()), "{name}");
    }
}

#[test]
fn events_come_in_order_and_only_from_the_agent_itself() {
    let said = |name: &str| -> Vec<String> {
        let said = |event| match event {
            AgentEvent::Said { text } => Some(text),
            _ => None,
        };
        recorded(name).0.into_iter().filter_map(said).collect()
    };
    let three = ["First answer.", "Second answer.", "Third answer."];
    assert_eq!(said("claude.block_then_exit2"), three);
    assert_eq!(said("codex.block_then_exit2"), three);
    assert_eq!(said("gemini.block_then_exit2"), three);
    assert_eq!(said("copilot.block"), three[..2]);
    assert_eq!(said("opencode.run"), three[..1]);
    assert_eq!(said("claude.background_subagent"), ["Delegating.", "Main done.", "Main done 2."]);
    assert_eq!(recorded("codex.block_then_exit2").1.last_words, three.join("\n"));
    let shell =
        AgentEvent::UsedTool { name: "shell".into(), about: "/bin/bash -lc 'echo hi; exit 3'".into() };
    assert!(recorded("codex.tool").0.contains(&shell));
    let retry = AgentEvent::Retry {
        attempt: 2,
        status: Some(529),
        why: "overloaded".into(),
        wait: Some(Duration::from_millis(1158)),
    };
    assert!(recorded("claude.overloaded").0.contains(&retry));
}

#[test]
fn denials_are_reported_at_once_and_counted_once() {
    let (events, summary) = recorded("claude.denied");
    let denied = |event: &&AgentEvent| matches!(event, AgentEvent::Denied { .. });
    let curl = "curl http://example.invalid/x";
    assert_eq!(events.iter().filter(denied).count(), 3);
    assert_eq!(
        events.iter().find(denied),
        Some(&AgentEvent::Denied { tool: "Bash".into(), about: curl.into() })
    );
    let rows: Vec<_> = summary.denials.iter().map(|row| (row.rule.as_str(), row.count)).collect();
    assert_eq!(rows, [("Bash(curl:*)", 2), ("Edit(//etc/never.txt)", 1)]);
    assert_eq!(summary.result.expect("a result").denials.len(), 3);
    // A client that lists them only in the result.
    let kept = String::from_utf8_lossy(bytes_of("claude.denied")).into_owned();
    let kept: String =
        kept.split_inclusive('\n').filter(|line| !line.contains("\"permission_denied\"")).collect();
    assert_eq!(read(Dialect::Claude, kept.as_bytes()).1.denials, summary.denials);
}

#[test]
fn without_a_cost_of_this_run_the_growth_of_the_total_counts() {
    let results =
        "{\"type\":\"result\",\"total_cost_usd\":0.5}\n{\"type\":\"result\",\"total_cost_usd\":0.7}\n";
    for (before, cost) in [(0, 700_000), (400_000, 300_000), (900_000, 700_000)] {
        let reader = list::stream_reader(Dialect::Claude, Micros::new(before));
        assert_eq!(read_with(reader, results.as_bytes()).1.cost, Some(Micros::new(cost)), "{before}");
    }
}

/// A limit and its end, if known.
type LimitSeen = Option<Option<i64>>;

fn limit_of(dialect: Dialect, lines: &[&str]) -> LimitSeen {
    let limit = read(dialect, lines.join("\n").as_bytes()).1.limit?;
    Some(limit.until.map(Timestamp::as_second))
}

#[test]
fn a_limit_is_read_only_from_the_clients_own_events() {
    use Dialect::{Claude, Codex, Copilot, Gemini, OpenCode, Plain};
    let rejected = r#"{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1794790000,"rateLimitType":"five_hour"}}"#;
    let in_millis =
        r#"{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1794790000000}}"#;
    let warned =
        r#"{"type":"rate_limit_event","rate_limit_info":{"status":"allowed_warning","resetsAt":1794790000}}"#;
    let refused =
        r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"limit"}"#;
    let fine =
        r#"{"type":"result","subtype":"success","is_error":false,"result":"5-hour limit reached, 429"}"#;
    let retry = r#"{"type":"system","subtype":"api_retry","attempt":10,"max_retries":10,"error_status":429}"#;
    let early = r#"{"type":"system","subtype":"api_retry","attempt":1,"max_retries":10,"error_status":529}"#;
    let server =
        r#"{"type":"system","subtype":"api_retry","attempt":10,"max_retries":10,"error_status":500}"#;
    let answer =
        r#"{"type":"assistant","message":{"content":[{"type":"text","text":"usage limit reached"}]}}"#;
    let synthetic = r#"{"type":"assistant","is_api_error_message":true,"message":{"content":[]}}"#;
    let failed = r#"{"type":"turn.failed","error":{"message":"stream error: status 500"}}"#;
    let usage = r#"{"type":"turn.failed","error":{"message":"You've hit your usage limit."}}"#;
    let capacity = r#"{"type":"turn.failed","error":{"message":"Selected model is at capacity. Please try a different model."}}"#;
    let typed = r#"{"type":"turn.failed","error":{"message":"no","code":"usage_limit_reached","resets_at":1794790000}}"#;
    let words =
        r#"{"type":"item.completed","item":{"type":"agent_message","text":"usage limit, status: 429"}}"#;
    let quota = r#"{"type":"result","timestamp":"2026-11-15T19:33:36Z","status":"error","error":{"type":"TerminalQuotaError","message":"Your quota will reset after 2h36m24s."}}"#;
    let other = r#"{"type":"result","status":"error","error":{"type":"Error","message":"quota, 429"}}"#;
    let advised = r#"{"type":"result","timestamp":"2026-11-15T19:33:36Z","status":"error","error":{"type":"unknown","message":"[API Error: no more. Please retry in 34.5s.]\nPlease wait and try again later. To increase"}}"#;
    let quoted = r#"{"type":"result","status":"error","error":{"type":"unknown","message":"[API Error: 429\nPlease wait and try again later.]"}}"#;
    let session_error = r#"{"type":"session.error","data":{"errorType":"quota","message":"no more"}}"#;
    let query_error = r#"{"type":"session.error","data":{"errorType":"query","message":"429"}}"#;
    let busy = r#"{"type":"error","error":{"name":"APIError","data":{"message":"no","statusCode":429}}}"#;
    let table: [(Dialect, &[&str], LimitSeen); 27] = [
        (Claude, &[refused], Some(None)),
        (Claude, &[rejected, synthetic, refused], Some(Some(1_794_790_000))),
        (Claude, &[in_millis, refused], Some(Some(1_794_790_000))),
        (Claude, &[rejected], Some(Some(1_794_790_000))),
        (Claude, &[rejected, answer], None),
        (Claude, &[rejected, fine], None),
        (Claude, &[refused, fine], None),
        (Claude, &[warned, refused], Some(None)),
        (Claude, &[warned], None),
        (Claude, &[fine], None),
        (Claude, &[answer], None),
        (Claude, &[retry], Some(None)),
        (Claude, &[retry, answer], None),
        (Claude, &[early], None),
        (Claude, &[server], None),
        (Codex, &[failed], None),
        (Codex, &[usage], Some(None)),
        (Codex, &[capacity], Some(None)),
        (Codex, &[typed], Some(Some(1_794_790_000))),
        (Codex, &[words], None),
        (Gemini, &[quota], Some(Some(1_794_780_600))),
        (Gemini, &[other], None),
        (Gemini, &[advised], Some(Some(1_794_771_250))),
        (Gemini, &[quoted], None),
        (Copilot, &[query_error, session_error], Some(None)),
        (OpenCode, &[busy], Some(None)),
        (Plain, &["usage limit reached: 429", rejected, refused], None),
    ];
    for (dialect, lines, limit) in table {
        assert_eq!(limit_of(dialect, lines), limit, "{dialect:?} {lines:?}");
    }
    assert_eq!(limit_of(Copilot, &[query_error]), None);
}

#[test]
fn the_message_of_a_client_that_fails_at_startup_is_kept() {
    let stderr = "YOLO mode is enabled.\n\u{1b}[31mNot a trusted directory: s3cr3t-value.\u{1b}[0m\n\n";
    let secrets = Secrets::from_variables([("A_TOKEN", "s3cr3t-value")]);
    for dialect in [Dialect::Claude, Dialect::Codex, Dialect::Gemini] {
        let (_, summary) =
            read_with(list::stream_reader(dialect, Micros::ZERO).hiding(secrets.clone()), stderr.as_bytes());
        assert_eq!((summary.unknown, summary.result), (2, None));
        assert_eq!(summary.last_unknown, "Not a trusted directory: [redacted].");
    }
}

#[test]
fn what_is_shown_is_short_and_clean() {
    let long = "x".repeat(10_000);
    let line = format!(
        "{{\"type\":\"assistant\",\"message\":{{\"content\":[{{\"type\":\"text\",\"text\":\"\\u001b[31mred {long}\"}},\
         {{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"Bash\",\"input\":{{\"command\":\"curl\\n -H s3cr3t-value {long}\"}}}}]}}}}"
    );
    let secrets = Secrets::from_variables([("A_TOKEN", "s3cr3t-value")]);
    let (events, _) =
        read_with(list::stream_reader(Dialect::Claude, Micros::ZERO).hiding(secrets), line.as_bytes());
    let [AgentEvent::Said { text }, AgentEvent::UsedTool { about, .. }] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert!(text.starts_with("red xxx") && text.ends_with("x…") && text.chars().count() == 2_000, "{text}");
    assert!(about.starts_with("curl -H [redacted] xxx") && about.chars().count() == 200, "{about}");
}

/// Every client's message and end, with `WORDS` as the message.
const SAYS: [(Dialect, &str); 5] = [
    (Dialect::Claude, r#"{"type":"result","subtype":"success","is_error":false,"result":"WORDS"}"#),
    (
        Dialect::Codex,
        "{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"WORDS\"}}\n{\"type\":\"turn.completed\"}",
    ),
    (
        Dialect::Gemini,
        "{\"type\":\"message\",\"role\":\"assistant\",\"content\":\"WORDS\",\"delta\":true}\n{\"type\":\"result\",\"status\":\"success\"}",
    ),
    (
        Dialect::Copilot,
        "{\"type\":\"assistant.message\",\"data\":{\"content\":\"WORDS\"}}\n{\"type\":\"result\",\"exitCode\":0}",
    ),
    (
        Dialect::OpenCode,
        "{\"type\":\"text\",\"part\":{\"text\":\"WORDS\"}}\n{\"type\":\"step_finish\",\"part\":{\"reason\":\"stop\"}}",
    ),
];

/// The promise is at the end of a possibly long message.
#[test]
fn the_end_of_a_last_message_is_kept_however_long_it_is() {
    let promise = crate::claims::promise::Promise::new("SHUT").expect("a promise");
    for (dialect, stream) in SAYS {
        for lines in [1, 100, 3_000, 40_000] {
            let words = format!("{}<promise>SHUT</promise>", "a long story, é\\n".repeat(lines));
            let (_, summary) = read(dialect, format!("{}\n", stream.replace("WORDS", &words)).as_bytes());
            let text = summary.result.unwrap_or_else(|| panic!("{dialect:?}: no result")).text;
            let seen = crate::claims::promise::look(&promise, &text);
            assert_eq!(seen, crate::model::promise_seen::PromiseSeen::Given, "{dialect:?}, {lines} lines");
            assert!(text.chars().count() <= 20_001, "{dialect:?}: {}", text.chars().count());
        }
    }
}

#[test]
fn an_unsafe_session_id_is_ignored() {
    for (id, fits) in [
        ("00000000-0000-4000-8000-000000000001", true),
        ("ses_e1f481afcffeIYOqZqCGtPezQT", true),
        ("T-1", true),
        ("--dangerously-skip-permissions", false),
        ("../../x", false),
        ("a b", false),
        ("", false),
    ] {
        let line = format!("{{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"{id}\"}}");
        assert_eq!(read(Dialect::Claude, line.as_bytes()).1.session.is_some(), fits, "{id}");
        let line = format!("{{\"type\":\"thread.started\",\"thread_id\":\"{id}\"}}");
        assert_eq!(read(Dialect::Codex, line.as_bytes()).1.session.is_some(), fits, "{id}");
    }
}

#[test]
fn unrecognised_lines_are_only_counted() {
    let odd: [&[u8]; 7] = [
        b"warning: something went to the wrong pipe",
        b"{\"type\":\"something_new\",\"session_id\":\"x\"}",
        b"{\"type\":\"system\",\"subtype\":\"something_new\"}",
        b"{\"type\":",
        b"[1,2]",
        b"\xff\xfe\x00",
        b"null",
    ];
    let mut stream = odd.join(b"\n".as_slice());
    stream.extend_from_slice(b"\r\n\n  \n");
    stream.extend_from_slice(bytes_of("claude.block_then_exit2"));
    let (_, summary) = read(Dialect::Claude, &stream);
    assert_eq!(summary.unknown, odd.len() as u64);
    let (_, alone) = recorded("claude.block_then_exit2");
    assert_eq!(summary.lines, alone.lines + odd.len() as u64);
    assert_eq!((summary.result, summary.cost), (alone.result, alone.cost));
}

#[test]
fn invalid_utf8_does_not_lose_the_line() {
    let (_, summary) =
        read(Dialect::Claude, b"{\"type\":\"result\",\"subtype\":\"success\",\"result\":\"caf\xe9\"}\n");
    assert_eq!(summary.result.map(|result| (result.ok, result.text)), Some((true, "caf\u{fffd}".into())));
}

#[test]
fn a_line_that_is_too_long_is_skipped_to_its_end_wherever_it_is_cut() {
    let after = b"{\"type\":\"result\",\"subtype\":\"success\",\"result\":\"after\"}";
    let mut stream = vec![b'x'; LONGEST_LINE + 1];
    stream.push(b'\n');
    stream.extend_from_slice(after);
    for size in [stream.len(), LONGEST_LINE + 1, LONGEST_LINE, 1 << 20] {
        let mut reader = list::stream_reader(Dialect::Claude, Micros::ZERO);
        for chunk in stream.chunks(size) {
            reader.feed(Channel::Output, chunk, &mut |_| {});
            assert!(reader.output.line.len() <= LONGEST_LINE);
        }
        let summary = reader.end(&mut |_| {});
        assert_eq!((summary.unknown, summary.lines), (1, 2), "in pieces of {size}");
        assert_eq!(summary.result.expect("a result").text, "after");
    }
    // One byte less is an ordinary line.
    let mut stream = vec![b' '; LONGEST_LINE - after.len()];
    stream.extend_from_slice(after);
    assert_eq!(read(Dialect::Claude, &stream).1.unknown, 0);
}

#[test]
fn a_flood_of_output_keeps_only_its_summary() {
    const FLOOD: usize = 64 * 1024 * 1024;
    let line = format!(
        "{{\"type\":\"user\",\"message\":{{\"content\":[{{\"type\":\"tool_result\",\"content\":\"{}\"}}]}}}}\n",
        "0123456789abcdef".repeat(8 * 1024)
    );
    let mut reader = list::stream_reader(Dialect::Claude, Micros::ZERO);
    let (mut fed, mut largest) = (0, 0);
    while fed < FLOOD {
        for chunk in line.as_bytes().chunks(64 * 1024) {
            reader.feed(Channel::Output, chunk, &mut |_| {});
            fed += chunk.len();
            largest = largest.max(reader.output.line.capacity());
        }
    }
    assert!(largest <= 4 * line.len(), "{largest} bytes are kept of lines of {}", line.len());
    let summary = reader.end(&mut |_| {});
    assert_eq!((summary.bytes, summary.unknown), (fed as u64, 0));
    assert!(serde_json::to_vec(&summary).expect("plain data").len() < 1_000);
}

/// Lines of every dialect, whole and broken, in any order.
fn any_stream() -> impl Strategy<Value = Vec<u8>> {
    let lines: Vec<Vec<u8>> = RECORDED
        .iter()
        .flat_map(|(_, bytes)| bytes.split_inclusive(|byte| *byte == b'\n'))
        .map(<[u8]>::to_vec)
        .collect();
    let piece = prop_oneof![
        6 => proptest::sample::select(lines.clone()),
        2 => (proptest::sample::select(lines), any::<prop::sample::Index>()).prop_map(|(mut line, at)| {
            let at = at.index(line.len());
            line.truncate(at);
            line
        }),
        1 => proptest::collection::vec(any::<u8>(), 0..40),
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn bytes_may_be_split_anywhere(
        stream in any_stream(), dialect in proptest::sample::select(Dialect::ALL.to_vec()), cuts in proptest::collection::vec(1usize..600, 1..20),
    ) {
        let (events, whole) = read(dialect, &stream);
        let (mut reader, mut rest, mut seen) = (list::stream_reader(dialect, Micros::ZERO), stream.as_slice(), Vec::new());
        for size in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (chunk, after) = rest.split_at(rest.len().min(*size));
            reader.feed(Channel::Output, chunk, &mut |event| seen.push(event));
            rest = after;
        }
        prop_assert_eq!(reader.end(&mut |event| seen.push(event)), whole);
        prop_assert_eq!(seen, events);
    }

    /// Warnings on stderr may come at any time and must not split a line.
    #[test]
    fn stderr_lines_do_not_split_stdout_lines(
        stream in any_stream(), dialect in proptest::sample::select(Dialect::ALL.to_vec()), cut in 0usize..4000,
    ) {
        const WARNING: &str = "(node:1) a warning, which is\n";
        let (events, whole) = read(dialect, &stream);
        let (mut reader, mut seen) = (list::stream_reader(dialect, Micros::ZERO), Vec::new());
        let (before, after) = stream.split_at(cut.min(stream.len()));
        reader.feed(Channel::Output, before, &mut |event| seen.push(event));
        let told = seen.len();
        reader.feed(Channel::Errors, WARNING.as_bytes(), &mut |event| seen.push(event));
        let warned: Vec<AgentEvent> = seen.drain(told..).collect();
        prop_assert_eq!(warned, read(dialect, WARNING.as_bytes()).0);
        reader.feed(Channel::Output, after, &mut |event| seen.push(event));
        let summary = reader.end(&mut |event| seen.push(event));
        prop_assert_eq!(summary.bytes, whole.bytes + WARNING.len() as u64);
        prop_assert_eq!(seen, events);
    }

    #[test]
    fn the_summary_is_a_fold_of_the_events_and_both_serialize(
        stream in any_stream(), dialect in proptest::sample::select(Dialect::ALL.to_vec()),
    ) {
        let (events, summary) = read(dialect, &stream);
        let mut folded = StreamSummary {
            lines: summary.lines,
            bytes: summary.bytes,
            last_unknown: summary.last_unknown.clone(),
            ..StreamSummary::default()
        };
        for event in &events {
            folded.apply(event);
            let text = serde_json::to_string(event).expect("plain data");
            prop_assert_eq!(&serde_json::from_str::<AgentEvent>(&text).expect("our own words"), event);
        }
        let text = serde_json::to_string(&summary).expect("plain data");
        prop_assert_eq!(&serde_json::from_str::<StreamSummary>(&text).expect("our own words"), &summary);
        prop_assert_eq!(folded, summary);
    }

    #[test]
    fn no_bytes_make_it_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..400), dialect in proptest::sample::select(Dialect::ALL.to_vec()),
    ) {
        let (_, summary) = read(dialect, &bytes);
        prop_assert_eq!(summary.bytes, bytes.len() as u64);
    }
}
