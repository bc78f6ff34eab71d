//! Tools: before one is used, and after. Most calls change nothing here.

use ralph_core::clients::hook::HookReply;

use crate::clients::client::ToolKind;
use crate::clients::language_servers;
use crate::loops::session::SessionLoop;
use crate::loops::session::event::{NotChecked, SessionEvent};

impl SessionEvent<'_> {
    pub(crate) fn tool_is_wanted(&self, tool: &str, file: Option<&str>) -> Result<HookReply, NotChecked> {
        match self.client.tools.kind(tool) {
            ToolKind::AsksLanguageServer => {
                let missing = file.and_then(language_servers::missing_for);
                Ok(missing.map_or(HookReply::Silent, |reason| HookReply::Deny { reason }))
            }
            ToolKind::CallsAgent => self.agent_is_wanted(),
            ToolKind::ReadsOnly | ToolKind::Writes => Ok(HookReply::Silent),
        }
    }

    /// An agent of an agent is called inside one that was counted already.
    fn agent_is_wanted(&self) -> Result<HookReply, NotChecked> {
        let Some(found) = SessionLoop::settle_of(self.home, self.session)? else {
            return Ok(HookReply::Silent);
        };
        let state = &found.state;
        let most = state.limits.as_ref().and_then(|limits| limits.agent_calls.value);
        match most.map(|most| state.granted(most)) {
            Some(most) if state.is_running() && state.agent_calls() >= most => Ok(HookReply::Deny {
                reason: format!(
                    "ralph: the {most} agent calls of this loop are used up. Stop now and say where things stand; the \
                     person decides whether it goes on."
                ),
            }),
            _ => Ok(HookReply::Silent),
        }
    }

    pub(crate) fn tool_was_used(&self, tool: &str) -> Result<HookReply, NotChecked> {
        self.note_writing(tool)?;
        Ok(HookReply::Silent)
    }

    /// A tool that failed may have written before it did. An agent that could not be called is an error of the loop.
    pub(crate) fn tool_failed(&self, tool: &str, error: &str) -> Result<HookReply, NotChecked> {
        self.note_writing(tool)?;
        if self.client.tools.kind(tool) != ToolKind::CallsAgent {
            return Ok(HookReply::Silent);
        }
        let error: String =
            error.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect();
        self.note_error(error)
    }
}
