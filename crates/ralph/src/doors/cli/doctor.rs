//! `ralph doctor`: proves the wiring instead of believing it. A recorded event goes through the command line found in the
//! settings, by the shell the client uses, with the client's variables; each problem comes with its fix.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use ralph_core::clients::hook::HookReply;
use ralph_core::config::Guard;
use ralph_core::ledger::facts::Standing;
use ralph_core::ledger::state::{State, Status};
use ralph_core::model::budget::Attempts;
use ralph_core::say::feedback;
use serde_json::{Value, json};

use super::context::Place;
use super::{Done, Failure, installed_client};
use crate::clients::client::Client;
use crate::clients::installation::{Entry, Heard, Installation, SampleStop};
use crate::clients::installed::Timeouts;
use crate::clients::{hook_command, surroundings};
use crate::loops::driver::driven::DrivenLoop;
use crate::loops::session::SessionLoop;
use crate::show::exit;
use crate::show::progress::lines::pause_cause;
use crate::show::terminal::{self, BAD, FAINT, GOOD, paint};
use crate::store::effective_gates::{Found, InForce};
use crate::store::exports::loop_file::{self, OnDisk};
use crate::sys::{clock, short_command};

/// How long the client and a hook of it may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many loops back we look.
const RECENT: usize = 10;

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
    let (client, installation) = installed_client()?;
    let mut examination = Examination { client, installation, findings: Vec::new() };
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
    let loops = recent_loops(&place)?;
    examination.loops(&place, &loops)?;
    if arguments.json {
        terminal::json(&examination.json(&wiring, &loops));
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

struct Examination {
    client: &'static Client,
    installation: &'static Installation,
    findings: Vec<Finding>,
}

/// Our entries in all settings files, and what else they say.
#[derive(Default)]
struct Wiring {
    /// What the client runs, and who brings it.
    entries: Vec<(Voice, Entry)>,
    block_cap: Option<u32>,
}

/// Who brings our hook to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Voice {
    Settings(PathBuf),
    /// By its name. It is silent wherever the settings speak.
    Plugin(String),
}

impl std::fmt::Display for Voice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Settings(path) => write!(f, "{}", path.display()),
            Self::Plugin(name) => write!(f, "the plugin `{name}`"),
        }
    }
}

impl Examination {
    fn good(&mut self, name: &'static str, what: impl Into<String>) {
        self.findings.push(Finding { name, what: what.into(), fix: None });
    }

    fn wrong(&mut self, name: &'static str, what: impl Into<String>, fix: impl Into<String>) {
        self.findings.push(Finding { name, what: what.into(), fix: Some(fix.into()) });
    }

    fn client(&mut self) {
        let program = self.installation.program;
        let mut client = short_command::command(program);
        client.arg("--version");
        match short_command::run(client, None, &std::env::temp_dir(), PATIENCE) {
            Ok(Some(answer)) if answer.status.success() => {
                self.good("client", String::from_utf8_lossy(&answer.stdout).trim());
            }
            _ => self.good("client", format!("`{program}` is not on this PATH; its version is not known")),
        }
    }

    /// Every settings file that the client reads for this project.
    fn settings(&mut self, place: &Place) -> Wiring {
        let mut wiring = Wiring::default();
        let mut our_plugin = None;
        for (path, found) in (self.installation.look)(&place.workspace.repo.root) {
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
            wiring.block_cap = found.block_cap.or(wiring.block_cap);
            our_plugin = found.our_plugin.or(our_plugin);
            if found.faults.is_empty() {
                let voice = Voice::Settings(path);
                wiring.entries.extend(found.entries.into_iter().map(|entry| (voice.clone(), entry)));
            }
        }
        if let Some(name) = our_plugin {
            let voice = Voice::Plugin(name);
            let entries = (self.installation.plugin.entries)().into_iter();
            wiring.entries.extend(entries.map(|entry| (voice.clone(), entry)));
        }
        if OnDisk::new(&place.workspace.repo_home, &place.workspace.repo.root).foreign().is_some() {
            self.wrong(
                "plugins",
                format!("a loop of another Ralph plugin is active here ({})", loop_file::PATH),
                "end it with `/cancel-ralph`, or let ralph take it up when its session stops",
            );
        }
        self.voices(&wiring);
        wiring
    }

