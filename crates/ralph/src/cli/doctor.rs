//! `ralph doctor`: proves the wiring instead of believing it. A recorded event goes through the command line found in the
//! settings, by the shell the client uses, with the client's variables; each problem comes with its fix.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use ralph_core::budget::Attempts;
use ralph_core::config::Guard;
use ralph_core::facts::Standing;
use ralph_core::state::Status;
use serde_json::{Value, json};

use super::Done;
use super::context::Place;
use crate::definition::{Found, InForce};
use crate::install::Timeouts;
use crate::install::claude::{self, BLOCK_CAP, DEFAULT_BLOCK_CAP, Entry};
use crate::trust::AcceptedBy;
use crate::ui::{self, BAD, FAINT, GOOD, paint};
use crate::{clock, env, exit, files, ledger};

/// A stop of a sub-agent as Claude Code 2.1.325 sent it.
const RECORDED: &str = include_str!("../../../ralph-core/fixtures/claude/subagent_stop.first.json");

#[derive(clap::Args)]
#[command(
    after_help = "Exit code 1 where something is wrong.\nExample:\n  ralph doctor --json | jq '.problems'"
)]
pub(super) struct Arguments {
    /// One JSON object on stdout, for scripts
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Done {
    let place = Place::here(None)?;
    let found = place.found()?;
    let mut examination = Examination::default();
    examination.good("ralph", env!("CARGO_PKG_VERSION"));
    examination.client();
    let wiring = examination.settings(&place);
    examination.gates(&found);
    examination.acceptance(&place, &found);
    examination.agents(&place, &found);
    if let Found::InForce(in_force) = &found {
        examination.timeouts(&wiring, in_force);
        examination.block_cap(&place, &wiring, in_force);
    }
    examination.answer(&place, &found, &wiring);
    examination.last_judged(&place);
    if arguments.json {
        ui::json(&examination.json());
    } else {
        examination.show();
    }
    let healthy = examination.findings.iter().all(|finding| finding.fix.is_none());
    Ok(ExitCode::from(if healthy { exit::VERIFIED } else { exit::NOT_VERIFIED }))
}

/// One thing looked at: fine, or with a fix.
struct Finding {
    name: &'static str,
    what: String,
    fix: Option<String>,
}

#[derive(Default)]
struct Examination {
    findings: Vec<Finding>,
}

/// Our entries in all settings files, and what else they say.
#[derive(Default)]
struct Wiring {
    entries: Vec<Entry>,
    block_cap: Option<u32>,
}

impl Examination {
    fn good(&mut self, name: &'static str, what: impl Into<String>) {
        self.findings.push(Finding { name, what: what.into(), fix: None });
    }

    fn wrong(&mut self, name: &'static str, what: impl Into<String>, fix: impl Into<String>) {
        self.findings.push(Finding { name, what: what.into(), fix: Some(fix.into()) });
    }

    fn client(&mut self) {
        let asked =
            Command::new("claude").arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
        match asked {
            Ok(output) if output.status.success() => {
                self.good("client", String::from_utf8_lossy(&output.stdout).trim());
            }
            _ => self.good("client", "`claude` is not on this PATH; its version is not known"),
        }
    }

    /// Every settings file that the client reads for this project.
    fn settings(&mut self, place: &Place) -> Wiring {
        let mut wiring = Wiring::default();
        for path in settings_files(place) {
            let Ok(Some(bytes)) = files::read_if_there(&path) else { continue };
            let found = claude::look(&String::from_utf8_lossy(&bytes));
            for fault in &found.faults {
                let what = format!(
                    "{}: {fault}; the client then ignores the hooks of this file without a word",
                    path.display()
                );
                self.wrong("settings", what, "mend the file; `ralph init` writes our part of it anew");
            }
            for plugin in &found.other_loops {
                let what = format!("{}: the plugin `{plugin}` holds sessions too", path.display());
                self.wrong(
                    "plugins",
                    what,
                    "keep one of them: switch the plugin off, or `ralph init --uninstall`",
                );
            }
            if found.faults.is_empty() {
                wiring.entries.extend(found.entries);
            }
            wiring.block_cap = found.block_cap.or(wiring.block_cap);
        }
        if place.repo.root.join(".claude/ralph-loop.local.md").exists() {
            self.wrong(
                "plugins",
                "a loop of another Ralph plugin is active here (.claude/ralph-loop.local.md)",
                "end it with `/cancel-ralph`",
            );
        }
        match wiring.judging() {
            Some(entry) => self.good("hook", format!("SubagentStop: {}", entry.command)),
            None => self.wrong(
                "hook",
                "no working settings file has our hook on SubagentStop: nobody is held",
                "`ralph init`",
            ),
        }
        wiring
    }

