//! Sub-agents: they are counted, and what they report decides whose turn it is.

use ralph_core::claims::agent_report;
use ralph_core::clients::hook::HookReply;
use ralph_core::config::{Guard, bare_agent_name};
use ralph_core::ledger::event::TypedError;
use ralph_core::ledger::transition::Transition;
use ralph_core::model::id::TreeHash;
use ralph_core::model::loop_error::ErrorKind;
use ralph_core::say::role_briefing;

use crate::loops::judge;
use crate::loops::session::SessionLoop;
use crate::loops::session::event::{NotChecked, SessionEvent};
use crate::loops::session::stop::preset_of;
use crate::store::acceptance::Beginning;
use crate::store::effective_gates::GatesLookup;
use crate::store::trust::Trust;
use crate::store::workspace::Workspace;
use crate::work_tree::fingerprint::TreeMemory;

/// The prefix of the names of ralph's own agents.
const ROLE: &str = "ralph-";

/// The agent that the skill for rounds runs in.
const LEADER: &str = "general-purpose";

impl SessionEvent<'_> {
    pub(crate) fn on_agent_start(&self) -> Result<HookReply, NotChecked> {
        let Some((agent, name)) = self.other_agent() else { return Ok(HookReply::Silent) };
        let briefing = self.role_briefing(&name)?;
        let (leads, tree) = self.part_in_rounds(&name)?;
        let reply = self.note(&Transition::AgentCalled { agent, name, leads, tree })?;
        Ok(match briefing {
            Some(_) => HookReply::Notify { user: None, agent: briefing },
            None => reply,
        })
    }

    /// In a loop in rounds: whether this agent leads it, and the files that it finds, by which its stop is judged. The client
    /// runs the leader as the first agent after the command.
    fn part_in_rounds(&self, name: &str) -> Result<(bool, Option<TreeHash>), NotChecked> {
        let Some(found) = SessionLoop::for_stop(self.home, self.session)? else { return Ok((false, None)) };
        if !found.state.is_running() || !preset_of(&found).guards_called_agents {
            return Ok((false, None));
        }
        if found.state.agents.is_empty() && name == LEADER {
            return Ok((true, None));
        }
        let effective = self.accepted_gates(&found.workspace)?;
        let memory = TreeMemory::default();
        let tree = judge::tree_reader(&found.workspace, effective.as_ref()).remembering(&memory).read();
        Ok((false, tree.ok().map(|tree| TreeHash::new(tree.hash()))))
    }

    /// The briefing for a sub-agent that has one of our roles or is guarded here.
    fn role_briefing(&self, name: &str) -> Result<Option<String>, NotChecked> {
        let is_role = name.starts_with(ROLE);
        let trust = Trust::read(self.home)?;
        if !is_role && trust.names_no_guard() && !Guard::default().guards_agent(name) {
            return Ok(None);
        }
        let trust = trust.parse()?;
        let Some(folder) = self.folder() else { return Ok(None) };
        let Some(repo) = trust.repo_of(&folder)? else { return Ok(None) };
        let workspace = self.with_options(Workspace::new(self.home, repo).with_trust(trust));
        let found = workspace.gates_for(Some(self.session), Beginning::Unknown)?;
        let GatesLookup::Effective(effective) = found else { return Ok(None) };
        let guard = &effective.config.guard;
        let is_judged = is_role || guard.guards_agent(name) || guard.guards_teammates();
        if !is_judged || !effective.has_gates() {
            return Ok(None);
        }
        let attached = SessionLoop::settle_of(self.home, self.session)?;
        let task = attached.and_then(|found| found.state.goal).map(|goal| goal.task);
        Ok(Some(role_briefing::text(&effective.config.gates, task.as_deref())))
    }

    /// A sub-agent whose stop is allowed has finished its call.
    pub(crate) fn on_agent_stop(&self, reply: &HookReply) -> Result<(), NotChecked> {
        let (Some((agent, name)), false) = (self.other_agent(), matches!(reply, HookReply::Block { .. }))
        else {
            return Ok(());
        };
        let report = agent_report::read(&name, &self.call.last_message);
        self.note(&Transition::AgentFinished { agent, name, report }).map(drop)
    }

    /// An error of the client or its model ended the turn. This is not a stop, so nothing is released.
    pub(crate) fn on_turn_failure(&self, error: &str) -> Result<HookReply, NotChecked> {
        let said = self.call.last_message.split_whitespace().collect::<Vec<_>>().join(" ");
        let said: String = said.chars().take(200).collect();
        let what = if said.is_empty() { error.to_owned() } else { format!("{error}: {said}") };
        self.note_error(what)
    }

    pub(crate) fn note_error(&self, what: String) -> Result<HookReply, NotChecked> {
        self.note(&Transition::Error(TypedError { kind: ErrorKind::AgentExecution, what }))
    }

    /// Records a transition of this session's loop, if it has one. A loop paused by it is reported at the next event that
    /// can show it.
    fn note(&self, transition: &Transition) -> Result<HookReply, NotChecked> {
        let Some(mut found) = SessionLoop::settle_of(self.home, self.session)? else {
            return Ok(HookReply::Silent);
        };
        let was_running = found.state.is_running();
        found.apply(transition)?;
        if was_running && !found.state.is_running() {
            let notice = self.paused_banner(&found);
            crate::store::notices::leave(
                self.home,
                self.session,
                &ralph_core::say::feedback::Notice { user: notice, agent: None },
            )?;
        }
        Ok(HookReply::Silent)
    }

    /// The sub-agent of this event. An empty name means a compaction.
    fn other_agent(&self) -> Option<(ralph_core::model::id::AgentId, String)> {
        let name = self.call.agent_type.as_deref().filter(|name| !name.is_empty())?;
        Some((self.call.agent.clone()?, bare_agent_name(name).to_owned()))
    }
}
