//! The session itself stops: its loop decides if it has one, else the guard if there is one.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use ralph_core::claims::loop_file::LoopFile;
use ralph_core::claims::promise::{self, Promise};
use ralph_core::clients::hook::{BackgroundWork, HookReply};
use ralph_core::ledger::decide::Decision;
use ralph_core::ledger::event::{CancelCause, Subject};
use ralph_core::ledger::facts::SessionStop;
use ralph_core::ledger::ship::ShippedBy;
use ralph_core::ledger::state::Status;
use ralph_core::ledger::transition::Transition;
use ralph_core::model::finding::TasksSeen;
use ralph_core::model::goal::Goal;
use ralph_core::model::language::Lang;
use ralph_core::model::layout::Layout;
use ralph_core::model::preset::{self, Preset};
use ralph_core::model::promise_seen::PromiseSeen;
use ralph_core::model::verdict::{EvaluationError, Verdict};
use ralph_core::say::feedback::{self, Notice};
use ralph_core::say::lang::fill;

use crate::checks::gates::environment::GateEnvironment;
use crate::checks::ship::{Shipping, ShippingOptions};
use crate::checks::{openspec, tasks};
use crate::loops::evidence::StartOfWork;
use crate::loops::judge::{EngineError, JudgeCase, Judged};
use crate::loops::session::SessionLoop;
use crate::loops::session::event::{NotChecked, RunNotice, SessionEvent};
use crate::loops::session::user::starting_on_new_line;
use crate::show::language;
use crate::store::acceptance::Beginning;
use crate::store::effective_gates::{EffectiveGates, GatesLookup};
use crate::store::exports::loop_file::{self, LoopFileOnDisk};
use crate::store::notices;
use crate::store::repo::Repo;
use crate::store::sessions::{self, Binding, EndedAtStop};
use crate::sys::proc::StopRequest;
use crate::sys::signals::Signals;
use crate::sys::{clock, env, files};
use crate::work_tree::git::head::GitHead;

