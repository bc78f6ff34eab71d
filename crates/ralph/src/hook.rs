//! The fast door: one hook event on stdin, the client's dialect on stdout, always exit code 0.
//!
//! Whatever goes wrong in here, the stop goes through with a message: a hook never traps a person. Only a decision of
//! the engine holds anybody.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use ralph_core::completion_marker as marker;
use ralph_core::config::{Config, Guard, bare_agent_name};
use ralph_core::decide::Decision;
use ralph_core::duration;
use ralph_core::facts::Standing;
use ralph_core::feedback::{self, Notice};
use ralph_core::id::{Digest, LoopId, SessionId};
use ralph_core::ledger::event::Subject;
use ralph_core::state::{State, Status};
use ralph_core::wire::{HookCall, HookEvent, HookReply, claude};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::definition::{self, Found, InForce, Settings};
use crate::engine::{self, Asked, Case, EngineError, Outcome, Unwatched};
use crate::gates::Watch;
use crate::home::{Home, RepoHome};
use crate::repo::{Repo, Task};
use crate::session_notices;
use crate::tree::Tree;
use crate::trust::{Acceptance, AcceptedBy, Trust};
use crate::{clock, env, ledger};

/// What the client was told to wait, less a margin; the installer writes both.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(570);

/// A hook input larger than this is not one.
const LARGEST_INPUT: usize = 16 << 20;

/// A client that writes nothing for this long is not going to.
const INPUT_PATIENCE: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

/// How the hook was called.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) deadline: Option<Duration>,
    pub(crate) gate_timeout: Option<String>,
}

impl Options {
    /// Reads `hook claude [--deadline TIME] [--gate-timeout TIME]`. Anything else, help too, is for the other door.
    pub(crate) fn from_arguments(arguments: &[OsString]) -> Option<Self> {
        let words: Vec<&str> = arguments.iter().map(|word| word.to_str()).collect::<Option<_>>()?;
        let mut words = words.strip_prefix(&["hook", "claude"])?;
        let mut options = Self::default();
        while let [name, value, rest @ ..] = words {
            match *name {
                "--deadline" => options.deadline = Some(duration::parse(value).ok()?),
                "--gate-timeout" => {
                    duration::parse(value).ok()?;
                    options.gate_timeout = Some((*value).to_owned());
                }
                _ => return None,
            }
            words = rest;
        }
        words.is_empty().then_some(options)
    }
}

/// Why a stop goes through although it may have been somebody to hold. Told, never silent.
#[derive(Debug)]
struct LetThrough(String);

impl<E: std::error::Error> From<E> for LetThrough {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

pub(crate) fn claude(options: &Options) -> ExitCode {
    let begun = Instant::now();
    let call = match read_input().map_err(LetThrough::from).and_then(|bytes| Ok(claude::parse(&bytes)?)) {
        Ok(call) => call,
        Err(LetThrough(why)) => return complain(&format!("{why}; the stop goes through")),
    };
    let deadline = begun + options.deadline.unwrap_or(DEFAULT_DEADLINE);
    let reply = match answer(&call, options, deadline) {
        Ok(reply) => reply,
        Err(LetThrough(why)) => {
            let line = format!("ralph: {why}. The stop goes through UNVERIFIED.");
            tell_later(&call, &line, Often::EveryTime);
            let _exit_code = complain(&line);
            HookReply::Tell { person: Some(line), agent: None }
        }
    };
    // A client that does not listen any more has made up its mind.
    let _gone = io::stdout().write_all(&claude::render(&reply, &call.event));
    ExitCode::SUCCESS
}

fn complain(line: &str) -> ExitCode {
    let line = line.strip_prefix("ralph: ").unwrap_or(line);
    let _nobody_listens = writeln!(io::stderr(), "ralph: {line}");
    ExitCode::SUCCESS
}

/// How often the same words are told in a session.
enum Often {
    EveryTime,
    OnceASession,
}

/// What could not be shown now is shown at the session's next event.
fn tell_later(call: &HookCall, line: &str, often: Often) {
    let (Some(session), Ok(home)) = (&call.session, Home::find()) else { return };
    let _lost_with_a_full_disk = match often {
        Often::OnceASession => session_notices::leave_once(&home, session, line),
        Often::EveryTime => {
            session_notices::leave(&home, session, &Notice { person: line.to_owned(), agent: None })
        }
    };
}

/// Says that gates are being run before they are: whoever kills us cannot keep it quiet.
struct WriteAhead<'a> {
    home: &'a Home,
    session: &'a SessionId,
    agent: &'a str,
    written: bool,
}

