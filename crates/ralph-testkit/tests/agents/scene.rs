//! A project, a home and a client in it, run by the command line that the driver would run; and the assertions for every
//! client.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use ralph_core::clients::list;
use ralph_core::clients::profile::{CommandLine, Context, RunOptions, Value, command_line};
use ralph_core::clients::stream::{Channel, StreamSummary, UsageLimit};
use ralph_core::model::gate::Gate;
use ralph_core::model::id::SessionId;
use ralph_core::model::money::Micros;
use ralph_testkit::{AgentClient, Script, ScriptedModel, Served, Turn};
use tempfile::TempDir;

/// Longer than one command line argument may be, with every character that a shell or a terminal could misinterpret.
fn long_prompt() -> String {
    format!(
        "PROMPT-CANARY \"quoted\" `ticked` $HOME 'single' \\ é 漢\n{}\nPROMPT-END\n",
        "line\n".repeat(40_000)
    )
}

/// A project and a home, and the command line that the driver would use.
struct ProfileScene {
    client: AgentClient,
    dir: TempDir,
}

struct ClientRun {
    exit: Option<i32>,
    summary: StreamSummary,
    served: Served,
    text: String,
}

impl ProfileScene {
    fn new(client: AgentClient) -> Self {
        let dir = TempDir::with_prefix("ralph-agent-").unwrap();
        for folder in ["project", "home"] {
            fs::create_dir(dir.path().join(folder)).unwrap();
        }
        Self { client, dir }
    }

    fn path(&self, relative: &str) -> PathBuf {
        fs::canonicalize(self.dir.path()).unwrap().join(relative)
    }

    fn command_line(&self, prompt: &str, context: Context, model: Option<&str>) -> CommandLine {
        let prompt_file = self.path("prompt.md");
        fs::write(&prompt_file, prompt).unwrap();
        let gate = Gate::sample("check", "sh check.sh");
        let profile = list::find(self.client.name(), &[]).unwrap();
        let wish = RunOptions {
            prompt_file: &prompt_file,
            allowed: list::allowed_tools(&[gate], &[]),
            context,
            budget_left: None,
            model,
        };
        command_line(&profile, &wish)
    }

    fn run(&self, line: &CommandLine, more: &[(&str, &str)], model: ScriptedModel) -> ClientRun {
        let environment = self.client.environment(&self.path("home"), &model);
        let path =
            environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone()).unwrap();
        let program = std::env::split_paths(&path)
            .map(|folder| folder.join(&line.program))
            .find(|program| program.is_file());
        let mut command = Command::new(program.expect("the client's own folder is on the PATH"));
        command
            .args(&line.arguments)
            .env_clear()
            .envs(environment)
            .envs(more.iter().copied())
            .current_dir(self.path("project"));
        for (name, value) in &line.environment {
            match value {
                Value::Literal(text) => command.env(name, text),
                Value::From(_) | Value::Unset => panic!("not in a profile of a client's own service: {name}"),
            };
        }
        command
            .stdin(line.stdin.as_deref().map_or_else(Stdio::null, |file| File::open(file).unwrap().into()));
        let output = command.output().unwrap();
        let dialect = list::find(self.client.name(), &[]).unwrap().dialect;
        let mut reader = list::stream_reader(dialect, Micros::ZERO);
        reader.feed(Channel::Output, &output.stdout, &mut |_| {});
        let mut summary = reader.end(&mut |_| {});
        summary.add_exit(dialect, output.status.code().unwrap_or_default());
        let text = format!(
            "{:?}\n{}\n{}",
            line.arguments,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        ClientRun { exit: output.status.code(), summary, served: model.finish(), text }
    }

    fn play(&self, line: &CommandLine, turns: Vec<Turn>) -> ClientRun {
        self.run(line, &[], self.client.model(Script::new().main(turns)).unwrap())
    }
}

#[track_caller]
fn went_well(ran: &ClientRun) {
    assert_eq!(ran.exit, Some(0), "{}", ran.text);
    assert!(ran.served.problems.is_empty(), "{:#?}\n{}", ran.served.problems, ran.text);
    assert_eq!(ran.summary.unknown, 0, "a row of the stream means nothing to us:\n{}", ran.text);
    let result = ran.summary.result.as_ref().unwrap_or_else(|| panic!("no result:\n{}", ran.text));
    assert!(result.ok, "{result:?}\n{}", ran.text);
}

