//! Somebody whom the session's agent called wants to stop, or a task is called completed: is it one that is held, and may
//! it go?

use std::io;
use std::time::Instant;

use jiff::Timestamp;
use ralph_core::claims::completion_marker as marker;
use ralph_core::clients::hook::{HookCall, HookEvent, HookReply};
use ralph_core::config::{Guard, bare_agent_name};
use ralph_core::ledger::decide::Decision;
use ralph_core::ledger::event::Subject;
use ralph_core::ledger::state::{State, Status};
use ralph_core::model::foreign_text;
use ralph_core::model::id::{AgentId, Digest, LoopId, SessionId, TreeHash};
use ralph_core::model::preset::{self, Preset};
use ralph_core::model::secrets::Secrets;
use ralph_core::model::verdict::{Reason, Verdict};
use ralph_core::say::feedback;

use crate::clients::client::Client;
use crate::loops::judge::{self, Asked, Case, EngineError, Outcome, Unwatched};
use crate::loops::session::event::{HookOptions, NotChecked, Often, WriteAhead, tell_later};
use crate::loops::session::stop::waits;
use crate::store::effective_gates::{self, Found, InForce};
use crate::store::home::Home;
use crate::store::repo::Task;
use crate::store::trust::{Acceptances, Beginning, Trust};
use crate::store::workspace::Workspace;
use crate::store::{notices, sessions};
use crate::sys::clock;
use crate::work_tree::fingerprint::TreeMemory;

pub(crate) fn stops(
    client: &'static Client,
    call: &HookCall,
    options: &HookOptions,
    deadline: Instant,
) -> Result<HookReply, NotChecked> {
    let Some(who) = Who::of(call) else { return Ok(HookReply::Silent) };
    let home = Home::find()?;
    let trust = Trust::read(&home)?;
    if trust.names_nobody() && !who.is_held_by(&Guard::default()) {
        return Ok(HookReply::Silent);
    }
    let trust = trust.parse()?;
    let Some(start) = client.folder_of(call) else {
        let variable = client.variables.project_dir.map(|name| format!(" and {name} is not set"));
        return Err(NotChecked(format!("the hook input names no folder{}", variable.unwrap_or_default())));
    };
    let Some(repo) = trust.repo_of(&start)? else { return Ok(HookReply::Silent) };
    let workspace = Workspace::new(&home, repo).with_trust(trust);
    let workspace = workspace.with_gate_timeout(options.gate_timeout.clone());
    let stop = MemberStop { client, call, who, workspace: &workspace };
    if stop.is_surely_nobodys()? {
        return Ok(HookReply::Silent);
    }
    stop.answer(deadline)
}

/// Whose work is to be judged.
#[derive(Clone, Debug)]
enum Who<'a> {
    SubAgent {
        name: &'a str,
    },
    /// Its own stop as a sub-agent came before; both are one attempt.
    Teammate {
        name: &'a str,
    },
    Task {
        id: &'a str,
        /// The model's own words, on one line.
        subject: String,
        team: Option<&'a str>,
    },
}

impl<'a> Who<'a> {
    fn of(call: &'a HookCall) -> Option<Self> {
        // An empty name is a compaction.
        let name = call.agent_type.as_deref().filter(|name| !name.is_empty()).map(bare_agent_name);
        match &call.event {
            HookEvent::TeammateIdle => Some(Self::Teammate { name: name? }),
            HookEvent::TaskCompleted { id, subject, team } => {
                let subject = if subject.is_empty() { id } else { subject };
                Some(Self::Task { id, subject: one_line(subject), team: team.as_deref() })
            }
            _ => Some(Self::SubAgent { name: name? }),
        }
    }

    /// What a person calls it.
    fn name(&self) -> &str {
        match self {
            Self::SubAgent { name } | Self::Teammate { name } => name,
            Self::Task { subject, .. } => subject,
        }
    }

