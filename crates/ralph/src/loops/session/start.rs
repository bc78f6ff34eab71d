//! Starting a session loop, from the user's arguments to the first ledger line. Used by the slash command and `ralph
//! start`.

use std::io;

use ralph_core::claims::loop_file::LoopFile;
use ralph_core::claims::start_request::{ListWanted, StartRequest};
use ralph_core::ledger::event::{CancelCause, Event, ProcessIdentity, Subject};
use ralph_core::ledger::transition::{AttachedSession, Transition};
use ralph_core::model::budget::{Attempts, Budget};
use ralph_core::model::goal::{ALL_TASKS_DONE, Goal, ListSource, VERIFIED_DONE};
use ralph_core::model::id::{Digest, LoopId, SessionId, TreeHash};
use ralph_core::model::language::Lang;
use ralph_core::model::layout::{Clocks, Layout};
use ralph_core::model::limits::{Limits, Origin};
use ralph_core::model::preset::{self, Preset};
use ralph_core::model::ship::{ShipPlan, Until};

use crate::checks::ship::{self, ShipRequest};
use crate::checks::{openspec, quality_files};
use crate::loops::driver::driven;
use crate::loops::session::SessionLoop;
use crate::loops::{ancestry, evidence, judge};
use crate::store::effective_gates::{EffectiveGates, GatesLookup};
use crate::store::repo::Repo;
use crate::store::rewritten_files;
use crate::store::workspace::Workspace;
use crate::sys::{clock, files};
use crate::work_tree::fingerprint::TreeMemory;

/// The result of a start.
pub(crate) enum StartedLoop {
    New(SessionLoop),
    /// A loop over the same work existed and was resumed.
    Continued(SessionLoop),
}

impl StartedLoop {
    pub(crate) fn session_loop(&self) -> &SessionLoop {
        match self {
            Self::New(begun) | Self::Continued(begun) => begun,
        }
    }
}

/// Why nothing was started, and how to fix it.
#[derive(Debug)]
pub(crate) struct StartRefused {
    pub(crate) what: String,
    pub(crate) hint: String,
}

impl StartRefused {
    fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), hint: hint.into() }
    }
}

impl From<io::Error> for StartRefused {
    fn from(error: io::Error) -> Self {
        Self::new(error.to_string(), "run `ralph doctor` for details")
    }
}

/// Where and for which session to start a loop.
pub(crate) struct LoopStart<'a> {
    pub(crate) workspace: &'a Workspace,
    /// The acceptances of the repo's gates that count for this session.
    pub(crate) effective: Option<&'a EffectiveGates>,
    /// `None` in a plain terminal: the loop then blocks nothing until a session claims it.
    pub(crate) session: Option<&'a SessionId>,
    /// The process of the session's client, if known.
    pub(crate) client: Option<ProcessIdentity>,
}

