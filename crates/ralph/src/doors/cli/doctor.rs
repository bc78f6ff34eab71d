//! `ralph doctor`: tests the installation. A recorded event goes through the command line found in the settings, run by the
//! client's shell with the client's variables; each problem comes with its fix.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use ralph_core::clients::hook::HookReply;
use ralph_core::config::Guard;
use ralph_core::ledger::facts::DefinitionStatus;
use ralph_core::ledger::state::{State, Status};
use ralph_core::model::budget::Attempts;
use ralph_core::say::words;
use serde_json::{Value, json};

use super::context::CommandContext;
use super::{CommandError, CommandResult, installed_client, other_ralph, takeover};
use crate::clients::client::Client;
use crate::clients::installation::{AnsweredEvent, HookEntry, Installation, SampleStop};
use crate::clients::installed::Timeouts;
use crate::clients::{hook_command, source_systems, surroundings};
use crate::loops::driver::driven::DrivenLoop;
use crate::loops::session::SessionLoop;
use crate::show::exit;
use crate::show::progress::lines::pause_cause;
use crate::show::terminal::{self, BAD, FAINT, GOOD, paint};
use crate::store::effective_gates::{EffectiveGates, GatesLookup};
use crate::store::exports::loop_file::{self, LoopFileOnDisk};
use crate::sys::{clock, short_command};

/// The timeout of the client and of one hook call.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many loops are examined.
const RECENT: usize = 10;

#[derive(clap::Args)]
#[command(
    after_help = "Exit code 1 if there are problems.\nExample:\n  ralph doctor --json | jq '.problems'"
)]
pub(super) struct Arguments {
    /// Print one JSON object on stdout, for scripts
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> CommandResult {
    let place = CommandContext::here(None)?;
    let found = place.lookup_gates()?;
    let (client, installation) = installed_client()?;
    let mut examination = Examination { client, installation, findings: Vec::new() };
    examination.add_ok("ralph", env!("CARGO_PKG_VERSION"));
    examination.check_client();
    let wiring = examination.check_settings(&place);
    examination.check_gates(&found);
    examination.check_acceptance(&place, &found);
    examination.check_agents(&place, &found);
    if let GatesLookup::Effective(effective) = &found {
        examination.check_timeouts(&wiring, effective);
        examination.check_block_cap(&place, &wiring, effective);
    }
    examination.check_answer(&place, &found, &wiring);
    examination.last_judged(&place);
    let loops = recent_loops(&place)?;
    examination.check_loops(&place, &loops)?;
    if arguments.json {
        terminal::json(&examination.json(&wiring, &loops));
    } else {
        examination.show();
    }
    let healthy = examination.findings.iter().all(|finding| finding.fix.is_none());
    Ok(ExitCode::from(if healthy { exit::VERIFIED } else { exit::NOT_VERIFIED }))
}

/// One result: fine, or with a fix.
struct DoctorFinding {
    name: &'static str,
    what: String,
    fix: Option<String>,
}

struct Examination {
    client: &'static Client,
    installation: &'static Installation,
    findings: Vec<DoctorFinding>,
}

/// Our entries in all settings files, and other relevant settings.
#[derive(Default)]
struct HookEntries {
    /// The commands that the client runs, and their source.
    entries: Vec<(HookSource, HookEntry)>,
    block_cap: Option<u32>,
}

/// Where the client gets our hook from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum HookSource {
    Settings(PathBuf),
    /// By its name. It is silent if the settings have our hook.
    Plugin(String),
}

impl std::fmt::Display for HookSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Settings(path) => write!(f, "{}", path.display()),
            Self::Plugin(name) => write!(f, "the plugin `{name}`"),
        }
    }
}

impl Examination {
    fn add_ok(&mut self, name: &'static str, what: impl Into<String>) {
        self.findings.push(DoctorFinding { name, what: what.into(), fix: None });
    }

    fn add_problem(&mut self, name: &'static str, what: impl Into<String>, fix: impl Into<String>) {
        self.findings.push(DoctorFinding { name, what: what.into(), fix: Some(fix.into()) });
    }

