//! The session itself stops: may it? Its loop says so, where it carries one; else the guard, where there is one.

use std::io;
use std::path::Path;

use ralph_core::claims::loop_file::LoopFile;
use ralph_core::claims::promise::{self, Promise};
use ralph_core::clients::hook::{BackgroundWork, HookReply};
use ralph_core::ledger::decide::Decision;
use ralph_core::ledger::event::{CancelCause, Subject};
use ralph_core::ledger::facts::SessionStop;
use ralph_core::ledger::state::Status;
use ralph_core::ledger::transition::Happening;
use ralph_core::model::finding::TasksSeen;
use ralph_core::model::goal::Goal;
use ralph_core::model::language::Lang;
use ralph_core::model::layout::Layout;
use ralph_core::model::preset::{self, Preset};
use ralph_core::model::promise_seen::PromiseSeen;
use ralph_core::model::verdict::Verdict;
use ralph_core::say::feedback;
use ralph_core::say::lang::fill;

use crate::checks::{openspec, tasks};
use crate::loops::judge::{Case, EngineError, Outcome};
use crate::loops::session::SessionLoop;
use crate::loops::session::event::{NotChecked, SessionEvent, WriteAhead};
use crate::loops::session::user::on_lines_of_its_own;
use crate::show::language;
use crate::store::effective_gates::{Found, InForce};
use crate::store::exports::loop_file::{self, OnDisk};
use crate::store::notices;
use crate::store::repo::Repo;
use crate::store::sessions::{self, EndedAtStop};
use crate::store::trust::Beginning;
use crate::sys::{env, files};

