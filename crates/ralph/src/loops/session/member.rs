//! A sub-agent or teammate stops, or a task is reported completed: checks whether it is guarded and may stop.

use std::io;
use std::time::Instant;

use jiff::Timestamp;
use ralph_core::claims::agent_report::{self, AgentReport};
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
use ralph_core::model::verdict::Reason;
use ralph_core::say::feedback::{self, Notice};

use crate::clients::client::Client;
use crate::loops::judge::{self, EngineError, JudgeCase, JudgeOptions, Judged, NoObserver};
use crate::loops::session::SessionLoop;
use crate::loops::session::event::{HookOptions, NotChecked, NoticeFrequency, RunNotice, notify_later};
use crate::loops::session::lifecycle::{NOT_ACCEPTED, not_enforced};
use crate::loops::session::start;
use crate::loops::session::stop::{preset_of, waiting_line};
use crate::store::acceptance::{Acceptances, Beginning};
use crate::store::effective_gates::{self, EffectiveGates, GatesLookup};
use crate::store::home::Home;
use crate::store::repo::CurrentTask;
use crate::store::trust::Trust;
use crate::store::workspace::Workspace;
use crate::store::{notices, sessions};
use crate::sys::clock;
use crate::work_tree::fingerprint::TreeMemory;

pub(crate) fn on_member_stop(
    client: &'static Client,
    call: &HookCall,
    options: &HookOptions,
    deadline: Instant,
) -> Result<HookReply, NotChecked> {
    let Some(who) = Member::of(call) else { return Ok(HookReply::Silent) };
    let home = Home::find()?;
    let by_loop = is_guarded_by_loop(&home, call, &who)?;
    let trust = Trust::read(&home)?;
    if !by_loop && trust.names_no_guard() && !who.is_guarded_by(&Guard::default()) {
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
    let stop = MemberStop { client, call, member: who, workspace: &workspace, by_loop };
    if !by_loop && stop.is_unguarded()? {
        return Ok(HookReply::Silent);
    }
    stop.answer(deadline)
}

/// Whether a loop in rounds has the gates block this agent, whatever the guard says: it changed files, and it does not
/// hand the task back.
fn is_guarded_by_loop(home: &Home, call: &HookCall, who: &Member<'_>) -> Result<bool, NotChecked> {
    let (Some(session), Member::SubAgent { name } | Member::Teammate { name }) = (&call.session, who) else {
        return Ok(false);
    };
    let Some(found) = SessionLoop::for_stop(home, session)? else { return Ok(false) };
    if !found.state.is_running() || !preset_of(&found).guards_called_agents {
        return Ok(false);
    }
    if agent_report::read(name, &call.last_message).is_some_and(AgentReport::hands_back) {
        return Ok(false);
    }
    let before = call.agent.as_ref().and_then(|agent| found.state.agent_trees.get(agent));
    let gates = start::accepted_gates(
        found.workspace.gates_for(Some(session), Beginning::of_loop(Some(&found.state)))?,
    );
    let memory = TreeMemory::default();
    let now = judge::tree_reader(&found.workspace, gates.as_ref()).remembering(&memory).read();
    // What cannot be compared counts as changed: the gates decide.
    let now = now.ok().map(|tree| TreeHash::new(tree.hash()));
    Ok(before.zip(now.as_ref()).is_none_or(|(before, now)| before != now))
}

/// The subject to be judged.
#[derive(Clone, Debug)]
enum Member<'a> {
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

impl<'a> Member<'a> {
    fn of(call: &'a HookCall) -> Option<Self> {
        // An empty name means a compaction.
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

    /// Its name in messages.
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

    /// The checks required for it.
    fn preset(&self, client: &Client, session: &SessionId) -> &'static Preset {
        match self {
            Self::SubAgent { .. } => &preset::CHECK,
            Self::Teammate { .. } => &preset::TEAMMATE,
            Self::Task { id, team, .. } if client.is_last_task(session, *team, id) => &preset::LAST_TEAM_TASK,
            Self::Task { .. } => &preset::TEAM_TASK,
        }
    }

    fn is_guarded_by(&self, guard: &Guard) -> bool {
        match self {
            Self::SubAgent { name } => guard.guards_agent(name),
            Self::Teammate { name } => guard.guards_teammates() || guard.guards_agent(name),
            Self::Task { .. } => guard.guards_tasks(),
        }
    }
}

struct MemberStop<'a> {
    client: &'static Client,
    call: &'a HookCall,
    member: Member<'a>,
    workspace: &'a Workspace,
    /// The session's loop has it blocked, whatever the guard says.
    by_loop: bool,
}

