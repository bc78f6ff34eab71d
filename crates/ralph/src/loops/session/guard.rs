//! The always-on guard: a session that changed the tree since the user's last prompt is judged by the gates when it stops.
//! Sessions that only talked and the user's own edits are not judged.

use ralph_core::claims::completion_marker;
use ralph_core::clients::hook::{BackgroundWork, HookReply};
use ralph_core::config::Guard;
use ralph_core::ledger::decide::{Decision, IgnoredBecause};
use ralph_core::ledger::event::{Event, FailureMark, PauseCause, Subject};
use ralph_core::ledger::facts::SessionStop;
use ralph_core::ledger::state::{State, Status};
use ralph_core::ledger::transition::{Transition, apply};
use ralph_core::model::id::{Digest, LoopId, TreeHash};
use ralph_core::model::preset;
use ralph_core::model::verdict::Reason;
use ralph_core::say::lang::fill;
use ralph_core::say::{feedback, loop_texts, words};

use crate::clients::client::ToolKind;
use crate::loops::evidence::{self, StartOfWork};
use crate::loops::judge::{self, JudgeCase, Judged};
use crate::loops::session::event::{NotChecked, SessionEvent};
use crate::loops::session::lifecycle::NOT_ACCEPTED;
use crate::loops::session::stop::{already_judged_notice, notify_user, waiting_line};
use crate::show::language;
use crate::store::acceptance::Beginning;
use crate::store::effective_gates::{self, EffectiveGates, GatesLookup};
use crate::store::ledger::{self, Loop};
use crate::store::repo::{ConfigFile, Repo};
use crate::store::sessions::{self, WatchedSession};
use crate::store::settings::Settings;
use crate::store::trust::Trust;
use crate::store::workspace::Workspace;
use crate::store::{notices, rewritten_files};
use crate::sys::clock;
use crate::work_tree::fingerprint::TreeMemory;

/// How many loops of a repo are searched for results on a tree, most recently active first.
const MOST_LOOKED_AT: usize = 20;

/// A repo whose sessions are guarded.
pub(crate) struct GuardedRepo {
    pub(crate) workspace: Workspace,
}

/// What guards a session.
enum SessionGuard {
    Definition(Box<EffectiveGates>),
    /// Trust was revoked.
    Revoked,
    /// No effective guard.
    Nothing,
}

impl GuardedRepo {
    /// The state in the ledger of this session's guard.
    fn state(&self, door: &SessionEvent<'_>) -> Result<State, NotChecked> {
        Ok(self.workspace.state_of(&guard_id(door.session))?)
    }

    fn effective_guard(&self, door: &SessionEvent<'_>, state: &State) -> Result<SessionGuard, NotChecked> {
        let beginning = match &state.watch {
            _ if state.is_running() => Beginning::of_loop(Some(state)),
            Some(watch) => Beginning::Session(&watch.accepted),
            None => Beginning::Unknown,
        };
        Ok(match self.workspace.gates_for(Some(door.session), beginning)? {
            GatesLookup::Effective(it) if it.config.enabled && it.config.guard.guards_session() => {
                SessionGuard::Definition(it)
            }
            GatesLookup::Revoked => SessionGuard::Revoked,
            GatesLookup::Effective(_) | GatesLookup::Untrusted(_) | GatesLookup::Nothing => {
                SessionGuard::Nothing
            }
        })
    }

