//! Agents that the session's agent calls: they are counted, and what they report says whose turn it is.

use ralph_core::claims::agent_report;
use ralph_core::clients::hook::HookReply;
use ralph_core::config::{Guard, bare_agent_name};
use ralph_core::ledger::event::TypedError;
use ralph_core::ledger::transition::Happening;
use ralph_core::model::loop_error::ErrorKind;
use ralph_core::say::role_briefing;

use crate::loops::session::SessionLoop;
use crate::loops::session::event::{NotChecked, SessionEvent};
use crate::store::effective_gates::Found;
use crate::store::trust::{Beginning, Trust};
use crate::store::workspace::Workspace;

/// What the names of our own agents begin with.
const ROLE: &str = "ralph-";

impl SessionEvent<'_> {
    pub(crate) fn agent_starts(&self) -> Result<HookReply, NotChecked> {
        let Some((agent, name)) = self.other_agent() else { return Ok(HookReply::Silent) };
        let briefing = self.role_briefing(&name)?;
        let reply = self.note(&Happening::AgentCalled { agent, name })?;
        Ok(match briefing {
            Some(_) => HookReply::Tell { person: None, agent: briefing },
            None => reply,
        })
    }

    /// What an agent hears that has one of our roles, or that is held here.
    fn role_briefing(&self, name: &str) -> Result<Option<String>, NotChecked> {
        let is_role = name.starts_with(ROLE);
        let trust = Trust::read(self.home)?;
        if !is_role && trust.names_nobody() && !Guard::default().holds_agent(name) {
            return Ok(None);
        }
        let trust = trust.parse()?;
        let Some(folder) = self.folder() else { return Ok(None) };
        let Some(repo) = trust.repo_of(&folder)? else { return Ok(None) };
        let workspace = self.with_options(Workspace::new(self.home, repo).with_trust(trust));
        let found = workspace.gates_for(Some(self.session), Beginning::Unknown)?;
        let Found::InForce(in_force) = found else { return Ok(None) };
        let guard = &in_force.config.guard;
        let is_judged = is_role || guard.holds_agent(name) || guard.holds_teammates();
        if !is_judged || !in_force.has_gates() {
            return Ok(None);
        }
        let carried = SessionLoop::settle_of(self.home, self.session)?;
        let task = carried.and_then(|found| found.state.goal).map(|goal| goal.task);
        Ok(Some(role_briefing::text(&in_force.config.gates, task.as_deref())))
    }

    /// A sub-agent whose stop goes through has finished its call.
    pub(crate) fn agent_stops(&self, reply: &HookReply) -> Result<(), NotChecked> {
        let (Some((agent, name)), false) = (self.other_agent(), matches!(reply, HookReply::Block { .. }))
        else {
            return Ok(());
        };
        let report = agent_report::read(&self.call.last_message);
        self.note(&Happening::AgentFinished { agent, name, report }).map(drop)
    }

    /// An error of the client or its model ended the turn. Nobody stopped, so nobody is let go.
    pub(crate) fn turn_fails(&self, error: &str) -> Result<HookReply, NotChecked> {
        let said = self.call.last_message.split_whitespace().collect::<Vec<_>>().join(" ");
        let said: String = said.chars().take(200).collect();
        let what = if said.is_empty() { error.to_owned() } else { format!("{error}: {said}") };
        self.note_error(what)
    }

    pub(crate) fn note_error(&self, what: String) -> Result<HookReply, NotChecked> {
        self.note(&Happening::Error(TypedError { kind: ErrorKind::AgentExecution, what }))
    }

    /// Remembers what happened to the loop of this session, if it has one. A loop that pauses by it says so at the next
    /// event that can show it.
    fn note(&self, happening: &Happening) -> Result<HookReply, NotChecked> {
        let Some(mut found) = SessionLoop::settle_of(self.home, self.session)? else {
            return Ok(HookReply::Silent);
        };
        let was_running = found.state.is_running();
        found.happen(happening)?;
        if was_running && !found.state.is_running() {
            let notice = self.paused_banner(&found);
            crate::store::notices::leave(
                self.home,
                self.session,
                &ralph_core::say::feedback::Notice { person: notice, agent: None },
            )?;
        }
        Ok(HookReply::Silent)
    }

    /// The sub-agent that this event is about. An empty name is a compaction.
    fn other_agent(&self) -> Option<(ralph_core::model::id::AgentId, String)> {
        let name = self.call.agent_type.as_deref().filter(|name| !name.is_empty())?;
        Some((self.call.agent.clone()?, bare_agent_name(name).to_owned()))
    }
}