impl MemberStop<'_> {
    /// Decides without parsing a config that this member is not guarded: no definition ever accepted names it, and the
    /// current file guards nothing.
    fn is_unguarded(&self) -> io::Result<bool> {
        let guards = |guard: &Guard| self.member.is_guarded_by(guard);
        let repo = &self.workspace.repo;
        if guards(&Guard::default()) || self.workspace.trust()?.ever_guarded(repo, guards) {
            return Ok(false);
        }
        Ok(match repo.config() {
            Ok(Some(file)) => !file.text.windows(5).any(|window| window == b"guard"),
            Ok(None) => true,
            // An unreadable file might guard it.
            Err(_) => false,
        })
    }

    fn answer(&self, deadline: Instant) -> Result<HookReply, NotChecked> {
        let blocked = self.blocked_state()?;
        let accepted = self.accepted(blocked.as_ref())?;
        let revoked = self.workspace.trust()?.revoked_at(&self.workspace.repo);
        let found = self.workspace.gates_by(&accepted)?;
        if let (Some(blocked), GatesLookup::Nothing | GatesLookup::Untrusted(_) | GatesLookup::Revoked) =
            (&blocked, &found)
        {
            return self.block_without_gates(blocked, deadline);
        }
        match found {
            GatesLookup::Nothing => Ok(HookReply::Silent),
            GatesLookup::Untrusted(file) => {
                let guard =
                    effective_gates::parse(file.layout, &file.text, &self.workspace.settings().defaults())
                        .map_or_else(|_| Guard::default(), |config| config.guard);
                Ok(if self.member.is_guarded_by(&guard) {
                    self.reply_untrusted(file.path)
                } else {
                    HookReply::Silent
                })
            }
            GatesLookup::Revoked => Ok(self.reply_trust_revoked(revoked.unwrap_or_else(clock::now))),
            GatesLookup::Effective(effective) => self.judge(&effective, blocked.as_ref(), deadline),
        }
    }

    /// The acceptances that count: those of its first block, else those at the session's start.
    fn accepted(&self, blocked: Option<&State>) -> io::Result<Acceptances> {
        let session = self.call.session.as_ref();
        let began = session.map_or(Ok(None), |session| sessions::beginning(&self.workspace.home, session))?;
        let beginning = match (blocked, &began) {
            (Some(_), _) => Beginning::of_loop(blocked),
            (None, Some(began)) => Beginning::Session(&began.accepted),
            (None, None) => Beginning::Unknown,
        };
        self.workspace.acceptances_for(session, beginning)
    }

    /// The state of this agent's loop while it is blocked.
    fn blocked_state(&self) -> io::Result<Option<State>> {
        let Some(session) = &self.call.session else { return Ok(None) };
        let state = self.workspace.state_of(&self.loop_id(session))?;
        Ok(Some(state).filter(|state| state.status == Status::Running))
    }

    /// No counting acceptance exists: nothing runs, and the user is told how to accept the gates.
    fn reply_untrusted(&self, config: &str) -> HookReply {
        let line = format!(
            "ralph: `{}` was not checked: the gates of {config} {NOT_ACCEPTED}. \
             Review them and accept them with `ralph trust` in {}.",
            self.member.name(),
            self.workspace.repo.root.display()
        );
        // The user was told at a stop of the session.
        let told = not_enforced(config, &self.workspace.repo.root);
        let session = self.call.session.as_ref();
        if session.is_some_and(|session| notices::was_shown(&self.workspace.home, session, &told)) {
            return HookReply::Silent;
        }
        notify_later(self.call, &line, NoticeFrequency::OnceASession);
        HookReply::Notify { user: Some(line), agent: None }
    }

    fn reply_trust_revoked(&self, at: Timestamp) -> HookReply {
        let line = format!(
            "ralph: `{}` was not checked: trust in the gates of {} was revoked ({}); its work is UNVERIFIED. \
             `ralph trust` accepts them again.",
            self.member.name(),
            self.workspace.repo.root.display(),
            at.to_zoned(clock::zone()).strftime("%Y-%m-%d %H:%M")
        );
        notify_later(self.call, &line, NoticeFrequency::EveryTime);
        HookReply::Notify { user: Some(line), agent: None }
    }

    /// Revoking trust does not release a blocked agent. Its gates are no longer known, so none is run.
    fn block_without_gates(&self, blocked: &State, deadline: Instant) -> Result<HookReply, NotChecked> {
        let (Some(session), Some(layout), Some(sha256)) =
            (&self.call.session, blocked.layout, &blocked.definition)
        else {
            return Ok(HookReply::Silent);
        };
        let unknown = EffectiveGates::revoked(layout, Some(sha256.clone()));
        let mut case = self.case(&unknown, session, blocked.task.clone())?;
        case.limits = blocked.limits.clone().unwrap_or(case.limits);
        case.markers = vec![marker::ALL_CHECKS.into()];
        let judged = case.judge(&self.judge_options(deadline), &mut NoObserver);
        if let Some(notice) = self.notice(&judged) {
            notices::leave(&self.workspace.home, session, &notice)?;
        }
        self.reply(judged)
    }

    fn judge(
        &self,
        effective: &EffectiveGates,
        blocked: Option<&State>,
        deadline: Instant,
    ) -> Result<HookReply, NotChecked> {
        let is_guarded = self.by_loop || self.member.is_guarded_by(&effective.config.guard);
        if !effective.config.enabled || !is_guarded {
            return Ok(HookReply::Silent);
        }
        let task = match (self.workspace.repo.task(effective.layout)?, blocked) {
            (CurrentTask::Named(task), _) => Some(task),
            (CurrentTask::NoTasks, _) => None,
            // Deleting the task does not release an agent blocked for it.
            (CurrentTask::NoneSet, Some(blocked)) => blocked.task.clone(),
            (CurrentTask::NoneSet, None) => return Ok(HookReply::Silent),
        };
        let Some(session) = &self.call.session else {
            return Err(NotChecked(format!("the hook input of `{}` names no session", self.member.name())));
        };
        if self.was_just_released(session, effective)? {
            return Ok(HookReply::Silent);
        }
        let mut case = self.case(effective, session, task)?;
        // A blocked agent keeps the limits it began with.
        case.limits = blocked.and_then(|blocked| blocked.limits.clone()).unwrap_or(case.limits);
        let ledger = case.workspace.repo_home.loop_dir(&case.loop_id);
        let mut write_ahead = RunNotice {
            home: &self.workspace.home,
            session,
            agent: self.member.name(),
            ledger,
            written: false,
        };
        let judged = case.judge(&self.judge_options(deadline), &mut write_ahead);
        write_ahead.end(self.notice(&judged).as_ref());
        self.reply(judged)
    }

    fn judge_options(&self, deadline: Instant) -> JudgeOptions<'_> {
        crate::loops::session::event::judge_options(self.call, deadline)
    }

    fn case<'b>(
        &'b self,
        effective: &'b EffectiveGates,
        session: &SessionId,
        task: Option<String>,
    ) -> io::Result<JudgeCase<'b>> {
        let markers = match task.as_deref() {
            Some(task) => marker::expected(&self.workspace.repo.check_list(task)?),
            None => Vec::new(),
        };
        let subject = self.member.subject(self.call);
        let (id, preset) = (self.loop_id(session), self.member.preset(self.client, session));
        Ok(JudgeCase {
            session: Some(session.clone()),
            session_began: sessions::beginning(&self.workspace.home, session)?.map(|began| began.at),
            task,
            markers,
            since: sessions::commit_at_start(&self.workspace.home, session),
            ..JudgeCase::new(self.workspace, effective, id, subject, preset)
        })
    }

    /// A teammate released unverified at its stop is not blocked again when it goes idle: both are one attempt.
    fn was_just_released(&self, session: &SessionId, effective: &EffectiveGates) -> io::Result<bool> {
        if !matches!(self.member, Member::Teammate { .. }) {
            return Ok(false);
        }
        let state = self.workspace.state_of(&self.loop_id(session))?;
        let gave_up = matches!(state.status, Status::Ended { verdict } if !verdict.gates_passed());
        let Some(tree) = state.last.and_then(|last| last.judgement.tree).filter(|_| gave_up) else {
            return Ok(false);
        };
        let memory = TreeMemory::default();
        let now = judge::tree_reader(self.workspace, Some(effective)).remembering(&memory).read();
        Ok(now.is_ok_and(|now| tree == TreeHash::new(now.hash())))
    }

    /// One loop per agent and session, so that two check agents do not share a count. A task has its own.
    fn loop_id(&self, session: &SessionId) -> LoopId {
        let agent = self.call.agent.as_ref().map_or("", |agent| agent.as_str());
        let digest = match &self.member {
            Member::SubAgent { .. } | Member::Teammate { .. } => {
                Digest::of_parts([session.as_str().as_bytes(), agent.as_bytes()])
            }
            Member::Task { id, team, .. } => {
                let list = team.unwrap_or(session.as_str());
                Digest::of_parts([b"task", list.as_bytes(), id.as_bytes()])
            }
        };
        let safe = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let name: String = self.member.name().chars().map(safe).take(30).collect();
        LoopId::new(format!("{name}-{}", digest.short()))
    }

    /// The notice of this stop that the session shows later: clients show nothing when a sub-agent stops.
    fn notice(&self, judged: &Result<Judged, EngineError>) -> Option<Notice> {
        match judged {
            Ok(Judged { decision: Decision::Allow { reason: Reason::HygienePassed, .. }, .. }) => None,
            Ok(outcome @ Judged { decision: Decision::Allow { .. }, .. }) => {
                feedback::notice(&outcome.facts, &outcome.decision)
            }
            Ok(Judged { decision: Decision::Wait { what, .. }, .. }) => {
                Some(Notice { user: waiting_line(what), agent: None })
            }
            Err(EngineError::Interrupted(signal)) => {
                Some(feedback::cut_off(self.member.name(), &format!("signal {signal}")))
            }
            Ok(_) | Err(_) => None,
        }
    }

    fn reply(&self, judged: Result<Judged, EngineError>) -> Result<HookReply, NotChecked> {
        let outcome = match judged {
            // The client's timeout, or the user pressed Esc: the stop went through.
            Err(EngineError::Interrupted(_)) => return Ok(HookReply::Silent),
            other => other?,
        };
        match &outcome.decision {
            Decision::Block { attempt, reason } => {
                let message = feedback::for_blocked(&outcome.facts, &outcome.before, *attempt, reason);
                Ok(HookReply::Block { reason: message.reason, detail: message.detail, user: None })
            }
            // Other agents are still working: judged when the last task is done.
            Decision::Allow { reason: Reason::HygienePassed, .. } => Ok(HookReply::Silent),
            Decision::Allow { .. } => Ok(HookReply::Notify {
                user: feedback::headline(&outcome.facts, &outcome.decision),
                agent: None,
            }),
            Decision::Wait { what, .. } => {
                Ok(HookReply::Notify { user: Some(waiting_line(what)), agent: None })
            }
            Decision::Gather | Decision::Act(_) | Decision::Prove | Decision::Ignore(_) => {
                Ok(HookReply::Silent)
            }
        }
    }
}

fn one_line(text: &str) -> String {
    const MOST: usize = 100;
    let clean = foreign_text::clean(text.as_bytes(), &Secrets::default());
    clean.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MOST).collect()
}