impl SessionEvent<'_> {
    pub(crate) fn session_stops(&self, background: &[BackgroundWork]) -> Result<HookReply, NotChecked> {
        match self.loop_of_session()? {
            Some(found) if found.state.is_running() => {
                let background: Vec<_> =
                    self.queued_cancel().into_iter().chain(background.to_vec()).collect();
                LoopStop { door: self, found, background: &background }.answer()
            }
            Some(found) => {
                let freed = self.freed(&found)?;
                Ok(beside(freed, self.guarded_session_stops(background)?))
            }
            None => {
                let again = self.second_stop_of_a_turn()?;
                Ok(beside(again, self.guarded_session_stops(background)?))
            }
        }
    }

    /// A turn has one stop that is allowed. A second one after the loop ended means that the first was not the client's, or
    /// that another hook blocked it.
    fn second_stop_of_a_turn(&self) -> Result<Option<String>, NotChecked> {
        let Some(ended) = sessions::ended_at_stop(self.home, self.session)? else { return Ok(None) };
        if ended.turn.is_some() && ended.turn == self.call.prompt {
            return Ok(Some(judged_before(ended.verdict)));
        }
        sessions::forget_end(self.home, self.session)?;
        Ok(None)
    }

    /// What the user reads at a stop that a loop does not block any more, though no stop of this session ended it.
    fn freed(&self, found: &SessionLoop) -> Result<Option<String>, NotChecked> {
        if found.is_open() {
            return Ok(Some(language::telling(&found.state, None).is_here()));
        }
        let Status::Ended { verdict } = found.state.status else { return Ok(None) };
        let words = language::of_loop(&found.state).words();
        let line = fill(words.ended_outside_a_stop, &[("loop", &found.id), ("verdict", &verdict)]);
        let first = notices::say_once(self.home, self.session, &line)?;
        Ok(first.then(|| format!("ralph: {line}")))
    }

    /// The client keeps the person's command for the end of the turn, so the turn may end. Anybody can write that into a
    /// transcript: it is told, and excuses no more stops than other work that is waited for.
    fn queued_cancel(&self) -> Option<BackgroundWork> {
        let typed = (self.client.transcript.queued_cancel)(&self.transcript())?;
        Some(BackgroundWork { id: format!("queued {typed}"), what: "/cancel-ralph".into() })
    }

    /// The loop that this session carries; one that the official plugin started is taken up.
    fn loop_of_session(&self) -> Result<Option<SessionLoop>, NotChecked> {
        let bound = SessionLoop::settle_stopping(self.home, self.session)?;
        if bound.as_ref().is_some_and(SessionLoop::is_open) {
            return Ok(bound);
        }
        // The file that leads to it may be gone, or lead elsewhere.
        if let Some(workspace) = self.known_workspace()?
            && let Some(found) = SessionLoop::find_open(&workspace, self.session)?
        {
            return Ok(Some(found));
        }
        if bound.is_some() {
            return Ok(bound);
        }
        if let Some(binding) = sessions::binding(self.home, self.session)? {
            let id = binding.id;
            return Err(NotChecked(format!(
                "the loop `{id}` of this session cannot be read or is another's"
            )));
        }
        let there = self.folder().is_some_and(|folder| folder.join(loop_file::PATH).is_file());
        // Anybody can write such a file; a loop with a lower limit would take the place of the guard.
        if !there || self.is_guarded()? {
            return Ok(None);
        }
        match self.adopt()? {
            None if self.file_names_this_session()? => {
                let what = "names a loop of this session, of which no record is left";
                Err(NotChecked(format!("{} {what}", loop_file::PATH)))
            }
            adopted => Ok(adopted),
        }
    }

    fn file_names_this_session(&self) -> Result<bool, NotChecked> {
        let Some(folder) = self.folder() else { return Ok(false) };
        let text = files::read_foreign(&folder.join(loop_file::PATH))?.unwrap_or_default();
        let file = LoopFile::parse(&String::from_utf8_lossy(&text));
        let names_us =
            |file: &LoopFile| file.active && file.session_id.as_deref() == Some(self.session.as_str());
        Ok(file.as_ref().is_some_and(names_us))
    }

    /// Takes up a loop that the official plugin started in this very session.
    fn adopt(&self) -> Result<Option<SessionLoop>, NotChecked> {
        self.with_start(|start| {
            let file = OnDisk::new(&start.workspace.repo_home, &start.workspace.repo.root).foreign();
            let ours = |file: &LoopFile| file.session_id.as_deref() == Some(self.session.as_str());
            Ok(file.filter(ours).map(|file| start.adopt(&file)).transpose()?)
        })
    }

    /// What bounds the holds of a session, whoever holds it.
    pub(crate) fn session_stop(&self, background: &[BackgroundWork]) -> SessionStop {
        SessionStop {
            tool_call: (self.client.transcript.last_tool_call)(&self.transcript()),
            background: background.to_vec(),
            block_cap: self.client.block_cap_here(),
            ..SessionStop::default()
        }
    }

    /// The end of what the client wrote down; all of it can be very long.
    fn transcript(&self) -> Vec<u8> {
        let path = self.call.transcript.as_deref().map(Path::new);
        path.and_then(|path| crate::sys::files::end_of(path, LONGEST_TAIL).ok()).unwrap_or_default()
    }
}

const LONGEST_TAIL: u64 = 256 << 10;

