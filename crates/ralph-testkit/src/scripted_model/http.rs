//! The HTTP of the scripted model: as much of HTTP/1.1 as the clients use. Every answer closes its connection, which
//! marks the end of a stream and keeps one thread per request. The bodies belong to the API.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;

use super::api::{Message, Route, Spoken};
use super::{Answer, Api, Shared, lock};

/// Large enough for a conversation with all its files; anything larger is a mistake.
const LARGEST_BODY: usize = 64 * 1024 * 1024;
const LARGEST_HEAD: u64 = 256 * 1024;
/// A client that stops half way through a request must not block a thread forever.
const READ_PATIENCE: Duration = Duration::from_secs(60);

struct Call {
    method: String,
    path: String,
    body: Vec<u8>,
}

/// Serves the one request of a connection. A client that hangs up is not a problem of the script: it may be ended in
/// the middle of an answer.
pub(super) fn converse(stream: &TcpStream, shared: &Shared) {
    if let Err(error) = answer(stream, shared)
        && error.kind() == io::ErrorKind::InvalidData
    {
        lock(&shared.stage).problem(format!("a request could not be read: {error}"));
        let body = shared.api.error(400, "invalid_request_error", &error.to_string());
        json_reply(stream, 400, &body, &[], true).ok();
    }
    // Closed explicitly: the acceptor has a second handle of this connection, and the client waits for its end.
    stream.shutdown(Shutdown::Write).ok();
}

fn answer(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_read_timeout(Some(READ_PATIENCE))?;
    let Some(call) = read_call(stream)? else { return Ok(()) };
    let with_body = call.method != "HEAD";
    match shared.api.route(&call.method, &call.path, call.body.len()) {
        Route::Message => message(stream, shared, &call),
        Route::Plain(value) => json_reply(stream, 200, &value, &[], with_body),
        Route::Nowhere => {
            let body = shared.api.error(404, "not_found_error", "not a path of this model");
            json_reply(stream, 404, &body, &[], with_body)
        }
    }
}

/// `None` for a connection that was opened and closed without data.
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

fn message(stream: &TcpStream, shared: &Shared, call: &Call) -> io::Result<()> {
    let body: Value = serde_json::from_slice(&call.body).map_err(|_| invalid("the body is not JSON"))?;
    let model = shared.api.model_of(&call.path, &body);
    let streaming = shared.api.streams(&call.path, &body);
    let turn = lock(&shared.stage).take(body);
    if !turn.delay.is_zero() {
        shared.sleep(turn.delay);
    }
    let spoken = match turn.answer {
        Answer::Say(text) => Spoken::Text(text),
        Answer::Tool { name, input } => Spoken::Tool { name, input },
        Answer::ApiError { status, kind, message } => {
            let body = shared.api.error(status, &kind, &message);
            return json_reply(stream, status, &body, &turn.headers, true);
        }
    };
    let message = Message { id: unique(), model, spoken };
    if streaming {
        sse_reply(stream, shared.api, &message)
    } else {
        json_reply(stream, 200, &shared.api.whole(&message), &[], true)
    }
}

/// Unique among all models of this process and, for a session that is continued, of other processes.
fn unique() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{:012}{:012}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

fn json_reply(
    mut stream: &TcpStream,
    status: u16,
    value: &Value,
    headers: &[(String, String)],
    with_body: bool,
) -> io::Result<()> {
    let body = value.to_string();
    let more: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = head(status, "application/json", &format!("{more}content-length: {}\r\n", body.len()));
    stream.write_all(if with_body { head + &body } else { head }.as_bytes())
}

fn sse_reply(mut stream: &TcpStream, api: Api, message: &Message) -> io::Result<()> {
    stream.write_all(head(200, "text/event-stream", "cache-control: no-cache\r\n").as_bytes())?;
    for event in api.events(message) {
        let name = event["type"].as_str().map_or_else(String::new, |name| format!("event: {name}\n"));
        stream.write_all(format!("{name}data: {event}\n\n").as_bytes())?;
    }
    match api.end_of_stream() {
        Some(end) => stream.write_all(format!("data: {end}\n\n").as_bytes()),
        None => Ok(()),
    }
}

fn head(status: u16, content_type: &str, more: &str) -> String {
    format!(
        "HTTP/1.1 {status} {}\r\ncontent-type: {content_type}\r\nrequest-id: req_{}\r\n{more}connection: close\r\n\r\n",
        if status < 400 { "OK" } else { "Error" },
        unique(),
    )
}
