//! `ralph state`: manages the state of a session's loop from scripts that used to keep it in their own files.
//!
//! It uses the same store as all commands. No subcommand writes a verdict: `complete` is a claim and runs the gates, and
//! notes decide nothing.

use std::process::ExitCode;

use ralph_core::claims::start_request;
use ralph_core::clients::stream::is_session_id;
use ralph_core::ledger::decide::Decision;
use ralph_core::ledger::event::CancelCause;
use ralph_core::ledger::facts::{DefinitionStatus, Facts, SessionStop};
use ralph_core::ledger::state::{State, Status};
use ralph_core::ledger::transition::Transition;
use ralph_core::model::foreign_text;
use ralph_core::model::goal::Goal;
use ralph_core::model::id::SessionId;
use ralph_core::model::note::{self, NoteValue};
use ralph_core::model::promise_seen::PromiseSeen;
use ralph_core::model::secrets::Secrets;
use ralph_core::model::verdict::{Reason, Verdict};
use serde_json::{Value, json};

use super::context::CommandContext;
use super::verify::{self, VerifyResult};
use super::{CommandError, CommandResult, start};
use crate::checks::tasks;
use crate::clients::surroundings;
use crate::loops::ancestry;
use crate::loops::judge::{EngineError, JudgeOptions, Judged};
use crate::loops::session::{SessionLoop, stop};
use crate::show::terminal::live::GateDisplay;
use crate::show::{exit, terminal};
use crate::store::effective_gates::EffectiveGates;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

const AFTER_HELP: &str =
    "SESSION is the id of a session of the agent client. TYPE is `loop`; `iterate` means the same.

Exit codes of complete: 0 verified, 1 not verified, 2 usage, no loop or no gates, 3 user action required.

Examples:
  ralph state init \"$SESSION_ID\" loop \"fix the tests\"
  ralph state update \"$SESSION_ID\" loop phase review
  ralph state complete \"$SESSION_ID\" loop
  ralph state fail \"$SESSION_ID\" loop \"the service is down\"";

#[derive(clap::Subcommand)]
enum Verb {
    /// Start a loop in that session: its stops are blocked until the task is verified
    Init {
        #[command(flatten)]
        of: Of,
        #[arg(allow_hyphen_values = true)]
        task: String,
        /// Pause after this many judged stops; 0: no limit
        #[arg(long, value_name = "N", default_value_t = 15)]
        max_iterations: u32,
    },
    /// Store a note; it affects no decision
    Update {
        #[command(flatten)]
        of: Of,
        key: String,
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// Increment the note `iteration`; it does not count attempts
    Increment {
        #[command(flatten)]
        of: Of,
    },
    /// Report the task as done: run the gates; if they pass, the loop ends at the session's next stop
    Complete {
        #[command(flatten)]
        of: Of,
    },
    /// Give up the loop for a reason: it ends, and its session may stop (refused in an agent's shell)
    Fail {
        #[command(flatten)]
        of: Of,
        #[arg(allow_hyphen_values = true)]
        error: String,
    },
    /// Print the session's loop as JSON
    Read {
        session: String,
        #[arg(value_enum, value_name = "TYPE")]
        _type: Option<Type>,
    },
    /// End the loop and detach it from its session; its log stays (refused in an agent's shell)
    Delete {
        session: String,
        #[arg(value_enum, value_name = "TYPE")]
        _type: Option<Type>,
    },
}

#[derive(clap::Args)]
struct Of {
    session: String,
    #[arg(value_enum, value_name = "TYPE")]
    _type: Type,
}

/// The only loop type; other words are refused.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Type {
    #[value(alias = "iterate")]
    Loop,
}

/// The note that `increment` counts.
const COUNTED: &str = "iteration";

pub(super) fn run(arguments: &Arguments) -> CommandResult {
    match &arguments.verb {
        Verb::Init { of, task, max_iterations } => init(&of.session()?, task, *max_iterations),
        Verb::Update { of, key, value } => update(&of.session()?, key, value),
        Verb::Increment { of } => increment(&of.session()?),
        Verb::Complete { of } => complete(&of.session()?),
        Verb::Fail { of, error } => fail(&of.session()?, error),
        Verb::Read { session, .. } => read(&session_named(session)?),
        Verb::Delete { session, .. } => delete(&session_named(session)?),
    }
}

impl Of {
    fn session(&self) -> Result<SessionId, CommandError> {
        session_named(&self.session)
    }
}

/// A session id is a name, never a path.
fn session_named(text: &str) -> Result<SessionId, CommandError> {
    if is_session_id(text) {
        return Ok(SessionId::new(text));
    }
    let shown: String = foreign_text::clean(text.as_bytes(), &Secrets::default()).chars().take(60).collect();
    Err(CommandError::new(exit::USAGE, format!("`{shown}` is not a session id"))
        .hint("use the id that the client passes to its hooks: up to 128 letters, digits, `-` and `_`"))
}