    /// The failures known for the tree at a session's first prompt; later records do not count.
    fn known_failures(
        &self,
        door: &SessionEvent<'_>,
        tree: &TreeHash,
    ) -> Result<Vec<FailureMark>, NotChecked> {
        if self.state(door)?.watch.is_some() {
            return Ok(Vec::new());
        }
        let by_agent = ledger::agent_verify_loop();
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

    fn is_active(&self, door: &SessionEvent<'_>) -> Result<bool, NotChecked> {
        let guards = self.effective_guard(door, &self.state(door)?)?;
        Ok(matches!(guards, SessionGuard::Definition(_)))
    }
}

impl SessionEvent<'_> {
    /// The repo of this session, if an accepted definition guards sessions. One look at the acceptance file rules out most
    /// sessions.
    pub(crate) fn guarded(&self) -> Result<Option<GuardedRepo>, NotChecked> {
        let read_before = self.found.get().and_then(Option::as_ref).map(Workspace::trust).transpose()?;
        let trust = match read_before {
            Some(trust) => trust.clone(),
            None => match Trust::read(self.home)? {
                text if text.may_guard_sessions() => text.parse()?,
                _ => return Ok(None),
            },
        };
        // A watched session stays guarded wherever the agent goes and whatever it moves.
        let watched = sessions::watched(self.home, self.session)?.map(|watched| Repo::known(&watched.root));
        let is_guarded = |repo: &Repo| trust.ever_guarded(repo, Guard::guards_session);
        let repo = match (watched.filter(is_guarded), self.folder()) {
            (Some(repo), _) => Some(repo),
            (None, Some(folder)) => trust.repo_of(&folder)?.filter(is_guarded),
            (None, None) => None,
        };
        let Some(repo) = repo else { return Ok(None) };
        let workspace = self.with_options(Workspace::new(self.home, repo).with_trust(trust));
        Ok(Some(GuardedRepo { workspace }))
    }

    pub(crate) fn is_guarded(&self) -> Result<bool, NotChecked> {
        self.guarded()?.map_or(Ok(false), |guarded| guarded.is_active(self))
    }