impl LoopStart<'_> {
    pub(crate) fn start(&self, request: &StartRequest) -> Result<StartedLoop, StartRefused> {
        if ancestry::inside_gate(&self.workspace.home) {
            return Err(StartRefused::new("a gate cannot start a loop", "start it in the session itself"));
        }
        if driven::inside_driven_agent(&self.workspace.home) {
            let hint = "do the work here and stop; the outer loop reports what still fails";
            return Err(StartRefused::new(
                "already running inside a ralph loop; nested loops are not supported",
                hint,
            ));
        }
        let mut goal = self.goal(request)?;
        let resumed = match self.resume_or_replace(&goal, request.replace)? {
            Some(own) => Some(own),
            None => self.claim(&goal)?,
        };
        if let Some(resumed) = resumed {
            return Ok(StartedLoop::Continued(resumed));
        }
        let until = request.goal_beyond_gates();
        goal.ship = self.ship_plan(&goal, until)?.map(Box::new);
        let preset = match (&goal.list, request.iterates) {
            _ if until > Until::Verified => preset::of_session(until),
            (_, true) => &preset::ITERATE,
            (Some(_), false) => &preset::TASKS,
            (None, false) => &preset::SESSION,
        };
        Ok(StartedLoop::New(self.begin(preset, goal, request.max_iterations, None)?))
    }

    /// The way to a goal beyond the gates, if the forge can be reached.
    fn ship_plan(&self, goal: &Goal, until: Until) -> Result<Option<ShipPlan>, StartRefused> {
        if until == Until::Verified {
            return Ok(None);
        }
        self.workspace.repo_home.create()?;
        let settings = self.effective.map(|effective| effective.config.ship.clone()).unwrap_or_default();
        let promise = goal.promise.as_deref();
        let request = ShipRequest {
            until,
            settings: &settings,
            by_promise: promise.is_some_and(|promise| Until::implied_by(promise).is_some()),
            id: &new_id(id_words(goal), self.session),
            root: &self.workspace.repo.root,
            scratch: self.workspace.repo_home.dir(),
        };
        let (plan, _) = ship::prepare(&request).map_err(|error| {
            let why = format!("`--until {until}` needs a forge: {}", error.what);
            StartRefused::new(why, error.next)
        })?;
        Ok(Some(plan))
    }

    /// The claims that exist when a loop that ships begins are about the code of now.
    fn claims_at_start(&self, goal: &Goal) -> Vec<Event> {
        let Some(effective) = self.effective.filter(|_| goal.ship.is_some()) else { return Vec::new() };
        let effective = effective.clone().for_shipping();
        let tree = judge::tree_reader(self.workspace, Some(&effective)).read();
        let root = &self.workspace.repo.root;
        tree.map(|tree| quality_files::at_start(root, &TreeHash::new(tree.hash()))).unwrap_or_default()
    }

    /// Whether this start would resume a loop that only the user may resume.
    pub(crate) fn resumes_waiting_loop(&self, request: &StartRequest) -> Result<bool, StartRefused> {
        let goal = self.goal(request)?;
        let own =
            self.session.map_or(Ok(None), |session| SessionLoop::settle_of(&self.workspace.home, session))?;
        let same_work = match own {
            Some(own) => Some(own).filter(|own| has_same_goal(own, &goal)),
            None => self.orphaned_loop_for(&goal)?,
        };
        Ok(same_work.is_some_and(|found| found.waits_for_user()))
    }

    /// Adopts a loop that another tool started, with its iteration count.
    pub(crate) fn adopt(&self, file: &LoopFile) -> io::Result<SessionLoop> {
        let goal = Goal {
            task: file.task.clone(),
            promise: file.completion_promise.clone(),
            list: None,
            archive: false,
            lang: None,
            ship: None,
            proof: None,
            accept: Vec::new(),
        };
        let most = match file.max_iterations {
            0 => Attempts::Unlimited,
            most => Attempts::AtMost(most),
        };
        let iteration = file.iteration.saturating_sub(1);
        self.begin(
            &preset::SESSION,
            goal,
            Some(most),
            Some(Event::Adopted { iteration, started_at: file.started_at }),
        )
    }

    fn begin(
        &self,
        preset: &'static Preset,
        goal: Goal,
        most: Option<Attempts>,
        adopted: Option<Event>,
    ) -> io::Result<SessionLoop> {
        let limits = self.limits(preset, most);
        let began = Event::Began {
            subject: Subject::Session,
            session: self.session.cloned(),
            task: None,
            layout: self.effective.map_or(Layout::Native, |effective| effective.layout),
            preset: preset.name.to_owned(),
            definition: self.effective.and_then(|effective| effective.sha256.clone()),
            limits,
            goal: Some(goal.clone()),
            prompt: None,
            drive: None,
            rewritten: rewritten_files::before(&self.workspace.repo_home, clock::now()),
        };
        let bound = self
            .attached_session()
            .map(|AttachedSession { session, client }| Event::Bound { session, client });
        let start = self.keep_start().map(|tree| Event::StartRecorded { tree });
        let claims = self.claims_at_start(&goal);
        let events: Vec<Event> =
            [began].into_iter().chain(adopted).chain(bound).chain(claims).chain(start).collect();
        SessionLoop::begin(self.workspace, new_id(id_words(&goal), self.session), &events)
    }

    /// Stores the files as they are now, for *undo*. Without them the loop can still end, at best *passing*.
    fn keep_start(&self) -> Option<TreeHash> {
        self.effective.filter(|effective| effective.has_gates())?;
        let memory = TreeMemory::default();
        let tree = judge::tree_reader(self.workspace, self.effective).remembering(&memory).read().ok()?;
        let Workspace { repo, repo_home, .. } = self.workspace;
        evidence::keep_start(repo_home, &repo.root, &tree).ok().map(|start| start.fingerprint())
    }

    /// Resumes the implied loop: this session's own, or the only one without a session.
    ///
    /// Also returns whether anything changed.
    pub(crate) fn resume_here(&self) -> Result<Option<(SessionLoop, bool)>, StartRefused> {
        let own = match self.session {
            Some(session) => SessionLoop::settle_of(&self.workspace.home, session)?,
            None => None,
        };
        let target = match own {
            Some(own) => Some(own),
            None => single(SessionLoop::settle_orphaned_in(self.workspace)?),
        };
        let Some(mut target) = target else { return Ok(None) };
        let resumed = self.resume(&mut target)?;
        Ok(Some((target, resumed)))
    }

    fn attached_session(&self) -> Option<AttachedSession> {
        self.session.map(|session| AttachedSession { session: session.clone(), client: self.client.clone() })
    }

    fn resume(&self, found: &mut SessionLoop) -> io::Result<bool> {
        found.apply(&Transition::Resume { by: self.attached_session() })
    }

    fn goal(&self, request: &StartRequest) -> Result<Goal, StartRefused> {
        let list = match &request.list {
            None => None,
            Some(ListWanted::OpenSpec { change }) => {
                let change =
                    openspec::resolve(&self.workspace.repo.root, change.as_deref()).map_err(|error| {
                        StartRefused::new(error.to_string(), "choose one with `--openspec ID`")
                    })?;
                let file = openspec::tasks_file(&change);
                require_file(&self.workspace.repo, &file)?;
                Some(ListSource { file, change: Some(change) })
            }
            Some(ListWanted::File(file)) => {
                require_file(&self.workspace.repo, file)?;
                Some(ListSource { file: file.clone(), change: None })
            }
        };
        let task = match (&request.task, &list) {
            (Some(task), _) => task.clone(),
            (None, Some(list)) => task_of_list(list),
            (None, None) => {
                return Err(StartRefused::new("no task given", "pass one: `/ralph-loop \"task\"`"));
            }
        };
        let of_change =
            list.as_ref().and_then(|list| list.change.as_ref()).map(|_| ALL_TASKS_DONE.to_owned());
        let of_rounds = request.iterates.then(|| VERIFIED_DONE.to_owned());
        let promise = request.promise.clone().or(of_change).or(of_rounds);
        if request.archive && list.as_ref().is_none_or(|list| list.change.is_none()) {
            return Err(StartRefused::new("`--archive` needs a change", "add `--openspec ID`"));
        }
        let lang = match request.lang.as_deref() {
            None => None,
            Some(tag) => Some(Lang::from_tag(tag).ok_or_else(|| {
                StartRefused::new(format!("unknown language `{tag}`"), "use one of: en, zh-TW, zh-CN, es")
            })?),
        };
        Ok(Goal {
            task,
            promise,
            list,
            archive: request.archive,
            lang,
            ship: None,
            proof: request.proof.or(self.workspace.settings().user.proof),
            accept: Vec::new(),
        })
    }

    /// Resumes a loop over the same work whose session is gone.
    fn claim(&self, goal: &Goal) -> Result<Option<SessionLoop>, StartRefused> {
        let Some(mut found) = self.orphaned_loop_for(goal)? else { return Ok(None) };
        self.resume(&mut found)?;
        Ok(Some(found))
    }

    fn orphaned_loop_for(&self, goal: &Goal) -> Result<Option<SessionLoop>, StartRefused> {
        if self.session.is_none() {
            return Ok(None);
        }
        let orphans = SessionLoop::settle_orphaned_in(self.workspace)?;
        Ok(orphans.into_iter().find(|found| has_same_goal(found, goal)))
    }

    /// A session has one loop. If its loop is paused over the same work, that one is resumed.
    fn resume_or_replace(&self, goal: &Goal, replace: bool) -> Result<Option<SessionLoop>, StartRefused> {
        let Some(session) = self.session else { return Ok(None) };
        let Some(mut there) = SessionLoop::settle_of(&self.workspace.home, session)? else { return Ok(None) };
        if replace {
            there.apply(&Transition::Cancel(CancelCause::Replaced))?;
            return Ok(None);
        }
        if there.state.paused().is_some() && has_same_goal(&there, goal) {
            self.resume(&mut there)?;
            return Ok(Some(there));
        }
        let what = there.state.goal.as_ref().map(Goal::headline).unwrap_or_default();
        let how = if there.state.is_running() { "running" } else { "paused" };
        Err(StartRefused::new(
            format!("a loop is already {how} in this session: {what}"),
            "replace it with `--replace`, or end it with `/cancel-ralph`",
        ))
    }

    fn limits(&self, preset: &Preset, most: Option<Attempts>) -> Limits {
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
        if let Some(effective) = self.effective {
            limits = limits.with(&errors(&effective.config.budget), Origin::RepoFile);
        }
        limits.with(&flags, Origin::Flag)
    }
}

