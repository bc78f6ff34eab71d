//! One session of the real client in a sandbox, with ralph's hooks installed as a user has them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, thread};

use ralph_testkit::{
    Claude, ClaudeOutput, ClaudeRun, ClaudeTerminal, Lane, OpenSpec, Sandbox, Script, ScriptedModel, Served,
    Turn,
};
use serde_json::{Value, json};

use crate::RALPH;

/// Gates append a byte here to record their run without changing the tree that they judge.
pub(crate) const CANARY: &str = "../canary";

/// In the prompt of every sub-agent: how the model's lane recognises it.
const SUB_TASK: &str = "SUB-TASK";

/// Whether the main agent waits for the sub-agent. In the background it is notified by a `<task-notification>` prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runs {
    InForeground,
    InBackground,
}

/// A main agent that starts one sub-agent, which runs `turns`; `last` is the main agent's turn after the sub-agent's end.
pub(crate) fn one_sub_agent(name: &str, runs: Runs, turns: Vec<Turn>, last: Turn) -> Script {
    let background = runs == Runs::InBackground;
    let mut main = vec![Turn::agent(name, SUB_TASK, background)];
    let mut lane = Lane::new("sub-agent").when_first_user_contains(SUB_TASK);
    for (at, turn) in turns.into_iter().enumerate() {
        // The main agent's own turn ends first, however busy the machine is.
        let turn = if background && at == 0 { turn.delay(Duration::from_millis(700)) } else { turn };
        lane = lane.turn(turn);
    }
    if background {
        main.push(Turn::say("I wait for it."));
    }
    main.push(if background { last.expecting("<task-notification>") } else { last });
    Script::new().lane(lane).main(main)
}

pub(crate) fn bash(command: &str) -> Turn {
    Turn::tool("Bash", json!({"command": command, "description": "A scripted command"}))
}

/// A session before it is run.
pub(crate) struct ClaudeSession<'a> {
    sandbox: &'a Sandbox,
    run: ClaudeRun,
    /// None if the project has its own settings already.
    hooks: Option<Hooks>,
    exit: i32,
    /// Whether another session of the same sandbox is still running.
    beside_another: bool,
    /// Folders on the client's `PATH` before those of the system.
    path: Vec<PathBuf>,
}

struct Hooks {
    deadline: &'static str,
    timeout: u64,
}

impl<'a> ClaudeSession<'a> {
    pub(crate) fn new(claude: &Claude, sandbox: &'a Sandbox) -> Self {
        let agent = |tools: &[&str]| json!({"description": "Scripted", "prompt": "You are scripted.", "tools": tools});
        let run = claude
            .run_in(sandbox.project())
            .env("RALPH_HOME", sandbox.ralph_home())
            .agents(&json!({"check": agent(&["Bash"]), "worker": agent(&["Bash", "Agent"])}))
            .allow_tools("Bash Agent");
        let hooks = Some(Hooks { deadline: "30s", timeout: 60 });
        Self { sandbox, run, hooks, exit: 0, beside_another: false, path: Vec::new() }
    }

    /// Leaves the settings of the project as they are: the hooks are installed already.
    pub(crate) fn already_installed(mut self) -> Self {
        self.hooks = None;
        self
    }

    /// How long the hook may take, by its own flag.
    pub(crate) fn deadline(mut self, deadline: &'static str) -> Self {
        self.hooks = self.hooks.map(|hooks| Hooks { deadline, ..hooks });
        self
    }

    /// How many seconds the client waits for the hook.
    pub(crate) fn client_timeout(mut self, seconds: u64) -> Self {
        self.hooks = self.hooks.map(|hooks| Hooks { timeout: seconds, ..hooks });
        self
    }

    /// The user's prompt.
    pub(crate) fn prompt(mut self, prompt: &str) -> Self {
        self.run = self.run.prompt(prompt);
        self
    }

    /// The user's next prompt, sent after the previous one has its result.
    pub(crate) fn then_prompt(mut self, prompt: &str) -> Self {
        self.run = self.run.then_prompt(prompt);
        self
    }

    /// Resumes the session of an earlier run. Both need the same [`home`](Self::home).
    pub(crate) fn resuming(self, earlier: &Seen) -> Self {
        let session = earlier.output.session().expect("the id of a session").to_owned();
        self.arg("--resume").arg(&session)
    }

    /// Ends the run after so many answers of the model, which the client reports as an error.
    pub(crate) fn cut_off_after(mut self, turns: usize) -> Self {
        self.exit = 1;
        self.arg("--max-turns").arg(&turns.to_string())
    }

    /// Another session of the same sandbox runs meanwhile.
    pub(crate) fn beside_another(mut self) -> Self {
        self.beside_another = true;
        self
    }