    /// The user submitted a prompt: from here on, writes by the agent are tracked. Text typed into a running turn carries
    /// that turn's number and changes nothing.
    pub(crate) fn start_watching(&self) -> Result<(), NotChecked> {
        let Some(guarded) = self.guarded()? else { return Ok(()) };
        let known = sessions::watched(self.home, self.session)?;
        if known.is_some_and(|known| self.call.prompt.as_ref().is_some_and(|turn| known.knows(turn))) {
            return Ok(());
        }
        if !guarded.is_active(self)? {
            return Ok(sessions::unwatch(self.home, self.session)?);
        }
        let workspace = &guarded.workspace;
        workspace.repo_home.create()?;
        let memory = TreeMemory::default();
        let effective = self.accepted_gates(workspace)?;
        let tree = judge::tree_reader(workspace, effective.as_ref()).remembering(&memory).read()?;
        let counting = workspace.acceptances_for(Some(self.session), Beginning::Unknown)?.counting;
        let seen = Event::PromptSeen {
            prompt: self.call.prompt.clone(),
            tree: TreeHash::new(tree.hash()),
            accepted: counting.into_iter().map(|acceptance| acceptance.sha256).collect(),
            rewritten: rewritten_files::before(&workspace.repo_home, clock::now()),
            red: guarded.known_failures(self, &TreeHash::new(tree.hash()))?,
        };
        workspace.loop_of(&guard_id(self.session)).append(&[seen])?;
        // Without the files nothing can be put back: unknown blocks, and the level is at best *passing*.
        let _best_effort = evidence::keep_start(&workspace.repo_home, &workspace.repo.root, &tree);
        let watched = WatchedSession {
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

    /// A client notification started a turn with its own number; it is not a prompt.
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

    /// The watch record of this session, in the turn of this event. An unannounced turn belongs to a prompt that the user
    /// typed into the previous one. Sub-agents continue the turn that started them.
    fn watched_in_this_turn(&self) -> Result<Option<WatchedSession>, NotChecked> {
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

    /// A tool that can write has run.
    pub(crate) fn note_writing(&self, tool: &str) -> Result<(), NotChecked> {
        // Plan mode does not write; earlier writes still count.
        if self.client.tools.kind(tool) != ToolKind::Writes || self.call.is_planning {
            return Ok(());
        }
        match self.watched_in_this_turn()? {
            Some(watched) if !watched.wrote => {
                let repo_home = self.home.repo(&Repo::known(&watched.root).id());
                let wrote = Event::Wrote { tool: tool.to_owned() };
                Loop::new(&repo_home, &guard_id(self.session)).append(&[wrote])?;
                Ok(sessions::watch(self.home, &WatchedSession { wrote: true, ..watched })?)
            }
            Some(_) | None => Ok(()),
        }
    }

    pub(crate) fn on_guarded_session_stop(
        &self,
        background: &[BackgroundWork],
    ) -> Result<HookReply, NotChecked> {
        let watched = self.watched_in_this_turn()?;
        let Some(guarded) = self.guarded()? else { return self.report_lost_guard() };
        let state = guarded.state(self)?;
        let Some(watched) = watched.or_else(|| self.watched_by_ledger(&guarded, &state)) else {
            return if guarded.is_active(self)? {
                self.notify_once(NO_RECORD.to_owned())
            } else {
                Ok(HookReply::Silent)
            };
        };
        GuardedStop { door: self, guarded, state, watched, background }.answer()
    }

    /// The watch record from the ledger if its file is gone; the session may then have written anything.
    fn watched_by_ledger(&self, guarded: &GuardedRepo, state: &State) -> Option<WatchedSession> {
        let watch = state.watch.as_ref()?;
        Some(WatchedSession {
            session: self.session.clone(),
            root: guarded.workspace.repo.root.clone(),
            prompt: self.call.prompt.clone().or_else(|| watch.prompt.clone()),
            notified: Vec::new(),
            tree: watch.tree.to_string(),
            wrote: true,
            client: None,
        })
    }

    /// The repo's config guards sessions, but no acceptance is known: there never was one, or ralph's records are gone.
    fn report_lost_guard(&self) -> Result<HookReply, NotChecked> {
        let asks = |file: &ConfigFile| {
            file.text.windows(7).any(|window| window == b"session")
                && effective_gates::parse(
                    file.layout,
                    &file.text,
                    &Settings::load_or_defaults(None).defaults(),
                )
                .is_ok_and(|config| config.enabled && config.guard.guards_session())
        };
        let Some(workspace) = self.workspace()? else { return Ok(HookReply::Silent) };
        let (trust, repo) = (workspace.trust()?, &workspace.repo);
        if workspace.state_of(&guard_id(self.session))?.is_running() {
            return Ok(notify_user(format!(
                "ralph: this session is blocked by the gates of {}, but the record of the guard is missing; this stop was not checked. \
                 UNVERIFIED.",
                repo.root.display()
            )));
        }
        match repo.config() {
            Ok(Some(file)) if asks(&file) && trust.revoked_at(repo).is_none() => self.notify_once(format!(
                "ralph: {} guards sessions, but no accepted guard is known for {}; this stop was not checked. UNVERIFIED. \
                 Review the gates and accept them with `ralph trust`.",
                file.path,
                repo.root.display()
            )),
            _ => match self.nothing_is_enforced()? {
                // A sub-agent's stop may have said so already.
                Some(_) if notices::was_shown(self.home, self.session, NOT_ACCEPTED) => Ok(HookReply::Silent),
                Some(line) => self.notify_once(line),
                None => Ok(HookReply::Silent),
            },
        }
    }

    /// Whether this session is guarded.
    pub(crate) fn guard_status(&self) -> Result<GuardStatus, NotChecked> {
        let Some(guarded) = self.guarded()? else { return Ok(GuardStatus::Off) };
        if !guarded.is_active(self)? {
            return Ok(GuardStatus::Off);
        }
        let state = guarded.workspace.state_of(&guard_id(self.session))?;
        Ok(if state.paused().is_some() { GuardStatus::Paused } else { GuardStatus::On })
    }

    /// Shows the user a notice once per session.
    pub(crate) fn notify_once(&self, line: String) -> Result<HookReply, NotChecked> {
        let first = notices::mark_as_shown(self.home, self.session, &line)?;
        Ok(if first { notify_user(line) } else { HookReply::Silent })
    }

    /// Releases a guarded session or blocks it again; returns whether anything changed.
    pub(crate) fn apply_to_guard(&self, transition: &Transition) -> Result<bool, NotChecked> {
        let Some(guarded) = self.guarded()? else { return Ok(false) };
        if !guarded.is_active(self)? {
            return Ok(false);
        }
        let guard = guarded.workspace.loop_of(&guard_id(self.session));
        Ok(guard.append_following(|state| apply(state, transition))?.1)
    }
}

/// Whether a session is guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GuardStatus {
    On,
    /// The user paused it, or a limit did.
    Paused,
    Off,
}

/// Each session's guard has its own loop.
pub(crate) fn guard_id(session: &ralph_core::model::id::SessionId) -> LoopId {
    LoopId::new(format!("guard-{}", Digest::of(session.as_str()).short()))
}

const NO_RECORD: &str = "ralph: there is no record of this session's prompt, so this stop was not checked. UNVERIFIED. The \
                         next prompt enables the checks.";

/// What a session changed since the user's prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionChanges {
    /// No tool that can write has run.
    Untouched,
    /// One has run, and the tree is as the prompt found it.
    AsFound,
    Changed,
}

struct GuardedStop<'a> {
    door: &'a SessionEvent<'a>,
    guarded: GuardedRepo,
    /// The ledger's state, which counts.
    state: State,
    watched: WatchedSession,
    background: &'a [BackgroundWork],
}