    fn check_client(&mut self) {
        let program = self.installation.program;
        let mut client = short_command::command(program);
        client.arg("--version");
        match short_command::run(client, None, &std::env::temp_dir(), PATIENCE) {
            Ok(Some(answer)) if answer.status.success() => {
                self.add_ok("client", String::from_utf8_lossy(&answer.stdout).trim());
            }
            _ => self.add_ok("client", format!("`{program}` is not in PATH; version unknown")),
        }
    }

    /// Checks every settings file that the client reads for this project.
    fn check_settings(&mut self, place: &CommandContext) -> HookEntries {
        let mut wiring = HookEntries::default();
        let mut our_plugin = None;
        for (path, found) in (self.installation.look)(&place.repo.root) {
            for fault in &found.faults {
                let what = format!(
                    "{}: {fault}; the client silently ignores the hooks in this file",
                    path.display()
                );
                self.add_problem(
                    "settings",
                    what,
                    "fix the file, then run `ralph init` to restore our entries",
                );
            }
            for plugin in &found.other_loops {
                let what = format!("{}: the plugin `{plugin}` also blocks sessions", path.display());
                self.add_problem(
                    "plugins",
                    what,
                    "keep one of them: disable the plugin, or run `ralph init --uninstall`",
                );
            }
            for hook in found.other_hooks.iter().filter(|hook| hook.judges) {
                let (what, fix) = takeover::describe(&path, hook);
                match source_systems::of_command(&hook.command) {
                    Some(_) => self.add_problem("other hooks", what, fix),
                    None => self.add_ok("other hooks", format!("{what}; {fix}")),
                }
            }
            wiring.block_cap = found.block_cap.or(wiring.block_cap);
            our_plugin = found.our_plugin.or(our_plugin);
            if found.faults.is_empty() {
                let source = HookSource::Settings(path);
                wiring.entries.extend(found.entries.into_iter().map(|entry| (source.clone(), entry)));
            }
        }
        if let Some(name) = our_plugin {
            let source = HookSource::Plugin(name);
            let entries = (self.installation.plugin.entries)().into_iter();
            wiring.entries.extend(entries.map(|entry| (source.clone(), entry)));
        }
        if LoopFileOnDisk::new(&place.repo_home, &place.repo.root).foreign().is_some() {
            self.add_problem(
                "plugins",
                format!("a loop of another Ralph plugin is active here ({})", loop_file::PATH),
                "end it with `/cancel-ralph`, or let ralph adopt it when its session stops",
            );
        }
        self.check_hooks(&wiring);
        self.other_programs(&wiring);
        wiring
    }

    /// Names another program called `ralph`, and which one the hook runs.
    fn other_programs(&mut self, wiring: &HookEntries) {
        let names_only_ralph = wiring
            .tried_entry(self.installation)
            .is_some_and(|(_, entry)| entry.command.starts_with("command -v "));
        match other_ralph::describe(names_only_ralph) {
            Some((what, true)) => {
                self.add_problem(
                    "programs",
                    what,
                    "put this ralph before it in PATH, or run `ralph init` to name it by its path",
                );
            }
            Some((what, false)) => self.add_ok("programs", what),
            None => {}
        }
    }

    /// Checks that each event has exactly one hook.
    fn check_hooks(&mut self, wiring: &HookEntries) {
        if wiring.entries.is_empty() {
            self.add_problem(
                "hook",
                "ralph's hook is not installed: no valid settings file has it, and ralph's plugin is disabled; nothing is blocked",
                "run `ralph init` or `ralph init --plugin`",
            );
            return;
        }
        for answered in self.installation.events {
            match wiring.entries_for(answered).as_slice() {
                [] => self.event_not_answered(wiring, answered),
                [(source, entry)] if answered.event == self.installation.tried_event => {
                    self.add_ok("hook", format!("{source}: {}", entry.command));
                }
                [_] => {}
                [(first, _), (second, _), ..] => {
                    let what = format!(
                        "{first} and {second} both call ralph on {}: every event is handled twice",
                        answered.event
                    );
                    self.add_problem("hook", what, "remove our entries from one of them");
                }
            }
        }
        let plugin = wiring.entries.iter().find(|(source, _)| matches!(source, HookSource::Plugin(_)));
        let settings = wiring.entries.iter().find(|(source, _)| matches!(source, HookSource::Settings(_)));
        if let (Some((plugin, _)), Some((settings, _))) = (plugin, settings) {
            let what = format!("{plugin} is enabled too: {settings} answers, and the plugin stays silent");
            self.add_ok("plugins", what);
        }
    }

