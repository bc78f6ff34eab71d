//! `ralph loop`: a headless agent is run, then the gates, then it is decided, until the work is verified or a limit says
//! stop.
//!
//! ```text
//!            ┌──────────────── Hold ────────────────┐
//!            ▼                                      │
//!  next ─► Run: agent ─► AgentEnded ─► Judge: gates ┴─► LetGo: over
//!    ▲                       │
//!    └──── WaitsUntil ◄──────┘ the service gives no more
//! ```
//!
//! What comes next is read from the ledger alone ([`drive::next`]), and everything is in the ledger before the next thing
//! happens: so a loop is gone on with after any kill at any point, and an iteration is judged exactly once. The verdict is
//! the engine's, as at every other door; the agent's words are told and decide nothing.

mod agent;
pub(crate) mod driven;
pub(crate) mod keeper;
pub(crate) mod lease;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent::{AgentRan, Call};
use keeper::Keeper;
use ralph_core::claims::promise::{self, Promise};
use ralph_core::clients::list;
use ralph_core::clients::profile::{CommandLine, Context, Profile, RunWish, Value, command_line};
use ralph_core::clients::stream::{Denial, StreamSummary};
use ralph_core::ledger::decide::Decision;
use ralph_core::ledger::drive::{self, Approach, Next};
use ralph_core::ledger::drive_plan::DrivePlan;
use ralph_core::ledger::event::{AgentEnd, AgentRun, Event, Judgement, Owner, PauseCause, Subject};
use ralph_core::ledger::facts::{SessionStop, Standing};
use ralph_core::ledger::loop_event::LoopEvent;
use ralph_core::ledger::state::{LastJudgement, State, Status};
use ralph_core::model::finding::{GatesSeen, TasksSeen};
use ralph_core::model::gate::receipt::Receipt;
use ralph_core::model::gate::{Gate, GateReport};
use ralph_core::model::id::{LoopId, TreeHash};
use ralph_core::model::layout::Layout;
use ralph_core::model::promise_seen::PromiseSeen;
use ralph_core::model::verdict::{Reason, Verdict};
use ralph_core::model::{duration, preset};
use ralph_core::say::prompt::{self, LastTime};

use crate::checks::gates::environment::GateEnvironment;
use crate::checks::gates::{Findable, Watch};
use crate::checks::tasks;
use crate::clients::surroundings;
use crate::loops::judge::{self, Asked, Case, EngineError, Outcome, WatchForFreedom};
use crate::show::progress::follower::{Follower, NoFollower};
use crate::store::acceptance::Beginning;
use crate::store::effective_gates::{Found, InForce};
use crate::store::home::RepoHome;
use crate::store::ledger::{LedgerError, Loop};
use crate::store::repo::Repo;
use crate::store::workspace::Workspace;
use crate::store::{ledger, rewritten_files};
use crate::sys::proc::StopRequest;
use crate::sys::signals::Signals;
use crate::sys::{clock, env, files, proc};
use crate::work_tree::fingerprint::{Tree, TreeMemory};
use crate::work_tree::git::head::GitHead;

/// Everything that one drive needs.
pub(crate) struct Driver<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) plan: &'a DrivePlan,
    pub(crate) signals: &'a Signals,
    pub(crate) follow: &'a mut dyn Follower,
    /// The tree before the first iteration is with it already: what the whole loop changed is told from there.
    pub(crate) keeper: Keeper,
    /// All that is remembered of the loop; this process believes nobody else about it.
    pub(crate) ledger: Arc<Loop>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum DriveError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("process {} drives this loop already", .0.process)]
    Owned(Owner),
}

impl DriveError {
    /// What somebody else did to the ledger, if that is what went wrong.
    fn tampering(&self) -> Option<&str> {
        match self {
            Self::Ledger(LedgerError::Tampered { what })
            | Self::Engine(EngineError::Ledger(LedgerError::Tampered { what })) => Some(what),
            _ => None,
        }
    }
}