    fn subject(&self, call: &HookCall) -> Subject {
        let agent = || call.agent.clone().unwrap_or_else(|| AgentId::new(""));
        match self {
            Self::SubAgent { name } => Subject::SubAgent { name: (*name).to_owned(), id: agent() },
            Self::Teammate { name } => Subject::Teammate { name: (*name).to_owned(), id: agent() },
            Self::Task { id, subject, .. } => {
                Subject::TeamTask { id: (*id).to_owned(), subject: subject.clone() }
            }
        }
    }

    /// What it takes to be done.
    fn preset(&self, client: &Client, session: &SessionId) -> &'static Preset {
        match self {
            Self::SubAgent { .. } => &preset::CHECK,
            Self::Teammate { .. } => &preset::TEAMMATE,
            Self::Task { id, team, .. } if client.is_last_task(session, *team, id) => &preset::LAST_TEAM_TASK,
            Self::Task { .. } => &preset::TEAM_TASK,
        }
    }

    fn is_held_by(&self, guard: &Guard) -> bool {
        match self {
            Self::SubAgent { name } => guard.holds_agent(name),
            Self::Teammate { name } => guard.holds_teammates() || guard.holds_agent(name),
            Self::Task { .. } => guard.holds_tasks(),
        }
    }
}

struct MemberStop<'a> {
    client: &'static Client,
    call: &'a HookCall,
    who: Who<'a>,
    workspace: &'a Workspace,
}