impl SessionEvent<'_> {
    pub(crate) fn on_session_stop(&self, background: &[BackgroundWork]) -> Result<HookReply, NotChecked> {
        match self.loop_of_session()? {
            Some(found) if found.state.is_running() => {
                let background: Vec<_> =
                    self.queued_cancel().into_iter().chain(background.to_vec()).collect();
                LoopStop { door: self, found, background: &background, by: StopOf::Session }.answer()
            }
            Some(found) => {
                let notice = self.ended_elsewhere_notice(&found)?;
                Ok(with_line(notice, self.on_guarded_session_stop(background)?))
            }
            None => {
                let again = self.repeated_stop_notice()?;
                Ok(with_line(again, self.on_guarded_session_stop(background)?))
            }
        }
    }

    /// The stop of the agent that leads a loop in rounds is a stop of the loop. What the user reads about it is shown when
    /// the turn ends, as clients show nothing when a sub-agent stops.
    pub(crate) fn on_leader_stop(&self) -> Result<Option<HookReply>, NotChecked> {
        let Some(found) = SessionLoop::for_stop(self.home, self.session)? else { return Ok(None) };
        let leads = found.state.leader.is_some() && found.state.leader == self.call.agent;
        if !leads || !found.state.is_running() {
            return Ok(None);
        }
        let reply = LoopStop { door: self, found, background: &[], by: StopOf::Leader }.answer()?;
        if let HookReply::Notify { user: Some(user), .. } = &reply {
            notices::leave(self.home, self.session, &Notice { user: user.clone(), agent: None })?;
        }
        Ok(Some(reply))
    }

    /// A turn has one allowed stop. A second one after the loop ended means that the first did not come from the client, or
    /// that another hook blocked it.
    fn repeated_stop_notice(&self) -> Result<Option<String>, NotChecked> {
        let Some(ended) = sessions::ended_at_stop(self.home, self.session)? else { return Ok(None) };
        if ended.turn.is_some() && ended.turn == self.call.prompt {
            return Ok(Some(already_judged_notice(ended.verdict)));
        }
        sessions::forget_end(self.home, self.session)?;
        Ok(None)
    }

    /// The user's notice when the loop no longer blocks although no stop of this session ended it.
    fn ended_elsewhere_notice(&self, found: &SessionLoop) -> Result<Option<String>, NotChecked> {
        if found.is_open() {
            return Ok(Some(language::texts(&found.state, None).is_here()));
        }
        let Status::Ended { verdict } = found.state.status else { return Ok(None) };
        let words = language::of_loop(&found.state).words();
        let line = fill(words.ended_outside_a_stop, &[("loop", &found.id), ("verdict", &verdict)]);
        let first = notices::mark_as_shown(self.home, self.session, &line)?;
        Ok(first.then(|| format!("ralph: {line}")))
    }

    /// The client queues the user's cancel command until the turn ends, so the turn may end. Any process can write that
    /// into a transcript, so it is reported and excuses no more stops than other background work.
    fn queued_cancel(&self) -> Option<BackgroundWork> {
        let typed = (self.client.transcript.queued_cancel)(&self.transcript())?;
        Some(BackgroundWork { id: format!("queued {typed}"), what: "/cancel-ralph".into() })
    }

    /// The loop attached to this session; a loop started by the official plugin is adopted.
    fn loop_of_session(&self) -> Result<Option<SessionLoop>, NotChecked> {
        let bound = SessionLoop::settle_for_stop(self.home, self.session)?;
        if bound.as_ref().is_some_and(SessionLoop::is_open) {
            return Ok(bound);
        }
        // The binding file may be missing or name another loop.
        if let Some(workspace) = self.known_workspace()?
            && let Some(found) = SessionLoop::find_open(&workspace, self.session)?
        {
            return Ok(Some(found));
        }
        if bound.is_some() {
            return Ok(bound);
        }
        match sessions::binding(self.home, self.session)? {
            Some(binding) if binding.starting => sessions::unbind(self.home, self.session)?,
            Some(Binding { id, .. }) => {
                let what =
                    format!("the loop `{id}` of this session cannot be read or belongs to another session");
                return Err(NotChecked(what));
            }
            None => {}
        }
        let there = self.folder().is_some_and(|folder| folder.join(loop_file::PATH).is_file());
        // Any process can write such a file; a loop with a lower limit would replace the guard.
        if !there || self.is_guarded()? {
            return Ok(None);
        }
        match self.adopt()? {
            None if self.file_names_this_session()? => {
                let what = "names a loop of this session that ralph has no record of";
                Err(NotChecked(format!("{} {what}", loop_file::PATH)))
            }
            adopted => Ok(adopted),
        }
    }

    fn file_names_this_session(&self) -> Result<bool, NotChecked> {
        let Some(folder) = self.folder() else { return Ok(false) };
        let text = files::read_foreign(&folder.join(loop_file::PATH))?.unwrap_or_default();
        let file = LoopFile::parse(&String::from_utf8_lossy(&text));
        let names_this_session =
            |file: &LoopFile| file.active && file.session_id.as_deref() == Some(self.session.as_str());
        Ok(file.as_ref().is_some_and(names_this_session))
    }

    /// Adopts a loop that the official plugin started in this session.
    fn adopt(&self) -> Result<Option<SessionLoop>, NotChecked> {
        self.with_start(|start| {
            let file = LoopFileOnDisk::new(&start.workspace.repo_home, &start.workspace.repo.root).foreign();
            let ours = |file: &LoopFile| file.session_id.as_deref() == Some(self.session.as_str());
            Ok(file.filter(ours).map(|file| start.adopt(&file)).transpose()?)
        })
    }

    /// What limits the blocks of a session, by a loop or the guard.
    pub(crate) fn session_stop(&self, background: &[BackgroundWork]) -> SessionStop {
        SessionStop {
            tool_call: (self.client.transcript.last_tool_call)(&self.transcript()),
            background: background.to_vec(),
            block_cap: self.client.block_cap_here(),
            ..SessionStop::default()
        }
    }

    /// The end of the client's transcript, which can be very long.
    fn transcript(&self) -> Vec<u8> {
        let path = self.call.transcript.as_deref().map(Path::new);
        path.and_then(|path| crate::sys::files::end_of(path, LONGEST_TAIL).ok()).unwrap_or_default()
    }
}

const LONGEST_TAIL: u64 = 256 << 10;

/// A stop of a session with a loop.
struct LoopStop<'a> {
    door: &'a SessionEvent<'a>,
    found: SessionLoop,
    background: &'a [BackgroundWork],
    by: StopOf,
}