    /// Whether each event is heard, and heard once.
    fn voices(&mut self, wiring: &Wiring) {
        if wiring.entries.is_empty() {
            self.wrong(
                "hook",
                "no working settings file has our hook, and ralph's plugin is not switched on: nobody is held",
                "`ralph init`, or `ralph init --plugin`",
            );
            return;
        }
        for heard in self.installation.events {
            match wiring.hearing(heard).as_slice() {
                [] => self.not_heard(wiring, heard),
                [(voice, entry)] if heard.event == self.installation.tried_event => {
                    self.good("hook", format!("{voice}: {}", entry.command));
                }
                [_] => {}
                [(first, _), (second, _), ..] => {
                    let what = format!(
                        "{first} and {second} both call ralph on {}: everything happens twice",
                        heard.event
                    );
                    self.wrong("hook", what, "take our entries out of one of them");
                }
            }
        }
        let plugin = wiring.entries.iter().find(|(voice, _)| matches!(voice, Voice::Plugin(_)));
        let settings = wiring.entries.iter().find(|(voice, _)| matches!(voice, Voice::Settings(_)));
        if let (Some((plugin, _)), Some((settings, _))) = (plugin, settings) {
            let what = format!("{plugin} is on too: {settings} answers, and the plugin is silent beside it");
            self.good("voices", what);
        }
    }

