//! `ralph demo`: the whole story in seconds. A sample project in a temporary folder, a scripted stand-in for an agent,
//! and the real engine: every answer comes from this very binary, called as a client calls it.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use ralph_core::clients::hook::HookReply;
use serde_json::Value;

use super::{Done, Failure, installed_client};
use crate::clients::client::Client;
use crate::clients::installation::{Rehearsal, SampleStop};
use crate::clients::surroundings;
use crate::show::exit;
use crate::show::terminal::{self, BAD, FAINT, GOOD, ODD, STRONG, paint};
use crate::sys::env;
use crate::sys::short_command::{self, CommandOutput};
use crate::work_tree::git::{self, GitError};

/// How long any of the demo's commands may take.
const PATIENCE: Duration = Duration::from_secs(60);

const CONFIG: &str =
    "# ralph.yaml: what must pass before the sub-agent `check` may stop\nverify:\n  - sh tests.sh\n";

const PROGRAM: &str = "# slug.sh: turns a title into a file name\nprintf '%s\\n' \"$1\"\n";

const MENDED: &str = "# slug.sh: turns a title into a file name\n\
                      printf '%s\\n' \"$1\" | tr '[:upper:]' '[:lower:]' | tr ' ' '-'\n";

const TESTS: &str = "# tests.sh\n\
                     expect() {\n\
                     \x20 got=$(sh slug.sh \"$1\")\n\
                     \x20 if [ \"$got\" = \"$2\" ]; then echo \"ok: $1\"\n\
                     \x20 else echo \"FAILED: slug of '$1': expected '$2', got '$got'\"; exit 1; fi\n\
                     }\n\
                     expect 'hello' 'hello'\n\
                     expect 'Hello World' 'hello-world'\n";

pub(super) fn run() -> Done {
    let dir = tempfile::Builder::new().prefix("ralph-demo-").tempdir()?;
    let (client, installation) = installed_client()?;
    let stage = Stage { dir: dir.path(), client, rehearsal: &installation.rehearsal };
    stage.set_up()?;
    stage.claim_without_work()?;
    stage.weaken_the_gate()?;
    stage.do_the_work()?;
    stage.look_back()?;
    where_to_go_next(client);
    Ok(ExitCode::SUCCESS)
}

/// The temporary folder in which the story is played.
struct Stage<'a> {
    dir: &'a Path,
    client: &'static Client,
    rehearsal: &'static Rehearsal,
}

