//! `ralph demo`: the whole workflow in seconds. A sample project in a temporary folder, a scripted stand-in for an agent,
//! and the real engine: every answer comes from this binary, called as a client calls it.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use ralph_core::clients::hook::HookReply;
use serde_json::Value;

use super::{CommandError, CommandResult, installed_client};
use crate::clients::client::Client;
use crate::clients::installation::{HookTrial, SampleStop};
use crate::clients::surroundings;
use crate::show::exit;
use crate::show::terminal::{self, BAD, FAINT, GOOD, ODD, STRONG, paint};
use crate::sys::env;
use crate::sys::short_command::{self, CommandOutput};
use crate::work_tree::git::{self, GitError};

/// The timeout of each of the demo's commands.
const PATIENCE: Duration = Duration::from_secs(60);

const CONFIG: &str =
    "# ralph.yaml: what must pass before the sub-agent `check` may stop\nverify:\n  - sh tests.sh\n";

const PROGRAM: &str = "# slug.sh: turns a title into a file name\nprintf '%s\\n' \"$1\"\n";

const FIXED: &str = "# slug.sh: turns a title into a file name\n\
                      printf '%s\\n' \"$1\" | tr '[:upper:]' '[:lower:]' | tr ' ' '-'\n";

const TESTS: &str = "# tests.sh\n\
                     expect() {\n\
                     \x20 got=$(sh slug.sh \"$1\")\n\
                     \x20 if [ \"$got\" = \"$2\" ]; then echo \"ok: $1\"\n\
                     \x20 else echo \"FAILED: slug of '$1': expected '$2', got '$got'\"; exit 1; fi\n\
                     }\n\
                     expect 'hello' 'hello'\n\
                     expect 'Hello World' 'hello-world'\n";

pub(super) fn run() -> CommandResult {
    let dir = tempfile::Builder::new().prefix("ralph-demo-").tempdir()?;
    let (client, installation) = installed_client()?;
    let stage = DemoProject { dir: dir.path(), client, rehearsal: &installation.rehearsal };
    stage.set_up()?;
    stage.claim_without_work()?;
    stage.weaken_the_gate()?;
    stage.do_the_work()?;
    stage.look_back()?;
    where_to_go_next(client);
    Ok(ExitCode::SUCCESS)
}

/// The temporary folder of the demo.
struct DemoProject<'a> {
    dir: &'a Path,
    client: &'static Client,
    rehearsal: &'static HookTrial,
}