    fn not_heard(&mut self, wiring: &Wiring, heard: &Heard) {
        let partly = wiring.entries.iter().find(|(_, entry)| entry.event == heard.event);
        let what = match partly.and_then(|(_, entry)| entry.matcher.as_deref()) {
            Some(matcher) => format!("{} is heard only for `{matcher}`: {}", heard.event, heard.without_it),
            None => format!("{} is not heard: {}", heard.event, heard.without_it),
        };
        self.wrong("events", what, "`ralph init` writes our hook anew");
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
        if let Some(by) = place.unconfirmed(in_force) {
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
        if guard.holds_session() {
            self.good("guard", "held: every session that changes something here");
        }
        let held: Vec<String> = (self.installation.agents.names)(&place.workspace.repo.root)
            .into_iter()
            .filter(|name| guard.holds_agent(name))
            .collect();
        if !held.is_empty() {
            self.good("agents", format!("held: {}", held.join(", ")));
        } else if !guard.agents().is_empty() {
            let what = format!(
                "no agent in {} is called {}; none is held unless a plugin brings one",
                self.installation.agents.folder,
                guard.agents().join(", ")
            );
            self.good("agents", what);
        }
    }

    /// The client must not give up before the gates are through, whoever stops.
    fn timeouts(&mut self, wiring: &Wiring, in_force: &InForce) {
        let wanted = Timeouts::for_gates(&in_force.config.gates);
        let mut fine = None;
        for heard in self.installation.events.iter().filter(|heard| heard.judges) {
            let hearing = wiring.hearing(heard);
            let Some((voice, entry)) = hearing.first() else { continue };
            let (client, deadline) = (entry.timeout.unwrap_or(600), entry.deadline().unwrap_or(570));
            let fix = match voice {
                Voice::Settings(_) => "`ralph init` writes both anew",
                Voice::Plugin(_) => {
                    "`ralph init` writes them into the settings, which then speak for the plugin"
                }
            };
            if deadline >= client {
                let what = format!(
                    "{}: our deadline of {deadline} s is not before the client's time-out of {client} s",
                    heard.event
                );
                self.wrong("time-outs", what, fix);
            } else if client < wanted.client {
                let what = format!(
                    "{}: the gates may take longer than the client waits ({client} s; {} s are needed)",
                    heard.event, wanted.client
                );
                self.wrong("time-outs", what, fix);
            } else if let Some(what) = Timeouts::warning(&in_force.config.gates, deadline) {
                self.wrong("time-outs", format!("{}: {what}", heard.event), fix);
            } else {
                fine = Some(format!("client {client} s, our deadline {deadline} s"));
            }
        }
        if let Some(fine) = fine {
            self.good("time-outs", fine);
        }
    }

    fn block_cap(&mut self, place: &Place, wiring: &Wiring, in_force: &InForce) {
        let limits = place.workspace.settings().limits(in_force.layout, &in_force.config.budget);
        let Some(client_cap) = &self.client.block_cap else { return };
        let cap = client_cap.set_here().or(wiring.block_cap).unwrap_or(client_cap.default);
        let most_holds = match limits.attempts.value {
            Attempts::AtMost(attempts) => Some(attempts - 1),
            Attempts::Unlimited => None,
        };
        // A loop of a session has no limit of its own unless the person gives one.
        let loops_fit = cap == 0 || cap > client_cap.default;
        let enough = cap == 0 || most_holds.is_some_and(|holds| holds <= cap);
        if enough && loops_fit {
            self.good("block cap", format!("the client honours {cap} holds in a row"));
            return;
        }
        let before = if enough { "a loop without a limit" } else { "the attempts" };
        let what = format!(
            "the client ends a turn after {cap} holds in a row without a tool call, before {before} ({}) may be through",
            if enough { Attempts::Unlimited } else { limits.attempts.value }
        );
        let wanted = most_holds.map_or(0, |holds| (holds + 1).max(self.installation.cap.raised));
        self.wrong("block cap", what, (self.installation.cap.how_to_set)(wanted));
    }

    /// Sends a recorded event through the command as installed: a stop of an agent that is held, else a command. The
    /// hook is given an empty home, in which nothing is accepted: it must say that it would have to be, and runs nothing.
    fn answer(&mut self, place: &Place, found: &Found, wiring: &Wiring) {
        let Some((_, entry)) = wiring.judging(self.installation) else { return };
        if !hook_command::is_as_written(self.client.name, &entry.command, &place.workspace.repo.root) {
            let what =
                "the command of the hook is not of the form that ralph writes; it was not run to try it";
            self.wrong("answer", what, "look at it; `ralph init` writes it anew");
            return;
        }
        let rehearsal = &self.installation.rehearsal;
        let root = &place.workspace.repo.root;
        let held = somebody_held(place, found);
        let (payload, sent) = match &held {
            Some(agent_name) => {
                let message = "Sub answer one.";
                let stop = SampleStop { root, session: "doctor", agent_name, message };
                ((rehearsal.stop)(&stop), "stop")
            }
            None => ((rehearsal.command)(root), "command"),
        };
        // Who is held is told that nothing is accepted yet; a command is answered, so that no model sees it.
        let is_expected = |said: &str| match (rehearsal.read_answer)(said.as_bytes()) {
            HookReply::Tell { person: Some(person), .. } => held.is_some() && person.contains("ralph trust"),
            HookReply::Answer { .. } => held.is_none(),
            _ => false,
        };
        match self.send(&entry.command, root, &payload) {
            Ok(said) if is_expected(&said) => {
                self.good("answer", format!("the hook as installed answered a recorded {sent}"));
            }
            Ok(said) if said.is_empty() => {
                self.wrong(
                    "answer",
                    format!("the hook as installed said nothing to a recorded {sent}"),
                    "`ralph init` writes the command anew; where it only says `ralph`, that must be on the PATH",
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

    /// The recorded event through the client's shell; what came back on stdout.
    fn send(&self, command: &str, root: &Path, payload: &str) -> Result<String, String> {
        let empty_home = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut shell = short_command::command("/bin/sh");
        shell
            .args(["-c", command])
            .current_dir(root)
            .env("RALPH_HOME", empty_home.path())
            .envs(self.client.variables.project_dir.map(|name| (name, root)))
            .envs(self.installation.rehearsal.variables.iter().copied());
        let answer = short_command::run(shell, Some(payload.as_bytes()), empty_home.path(), PATIENCE);
        let output = answer
            .map_err(|error| error.to_string())?
            .ok_or_else(|| format!("it took longer than {} seconds", PATIENCE.as_secs()))?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0) => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
            Some(code) => Err(format!("exit code {code}: {}", stderr.trim())),
            None => Err("it was ended by a signal".into()),
        }
    }

    /// What people ask when a loop does not do what they expect: is there one, why did it not end when the promise was
    /// given, why does it go on.
    fn loops(&mut self, place: &Place, loops: &[SessionLoop]) -> Result<(), Failure> {
        const START: &str = "`/ralph-loop TASK --completion-promise TEXT` starts one";
        let session = surroundings::agent_session();
        let of_session = session
            .as_ref()
            .map(|session| SessionLoop::settle_of(&place.workspace.home, session))
            .transpose()?;
        let open: Vec<&SessionLoop> = loops.iter().filter(|found| is_open(found)).collect();
        let driven = DrivenLoop::open_in(&place.workspace.repo_home)?;
        for found in &driven {
            let what = match (found.driven_by(), &found.state.paused()) {
                (Some(process), _) => format!("driven by process {process}"),
                (None, Some(why)) => format!("paused ({}); `ralph resume` goes on", pause_cause(why)),
                (None, None) => "left open, nobody drives it; `ralph resume` goes on".to_owned(),
            };
            self.good("loop", format!("{}: {what}", found.id));
        }
        match (&of_session, open.is_empty() && driven.is_empty()) {
            (Some(None), _) => self.good("loop", format!("this session carries no loop; {START}")),
            (None, true) => self.good("loop", format!("no loop is open in this repo; {START}")),
            (Some(Some(_)) | None, _) => {}
        }
        for found in open {
            self.good("loop", format!("{}: {}", found.id, why_it_goes_on(&found.state)));
        }
        for found in loops.iter().filter(|found| found.state.false_promises > 0) {
            let times = found.state.false_promises;
            let what = format!(
                "{}: the promise was given {times} time{} too early, while the checks failed, and refused",
                found.id,
                if times == 1 { "" } else { "s" }
            );
            self.good("promises", what);
        }
        Ok(())
    }

    fn last_judged(&mut self, place: &Place) {
        let loops = place.workspace.repo_home.loops();
        let states = loops.iter().filter(|id| **id != crate::store::ledger::plain_loop()).filter_map(|id| {
            let state = place.workspace.loop_of(id).state().ok()?;
            Some((id, state.last.clone()?, state.status))
        });
        match states.max_by_key(|(_, last, _)| last.at) {
            Some((id, last, status)) => {
                let paused = if matches!(status, Status::Paused { .. }) { ", paused" } else { "" };
                self.good(
                    "last judged",
                    format!("{}: {id} {}{paused}", terminal::ago(last.at, clock::now()), last.verdict),
                );
            }
            None => self.good("last judged", "never yet (idle calls leave no trace)"),
        }
    }

    fn show(&self) {
        for finding in &self.findings {
            let mark = if finding.fix.is_none() { paint(GOOD, "✓") } else { paint(BAD, "✗") };
            terminal::say(format_args!(
                "{mark} {}  {}",
                paint(FAINT, format!("{:11}", finding.name)),
                finding.what
            ));
            if let Some(fix) = &finding.fix {
                terminal::say(format_args!("  {:11}  {} {fix}", "", paint(FAINT, "fix:")));
            }
        }
    }

    fn json(&self, wiring: &Wiring, loops: &[SessionLoop]) -> Value {
        let as_json =
            |finding: &Finding| json!({"name": finding.name, "what": finding.what, "fix": finding.fix});
        let (problems, good): (Vec<_>, Vec<_>) =
            self.findings.iter().partition(|finding| finding.fix.is_some());
        json!({
            "healthy": problems.is_empty(),
            "problems": problems.into_iter().map(as_json).collect::<Vec<_>>(),
            "good": good.into_iter().map(as_json).collect::<Vec<_>>(),
            "events": self.installation.events.iter().map(|heard| json!({
                "event": heard.event,
                "heard_by": wiring.hearing(heard).first().map(|(voice, _)| voice.to_string()),
            })).collect::<Vec<_>>(),
            "loops": loops.iter().map(|found| json!({
                "id": found.id,
                "open": is_open(found),
                "attempts": found.state.attempts,
                "false_promises": found.state.false_promises,
                "goes_on_because": is_open(found).then(|| why_it_goes_on(&found.state)),
            })).collect::<Vec<_>>(),
        })
    }
}

impl Wiring {
    /// Who answers this event. The plugin is silent where the settings speak; the client runs equal lines once.
    fn hearing(&self, heard: &Heard) -> Vec<&(Voice, Entry)> {
        let mut hearing: Vec<&(Voice, Entry)> = Vec::new();
        for brought in self.entries.iter().filter(|(_, entry)| entry.hears(heard)) {
            let is_plugin = matches!(brought.0, Voice::Plugin(_));
            let said = hearing.iter().any(|(_, other)| is_plugin || other.command == brought.1.command);
            if !said {
                hearing.push(brought);
            }
        }
        hearing
    }

    /// The entry by which the hook is tried.
    fn judging(&self, installation: &Installation) -> Option<&(Voice, Entry)> {
        let heard = installation.events.iter().find(|heard| heard.event == installation.tried_event)?;
        self.hearing(heard).into_iter().next()
    }
}

/// The session loops that were last active, the last one first.
fn recent_loops(place: &Place) -> Result<Vec<SessionLoop>, Failure> {
    let mut loops = Vec::new();
    for id in place.workspace.repo_home.loops() {
        loops.extend(SessionLoop::settle_at(&place.workspace, id)?);
        if loops.len() == RECENT {
            break;
        }
    }
    Ok(loops)
}

fn is_open(found: &SessionLoop) -> bool {
    found.state.is_open()
}

fn why_it_goes_on(state: &State) -> String {
    let reason = match (&state.last, state.troubles.last()) {
        (_, Some(trouble)) => trouble.what.clone(),
        (Some(last), None) => feedback::sentence(&last.reason),
        (None, None) => "not judged yet".to_owned(),
    };
    match (&state.status, &state.session) {
        (Status::Paused { .. }, _) => format!("paused; last: {reason}"),
        (_, None) => format!("no session carries it yet; {reason}"),
        (_, Some(_)) => format!("goes on after {} judged stops: {reason}", state.attempts),
    }
}

/// The name of an agent that this repo's config holds; none where there is no config to speak of, or no agent is held.
fn somebody_held(place: &Place, found: &Found) -> Option<String> {
    let guard = match found {
        Found::InForce(in_force) => in_force.config.guard.clone(),
        Found::Untrusted(_) | Found::Revoked | Found::Nothing => Guard::default(),
    };
    place.workspace.repo.config().ok().flatten()?;
    if guard.holds_agent("check") {
        return Some("check".into());
    }
    // A name that the first pattern fits.
    Some(guard.agents().first()?.replace(['*', '?'], "x"))
}