/// Writes down a new loop, which is ours from its first line on.
pub(crate) fn begin(
    repo_home: &RepoHome,
    ledger: &Loop,
    plan: &DrivePlan,
    in_force: &InForce,
) -> Result<(), DriveError> {
    let began = Event::Began {
        subject: Subject::Driver,
        session: None,
        task: None,
        layout: in_force.layout,
        preset: preset::DRIVE.name.to_owned(),
        definition: in_force.sha256.clone(),
        limits: plan.limits.clone(),
        goal: Some(plan.goal.clone()),
        prompt: None,
        drive: Some(plan.options.clone()),
        rewritten: rewritten_files::before(repo_home, clock::now()),
    };
    ledger.append(&[began, Event::Owned { owner: lease::ours() }])?;
    Ok(())
}

/// Goes on with a loop that nobody drives any more: it is ours from now on. What a killed predecessor left running is ended.
pub(crate) fn take_over(
    ledger: &Loop,
    repo: &Repo,
    plan: &DrivePlan,
    at_once: bool,
) -> Result<(), DriveError> {
    let mut taken = None;
    ledger.append_what_follows(|state| {
        taken = state.drive.owner.clone().filter(lease::is_held);
        if taken.is_some() {
            return Vec::new();
        }
        let resumed = state.paused().is_some().then_some(Event::Resumed { renewed: false });
        let now = clock::now();
        let no_wait = (at_once && state.drive.wait.is_some())
            .then(|| Event::WaitsUntil { until: now, why: "a person said to go on".into() });
        resumed.into_iter().chain([Event::Owned { owner: lease::ours() }]).chain(no_wait).collect()
    })?;
    if let Some(owner) = taken {
        return Err(DriveError::Owned(owner));
    }
    proc::end_marked(&judge::run_mark(repo, &plan.loop_id));
    Ok(())
}

/// The gates that a loop began with hold to its end, whatever becomes of their file.
pub(crate) fn in_force(workspace: &Workspace, state: &State) -> io::Result<InForce> {
    // Read each time: the user may revoke what was accepted while the loop runs.
    let found = workspace.anew().gates_for(None, Beginning::of_loop(Some(state)))?;
    Ok(match found {
        // An agent that makes the file unreadable has changed it, no more: what was accepted can still be judged by.
        Found::InForce(in_force) if !in_force.config.gates.is_empty() => {
            InForce { broken: None, ..*in_force }
        }
        Found::InForce(in_force) => *in_force,
        Found::Nothing | Found::Untrusted(_) | Found::Revoked => {
            InForce::revoked(state.layout.unwrap_or(Layout::Native), state.definition.clone())
        }
    })
}

/// Keeps the tree of a loop that is over, which its driver was killed too early to keep.
pub(crate) fn keep_last_tree(repo: &Repo, repo_home: &RepoHome, id: &LoopId, state: &State) {
    if let (Some(number), Some(options)) = (state.drive.not_kept(), &state.drive.options) {
        let ledger = Arc::new(Loop::new(repo_home, id));
        let mut keeper = Keeper::new(repo, &ledger, id, options, &StopRequest::new());
        keeper.finish(number);
        keeper.settle(&mut NoFollower);
        keeper.put_away();
    }
}

/// What the agent is asked first.
pub(crate) fn first_prompt(plan: &DrivePlan) -> String {
    prompt(plan, None, 1, &Context::Fresh, Approach::GoOn, None)
}

/// What the iteration before came to, for the next prompt.
struct LastVerdict {
    before: State,
    seen: GatesSeen,
    standing: Standing,
    /// Nothing but the promise was missing.
    promise_missing: bool,
}

/// What the last run of the agent leaves for the next prompt and for the judgement.
#[derive(Default)]
struct LastRun {
    denials: Vec<Denial>,
    cut_off: Option<String>,
}

