//! The always-on guard: a session that changed the tree since the person's last prompt is judged by the gates when it
//! stops. A session that only talked is not, nor are the person's own edits.

use ralph_core::completion_marker;
use ralph_core::config::Guard;
use ralph_core::decide::Decision;
use ralph_core::facts::{BackgroundWork, SessionStop};
use ralph_core::feedback;
use ralph_core::id::{Digest, LoopId};
use ralph_core::ledger::event::{FailureMark, Subject};
use ralph_core::life::{Happening, happen};
use ralph_core::preset;
use ralph_core::state::State;
use ralph_core::telling;
use ralph_core::verdict::Reason;
use ralph_core::wire::HookReply;

use super::stop::tell;
use super::{Door, LetThrough};
use crate::definition::{Found, InForce, Settings};
use crate::engine::{self, Case, Outcome};
use crate::home::RepoHome;
use crate::repo::Repo;
use crate::sessions::{self, Watched};
use crate::trust::Trust;
use crate::{ancestry, language, ledger, loops, session_notices};

/// Tools that only look. Whatever is not among them may have written something.
const READS_ONLY: [&str; 20] = [
    "Read",
    "Glob",
    "Grep",
    "LS",
    "LSP",
    "WebFetch",
    "WebSearch",
    "TodoWrite",
    "Agent",
    "Task",
    "TaskOutput",
    "AskUserQuestion",
    "EnterPlanMode",
    "ExitPlanMode",
    "Skill",
    "ToolSearch",
    "TaskCreate",
    "TaskUpdate",
    "TaskList",
    "TaskGet",
];

/// How many loops of a repo are asked what they know of a tree, the ones last active first.
const MOST_LOOKED_AT: usize = 20;

/// A repo whose sessions are guarded.
pub(super) struct Guarded {
    pub(super) repo: Repo,
    pub(super) repo_home: RepoHome,
    trust: Trust,
}

/// What guards a session.
enum Guards {
    Definition(Box<InForce>),
    /// It was taken back.
    Revoked,
    /// Nothing that counts does.
    Nothing,
}

impl Guarded {
    fn by(&self, door: &Door<'_>, settings: &Settings, state: &State) -> Result<Guards, LetThrough> {
        let held = Some(state).filter(|state| state.is_running());
        let whose = (Some(door.session), held);
        Ok(match Found::look_for(door.home, &self.trust, &self.repo, whose, &settings.defaults())? {
            Found::InForce(it) if it.config.enabled && it.config.guard.holds_session() => {
                Guards::Definition(it)
            }
            Found::Revoked => Guards::Revoked,
            Found::InForce(_) | Found::Untrusted(_) | Found::Nothing => Guards::Nothing,
        })
    }

    /// Whether there is a guard for this session now.
    fn holds(&self, door: &Door<'_>) -> Result<bool, LetThrough> {
        let state = ledger::state(&self.repo_home.loop_dir(&guard_id(door.session)))?;
        let guards = self.by(door, &Settings::load_or_trouble(None), &state)?;
        Ok(matches!(guards, Guards::Definition(_)))
    }
}

