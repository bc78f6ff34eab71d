//! `ralph state`: the state of a session's loop by hand, for scripts that used to keep it in files of their own.
//!
//! The store is that of every other command. No verb writes a verdict: `complete` is a claim and has the gates run, and
//! what is noted is shown and decides nothing.

use std::process::ExitCode;

use ralph_core::claims::start_request;
use ralph_core::clients::stream::is_session_id;
use ralph_core::ledger::decide::Decision;
use ralph_core::ledger::event::CancelCause;
use ralph_core::ledger::facts::{Facts, SessionStop, Standing};
use ralph_core::ledger::state::{State, Status};
use ralph_core::ledger::transition::Happening;
use ralph_core::model::foreign_text;
use ralph_core::model::goal::Goal;
use ralph_core::model::id::SessionId;
use ralph_core::model::note::{self, NoteValue};
use ralph_core::model::promise_seen::PromiseSeen;
use ralph_core::model::secrets::Secrets;
use ralph_core::model::verdict::{Reason, Verdict};
use serde_json::{Value, json};

use super::context::Place;
use super::verify::{self, Verified};
use super::{Done, Failure, start};
use crate::checks::tasks;
use crate::clients::surroundings;
use crate::loops::ancestry;
use crate::loops::judge::{Asked, EngineError, Outcome};
use crate::loops::session::{SessionLoop, stop};
use crate::show::terminal::live::Live;
use crate::show::{exit, terminal};
use crate::store::effective_gates::InForce;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

const AFTER_HELP: &str =
    "SESSION is the id of a session of the agent client. TYPE is `loop`; `iterate` means the same.

Exit codes of complete: 0 verified, 1 not verified, 2 usage, no loop or no gates, 3 needs a person.

Examples:
  ralph state init \"$SESSION_ID\" loop \"fix the tests\"
  ralph state update \"$SESSION_ID\" loop phase review
  ralph state complete \"$SESSION_ID\" loop
  ralph state fail \"$SESSION_ID\" loop \"the service is down\"";