fn init(session: &SessionId, task: &str, max_iterations: u32) -> CommandResult {
    let place = CommandContext::here_or_new()?;
    if surroundings::agent_session().as_ref() != Some(session) {
        place.refuse_in_agent_shell("start a loop in another session")?;
    }
    let most = max_iterations.to_string();
    let words = ["--max-iterations", &most, "--", task].map(str::to_owned);
    let request = start_request::parse(&words).map_err(start::misused)?;
    start::begin(&place, Some(session), &request)
}

fn update(session: &SessionId, key: &str, value: &str) -> CommandResult {
    if !note::is_key(key) {
        return Err(CommandError::new(exit::USAGE, "invalid key")
            .hint("use up to 100 letters, digits, `-`, `_` and `.`"));
    }
    if value.len() > note::LONGEST_VALUE {
        return Err(CommandError::new(exit::USAGE, "the value is longer than 16 KiB")
            .hint("put it into a file and store its path"));
    }
    let transition = Transition::Note { key: key.to_owned(), value: NoteValue::of(value) };
    append_note(session, &transition, &format!("the limit of {} notes is reached", note::MOST_NOTES))?;
    Ok(ExitCode::SUCCESS)
}

fn increment(session: &SessionId) -> CommandResult {
    let transition = Transition::Count { key: COUNTED.to_owned() };
    let state = append_note(session, &transition, &format!("the note `{COUNTED}` is not a number"))?;
    terminal::print(json!(state.notes.get(COUNTED)));
    Ok(ExitCode::SUCCESS)
}

/// Adds a note and returns the state; `otherwise` is the error if an open loop rejects it.
fn append_note(session: &SessionId, transition: &Transition, otherwise: &str) -> Result<State, CommandError> {
    let place = CommandContext::here_or_new()?;
    let mut found = open_loop(&place, session)?;
    if found.apply(transition)? {
        return Ok(found.state);
    }
    Err(match found.state.status {
        Status::Ended { verdict } => over(session, verdict),
        _ => CommandError::new(exit::USAGE, otherwise),
    })
}

fn complete(session: &SessionId) -> CommandResult {
    let place = CommandContext::here_or_new()?;
    let found = open_loop(&place, session)?;
    if ancestry::inside_gate_of(&found.workspace.repo_home) {
        return Err(CommandError::new(
            exit::USAGE,
            "already running inside a gate of this repo; this would deadlock",
        ));
    }
    if !found.state.is_running() {
        return Err(CommandError::new(exit::NEEDS_PERSON, "the loop is paused; nothing was run")
            .hint("resume it with `ralph resume`, or send `continue` in its session"));
    }
    let effective = stop::gates_of_loop(&found)?;
    require_gates(&found, &effective)?;
    let case = stop::case_of_loop(&found, &effective, session_claims(&found));
    let mut live = GateDisplay::new(&effective.config.gates, false);
    // The caller's session cannot be proven, so the verdict is left to the session's own stop.
    let outcome = case.run_without_verdict(&judge_options(), &mut live);
    drop(live);
    let outcome = match outcome {
        Err(EngineError::Interrupted(signal)) => {
            terminal::remark(
                "Interrupted: the gates were ended with all their processes; nothing was verified.",
            );
            return Ok(exit::by_signal(signal));
        }
        Err(EngineError::Freed) => {
            return Err(CommandError::new(
                exit::NEEDS_PERSON,
                "the loop was paused or ended while its gates ran",
            ));
        }
        other => other?,
    };
    show(session, &outcome)
}

fn require_gates(found: &SessionLoop, effective: &EffectiveGates) -> Result<(), CommandError> {
    let needs_user = |what: &str| {
        let hint = "review them with `ralph trust --show`, then accept them with `ralph trust`";
        CommandError::new(exit::NEEDS_PERSON, what).hint(hint)
    };
    let has_gates = effective.broken.is_some() || effective.config.has_gates();
    match effective.definition_status {
        DefinitionStatus::Revoked => Err(needs_user("trust in this repo was revoked; nothing was run")),
        _ if has_gates => Ok(()),
        _ if effective.sha256.is_none() && found.workspace.repo.config()?.is_some() => {
            Err(needs_user("the gates of this repo are not accepted; nothing was run"))
        }
        _ => Err(verify::no_gates(&found.workspace.repo, effective)),
    }
}

/// The checkboxes; a promise can only be given in the session's own messages.
fn session_claims(found: &SessionLoop) -> SessionStop {
    let goal = found.state.goal.as_ref();
    SessionStop {
        promise: goal.and_then(|goal| goal.promise.as_ref()).map(|_| PromiseSeen::Absent),
        tasks: goal
            .and_then(|goal| goal.list.as_ref())
            .map(|list| tasks::read(&found.workspace.repo.root, list)),
        ..SessionStop::default()
    }
}

fn judge_options() -> JudgeOptions<'static> {
    JudgeOptions { keep_going: false, ..JudgeOptions::without_deadline() }
}

fn is_verified(outcome: &Judged) -> bool {
    matches!(outcome.decision, Decision::Allow { verdict, .. } if verdict.gates_passed())
}

