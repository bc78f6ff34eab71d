//! Starting a session loop: from the words of a person to the first line of a ledger. The same for the slash command and
//! for `ralph start`.

use std::io;

use ralph_core::claims::loop_file::LoopFile;
use ralph_core::claims::start_request::{ListWanted, StartRequest};
use ralph_core::ledger::event::{CancelCause, Event, ProcessIdentity, Subject};
use ralph_core::ledger::transition::{Carrier, Happening};
use ralph_core::model::budget::{Attempts, Budget};
use ralph_core::model::goal::{ALL_TASKS_DONE, Goal, ListSource};
use ralph_core::model::id::{Digest, LoopId, SessionId};
use ralph_core::model::language::Lang;
use ralph_core::model::layout::{Clocks, Layout};
use ralph_core::model::limits::{Limits, Origin};
use ralph_core::model::preset::{self, Preset};

use crate::checks::openspec;
use crate::loops::ancestry;
use crate::loops::driver::driven;
use crate::loops::session::SessionLoop;
use crate::store::effective_gates::{Found, InForce};
use crate::store::repo::Repo;
use crate::store::rewritten_files;
use crate::store::workspace::Workspace;
use crate::sys::{clock, files};

/// What a start came to.
pub(crate) enum Begun {
    New(SessionLoop),
    /// A loop over the same work was there, and goes on.
    GoesOn(SessionLoop),
}

impl Begun {
    pub(crate) fn the_loop(&self) -> &SessionLoop {
        match self {
            Self::New(begun) | Self::GoesOn(begun) => begun,
        }
    }
}

/// Why nothing was started: what, and how to mend it.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) what: String,
    pub(crate) hint: String,
}

impl Refused {
    fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), hint: hint.into() }
    }
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::new(error.to_string(), "`ralph doctor` says more")
    }
}

/// Where and for whom a loop is wanted.
pub(crate) struct Start<'a> {
    pub(crate) workspace: &'a Workspace,
    /// The acceptances of the repo's gates that count for this session.
    pub(crate) in_force: Option<&'a InForce>,
    /// None in a plain terminal: the loop then holds nobody until a session claims it.
    pub(crate) session: Option<&'a SessionId>,
    /// The process of the session's client, where it is known.
    pub(crate) client: Option<ProcessIdentity>,
}