impl DemoProject<'_> {
    fn set_up(&self) -> Result<(), CommandError> {
        title("A small project");
        narrate("`slug.sh` should turn a title into a file name. It does not work yet, as `tests.sh` shows.");
        narrate("`ralph.yaml` defines the gate: the command that decides whether the work is done.");
        for (name, text) in [("ralph.yaml", CONFIG), ("slug.sh", PROGRAM), ("tests.sh", TESTS)] {
            fs::create_dir_all(self.project())?;
            fs::write(self.project().join(name), text)?;
        }
        self.git(&["init", "-q"])?;
        quote(CONFIG);
        narrate("You review the gates and accept them once. Until then, nothing from a repo is ever run.");
        let shown: Value = self.ralph(&["trust", "--show", "--json"], None)?.json()?;
        let sha256 = shown["sha256"].as_str().unwrap_or_default().to_owned();
        typed(&format!("ralph trust   (SHA-256 {}…)", sha256.get(..16).unwrap_or_default()));
        self.ralph(&["trust", "--hash", &sha256], None)?;
        Ok(())
    }

    fn claim_without_work(&self) -> Result<(), CommandError> {
        title("The agent says it is done");
        narrate(
            "A sub-agent called `check` has to fix slug.sh. (In this demo it is a script; everything else is real.)",
        );
        agent("I have fixed slug.sh. All tests pass. Done!");
        narrate("It tries to stop. The client calls ralph, which runs the gate on the current files:");
        let answer = self.stop("I have fixed slug.sh. All tests pass. Done!")?;
        show_blocked(&answer, "slug of 'Hello World'")?;
        narrate("The stop is blocked, and the agent now knows exactly what fails.");
        Ok(())
    }

    fn weaken_the_gate(&self) -> Result<(), CommandError> {
        title("The agent tries a shortcut");
        agent("The gate is in my way. I write `verify: [\"true\"]` into ralph.yaml.");
        fs::write(self.project().join("ralph.yaml"), "verify: [\"true\"]\n")?;
        let answer = self.stop("Everything passes now.")?;
        show_blocked(&answer, "accept")?;
        narrate("The accepted gates are stored outside the repo, and those were run. Nothing ends verified");
        narrate("while the file differs from them.");
        Ok(())
    }

    fn do_the_work(&self) -> Result<(), CommandError> {
        title("The agent does the work");
        agent("I restore ralph.yaml and really fix slug.sh.");
        fs::write(self.project().join("ralph.yaml"), CONFIG)?;
        fs::write(self.project().join("slug.sh"), FIXED)?;
        quote(FIXED);
        let answer = self.stop("Done.")?;
        let HookReply::Notify { user: Some(said), .. } = &answer else { return Err(broken(&answer)) };
        if !said.contains("Verification passed") {
            return Err(broken(&answer));
        }
        terminal::print(format_args!("  {} {said}", paint(GOOD, "stop allowed:")));
        narrate("This time the gate passed. The agent's claim was never needed.");
        Ok(())
    }

    fn look_back(&self) -> Result<(), CommandError> {
        title("What is recorded");
        narrate("Every step is in a ledger outside the repo, each line chained to the one before it:");
        typed("ralph log");
        let log = self.ralph(&["log"], None)?;
        quote(&String::from_utf8_lossy(&log.0.stdout));
        Ok(())
    }

    fn project(&self) -> std::path::PathBuf {
        self.dir.join("slugs")
    }

    /// Sends the client's event for the sub-agent's stop and returns the reply.
    fn stop(&self, message: &str) -> Result<HookReply, CommandError> {
        let root = self.project();
        let stop = SampleStop { root: &root, session: "demo", agent_name: "check", message };
        let input = (self.rehearsal.stop)(&stop);
        let said = self.ralph(&["hook", self.client.name], Some(&input))?;
        Ok((self.rehearsal.read_answer)(&said.0.stdout))
    }

    fn ralph(&self, arguments: &[&str], input: Option<&str>) -> Result<Narration, CommandError> {
        let mut command = short_command::command(std::env::current_exe()?);
        command.args(arguments).current_dir(self.project()).env("RALPH_HOME", self.dir.join("ralph-home"));
        // The demo may itself be run by an agent; its own session is separate.
        for (name, _) in env::all().filter(|(name, _)| surroundings::is_of_an_agent(&name.to_string_lossy()))
        {
            command.env_remove(name);
        }
        let answer = short_command::run(command, input.map(str::as_bytes), self.dir, PATIENCE)?;
        let Some(answer) = answer else {
            let what = format!("`ralph {}` timed out after a minute", arguments.join(" "));
            return Err(CommandError::new(exit::NOT_VERIFIED, what));
        };
        if answer.status.success() {
            return Ok(Narration(answer));
        }
        Err(CommandError::new(exit::NOT_VERIFIED, String::from_utf8_lossy(&answer.stderr)))
    }

    fn git(&self, arguments: &[&str]) -> Result<(), CommandError> {
        git::call_in(&self.project(), arguments, PATIENCE).map(drop).map_err(|error| match error {
            GitError::NotRun(_) => CommandError::new(exit::USAGE, error.to_string()).hint("install git"),
            _ => CommandError::new(exit::USAGE, error.to_string()),
        })
    }
}

struct Narration(CommandOutput);

impl Narration {
    fn json(&self) -> Result<Value, CommandError> {
        let text = String::from_utf8_lossy(&self.0.stdout);
        serde_json::from_str(&text)
            .map_err(|error| CommandError::new(exit::NOT_VERIFIED, format!("{error}: {text}")))
    }
}

fn broken(answer: &HookReply) -> CommandError {
    CommandError::new(exit::NOT_VERIFIED, format!("the demo failed: unexpected answer {answer:?}"))
}

fn title(text: &str) {
    terminal::print(format_args!("\n{}", paint(STRONG, text)));
}

fn narrate(text: &str) {
    terminal::print(format_args!("  {text}"));
}

fn agent(words: &str) {
    terminal::print(format_args!("  {} {words}", paint(ODD, "agent:")));
}

fn typed(words: &str) {
    terminal::print(format_args!("  {}", paint(FAINT, format!("$ {words}"))));
}

fn quote(text: &str) {
    for line in text.lines() {
        terminal::print(format_args!("  {} {line}", paint(FAINT, "|")));
    }
}

/// Shows an answer that must block the agent, for this reason.
fn show_blocked(answer: &HookReply, because: &str) -> Result<(), CommandError> {
    let HookReply::Block { reason, detail, .. } = answer else { return Err(broken(answer)) };
    if !detail.contains(because) {
        return Err(broken(answer));
    }
    terminal::print(format_args!("  {} {reason}", paint(BAD, "blocked:")));
    quote(detail);
    Ok(())
}

fn where_to_go_next(client: &Client) {
    title("Next steps");
    narrate(&format!(
        "In your own project, `ralph init` finds your gates, tries each once, asks, and sets up {}. Then",
        client.shown_name
    ));
    narrate(
        "`ralph verify` runs the gates at any time, and `ralph doctor` checks that the client really calls ralph.",
    );
}