impl Watch for WriteAhead<'_> {
    fn tree(&mut self, _tree: &Tree) {
        self.written = session_notices::gates_begin(self.home, self.session, self.agent).is_ok();
    }
}

/// Reads all of stdin, but not for ever and not without end.
fn read_input() -> io::Result<Vec<u8>> {
    let too_slow = || io::Error::new(io::ErrorKind::TimedOut, "the hook input did not end within 2 s");
    let too_large = || io::Error::new(io::ErrorKind::FileTooLarge, "the hook input is larger than 16 MiB");
    let mut stdin = io::stdin().lock();
    // Most inputs fit; a larger part would cost more to lay out than to read in two.
    let (mut input, mut part) = (Vec::new(), [0; 1 << 14]);
    loop {
        let ready = loop {
            match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&INPUT_PATIENCE)) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other?,
            }
        };
        if ready == 0 {
            return Err(too_slow());
        }
        match stdin.read(&mut part) {
            Ok(0) => return Ok(input),
            Ok(count) => input.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if input.len() > LARGEST_INPUT {
            return Err(too_large());
        }
    }
}

fn answer(call: &HookCall, options: &Options, deadline: Instant) -> Result<HookReply, LetThrough> {
    match (&call.event, &call.session) {
        (HookEvent::SubagentStop, _) => sub_agent_stops(call, options, deadline),
        (HookEvent::Other(_), _) | (_, None) => Ok(HookReply::Silent),
        (_, Some(session)) => Ok(session_notices::deliver(&Home::find()?, session, call)),
    }
}

fn sub_agent_stops(call: &HookCall, options: &Options, deadline: Instant) -> Result<HookReply, LetThrough> {
    // An empty name is a compaction.
    let Some(agent_type) = call.agent_type.as_deref().filter(|name| !name.is_empty()) else {
        return Ok(HookReply::Silent);
    };
    let agent = bare_agent_name(agent_type);
    let home = Home::find()?;
    let trust = Trust::read(&home)?;
    if trust.names_nobody() && !Guard::default().holds_agent(agent) {
        return Ok(HookReply::Silent);
    }
    let trust = trust.parse()?;
    let Some(start) = env::claude_project_dir().or_else(|| call.cwd.as_ref().map(PathBuf::from)) else {
        return Err(LetThrough("the hook input names no folder and CLAUDE_PROJECT_DIR is not set".into()));
    };
    let Some(repo) = Repo::find(&start, &trust)? else { return Ok(HookReply::Silent) };
    let stop = SubAgentStop { call, agent, home: &home, repo: &repo, trust: &trust };
    if stop.is_surely_nobodys() {
        return Ok(HookReply::Silent);
    }
    stop.answer(options, deadline)
}

struct SubAgentStop<'a> {
    call: &'a HookCall,
    agent: &'a str,
    home: &'a Home,
    repo: &'a Repo,
    trust: &'a Trust,
}