/// Whose stop is judged by a session's loop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StopOf {
    Session,
    /// The agent that leads the loop's work. The turn ends later, with a stop of its own.
    Leader,
}

impl LoopStop<'_> {
    fn answer(mut self) -> Result<HookReply, NotChecked> {
        let Some(goal) = self.found.state.goal.clone() else { return Ok(HookReply::Silent) };
        let stop = self.session_stop(&goal);
        if let Some(cancelled) = self.cancelled_by_deletion(&stop)? {
            return Ok(cancelled);
        }
        self.note_edited_file()?;
        self.found.workspace = self.door.with_options(self.found.workspace.clone());
        let effective = gates_of_loop(&self.found)?;
        let judged = self.judge(&effective, stop.clone())?;
        // Gates take time, and the user may have deleted the file meanwhile.
        if let Some(cancelled) = self.cancelled_by_deletion(&stop)? {
            return Ok(cancelled);
        }
        self.remember_end(judged.as_ref());
        if let Some(outcome) = &judged {
            self.found.log_stop(&outcome.before, &outcome.decision);
        }
        self.found.settle()?;
        match judged {
            Some(outcome) if !matches!(outcome.decision, Decision::Ignore(_)) => {
                self.reply(&goal, &stop, &outcome)
            }
            // Paused or cancelled while its gates ran.
            _ => Ok(self.door.ended_elsewhere_notice(&self.found)?.map_or(HookReply::Silent, notify_user)),
        }
    }

    /// Recorded for a second stop of the same turn, before anything else marks the loop as over: a process killed here
    /// leaves its session still bound to the loop.
    fn remember_end(&self, judged: Option<&Judged>) {
        if let (StopOf::Session, Some(Decision::Allow { verdict, .. })) =
            (self.by, judged.map(|outcome| &outcome.decision))
        {
            let ended = EndedAtStop { verdict: *verdict, turn: self.door.call.prompt.clone() };
            let _best_effort = sessions::remember_end(self.door.home, self.door.session, &ended);
        }
    }

    fn session_stop(&self, goal: &Goal) -> SessionStop {
        let promise = goal.promise.as_deref().and_then(Promise::new);
        SessionStop {
            promise: promise.map(|promise| {
                let look =
                    if preset_of(&self.found).bare_promise { promise::look_for_words } else { promise::look };
                look(&promise, &self.door.call.last_message)
            }),
            tasks: goal.list.as_ref().map(|list| tasks::read(&self.found.workspace.repo.root, list)),
            ..self.door.session_stop(self.background)
        }
    }

    /// Deleting the loop's file cancels the loop. If the message contains the promise, the official plugin deleted the
    /// file: that is a claim, not a cancellation by the user.
    fn cancelled_by_deletion(&mut self, stop: &SessionStop) -> Result<Option<HookReply>, NotChecked> {
        if stop.promise == Some(PromiseSeen::Given)
            || self.loop_file_status() != loop_file::LoopFileSeen::Deleted
        {
            return Ok(None);
        }
        if !self.found.apply(&Transition::Cancel(CancelCause::FileDeleted))? {
            return Ok(None);
        }
        let cancelled = stop.texts(&self.found.state, self.lang()).cancelled();
        let cancelled = self.found.with_lost_report(cancelled);
        self.found.settle()?;
        // A guard from before the loop still applies after it.
        Ok(Some(with_line(Some(cancelled), self.door.on_guarded_session_stop(self.background)?)))
    }

    fn loop_file_status(&self) -> loop_file::LoopFileSeen {
        LoopFileOnDisk::new(&self.found.workspace.repo_home, &self.found.workspace.repo.root)
            .inspect(&self.found.id)
    }

    fn note_edited_file(&self) -> Result<(), NotChecked> {
        if let loop_file::LoopFileSeen::Edited(found) = self.loop_file_status() {
            self.found.note_edited_file(found)?;
        }
        Ok(())
    }

    /// `None` if the user paused or cancelled the loop meanwhile, or the client no longer waits for a reply.
    ///
    /// A pending check is looked at again until the hook's deadline, without running the gates again.
    fn judge(&self, effective: &EffectiveGates, stop: SessionStop) -> Result<Option<Judged>, NotChecked> {
        let mut case = case_of_loop(&self.found, effective, stop);
        loop {
            let Some(judged) = self.door.judge_session(&case)? else { return Ok(None) };
            match &judged.decision {
                Decision::Wait { until: Some(until), .. }
                    if case.shipping.is_some() && self.waits_for_next_look(*until)? =>
                {
                    case.kept_gates = judged.facts.gates().cloned();
                }
                _ => return Ok(Some(judged)),
            }
        }
    }

    /// Waits until then, unless the hook's deadline comes first or the user pauses or cancels the loop.
    fn waits_for_next_look(&self, until: jiff::Timestamp) -> Result<bool, NotChecked> {
        const STEP: Duration = Duration::from_millis(200);
        const TO_ANSWER: Duration = Duration::from_secs(10);
        let signals = Signals::watch();
        loop {
            let left = Duration::try_from(until.duration_since(clock::now())).unwrap_or_default();
            let deadline = self.door.deadline.saturating_duration_since(Instant::now());
            if deadline < left.saturating_add(TO_ANSWER) {
                return Ok(false);
            }
            if left.is_zero() {
                return Ok(true);
            }
            let is_running = self.found.workspace.loop_of(&self.found.id).state()?.is_running();
            if signals.stop.wait(clock::real(left.min(STEP))) || !is_running {
                return Ok(false);
            }
        }
    }

    fn reply(&self, goal: &Goal, stop: &SessionStop, outcome: &Judged) -> Result<HookReply, NotChecked> {
        let texts = stop.texts(&self.found.state, self.lang());
        match &outcome.decision {
            Decision::Block { attempt, reason } => {
                let message = feedback::for_blocked(&outcome.facts, &outcome.before, *attempt, reason);
                let user = Some(texts.running(reason));
                Ok(HookReply::Block { reason: message.reason, detail: message.detail, user })
            }
            Decision::Allow { verdict, reason, limit, .. } => {
                let archived = match verdict {
                    Verdict::Verified | Verdict::Passing | Verdict::Unchanged | Verdict::Claimed => {
                        archive(&self.found.workspace.repo, goal)
                    }
                    _ => None,
                };
                let banner = starting_on_new_line(&texts.released(*verdict, reason, *limit));
                // At a limit the user is asked with its own text.
                let asks = *verdict == Verdict::Paused;
                let banner =
                    if asks { self.found.with_lost_report(banner) } else { self.found.with_report(banner) };
                Ok(notify_user(archived.map_or(banner.clone(), |archived| format!("{banner}\n{archived}"))))
            }
            Decision::Wait { what, .. } => Ok(notify_user(texts.waiting(what))),
            Decision::Gather | Decision::Act(_) | Decision::Prove | Decision::Ignore(_) => {
                Ok(HookReply::Silent)
            }
        }
    }

    fn lang(&self) -> Lang {
        language::of_loop(&self.found.state)
    }
}