/// The words an id is made of: the change, else the task.
fn id_words(goal: &Goal) -> &str {
    let change = goal.list.as_ref().and_then(|list| list.change.as_deref());
    change.unwrap_or(&goal.task)
}

/// The task of a loop that is only given a task list.
pub(crate) fn task_of_list(list: &ListSource) -> String {
    format!("Do every open task in `{}`, in order, and tick each when it is done.", list.file)
}

/// A readable and unique id.
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

/// The prefix of the last part of a session loop's id, which makes the loop findable by name.
pub(crate) fn session_tag(session: &SessionId) -> String {
    Digest::of(session.as_str()).short()[..6].to_owned()
}

/// Requires that a task list lies in the repo and can be read.
pub(crate) fn require_file(repo: &Repo, file: &str) -> Result<(), StartRefused> {
    let path = repo.root.join(file);
    if !files::lies_below(&path, &repo.root) {
        return Err(StartRefused::new(
            format!("`{file}` is not in this repo"),
            "use a path relative to the repo's root",
        ));
    }
    match files::read_foreign(&path) {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(StartRefused::new(
            format!("`{file}` does not exist"),
            "create the task list first: `- [ ] 1.1 …`",
        )),
        Err(error) => Err(StartRefused::new(format!("`{file}` cannot be read: {error}"), "use a text file")),
    }
}

fn has_same_goal(found: &SessionLoop, goal: &Goal) -> bool {
    found.state.goal.as_ref().is_some_and(|other| other.is_same_work(goal))
}

fn single<T>(mut items: Vec<T>) -> Option<T> {
    if items.len() == 1 { items.pop() } else { None }
}

/// The effective gates of a repo for a session, if accepted.
pub(crate) fn accepted_gates(found: GatesLookup) -> Option<EffectiveGates> {
    match found {
        GatesLookup::Effective(effective) => Some(*effective),
        GatesLookup::Nothing | GatesLookup::Untrusted(_) | GatesLookup::Revoked => None,
    }
}
