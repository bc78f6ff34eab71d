//! One session of the real client in a sandbox, with ralph's hooks installed as a person has them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use ralph_testkit::{Claude, ClaudeOutput, ClaudeRun, Lane, Script, ScriptedModel, Served, Turn};
use serde_json::{Value, json};

use crate::support::{RALPH, Sandbox};

/// Gates that append a byte here say that they ran, and change nothing in the tree that they judge.
pub(crate) const CANARY: &str = "../canary";

/// In the prompt of every sub-agent: how the model's lane recognises it.
const SUB_TASK: &str = "SUB-TASK";

/// Whether the main agent waits for the sub-agent. In the background it is told by a `<task-notification>` prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runs {
    InForeground,
    InBackground,
}

/// A main agent that starts one sub-agent, which does `turns`; `last` is the main agent's turn after the sub-agent's end.
pub(crate) fn one_sub_agent(name: &str, runs: Runs, turns: Vec<Turn>, last: Turn) -> Script {
    let background = runs == Runs::InBackground;
    let mut main = vec![Turn::agent(name, SUB_TASK, background)];
    let mut lane = Lane::new("sub-agent").when_first_user_contains(SUB_TASK);
    for (at, turn) in turns.into_iter().enumerate() {
        // The main agent's own turn ends first, whatever the machine is busy with.
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
pub(crate) struct Session<'a> {
    sandbox: &'a Sandbox,
    run: ClaudeRun,
    /// None where the project has its own settings already.
    hooks: Option<Hooks>,
}

struct Hooks {
    deadline: &'static str,
    timeout: u64,
}

impl<'a> Session<'a> {
    pub(crate) fn new(claude: &Claude, sandbox: &'a Sandbox) -> Self {
        let agent = |tools: &[&str]| json!({"description": "Scripted", "prompt": "You are scripted.", "tools": tools});
        let run = claude
            .run_in(sandbox.project())
            .env("RALPH_HOME", sandbox.ralph_home())
            .agents(&json!({"check": agent(&["Bash"]), "worker": agent(&["Bash", "Agent"])}))
            .allow_tools("Bash Agent");
        Self { sandbox, run, hooks: Some(Hooks { deadline: "30s", timeout: 60 }) }
    }

    /// Leaves the settings of the project as they are: somebody installed the hooks already.
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

    pub(crate) fn plugin(mut self, dir: &Path) -> Self {
        self.run = self.run.plugin_dir(dir);
        self
    }

    /// Puts the folder of the binary on the client's `PATH`, as an installed one is.
    pub(crate) fn with_ralph_on_path(mut self) -> Self {
        let folder = Path::new(RALPH).parent().expect("a folder").display();
        self.run = self.run.env("PATH", format!("{folder}:/usr/local/bin:/usr/bin:/bin"));
        self
    }

    /// Runs it to its end. A run that left the script, or a client that did not end well, has failed.
    #[track_caller]
    pub(crate) fn play(self, script: Script) -> Seen {
        let model = ScriptedModel::start(script).expect("a port on loopback");
        let run = match &self.hooks {
            Some(Hooks { deadline, timeout }) => self.run.settings(hooks(deadline, *timeout)),
            None => self.run,
        };
        let output = run.run(&model);
        let seen = Seen { output, served: model.finish() };
        assert_eq!(seen.output.exit, Some(0), "{seen}\n{}", self.sandbox.ralph(&["status"]).stdout);
        assert!(seen.served.problems.is_empty(), "{:#?}\n{seen}", seen.served.problems);
        assert_nothing_is_left(self.sandbox);
        seen
    }
}

/// The hooks as an installer writes them.
fn hooks(deadline: &str, timeout: u64) -> Value {
    let command = format!("'{RALPH}' hook claude --deadline {deadline}");
    let ours = json!([{"type": "command", "command": command, "timeout": timeout}]);
    json!({"hooks": {
        "SubagentStop": [{"hooks": ours}],
        "Stop": [{"hooks": ours}],
        "UserPromptSubmit": [{"hooks": ours}],
        "PostToolUse": [{"matcher": "Agent|Task", "hooks": ours}],
    }})
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
    /// What the client showed the person of our words, in order: `Stop says: …`.
    pub(crate) fn shown_to_person(&self) -> Vec<&str> {
        let shown = self.output.rows.iter().filter(|row| row["subtype"] == "informational");
        shown.filter_map(|row| row["content"].as_str()).collect()
    }

    /// What the hook answered when sub-agents stopped.
    pub(crate) fn answers(&self) -> Vec<Value> {
        let answers = self.output.hook_responses("SubagentStop");
        let parsed = |row: &&Value| serde_json::from_str(row["stdout"].as_str().unwrap_or_default()).ok();
        answers.iter().map(|row| parsed(row).unwrap_or(Value::Null)).collect()
    }

    pub(crate) fn requests_of_sub_agent(&self) -> usize {
        self.served.lane("sub-agent").len()
    }
}

/// What the ledger says became of the stops of `check`, in order, in short: `held gates_failed`.
pub(crate) fn verdicts(sandbox: &Sandbox) -> Vec<String> {
    let events = sandbox.events();
    let of_check = events.iter().filter(|event| event["loop"].as_str().expect("an id").starts_with("check-"));
    of_check.filter_map(|line| in_short(&line["event"])).collect()
}

fn in_short(event: &Value) -> Option<String> {
    let word = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    match event["event"].as_str()? {
        "judged" => Some(format!("{} {}", word(&event["verdict"]), word(&event["reason"]["code"]))),
        "cannot_tell" => Some(format!("{} {}", word(&event["verdict"]), word(&event["trouble"]["trouble"]))),
        "interrupted" => Some("interrupted".into()),
        _ => None,
    }
}

/// How the one loop of `check` stands, by `ralph status --json`.
#[track_caller]
pub(crate) fn standing(sandbox: &Sandbox) -> Value {
    let status = sandbox.status();
    let loops = status["loops"].as_array().expect("loops");
    let of_check = |entry: &&Value| entry["id"].as_str().is_some_and(|id| id.starts_with("check-"));
    let mut states = loops.iter().filter(of_check).map(|entry| entry["state"]["status"].clone());
    let standing = states.next().unwrap_or_else(|| panic!("no loop of check: {status:#}"));
    assert_eq!(states.next(), None, "more than one loop of check: {status:#}");
    standing
}

pub(crate) fn ended(verdict: &str) -> Value {
    json!({"status": "ended", "verdict": verdict})
}

/// How often a gate with the canary ran.
pub(crate) fn gate_runs(sandbox: &Sandbox) -> usize {
    fs::read(sandbox.path(CANARY)).map_or(0, |bytes| bytes.len())
}

/// Every file that ralph keeps, with its content.
pub(crate) fn memory(sandbox: &Sandbox) -> BTreeMap<String, Vec<u8>> {
    let content =
        |name: &String| fs::read(sandbox.ralph_home().join(name)).expect("a file that was just listed");
    sandbox.remembered().into_iter().map(|name| (name.clone(), content(&name))).collect()
}

/// Whatever the client, its hooks and the gates started has `RALPH_HOME` in its environment.
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

/// Only Linux shows the environment of a process; elsewhere nobody is found.
fn processes_with(variable: &[u8]) -> Vec<String> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let found = entries.flatten().filter(|entry| {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|other| other == variable)
    });
    let command_line = |path: &Path| fs::read(path.join("cmdline")).unwrap_or_default();
    found.map(|entry| String::from_utf8_lossy(&command_line(&entry.path())).replace('\0', " ")).collect()
}