/// Writes a file, runs the gate, reports it is done; the prompt arrived complete and the stream is parsed.
/// `tokens` are those of three answers, as input and output; not every client reports them.
pub(crate) fn works_as_its_profile_says(
    client: AgentClient,
    write: &str,
    shell: &str,
    tokens: Option<(u64, u64)>,
) {
    let scene = ProfileScene::new(client);
    fs::write(scene.path("project/check.sh"), "echo GATE-CANARY\n").unwrap();
    let file = scene.path("project/made by the agent.txt");
    let line = scene.command_line(&long_prompt(), Context::Fresh, None);
    let ran = scene.play(
        &line,
        vec![
            scene
                .client
                .write(&file, "right")
                .expecting("PROMPT-CANARY \"quoted\" `ticked` $HOME 'single' \\ é 漢")
                .expecting("PROMPT-END"),
            scene.client.shell("sh check.sh"),
            Turn::say("All done.").expecting("GATE-CANARY"),
        ],
    );
    went_well(&ran);
    assert_eq!(fs::read_to_string(&file).unwrap_or_default(), "right\n", "{}", ran.text);
    let summary = &ran.summary;
    let tools: Vec<_> = summary.tools.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    let mut expected = [(write, 1), (shell, 1)];
    expected.sort_unstable();
    assert_eq!(tools, expected, "{}", ran.text);
    assert_eq!(summary.denials, [], "{}", ran.text);
    assert_eq!((summary.tokens.input, summary.tokens.output), tokens.unwrap_or_default(), "{}", ran.text);
    assert!(summary.session.is_some(), "{}", ran.text);
    assert!(summary.last_words.ends_with("All done."), "{:?}", summary.last_words);
    assert_eq!(summary.result.as_ref().unwrap().text, "All done.");
}

/// The session that the first run names is resumed: the model receives the first prompt again, and the second.
pub(crate) fn resumes_its_session(client: AgentClient, other_model: &str) {
    let scene = ProfileScene::new(client);
    let line = scene.command_line("FIRST-PROMPT", Context::Fresh, None);
    let first = scene.play(&line, vec![Turn::say("First answer.").expecting("FIRST-PROMPT")]);
    went_well(&first);
    let session: SessionId = first.summary.session.clone().expect("the id of a session");
    let line = scene.command_line("SECOND-PROMPT", Context::Continue(session.clone()), Some(other_model));
    let second = scene.play(
        &line,
        vec![Turn::say("Second answer.").expecting("SECOND-PROMPT").expecting_not("FIRST-PROMPT")],
    );
    went_well(&second);
    assert_eq!(second.summary.session, Some(session));
    let request = second.served.requests[0].body.to_string();
    assert!(request.contains("FIRST-PROMPT") && request.contains("First answer."), "{}", second.text);
    assert!(second.text.contains(other_model), "{}", second.text);
    let line = scene.command_line("THIRD-PROMPT", Context::Fresh, None);
    let third = scene.play(&line, vec![Turn::say("Third answer.").expecting("THIRD-PROMPT")]);
    went_well(&third);
    assert!(!third.served.requests[0].body.to_string().contains("FIRST-PROMPT"), "a fresh run remembers");
}

/// The service refuses the request. It is a usage limit, not a failure, and its end is known if the service states one.
pub(crate) fn is_refused(
    client: AgentClient,
    refusal: &Turn,
    more: &[(&str, &str)],
    status: Option<u16>,
) -> UsageLimit {
    let scene = ProfileScene::new(client);
    let line = scene.command_line("do it", Context::Fresh, None);
    let model = scene.client.model(Script::new().then_repeat(refusal.clone())).unwrap();
    let ran = scene.run(&line, more, model);
    assert_ne!(ran.exit, Some(0), "{}", ran.text);
    assert_eq!(ran.summary.unknown, 0, "a row of the stream means nothing to us:\n{}", ran.text);
    let result = ran.summary.result.as_ref().unwrap_or_else(|| panic!("no result:\n{}", ran.text));
    assert_eq!((result.ok, result.status), (false, status), "{}", ran.text);
    ran.summary.limit.unwrap_or_else(|| panic!("no limit:\n{}", ran.text))
}