    /// A home that is kept, so that a later run can resume the session.
    pub(crate) fn home(mut self, home: &Path) -> Self {
        self.run = self.run.home(home);
        self
    }

    pub(crate) fn arg(mut self, arg: &str) -> Self {
        self.run = self.run.arg(arg);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.run = self.run.env(name, value);
        self
    }

    /// Our own plugin, and nothing in the settings.
    pub(crate) fn with_our_plugin(self) -> Self {
        let plugin = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugin");
        self.already_installed().with_ralph_on_path().plugin(&plugin)
    }

    pub(crate) fn plugin(mut self, dir: &Path) -> Self {
        self.run = self.run.plugin_dir(dir);
        self
    }

    /// Puts the folder of the binary on the client's `PATH`, like an installed one.
    /// The sandbox's own programs are found first.
    pub(crate) fn with_programs_of_sandbox(mut self) -> Self {
        self.path.push(self.sandbox.home().join("bin"));
        self
    }

    pub(crate) fn with_ralph_on_path(mut self) -> Self {
        self.path.push(Path::new(RALPH).parent().expect("a folder").to_owned());
        self
    }

    /// Puts the `openspec` command on the client's `PATH`, for its agents, its hooks and the gates.
    pub(crate) fn with_openspec(mut self, openspec: &OpenSpec) -> Self {
        self.path.extend(openspec.folders());
        OpenSpec::QUIET.iter().fold(self, |session, (name, value)| session.env(name, value))
    }

    /// Starts it in a terminal, where the client has additional events.
    #[track_caller]
    pub(crate) fn in_terminal(self, script: Script) -> (ClaudeTerminal, ScriptedModel) {
        let model = ScriptedModel::start(script).expect("a port on loopback");
        (ClaudeTerminal::start(&hooked(self.run, self.hooks.as_ref()), &model), model)
    }

    /// Runs it to its end. A deviation from the script or a failed client fails the test.
    #[track_caller]
    pub(crate) fn play(self, script: Script) -> Seen {
        let model = ScriptedModel::start(script).expect("a port on loopback");
        let run = hooked(self.run, self.hooks.as_ref());
        let run = if self.path.is_empty() { run } else { run.env("PATH", search_path(&self.path)) };
        let output = run.run(&model);
        let seen = Seen { output, served: model.finish() };
        assert_eq!(seen.output.exit, Some(self.exit), "{seen}\n{}", self.sandbox.ralph(&["status"]).stdout);
        assert!(seen.served.problems.is_empty(), "{:#?}\n{seen}", seen.served.problems);
        if !self.beside_another {
            assert_nothing_is_left(self.sandbox);
        }
        seen
    }
}

/// With our hooks in the settings, unless the project has its own.
fn hooked(run: ClaudeRun, own: Option<&Hooks>) -> ClaudeRun {
    match own {
        Some(Hooks { deadline, timeout }) => run.settings(hooks(deadline, *timeout)),
        None => run,
    }
}

fn search_path(first: &[PathBuf]) -> OsString {
    let system = ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from);
    std::env::join_paths(first.iter().chain(&system)).expect("folders without a colon")
}

/// The plugin's hooks, with another command line and another timeout.
fn hooks(deadline: &str, timeout: u64) -> Value {
    let text = include_str!("../../../../plugin/hooks/hooks.json");
    let mut settings: Value = serde_json::from_str(text).expect("JSON");
    for groups in settings["hooks"].as_object_mut().expect("hooks").values_mut() {
        let handler = &mut groups[0]["hooks"][0];
        handler["command"] = json!(format!("'{RALPH}' hook claude --deadline {deadline}"));
        handler["timeout"] = json!(timeout);
    }
    json!({"hooks": settings["hooks"]})
}

/// A session that has ended.
pub(crate) struct Seen {
    pub(crate) output: ClaudeOutput,
    pub(crate) served: Served,
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\n{}", self.output.text_of_rows(), self.output.stderr)
    }
}

impl Seen {
    /// What the client showed the user of our messages, in order: `Stop says: …`.
    pub(crate) fn shown_to_user(&self) -> Vec<&str> {
        let shown = self.output.rows.iter().filter(|row| row["subtype"] == "informational");
        shown.filter_map(|row| row["content"].as_str()).collect()
    }

    /// The hook's answers to stops of sub-agents.
    pub(crate) fn answers(&self) -> Vec<Value> {
        let answers = self.output.hook_responses("SubagentStop");
        let parsed = |row: &&Value| serde_json::from_str(row["stdout"].as_str().unwrap_or_default()).ok();
        answers.iter().map(|row| parsed(row).unwrap_or(Value::Null)).collect()
    }

    /// The number of requests of the main conversation.
    pub(crate) fn requests_of_session(&self) -> usize {
        self.served.lane("main").len()
    }