    fn gates(&mut self, found: &Found) {
        match found {
            Found::Nothing => self.wrong("gates", "there is no ralph.yaml", "`ralph init`"),
            Found::Untrusted(file) => {
                self.wrong(
                    "trust",
                    format!("{} is not accepted: nothing runs, nobody is held", file.path),
                    "`ralph trust`",
                );
            }
            Found::Revoked => {
                self.wrong("trust", "trust was taken back: nothing runs, nobody is held", "`ralph trust`");
            }
            Found::InForce(in_force) => match (&in_force.broken, &in_force.standing) {
                (Some(broken), _) => {
                    let what = format!("{}: {}", broken.path, broken.problem);
                    self.wrong("gates", what, "mend the line; `ralph verify` draws it");
                }
                (None, Standing::Accepted) if in_force.config.has_gates() => {
                    self.good("trust", format!("accepted; gates: {}", in_force.config.gates.len()));
                }
                (None, Standing::Accepted) => self.wrong(
                    "gates",
                    "there is no gate: nothing can be verified",
                    "add one to the `verify:` list",
                ),
                (None, _) => self.wrong(
                    "trust",
                    "the gate definition is not the accepted one: nothing ends verified",
                    "`ralph trust --show`, then `ralph trust` or put the file back",
                ),
            },
        }
    }

    /// What an agent accepted is shown until a person confirms it.
    fn acceptance(&mut self, place: &Place, found: &Found) {
        let Found::InForce(in_force) = found else { return };
        let accepted = place.trust.accepted(&place.repo).iter();
        let by =
            accepted.rev().find(|acceptance| acceptance.sha256 == in_force.sha256).map(|found| &found.by);
        if let Some(by @ AcceptedBy::AgentsShell { .. }) = by {
            let what = format!("the gates were accepted by {by}, not by a person");
            self.wrong(
                "trust",
                what,
                "look at them with `ralph trust --show`, then `ralph trust` at a terminal",
            );
        }
    }

    /// Whether anybody whom the guard names is known here. A plugin may bring one, so it is no fault.
    fn agents(&mut self, place: &Place, found: &Found) {
        let Found::InForce(in_force) = found else { return };
        let guard = &in_force.config.guard;
        let held: Vec<String> =
            claude::agents(&place.repo.root).into_iter().filter(|name| guard.holds_agent(name)).collect();
        let names = guard.names().join(", ");
        if held.is_empty() {
            let what = format!(
                "no agent in .claude/agents is called {names}; nobody is held unless a plugin brings one"
            );
            self.good("agents", what);
        } else {
            self.good("agents", format!("held: {}", held.join(", ")));
        }
    }

    fn timeouts(&mut self, wiring: &Wiring, in_force: &InForce) {
        let Some(entry) = wiring.judging() else { return };
        let wanted = Timeouts::for_gates(&in_force.config.gates);
        let (client, deadline) = (entry.timeout.unwrap_or(600), entry.deadline().unwrap_or(570));
        if deadline >= client {
            let what =
                format!("our deadline of {deadline} s is not before the client's time-out of {client} s");
            self.wrong("time-outs", what, "`ralph init` writes both anew");
        } else if client < wanted.client {
            let what = format!(
                "the gates may take longer than the client waits ({client} s; {} s are needed)",
                wanted.client
            );
            self.wrong("time-outs", what, "`ralph init` writes both anew");
        } else {
            self.good("time-outs", format!("client {client} s, our deadline {deadline} s"));
        }
    }

    fn block_cap(&mut self, place: &Place, wiring: &Wiring, in_force: &InForce) {
        let limits = place.settings.limits(in_force.layout, &in_force.config.budget);
        let cap = env::block_cap().or(wiring.block_cap).unwrap_or(DEFAULT_BLOCK_CAP);
        let most_holds = match limits.attempts.value {
            Attempts::AtMost(attempts) => Some(attempts - 1),
            Attempts::Unlimited => None,
        };
        let enough = cap == 0 || most_holds.is_some_and(|holds| holds <= cap);
        if enough {
            self.good("block cap", format!("the client honours {cap} holds in a row"));
            return;
        }
        let what = format!(
            "the client ends a turn after {cap} holds in a row, before the {} attempts are used up",
            limits.attempts.value
        );
        let fix = format!(
            "set \"env\": {{\"{BLOCK_CAP}\": \"{}\"}} in .claude/settings.json",
            most_holds.map_or(0, |holds| holds + 1)
        );
        self.wrong("block cap", what, fix);
    }

