//! A scripted replacement for a model's service, in the test's own process, on loopback: Anthropic's Messages API, or as
//! much of OpenAI's and of Google's as Codex, Copilot, OpenCode and Gemini CLI use.
//!
//! It exists so that the real clients can be run without an account, a key or the internet, and so that a test can
//! define what the model answers *and* what the client must have sent. A turn that was `expecting` a needle and did
//! not find it is a problem, and so is such a turn that was never requested: a scenario cannot pass because
//! its feedback got lost.
//!
//! ```text
//!  client ──POST its path──────► which lane?  ──► next turn of that lane ──► SSE or JSON
//!                                 a match: that lane      │
//!                                 no tools: "ok"          └─ needles in what came since the model last spoke
//!                                 else: main                 a miss is a problem, reported by `finish`
//! ```
//!
//! Guarantees: binds 127.0.0.1 only, opens no outgoing connection, ignores the key it receives, answers at
//! most [`MAX_REQUESTS`] requests, and has no thread left after [`ScriptedModel::finish`] or drop.
//!
//! ```
//! use ralph_testkit::{Lane, Script, ScriptedModel, Turn};
//! use serde_json::json;
//!
//! let script = Script::new()
//!     .lane(Lane::new("check").when_first_user_contains("SUBTASK").turn(Turn::say("checked")))
//!     .main(vec![
//!         Turn::tool("Bash", json!({"command": "true"})),
//!         Turn::say("done"),
//!         Turn::say("really done").expecting("the gate failed"),
//!     ]);
//! let model = ScriptedModel::start(script)?;
//! // … run a client against `model.base_url()` …
//! let served = model.finish();
//! assert_eq!(served.problems.len(), 1, "the turn with the needle was never requested");
//! # Ok::<(), std::io::Error>(())
//! ```

mod api;
mod http;
mod stage;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value, json};

pub use self::api::Api;
use self::stage::Stage;

/// The most requests one model answers; after that every request gets HTTP 400, and the run has a problem, so that
/// an endless loop ends its test.
pub const MAX_REQUESTS: usize = 80;

/// The model's answers: lanes for the conversations that can be distinguished, and the main conversation.
#[derive(Debug, Default)]
pub struct Script {
    lanes: Vec<Lane>,
    main: Lane,
}

impl Script {
    pub fn new() -> Self {
        Self { lanes: Vec::new(), main: Lane::new("main") }
    }

    /// Adds a lane. Lanes are tried in the order they were added; the first whose conditions all hold serves the
    /// request.
    ///
    /// # Panics
    ///
    /// When the lane has no condition: it would take the main conversation's requests.
    #[must_use]
    pub fn lane(mut self, lane: Lane) -> Self {
        assert!(
            !lane.conditions.is_empty(),
            "lane `{}` has no `when_…`, it would take every request",
            lane.name
        );
        self.lanes.push(lane);
        self
    }

    /// The turns of the main conversation: every request with tools that no lane took.
    #[must_use]
    pub fn main(mut self, turns: Vec<Turn>) -> Self {
        self.main.turns.extend(turns);
        self
    }

    /// What the main conversation answers once its turns have run out.
    #[must_use]
    pub fn then_repeat(mut self, turn: Turn) -> Self {
        self.main.repeat = Some(turn);
        self
    }
}

/// One conversation, usually a sub-agent's, recognised by what its requests contain.
#[derive(Debug, Default)]
pub struct Lane {
    name: String,
    conditions: Vec<Condition>,
    turns: Vec<Turn>,
    repeat: Option<Turn>,
}

#[derive(Debug)]
enum Condition {
    FirstUser(String),
    AnyUser(String),
    LastUser(String),
    System(String),
}

impl Lane {
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// The first user message contains `needle`: the way to recognise a sub-agent by its prompt.
    #[must_use]
    pub fn when_first_user_contains(self, needle: impl Into<String>) -> Self {
        self.when(Condition::FirstUser(needle.into()))
    }

