//! The user's input: a control word, a command, or a prompt for the agent.

use ralph_core::claims::control_word::{self, ControlWord};
use ralph_core::claims::start_request::{self, StartRequest};
use ralph_core::clients::hook::HookReply;
use ralph_core::ledger::event::{CancelCause, PauseCause};
use ralph_core::ledger::transition::Transition;
use ralph_core::say::feedback::session::briefing;
use ralph_core::say::help;
use ralph_core::say::lang::fill;
use ralph_core::say::loop_texts::status_line;

use crate::loops::session::SessionLoop;
use crate::loops::session::event::{NotChecked, SessionEvent};
use crate::loops::session::guard::GuardStatus;
use crate::loops::session::start::{self, LoopStart, StartRefused, StartedLoop};
use crate::loops::session::stop::tasks_of;
use crate::show::language;
use crate::store::acceptance::Beginning;
use crate::store::effective_gates::EffectiveGates;
use crate::store::repo::Repo;
use crate::store::workspace::Workspace;

/// What the plugin's commands begin with.
const PREFIX: &str = "ralph:";

impl SessionEvent<'_> {
    pub(crate) fn on_user_prompt(&self, prompt: &str) -> Result<HookReply, NotChecked> {
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
        self.start_watching()?;
        Ok(answer.unwrap_or(HookReply::Silent))
    }

    /// One of ralph's commands; another plugin's command of the same name does not count.
    pub(crate) fn on_user_command(&self, command: &str, arguments: &str) -> Result<HookReply, NotChecked> {
        let prefix = if command.starts_with(PREFIX) { PREFIX } else { "" };
        match command.strip_prefix(PREFIX).unwrap_or(command) {
            "ralph-help" => Ok(HookReply::Answer { user: self.help(prefix) }),
            "ralph-loop" => self.start(arguments, false),
            "ralph-iterate" => self.start(arguments, true),
            "cancel-ralph" => self.cancel(),
            "ralph-status" => self.status(),
            _ => Ok(HookReply::Silent),
        }
    }

    /// `None` if there is nothing to pause: then it was an ordinary word.
    fn pause(&self) -> Result<Option<HookReply>, NotChecked> {
        let transition = Transition::Pause(PauseCause::Word);
        let paused = match SessionLoop::settle_of(self.home, self.session)? {
            Some(mut found) if found.state.is_running() => {
                found.apply(&transition)?;
                Some(self.paused_banner(&found))
            }
            // Nothing changes, and the user sees that it rests.
            Some(found) if found.state.paused().is_some() => {
                let tasks = tasks_of(&found);
                let banner = language::texts(&found.state, tasks.as_ref()).paused_by_user();
                Some(starting_on_new_line(&banner))
            }
            Some(_) | None => None,
        };
        let guard_paused = self
            .apply_to_guard(&transition)?
            .then(|| language::of_user().words().guard_checks_off.to_owned());
        Ok(paused.or(guard_paused).map(|user| HookReply::Answer { user }))
    }

    /// `None` if there is nothing to resume. The agent receives the current status and continues.
    fn resume(&self) -> Result<Option<HookReply>, NotChecked> {
        let guard_resumed = self.apply_to_guard(&Transition::Resume { by: None })?;
        let found = self.with_start(|start| Ok(start.resume_here()))?;
        match found.map_err(|StartRefused { what, hint }| NotChecked(format!("{what} ({hint})")))? {
            Some((found, true)) => self.continued_reply(&found).map(Some),
            Some((_, false)) | None => Ok(guard_resumed.then(|| HookReply::Notify {
                user: Some(language::of_user().words().guard_checks_on.to_owned()),
                agent: None,
            })),
        }
    }

    fn start(&self, arguments: &str, iterates: bool) -> Result<HookReply, NotChecked> {
        let begun = self.with_start(|start| {
            // A command without arguments resumes the paused loop.
            if arguments.trim().is_empty()
                && let Ok(Some((found, true))) = start.resume_here()
            {
                return Ok(Ok(StartedLoop::Continued(found)));
            }
            let request = match start_request::read(arguments) {
                Ok(request) => StartRequest { iterates, ..request },
                Err(error) => return Ok(Err(StartRefused { what: error.what, hint: error.hint })),
            };
            Ok(start.start(&request))
        })?;
        match begun {
            Ok(StartedLoop::New(found)) => self.started_reply(&found),
            Ok(StartedLoop::Continued(found)) => self.continued_reply(&found),
            Err(StartRefused { what, hint }) => {
                Ok(HookReply::Answer { user: format!("ralph: {what}\n{hint}\nNothing was started.") })
            }
        }
    }

    fn cancel(&self) -> Result<HookReply, NotChecked> {
        let user = match SessionLoop::settle_of(self.home, self.session)? {
            Some(mut found) => {
                let tasks = tasks_of(&found);
                let cancelled = language::texts(&found.state, tasks.as_ref()).cancelled();
                found.apply(&Transition::Cancel(CancelCause::Command))?;
                found.with_lost_report(cancelled)
            }
            None => language::of_user().words().no_active_loop.to_owned(),
        };
        Ok(HookReply::Answer { user })
    }

    fn status(&self) -> Result<HookReply, NotChecked> {
        let words = language::of_user().words();
        let found = SessionLoop::settle_of(self.home, self.session)?;
        let mut lines = vec![match &found {
            Some(found) => language::status(&found.state, tasks_of(found).as_ref()),
            None => words.no_active_loop.to_owned(),
        }];
        lines.push(match self.guard_status()? {
            GuardStatus::On => words.guard_is_on.to_owned(),
            GuardStatus::Paused => words.guard_is_paused.to_owned(),
            GuardStatus::Off => words.guard_is_off.to_owned(),
        });
        if found.is_none() {
            lines.extend(self.last_loop()?);
        }
        Ok(HookReply::Answer { user: lines.join("\n") })
    }

    /// How the last loop of this repo ended, where one did.
    fn last_loop(&self) -> Result<Option<String>, NotChecked> {
        let Some(workspace) = self.known_workspace()? else { return Ok(None) };
        for id in workspace.repo_home.loops() {
            let state = workspace.state_of(&id)?;
            let Some(goal) = state.goal.as_ref().filter(|_| !state.is_open()) else { continue };
            let words = language::of_user().words();
            let verdict = status_line(&state, language::of_user());
            let values: [(&str, &dyn std::fmt::Display); 2] =
                [("task", &goal.headline()), ("verdict", &verdict)];
            return Ok(Some(fill(words.last_loop_ended, &values)));
        }
        Ok(None)
    }

    /// The help, with the commands that are installed here.
    fn help(&self, prefix: &str) -> String {
        let root = self.folder().unwrap_or_default();
        let files = self.client.installation.iter();
        let files = files.flat_map(|installation| installation.commands.iter().chain(installation.roles));
        let there: Vec<&str> =
            files.map(|(path, _)| *path).filter(|path| root.join(path).is_file()).collect();
        // The plugin brings all of its commands.
        let is_there = |name: &str| {
            !prefix.is_empty() || there.iter().any(|path| path.split(['/', '.']).any(|part| part == name))
        };
        help::text(prefix, is_there)
    }

    fn started_reply(&self, found: &SessionLoop) -> Result<HookReply, NotChecked> {
        let (tasks, gates) = (tasks_of(found), self.gates_of(found)?);
        let user = language::texts(&found.state, tasks.as_ref()).started(&gates);
        let unaccepted = gates.is_empty() && found.workspace.repo.config()?.is_some();
        let note = || language::of_loop(&found.state).words().gates_not_accepted;
        let user = if unaccepted { format!("{user}\n\n{}", note()) } else { user };
        let copied = found.loop_file_copied();
        let user = copied.map_or(user.clone(), |copied| format!("{user}\n\n{copied}"));
        let agent = found
            .state
            .goal
            .as_ref()
            .map(|goal| briefing(goal, &found.state, tasks.as_ref(), !gates.is_empty()));
        Ok(HookReply::Notify { user: Some(starting_on_new_line(&user)), agent })
    }

    pub(crate) fn continued_reply(&self, found: &SessionLoop) -> Result<HookReply, NotChecked> {
        let tasks = tasks_of(found);
        let user = language::texts(&found.state, tasks.as_ref()).resumed();
        Ok(HookReply::Notify { user: Some(starting_on_new_line(&user)), agent: self.briefing(found)? })
    }

    /// The task, its status and the next step, for an agent that may have lost it.
    pub(crate) fn briefing(&self, found: &SessionLoop) -> Result<Option<String>, NotChecked> {
        let has_gates = !self.gates_of(found)?.is_empty();
        let goal = found.state.goal.as_ref();
        Ok(goal.map(|goal| briefing(goal, &found.state, tasks_of(found).as_ref(), has_gates)))
    }

    pub(crate) fn paused_banner(&self, found: &SessionLoop) -> String {
        starting_on_new_line(&language::texts(&found.state, tasks_of(found).as_ref()).paused())
    }

    fn gates_of(&self, found: &SessionLoop) -> Result<Vec<ralph_core::model::id::GateName>, NotChecked> {
        let effective = self.accepted_gates(&found.workspace)?;
        let gates = effective.map(|effective| effective.config.required_gates()).unwrap_or_default();
        Ok(gates)
    }

    /// The effective gates of this session in a repo, if an acceptance counts.
    pub(crate) fn accepted_gates(&self, workspace: &Workspace) -> Result<Option<EffectiveGates>, NotChecked> {
        Ok(start::accepted_gates(workspace.gates_for(Some(self.session), Beginning::Unknown)?))
    }

    /// Everything needed to start a loop from this session's folder.
    pub(crate) fn with_start<T>(
        &self,
        act: impl FnOnce(&LoopStart<'_>) -> Result<T, NotChecked>,
    ) -> Result<T, NotChecked> {
        let folder = self.folder().ok_or_else(|| NotChecked("the hook input names no folder".into()))?;
        let workspace = match Workspace::find(self.home, &folder)? {
            Some(workspace) => workspace,
            None => Workspace::new(self.home, Repo::new(&folder)?),
        };
        let effective = self.accepted_gates(&workspace)?;
        act(&LoopStart {
            workspace: &workspace,
            effective: effective.as_ref(),
            session: Some(self.session),
            client: self.client_process(),
        })
    }
}

/// Clients print a prefix on the first line, which would break the corner of a box.
pub(crate) fn starting_on_new_line(text: &str) -> String {
    if text.contains('\n') { format!("\n{text}") } else { text.to_owned() }
}