impl Start<'_> {
    pub(crate) fn start(&self, request: &StartRequest) -> Result<Begun, Refused> {
        if ancestry::inside_gate(&self.workspace.home) {
            return Err(Refused::new("a gate cannot start a loop", "start it in the session itself"));
        }
        if driven::are_we_driven(&self.workspace.home) {
            let hint = "do the work here, and end; what is still wrong comes back";
            return Err(Refused::new("this is inside of a loop already: a loop starts no other", hint));
        }
        let goal = self.goal(request)?;
        let goes_on = match self.make_room(&goal, request.replace)? {
            Some(own) => Some(own),
            None => self.claim(&goal)?,
        };
        if let Some(goes_on) = goes_on {
            return Ok(Begun::GoesOn(goes_on));
        }
        Ok(Begun::New(self.begin(goal, request.max_iterations, None)?))
    }

    /// Whether starting this would carry on a loop that only a person may.
    pub(crate) fn wakes_what_waits_for_a_person(&self, request: &StartRequest) -> Result<bool, Refused> {
        let goal = self.goal(request)?;
        let own =
            self.session.map_or(Ok(None), |session| SessionLoop::settle_of(&self.workspace.home, session))?;
        let same_work = match own {
            Some(own) => Some(own).filter(|own| is_about(own, &goal)),
            None => self.orphan_over(&goal)?,
        };
        Ok(same_work.is_some_and(|found| found.waits_for_a_person()))
    }

    /// Takes up a loop that another tool started, with its count.
    pub(crate) fn adopt(&self, file: &LoopFile) -> io::Result<SessionLoop> {
        let goal = Goal {
            task: file.task.clone(),
            promise: file.completion_promise.clone(),
            list: None,
            archive: false,
            lang: None,
        };
        let most = match file.max_iterations {
            0 => Attempts::Unlimited,
            most => Attempts::AtMost(most),
        };
        let iteration = file.iteration.saturating_sub(1);
        self.begin(goal, Some(most), Some(Event::Adopted { iteration, started_at: file.started_at }))
    }

    fn begin(&self, goal: Goal, most: Option<Attempts>, adopted: Option<Event>) -> io::Result<SessionLoop> {
        let (preset, limits) = self.limits(&goal, most);
        let began = Event::Began {
            subject: Subject::Session,
            session: self.session.cloned(),
            task: None,
            layout: self.in_force.map_or(Layout::Native, |in_force| in_force.layout),
            preset: preset.name.to_owned(),
            definition: self.in_force.and_then(|in_force| in_force.sha256.clone()),
            limits,
            goal: Some(goal.clone()),
            prompt: None,
            drive: None,
            rewritten: rewritten_files::before(&self.workspace.repo_home, clock::now()),
        };
        let bound = self.carrier().map(|Carrier { session, client }| Event::Bound { session, client });
        let events: Vec<Event> = [began].into_iter().chain(adopted).chain(bound).collect();
        SessionLoop::begin(self.workspace, new_id(words_of(&goal), self.session), &events)
    }

    /// Carries on the loop that is meant when nothing is said: this session's own, or the only one without a session.
    ///
    /// Beside it is told whether that made a difference.
    pub(crate) fn carry_on(&self) -> Result<Option<(SessionLoop, bool)>, Refused> {
        let own = match self.session {
            Some(session) => SessionLoop::settle_of(&self.workspace.home, session)?,
            None => None,
        };
        let meant = match own {
            Some(own) => Some(own),
            None => only_one(SessionLoop::settle_orphaned_in(self.workspace)?),
        };
        let Some(mut meant) = meant else { return Ok(None) };
        let resumed = self.resume(&mut meant)?;
        Ok(Some((meant, resumed)))
    }

    fn carrier(&self) -> Option<Carrier> {
        self.session.map(|session| Carrier { session: session.clone(), client: self.client.clone() })
    }

    fn resume(&self, found: &mut SessionLoop) -> io::Result<bool> {
        found.happen(&Happening::Resume { by: self.carrier() })
    }

    fn goal(&self, request: &StartRequest) -> Result<Goal, Refused> {
        let list = match &request.list {
            None => None,
            Some(ListWanted::OpenSpec { change }) => {
                let change = openspec::resolve(&self.workspace.repo.root, change.as_deref())
                    .map_err(|error| Refused::new(error.to_string(), "name one: `--openspec ID`"))?;
                let file = openspec::tasks_file(&change);
                must_be_there(&self.workspace.repo, &file)?;
                Some(ListSource { file, change: Some(change) })
            }
            Some(ListWanted::File(file)) => {
                must_be_there(&self.workspace.repo, file)?;
                Some(ListSource { file: file.clone(), change: None })
            }
        };
        let task = match (&request.task, &list) {
            (Some(task), _) => task.clone(),
            (None, Some(list)) => task_of_list(list),
            (None, None) => {
                return Err(Refused::new(
                    "there is no task",
                    "say what is to be done: `/ralph-loop \"task\"`",
                ));
            }
        };
        let of_change =
            list.as_ref().and_then(|list| list.change.as_ref()).map(|_| ALL_TASKS_DONE.to_owned());
        let promise = request.promise.clone().or(of_change);
        if request.archive && list.as_ref().is_none_or(|list| list.change.is_none()) {
            return Err(Refused::new("`--archive` needs a change", "give it with `--openspec ID`"));
        }
        let lang = match request.lang.as_deref() {
            None => None,
            Some(tag) => Some(Lang::from_tag(tag).ok_or_else(|| {
                Refused::new(format!("there is no language `{tag}`"), "there are: en, zh-TW, zh-CN, es")
            })?),
        };
        Ok(Goal { task, promise, list, archive: request.archive, lang })
    }

    /// Goes on with a loop over the same work whose session is gone.
    fn claim(&self, goal: &Goal) -> Result<Option<SessionLoop>, Refused> {
        let Some(mut found) = self.orphan_over(goal)? else { return Ok(None) };
        self.resume(&mut found)?;
        Ok(Some(found))
    }

    fn orphan_over(&self, goal: &Goal) -> Result<Option<SessionLoop>, Refused> {
        if self.session.is_none() {
            return Ok(None);
        }
        let orphans = SessionLoop::settle_orphaned_in(self.workspace)?;
        Ok(orphans.into_iter().find(|found| is_about(found, goal)))
    }

    /// One loop for a session. Where it rests over the same work it goes on.
    fn make_room(&self, goal: &Goal, replace: bool) -> Result<Option<SessionLoop>, Refused> {
        let Some(session) = self.session else { return Ok(None) };
        let Some(mut there) = SessionLoop::settle_of(&self.workspace.home, session)? else { return Ok(None) };
        if replace {
            there.happen(&Happening::Cancel(CancelCause::Replaced))?;
            return Ok(None);
        }
        if there.state.paused().is_some() && is_about(&there, goal) {
            self.resume(&mut there)?;
            return Ok(Some(there));
        }
        let what = there.state.goal.as_ref().map(Goal::headline).unwrap_or_default();
        let how = if there.state.is_running() { "running" } else { "paused" };
        Err(Refused::new(
            format!("a loop is {how} in this session already: {what}"),
            "`--replace` puts the new one in its place, `/cancel-ralph` ends it",
        ))
    }

    fn limits(&self, goal: &Goal, most: Option<Attempts>) -> (&'static Preset, Limits) {
        let preset = if goal.list.is_some() { &preset::TASKS } else { &preset::SESSION };
        let errors = |budget: &Budget| Budget { errors: budget.errors, ..Budget::default() };
        let mut flags = Budget::default();
        match (most, preset.agent_calls) {
            (None, _) => {}
            (Some(most), None) => flags.attempts = Some(most),
            (Some(Attempts::AtMost(most)), Some(_)) => flags.agent_calls = Some(Some(most)),
            (Some(Attempts::Unlimited), Some(_)) => flags.agent_calls = Some(None),
        }
        let mut limits = Limits::new(preset, Clocks { stale_after: None, clock: None })
            .with(&errors(&self.workspace.settings().user.budget), Origin::UserFile);
        if let Some(in_force) = self.in_force {
            limits = limits.with(&errors(&in_force.config.budget), Origin::RepoFile);
        }
        (preset, limits.with(&flags, Origin::Flag))
    }
}