    /// Some user message contains `needle`.
    #[must_use]
    pub fn when_any_user_contains(self, needle: impl Into<String>) -> Self {
        self.when(Condition::AnyUser(needle.into()))
    }

    /// What came since the model last spoke contains `needle`.
    #[must_use]
    pub fn when_last_user_contains(self, needle: impl Into<String>) -> Self {
        self.when(Condition::LastUser(needle.into()))
    }

    /// The system prompt contains `needle`.
    #[must_use]
    pub fn when_system_contains(self, needle: impl Into<String>) -> Self {
        self.when(Condition::System(needle.into()))
    }

    fn when(mut self, condition: Condition) -> Self {
        self.conditions.push(condition);
        self
    }

    #[must_use]
    pub fn turn(mut self, turn: Turn) -> Self {
        self.turns.push(turn);
        self
    }

    #[must_use]
    pub fn turns(mut self, turns: Vec<Turn>) -> Self {
        self.turns.extend(turns);
        self
    }

    /// What this lane answers once its turns have run out. Without it, running out is a problem.
    #[must_use]
    pub fn then_repeat(mut self, turn: Turn) -> Self {
        self.repeat = Some(turn);
        self
    }
}

/// One answer of the model, and what the request it answers must look like.
#[derive(Debug, Clone)]
pub struct Turn {
    answer: Answer,
    needles: Vec<Needle>,
    delay: Duration,
    /// Only for an error.
    headers: Vec<(String, String)>,
}

#[derive(Debug, Clone)]
enum Answer {
    Say(String),
    Tool { name: String, input: Value },
    ApiError { status: u16, kind: String, message: String },
}

#[derive(Debug, Clone)]
enum Needle {
    Present(String),
    Absent(String),
}

impl Turn {
    /// Says `text` and ends the turn.
    pub fn say(text: impl Into<String>) -> Self {
        Self::new(Answer::Say(text.into()))
    }

    /// Calls the tool `name`.
    pub fn tool(name: impl Into<String>, input: Value) -> Self {
        Self::new(Answer::Tool { name: name.into(), input })
    }

    /// Calls the `Agent` tool. Say `background` either way: the client's own default is to run it in the background.
    pub fn agent(subagent_type: impl Into<String>, prompt: impl Into<String>, background: bool) -> Self {
        let input = json!({
            "description": "A scripted task",
            "prompt": prompt.into(),
            "subagent_type": subagent_type.into(),
            "run_in_background": background,
        });
        Self::tool("Agent", input)
    }

    /// Fails as the API does, for example `(529, "overloaded_error", "Overloaded")`. The client tries some of
    /// these again, and a retry takes the next turn.
    pub fn api_error(status: u16, kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Answer::ApiError { status, kind: kind.into(), message: message.into() })
    }

    /// Adds a header to an error, for example the time of the next allowed request.
    ///
    /// # Panics
    ///
    /// When the turn is not an error: only errors have headers.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        assert!(matches!(self.answer, Answer::ApiError { .. }), "only an `api_error` has headers");
        self.headers.push((name.into(), value.into()));
        self
    }

    fn new(answer: Answer) -> Self {
        Self { answer, needles: Vec::new(), delay: Duration::ZERO, headers: Vec::new() }
    }

    /// The request must contain `needle` in what came since the model last spoke: prompt, tool results, hook
    /// feedback, system reminders.
    #[must_use]
    pub fn expecting(mut self, needle: impl Into<String>) -> Self {
        self.needles.push(Needle::Present(needle.into()));
        self
    }

    /// The request must not contain `needle` in what came since the model last spoke.
    #[must_use]
    pub fn expecting_not(mut self, needle: impl Into<String>) -> Self {
        self.needles.push(Needle::Absent(needle.into()));
        self
    }

    /// Waits before it answers.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}

