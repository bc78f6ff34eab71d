//! The scripted model as a client sees it: over a socket, in plain HTTP.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use ralph_testkit::{Lane, MAX_REQUESTS, Script, ScriptedModel, Turn};
use serde_json::{Value, json};

/// Sends one request and returns the status and the body of the answer.
fn send(model: &ScriptedModel, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(model.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let length = body.len();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: model\r\nContent-Length: {length}\r\n\r\n{body}")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn asking(text: &str) -> Value {
    json!({"model": "some-model", "tools": [{"name": "Bash"}], "messages": [{"role": "user", "content": text}]})
}

fn ask(model: &ScriptedModel, text: &str) -> Value {
    let (status, body) = send(model, "POST", "/v1/messages?beta=true", &asking(text).to_string());
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

fn start(script: Script) -> ScriptedModel {
    ScriptedModel::start(script).unwrap()
}

#[test]
fn a_turn_is_answered_in_one_body() {
    let model = start(Script::new().main(vec![Turn::say("hello").expecting("greet me")]));
    let answer = ask(&model, "please greet me");
    assert_eq!(answer["content"], json!([{"type": "text", "text": "hello"}]));
    assert_eq!(answer["stop_reason"], "end_turn");
    assert_eq!(answer["model"], "some-model");
    let served = model.finish();
    served.assert_clean();
    assert_eq!(served.requests.len(), 1);
    assert_eq!((served.requests[0].lane.as_str(), served.requests[0].turn), ("main", 0));
    assert_eq!(served.requests[0].last_user, "please greet me");
    assert_eq!(served.requests[0].body["model"], "some-model");
}

#[test]
fn a_turn_is_answered_as_a_stream() {
    let model = start(Script::new().main(vec![Turn::agent("general-purpose", "SUBTASK", true)]));
    let mut body = asking("go");
    body["stream"] = true.into();
    let (status, stream) = send(&model, "POST", "/v1/messages", &body.to_string());
    assert_eq!(status, 200);
    let events: Vec<Value> = stream
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    let names: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop"
        ]
    );
    assert_eq!(events[1]["content_block"]["name"], "Agent");
    let input: Value = serde_json::from_str(events[2]["delta"]["partial_json"].as_str().unwrap()).unwrap();
    assert_eq!(input["prompt"], "SUBTASK");
    assert_eq!(input["subagent_type"], "general-purpose");
    assert_eq!(input["run_in_background"], true);
    assert_eq!(events[4]["delta"]["stop_reason"], "tool_use");
    model.finish().assert_clean();
}

#[test]
fn lanes_take_their_own_requests() {
    let lane = Lane::new("check").when_first_user_contains("SUBTASK");
    let script = Script::new()
        .lane(lane.turns(vec![Turn::say("checked")]).then_repeat(Turn::say("still checked")))
        .main(vec![Turn::say("main")]);
    let model = start(script);
    assert_eq!(ask(&model, "a SUBTASK")["content"][0]["text"], "checked");
    assert_eq!(ask(&model, "the work")["content"][0]["text"], "main");
    assert_eq!(ask(&model, "a SUBTASK")["content"][0]["text"], "still checked");
    let served = model.finish();
    served.assert_clean();
    assert_eq!(served.lane("check").iter().map(|request| request.turn).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(served.lane("main").len(), 1);
}

#[test]
#[should_panic(expected = "has no `when_…`")]
fn a_lane_without_a_condition_is_a_mistake() {
    let _script = Script::new().lane(Lane::new("all"));
}

#[test]
fn a_missed_needle_is_a_problem() {
    let model =
        start(Script::new().main(vec![Turn::say("ok").expecting("FEEDBACK").expecting_not("SECRET")]));
    ask(&model, "a SECRET instead");
    let problems = model.finish().problems;
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].contains("FEEDBACK") && problems[0].contains("a SECRET instead"), "{problems:?}");
}

#[test]
#[should_panic(expected = "FEEDBACK")]
fn a_run_with_a_problem_is_not_clean() {
    let model = start(Script::new().main(vec![Turn::say("ok").expecting("FEEDBACK")]));
    ask(&model, "nothing of the kind");
    model.finish().assert_clean();
}

#[test]
fn an_exhausted_lane_is_a_problem() {
    let model = start(Script::new().main(vec![Turn::say("once")]));
    ask(&model, "go");
    assert_eq!(ask(&model, "go on")["content"][0]["text"], "SCRIPT-EXHAUSTED");
    let problems = model.finish().problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].contains("go on"), "{problems:?}");
}

#[test]
fn the_number_of_requests_is_bounded() {
    let model = start(Script::new().then_repeat(Turn::say("again")));
    for _ in 0..MAX_REQUESTS {
        ask(&model, "go");
    }
    assert_eq!(send(&model, "POST", "/v1/messages", &asking("go").to_string()).0, 400);
    assert_eq!(model.finish().problems.len(), 1);
}

#[test]
fn an_api_error_is_answered_as_the_api_does() {
    let model = start(Script::new().main(vec![Turn::api_error(529, "overloaded_error", "Overloaded")]));
    let (status, body) = send(&model, "POST", "/v1/messages", &asking("go").to_string());
    assert_eq!(status, 529);
    let error: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        error,
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    );
    model.finish().assert_clean();
}

#[test]
fn the_rest_of_the_api_is_small() {
    let model = start(Script::new());
    let (status, body) = send(&model, "POST", "/v1/messages/count_tokens", &"x".repeat(400));
    assert_eq!((status, body.as_str()), (200, r#"{"input_tokens":100}"#));
    assert_eq!(send(&model, "GET", "/api/hello", "").0, 200);
    assert_eq!(send(&model, "HEAD", "/", ""), (200, String::new()));
    assert_eq!(send(&model, "GET", "/v1/models", "").0, 404);
    assert_eq!(send(&model, "POST", "/v1/other", "{}").0, 404);
    let served = model.finish();
    served.assert_clean();
    assert!(served.requests.is_empty());
}

#[test]
fn a_request_that_is_not_json_is_a_problem() {
    let model = start(Script::new());
    assert_eq!(send(&model, "POST", "/v1/messages", "not json").0, 400);
    assert_eq!(model.finish().problems, ["a request could not be read: the body is not JSON"]);
}

#[test]
fn a_delay_delays_and_does_not_delay_finish() {
    let slow = Turn::say("late").delay(Duration::from_millis(200));
    let model = start(Script::new().main(vec![slow, Turn::say("never").delay(Duration::from_secs(600))]));
    let begun = Instant::now();
    ask(&model, "go");
    assert!(begun.elapsed() >= Duration::from_millis(200));

    let silent = TcpStream::connect(model.address()).unwrap();
    let mut waiting = TcpStream::connect(model.address()).unwrap();
    let body = asking("go").to_string();
    write!(waiting, "POST /v1/messages HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let served = model.finish();
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(served.requests.len(), 2);
    drop((silent, waiting));
}