impl Driver<'_> {
    /// Drives until there is nothing more to do; the state then says why.
    pub(crate) fn drive(mut self) -> Result<State, DriveError> {
        proc::adopt_orphans();
        let _ends_with_us = WatchForFreedom::begin(&self.ledger, self.signals);
        let state = self.ledger.state()?;
        self.follow.receive(&LoopEvent::begins(self.plan, &state));
        let (last, last_run) = last_seen(&self.ledger, &state)?;
        self.keeper.tell(self.follow);
        if let Some(number) = state.drive.not_kept() {
            self.keeper.finish(number);
        }
        // Once an agent was at work it is no beginning any more.
        if state.drive.iterations == 0 && state.drive.wait.is_none() && state.drive.last_kept.is_none() {
            self.keeper.begin(0);
        }
        let tree_memory = Arc::<TreeMemory>::default();
        // What cannot be read now is told when it is judged.
        let found = judge::tree_reader(self.workspace).remembering(&tree_memory).read();
        let found = found.ok().map(Arc::new);
        let mut drive = Drive { driver: self, last, last_run, tree_memory, found };
        let state = match drive.run_to_end(state) {
            Err(error) => match error.tampering() {
                Some(what) => drive.end_tampered(what)?,
                None => return Err(error),
            },
            Ok(state) => state,
        };
        let Driver { mut keeper, follow, plan, .. } = drive.driver;
        keeper.settle(follow);
        let _said_where_it_matters = proc::end_everyone_left();
        if matches!(state.status, Status::Ended { .. }) {
            keeper.put_away();
        }
        follow.receive(&LoopEvent::ends(plan, &state));
        Ok(state)
    }

    fn dir(&self) -> PathBuf {
        self.workspace.repo_home.loop_dir(&self.plan.loop_id)
    }

    fn append(&self, events: &[Event]) -> Result<State, DriveError> {
        Ok(self.ledger.append(events)?)
    }
}

/// A drive while it goes on.
struct Drive<'a> {
    driver: Driver<'a>,
    last: Option<LastVerdict>,
    last_run: LastRun,
    /// What this process has read of the tree.
    tree_memory: Arc<TreeMemory>,
    /// The tree before its first run of the agent.
    found: Option<Arc<Tree>>,
}