/// What the model received, returned at the end.
#[derive(Debug, Default)]
pub struct Served {
    /// Every answered request to the model, in the order of arrival.
    pub requests: Vec<Request>,
    /// Deviations from the script, as messages.
    pub problems: Vec<String>,
}

/// One request to the model.
#[derive(Debug)]
pub struct Request {
    /// The lane that served it; `main` for the main conversation, `side` for a request without tools.
    pub lane: String,
    /// How many requests this lane had served before.
    pub turn: usize,
    /// All text since the model last spoke.
    pub last_user: String,
    pub body: Value,
}

impl Served {
    /// The requests one lane served.
    pub fn lane(&self, name: &str) -> Vec<&Request> {
        self.requests.iter().filter(|request| request.lane == name).collect()
    }

    /// # Panics
    ///
    /// With every problem, when there is one.
    #[track_caller]
    pub fn assert_clean(&self) {
        assert!(
            self.problems.is_empty(),
            "the run did not follow the script ({} requests served):\n- {}",
            self.requests.len(),
            self.problems.join("\n- ")
        );
    }
}

/// The running server.
#[derive(Debug)]
pub struct ScriptedModel {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

/// What the server's threads share.
#[derive(Debug)]
struct Shared {
    api: Api,
    stage: Mutex<Stage>,
    stopped: Mutex<bool>,
    wake: Condvar,
}

impl ScriptedModel {
    /// Starts serving `script` on a free port of 127.0.0.1, as the service that Claude Code asks.
    pub fn start(script: Script) -> io::Result<Self> {
        Self::start_as(Api::Messages, script)
    }

    /// The same with the API of another service.
    pub fn start_as(api: Api, script: Script) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            api,
            stage: Mutex::new(Stage::new(api, script)),
            stopped: Mutex::new(false),
            wake: Condvar::new(),
        });
        let acceptor = thread::Builder::new().name("scripted-model".into()).spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        })?;
        Ok(Self { address, shared, acceptor: Some(acceptor) })
    }

    /// The address to configure in a client.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many requests it has answered so far.
    pub fn requests(&self) -> usize {
        lock(&self.shared.stage).requests()
    }

    /// Stops the server and returns what it received.
    pub fn finish(mut self) -> Served {
        self.stop();
        lock(&self.shared.stage).close()
    }

    fn stop(&mut self) {
        let Some(acceptor) = self.acceptor.take() else { return };
        self.shared.stop();
        // The acceptor checks the flag when a connection arrives. Without one it would not wake, so do not join it.
        if TcpStream::connect(self.address).is_ok() && acceptor.join().is_err() {
            lock(&self.shared.stage).problem("the scripted model's own thread panicked".into());
        }
    }
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn stop(&self) {
        *lock(&self.stopped) = true;
        self.wake.notify_all();
    }

    fn is_stopped(&self) -> bool {
        *lock(&self.stopped)
    }

    /// Sleeps for `time`, or until the server is stopped.
    fn sleep(&self, time: Duration) {
        let waited = self.wake.wait_timeout_while(lock(&self.stopped), time, |stopped| !*stopped);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

/// A panic of a thread is reported by `join`; the data in the poisoned lock is still the best information there is.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One thread per connection, one request per connection.
fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut open: Vec<(TcpStream, JoinHandle<()>)> = Vec::new();
    while let Ok((stream, _)) = listener.accept() {
        if shared.is_stopped() {
            break;
        }
        open.retain(|(_, thread)| !thread.is_finished());
        let Ok(handle) = stream.try_clone() else { continue };
        let shared = Arc::clone(shared);
        open.push((handle, thread::spawn(move || http::converse(&stream, &shared))));
    }
    for (stream, thread) in open {
        // Ends a read from a client that opened a connection and sent nothing. An error means that it is closed.
        stream.shutdown(std::net::Shutdown::Both).ok();
        if thread.join().is_err() {
            lock(&shared.stage).problem("a thread that served a request panicked".into());
        }
    }
}