/// A stop of a session that carries a loop.
struct LoopStop<'a> {
    door: &'a SessionEvent<'a>,
    found: SessionLoop,
    background: &'a [BackgroundWork],
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
        let in_force = gates_of_loop(&self.found)?;
        let judged = self.judge(&in_force, stop.clone())?;
        // Gates take their time, and a person may have deleted the file meanwhile.
        if let Some(cancelled) = self.cancelled_by_deletion(&stop)? {
            return Ok(cancelled);
        }
        self.remember_end(judged.as_ref());
        self.found.settle()?;
        match judged {
            Some(outcome) if !matches!(outcome.decision, Decision::Ignore(_)) => {
                self.reply(&goal, &stop, &outcome)
            }
            // Freed while its gates ran, by whoever did that.
            _ => Ok(self.door.freed(&self.found)?.map_or(HookReply::Silent, tell)),
        }
    }

    /// For a second stop of the same turn. Before everything else says that the loop is over: whoever is killed here leaves a
    /// loop that its session is still led to.
    fn remember_end(&self, judged: Option<&Outcome>) {
        if let Some(Decision::LetGo { verdict, .. }) = judged.map(|outcome| &outcome.decision) {
            let ended = EndedAtStop { verdict: *verdict, turn: self.door.call.prompt.clone() };
            let _the_verdict_holds = sessions::remember_end(self.door.home, self.door.session, &ended);
        }
    }

    fn session_stop(&self, goal: &Goal) -> SessionStop {
        let promise = goal.promise.as_deref().and_then(Promise::new);
        SessionStop {
            promise: promise.map(|promise| promise::look(&promise, &self.door.call.last_message)),
            tasks: goal.list.as_ref().map(|list| tasks::read(&self.found.workspace.repo.root, list)),
            ..self.door.session_stop(self.background)
        }
    }

    /// Deleting the loop's file cancels it. Where the message holds the promise it was the official plugin that took the
    /// file away: a claim, and no wish of the person's.
    fn cancelled_by_deletion(&mut self, stop: &SessionStop) -> Result<Option<HookReply>, NotChecked> {
        if stop.promise == Some(PromiseSeen::Given) || self.look_at_file() != loop_file::Seen::Deleted {
            return Ok(None);
        }
        if !self.found.happen(&Happening::Cancel(CancelCause::FileDeleted))? {
            return Ok(None);
        }
        let cancelled = stop.telling(&self.found.state, self.lang()).cancelled();
        let cancelled = self.found.with_lost_report(cancelled);
        self.found.settle()?;
        // A guard that was there before the loop is there after it.
        Ok(Some(beside(Some(cancelled), self.door.guarded_session_stops(self.background)?)))
    }

    fn look_at_file(&self) -> loop_file::Seen {
        OnDisk::new(&self.found.workspace.repo_home, &self.found.workspace.repo.root).look(&self.found.id)
    }

    fn note_edited_file(&self) -> Result<(), NotChecked> {
        if let loop_file::Seen::Edited(found) = self.look_at_file() {
            self.found.note_edited_file(found)?;
        }
        Ok(())
    }

    /// None where a person freed the session meanwhile, or nobody listens any more.
    fn judge(&self, in_force: &InForce, stop: SessionStop) -> Result<Option<Outcome>, NotChecked> {
        self.door.judge_session(&case_of_loop(&self.found, in_force, stop))
    }

    fn reply(&self, goal: &Goal, stop: &SessionStop, outcome: &Outcome) -> Result<HookReply, NotChecked> {
        let telling = stop.telling(&self.found.state, self.lang());
        match &outcome.decision {
            Decision::Hold { attempt, reason } => {
                let told = feedback::for_held(&outcome.facts, &outcome.before, *attempt, reason);
                let person = Some(telling.running(reason));
                Ok(HookReply::Block { reason: told.reason, detail: told.detail, person })
            }
            Decision::LetGo { verdict, reason, limit, .. } => {
                let archived = match verdict {
                    Verdict::Verified | Verdict::Claimed => archive(&self.found.workspace.repo, goal),
                    _ => None,
                };
                let banner = on_lines_of_its_own(&telling.let_go(*verdict, reason, *limit));
                // At a limit the person is asked, in words of its own.
                let asks = *verdict == Verdict::Paused;
                let banner =
                    if asks { self.found.with_lost_report(banner) } else { self.found.with_report(banner) };
                Ok(tell(archived.map_or(banner.clone(), |archived| format!("{banner}\n{archived}"))))
            }
            Decision::Wait { what, .. } => Ok(tell(telling.waiting(what))),
            Decision::Gather | Decision::Ignore(_) => Ok(HookReply::Silent),
        }
    }

    fn lang(&self) -> Lang {
        language::of_loop(&self.found.state)
    }
}

/// The gates that hold for a session's loop. Nobody gets rid of those it began with.
pub(crate) fn gates_of_loop(found: &SessionLoop) -> io::Result<InForce> {
    let beginning = Beginning::of_loop(Some(&found.state));
    let began_with = found.state.definition.clone();
    let now = found.workspace.gates_for(found.state.session.as_ref(), beginning)?;
    Ok(match (now, began_with) {
        (Found::InForce(in_force), _) => *in_force,
        (_, Some(sha256)) => InForce::revoked(found.state.layout.unwrap_or(Layout::Native), Some(sha256)),
        (_, None) => InForce::nothing(),
    })
}