impl MemberStop<'_> {
    /// Tells without parsing a config that nobody is held here: no definition that was ever accepted names it, and the
    /// file as it is speaks of nobody.
    fn is_surely_nobodys(&self) -> io::Result<bool> {
        let holds = |guard: &Guard| self.who.is_held_by(guard);
        let repo = &self.workspace.repo;
        if holds(&Guard::default()) || self.workspace.trust()?.ever_held(repo, holds) {
            return Ok(false);
        }
        Ok(match repo.config() {
            Ok(Some(file)) => !file.text.windows(5).any(|window| window == b"guard"),
            Ok(None) => true,
            // What cannot be read might.
            Err(_) => false,
        })
    }

    fn answer(&self, deadline: Instant) -> Result<HookReply, NotChecked> {
        let held = self.held_already()?;
        let accepted = self.accepted(held.as_ref())?;
        let revoked = self.workspace.trust()?.revoked_at(&self.workspace.repo);
        let found = self.workspace.gates_by(&accepted)?;
        if let (Some(held), Found::Nothing | Found::Untrusted(_) | Found::Revoked) = (&held, &found) {
            return self.hold_without_gates(held, deadline);
        }
        match found {
            Found::Nothing => Ok(HookReply::Silent),
            Found::Untrusted(file) => {
                let guard =
                    effective_gates::parse(file.layout, &file.text, &self.workspace.settings().defaults())
                        .map_or_else(|_| Guard::default(), |config| config.guard);
                Ok(if self.who.is_held_by(&guard) { self.untrusted(file.path) } else { HookReply::Silent })
            }
            Found::Revoked => Ok(self.trust_was_taken_back(revoked.unwrap_or_else(clock::now))),
            Found::InForce(in_force) => self.judge(&in_force, held.as_ref(), deadline),
        }
    }

    /// What counts: by what the agent was first blocked, else by what its session found when it began.
    fn accepted(&self, held: Option<&State>) -> io::Result<Acceptances> {
        let session = self.call.session.as_ref();
        let began = session.map_or(Ok(None), |session| sessions::beginning(&self.workspace.home, session))?;
        let beginning = match (held, &began) {
            (Some(_), _) => Beginning::of_loop(held),
            (None, Some(began)) => Beginning::Session(&began.accepted),
            (None, None) => Beginning::Unknown,
        };
        Ok(self.workspace.trust()?.that_counts(&self.workspace.repo, session, beginning))
    }

    /// The state of this agent's loop while it is being held.
    fn held_already(&self) -> io::Result<Option<State>> {
        let Some(session) = &self.call.session else { return Ok(None) };
        let state = self.workspace.state_of(&self.loop_id(session))?;
        Ok(Some(state).filter(|state| state.status == Status::Running))
    }

    /// Nobody whose word counts ever accepted anything here: nothing runs, and the person hears how to change that.
    fn untrusted(&self, config: &str) -> HookReply {
        let line = format!(
            "ralph: `{}` was not held: no person has accepted the gates of {config} yet, so nothing was run. \
             Look at them and accept them with `ralph trust` in {}.",
            self.who.name(),
            self.workspace.repo.root.display()
        );
        tell_later(self.call, &line, Often::OnceASession);
        HookReply::Tell { person: Some(line), agent: None }
    }

    fn trust_was_taken_back(&self, at: Timestamp) -> HookReply {
        let line = format!(
            "ralph: `{}` was not held: trust in the gates of {} was taken back ({}); its work is UNVERIFIED. \
             `ralph trust` accepts them again.",
            self.who.name(),
            self.workspace.repo.root.display(),
            at.to_zoned(clock::zone()).strftime("%Y-%m-%d %H:%M")
        );
        tell_later(self.call, &line, Often::EveryTime);
        HookReply::Tell { person: Some(line), agent: None }
    }

    /// Taking trust back frees nobody who is being held. No gate is known any more, so none is run.
    fn hold_without_gates(&self, held: &State, deadline: Instant) -> Result<HookReply, NotChecked> {
        let (Some(session), Some(layout), Some(sha256)) = (&self.call.session, held.layout, &held.definition)
        else {
            return Ok(HookReply::Silent);
        };
        let unknown = InForce::revoked(layout, Some(sha256.clone()));
        let mut case = self.case(&unknown, session, held.task.clone())?;
        case.limits = held.limits.clone().unwrap_or(case.limits);
        case.markers = vec![marker::ALL_CHECKS.into()];
        self.reply(case.judge(&self.asked(deadline), &mut Unwatched))
    }

    fn judge(
        &self,
        in_force: &InForce,
        held: Option<&State>,
        deadline: Instant,
    ) -> Result<HookReply, NotChecked> {
        if !in_force.config.enabled || !self.who.is_held_by(&in_force.config.guard) {
            return Ok(HookReply::Silent);
        }
        let task = match (self.workspace.repo.task(in_force.layout)?, held) {
            (Task::Named(task), _) => Some(task),
            (Task::NoTasks, _) => None,
            // Taking the task away frees nobody who is being held for it.
            (Task::NoneSet, Some(held)) => held.task.clone(),
            (Task::NoneSet, None) => return Ok(HookReply::Silent),
        };
        let Some(session) = &self.call.session else {
            return Err(NotChecked(format!("the hook input of `{}` names no session", self.who.name())));
        };
        if self.was_let_go_just_now(session)? {
            return Ok(HookReply::Silent);
        }
        let mut case = self.case(in_force, session, task)?;
        // A blocked agent keeps the limits it began with.
        case.limits = held.and_then(|held| held.limits.clone()).unwrap_or(case.limits);
        let ledger = case.workspace.repo_home.loop_dir(&case.loop_id);
        let mut write_ahead = WriteAhead {
            home: &self.workspace.home,
            session,
            agent: self.who.name(),
            ledger,
            written: false,
        };
        let judged = case.judge(&self.asked(deadline), &mut write_ahead);
        if write_ahead.written {
            notices::gates_end(&self.workspace.home, session)?;
        }
        self.reply(judged)
    }

    fn asked(&self, deadline: Instant) -> Asked<'_> {
        crate::loops::session::event::asked(self.call, deadline)
    }

    fn case<'b>(
        &'b self,
        in_force: &'b InForce,
        session: &SessionId,
        task: Option<String>,
    ) -> io::Result<Case<'b>> {
        let markers = match task.as_deref() {
            Some(task) => marker::expected(&self.workspace.repo.check_list(task)?),
            None => Vec::new(),
        };
        let subject = self.who.subject(self.call);
        let (id, preset) = (self.loop_id(session), self.who.preset(self.client, session));
        Ok(Case {
            session: Some(session.clone()),
            session_began: sessions::beginning(&self.workspace.home, session)?.map(|began| began.at),
            task,
            markers,
            since: sessions::commit_at_start(&self.workspace.home, session),
            ..Case::new(self.workspace, in_force, id, subject, preset)
        })
    }

    /// A teammate that was let go unverified when it stopped is not held again for resting: both are one attempt.
    fn was_let_go_just_now(&self, session: &SessionId) -> io::Result<bool> {
        if !matches!(self.who, Who::Teammate { .. }) {
            return Ok(false);
        }
        let state = self.workspace.state_of(&self.loop_id(session))?;
        let gave_up = matches!(state.status, Status::Ended { verdict } if verdict != Verdict::Verified);
        let Some(tree) = state.last.and_then(|last| last.tree).filter(|_| gave_up) else { return Ok(false) };
        let memory = TreeMemory::default();
        let now = judge::tree_reader(self.workspace).remembering(&memory).read();
        Ok(now.is_ok_and(|now| tree == TreeHash::new(now.hash())))
    }

    /// One loop for each agent of each session: two check agents at once do not share a count. A task has its own.
    fn loop_id(&self, session: &SessionId) -> LoopId {
        let agent = self.call.agent.as_ref().map_or("", |agent| agent.as_str());
        let digest = match &self.who {
            Who::SubAgent { .. } | Who::Teammate { .. } => {
                Digest::of_parts([session.as_str().as_bytes(), agent.as_bytes()])
            }
            Who::Task { id, team, .. } => {
                let list = team.unwrap_or(session.as_str());
                Digest::of_parts([b"task", list.as_bytes(), id.as_bytes()])
            }
        };
        let safe = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let name: String = self.who.name().chars().map(safe).take(30).collect();
        LoopId::new(format!("{name}-{}", digest.short()))
    }

    fn reply(&self, judged: Result<Outcome, EngineError>) -> Result<HookReply, NotChecked> {
        let outcome = match judged {
            // The client's time-out, or the person pressed Esc: nobody listens any more, and the stop went through.
            Err(EngineError::Interrupted(signal)) => {
                if let Some(session) = &self.call.session {
                    notices::leave(
                        &self.workspace.home,
                        session,
                        &feedback::cut_off(self.who.name(), &format!("signal {signal}")),
                    )?;
                }
                return Ok(HookReply::Silent);
            }
            other => other?,
        };
        match &outcome.decision {
            Decision::Hold { attempt, reason } => {
                let told = feedback::for_held(&outcome.facts, &outcome.before, *attempt, reason);
                Ok(HookReply::Block { reason: told.reason, detail: told.detail, person: None })
            }
            // Others are still at work: what it is worth is seen when the last task is done.
            Decision::LetGo { reason: Reason::Tidy, .. } => Ok(HookReply::Silent),
            Decision::LetGo { .. } => {
                if let (Some(notice), Some(session)) =
                    (feedback::notice(&outcome.facts, &outcome.decision), &self.call.session)
                {
                    notices::leave(&self.workspace.home, session, &notice)?;
                }
                Ok(HookReply::Tell {
                    person: feedback::headline(&outcome.facts, &outcome.decision),
                    agent: None,
                })
            }
            Decision::Wait { what, .. } => {
                let line = waits(what);
                tell_later(self.call, &line, Often::EveryTime);
                Ok(HookReply::Tell { person: Some(line), agent: None })
            }
            Decision::Gather | Decision::Ignore(_) => Ok(HookReply::Silent),
        }
    }
}

fn one_line(text: &str) -> String {
    const MOST: usize = 100;
    let clean = foreign_text::clean(text.as_bytes(), &Secrets::default());
    clean.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MOST).collect()
}