impl Stage<'_> {
    fn set_up(&self) -> Result<(), Failure> {
        title("A small project");
        tell("`slug.sh` should turn a title into a file name. It does not yet. `tests.sh` says so.");
        tell("`ralph.yaml` names the gate: the command that decides whether the work is done.");
        for (name, text) in [("ralph.yaml", CONFIG), ("slug.sh", PROGRAM), ("tests.sh", TESTS)] {
            fs::create_dir_all(self.project())?;
            fs::write(self.project().join(name), text)?;
        }
        self.git(&["init", "-q"])?;
        quote(CONFIG);
        tell("A person looks at the gates and accepts them once. Until then nothing of a repo is ever run.");
        let shown: Value = self.ralph(&["trust", "--show", "--json"], None)?.json()?;
        let sha256 = shown["sha256"].as_str().unwrap_or_default().to_owned();
        typed(&format!("ralph trust   (SHA-256 {}…)", sha256.get(..16).unwrap_or_default()));
        self.ralph(&["trust", "--hash", &sha256], None)?;
        Ok(())
    }

    fn claim_without_work(&self) -> Result<(), Failure> {
        title("The agent says it is done");
        tell(
            "A sub-agent called `check` is to mend slug.sh. (In this demo it is a script; everything else is real.)",
        );
        agent("I have mended slug.sh. All tests pass. Done!");
        tell("It tries to stop. The client asks ralph, and ralph runs the gate on the files as they are:");
        let answer = self.stop("I have mended slug.sh. All tests pass. Done!")?;
        show_held(&answer, "slug of 'Hello World'")?;
        tell("The agent did not get out, and now it knows exactly what is wrong.");
        Ok(())
    }

    fn weaken_the_gate(&self) -> Result<(), Failure> {
        title("The agent tries a short cut");
        agent("The gate is in my way. I write `verify: [\"true\"]` into ralph.yaml.");
        fs::write(self.project().join("ralph.yaml"), "verify: [\"true\"]\n")?;
        let answer = self.stop("Everything passes now.")?;
        show_held(&answer, "not the accepted one")?;
        tell(
            "What a person accepted is kept outside the repo, and that is what was run. Nothing can end verified",
        );
        tell("while the file says something else.");
        Ok(())
    }

    fn do_the_work(&self) -> Result<(), Failure> {
        title("The agent does the work");
        agent("I put ralph.yaml back and really mend slug.sh.");
        fs::write(self.project().join("ralph.yaml"), CONFIG)?;
        fs::write(self.project().join("slug.sh"), MENDED)?;
        quote(MENDED);
        let answer = self.stop("Done.")?;
        let HookReply::Tell { person: Some(said), .. } = &answer else { return Err(broken(&answer)) };
        if !said.contains("Verification passed") {
            return Err(broken(&answer));
        }
        terminal::say(format_args!("  {} {said}", paint(GOOD, "let go:")));
        tell("It said less this time. It did not have to be believed.");
        Ok(())
    }

    fn look_back(&self) -> Result<(), Failure> {
        title("What is remembered");
        tell("Every step is in a ledger outside the repo, each line bound to the one before it:");
        typed("ralph log");
        let log = self.ralph(&["log"], None)?;
        quote(&String::from_utf8_lossy(&log.0.stdout));
        Ok(())
    }

    fn project(&self) -> std::path::PathBuf {
        self.dir.join("slugs")
    }

    /// The client's question when the sub-agent wants to stop, and what the client makes of the answer.
    fn stop(&self, message: &str) -> Result<HookReply, Failure> {
        let root = self.project();
        let stop = SampleStop { root: &root, session: "demo", agent_name: "check", message };
        let input = (self.rehearsal.stop)(&stop);
        let said = self.ralph(&["hook", self.client.name], Some(&input))?;
        Ok((self.rehearsal.read_answer)(&said.0.stdout))
    }

    fn ralph(&self, arguments: &[&str], input: Option<&str>) -> Result<Said, Failure> {
        let mut command = short_command::command(std::env::current_exe()?);
        command.args(arguments).current_dir(self.project()).env("RALPH_HOME", self.dir.join("ralph-home"));
        // The demo may itself be run by an agent; its own little session is another one.
        for (name, _) in env::all().filter(|(name, _)| surroundings::is_of_an_agent(&name.to_string_lossy()))
        {
            command.env_remove(name);
        }
        let answer = short_command::run(command, input.map(str::as_bytes), self.dir, PATIENCE)?;
        let Some(answer) = answer else {
            let what = format!("`ralph {}` did not answer within a minute", arguments.join(" "));
            return Err(Failure::new(exit::NOT_VERIFIED, what));
        };
        if answer.status.success() {
            return Ok(Said(answer));
        }
        Err(Failure::new(exit::NOT_VERIFIED, String::from_utf8_lossy(&answer.stderr)))
    }

    fn git(&self, arguments: &[&str]) -> Result<(), Failure> {
        git::call_in(&self.project(), arguments, PATIENCE).map(drop).map_err(|error| match error {
            GitError::NotRun(_) => Failure::new(exit::USAGE, error.to_string()).hint("install git"),
            _ => Failure::new(exit::USAGE, error.to_string()),
        })
    }
}

struct Said(CommandOutput);

impl Said {
    fn json(&self) -> Result<Value, Failure> {
        let text = String::from_utf8_lossy(&self.0.stdout);
        serde_json::from_str(&text)
            .map_err(|error| Failure::new(exit::NOT_VERIFIED, format!("{error}: {text}")))
    }
}

fn broken(answer: &HookReply) -> Failure {
    Failure::new(exit::NOT_VERIFIED, format!("the demo did not go as it should; ralph answered {answer:?}"))
}

fn title(text: &str) {
    terminal::say(format_args!("\n{}", paint(STRONG, text)));
}

fn tell(text: &str) {
    terminal::say(format_args!("  {text}"));
}

fn agent(words: &str) {
    terminal::say(format_args!("  {} {words}", paint(ODD, "agent:")));
}

fn typed(words: &str) {
    terminal::say(format_args!("  {}", paint(FAINT, format!("$ {words}"))));
}

fn quote(text: &str) {
    for line in text.lines() {
        terminal::say(format_args!("  {} {line}", paint(FAINT, "|")));
    }
}

/// Shows an answer that must hold the agent, for this reason.
fn show_held(answer: &HookReply, because: &str) -> Result<(), Failure> {
    let HookReply::Block { reason, detail, .. } = answer else { return Err(broken(answer)) };
    if !detail.contains(because) {
        return Err(broken(answer));
    }
    terminal::say(format_args!("  {} {reason}", paint(BAD, "held:")));
    quote(detail);
    Ok(())
}

fn where_to_go_next(client: &Client) {
    title("Where to go next");
    tell(&format!(
        "In your own project `ralph init` finds your gates, tries each once, asks, and wires {}. Then",
        client.shown_name
    ));
    tell(
        "`ralph verify` runs the gates at any time, and `ralph doctor` proves that the client really asks ralph.",
    );
}