/// What an id is made of: the change, else the task.
fn words_of(goal: &Goal) -> &str {
    let change = goal.list.as_ref().and_then(|list| list.change.as_deref());
    change.unwrap_or(&goal.task)
}

/// The task of a loop that is only given a list.
pub(crate) fn task_of_list(list: &ListSource) -> String {
    format!("Do every open task in `{}`, in order, and tick each when it is done.", list.file)
}

/// Readable, and no two the same.
pub(crate) fn new_id(words: &str, session: Option<&SessionId>) -> LoopId {
    let safe = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let slug: String = words.chars().map(safe).collect();
    let slug = slug.split('-').filter(|word| !word.is_empty()).take(4).collect::<Vec<_>>().join("-");
    let slug: String = slug.chars().take(30).collect();
    let slug = if slug.is_empty() { "loop" } else { &slug };
    let now = clock::now().to_string();
    let tag = session.map(session_tag).unwrap_or_default();
    let digest = Digest::of_parts([tag.as_bytes(), now.as_bytes(), &std::process::id().to_le_bytes()]);
    LoopId::new(format!("{slug}-{tag}{}", &digest.short()[tag.len()..]))
}

/// What the last part of a loop's id begins with where a session began it: its loop is then found by names alone.
pub(crate) fn session_tag(session: &SessionId) -> String {
    Digest::of(session.as_str()).short()[..6].to_owned()
}

/// A task list lies in the repo and can be read.
pub(crate) fn must_be_there(repo: &Repo, file: &str) -> Result<(), Refused> {
    let path = repo.root.join(file);
    if !files::lies_below(&path, &repo.root) {
        return Err(Refused::new(
            format!("`{file}` is not in this repo"),
            "give a path from the repo's root",
        ));
    }
    match files::read_foreign(&path) {
        Ok(Some(_)) => Ok(()),
        Ok(None) => {
            Err(Refused::new(format!("there is no `{file}`"), "write the task list first: `- [ ] 1.1 …`"))
        }
        Err(error) => Err(Refused::new(format!("`{file}` cannot be read: {error}"), "give a text file")),
    }
}

fn is_about(found: &SessionLoop, goal: &Goal) -> bool {
    found.state.goal.as_ref().is_some_and(|other| other.is_same_work(goal))
}

fn only_one<T>(mut items: Vec<T>) -> Option<T> {
    if items.len() == 1 { items.pop() } else { None }
}

/// The gates that hold in a repo for a session, as far as they were accepted.
pub(crate) fn accepted_gates(found: Found) -> Option<InForce> {
    match found {
        Found::InForce(in_force) => Some(*in_force),
        Found::Nothing | Found::Untrusted(_) | Found::Revoked => None,
    }
}
