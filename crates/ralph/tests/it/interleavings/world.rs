//! The real binary: a repo, two sessions, and what is visible from outside.

use std::collections::BTreeMap;
use std::fs;
use std::process::{self, Child, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::model::{Choices, Reply};
use super::step::{Command, Event, Plain, Who};
use ralph_testkit::{Finished, Sandbox};

const LOOP_FILE: &str = ".claude/ralph-loop.local.md";

pub(super) struct World {
    sandbox: Sandbox,
    edits: u32,
    slow_stops: u32,
    /// The ids of the loops in the order in which they began.
    ids: Vec<String>,
}

/// The output of a hook or a command.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) reply: Reply,
    pub(super) text: String,
}

/// What is visible after a step.
pub(super) struct Seen<'a> {
    ids: &'a [String],
    pub(super) loops: BTreeMap<String, Value>,
    /// The loop file: what its front matter and its body say.
    pub(super) file: Option<File>,
}

#[derive(Debug)]
pub(super) struct File {
    pub(super) active: bool,
    pub(super) iteration: u32,
    pub(super) session: Option<String>,
    pub(super) task: String,
}

impl Seen<'_> {
    pub(super) fn loop_at(&self, index: usize) -> Option<&Value> {
        self.ids.get(index).and_then(|id| self.loops.get(id))
    }
}

impl Choices for Seen<'_> {
    fn is_cancelled(&self, index: usize) -> bool {
        self.loop_at(index).is_some_and(|state| state["status"]["verdict"] == "cancelled")
    }

    fn is_attached_to(&self, index: usize, session: &str) -> bool {
        self.loop_at(index).is_some_and(|state| state["session"] == session)
    }
}

impl World {
    pub(super) fn new(gated: bool) -> Self {
        let mut world = Self { sandbox: Sandbox::new(), edits: 0, slow_stops: 0, ids: Vec::new() };
        if gated {
            let (slow, started) = (world.outside("slow"), world.outside("started"));
            // It marks that it runs, waits while its own number is in the file, and then passes or fails. A gate
            // whose hook was
            // killed does not mistake the next one's wait for its own.
            let gate = format!(
                "n=; test -e {slow} && read n < {slow}; while test -n \"$n\" && read m 2> /dev/null < {slow} \
                 && test \"$m\" = \"$n\"; do touch {started}-$n; sleep 0.02; done; test -e green.txt"
            );
            world.sandbox.file("ralph.yaml", &format!("verify:\n  - {}\n", json!(gate)));
            world.sandbox.trust();
        }
        // The sessions belong to two clients that live as long as the story.
        world.sandbox.set("CLAUDE_PROJECT_DIR", world.sandbox.project().display().to_string());
        world
    }

    fn outside(&self, name: &str) -> String {
        self.sandbox.home().join(name).display().to_string()
    }

