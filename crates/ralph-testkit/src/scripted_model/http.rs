//! The wire of the scripted model: as much of HTTP/1.1 as a client of the Messages API uses. Every answer closes its
//! connection, which makes the end of a stream plain and keeps a thread for one request only.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::{Answer, Shared, lock};

/// A conversation with all its files fits well; what does not is a mistake.
const LARGEST_BODY: usize = 64 * 1024 * 1024;
const LARGEST_HEAD: u64 = 256 * 1024;
/// A client that stops half way through a request must not keep a thread for ever.
const READ_PATIENCE: Duration = Duration::from_secs(60);

struct Call {
    method: String,
    path: String,
    body: Vec<u8>,
}

/// Serves the one request of a connection. A client that hangs up is no problem of the script: it may be ended in
/// the middle of an answer.
pub(super) fn converse(stream: &TcpStream, shared: &Shared) {
    if let Err(error) = answer(stream, shared)
        && error.kind() == io::ErrorKind::InvalidData
    {
        lock(&shared.stage).problem(format!("a request could not be read: {error}"));
        json_reply(stream, 400, &api_error("invalid_request_error", &error.to_string()), true).ok();
    }
    // Not left to drop: the acceptor holds a second handle of this connection, and the client waits for its end.
    stream.shutdown(Shutdown::Write).ok();
}

fn answer(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_read_timeout(Some(READ_PATIENCE))?;
    let Some(call) = read_call(stream)? else { return Ok(()) };
    match (call.method.as_str(), call.path.as_str()) {
        ("POST", "/v1/messages") => message(stream, shared, &call.body),
        ("POST", "/v1/messages/count_tokens") => {
            json_reply(stream, 200, &json!({"input_tokens": (call.body.len() / 4).max(1)}), true)
        }
        (method, "/" | "/api/hello") if method != "POST" => {
            json_reply(stream, 200, &json!({"message": "hello"}), method != "HEAD")
        }
        (method, _) => json_reply(
            stream,
            404,
            &api_error("not_found_error", "not a path of this model"),
            method != "HEAD",
        ),
    }
}

/// `None` for a connection that was opened and closed without a word.
fn read_call(stream: &TcpStream) -> io::Result<Option<Call>> {
    let mut reader = BufReader::new(stream);
    let mut head = reader.by_ref().take(LARGEST_HEAD);
    let mut line = String::new();
    if head.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Err(invalid("the first line is not HTTP"));
    };
    let method = method.to_owned();
    let path = target.split('?').next().unwrap_or_default().to_owned();

    let mut length = 0;
    loop {
        let mut line = String::new();
        if head.read_line(&mut line)? == 0 {
            return Err(invalid("the head does not end"));
        }
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().map_err(|_| invalid("content-length is not a number"))?;
        }
        if name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(invalid("a body without content-length is not understood here"));
        }
    }
    if length > LARGEST_BODY {
        return Err(invalid("the body is too large"));
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(Call { method, path, body }))
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

fn message(stream: &TcpStream, shared: &Shared, body: &[u8]) -> io::Result<()> {
    let body: Value = serde_json::from_slice(body).map_err(|_| invalid("the body is not JSON"))?;
    let model = body["model"].as_str().unwrap_or("scripted").to_owned();
    let streaming = body["stream"] == true;
    let turn = lock(&shared.stage).take(body);
    if !turn.delay.is_zero() {
        shared.sleep(turn.delay);
    }
    let id = unique();
    let (block, stop_reason) = match &turn.answer {
        Answer::Say(text) => (json!({"type": "text", "text": text}), "end_turn"),
        Answer::Tool { name, input } => {
            let tool_use_id = format!("toolu_{id}");
            (json!({"type": "tool_use", "id": tool_use_id, "name": name, "input": input}), "tool_use")
        }
        Answer::ApiError { status, kind, message } => {
            return json_reply(stream, *status, &api_error(kind, message), true);
        }
    };
    let message = Message { id: format!("msg_{id}"), model, block, stop_reason };
    if streaming { sse_reply(stream, &message) } else { json_reply(stream, 200, &message.whole(), true) }
}

fn api_error(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}})
}

/// An answer of the model, whole or as a stream of events.
struct Message {
    id: String,
    model: String,
    block: Value,
    stop_reason: &'static str,
}

impl Message {
    fn whole(&self) -> Value {
        let mut whole = self.opening();
        whole["content"] = json!([self.block]);
        whole["stop_reason"] = self.stop_reason.into();
        whole["usage"]["output_tokens"] = 20.into();
        whole
    }

    fn opening(&self) -> Value {
        json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": [],
            "stop_reason": null, "stop_sequence": null,
            "usage": {"input_tokens": 100, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
                      "output_tokens": 1},
        })
    }

    fn events(&self) -> Vec<Value> {
        let mut empty = self.block.clone();
        let delta = if self.block["type"] == "text" {
            empty["text"] = "".into();
            json!({"type": "text_delta", "text": self.block["text"]})
        } else {
            empty["input"] = json!({});
            json!({"type": "input_json_delta", "partial_json": self.block["input"].to_string()})
        };
        vec![
            json!({"type": "message_start", "message": self.opening()}),
            json!({"type": "content_block_start", "index": 0, "content_block": empty}),
            json!({"type": "content_block_delta", "index": 0, "delta": delta}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": self.stop_reason, "stop_sequence": null},
                   "usage": {"output_tokens": 20}}),
            json!({"type": "message_stop"}),
        ]
    }
}

/// Unique over all models of this process and, for a session that is continued, of other processes.
fn unique() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{:012}{:012}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

fn json_reply(mut stream: &TcpStream, status: u16, value: &Value, with_body: bool) -> io::Result<()> {
    let body = value.to_string();
    let head = head(status, "application/json", &format!("content-length: {}\r\n", body.len()));
    stream.write_all(if with_body { head + &body } else { head }.as_bytes())
}

fn sse_reply(mut stream: &TcpStream, message: &Message) -> io::Result<()> {
    stream.write_all(head(200, "text/event-stream", "cache-control: no-cache\r\n").as_bytes())?;
    for event in message.events() {
        let name = event["type"].as_str().unwrap_or_default();
        stream.write_all(format!("event: {name}\ndata: {event}\n\n").as_bytes())?;
    }
    Ok(())
}

fn head(status: u16, content_type: &str, more: &str) -> String {
    format!(
        "HTTP/1.1 {status} {}\r\ncontent-type: {content_type}\r\nrequest-id: req_{}\r\n{more}connection: close\r\n\r\n",
        if status < 400 { "OK" } else { "Error" },
        unique(),
    )
}