    /// Whether a message to the user contains all of these words.
    pub(crate) fn user_saw(&self, words: &[&str]) -> bool {
        let has_all = |text: &&str| words.iter().all(|word| text.contains(word));
        self.shown_to_user().iter().any(has_all) || self.output.results().iter().any(has_all)
    }

    pub(crate) fn requests_of_sub_agent(&self) -> usize {
        self.served.lane("sub-agent").len()
    }
}

/// The verdicts on the stops of `check` in the ledger, in order and abbreviated.
pub(crate) fn verdicts(sandbox: &Sandbox) -> Vec<String> {
    verdicts_of(sandbox, "check-")
}

/// The same for any loop, by a prefix of its id.
pub(crate) fn verdicts_of(sandbox: &Sandbox, beginning: &str) -> Vec<String> {
    let events = sandbox.events();
    let of_loop = events.iter().filter(|event| event["loop"].as_str().expect("an id").starts_with(beginning));
    of_loop.filter_map(|line| in_short(&line["event"])).collect()
}

/// All steps of such a loop, in order and abbreviated: its verdicts, and the events between them.
pub(crate) fn life_of(sandbox: &Sandbox, beginning: &str) -> Vec<String> {
    let events = sandbox.events();
    let of_loop = events.iter().filter(|event| event["loop"].as_str().expect("an id").starts_with(beginning));
    of_loop.filter_map(|line| in_short(&line["event"]).or_else(|| step_in_short(&line["event"]))).collect()
}

fn step_in_short(event: &Value) -> Option<String> {
    let name = event["event"].as_str()?;
    let more = match name {
        "began" | "bound" | "waited" => Value::Null,
        "resumed" if event["renewed"] == true => "renewed".into(),
        "resumed" => Value::Null,
        "paused" | "cancelled" => event["why"]["cause"].clone(),
        "agent_called" | "agent_finished" => event["name"].clone(),
        "error_seen" => event["error"]["kind"].clone(),
        _ => return None,
    };
    Some(more.as_str().map_or_else(|| name.to_owned(), |more| format!("{name} {more}")))
}

fn in_short(event: &Value) -> Option<String> {
    let word = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    match event["event"].as_str()? {
        "judged" => Some(format!("{} {}", word(&event["verdict"]), word(&event["reason"]["code"]))),
        "not_evaluated" => {
            Some(format!("{} {}", word(&event["verdict"]), word(&event["trouble"]["trouble"])))
        }
        "interrupted" => Some("interrupted".into()),
        _ => None,
    }
}

/// The status of the one loop of `check`, by `ralph status --json`.
#[track_caller]
pub(crate) fn loop_status(sandbox: &Sandbox) -> Value {
    let status = sandbox.status();
    let loops = status["loops"].as_array().expect("loops");
    let of_check = |entry: &&Value| entry["id"].as_str().is_some_and(|id| id.starts_with("check-"));
    let mut states = loops.iter().filter(of_check).map(|entry| entry["state"]["status"].clone());
    let loop_status = states.next().unwrap_or_else(|| panic!("no loop of check: {status:#}"));
    assert_eq!(states.next(), None, "more than one loop of check: {status:#}");
    loop_status
}

pub(crate) fn ended(verdict: &str) -> Value {
    json!({"status": "ended", "verdict": verdict})
}

/// How often a gate with the canary ran.
pub(crate) fn gate_runs(sandbox: &Sandbox) -> usize {
    fs::read(sandbox.path(CANARY)).map_or(0, |bytes| bytes.len())
}

/// Every file that ralph stores, with its content.
pub(crate) fn memory(sandbox: &Sandbox) -> BTreeMap<String, Vec<u8>> {
    let content =
        |name: &String| fs::read(sandbox.ralph_home().join(name)).expect("a file that was just listed");
    sandbox.remembered().into_iter().map(|name| (name.clone(), content(&name))).collect()
}

/// Every process that the client, its hooks and the gates started has `RALPH_HOME` in its environment.
#[track_caller]
fn assert_nothing_is_left(sandbox: &Sandbox) {
    let mark = format!("RALPH_HOME={}", sandbox.ralph_home().display());
    let begun = Instant::now();
    loop {
        let left = processes_with(mark.as_bytes());
        if left.is_empty() {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(3), "left running: {left:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Only Linux shows the environment of a process; elsewhere no process is found.
fn processes_with(variable: &[u8]) -> Vec<String> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let found = entries.flatten().filter(|entry| {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|other| other == variable)
    });
    let command_line = |path: &Path| fs::read(path.join("cmdline")).unwrap_or_default();
    found.map(|entry| String::from_utf8_lossy(&command_line(&entry.path())).replace('\0', " ")).collect()
}