#[derive(clap::Subcommand)]
enum Verb {
    /// Start a loop in that session: its stops are held until the task is shown to be done
    Init {
        #[command(flatten)]
        of: Of,
        #[arg(allow_hyphen_values = true)]
        task: String,
        /// Pause after this many judged stops; 0: no limit
        #[arg(long, value_name = "N", default_value_t = 15)]
        max_iterations: u32,
    },
    /// Note a value; nothing is decided by it
    Update {
        #[command(flatten)]
        of: Of,
        key: String,
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// Count one more in the note `iteration`; the attempts are counted elsewhere
    Increment {
        #[command(flatten)]
        of: Of,
    },
    /// Claim that the task is done: the gates run, and the loop ends where they pass
    Complete {
        #[command(flatten)]
        of: Of,
    },
    /// Give the loop up for a reason: it ends, and its session may stop (only for a person)
    Fail {
        #[command(flatten)]
        of: Of,
        #[arg(allow_hyphen_values = true)]
        error: String,
    },
    /// Show what is known of the session's loop, as JSON
    Read {
        session: String,
        #[arg(value_enum, value_name = "TYPE")]
        _type: Option<Type>,
    },
    /// End the loop and forget that it was this session's; its log stays (only for a person)
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

/// There is one; a word that is none is refused.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Type {
    #[value(alias = "iterate")]
    Loop,
}

/// What `increment` counts.
const COUNTED: &str = "iteration";

pub(super) fn run(arguments: &Arguments) -> Done {
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
    fn session(&self) -> Result<SessionId, Failure> {
        session_named(&self.session)
    }
}

/// A session's id is a name and never a path.
fn session_named(text: &str) -> Result<SessionId, Failure> {
    if is_session_id(text) {
        return Ok(SessionId::new(text));
    }
    let shown: String = foreign_text::clean(text.as_bytes(), &Secrets::default()).chars().take(60).collect();
    Err(Failure::new(exit::USAGE, format!("`{shown}` is no id of a session"))
        .hint("it is a name: up to 128 letters, digits, `-` and `_`, as the client gives it to its hooks"))
}

fn init(session: &SessionId, task: &str, max_iterations: u32) -> Done {
    let place = Place::here_or_new()?;
    if surroundings::agent_session().as_ref() != Some(session) {
        place.only_for_a_person("start a loop in another session")?;
    }
    let most = max_iterations.to_string();
    let words = ["--max-iterations", &most, "--", task].map(str::to_owned);
    let request = start_request::parse(&words).map_err(start::misused)?;
    start::begin(&place, Some(session), &request)
}

fn update(session: &SessionId, key: &str, value: &str) -> Done {
    if !note::is_key(key) {
        return Err(Failure::new(exit::USAGE, "a note needs a plain word as its key")
            .hint("up to 100 letters, digits, `-`, `_` and `.`"));
    }
    if value.len() > note::LONGEST_VALUE {
        return Err(Failure::new(exit::USAGE, "the value is longer than 16 KiB")
            .hint("put it into a file and note its name"));
    }
    let happening = Happening::Note { key: key.to_owned(), value: NoteValue::of(value) };
    take_note(session, &happening, &format!("there are {} notes already", note::MOST_NOTES))?;
    Ok(ExitCode::SUCCESS)
}

fn increment(session: &SessionId) -> Done {
    let happening = Happening::Count { key: COUNTED.to_owned() };
    let state = take_note(session, &happening, &format!("the note `{COUNTED}` is no number"))?;
    terminal::say(json!(state.notes.get(COUNTED)));
    Ok(ExitCode::SUCCESS)
}

/// The state with the note; `otherwise` says why an open loop would not take it.
fn take_note(session: &SessionId, happening: &Happening, otherwise: &str) -> Result<State, Failure> {
    let place = Place::here_or_new()?;
    let mut found = open_loop(&place, session)?;
    if found.happen(happening)? {
        return Ok(found.state);
    }
    Err(match found.state.status {
        Status::Ended { verdict } => over(session, verdict),
        _ => Failure::new(exit::USAGE, otherwise),
    })
}

fn complete(session: &SessionId) -> Done {
    let place = Place::here_or_new()?;
    let found = open_loop(&place, session)?;
    if ancestry::inside_gate_of(&found.workspace.repo_home) {
        return Err(Failure::new(
            exit::USAGE,
            "already running inside a gate of this repo: it would wait for itself",
        ));
    }
    if !found.state.is_running() {
        return Err(Failure::new(exit::NEEDS_PERSON, "the loop is paused; nothing was run")
            .hint("`ralph resume`, or `continue` in its session"));
    }
    let in_force = stop::gates_of_loop(&found)?;
    must_have_gates(&found, &in_force)?;
    let case = stop::case_of_loop(&found, &in_force, claims(&found));
    let mut live = Live::new(&in_force.config.gates, false);
    // Whose shell this is cannot be proven: the verdict is made at the session's own stop.
    let outcome = case.look(&asked(), &mut live);
    drop(live);
    let outcome = match outcome {
        Err(EngineError::Interrupted(signal)) => {
            terminal::remark(
                "Interrupted: the gates were ended with all their processes; nothing was verified.",
            );
            return Ok(exit::by_signal(signal));
        }
        Err(EngineError::Freed) => {
            return Err(Failure::new(exit::NEEDS_PERSON, "the loop was paused or ended while its gates ran"));
        }
        other => other?,
    };
    show(session, &outcome)
}

fn must_have_gates(found: &SessionLoop, in_force: &InForce) -> Result<(), Failure> {
    let needs_person = |what: &str| {
        let hint = "look at them with `ralph trust --show`, accept them with `ralph trust`";
        Failure::new(exit::NEEDS_PERSON, what).hint(hint)
    };
    let has_gates = in_force.broken.is_some() || in_force.config.has_gates();
    match in_force.standing {
        Standing::Revoked => Err(needs_person("trust in this repo was taken back; nothing was run")),
        _ if has_gates => Ok(()),
        _ if in_force.sha256.is_none() && found.workspace.repo.config()?.is_some() => {
            Err(needs_person("no person has accepted the gates of this repo; nothing was run"))
        }
        _ => Err(verify::no_gates(&found.workspace.repo, in_force)),
    }
}

/// What the boxes say; a promise can only be given in the session's own words.
fn claims(found: &SessionLoop) -> SessionStop {
    let goal = found.state.goal.as_ref();
    SessionStop {
        promise: goal.and_then(|goal| goal.promise.as_ref()).map(|_| PromiseSeen::Absent),
        tasks: goal
            .and_then(|goal| goal.list.as_ref())
            .map(|list| tasks::read(&found.workspace.repo.root, list)),
        ..SessionStop::default()
    }
}

fn asked() -> Asked<'static> {
    Asked { keep_going: false, ..Asked::all_of_it() }
}

