//! The person speaks: a control word, a command, or something for the agent.

use ralph_core::claims::control_word::{self, ControlWord};
use ralph_core::claims::start_request;
use ralph_core::clients::hook::HookReply;
use ralph_core::ledger::event::{CancelCause, PauseCause};
use ralph_core::ledger::transition::Happening;
use ralph_core::say::feedback::session::briefing;

use crate::loops::session::SessionLoop;
use crate::loops::session::event::{NotChecked, SessionEvent};
use crate::loops::session::start::{self, Begun, Refused, Start};
use crate::loops::session::stop::tasks_of;
use crate::show::language;
use crate::store::effective_gates::InForce;
use crate::store::repo::Repo;
use crate::store::trust::Beginning;
use crate::store::workspace::Workspace;

impl SessionEvent<'_> {
    pub(crate) fn person_says(&self, prompt: &str) -> Result<HookReply, NotChecked> {
        if control_word::is_machine_made(prompt) {
            self.note_notification()?;
            return Ok(HookReply::Silent);
        }
        let answer = match control_word::read(prompt) {
            Some(ControlWord::Pause) => self.pause()?,
            Some(ControlWord::Resume) => self.resume()?,
            None => None,
        };
        if let Some(answer @ HookReply::Answer { .. }) = answer {
            return Ok(answer);
        }
        self.watch_from_here()?;
        Ok(answer.unwrap_or(HookReply::Silent))
    }

    /// A command of ours; another plugin's of the same name is none.
    pub(crate) fn person_commands(&self, command: &str, arguments: &str) -> Result<HookReply, NotChecked> {
        match command.strip_prefix("ralph:").unwrap_or(command) {
            "ralph-loop" => self.start(arguments),
            "cancel-ralph" => self.cancel(),
            "ralph-status" => self.status(),
            _ => Ok(HookReply::Silent),
        }
    }

    /// None where there is nothing to pause: then it was an ordinary word.
    fn pause(&self) -> Result<Option<HookReply>, NotChecked> {
        let happening = Happening::Pause(PauseCause::Word);
        let paused = match SessionLoop::settle_of(self.home, self.session)? {
            Some(mut found) if found.state.is_running() => {
                found.happen(&happening)?;
                Some(self.paused_banner(&found))
            }
            // One that rests already says so again: its own banner offers the word.
            Some(found) if found.state.paused().is_some() => Some(self.paused_banner(&found)),
            Some(_) | None => None,
        };
        let freed =
            self.guard_happens(&happening)?.then(|| language::of_person().words().guard_freed.to_owned());
        Ok(paused.or(freed).map(|person| HookReply::Answer { person }))
    }

    /// None where there is nothing to go on with. The agent hears where things stand, and goes on.
    fn resume(&self) -> Result<Option<HookReply>, NotChecked> {
        let holds_again = self.guard_happens(&Happening::Resume { by: None })?;
        let found = self.with_start(|start| Ok(start.carry_on()))?;
        match found.map_err(|Refused { what, hint }| NotChecked(format!("{what} ({hint})")))? {
            Some((found, true)) => self.goes_on(&found).map(Some),
            Some((_, false)) | None => Ok(holds_again.then(|| HookReply::Tell {
                person: Some(language::of_person().words().guard_holds_again.to_owned()),
                agent: None,
            })),
        }
    }

    fn start(&self, arguments: &str) -> Result<HookReply, NotChecked> {
        let begun = self.with_start(|start| {
            // Nothing but the command: what was left goes on.
            if arguments.trim().is_empty()
                && let Ok(Some((found, true))) = start.carry_on()
            {
                return Ok(Ok(Begun::GoesOn(found)));
            }
            let request = match start_request::read(arguments) {
                Ok(request) => request,
                Err(error) => return Ok(Err(Refused { what: error.what, hint: error.hint })),
            };
            Ok(start.start(&request))
        })?;
        match begun {
            Ok(Begun::New(found)) => self.has_started(&found),
            Ok(Begun::GoesOn(found)) => self.goes_on(&found),
            Err(Refused { what, hint }) => {
                Ok(HookReply::Answer { person: format!("ralph: {what}\n{hint}\nNothing was started.") })
            }
        }
    }

    fn cancel(&self) -> Result<HookReply, NotChecked> {
        let person = match SessionLoop::settle_of(self.home, self.session)? {
            Some(mut found) => {
                let tasks = tasks_of(&found);
                let cancelled = language::telling(&found.state, tasks.as_ref()).cancelled();
                found.happen(&Happening::Cancel(CancelCause::Command))?;
                found.with_lost_report(cancelled)
            }
            None => language::of_person().words().no_active_loop.to_owned(),
        };
        Ok(HookReply::Answer { person })
    }

    fn status(&self) -> Result<HookReply, NotChecked> {
        let person = match SessionLoop::settle_of(self.home, self.session)? {
            Some(found) => language::status(&found.state, tasks_of(&found).as_ref()),
            None => language::of_person().words().no_active_loop.to_owned(),
        };
        Ok(HookReply::Answer { person })
    }

    fn has_started(&self, found: &SessionLoop) -> Result<HookReply, NotChecked> {
        let (tasks, gates) = (tasks_of(found), self.gates_of(found)?);
        let person = language::telling(&found.state, tasks.as_ref()).started(&gates);
        let unaccepted = gates.is_empty() && found.workspace.repo.config()?.is_some();
        let note = || language::of_loop(&found.state).words().gates_not_accepted;
        let person = if unaccepted { format!("{person}\n\n{}", note()) } else { person };
        let copied = found.loop_file_copied();
        let person = copied.map_or(person.clone(), |copied| format!("{person}\n\n{copied}"));
        let agent = found
            .state
            .goal
            .as_ref()
            .map(|goal| briefing(goal, &found.state, tasks.as_ref(), !gates.is_empty()));
        Ok(HookReply::Tell { person: Some(on_lines_of_its_own(&person)), agent })
    }

    pub(crate) fn goes_on(&self, found: &SessionLoop) -> Result<HookReply, NotChecked> {
        let tasks = tasks_of(found);
        let person = language::telling(&found.state, tasks.as_ref()).resumed();
        Ok(HookReply::Tell { person: Some(on_lines_of_its_own(&person)), agent: self.briefing(found)? })
    }

    /// The task, where it stands and what is next, for an agent that may not have it any more.
    pub(crate) fn briefing(&self, found: &SessionLoop) -> Result<Option<String>, NotChecked> {
        let has_gates = !self.gates_of(found)?.is_empty();
        let goal = found.state.goal.as_ref();
        Ok(goal.map(|goal| briefing(goal, &found.state, tasks_of(found).as_ref(), has_gates)))
    }

    pub(crate) fn paused_banner(&self, found: &SessionLoop) -> String {
        on_lines_of_its_own(&language::telling(&found.state, tasks_of(found).as_ref()).paused())
    }

    fn gates_of(&self, found: &SessionLoop) -> Result<Vec<ralph_core::model::id::GateName>, NotChecked> {
        let in_force = self.accepted_gates(&found.workspace)?;
        let gates = in_force.map(|in_force| in_force.config.required_gates()).unwrap_or_default();
        Ok(gates)
    }

    /// The gates that hold for this session in a repo, as far as somebody accepted them whose word counts.
    pub(crate) fn accepted_gates(&self, workspace: &Workspace) -> Result<Option<InForce>, NotChecked> {
        Ok(start::accepted_gates(workspace.gates_for(Some(self.session), Beginning::Unknown)?))
    }

    /// Everything that starting needs, from this session's folder.
    pub(crate) fn with_start<T>(
        &self,
        act: impl FnOnce(&Start<'_>) -> Result<T, NotChecked>,
    ) -> Result<T, NotChecked> {
        let folder = self.folder().ok_or_else(|| NotChecked("the hook input names no folder".into()))?;
        let workspace = match Workspace::find(self.home, &folder)? {
            Some(workspace) => workspace,
            None => Workspace::new(self.home, Repo::new(&folder)?),
        };
        let in_force = self.accepted_gates(&workspace)?;
        act(&Start {
            workspace: &workspace,
            in_force: in_force.as_ref(),
            session: Some(self.session),
            client: self.client_process(),
        })
    }
}

/// A client puts its own words before the first line; a box would lose its corner.
pub(crate) fn on_lines_of_its_own(text: &str) -> String {
    if text.contains('\n') { format!("\n{text}") } else { text.to_owned() }
}