/// The effective gates of a session's loop; it keeps those it began with.
pub(crate) fn gates_of_loop(found: &SessionLoop) -> io::Result<EffectiveGates> {
    let beginning = Beginning::of_loop(Some(&found.state));
    let began_with = found.state.definition.clone();
    let now = found.workspace.gates_for(found.state.session.as_ref(), beginning)?;
    Ok(match (now, began_with) {
        (GatesLookup::Effective(effective), _) => match &found.state.goal {
            Some(Goal { ship: Some(_), .. }) => effective.for_shipping(),
            _ => *effective,
        },
        (_, Some(sha256)) => {
            EffectiveGates::revoked(found.state.layout.unwrap_or(Layout::Native), Some(sha256))
        }
        (_, None) => EffectiveGates::nothing(),
    })
}

/// The judge case of a session's loop.
pub(crate) fn case_of_loop<'a>(
    found: &'a SessionLoop,
    effective: &'a EffectiveGates,
    stop: SessionStop,
) -> JudgeCase<'a> {
    let (id, preset) = (found.id.clone(), preset_of(found));
    let case = JudgeCase::new(&found.workspace, effective, id, Subject::Session, preset);
    // A commit is activity, too; a transcript that shows a tool call tells more.
    let head = if stop.tool_call.is_none() { GitHead::of(&found.workspace.repo.root).commit } else { None };
    JudgeCase {
        head,
        session: found.state.session.clone(),
        limits: found.state.limits.clone().unwrap_or_else(|| case.limits.clone()),
        session_stop: Some(stop),
        shipping: shipping_of_loop(found, effective),
        start: StartOfWork::stored(&found.workspace.repo_home, found.state.start.as_ref()),
        proof: found.state.goal.as_ref().and_then(|goal| goal.proof),
        ..case
    }
}

