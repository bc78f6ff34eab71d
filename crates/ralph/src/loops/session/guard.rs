//! The always-on guard: a session that changed the tree since the person's last prompt is judged by the gates when it
//! stops. A session that only talked is not, nor are the person's own edits.

use ralph_core::claims::completion_marker;
use ralph_core::clients::hook::{BackgroundWork, HookReply};
use ralph_core::config::Guard;
use ralph_core::ledger::decide::{Decision, Ignored};
use ralph_core::ledger::event::{Event, FailureMark, PauseCause, Subject};
use ralph_core::ledger::facts::SessionStop;
use ralph_core::ledger::state::{State, Status};
use ralph_core::ledger::transition::{Happening, happen};
use ralph_core::model::id::{Digest, LoopId, TreeHash};
use ralph_core::model::preset;
use ralph_core::model::verdict::Reason;
use ralph_core::say::lang::fill;
use ralph_core::say::{feedback, telling};

use crate::clients::client::ToolKind;
use crate::loops::judge::{self, Case, Outcome};
use crate::loops::session::event::{NotChecked, SessionEvent};
use crate::loops::session::stop::{judged_before, tell, waits};
use crate::show::language;
use crate::store::acceptance::Beginning;
use crate::store::effective_gates::{self, Found, InForce};
use crate::store::ledger::{self, Loop};
use crate::store::repo::{ConfigFile, Repo};
use crate::store::sessions::{self, Watched};
use crate::store::settings::Settings;
use crate::store::trust::Trust;
use crate::store::workspace::Workspace;
use crate::store::{notices, rewritten_files};
use crate::sys::clock;
use crate::work_tree::fingerprint::TreeMemory;

/// How many loops of a repo are asked what they know of a tree, the ones last active first.
const MOST_LOOKED_AT: usize = 20;

/// A repo whose sessions are guarded.
pub(crate) struct Guarded {
    pub(crate) workspace: Workspace,
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
    /// What the ledger of this session's guard says.
    fn state(&self, door: &SessionEvent<'_>) -> Result<State, NotChecked> {
        Ok(self.workspace.state_of(&guard_id(door.session))?)
    }

    fn by(&self, door: &SessionEvent<'_>, state: &State) -> Result<Guards, NotChecked> {
        let beginning = match &state.watch {
            _ if state.is_running() => Beginning::of_loop(Some(state)),
            Some(watch) => Beginning::Session(&watch.accepted),
            None => Beginning::Unknown,
        };
        Ok(match self.workspace.gates_for(Some(door.session), beginning)? {
            Found::InForce(it) if it.config.enabled && it.config.guard.holds_session() => {
                Guards::Definition(it)
            }
            Found::Revoked => Guards::Revoked,
            Found::InForce(_) | Found::Untrusted(_) | Found::Nothing => Guards::Nothing,
        })
    }

    /// What is known to fail on the tree that the first prompt of a session finds: what is recorded later does not count.
    fn known_failures(
        &self,
        door: &SessionEvent<'_>,
        tree: &TreeHash,
    ) -> Result<Vec<FailureMark>, NotChecked> {
        if self.state(door)?.watch.is_some() {
            return Ok(Vec::new());
        }
        let by_agent = ledger::agents_plain_loop();
        let others =
            self.workspace.repo_home.loops().into_iter().filter(|id| *id != by_agent).take(MOST_LOOKED_AT);
        for id in others {
            let red = self.workspace.state_of(&id)?.red;
            if let Some(red) = red.filter(|red| red.tree == *tree) {
                return Ok(red.failures);
            }
        }
        Ok(Vec::new())
    }

    /// Whether there is a guard for this session now.
    fn holds(&self, door: &SessionEvent<'_>) -> Result<bool, NotChecked> {
        let guards = self.by(door, &self.state(door)?)?;
        Ok(matches!(guards, Guards::Definition(_)))
    }
}