impl Drive<'_> {
    fn run_to_end(&mut self, mut state: State) -> Result<State, DriveError> {
        loop {
            state = match drive::next(&state, clock::now()) {
                // What is on the disk must be what this verdict stands on.
                Next::Nothing => break Ok(self.driver.ledger.state()?),
                Next::Wait { until } => self.wait(state, until)?,
                Next::Run { iteration, context, approach } => {
                    self.run_agent(&state, iteration, &context, approach)?
                }
                Next::Judge { iteration } => self.judge(&state, iteration)?,
            };
            if self.driver.signals.caught().is_some() {
                break self.interrupt(state);
            }
        }
    }

    /// Somebody else wrote to the ledger: what this process wrote is put back, and the loop is over.
    fn end_tampered(&mut self, what: &str) -> Result<State, DriveError> {
        let _ended_before_anything_is_said = proc::end_everyone_left();
        let ledger = &self.driver.ledger;
        ledger.restore()?;
        let attempt = ledger.state()?.attempts;
        let judgement = Judgement {
            attempt,
            verdict: Verdict::Tampered,
            reason: Reason::LedgerTampered { what: what.to_owned() },
            limit: None,
            tree: None,
            failures: Vec::new(),
            head: None,
            tool_call: None,
            false_promise: false,
            process: Some(ledger::own_pid()),
        };
        Ok(ledger.append(&[Event::Judged(judgement)])?)
    }

    /// Waits for a usage limit. The wall clock counts: a machine may sleep meanwhile.
    fn wait(&mut self, state: State, until: jiff::Timestamp) -> Result<State, DriveError> {
        const LOOK_EVERY: Duration = Duration::from_secs(20);
        self.driver.keeper.settle(self.driver.follow);
        let why = state.drive.waits_for().unwrap_or_default();
        self.driver.follow.receive(&LoopEvent::Waits { until, why: why.to_owned() });
        loop {
            let left = Duration::try_from(until.duration_since(clock::now())).unwrap_or_default();
            if left.is_zero() || self.driver.signals.stop.wait(left.min(LOOK_EVERY)) {
                // Whoever freed us meanwhile has written it down.
                return Ok(self.driver.ledger.state()?);
            }
        }
    }

    fn run_agent(
        &mut self,
        state: &State,
        iteration: u32,
        context: &Context,
        approach: Approach,
    ) -> Result<State, DriveError> {
        let prompt_file = self.driver.dir().join("prompt.md");
        let prompt = self.prompt(iteration, context, approach);
        files::replace(&prompt_file, prompt.as_bytes())?;
        let line = self.command_line(state, &prompt_file, context);
        // The beginning: once a run is known to have begun, nobody takes it in any more.
        self.driver.keeper.taken_in();
        self.driver.keeper.go_on();
        if self.driver.signals.stop.asked() {
            return Ok(self.driver.ledger.state()?);
        }
        if state.drive.open.is_none() {
            let fresh = *context == Context::Fresh;
            self.driver.append(&[Event::IterationBegan { iteration, fresh }])?;
        }
        let of = self.driver.plan.limits.attempts.value;
        self.driver.follow.receive(&LoopEvent::IterationBegan { number: iteration, of, approach });
        let before = GitHead::of(&self.driver.workspace.repo.root);
        let AgentRan { mut run, summary } = self.call(state, iteration, context, &line)?;
        run.switched_to = GitHead::of(&self.driver.workspace.repo.root).switched_from(&before);
        run.promise = self.promise().map(|promise| promise::look(&promise, last_words(&summary)));
        let state = self.agent_ended(state, iteration, &run, &summary)?;
        self.driver.follow.receive(&LoopEvent::agent_ended(&run, &state));
        self.last_run = LastRun::of(&run);
        match self.never_worked(&run, &state) {
            Some(why) => self.driver.append(&[Event::Paused { why }]),
            None => {
                if let AgentEnd::LoginRefused { .. } = run.ended {
                    self.driver.signals.stop.wait(drive::back_off(state.drive.refused_logins));
                }
                Ok(state)
            }
        }
    }

    /// Why an agent that never came to work is not run again. There is nothing of its own to judge.
    fn never_worked(&self, run: &AgentRun, state: &State) -> Option<PauseCause> {
        const MOST_REFUSED: u32 = 2;
        match &run.ended {
            AgentEnd::CouldNotStart { why } => Some(PauseCause::AgentCouldNotStart { why: why.clone() }),
            AgentEnd::LoginRefused { why } if state.drive.refused_logins >= MOST_REFUSED => {
                Some(PauseCause::NotSignedIn { why: why.clone() })
            }
            _ => None,
        }
    }

    fn call(
        &mut self,
        state: &State,
        iteration: u32,
        context: &Context,
        line: &CommandLine,
    ) -> Result<AgentRan, DriveError> {
        let driver = &mut self.driver;
        let (options, dir) = (&driver.plan.options, driver.dir());
        let logs = dir.join("logs");
        files::private_dir(&logs)?;
        judge::keep_newest(&logs);
        let stamp = clock::now().strftime("%Y%m%dT%H%M%S%.3f");
        let repo = &driver.workspace.repo;
        let call = Call {
            line,
            root: &repo.root,
            environment: &environment(&driver.plan.profile, &driven::mark(repo, &driver.plan.loop_id)),
            dialect: driver.plan.profile.dialect,
            cost_before: match context {
                Context::Continue(_) => state.drive.session_cost,
                Context::Fresh => ralph_core::model::money::Micros::ZERO,
            },
            log: &logs.join(format!("{stamp}-agent-{iteration}.log")),
            marker: &proc::marker(&judge::run_mark(repo, &driver.plan.loop_id)),
            longest_run: time_left(state).map_or(options.longest_run, |left| left.min(options.longest_run)),
            longest_silence: options.longest_silence,
            signals: driver.signals,
            tree: &|| judge::tree_reader(driver.workspace).read().ok().map(|tree| TreeHash::new(tree.hash())),
            secrets: GateEnvironment::new(&driver.workspace.settings().user.keep_env, repo).secrets,
        };
        let follow = &mut *driver.follow;
        Ok(agent::run(call, &mut |event| follow.receive(&LoopEvent::Agent(event.clone()))))
    }

    /// Writes down how the run ended, and in the same breath what follows from it.
    fn agent_ended(
        &mut self,
        state: &State,
        iteration: u32,
        run: &AgentRun,
        summary: &StreamSummary,
    ) -> Result<State, DriveError> {
        let mut events = vec![Event::AgentEnded { iteration, run: run.clone() }];
        if let (AgentEnd::OutOfUsage { why }, Some(limit)) = (&run.ended, &summary.limit) {
            let until = drive::waits_until(limit, state.drive.waits_in_a_row, clock::now());
            events.push(Event::WaitsUntil { until, why: why.clone() });
        }
        self.driver.append(&events)
    }

    /// Whatever is down may come back: before the next run, once it is known that there is one.
    fn back_off(&self, state: &State) {
        let pause = drive::back_off(state.drive.failed_runs);
        if !pause.is_zero() {
            self.driver.signals.stop.wait(pause);
        }
    }

    fn judge(&mut self, state: &State, iteration: u32) -> Result<State, DriveError> {
        let driver = &self.driver;
        let in_force = in_force(driver.workspace, state)?;
        if !in_force.has_gates() {
            return driver.append(&[Event::Paused { why: PauseCause::NoGates }]);
        }
        // The keeper waits for us, no gate has begun: whoever is there came out of the agent.
        self.driver.keeper.settle(self.driver.follow);
        let processes = proc::end_everyone_left();
        if !processes.is_empty() {
            return self.driver.append(&[Event::Paused { why: PauseCause::StillRunning { processes } }]);
        }
        let judged = self.judge_by(state, &in_force);
        let outcome = match judged {
            Ok(outcome) => outcome,
            Err(EngineError::Interrupted(_) | EngineError::Freed) => {
                return Ok(self.driver.ledger.state()?);
            }
            Err(error) => return Err(error.into()),
        };
        let mut state = self.driver.ledger.state()?;
        if !matches!(outcome.decision, Decision::Wait { .. }) {
            self.driver.follow.receive(&LoopEvent::judged(iteration, &state));
        }
        match &outcome.decision {
            Decision::Hold { .. } => match self.why_to_pause(&state) {
                Some(why) => state = self.driver.append(&[Event::Paused { why }])?,
                None => {
                    if state.drive.rethinks {
                        self.driver.follow.receive(&LoopEvent::StrategyChanged);
                    }
                    self.back_off(&state);
                }
            },
            // It is over, or somebody has paused it meanwhile: the state says so.
            Decision::LetGo { .. } | Decision::Ignore(_) => {}
            // Looked at again when the time has come: the iteration stays open.
            Decision::Wait { .. } => return Ok(state),
            Decision::Gather => unreachable!("a judgement looks at the checks itself"),
        }
        if let Some(seen) = outcome.facts.gates().cloned() {
            let promise_missing = state.last.as_ref().is_some_and(lacks_promise_alone);
            let standing = outcome.facts.standing;
            self.last = Some(LastVerdict { before: outcome.before, seen, standing, promise_missing });
        }
        Ok(state)
    }

    /// What only a person can mend.
    fn why_to_pause(&self, state: &State) -> Option<PauseCause> {
        let errors = state.limits.as_ref().map_or(preset::DRIVE.errors, |limits| limits.errors.value);
        if let Some(rule) = state.drive.hopeless_rule() {
            return Some(PauseCause::Denied { rule: rule.to_owned() });
        }
        (state.drive.failed_runs >= errors).then_some(PauseCause::Errors)
    }

    fn judge_by(&mut self, state: &State, in_force: &InForce) -> Result<Outcome, EngineError> {
        let promise = self.promise();
        let driver = &mut self.driver;
        let goal = &driver.plan.goal;
        let promised = state.drive.open.as_ref().and_then(|open| open.promise.clone());
        let promise = promise.map(|_| promised.unwrap_or(PromiseSeen::Absent));
        let tasks = goal.list.as_ref().map(|list| tasks::read(&driver.workspace.repo.root, list));
        let claims = (promise.is_some() || tasks.is_some()).then(|| SessionStop {
            promise,
            tasks,
            ..SessionStop::default()
        });
        let id = driver.plan.loop_id.clone();
        let case = Case {
            ledger: driver.ledger.clone(),
            limits: state.limits.clone().unwrap_or_else(|| driver.plan.limits.clone()),
            head: GitHead::of(&driver.workspace.repo.root).commit,
            session_stop: claims,
            tree_memory: self.tree_memory.clone(),
            found: self.found.clone(),
            ..Case::new(driver.workspace, in_force, id, Subject::Driver, &preset::DRIVE)
        };
        let asked = Asked { signals: Some(driver.signals), ..Asked::all_of_it() };
        let to_keep = state.drive.to_keep();
        let mut gates = Gates { follow: &mut *driver.follow, keeper: &mut driver.keeper, to_keep };
        let judged = case.judge(&asked, &mut gates)?;
        gates.keep();
        Ok(judged)
    }

    /// What the agent has to promise.
    fn promise(&self) -> Option<Promise> {
        self.driver.plan.goal.promise.as_deref().and_then(Promise::new)
    }

    /// We were told to end: the agent and the gates are gone, and the loop waits for a person.
    fn interrupt(&mut self, state: State) -> Result<State, DriveError> {
        if !state.is_running() {
            return Ok(state);
        }
        self.driver.append(&[Event::Paused { why: PauseCause::Interrupted }])
    }

    fn prompt(&self, number: u32, context: &Context, approach: Approach) -> String {
        let (plan, run) = (self.driver.plan, &self.last_run);
        let tasks = plan.goal.list.as_ref().map(|list| tasks::read(&self.driver.workspace.repo.root, list));
        let last = self.last.as_ref().map(|last| LastTime {
            before: &last.before,
            seen: &last.seen,
            standing: &last.standing,
            denials: &run.denials,
            cut_off: run.cut_off.as_deref(),
            promise_missing: last.promise_missing,
        });
        prompt(plan, tasks.as_ref(), number, context, approach, last)
    }

    fn command_line(&self, state: &State, prompt_file: &std::path::Path, context: &Context) -> CommandLine {
        let plan = self.driver.plan;
        let budget_left = plan.limits.cost.value.map(|most| most.minus(state.drive.cost));
        let wish = RunWish {
            prompt_file,
            allowed: list::allowed_tools(&plan.gates, &plan.allow),
            context: context.clone(),
            budget_left,
            model: plan.options.model.as_deref(),
        };
        command_line(&plan.profile, &wish)
    }
}

