//! Before and after tool calls. Most calls change nothing here.

use ralph_core::clients::hook::HookReply;

use crate::clients::client::ToolKind;
use crate::clients::language_servers;
use crate::loops::session::SessionLoop;
use crate::loops::session::event::{NotChecked, SessionEvent};

impl SessionEvent<'_> {
    pub(crate) fn on_tool_request(&self, tool: &str, file: Option<&str>) -> Result<HookReply, NotChecked> {
        match self.client.tools.kind(tool) {
            ToolKind::AsksLanguageServer => {
                let missing = file.and_then(language_servers::missing_for);
                Ok(missing.map_or(HookReply::Silent, |reason| HookReply::Deny { reason }))
            }
            ToolKind::CallsAgent => self.on_agent_request(),
            ToolKind::ReadsOnly | ToolKind::Writes => Ok(HookReply::Silent),
        }
    }

    /// A nested agent call runs inside one that was already counted.
    fn on_agent_request(&self) -> Result<HookReply, NotChecked> {
        let Some(found) = SessionLoop::settle_of(self.home, self.session)? else {
            return Ok(HookReply::Silent);
        };
        let state = &found.state;
        let most = state.limits.as_ref().and_then(|limits| limits.agent_calls.value);
        match most.map(|most| state.granted(most)) {
            Some(most) if state.is_running() && state.task_iterations() >= most => Ok(HookReply::Deny {
                reason: format!(
                    "ralph: the {most} agent calls of this loop are used up (a stop without one counts, too). Stop now and \
                     summarize the progress; the \
                     user decides whether to continue."
                ),
            }),
            _ => Ok(HookReply::Silent),
        }
    }

    pub(crate) fn on_tool_used(&self, tool: &str) -> Result<HookReply, NotChecked> {
        self.note_writing(tool)?;
        Ok(HookReply::Silent)
    }

    /// A failed tool may have written before it failed. A failed agent call is an error of the loop.
    pub(crate) fn on_tool_failure(&self, tool: &str, error: &str) -> Result<HookReply, NotChecked> {
        self.note_writing(tool)?;
        if self.client.tools.kind(tool) != ToolKind::CallsAgent {
            return Ok(HookReply::Silent);
        }
        let error: String =
            error.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect();
        self.note_error(error)
    }
}