/// A session's loop, ready to be judged.
pub(crate) fn case_of_loop<'a>(found: &'a SessionLoop, in_force: &'a InForce, stop: SessionStop) -> Case<'a> {
    let (id, preset) = (found.id.clone(), preset_of(found));
    let case = Case::new(&found.workspace, in_force, id, Subject::Session, preset);
    Case {
        session: found.state.session.clone(),
        limits: found.state.limits.clone().unwrap_or_else(|| case.limits.clone()),
        session_stop: Some(stop),
        ..case
    }
}

/// The change moves to the archive once all of it is done and that has been checked, where that was asked for.
fn archive(repo: &Repo, goal: &Goal) -> Option<String> {
    let change = goal.list.as_ref().filter(|_| goal.archive)?.change.as_ref()?;
    Some(match openspec::archive(&repo.root, change, &env::all().collect::<Vec<_>>()) {
        Ok(place) => format!("openspec: {change} → {place}"),
        Err(error) => format!("openspec: {change}: {error}"),
    })
}

impl SessionEvent<'_> {
    /// Judges a session; none where a person freed it meanwhile, or nobody listens any more.
    pub(crate) fn judge_session(&self, case: &Case<'_>) -> Result<Option<Outcome>, NotChecked> {
        let mut ahead = WriteAhead {
            home: self.home,
            session: self.session,
            agent: Subject::Session.name(),
            ledger: case.workspace.repo_home.loop_dir(&case.loop_id),
            written: false,
        };
        let judged = case.judge(&crate::loops::session::event::asked(self.call, self.deadline), &mut ahead);
        if ahead.written {
            notices::gates_end(self.home, self.session)?;
        }
        match judged {
            Ok(outcome) => Ok(Some(outcome)),
            Err(EngineError::Freed) => Ok(None),
            // The client's time-out, or the person pressed Esc: the stop went through.
            Err(EngineError::Interrupted(signal)) => {
                let notice = feedback::cut_off(case.subject.name(), &format!("signal {signal}"));
                notices::leave(self.home, self.session, &notice)?;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// An answer with a line for the person before it.
fn beside(line: Option<String>, reply: HookReply) -> HookReply {
    let Some(line) = line else { return reply };
    let with = |own: Option<String>| Some(own.map_or(line.clone(), |own| format!("{line}\n{own}")));
    match reply {
        HookReply::Tell { person, agent } => HookReply::Tell { person: with(person), agent },
        HookReply::Block { reason, detail, person } => {
            HookReply::Block { reason, detail, person: with(person) }
        }
        HookReply::Silent => tell(line),
        other => other,
    }
}

/// What is said where a stop of this turn was allowed before.
/// What the user reads where a stop is allowed because something outside has to happen first.
pub(crate) fn waits(what: &str) -> String {
    format!("ralph: the stop is allowed while {what} is waited for; nothing was judged. UNVERIFIED.")
}

pub(crate) fn judged_before(verdict: Verdict) -> String {
    format!(
        "ralph: a stop of this turn was judged before ({verdict}), so this one was not checked. If you did not see that, it was \
         not your client that asked: UNVERIFIED."
    )
}

pub(crate) fn tell(person: String) -> HookReply {
    HookReply::Tell { person: Some(person), agent: None }
}

/// The row that the loop began with.
fn preset_of(found: &SessionLoop) -> &'static Preset {
    let name = found.state.preset.as_deref();
    preset::ALL.into_iter().find(|row| Some(row.name) == name).unwrap_or(&preset::SESSION)
}

/// The task list of a loop, where it has one.
pub(crate) fn tasks_of(found: &SessionLoop) -> Option<TasksSeen> {
    let list = found.state.goal.as_ref()?.list.as_ref()?;
    Some(tasks::read(&found.workspace.repo.root, list))
}