    pub(super) fn look(&mut self) -> Seen<'_> {
        let status = self.sandbox.status();
        let entries = status["loops"].as_array().expect("loops").iter();
        let state = |entry: &Value| {
            assert!(entry["damage"].is_null(), "a damaged ledger: {entry:#}");
            (entry["id"].as_str().expect("an id").to_owned(), entry["state"].clone())
        };
        // A loop whose hook was killed before its first line does not exist.
        let loops: BTreeMap<String, Value> =
            entries.map(state).filter(|(_, state)| state["status"]["status"] != "fresh").collect();
        let mut new: Vec<&String> = loops.keys().filter(|id| !self.ids.contains(id)).collect();
        assert!(new.len() <= 1, "more than one loop began at once: {new:?}");
        self.ids.extend(new.pop().cloned());
        let file = self.sandbox.exists(LOOP_FILE).then(|| File::read(&self.sandbox.read(LOOP_FILE)));
        Seen { ids: &self.ids, loops, file }
    }

    /// Performs the step. `session` is the client's name for it, `next` the one after a clear.
    pub(super) fn act(&mut self, plain: Plain, session: &str, next: &str) -> Said {
        match plain {
            Plain::In(who, event) => self.event(who, event, session, next),
            Plain::Command(command) => self.command(command),
            Plain::DeleteFile => {
                if self.sandbox.exists(LOOP_FILE) {
                    self.sandbox.remove(LOOP_FILE);
                }
                Said::nothing()
            }
            Plain::Gate { green } => {
                match (green, self.sandbox.exists("green.txt")) {
                    (true, false) => self.sandbox.file("green.txt", ""),
                    (false, true) => self.sandbox.remove("green.txt"),
                    (true, true) | (false, false) => {}
                }
                Said::nothing()
            }
            Plain::Edit => {
                self.edits += 1;
                self.sandbox.file("work.txt", &self.edits.to_string());
                Said::nothing()
            }
        }
    }

    fn event(&self, who: Who, event: Event, session: &str, next: &str) -> Said {
        let (name, more) = call(session, event);
        let said = Said::of(name, self.spawn(who, session, name, more));
        if let Event::Clears = event {
            assert_eq!(said.reply, Reply::Silent, "{said:?}");
            return Said::of(
                "SessionStart",
                self.spawn(who, next, "SessionStart", json!({"source": "clear"})),
            );
        }
        said
    }

    /// The hook of an event, as it begins.
    pub(super) fn begins(&self, who: Who, event: Event, session: &str) -> Child {
        let (name, more) = call(session, event);
        self.spawn(who, session, name, more)
    }

    fn spawn(&self, who: Who, session: &str, name: &str, more: Value) -> Child {
        let mut input = json!({
            "hook_event_name": name,
            "session_id": session,
            "cwd": self.sandbox.project(),
            "transcript_path": self.transcript(who),
        });
        for (key, value) in more.as_object().expect("fields") {
            input[key] = value.clone();
        }
        self.sandbox.event(input).from_client(client_of(who)).spawn()
    }

    fn transcript(&self, who: Who) -> String {
        self.outside(&format!("{who:?}.jsonl"))
    }

    /// The session's agent used a tool.
    pub(super) fn tool_call(&self, who: Who, n: u32) {
        let block = json!({"type": "tool_use", "id": format!("{who:?}-{n}"), "name": "Bash"});
        let line = json!({"type": "assistant", "message": {"content": [block]}});
        fs::write(self.transcript(who), format!("{line}\n")).expect("a transcript");
    }

    fn command(&self, command: Command) -> Said {
        let ran = match command {
            Command::Start(task) => self.sandbox.ralph(&["start", task.words()]),
            Command::Pause => self.sandbox.ralph(&["pause"]),
            Command::Resume => self.sandbox.ralph(&["resume"]),
            Command::Cancel => self.sandbox.ralph(&["cancel"]),
            Command::Reset => self.sandbox.ralph(&["reset"]),
        };
        // Nothing to resume is an error.
        let code = if matches!(command, Command::Resume) && ran.stdout.contains("No active") { 3 } else { 0 };
        assert_eq!(ran.code, Some(code), "{ran:#?}");
        let nothing = ["No active Ralph loop found.", "No active or paused loop in this repo."];
        let found_nothing = nothing.iter().any(|line| ran.stdout.contains(line));
        let reply = if found_nothing { Reply::Told } else { Reply::Silent };
        Said { reply, text: ran.stdout }
    }

    /// From now on the gate waits.
    pub(super) fn slow_down(&mut self) {
        self.slow_stops += 1;
        // Written atomically: a gate that saw half of it would not wait.
        let aside = self.outside("slow-next");
        fs::write(&aside, format!("{}\n", self.slow_stops)).expect("a file");
        fs::rename(aside, self.outside("slow")).expect("a file of ours");
    }

    /// The gate continues, and does not wait from now on.
    pub(super) fn speed_up(&self) {
        fs::remove_file(self.outside("slow")).expect("a file of ours");
    }

    /// Whether the gate runs for this hook; it does not where the hook ends without it.
    pub(super) fn gate_runs(&self, hook: &mut Child) -> bool {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            if fs::exists(self.outside(&format!("started-{}", self.slow_stops))).expect("a folder") {
                return true;
            }
            if hook.try_wait().expect("a child").is_some() {
                return false;
            }
            assert!(Instant::now() < deadline, "the hook neither ended nor ran its gate");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// The name of an event, and its specific input.
fn call(session: &str, event: Event) -> (&'static str, Value) {
    let prompt = |words: &str| ("UserPromptSubmit", json!({"prompt": words}));
    let command = |name: &str, words: &str| {
        ("UserPromptExpansion", json!({"command_name": name, "command_args": words}))
    };
    let agent = |n: u8| json!({"agent_id": format!("{session}-{n}"), "agent_type": "ralph-coder"});
    match event {
        Event::Start(start) => command("ralph-loop", &start.to_string()),
        Event::StartBare => command("ralph-loop", ""),
        Event::CancelCommand => command("cancel-ralph", ""),
        Event::Stop(stop) => {
            let message =
                if stop.promised { "All of it.\n<promise>DONE</promise>" } else { "So far so good." };
            ("Stop", json!({"last_assistant_message": message}))
        }
        Event::SaysPause => prompt("pause"),
        Event::SaysContinue => prompt("continue"),
        Event::SaysOther => prompt("please stop the server and continue"),
        Event::Begins => ("SessionStart", json!({"source": "resume"})),
        Event::Ends => ("SessionEnd", json!({"reason": "other"})),
        Event::Clears => ("SessionEnd", json!({"reason": "clear"})),
        Event::CallsAgent(n) => ("SubagentStart", agent(n)),
        Event::AgentEnds(n) => ("SubagentStop", agent(n)),
        Event::TurnFails => ("StopFailure", json!({"error": "server_error"})),
    }
}

impl Said {
    fn nothing() -> Self {
        Self { reply: Reply::Silent, text: String::new() }
    }

    /// The output of the hook of such an event once it ends.
    pub(super) fn of(event: &str, hook: Child) -> Self {
        let ran = Finished::of(hook.wait_with_output().expect("an end"));
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:#?}");
        if ran.stdout.is_empty() {
            return Self::nothing();
        }
        let value = ran.json();
        let reply = if value["decision"] == "block" && event == "Stop" {
            Reply::Blocked
        } else if value["decision"] == "block" || value["continue"] == false {
            Reply::Answered
        } else {
            Reply::Told
        };
        Self { reply, text: strings(&value).join("\n") }
    }
}

fn strings(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Object(fields) => fields.values().flat_map(strings).collect(),
        _ => Vec::new(),
    }
}

impl File {
    fn read(text: &str) -> Self {
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            line.unwrap_or_else(|| panic!("no `{name}` in\n{text}")).trim_matches('"').to_owned()
        };
        let (_, task) = text.rsplit_once("---\n").expect("front matter");
        Self {
            active: field("active") == "true",
            iteration: field("iteration").parse().expect("a number"),
            session: Some(field("session_id")).filter(|session| session != "null"),
            task: task.trim().to_owned(),
        }
    }
}

/// A process that lives as long as the test, one for each; it is not an ancestor of the user's commands.
fn client_of(who: Who) -> u32 {
    static CLIENTS: OnceLock<[Child; 2]> = OnceLock::new();
    let start = || {
        // It ends with our end of its pipe.
        let reads_for_ever = process::Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        reads_for_ever.expect("a process")
    };
    let [ann, bob] = CLIENTS.get_or_init(|| [start(), start()]);
    match who {
        Who::Ann => ann.id(),
        Who::Bob => bob.id(),
    }
}