impl SessionEvent<'_> {
    /// The repo of this session, where some accepted definition guards sessions. One look at the file of what was
    /// accepted tells most of them that none does.
    pub(crate) fn guarded(&self) -> Result<Option<Guarded>, NotChecked> {
        let text = Trust::read(self.home)?;
        if !text.may_guard_sessions() {
            return Ok(None);
        }
        let trust = text.parse()?;
        // Where it was watched it stays guarded, wherever the agent goes and whatever it moves.
        let watched = sessions::watched(self.home, self.session)?.map(|watched| Repo::known(&watched.root));
        let is_guarded = |repo: &Repo| trust.ever_held(repo, Guard::holds_session);
        let repo = match (watched.filter(is_guarded), self.folder()) {
            (Some(repo), _) => Some(repo),
            (None, Some(folder)) => trust.repo_of(&folder)?.filter(is_guarded),
            (None, None) => None,
        };
        let Some(repo) = repo else { return Ok(None) };
        let workspace = self.with_options(Workspace::new(self.home, repo).with_trust(trust));
        Ok(Some(Guarded { workspace }))
    }

    pub(crate) fn is_guarded(&self) -> Result<bool, NotChecked> {
        self.guarded()?.map_or(Ok(false), |guarded| guarded.holds(self))
    }

    /// The person asked for something: from here on it is told whether the agent writes. Words typed into a running turn
    /// carry that turn's number and change nothing.
    pub(crate) fn watch_from_here(&self) -> Result<(), NotChecked> {
        let Some(guarded) = self.guarded()? else { return Ok(()) };
        let known = sessions::watched(self.home, self.session)?;
        if known.is_some_and(|known| self.call.prompt.as_ref().is_some_and(|turn| known.knows(turn))) {
            return Ok(());
        }
        if !guarded.holds(self)? {
            return Ok(sessions::unwatch(self.home, self.session)?);
        }
        let workspace = &guarded.workspace;
        workspace.repo_home.create()?;
        let memory = TreeMemory::default();
        let tree = judge::tree_reader(workspace).remembering(&memory).read()?;
        let counting = workspace.acceptances_for(Some(self.session), Beginning::Unknown)?.counting;
        let seen = Event::PromptSeen {
            prompt: self.call.prompt.clone(),
            tree: TreeHash::new(tree.hash()),
            accepted: counting.into_iter().map(|acceptance| acceptance.sha256).collect(),
            rewritten: rewritten_files::before(&workspace.repo_home, clock::now()),
            red: guarded.known_failures(self, &TreeHash::new(tree.hash()))?,
        };
        workspace.loop_of(&guard_id(self.session)).append(&[seen])?;
        let watched = Watched {
            session: self.session.clone(),
            root: workspace.repo.root.clone(),
            prompt: self.call.prompt.clone(),
            notified: Vec::new(),
            tree: tree.hash().to_owned(),
            wrote: false,
            client: self.client_process(),
        };
        Ok(sessions::watch(self.home, &watched)?)
    }

    /// The client told the session something, which made a turn with a number of its own and is no prompt.
    pub(crate) fn note_notification(&self) -> Result<(), NotChecked> {
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
    fn watched_in_this_turn(&self) -> Result<Option<Watched>, NotChecked> {
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
    pub(crate) fn note_writing(&self, tool: &str) -> Result<(), NotChecked> {
        // Who plans does not write; what was written before that counts.
        if self.client.tools.kind(tool) != ToolKind::Writes || self.call.is_planning {
            return Ok(());
        }
        match self.watched_in_this_turn()? {
            Some(watched) if !watched.wrote => {
                let repo_home = self.home.repo(&Repo::known(&watched.root).id());
                let wrote = Event::Wrote { tool: tool.to_owned() };
                Loop::new(&repo_home, &guard_id(self.session)).append(&[wrote])?;
                Ok(sessions::watch(self.home, &Watched { wrote: true, ..watched })?)
            }
            Some(_) | None => Ok(()),
        }
    }

    pub(crate) fn guarded_session_stops(
        &self,
        background: &[BackgroundWork],
    ) -> Result<HookReply, NotChecked> {
        let watched = self.watched_in_this_turn()?;
        let Some(guarded) = self.guarded()? else { return self.tell_of_lost_guard() };
        let state = guarded.state(self)?;
        let Some(watched) = watched.or_else(|| self.watched_by_ledger(&guarded, &state)) else {
            return if guarded.holds(self)? {
                self.tell_once(NO_RECORD.to_owned())
            } else {
                Ok(HookReply::Silent)
            };
        };
        GuardedStop { door: self, guarded, state, watched, background }.answer()
    }

    /// What the ledger knows where the file beside it is gone: then the session may have written anything.
    fn watched_by_ledger(&self, guarded: &Guarded, state: &State) -> Option<Watched> {
        let watch = state.watch.as_ref()?;
        Some(Watched {
            session: self.session.clone(),
            root: guarded.workspace.repo.root.clone(),
            prompt: self.call.prompt.clone().or_else(|| watch.prompt.clone()),
            notified: Vec::new(),
            tree: watch.tree.to_string(),
            wrote: true,
            client: None,
        })
    }

    /// The repo asks for its sessions to be guarded, and nothing that was accepted is known: it never was, or what ralph
    /// remembers is gone.
    fn tell_of_lost_guard(&self) -> Result<HookReply, NotChecked> {
        let asks = |file: &ConfigFile| {
            file.text.windows(7).any(|window| window == b"session")
                && effective_gates::parse(
                    file.layout,
                    &file.text,
                    &Settings::load_or_trouble(None).defaults(),
                )
                .is_ok_and(|config| config.enabled && config.guard.holds_session())
        };
        let Some(workspace) = self.workspace()? else { return Ok(HookReply::Silent) };
        let (trust, repo) = (workspace.trust()?, &workspace.repo);
        if workspace.state_of(&guard_id(self.session))?.is_running() {
            return Ok(tell(format!(
                "ralph: this session is blocked by the gates of {}, but what guarded it is gone; this stop was not checked. \
                 UNVERIFIED.",
                repo.root.display()
            )));
        }
        match repo.config() {
            Ok(Some(file)) if asks(&file) && trust.revoked_at(repo).is_none() => self.tell_once(format!(
                "ralph: {} guards sessions, but no accepted guard is known for {}; this stop was not checked. UNVERIFIED. \
                 Look at the gates and accept them with `ralph trust`.",
                file.path,
                repo.root.display()
            )),
            _ => Ok(HookReply::Silent),
        }
    }

    /// Tells the user something that is said once in a session.
    pub(crate) fn tell_once(&self, line: String) -> Result<HookReply, NotChecked> {
        let first = notices::say_once(self.home, self.session, &line)?;
        Ok(if first { tell(line) } else { HookReply::Silent })
    }

    /// Frees or holds again a guarded session; whether that made a difference is told.
    pub(crate) fn guard_happens(&self, happening: &Happening) -> Result<bool, NotChecked> {
        let Some(guarded) = self.guarded()? else { return Ok(false) };
        if !guarded.holds(self)? {
            return Ok(false);
        }
        let guard = guarded.workspace.loop_of(&guard_id(self.session));
        Ok(guard.append_what_follows(|state| happen(state, happening))?.1)
    }
}

/// One loop for the guard of each session.
pub(crate) fn guard_id(session: &ralph_core::model::id::SessionId) -> LoopId {
    LoopId::new(format!("guard-{}", Digest::of(session.as_str()).short()))
}

const NO_RECORD: &str = "ralph: there is no record of this session's prompt, so this stop was not checked. UNVERIFIED. The \
                         next prompt turns the checks on.";

/// What a session left behind since the user's prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// No tool ran that can write.
    Untouched,
    /// One ran, and the tree is as the prompt found it.
    AsFound,
    Changed,
}