    fn event_not_answered(&mut self, wiring: &HookEntries, answered: &AnsweredEvent) {
        let partly = wiring.entries.iter().find(|(_, entry)| entry.event == answered.event);
        let what = match partly.and_then(|(_, entry)| entry.matcher.as_deref()) {
            Some(matcher) => {
                format!("{} calls ralph only for `{matcher}`: {}", answered.event, answered.without_it)
            }
            None => format!("{} does not call ralph: {}", answered.event, answered.without_it),
        };
        self.add_problem("events", what, "run `ralph init` to reinstall the hook");
    }

    fn check_gates(&mut self, found: &GatesLookup) {
        match found {
            GatesLookup::Nothing => self.add_problem("gates", "no ralph.yaml found", "run `ralph init`"),
            GatesLookup::Untrusted(file) => {
                self.add_problem(
                    "trust",
                    format!("{} is not accepted: no gate runs, nothing is blocked", file.path),
                    "review and accept it with `ralph trust`",
                );
            }
            GatesLookup::Revoked => {
                self.add_problem(
                    "trust",
                    "trust was revoked: no gate runs, nothing is blocked",
                    "accept the gates again with `ralph trust`",
                );
            }
            GatesLookup::Effective(effective) => match (&effective.broken, &effective.definition_status) {
                (Some(broken), _) => {
                    let what = format!("{}: {}", broken.path, broken.problem);
                    self.add_problem("gates", what, "fix the line; `ralph verify` shows it");
                }
                (None, DefinitionStatus::Accepted) if effective.config.has_gates() => {
                    self.add_ok("trust", format!("accepted; gates: {}", effective.config.gates.len()));
                    if !effective.config.not_read.is_empty() {
                        let (file, keys) = (effective.layout.data().config, effective.config.not_read.join(", "));
                        self.add_ok("config", format!("{file}: keys of another tool, not read by ralph: {keys}"));
                    }
                }
                (None, DefinitionStatus::Accepted) => self.add_problem(
                    "gates",
                    "no gates: nothing can be verified",
                    "add one to the `verify:` list",
                ),
                (None, _) => self.add_problem(
                    "trust",
                    "the gate definition differs from the accepted one: nothing ends verified",
                    "review it with `ralph trust --show`, then accept it with `ralph trust` or restore the file",
                ),
            },
        }
    }

    /// Reports gates accepted by an agent until the user confirms them.
    fn check_acceptance(&mut self, place: &CommandContext, found: &GatesLookup) {
        let GatesLookup::Effective(effective) = found else { return };
        if let Some(by) = place.unconfirmed(effective) {
            let what = format!("the gates were accepted by {by}, not by you");
            self.add_problem(
                "trust",
                what,
                "review them with `ralph trust --show`, then run `ralph trust` in your own terminal",
            );
        }
    }

    /// Checks whether a guarded agent exists here. A plugin may provide it, so its absence is not a problem.
    fn check_agents(&mut self, place: &CommandContext, found: &GatesLookup) {
        let GatesLookup::Effective(effective) = found else { return };
        let guard = &effective.config.guard;
        if guard.guards_session() {
            self.add_ok("guard", "guarded: every session that changes files here");
        }
        let guarded: Vec<String> = (self.installation.agents.names)(&place.repo.root)
            .into_iter()
            .filter(|name| guard.guards_agent(name))
            .collect();
        if !guarded.is_empty() {
            self.add_ok("agents", format!("guarded: {}", guarded.join(", ")));
        } else if !guard.agents().is_empty() {
            let what = format!(
                "no agent in {} is called {}; none is guarded unless a plugin provides it",
                self.installation.agents.folder,
                guard.agents().join(", ")
            );
            self.add_ok("agents", what);
        }
    }