impl GuardedStop<'_> {
    fn answer(mut self) -> Result<HookReply, NotChecked> {
        let left = self.changes_since_prompt();
        match left {
            SessionChanges::Untouched => return self.reply_unchanged(),
            SessionChanges::AsFound if !self.state.is_running() => return Ok(HookReply::Silent),
            // A blocked session that reverted everything is judged, so that the block ends.
            SessionChanges::AsFound | SessionChanges::Changed => {}
        }
        // In plan mode the agent cannot fix anything, so the stop is allowed; but an agent can enter plan mode by itself.
        if self.door.call.is_planning {
            return Ok(notify_user(format!(
                "ralph: changes in {} were not checked: the session is in plan mode. UNVERIFIED.",
                self.guarded.workspace.repo.root.display()
            )));
        }
        let effective = match self.guarded.effective_guard(self.door, &self.state)? {
            SessionGuard::Definition(effective) => *effective,
            SessionGuard::Nothing => return Ok(HookReply::Silent),
            SessionGuard::Revoked => match blocking_gates(&self.state) {
                Some(effective) => effective,
                None => return self.reply_trust_revoked(),
            },
        };
        let (workspace, id) = (self.guarded.workspace.clone(), guard_id(self.door.session));
        let case = JudgeCase::new(&workspace, &effective, id, Subject::Session, &preset::CHECK);
        let case = JudgeCase {
            session: Some(self.door.session.clone()),
            session_began: self.state.watch.as_ref().map(|watch| watch.since),
            // A blocked session keeps the limits it began with.
            limits: self.state.limits.clone().filter(|_| self.state.is_running()).unwrap_or(case.limits),
            // Revoked trust leaves no gates, but a blocked session must stay blocked.
            markers: vec![completion_marker::ALL_CHECKS.into()],
            session_stop: Some(self.session_stop(left)),
            rewritten: self.state.watch.as_ref().map(|watch| watch.rewritten.clone()),
            start: self.start_of_work(),
            proof: workspace.settings().user.proof,
            ..case
        };
        match self.door.judge_session(&case)? {
            Some(outcome) => self.reply(&outcome),
            None => self.reply_paused(),
        }
    }

    /// What the session changed, as far as the guard is concerned.
    fn changes_since_prompt(&self) -> SessionChanges {
        let by_ledger = self.state.watch.as_ref();
        if !self.watched.wrote && !by_ledger.is_some_and(|watch| watch.wrote) {
            return SessionChanges::Untouched;
        }
        let before = by_ledger.map_or(self.watched.tree.as_str(), |watch| watch.tree.as_str());
        let memory = TreeMemory::default();
        // An unreadable tree counts as changed: the judgement reports the error.
        let workspace = &self.guarded.workspace;
        let effective = self.door.accepted_gates(workspace).ok().flatten();
        match judge::tree_reader(workspace, effective.as_ref()).remembering(&memory).read() {
            Ok(tree) if tree.hash() == before => SessionChanges::AsFound,
            Ok(_) | Err(_) => SessionChanges::Changed,
        }
    }

    /// No tool that can write has run since the prompt. This does not verify a session that was blocked before.
    fn reply_unchanged(&self) -> Result<HookReply, NotChecked> {
        let same_turn = self.door.call.prompt.is_some() && self.state.prompt == self.door.call.prompt;
        if let (Status::Ended { verdict }, true) = (&self.state.status, same_turn) {
            return Ok(notify_user(already_judged_notice(*verdict)));
        }
        let Some(last) = self.state.last.as_ref().filter(|_| self.state.is_running()) else {
            return Ok(HookReply::Silent);
        };
        let guard = self.guarded.workspace.loop_of(&guard_id(self.door.session));
        guard.append(&[Event::Paused { why: PauseCause::Unproven }])?;
        let sentence = words::reason_in(&last.reason, language::of_user());
        Ok(notify_user(format!(
            "ralph: nothing was changed since your prompt, so this stop was not checked. UNVERIFIED. {sentence}"
        )))
    }

    /// The user paused the guard: reported at every stop that is not checked because of it.
    fn reply_paused(&self) -> Result<HookReply, NotChecked> {
        let state = self.guarded.state(self.door)?;
        let by_user = matches!(state.paused(), Some(PauseCause::Word | PauseCause::Command));
        let Some(since) = state.paused_since().filter(|_| by_user) else { return Ok(HookReply::Silent) };
        let at = since.to_zoned(clock::zone()).strftime("%Y-%m-%d %H:%M:%S").to_string();
        let line = fill(language::of_user().words().guard_paused, &[("at", &at)]);
        Ok(notify_user(format!("ralph: {line}")))
    }

    /// Trust was revoked after the prompt, so the changes were not checked.
    fn reply_trust_revoked(&self) -> Result<HookReply, NotChecked> {
        sessions::unwatch(self.door.home, self.door.session)?;
        self.door.notify_once(format!(
            "ralph: stop allowed, UNVERIFIED: trust in the gates of {} was revoked after your prompt.",
            self.guarded.workspace.repo.root.display()
        ))
    }

    fn session_stop(&self, left: SessionChanges) -> SessionStop {
        let prompt = self.watched.prompt.clone();
        let as_found = left == SessionChanges::AsFound;
        SessionStop { prompt, as_found, ..self.door.session_stop(self.background) }
    }

    /// The files at the prompt: what failed there, too, does not block this session.
    fn start_of_work(&self) -> StartOfWork {
        let found = self.state.watch.as_ref().map(|watch| &watch.found);
        StartOfWork::stored(&self.guarded.workspace.repo_home, found)
    }

    fn reply(&mut self, outcome: &Judged) -> Result<HookReply, NotChecked> {
        match &outcome.decision {
            Decision::Block { attempt, reason } => {
                let message = feedback::for_blocked(&outcome.facts, &outcome.before, *attempt, reason);
                let user =
                    Some(loop_texts::guard_blocks(&outcome.facts, *attempt, reason, language::of_user()));
                Ok(HookReply::Block { reason: message.reason, detail: message.detail, user })
            }
            Decision::Allow { reason, .. } => {
                self.restart_watch(outcome)?;
                let line = loop_texts::guard_allows(&outcome.decision, language::of_user());
                match reason {
                    Reason::FailingBefore { .. } if !self.is_first_time(&line)? => Ok(HookReply::Silent),
                    _ => Ok(notify_user(line)),
                }
            }
            Decision::Ignore(IgnoredBecause::Paused) => self.reply_paused(),
            // The agent waits for its own background work; other waits are reported.
            Decision::Wait { until: None, .. } => Ok(HookReply::Silent),
            Decision::Wait { what, .. } => Ok(notify_user(waiting_line(what))),
            Decision::Gather | Decision::Act(_) | Decision::Prove | Decision::Ignore(_) => {
                Ok(HookReply::Silent)
            }
        }
    }

    fn is_first_time(&self, line: &str) -> Result<bool, NotChecked> {
        Ok(notices::mark_as_shown(self.door.home, self.door.session, line)?)
    }

    /// The tree judged now is the base for the next stop.
    fn restart_watch(&mut self, outcome: &Judged) -> Result<(), NotChecked> {
        if let Some(seen) = outcome.facts.gates() {
            self.watched.tree = seen.tree.to_string();
        }
        self.watched.wrote = false;
        Ok(sessions::watch(self.door.home, &self.watched)?)
    }
}

/// Revoking trust does not release a blocked session. Its gates are no longer known, so none is run.
fn blocking_gates(state: &State) -> Option<EffectiveGates> {
    let blocked = Some(state).filter(|state| state.is_running())?;
    Some(EffectiveGates::revoked(blocked.layout?, Some(blocked.definition.clone()?)))
}