struct GuardedStop<'a> {
    door: &'a SessionEvent<'a>,
    guarded: Guarded,
    /// The ledger's word, which counts.
    state: State,
    watched: Watched,
    background: &'a [BackgroundWork],
}

impl GuardedStop<'_> {
    fn answer(mut self) -> Result<HookReply, NotChecked> {
        let left = self.what_it_left();
        match left {
            Left::Untouched => return self.was_not_checked(),
            Left::AsFound if !self.state.is_running() => return Ok(HookReply::Silent),
            // Who was blocked and put everything back is judged, so that the block ends.
            Left::AsFound | Left::Changed => {}
        }
        // Who plans cannot fix anything, so nobody is blocked; but an agent can go into plan mode by itself.
        if self.door.call.is_planning {
            return Ok(tell(format!(
                "ralph: what was changed in {} was not judged: the session is in plan mode. UNVERIFIED.",
                self.guarded.workspace.repo.root.display()
            )));
        }
        let in_force = match self.guarded.by(self.door, &self.state)? {
            Guards::Definition(in_force) => *in_force,
            Guards::Nothing => return Ok(HookReply::Silent),
            Guards::Revoked => match what_it_was_held_by(&self.state) {
                Some(in_force) => in_force,
                None => return self.was_taken_back(),
            },
        };
        let (workspace, id) = (self.guarded.workspace.clone(), guard_id(self.door.session));
        let case = Case::new(&workspace, &in_force, id, Subject::Session, &preset::CHECK);
        let case = Case {
            session: Some(self.door.session.clone()),
            session_began: self.state.watch.as_ref().map(|watch| watch.since),
            // A blocked session keeps the limits it began with.
            limits: self.state.limits.clone().filter(|_| self.state.is_running()).unwrap_or(case.limits),
            // Where trust was revoked no gate is known any more: something must be left to block by.
            markers: vec![completion_marker::ALL_CHECKS.into()],
            session_stop: Some(self.session_stop(left)),
            rewritten: self.state.watch.as_ref().map(|watch| watch.rewritten.clone()),
            ..case
        };
        match self.door.judge_session(&case)? {
            Some(outcome) => self.reply(&outcome),
            None => self.rests(),
        }
    }

    /// What the session left behind, as far as it concerns us.
    fn what_it_left(&self) -> Left {
        let by_ledger = self.state.watch.as_ref();
        if !self.watched.wrote && !by_ledger.is_some_and(|watch| watch.wrote) {
            return Left::Untouched;
        }
        let before = by_ledger.map_or(self.watched.tree.as_str(), |watch| watch.tree.as_str());
        let memory = TreeMemory::default();
        // A tree that cannot be read has not stood still: the judgement says what is wrong with it.
        match judge::tree_reader(&self.guarded.workspace).remembering(&memory).read() {
            Ok(tree) if tree.hash() == before => Left::AsFound,
            Ok(_) | Err(_) => Left::Changed,
        }
    }

    /// No tool that can write ran since the prompt. A session that was blocked before that is not verified by it.
    fn was_not_checked(&self) -> Result<HookReply, NotChecked> {
        let same_turn = self.door.call.prompt.is_some() && self.state.prompt == self.door.call.prompt;
        if let (Status::Ended { verdict }, true) = (&self.state.status, same_turn) {
            return Ok(tell(judged_before(*verdict)));
        }
        let Some(last) = self.state.last.as_ref().filter(|_| self.state.is_running()) else {
            return Ok(HookReply::Silent);
        };
        let guard = self.guarded.workspace.loop_of(&guard_id(self.door.session));
        guard.append(&[Event::Paused { why: PauseCause::Unproven }])?;
        let sentence = telling::sentence(&last.reason, language::of_person());
        Ok(tell(format!(
            "ralph: nothing was written since your prompt, so this stop was not checked. UNVERIFIED. {sentence}"
        )))
    }

    /// The user paused it, or somebody in their name: said at every stop that is not checked for it.
    fn rests(&self) -> Result<HookReply, NotChecked> {
        let state = self.guarded.state(self.door)?;
        let by_user = matches!(state.paused(), Some(PauseCause::Word | PauseCause::Command));
        let Some(since) = state.paused_since().filter(|_| by_user) else { return Ok(HookReply::Silent) };
        let at = since.to_zoned(clock::zone()).strftime("%Y-%m-%d %H:%M:%S").to_string();
        let line = fill(language::of_person().words().guard_rests, &[("at", &at)]);
        Ok(tell(format!("ralph: {line}")))
    }

    /// It was guarded when the person asked, and nobody looked at what came of it.
    fn was_taken_back(&self) -> Result<HookReply, NotChecked> {
        sessions::unwatch(self.door.home, self.door.session)?;
        self.door.tell_once(format!(
            "ralph: the session was not held: trust in the gates of {} was taken back meanwhile. UNVERIFIED.",
            self.guarded.workspace.repo.root.display()
        ))
    }

    fn session_stop(&self, left: Left) -> SessionStop {
        let prompt = self.watched.prompt.clone();
        let (red_before, as_found) = (self.red_before(), left == Left::AsFound);
        SessionStop { prompt, red_before, as_found, ..self.door.session_stop(self.background) }
    }

    /// What is known to have failed on the tree that the prompt found: by an earlier stop of this session, or by anybody
    /// before the session began.
    fn red_before(&self) -> Vec<FailureMark> {
        let Some(watch) = &self.state.watch else { return Vec::new() };
        let known = self.state.red.iter().chain([&watch.red]);
        known.filter(|red| red.tree == watch.found).flat_map(|red| red.failures.clone()).collect()
    }

    fn reply(&mut self, outcome: &Outcome) -> Result<HookReply, NotChecked> {
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
            Decision::Ignore(Ignored::Paused) => self.rests(),
            // The agent waits for its own background work; what a check waits for is said.
            Decision::Wait { until: None, .. } => Ok(HookReply::Silent),
            Decision::Wait { what, .. } => Ok(tell(waits(what))),
            Decision::Gather | Decision::Ignore(_) => Ok(HookReply::Silent),
        }
    }

    fn is_first_time(&self, line: &str) -> Result<bool, NotChecked> {
        Ok(notices::say_once(self.door.home, self.door.session, line)?)
    }

    /// What was judged now is what the next stop starts from.
    fn start_over(&mut self, outcome: &Outcome) -> Result<(), NotChecked> {
        if let Some(seen) = outcome.facts.gates() {
            self.watched.tree = seen.tree.to_string();
        }
        self.watched.wrote = false;
        Ok(sessions::watch(self.door.home, &self.watched)?)
    }
}

/// Taking trust back frees nobody who is being held. No gate is known any more, so none is run.
fn what_it_was_held_by(state: &State) -> Option<InForce> {
    let held = Some(state).filter(|state| state.is_running())?;
    Some(InForce::revoked(held.layout?, Some(held.definition.clone()?)))
}