    /// Checks that the client waits long enough for the gates at every judged event.
    fn check_timeouts(&mut self, wiring: &HookEntries, effective: &EffectiveGates) {
        let wanted = Timeouts::for_gates(&effective.config.gates);
        let mut fine = None;
        for answered in self.installation.events.iter().filter(|answered| answered.judges) {
            let entries = wiring.entries_for(answered);
            let Some((source, entry)) = entries.first() else { continue };
            let (client, deadline) = (entry.timeout.unwrap_or(600), entry.deadline().unwrap_or(570));
            let fix = match source {
                HookSource::Settings(_) => "run `ralph init` to rewrite both",
                HookSource::Plugin(_) => {
                    "run `ralph init` to write them into the settings, which override the plugin"
                }
            };
            if deadline >= client {
                let what = format!(
                    "{}: ralph's deadline of {deadline} s must be shorter than the client's timeout of {client} s",
                    answered.event
                );
                self.add_problem("timeouts", what, fix);
            } else if client < wanted.client {
                let what = format!(
                    "{}: the gates may take longer than the client's timeout ({client} s; needed: {} s)",
                    answered.event, wanted.client
                );
                self.add_problem("timeouts", what, fix);
            } else if let Some(what) = Timeouts::warning(&effective.config.gates, deadline) {
                self.add_problem("timeouts", format!("{}: {what}", answered.event), fix);
            } else {
                fine = Some(format!("client {client} s, ralph's deadline {deadline} s"));
            }
        }
        if let Some(fine) = fine {
            self.add_ok("timeouts", fine);
        }
    }

    fn check_block_cap(&mut self, place: &CommandContext, wiring: &HookEntries, effective: &EffectiveGates) {
        let limits = place.settings().limits(effective.layout, &effective.config.budget);
        let Some(client_cap) = &self.client.block_cap else { return };
        let cap = client_cap.set_here().or(wiring.block_cap).unwrap_or(client_cap.default);
        let most_blocks = match limits.attempts.value {
            Attempts::AtMost(attempts) => Some(attempts - 1),
            Attempts::Unlimited => None,
        };
        // A session loop has no limit unless the user sets one.
        let loops_fit = cap == 0 || cap > client_cap.default;
        let enough = cap == 0 || most_blocks.is_some_and(|blocks| blocks <= cap);
        if enough && loops_fit {
            self.add_ok("block cap", format!("the client accepts {cap} consecutive blocks"));
            return;
        }
        let before = if enough { "a loop without a limit" } else { "the attempts" };
        let what = format!(
            "the client overrides ralph after {cap} consecutive blocks without a tool call, possibly before {before} ({}) ends",
            if enough { Attempts::Unlimited } else { limits.attempts.value }
        );
        let wanted = most_blocks.map_or(0, |blocks| (blocks + 1).max(self.installation.cap.raised));
        self.add_problem("block cap", what, (self.installation.cap.how_to_set)(wanted));
    }