fn prompt(
    plan: &DrivePlan,
    tasks: Option<&TasksSeen>,
    number: u32,
    context: &Context,
    approach: Approach,
    last: Option<LastTime<'_>>,
) -> String {
    prompt::text(&prompt::Iteration {
        task: &plan.goal.task,
        number,
        of: plan.limits.attempts.value,
        context,
        approach,
        gates: &plan.gates,
        tasks,
        promise: plan.goal.promise.as_deref().and_then(Promise::new).as_ref(),
        last,
    })
}

impl LastRun {
    /// All of it that is in the ledger.
    fn of(run: &AgentRun) -> Self {
        let cut_off = match &run.ended {
            AgentEnd::TimedOut => Some(format!("it took longer than {}", duration::show(run.took))),
            AgentEnd::WentSilent => Some("it neither printed nor changed anything for too long".into()),
            AgentEnd::Finished
            | AgentEnd::Failed { .. }
            | AgentEnd::OutOfUsage { .. }
            | AgentEnd::CouldNotStart { .. }
            | AgentEnd::LoginRefused { .. }
            | AgentEnd::Interrupted => None,
        };
        Self { denials: run.denied.clone(), cut_off }
    }
}

/// What a promise is looked for in.
fn last_words(summary: &StreamSummary) -> &str {
    summary.result.as_ref().map_or(&summary.last_words, |result| &result.text)
}