/// The way to the goal beyond the gates: the agent commits, pushes and opens, ralph merges.
fn shipping_of_loop(
    found: &SessionLoop,
    effective: &EffectiveGates,
) -> Option<Result<Shipping, EvaluationError>> {
    let workspace = &found.workspace;
    Shipping::new(ShippingOptions {
        goal: found.state.goal.as_ref()?,
        by: ShippedBy::Agent,
        root: &workspace.repo.root,
        scratch: workspace.repo_home.dir(),
        logs: workspace.repo_home.loop_dir(&found.id).join("logs"),
        secrets: GateEnvironment::new(&workspace.settings().user.keep_env, &workspace.repo).secrets,
        has_gates: effective.has_gates(),
        gates: Vec::new(),
        stop: &StopRequest::new(),
    })
}

/// Archives the change once it is verified, if requested.
fn archive(repo: &Repo, goal: &Goal) -> Option<String> {
    let change = goal.list.as_ref().filter(|_| goal.archive)?.change.as_ref()?;
    Some(match openspec::archive(&repo.root, change, &env::all().collect::<Vec<_>>()) {
        Ok(place) => format!("openspec: {change} → {place}"),
        Err(error) => format!("openspec: {change}: {error}"),
    })
}

impl SessionEvent<'_> {
    /// Judges a session; `None` if the user paused or cancelled the loop meanwhile, or the client no longer waits.
    pub(crate) fn judge_session(&self, case: &JudgeCase<'_>) -> Result<Option<Judged>, NotChecked> {
        let mut ahead = RunNotice {
            home: self.home,
            session: self.session,
            agent: Subject::Session.name(),
            ledger: case.workspace.repo_home.loop_dir(&case.loop_id),
            written: false,
        };
        let judged =
            case.judge(&crate::loops::session::event::judge_options(self.call, self.deadline), &mut ahead);
        // The client's timeout, or the user pressed Esc: the stop went through.
        let cut_off = match &judged {
            Err(EngineError::Interrupted(signal)) => {
                Some(feedback::cut_off(case.subject.name(), &format!("signal {signal}")))
            }
            _ => None,
        };
        ahead.end(cut_off.as_ref());
        match judged {
            Ok(outcome) => Ok(Some(outcome)),
            Err(EngineError::Freed | EngineError::Interrupted(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// A reply preceded by a line for the user.
fn with_line(line: Option<String>, reply: HookReply) -> HookReply {
    let Some(line) = line else { return reply };
    let with = |own: Option<String>| Some(own.map_or(line.clone(), |own| format!("{line}\n{own}")));
    match reply {
        HookReply::Notify { user, agent } => HookReply::Notify { user: with(user), agent },
        HookReply::Block { reason, detail, user } => HookReply::Block { reason, detail, user: with(user) },
        HookReply::Silent => notify_user(line),
        other => other,
    }
}

/// The user's notice when a stop is allowed because something else has to finish first.
pub(crate) fn waiting_line(what: &str) -> String {
    format!("ralph: stop allowed while waiting for {what}; gates not run. UNVERIFIED.")
}

pub(crate) fn already_judged_notice(verdict: Verdict) -> String {
    format!(
        "ralph: a stop of this turn was already judged ({verdict}), so this one was not checked. If you did not see that, it was \
         not requested by your client: UNVERIFIED."
    )
}

pub(crate) fn notify_user(user: String) -> HookReply {
    HookReply::Notify { user: Some(user), agent: None }
}

/// The preset that the loop began with.
pub(crate) fn preset_of(found: &SessionLoop) -> &'static Preset {
    let name = found.state.preset.as_deref();
    preset::ALL.into_iter().find(|row| Some(row.name) == name).unwrap_or(&preset::SESSION)
}

/// The task list of a loop, if it has one.
pub(crate) fn tasks_of(found: &SessionLoop) -> Option<TasksSeen> {
    let list = found.state.goal.as_ref()?.list.as_ref()?;
    Some(tasks::read(&found.workspace.repo.root, list))
}