impl Door<'_> {
    /// The repo of this session, where some accepted definition guards sessions. One look at the file of what was
    /// accepted tells most of them that none does.
    pub(super) fn guarded(&self) -> Result<Option<Guarded>, LetThrough> {
        let text = Trust::read(self.home)?;
        if !text.may_guard_sessions() {
            return Ok(None);
        }
        let trust = text.parse()?;
        // Where it was watched it stays guarded, wherever the agent goes and whatever it moves.
        let repo = match (sessions::watched(self.home, self.session)?, self.folder()) {
            (Some(watched), _) => Some(Repo::known(&watched.root)),
            (None, Some(folder)) => Repo::find(&folder, &trust)?,
            (None, None) => None,
        };
        let Some(repo) = repo else { return Ok(None) };
        let repo_home = self.home.repo(&repo.id());
        Ok(trust.ever_held(&repo, Guard::holds_session).then_some(Guarded { repo, repo_home, trust }))
    }

    pub(super) fn is_guarded(&self) -> Result<bool, LetThrough> {
        self.guarded()?.map_or(Ok(false), |guarded| guarded.holds(self))
    }

    /// The person asked for something: from here on it is told whether the agent writes. Words typed into a running turn
    /// carry that turn's number and change nothing.
    pub(super) fn watch_from_here(&self) -> Result<(), LetThrough> {
        let Some(guarded) = self.guarded()? else { return Ok(()) };
        let known = sessions::watched(self.home, self.session)?;
        if known.is_some_and(|known| self.call.prompt.as_ref().is_some_and(|turn| known.knows(turn))) {
            return Ok(());
        }
        if !guarded.holds(self)? {
            return Ok(sessions::unwatch(self.home, self.session)?);
        }
        guarded.repo_home.create()?;
        let tree = engine::tree_reader(&guarded.repo, &guarded.repo_home).read()?;
        let watched = Watched {
            session: self.session.clone(),
            root: guarded.repo.root,
            prompt: self.call.prompt.clone(),
            notified: Vec::new(),
            tree: tree.hash().to_owned(),
            wrote: false,
            client: ancestry::client_of_hook(),
        };
        Ok(sessions::watch(self.home, &watched)?)
    }

    /// The client told the session something, which made a turn with a number of its own and is no prompt.
    pub(super) fn note_notification(&self) -> Result<(), LetThrough> {
        let (Some(turn), Some(mut watched)) =
            (&self.call.prompt, sessions::watched(self.home, self.session)?)
        else {
            return Ok(());
        };
        if watched.knows(turn) {
            return Ok(());
        }
        watched.note_notification(turn.clone());
        Ok(sessions::watch(self.home, &watched)?)
    }

    /// What is known of this session, in the turn that this event is part of. A turn that nothing announced is that of a
    /// prompt which the person typed into the one before. Sub-agents go on in the turn that started them.
    fn watched_in_this_turn(&self) -> Result<Option<Watched>, LetThrough> {
        let Some(mut watched) = sessions::watched(self.home, self.session)? else { return Ok(None) };
        if let (Some(turn), None) = (&self.call.prompt, &self.call.agent)
            && !watched.knows(turn)
        {
            watched.prompt = Some(turn.clone());
            watched.notified.clear();
            sessions::watch(self.home, &watched)?;
        }
        Ok(Some(watched))
    }

    /// A tool ran that may have written.
    pub(super) fn note_writing(&self, tool: &str) -> Result<(), LetThrough> {
        // Who plans does not write; what was written before that counts.
        if READS_ONLY.contains(&tool) || self.call.is_planning {
            return Ok(());
        }
        match self.watched_in_this_turn()? {
            Some(watched) if !watched.wrote => {
                Ok(sessions::watch(self.home, &Watched { wrote: true, ..watched })?)
            }
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn guarded_session_stops(
        &self,
        background: &[BackgroundWork],
    ) -> Result<HookReply, LetThrough> {
        let Some(watched) = self.watched_in_this_turn()? else { return Ok(HookReply::Silent) };
        if !watched.wrote {
            return Ok(HookReply::Silent);
        }
        let Some(guarded) = self.guarded()? else { return Ok(HookReply::Silent) };
        GuardedStop { door: self, guarded, watched, background }.answer()
    }

    /// Frees or holds again a guarded session; whether that made a difference is told.
    pub(super) fn guard_happens(&self, happening: &Happening) -> Result<bool, LetThrough> {
        let Some(guarded) = self.guarded()? else { return Ok(false) };
        if !guarded.holds(self)? {
            return Ok(false);
        }
        let dir = guarded.repo_home.loop_dir(&guard_id(self.session));
        Ok(loops::append(&guarded.repo_home, &dir, |state| happen(state, happening))?.1)
    }
}

/// One loop for the guard of each session.
pub(crate) fn guard_id(session: &ralph_core::id::SessionId) -> LoopId {
    LoopId::new(format!("guard-{}", Digest::of(session.as_str()).short()))
}

struct GuardedStop<'a> {
    door: &'a Door<'a>,
    guarded: Guarded,
    watched: Watched,
    background: &'a [BackgroundWork],
}