    /// Sends a recorded event through the installed command: a stop of a guarded agent, else a command. The hook gets an
    /// empty home without acceptances: it must ask for acceptance, and runs nothing.
    fn check_answer(&mut self, place: &CommandContext, found: &GatesLookup, wiring: &HookEntries) {
        let Some((_, entry)) = wiring.tried_entry(self.installation) else { return };
        if !hook_command::is_as_written(self.client.name, &entry.command, &place.repo.root) {
            let what = "the hook's command was not written by ralph; it was not tested";
            self.add_problem("answer", what, "review it, or run `ralph init` to rewrite it");
            return;
        }
        let rehearsal = &self.installation.rehearsal;
        let root = &place.repo.root;
        let guarded = guarded_names(place, found);
        let (payload, sent) = match &guarded {
            Some(agent_name) => {
                let message = "Sub answer one.";
                let stop = SampleStop { root, session: "doctor", agent_name, message };
                ((rehearsal.stop)(&stop), "stop")
            }
            None => ((rehearsal.command)(root), "command"),
        };
        // A guarded agent's stop reports missing acceptance; a command is answered without reaching the model.
        let is_expected = |said: &str| match (rehearsal.read_answer)(said.as_bytes()) {
            HookReply::Notify { user: Some(user), .. } => guarded.is_some() && user.contains("ralph trust"),
            HookReply::Answer { .. } => guarded.is_none(),
            _ => false,
        };
        match self.send(&entry.command, root, &payload) {
            Ok(said) if is_expected(&said) => {
                self.add_ok("answer", format!("the installed hook answered a recorded {sent}"));
            }
            Ok(said) if said.is_empty() => {
                self.add_problem(
                    "answer",
                    format!("the installed hook gave no answer to a recorded {sent}"),
                    "run `ralph init` to rewrite the command; if it is just `ralph`, make sure that ralph is in PATH",
                );
            }
            Ok(said) => self.add_problem(
                "answer",
                format!("unexpected answer from the installed hook: {said}"),
                "run `ralph init` to rewrite the command",
            ),
            Err(error) => self.add_problem(
                "answer",
                format!("the installed hook failed: {error}"),
                "run `ralph init` to rewrite the command; ralph may have been moved",
            ),
        }
    }

    /// Sends the recorded event through the client's shell; returns its stdout.
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
            .ok_or_else(|| format!("timed out after {} seconds", PATIENCE.as_secs()))?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0) => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
            Some(code) => Err(format!("exit code {code}: {}", stderr.trim())),
            None => Err("killed by a signal".into()),
        }
    }

    /// Answers common questions about a loop: whether there is one, why it did not end at the promise, why it continues.
    fn check_loops(&mut self, place: &CommandContext, loops: &[SessionLoop]) -> Result<(), CommandError> {
        const START: &str = "start one with `/ralph-loop TASK --completion-promise TEXT`";
        let session = surroundings::agent_session();
        let of_session =
            session.as_ref().map(|session| SessionLoop::settle_of(&place.home, session)).transpose()?;
        let open: Vec<&SessionLoop> = loops.iter().filter(|found| is_open(found)).collect();
        let driven = DrivenLoop::open_in(&place.repo_home)?;
        for found in &driven {
            let what = match (found.driven_by(), &found.state.paused()) {
                (Some(process), _) => format!("driven by process {process}"),
                (None, Some(why)) => format!("paused ({}); continue with `ralph resume`", pause_cause(why)),
                (None, None) => "open but not running; continue with `ralph resume`".to_owned(),
            };
            self.add_ok("loop", format!("{}: {what}", found.id));
        }
        match (&of_session, open.is_empty() && driven.is_empty()) {
            (Some(None), _) => self.add_ok("loop", format!("no loop is attached to this session; {START}")),
            (None, true) => self.add_ok("loop", format!("no open loop in this repo; {START}")),
            (Some(Some(_)) | None, _) => {}
        }
        for found in open {
            self.add_ok("loop", format!("{}: {}", found.id, open_because(&found.state)));
        }
        for found in loops.iter().filter(|found| found.state.false_promises > 0) {
            let times = found.state.false_promises;
            let what = format!(
                "{}: the promise was rejected {times} time{} because checks were failing",
                found.id,
                if times == 1 { "" } else { "s" }
            );
            self.add_ok("promises", what);
        }
        Ok(())
    }

    fn last_judged(&mut self, place: &CommandContext) {
        let loops = place.repo_home.loops();
        let states = loops.iter().filter(|id| **id != crate::store::ledger::verify_loop()).filter_map(|id| {
            let state = place.loop_of(id).state().ok()?;
            Some((id, state.last.clone()?, state.status))
        });
        match states.max_by_key(|(_, last, _)| last.at) {
            Some((id, last, status)) => {
                let paused = if matches!(status, Status::Paused { .. }) { ", paused" } else { "" };
                self.add_ok(
                    "last judged",
                    format!("{}: {id} {}{paused}", terminal::ago(last.at, clock::now()), last.verdict),
                );
            }
            None => self.add_ok("last judged", "never yet (idle calls leave no trace)"),
        }
    }

    fn show(&self) {
        for finding in &self.findings {
            let mark = if finding.fix.is_none() { paint(GOOD, "✓") } else { paint(BAD, "✗") };
            terminal::print(format_args!(
                "{mark} {}  {}",
                paint(FAINT, format!("{:11}", finding.name)),
                finding.what
            ));
            if let Some(fix) = &finding.fix {
                terminal::print(format_args!("  {:11}  {} {fix}", "", paint(FAINT, "fix:")));
            }
        }
    }

    fn json(&self, wiring: &HookEntries, loops: &[SessionLoop]) -> Value {
        let as_json =
            |finding: &DoctorFinding| json!({"name": finding.name, "what": finding.what, "fix": finding.fix});
        let (problems, good): (Vec<_>, Vec<_>) =
            self.findings.iter().partition(|finding| finding.fix.is_some());
        json!({
            "healthy": problems.is_empty(),
            "problems": problems.into_iter().map(as_json).collect::<Vec<_>>(),
            "good": good.into_iter().map(as_json).collect::<Vec<_>>(),
            "events": self.installation.events.iter().map(|answered| json!({
                "event": answered.event,
                "heard_by": wiring.entries_for(answered).first().map(|(source, _)| source.to_string()),
            })).collect::<Vec<_>>(),
            "loops": loops.iter().map(|found| json!({
                "id": found.id,
                "open": is_open(found),
                "attempts": found.state.attempts,
                "false_promises": found.state.false_promises,
                "goes_on_because": is_open(found).then(|| open_because(&found.state)),
            })).collect::<Vec<_>>(),
        })
    }
}