fn show(session: &SessionId, outcome: &Judged) -> CommandResult {
    let (reason, facts): (&Reason, &Facts) = match &outcome.decision {
        Decision::Allow { reason, .. } | Decision::Block { reason, .. } => (reason, &outcome.facts),
        Decision::Wait { what, .. } => {
            return Err(CommandError::new(exit::NOT_VERIFIED, format!("gates not run: waiting for {what}")));
        }
        // Another process was faster.
        Decision::Gather | Decision::Act(_) | Decision::Prove | Decision::Ignore(_) => {
            return Err(CommandError::new(
                exit::NEEDS_PERSON,
                "the loop was paused or ended in the meantime",
            ));
        }
    };
    let verified = VerifyResult::from(&outcome.decision, facts, false);
    verified.show();
    match reason {
        _ if is_verified(outcome) => {
            terminal::print(format_args!(
                "The gates pass now. The loop of session {session} ends at its next stop, which runs the gates again."
            ));
        }
        Reason::DefinitionChanged | Reason::DefinitionRevoked => {
            return Ok(ExitCode::from(exit::NEEDS_PERSON));
        }
        _ => terminal::print(format_args!("Not verified; the loop of session {session} continues.")),
    }
    Ok(ExitCode::from(verified.exit_code()))
}

fn fail(session: &SessionId, error: &str) -> CommandResult {
    const LONGEST: usize = 2000;
    let place = CommandContext::here_or_new()?;
    place.refuse_in_agent_shell("give up a loop")?;
    let mut found = open_loop(&place, session)?;
    let clean = foreign_text::clean(error.as_bytes(), &Secrets::default());
    let why: String = clean.trim().chars().take(LONGEST).collect();
    if why.is_empty() {
        return Err(
            CommandError::new(exit::USAGE, "no reason given").hint("describe briefly what went wrong")
        );
    }
    if !found.apply(&Transition::Cancel(CancelCause::Failed { why }))? {
        return Err(no_loop(session));
    }
    terminal::print(found.with_report(format!("{}: given up; its session may stop.", found.id)));
    Ok(ExitCode::SUCCESS)
}

fn delete(session: &SessionId) -> CommandResult {
    let place = CommandContext::here_or_new()?;
    place.refuse_in_agent_shell("delete the state of a loop")?;
    let all = loops_of(&place, session)?;
    if all.is_empty() {
        return Err(no_loop(session));
    }
    for mut found in all {
        found.apply(&Transition::Forget)?;
        terminal::print(found.with_report(format!("{}: detached from session {session}.", found.id)));
    }
    Ok(ExitCode::SUCCESS)
}

fn read(session: &SessionId) -> CommandResult {
    let place = CommandContext::here_or_new()?;
    let found = newest(&place, session)?;
    terminal::json(&shown(&found, session));
    Ok(ExitCode::SUCCESS)
}

fn shown(found: &SessionLoop, session: &SessionId) -> Value {
    let state = &found.state;
    let (status, verdict) = match state.status {
        Status::Fresh => ("fresh", None),
        Status::Running => ("running", None),
        Status::Paused { .. } => ("paused", None),
        Status::Ended { verdict } => ("ended", Some(verdict)),
    };
    json!({
        "session": session,
        "type": "loop",
        "loop": found.id,
        "repo": found.workspace.repo.root,
        "task": state.goal.as_ref().map(|goal: &Goal| &goal.task),
        "status": status,
        "verdict": verdict.map(Verdict::code),
        "attempts": state.attempts,
        "started_at": state.started_at,
        "last_activity": state.last_activity,
        "paused": state.paused(),
        "error": state.cancelled_because,
        "notes": state.notes,
    })
}

/// The open loop attached to the session.
fn open_loop(place: &CommandContext, session: &SessionId) -> Result<SessionLoop, CommandError> {
    let found = newest(place, session)?;
    match found.state.status {
        Status::Ended { verdict } => Err(over(session, verdict)),
        Status::Fresh | Status::Running | Status::Paused { .. } => Ok(found),
    }
}

fn newest(place: &CommandContext, session: &SessionId) -> Result<SessionLoop, CommandError> {
    loops_of(place, session)?.into_iter().next().ok_or_else(|| no_loop(session))
}

/// All loops of that session: the attached one in any repo, then those of this repo, newest first.
fn loops_of(place: &CommandContext, session: &SessionId) -> Result<Vec<SessionLoop>, CommandError> {
    let mut all: Vec<SessionLoop> = SessionLoop::settle_of(&place.home, session)?.into_iter().collect();
    for id in place.repo_home.loops() {
        if all.iter().any(|known| known.id == id) {
            continue;
        }
        let found = SessionLoop::settle_at(place, id)?;
        all.extend(found.filter(|found| found.state.session.as_ref() == Some(session)));
    }
    Ok(all)
}

fn no_loop(session: &SessionId) -> CommandError {
    CommandError::new(exit::USAGE, format!("session {session} has no loop in this repo"))
        .hint(format!("start one with `ralph state init {session} loop TASK`"))
}

fn over(session: &SessionId, verdict: Verdict) -> CommandError {
    CommandError::new(exit::USAGE, format!("the loop of session {session} has ended ({verdict})"))
        .hint("check the current files with `ralph verify`")
}