    /// Sends a recorded stop of an agent that is held through the command as installed. The hook is given an empty
    /// home, in which nothing is accepted: it must say that it would have to be, and it runs nothing.
    fn answer(&mut self, place: &Place, found: &Found, wiring: &Wiring) {
        let (Some(entry), Some(agent)) = (wiring.judging(), somebody_held(place, found)) else { return };
        if !claude::is_as_written(&entry.command, &place.repo.root) {
            let what =
                "the command of the hook is not of the form that ralph writes; it was not run to try it";
            self.wrong("answer", what, "look at it; `ralph init` writes it anew");
            return;
        }
        match send(&entry.command, &place.repo.root, &agent) {
            Ok(said) if said.contains("ralph trust") => {
                self.good("answer", "the hook as installed answered a recorded stop");
            }
            Ok(said) if said.is_empty() => {
                self.wrong(
                    "answer",
                    "the hook as installed said nothing to a recorded stop",
                    "`ralph init` writes the command anew",
                );
            }
            Ok(said) => self.wrong(
                "answer",
                format!("the hook as installed answered something else: {said}"),
                "`ralph init` writes the command anew",
            ),
            Err(error) => self.wrong(
                "answer",
                format!("the hook as installed failed: {error}"),
                "`ralph init` writes the command anew; is ralph still where it was?",
            ),
        }
    }

    fn last_judged(&mut self, place: &Place) {
        let loops = place.repo_home.loops();
        let states = loops.iter().filter(|id| id.as_str() != "verify").filter_map(|id| {
            let state = ledger::read(&place.repo_home.loop_dir(id)).ok()?.state;
            Some((id, state.last.clone()?, state.status))
        });
        match states.max_by_key(|(_, last, _)| last.at) {
            Some((id, last, status)) => {
                let paused = if status == Status::Paused { ", paused" } else { "" };
                self.good(
                    "last judged",
                    format!("{}: {id} {}{paused}", ui::ago(last.at, clock::now()), last.verdict),
                );
            }
            None => self.good("last judged", "never yet (idle calls leave no trace)"),
        }
    }

    fn show(&self) {
        for finding in &self.findings {
            let mark = if finding.fix.is_none() { paint(GOOD, "✓") } else { paint(BAD, "✗") };
            ui::say(format_args!(
                "{mark} {}  {}",
                paint(FAINT, format!("{:11}", finding.name)),
                finding.what
            ));
            if let Some(fix) = &finding.fix {
                ui::say(format_args!("  {:11}  {} {fix}", "", paint(FAINT, "fix:")));
            }
        }
    }

    fn json(&self) -> Value {
        let as_json =
            |finding: &Finding| json!({"name": finding.name, "what": finding.what, "fix": finding.fix});
        let (problems, good): (Vec<_>, Vec<_>) =
            self.findings.iter().partition(|finding| finding.fix.is_some());
        json!({
            "healthy": problems.is_empty(),
            "problems": problems.into_iter().map(as_json).collect::<Vec<_>>(),
            "good": good.into_iter().map(as_json).collect::<Vec<_>>(),
        })
    }
}

impl Wiring {
    /// The entry that judges a sub-agent's stop.
    fn judging(&self) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.event == "SubagentStop")
    }
}

fn settings_files(place: &Place) -> Vec<PathBuf> {
    let user = env::home().map(|home| home.join(claude::SHARED));
    let project = [claude::SHARED, claude::LOCAL].map(|path| place.repo.root.join(path));
    user.into_iter().chain(project).collect()
}

/// The name of an agent that this repo's config holds; none where there is no config to speak of.
fn somebody_held(place: &Place, found: &Found) -> Option<String> {
    let guard = match found {
        Found::InForce(in_force) => in_force.config.guard.clone(),
        Found::Untrusted(_) | Found::Revoked | Found::Nothing => Guard::default(),
    };
    place.repo.config().ok().flatten()?;
    if guard.holds_agent("check") {
        return Some("check".into());
    }
    // A name that the first pattern fits.
    Some(guard.names().first()?.replace(['*', '?'], "x"))
}

/// The recorded stop through the client's shell; what came back on stdout.
fn send(command: &str, root: &Path, agent: &str) -> Result<String, String> {
    let mut payload: Value = serde_json::from_str(RECORDED).map_err(|error| error.to_string())?;
    payload["agent_type"] = json!(agent);
    payload["cwd"] = json!(root);
    let empty_home = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-c", command])
        .current_dir(root)
        .env("RALPH_HOME", empty_home.path())
        .env("CLAUDE_PROJECT_DIR", root)
        .env("CLAUDECODE", "1")
        .env("CLAUDE_CODE_ENTRYPOINT", "cli")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = shell.spawn().map_err(|error| error.to_string())?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that does not read its input is told by its answer.
        let _not_read = stdin.write_all(payload.to_string().as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        Some(code) => Err(format!("exit code {code}: {}", stderr.trim())),
        None => Err("it was ended by a signal".into()),
    }
}