/// What the gates said when the loop was last judged and how the last run ended, for a drive that goes on after another.
fn last_seen(ledger: &Loop, state: &State) -> Result<(Option<LastVerdict>, LastRun), DriveError> {
    if state.drive.iterations == 0 {
        return Ok((None, LastRun::default()));
    }
    let (mut reports, mut last_run): (Vec<GateReport>, _) = (Vec::new(), LastRun::default());
    for line in ledger.lines()?.lines {
        match line.event {
            Event::RunStarted { .. } => reports.clear(),
            Event::GateRan { report, .. } => reports.push(report),
            Event::AgentEnded { run, .. } => last_run = LastRun::of(&run),
            _ => {}
        }
    }
    let last = state.last.as_ref().map(|last| LastVerdict {
        before: State::default(),
        seen: GatesSeen {
            reports,
            receipts: Vec::new(),
            required: Vec::new(),
            environment: None,
            tree: last.tree.clone().unwrap_or_else(|| TreeHash::new("")),
            unsettled: Vec::new(),
            moved: Vec::new(),
        },
        standing: Standing::Accepted,
        promise_missing: lacks_promise_alone(last),
    });
    Ok((last, last_run))
}

fn lacks_promise_alone(last: &LastJudgement) -> bool {
    matches!(last.reason, Reason::PromiseMissing { .. })
}