impl HookEntries {
    /// The entries that answer this event. The plugin is silent if the settings have our hook; the client runs equal
    /// commands once.
    fn entries_for(&self, answered: &AnsweredEvent) -> Vec<&(HookSource, HookEntry)> {
        let mut entries: Vec<&(HookSource, HookEntry)> = Vec::new();
        for brought in self.entries.iter().filter(|(_, entry)| entry.answers(answered)) {
            let is_plugin = matches!(brought.0, HookSource::Plugin(_));
            let said = entries.iter().any(|(_, other)| is_plugin || other.command == brought.1.command);
            if !said {
                entries.push(brought);
            }
        }
        entries
    }

    /// The entry used to test the hook.
    fn tried_entry(&self, installation: &Installation) -> Option<&(HookSource, HookEntry)> {
        let answered =
            installation.events.iter().find(|answered| answered.event == installation.tried_event)?;
        self.entries_for(answered).into_iter().next()
    }
}

/// The session loops, most recently active first.
fn recent_loops(place: &CommandContext) -> Result<Vec<SessionLoop>, CommandError> {
    let mut loops = Vec::new();
    for id in place.repo_home.loops() {
        loops.extend(SessionLoop::settle_at(place, id)?);
        if loops.len() == RECENT {
            break;
        }
    }
    Ok(loops)
}

fn is_open(found: &SessionLoop) -> bool {
    found.state.is_open()
}

fn open_because(state: &State) -> String {
    let reason = match (&state.last, state.recent_errors.last()) {
        (_, Some(trouble)) => trouble.what.clone(),
        (Some(last), None) => words::reason(&last.reason),
        (None, None) => "not judged yet".to_owned(),
    };
    match (&state.status, &state.session) {
        (Status::Paused { .. }, _) => format!("paused; last: {reason}"),
        (_, None) => format!("not attached to a session yet; {reason}"),
        (_, Some(_)) => format!("continues after {} judged stops: {reason}", state.attempts),
    }
}

/// The name of an agent that this repo's config guards; `None` without a config or a guarded agent.
fn guarded_names(place: &CommandContext, found: &GatesLookup) -> Option<String> {
    let guard = match found {
        GatesLookup::Effective(effective) => effective.config.guard.clone(),
        GatesLookup::Untrusted(_) | GatesLookup::Revoked | GatesLookup::Nothing => Guard::default(),
    };
    place.repo.config().ok().flatten()?;
    // The hook is tried without any acceptance, where only this one is guarded.
    guard.guards_agent("check").then(|| "check".into())
}