fn is_verified(outcome: &Outcome) -> bool {
    matches!(outcome.decision, Decision::LetGo { verdict: Verdict::Verified, .. })
}

fn show(session: &SessionId, outcome: &Outcome) -> Done {
    let (reason, facts): (&Reason, &Facts) = match &outcome.decision {
        Decision::LetGo { reason, .. } | Decision::Hold { reason, .. } => (reason, &outcome.facts),
        Decision::Wait { what, .. } => {
            return Err(Failure::new(
                exit::NOT_VERIFIED,
                format!("nothing was judged: {what} is waited for"),
            ));
        }
        // Somebody was faster.
        Decision::Gather | Decision::Ignore(_) => {
            return Err(Failure::new(exit::NEEDS_PERSON, "the loop was paused or ended meanwhile"));
        }
    };
    let verified = Verified::from(&outcome.decision, facts, false);
    verified.show();
    match reason {
        _ if is_verified(outcome) => {
            terminal::say(format_args!(
                "The claim holds now. The loop of session {session} ends at its next stop, which runs the gates again."
            ));
        }
        Reason::DefinitionChanged | Reason::DefinitionRevoked => {
            return Ok(ExitCode::from(exit::NEEDS_PERSON));
        }
        _ => terminal::say(format_args!("The claim does not hold; the loop of session {session} goes on.")),
    }
    Ok(ExitCode::from(verified.exit_code()))
}

fn fail(session: &SessionId, error: &str) -> Done {
    const LONGEST: usize = 2000;
    let place = Place::here_or_new()?;
    place.only_for_a_person("give a loop up")?;
    let mut found = open_loop(&place, session)?;
    let clean = foreign_text::clean(error.as_bytes(), &Secrets::default());
    let why: String = clean.trim().chars().take(LONGEST).collect();
    if why.is_empty() {
        return Err(
            Failure::new(exit::USAGE, "there is no reason").hint("say in a few words what went wrong")
        );
    }
    if !found.happen(&Happening::Cancel(CancelCause::Failed { why }))? {
        return Err(no_loop(session));
    }
    terminal::say(found.with_report(format!("{}: given up; its session may stop.", found.id)));
    Ok(ExitCode::SUCCESS)
}

fn delete(session: &SessionId) -> Done {
    let place = Place::here_or_new()?;
    place.only_for_a_person("delete the state of a loop")?;
    let all = loops_of(&place, session)?;
    if all.is_empty() {
        return Err(no_loop(session));
    }
    for mut found in all {
        found.happen(&Happening::Forget)?;
        terminal::say(found.with_report(format!("{}: no longer the loop of session {session}.", found.id)));
    }
    Ok(ExitCode::SUCCESS)
}

fn read(session: &SessionId) -> Done {
    let place = Place::here_or_new()?;
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
        "error": state.given_up,
        "notes": state.notes,
    })
}

/// The loop that the session carries.
fn open_loop(place: &Place, session: &SessionId) -> Result<SessionLoop, Failure> {
    let found = newest(place, session)?;
    match found.state.status {
        Status::Ended { verdict } => Err(over(session, verdict)),
        Status::Fresh | Status::Running | Status::Paused { .. } => Ok(found),
    }
}

fn newest(place: &Place, session: &SessionId) -> Result<SessionLoop, Failure> {
    loops_of(place, session)?.into_iter().next().ok_or_else(|| no_loop(session))
}

/// Every loop of that session: the one that it carries, wherever that is, then those of this repo, the newest first.
fn loops_of(place: &Place, session: &SessionId) -> Result<Vec<SessionLoop>, Failure> {
    let mut all: Vec<SessionLoop> =
        SessionLoop::settle_of(&place.workspace.home, session)?.into_iter().collect();
    for id in place.workspace.repo_home.loops() {
        if all.iter().any(|known| known.id == id) {
            continue;
        }
        let found = SessionLoop::settle_at(&place.workspace, id)?;
        all.extend(found.filter(|found| found.state.session.as_ref() == Some(session)));
    }
    Ok(all)
}

fn no_loop(session: &SessionId) -> Failure {
    Failure::new(exit::USAGE, format!("session {session} has no loop here"))
        .hint(format!("`ralph state init {session} loop TASK` starts one"))
}

fn over(session: &SessionId, verdict: Verdict) -> Failure {
    Failure::new(exit::USAGE, format!("the loop of session {session} is over ({verdict})"))
        .hint("`ralph verify` tells whether the tree passes now")
}