/// What the loop's own clock leaves for one run.
fn time_left(state: &State) -> Option<Duration> {
    // Not before the clock has certainly run out: a run that is cut off for it is the last one.
    let left = drive::clock_ends(state)?.duration_since(clock::now());
    Some(Duration::try_from(left).unwrap_or_default().max(Duration::from_secs(1)))
}

/// The person's own environment with what the profile sets; the marks of a session around us are not the agent's.
fn environment(profile: &Profile, mark: &str) -> Vec<(OsString, OsString)> {
    let mut variables: Vec<_> =
        env::all().filter(|(name, _)| !surroundings::is_mark_of_a_session(name)).collect();
    let outer: Vec<(OsString, OsString)> = variables.clone();
    let mut set = |name: &str, value: Option<OsString>| {
        variables.retain(|(other, _)| other != name);
        variables.extend(value.map(|value| (name.into(), value)));
    };
    for (name, value) in &profile.environment {
        set(
            name,
            match value {
                Value::Literal(text) => Some(text.into()),
                Value::From(other) => outer
                    .iter()
                    .find(|(name, _)| name.to_str() == Some(other))
                    .map(|(_, value)| value.clone()),
                Value::Unset => None,
            },
        );
    }
    set(env::LOOP, Some(mark.into()));
    variables
}

/// Tells of gates as news, and lets none begin before the tree was taken in.
struct Gates<'a> {
    follow: &'a mut dyn Follower,
    keeper: &'a mut Keeper,
    /// The iteration whose tree is still to be kept.
    to_keep: Option<u32>,
}

impl Gates<'_> {
    fn keep(&mut self) {
        if let Some(number) = self.to_keep.take() {
            self.keeper.keep(number, self.follow);
        }
    }
}

impl Watch for Gates<'_> {
    fn tree(&mut self, _tree: &Arc<Tree>) {
        self.keep();
        // A filter that the agent gave git may have left somebody behind, too.
        let _told_by_the_gates = proc::end_everyone_left();
    }

    fn started(&mut self, gate: &Gate) {
        self.follow.receive(&LoopEvent::GateStarted { gate: gate.name.clone() });
    }

    fn ended(&mut self, gate: &Gate) {
        self.follow.receive(&LoopEvent::GateEnded { gate: gate.name.clone() });
    }

    fn finished(&mut self, report: &GateReport, _receipt: Option<&Receipt>, _findable: Findable) {
        self.follow.receive(&LoopEvent::gate_finished(report));
    }

    fn changed(&mut self, files: &[String]) {
        self.follow.receive(&LoopEvent::TreeChanged { files: files.to_vec() });
    }

    fn seen(&mut self) {
        // Where nothing had to be run, nobody told us of the tree.
        self.keep();
        self.keeper.go_on();
    }
}