impl SubAgentStop<'_> {
    /// Tells without parsing a config that this agent is not held: no definition that was ever accepted names it, and the
    /// file as it is speaks of nobody.
    fn is_surely_nobodys(&self) -> bool {
        if Guard::default().holds_agent(self.agent) || self.trust.ever_named(self.repo, self.agent) {
            return false;
        }
        match self.repo.config() {
            Ok(Some(file)) => !file.text.windows(5).any(|window| window == b"guard"),
            Ok(None) => true,
            // What cannot be read might.
            Err(_) => false,
        }
    }

    fn answer(&self, options: &Options, deadline: Instant) -> Result<HookReply, LetThrough> {
        let settings = Settings::load_or_trouble(options.gate_timeout.as_deref());
        let held = self.held_already()?;
        let accepted = self.acceptances_that_count(held.as_ref());
        let revoked = self.trust.revoked_at(self.repo);
        if let (Some(held), true) = (&held, accepted.is_empty()) {
            return self.hold_without_gates(&settings, held, deadline);
        }
        match Found::look(self.home, self.repo, &accepted, revoked.is_some(), &settings.defaults())? {
            Found::Nothing => Ok(HookReply::Silent),
            Found::Untrusted(file) => {
                let guard = definition::parse(file.layout, &file.text, &settings.defaults())
                    .map_or_else(|_| Guard::default(), |config| config.guard);
                Ok(if guard.holds_agent(self.agent) { self.untrusted(file.path) } else { HookReply::Silent })
            }
            Found::Revoked => Ok(self.trust_was_taken_back(revoked.unwrap_or_else(clock::now))),
            Found::InForce(in_force) => self.judge(&settings, &in_force, held.as_ref(), deadline),
        }
    }

    /// The state of this agent's loop while it is being held.
    fn held_already(&self) -> io::Result<Option<State>> {
        let Some(session) = &self.call.session else { return Ok(None) };
        let state = ledger::state(&self.repo_home().loop_dir(&self.loop_id(session)))?;
        Ok(Some(state).filter(|state| state.status == Status::Running))
    }

    /// Which acceptances count for this stop. One made in a shell of this very session does not. And whoever is being
    /// held is judged by the definition it was first held by, unless a person at a terminal accepts another meanwhile.
    fn acceptances_that_count(&self, held: Option<&State>) -> Vec<Acceptance> {
        let by_itself = |acceptance: &Acceptance| match &acceptance.by {
            AcceptedBy::AgentsShell { session, .. } => *session == self.call.session,
            AcceptedBy::PersonAtATerminal | AcceptedBy::Script => false,
        };
        let counts = |acceptance: &&Acceptance| match held {
            None => !by_itself(acceptance),
            Some(held) if held.definition.as_ref() == Some(&acceptance.sha256) => true,
            Some(held) => {
                let since = held.started_at.is_some_and(|started_at| acceptance.at > started_at);
                since && acceptance.by == AcceptedBy::PersonAtATerminal
            }
        };
        self.trust.accepted(self.repo).iter().filter(counts).cloned().collect()
    }

    /// Nobody whose word counts ever accepted anything here: nothing runs, and the person hears how to change that.
    fn untrusted(&self, config: &str) -> HookReply {
        let line = format!(
            "ralph: `{}` was not held: no person has accepted the gates of {config} yet, so nothing was run. \
             Look at them and accept them with `ralph trust` in {}.",
            self.agent,
            self.repo.root.display()
        );
        tell_later(self.call, &line, Often::OnceASession);
        HookReply::Tell { person: Some(line), agent: None }
    }

    fn trust_was_taken_back(&self, at: Timestamp) -> HookReply {
        let line = format!(
            "ralph: `{}` was not held: trust in the gates of {} was taken back ({}); its work is UNVERIFIED. \
             `ralph trust` accepts them again.",
            self.agent,
            self.repo.root.display(),
            at.to_zoned(clock::zone()).strftime("%Y-%m-%d %H:%M")
        );
        tell_later(self.call, &line, Often::EveryTime);
        HookReply::Tell { person: Some(line), agent: None }
    }

    /// Taking trust back frees nobody who is being held. No gate is known any more, so none is run.
    fn hold_without_gates(
        &self,
        settings: &Settings,
        held: &State,
        deadline: Instant,
    ) -> Result<HookReply, LetThrough> {
        let (Some(session), Some(layout), Some(sha256)) = (&self.call.session, held.layout, &held.definition)
        else {
            return Ok(HookReply::Silent);
        };
        let config = Config::default();
        let standing = Standing::Revoked;
        let unknown = InForce { layout, sha256: sha256.clone(), config, standing, broken: None };
        let home = self.repo_home();
        let mut case = self.case(settings, &unknown, session, &home, held.task.clone())?;
        case.limits = held.limits.clone().unwrap_or(case.limits);
        case.markers = vec![marker::ALL_CHECKS.into()];
        self.reply(case.judge(&self.asked(deadline), &mut Unwatched))
    }

    fn judge(
        &self,
        settings: &Settings,
        in_force: &InForce,
        held: Option<&State>,
        deadline: Instant,
    ) -> Result<HookReply, LetThrough> {
        if !in_force.config.enabled || !in_force.config.guard.holds_agent(self.agent) {
            return Ok(HookReply::Silent);
        }
        let task = match (self.repo.task(in_force.layout)?, held) {
            (Task::Named(task), _) => Some(task),
            (Task::NoTasks, _) => None,
            // Taking the task away frees nobody who is being held for it.
            (Task::NoneSet, Some(held)) => held.task.clone(),
            (Task::NoneSet, None) => return Ok(HookReply::Silent),
        };
        let Some(session) = &self.call.session else {
            return Err(LetThrough(format!("the hook input of `{}` names no session", self.agent)));
        };
        let home = self.repo_home();
        let case = self.case(settings, in_force, session, &home, task)?;
        let mut write_ahead = WriteAhead { home: self.home, session, agent: self.agent, written: false };
        let judged = case.judge(&self.asked(deadline), &mut write_ahead);
        if write_ahead.written {
            session_notices::gates_end(self.home, session)?;
        }
        self.reply(judged)
    }

    fn repo_home(&self) -> RepoHome {
        self.home.repo(&self.repo.id())
    }

    fn asked(&self, deadline: Instant) -> Asked<'_> {
        Asked {
            arrived: clock::now(),
            deadline: Some(deadline),
            last_message: &self.call.last_message,
            jobs: engine::jobs(),
            keep_going: false,
            fresh: false,
        }
    }

    fn case<'b>(
        &'b self,
        settings: &'b Settings,
        in_force: &'b InForce,
        session: &SessionId,
        home: &'b RepoHome,
        task: Option<String>,
    ) -> io::Result<Case<'b>> {
        let markers = match task.as_deref() {
            Some(task) => marker::expected(&self.repo.check_list(task)?),
            None => Vec::new(),
        };
        let id = self.call.agent.clone().unwrap_or_else(|| ralph_core::id::AgentId::new(""));
        Ok(Case {
            repo: self.repo,
            home,
            settings,
            in_force,
            loop_id: self.loop_id(session),
            subject: Subject::SubAgent { name: self.agent.to_owned(), id },
            session: Some(session.clone()),
            task,
            preset: ralph_core::preset::CHECK.name,
            limits: settings.limits(in_force.layout, &in_force.config.budget),
            is_part: false,
            markers,
        })
    }

    /// One loop for each agent of each session: two check agents at once do not share a count.
    fn loop_id(&self, session: &SessionId) -> LoopId {
        let agent = self.call.agent.as_ref().map_or("", |agent| agent.as_str());
        let digest = Digest::of_parts([session.as_str().as_bytes(), agent.as_bytes()]);
        let safe = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let name: String = self.agent.chars().map(safe).take(30).collect();
        LoopId::new(format!("{name}-{}", digest.short()))
    }

    fn reply(&self, judged: Result<Outcome, EngineError>) -> Result<HookReply, LetThrough> {
        let outcome = match judged {
            // The client's time-out, or the person pressed Esc: nobody listens any more, and the stop went through.
            Err(EngineError::Interrupted(signal)) => {
                if let Some(session) = &self.call.session {
                    session_notices::leave(
                        self.home,
                        session,
                        &feedback::cut_off(self.agent, &format!("signal {signal}")),
                    )?;
                }
                return Ok(HookReply::Silent);
            }
            other => other?,
        };
        match &outcome.decision {
            Decision::Hold { attempt, reason } => {
                let told = feedback::for_held(&outcome.facts, &outcome.before, *attempt, reason);
                Ok(HookReply::Block { reason: told.reason, detail: told.detail })
            }
            Decision::LetGo { .. } => {
                if let (Some(notice), Some(session)) =
                    (feedback::notice(&outcome.facts, &outcome.decision), &self.call.session)
                {
                    session_notices::leave(self.home, session, &notice)?;
                }
                Ok(HookReply::Tell {
                    person: feedback::headline(&outcome.facts, &outcome.decision),
                    agent: None,
                })
            }
            Decision::Gather | Decision::Wait { .. } | Decision::Ignore(_) => Ok(HookReply::Silent),
        }
    }
}