impl GuardedStop<'_> {
    fn answer(mut self) -> Result<HookReply, LetThrough> {
        let (repo, repo_home) = (&self.guarded.repo, &self.guarded.repo_home);
        let state = ledger::state(&repo_home.loop_dir(&guard_id(self.door.session)))?;
        let settings = Settings::load_or_trouble(self.door.options.gate_timeout.as_deref());
        // A tree that cannot be read has not stood still: the judgement says what is wrong with it.
        let tree = engine::tree_reader(repo, repo_home).read();
        if tree.is_ok_and(|tree| tree.hash() == self.watched.tree) {
            return Ok(HookReply::Silent);
        }
        // Who plans cannot mend anything, so nobody is held; but an agent can go into plan mode by itself.
        if self.door.call.is_planning {
            return Ok(tell(format!(
                "ralph: what was changed in {} was not judged: the session is in plan mode. UNVERIFIED.",
                repo.root.display()
            )));
        }
        let in_force = match self.guarded.by(self.door, &settings, &state)? {
            Guards::Definition(in_force) => *in_force,
            Guards::Nothing => return Ok(HookReply::Silent),
            Guards::Revoked => match what_it_was_held_by(&state) {
                Some(in_force) => in_force,
                None => return self.was_taken_back(),
            },
        };
        let case = Case {
            repo,
            home: repo_home,
            settings: &settings,
            in_force: &in_force,
            loop_id: guard_id(self.door.session),
            subject: Subject::Session,
            session: Some(self.door.session.clone()),
            task: None,
            preset: &preset::CHECK,
            limits: settings.limits(in_force.layout, &in_force.config.budget),
            is_part: false,
            // Where trust was taken back no gate is known any more: something must be left to hold by.
            markers: vec![completion_marker::ALL_CHECKS.into()],
            head: None,
            session_stop: Some(self.session_stop()?),
            since: None,
        };
        match self.door.judge_session(&case)? {
            Some(outcome) => self.reply(&outcome),
            None => Ok(HookReply::Silent),
        }
    }

    /// It was guarded when the person asked, and nobody looked at what came of it.
    fn was_taken_back(&self) -> Result<HookReply, LetThrough> {
        sessions::unwatch(self.door.home, self.door.session)?;
        Ok(tell(format!(
            "ralph: the session was not held: trust in the gates of {} was taken back meanwhile. UNVERIFIED.",
            self.guarded.repo.root.display()
        )))
    }

    fn session_stop(&self) -> Result<SessionStop, LetThrough> {
        let prompt = self.watched.prompt.clone();
        let red_before = self.red_before()?;
        Ok(SessionStop { prompt, red_before, ..self.door.session_stop(self.background) })
    }

    /// What is known to have failed on the tree that the prompt found: by an earlier stop of whoever works here, or by
    /// `ralph verify`.
    fn red_before(&self) -> Result<Vec<FailureMark>, LetThrough> {
        let repo_home = &self.guarded.repo_home;
        for id in repo_home.loops().into_iter().take(MOST_LOOKED_AT) {
            let red = ledger::state(&repo_home.loop_dir(&id))?.red;
            if let Some(red) = red.filter(|red| red.tree.as_str() == self.watched.tree) {
                return Ok(red.failures);
            }
        }
        Ok(Vec::new())
    }

    fn reply(&mut self, outcome: &Outcome) -> Result<HookReply, LetThrough> {
        match &outcome.decision {
            Decision::Hold { attempt, reason } => {
                let told = feedback::for_held(&outcome.facts, &outcome.before, *attempt, reason);
                let person =
                    Some(telling::guard_holds(&outcome.facts, *attempt, reason, language::of_person()));
                Ok(HookReply::Block { reason: told.reason, detail: told.detail, person })
            }
            Decision::LetGo { reason, .. } => {
                self.start_over(outcome)?;
                let line = telling::guard_lets_go(&outcome.decision, language::of_person());
                match reason {
                    Reason::RedBefore { .. } if !self.is_first_time(&line)? => Ok(HookReply::Silent),
                    _ => Ok(tell(line)),
                }
            }
            Decision::Wait { .. } | Decision::Gather | Decision::Ignore(_) => Ok(HookReply::Silent),
        }
    }

    fn is_first_time(&self, line: &str) -> Result<bool, LetThrough> {
        Ok(session_notices::say_once(self.door.home, self.door.session, line)?)
    }

    /// What was judged now is what the next stop starts from.
    fn start_over(&mut self, outcome: &Outcome) -> Result<(), LetThrough> {
        if let Some(ralph_core::facts::Evidence::Gates(seen)) = &outcome.facts.evidence {
            self.watched.tree = seen.tree.to_string();
        }
        self.watched.wrote = false;
        Ok(sessions::watch(self.door.home, &self.watched)?)
    }
}

/// Taking trust back frees nobody who is being held. No gate is known any more, so none is run.
fn what_it_was_held_by(state: &State) -> Option<InForce> {
    let held = Some(state).filter(|state| state.is_running())?;
    Some(InForce::revoked(held.layout?, held.definition.clone()?))
}
