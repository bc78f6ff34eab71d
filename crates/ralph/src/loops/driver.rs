//! `ralph loop`: runs a headless agent, then the gates, then decides, until the work is verified or a limit is reached.
//!
//! ```text
//!            ┌─────────────── Block ────────────────┐
//!            ▼                                      │
//!  next ─► Run: agent ─► AgentEnded ─► Judge: gates ┴─► Release: over
//!    ▲                       │
//!    └──── WaitsUntil ◄──────┘ usage limit reached
//! ```
//!
//! The next step is computed from the ledger alone ([`drive::next`]), and every step is recorded before the next one
//! starts, so a loop can be resumed after a kill at any point and each iteration is judged exactly once. The verdict comes
//! from the engine, as for hooks; what the agent says is shown but decides nothing.

mod agent;
pub(crate) mod baseline;
pub(crate) mod checkpointer;
pub(crate) mod driven;
pub(crate) mod lease;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent::{AgentCall, AgentRan};
use checkpointer::Checkpointer;
use ralph_core::claims::honest_exit::AgentAnswers;
use ralph_core::claims::promise::{self, Promise};
use ralph_core::clients::list;
use ralph_core::clients::profile::{CommandLine, Context, Profile, RunOptions, Value, command_line};
use ralph_core::clients::stream::{Denial, StreamSummary};
use ralph_core::ledger::decide::Decision;
use ralph_core::ledger::drive::{self, Approach, NextStep};
use ralph_core::ledger::drive_plan::DrivePlan;
use ralph_core::ledger::event::{
    AgentEnd, AgentRun, CancelCause, Event, Judgement, Owner, PauseCause, Subject,
};
use ralph_core::ledger::facts::{DefinitionStatus, SessionStop};
use ralph_core::ledger::loop_event::LoopEvent;
use ralph_core::ledger::ship::ShippedBy;
use ralph_core::ledger::state::{LastJudgement, State, Status};
use ralph_core::model::evidence::RequiredProof;
use ralph_core::model::finding::{GatesSeen, TasksSeen};
use ralph_core::model::gate::receipt::Receipt;
use ralph_core::model::gate::{Gate, GateReport};
use ralph_core::model::goal::Goal;
use ralph_core::model::id::{LoopId, TreeHash};
use ralph_core::model::layout::Layout;
use ralph_core::model::promise_seen::PromiseSeen;
use ralph_core::model::verdict::{EvaluationError, Reason, Verdict};
use ralph_core::model::{duration, preset};
use ralph_core::say::prompt::{self, LastIteration};

use crate::checks::gates::environment::GateEnvironment;
use crate::checks::gates::{GateObserver, ReceiptReuse};
use crate::checks::ship::{Shipping, ShippingOptions};
use crate::checks::tasks;
use crate::clients::surroundings;
use crate::loops::evidence::StartOfWork;
use crate::loops::judge::{self, CancelWatcher, EngineError, JudgeCase, JudgeOptions, Judged};
use crate::show::progress::follower::{Follower, NoFollower};
use crate::store::acceptance::Beginning;
use crate::store::effective_gates::{EffectiveGates, GatesLookup};
use crate::store::home::RepoHome;
use crate::store::ledger::{LedgerError, Loop};
use crate::store::repo::Repo;
use crate::store::workspace::Workspace;
use crate::store::{ledger, rewritten_files};
use crate::sys::proc::StopRequest;
use crate::sys::signals::Signals;
use crate::sys::{clock, env, files, proc, trace};
use crate::work_tree::fingerprint::{Tree, TreeMemory};
use crate::work_tree::git::head::GitHead;

/// Everything needed to drive one loop.
pub(crate) struct Driver<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) plan: &'a DrivePlan,
    pub(crate) signals: &'a Signals,
    pub(crate) follow: &'a mut dyn Follower,
    /// Already holds the tree from before the first iteration, the base for everything the loop changed.
    pub(crate) checkpointer: Checkpointer,
    /// This process's own record of the loop; changes by other writers are treated as tampering.
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
    #[error("the acceptance command passes already, so it cannot show anything: {command}")]
    PassesAlready { command: String },
    #[error("process {} is already driving this loop", .0.process)]
    Owned(Owner),
}

impl DriveError {
    /// How another process changed the ledger, if that caused the error.
    fn tampering(&self) -> Option<&str> {
        match self {
            Self::Ledger(LedgerError::Tampered { what })
            | Self::Engine(EngineError::Ledger(LedgerError::Tampered { what })) => Some(what),
            _ => None,
        }
    }
}

/// Records a new loop, owned by this process from its first line.
pub(crate) fn begin(
    repo_home: &RepoHome,
    ledger: &Loop,
    plan: &DrivePlan,
    effective: &EffectiveGates,
    more: Vec<Event>,
) -> Result<(), DriveError> {
    let began = Event::Began {
        subject: Subject::Driver,
        session: None,
        task: None,
        layout: effective.layout,
        preset: preset::of_drive(plan.goal.until()).name.to_owned(),
        definition: effective.sha256.clone(),
        limits: plan.limits.clone(),
        goal: Some(plan.goal.clone()),
        prompt: None,
        drive: Some(plan.options.clone()),
        rewritten: rewritten_files::before(repo_home, clock::now()),
    };
    let first = [began, Event::DriverStarted { owner: lease::ours() }];
    ledger.append(&first.into_iter().chain(more).collect::<Vec<_>>())?;
    Ok(())
}

/// Resumes a loop that has no running driver and becomes its owner. Processes left by a killed driver are ended.
pub(crate) fn take_over(
    ledger: &Loop,
    repo: &Repo,
    plan: &DrivePlan,
    at_once: bool,
) -> Result<(), DriveError> {
    let mut taken = None;
    ledger.append_following(|state| {
        taken = state.drive.owner.clone().filter(lease::is_held);
        if taken.is_some() {
            return Vec::new();
        }
        let resumed = state.paused().is_some().then_some(Event::Resumed { renewed: false });
        let now = clock::now();
        let no_wait = (at_once && state.drive.wait.is_some())
            .then(|| Event::WaitingUntil { until: now, why: "resumed by the user".into() });
        resumed.into_iter().chain([Event::DriverStarted { owner: lease::ours() }]).chain(no_wait).collect()
    })?;
    if let Some(owner) = taken {
        return Err(DriveError::Owned(owner));
    }
    proc::end_marked(&judge::run_mark(repo, &plan.loop_id));
    Ok(())
}

/// A loop keeps the gates it began with until it ends, even if their file changes.
pub(crate) fn effective_gates(workspace: &Workspace, state: &State) -> io::Result<EffectiveGates> {
    // Read every time: the user may revoke acceptance while the loop runs.
    let found = workspace.reload_trust().gates_for(None, Beginning::of_loop(Some(state)))?;
    let ships = state.goal.as_ref().is_some_and(|goal| goal.ship.is_some());
    let effective = match found {
        // An unreadable file counts as a changed one: the accepted definition can still be used.
        GatesLookup::Effective(effective) if !effective.config.gates.is_empty() => {
            baseline::with_acceptance(EffectiveGates { broken: None, ..*effective }, state)
        }
        GatesLookup::Effective(effective) => *effective,
        GatesLookup::Nothing | GatesLookup::Untrusted(_) | GatesLookup::Revoked => {
            EffectiveGates::revoked(state.layout.unwrap_or(Layout::Native), state.definition.clone())
        }
    };
    Ok(if ships { effective.for_shipping() } else { effective })
}

/// Commits the final tree of a finished loop whose driver was killed before it could.
pub(crate) fn commit_last_tree(repo: &Repo, repo_home: &RepoHome, id: &LoopId, state: &State) {
    if let (Some(number), Some(options)) = (state.drive.uncommitted_iteration(), &state.drive.options) {
        let ledger = Arc::new(Loop::new(repo_home, id));
        let mut checkpointer = Checkpointer::new(repo, &ledger, id, options, &StopRequest::new());
        checkpointer.finish(number);
        checkpointer.settle(&mut NoFollower);
        checkpointer.clean_up();
    }
}

/// The first prompt for the agent.
pub(crate) fn first_prompt(plan: &DrivePlan) -> String {
    prompt(plan, None, 1, &Context::Fresh, Approach::Continue, None, &[])
}

/// The result of the previous iteration, for the next prompt.
struct LastVerdict {
    before: State,
    seen: GatesSeen,
    definition_status: DefinitionStatus,
    /// Only the promise was missing.
    promise_missing: bool,
    /// What is missing beyond the gates.
    ship: Option<String>,
    /// Only a test that fails without the change was missing.
    proof_missing: bool,
}

/// What the last agent run provides for the next prompt and the judgement.
#[derive(Default)]
struct LastRun {
    denials: Vec<Denial>,
    cut_off: Option<String>,
}

impl Driver<'_> {
    /// Drives until there is nothing left to do; the returned state says why.
    pub(crate) fn drive(mut self) -> Result<State, DriveError> {
        proc::adopt_orphans();
        let _cancel_watcher = CancelWatcher::begin(&self.ledger, self.signals);
        let state = self.ledger.state()?;
        self.follow.receive(&LoopEvent::begins(self.plan, &state));
        let (last, last_run) = load_last_results(&self.ledger, &state)?;
        self.checkpointer.report_problem(self.follow);
        if let Some(number) = state.drive.uncommitted_iteration() {
            self.checkpointer.finish(number);
        }
        // Once an agent has run, this is no longer the initial tree.
        if state.drive.iterations == 0 && state.drive.wait.is_none() && state.drive.last_kept.is_none() {
            self.checkpointer.begin(0);
        }
        let tree_memory = Arc::<TreeMemory>::default();
        // A read error here is reported when the tree is judged.
        let effective = effective_gates(self.workspace, &state).ok();
        let found = judge::tree_reader(self.workspace, effective.as_ref()).remembering(&tree_memory).read();
        let found = found.ok().map(Arc::new);
        let start = StartOfWork::default();
        let mut drive =
            ActiveDrive { driver: self, last, last_run, tree_memory, found, kept_gates: None, start };
        let state = match drive.look_at_start(state).and_then(|state| drive.run_to_end(state)) {
            Err(error) => match error.tampering() {
                Some(what) => drive.end_tampered(what)?,
                None => {
                    drive.end_refused(&error)?;
                    return Err(error);
                }
            },
            Ok(state) => state,
        };
        let Driver { mut checkpointer, follow, plan, .. } = drive.driver;
        checkpointer.settle(follow);
        let _reported_by_judge = proc::end_everyone_left();
        if matches!(state.status, Status::Ended { .. }) {
            checkpointer.clean_up();
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

/// A running drive.
struct ActiveDrive<'a> {
    driver: Driver<'a>,
    last: Option<LastVerdict>,
    last_run: LastRun,
    /// What this process has read of the tree so far.
    tree_memory: Arc<TreeMemory>,
    /// The tree before its first agent run.
    found: Option<Arc<Tree>>,
    /// The gates that this process ran before the wait that is going on.
    kept_gates: Option<GatesSeen>,
    /// Where the loop began.
    start: StartOfWork,
}

impl ActiveDrive<'_> {
    fn run_to_end(&mut self, mut state: State) -> Result<State, DriveError> {
        loop {
            state = match drive::next(&state, clock::now()) {
                // The files on disk must be the ones this verdict is about.
                NextStep::Nothing => break Ok(self.driver.ledger.state()?),
                NextStep::Wait { until } => self.wait(state, until)?,
                NextStep::Run { iteration, context, approach } => {
                    self.run_agent(&state, iteration, &context, approach)?
                }
                NextStep::Judge { iteration } => self.judge(&state, iteration)?,
            };
            if self.driver.signals.caught().is_some() {
                break self.interrupt(state);
            }
        }
    }

    /// A loop that cannot show anything is not left open.
    fn end_refused(&mut self, error: &DriveError) -> Result<(), DriveError> {
        if let DriveError::PassesAlready { .. } = error {
            let why = CancelCause::Failed { why: error.to_string() };
            self.driver.append(&[Event::Cancelled { why }])?;
        }
        Ok(())
    }

    /// Another process wrote to the ledger: restores what this process wrote and ends the loop.
    fn end_tampered(&mut self, what: &str) -> Result<State, DriveError> {
        let _ended = proc::end_everyone_left();
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
            shown: Vec::new(),
            process: Some(ledger::own_pid()),
        };
        Ok(ledger.append(&[Event::Judged(judgement)])?)
    }

    /// Waits out a usage limit, by wall clock: the machine may sleep meanwhile.
    fn wait(&mut self, state: State, until: jiff::Timestamp) -> Result<State, DriveError> {
        const LOOK_EVERY: Duration = Duration::from_secs(20);
        self.driver.checkpointer.settle(self.driver.follow);
        let why = state.drive.waits_for().unwrap_or_default();
        self.driver.follow.receive(&LoopEvent::Waits { until, why: why.to_owned() });
        loop {
            let left = Duration::try_from(until.duration_since(clock::now())).unwrap_or_default();
            if left.is_zero() || self.driver.signals.stop.wait(clock::real(left).min(LOOK_EVERY)) {
                // The process that cancelled the wait has already recorded it.
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
        // Once a run is recorded as started, the initial tree can no longer be staged.
        self.driver.checkpointer.wait_until_staged();
        self.driver.checkpointer.continue_commit();
        if self.driver.signals.stop.is_requested() {
            return Ok(self.driver.ledger.state()?);
        }
        if state.drive.open.is_none() {
            let fresh = *context == Context::Fresh;
            self.driver.append(&[Event::IterationBegan { iteration, fresh }])?;
        }
        let of = self.driver.plan.limits.attempts.value;
        self.driver.follow.receive(&LoopEvent::IterationBegan { number: iteration, of, approach });
        let before = GitHead::of(&self.driver.workspace.repo.root);
        trace::step(|| format!("prepared iteration {iteration}"));
        let AgentRan { mut run, summary } = self.call_agent(state, iteration, context, &line)?;
        trace::step(|| format!("ran the agent, iteration {iteration}"));
        run.switched_to = GitHead::of(&self.driver.workspace.repo.root).switched_from(&before);
        run.promise = self.promise().map(|promise| promise::look(&promise, last_words(&summary)));
        run.answers = AgentAnswers::of(last_words(&summary));
        let state = self.record_agent_end(state, iteration, &run, &summary)?;
        self.driver.follow.receive(&LoopEvent::agent_ended(&run, &state));
        self.last_run = LastRun::of(&run);
        match self.startup_failure(&run, &state) {
            Some(why) => self.driver.append(&[Event::Paused { why }]),
            None => {
                if let AgentEnd::LoginRefused { .. } = run.ended {
                    self.driver.signals.stop.wait(drive::back_off(state.drive.refused_logins));
                }
                Ok(state)
            }
        }
    }

    /// Why an agent that failed to start working is not run again; there is no work to judge.
    fn startup_failure(&self, run: &AgentRun, state: &State) -> Option<PauseCause> {
        const MOST_REFUSED: u32 = 2;
        match &run.ended {
            AgentEnd::CouldNotStart { why } => Some(PauseCause::AgentCouldNotStart { why: why.clone() }),
            AgentEnd::LoginRefused { why } if state.drive.refused_logins >= MOST_REFUSED => {
                Some(PauseCause::NotSignedIn { why: why.clone() })
            }
            _ => None,
        }
    }

    fn call_agent(
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
        judge::prune_logs(&logs);
        let stamp = clock::now().strftime("%Y%m%dT%H%M%S%.3f");
        let repo = &driver.workspace.repo;
        let effective = effective_gates(driver.workspace, state).ok();
        let call = AgentCall {
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
            tree: &|| {
                let tree = judge::tree_reader(driver.workspace, effective.as_ref()).read();
                tree.ok().map(|tree| TreeHash::new(tree.hash()))
            },
            secrets: GateEnvironment::new(&driver.workspace.settings().user.keep_env, repo).secrets,
        };
        let follow = &mut *driver.follow;
        Ok(agent::run(call, &mut |event| follow.receive(&LoopEvent::Agent(event.clone()))))
    }

    /// Records how the run ended and what follows from it in one write.
    fn record_agent_end(
        &mut self,
        state: &State,
        iteration: u32,
        run: &AgentRun,
        summary: &StreamSummary,
    ) -> Result<State, DriveError> {
        let mut events = vec![Event::AgentEnded { iteration, run: run.clone() }];
        if let (AgentEnd::OutOfUsage { why }, Some(limit)) = (&run.ended, &summary.limit) {
            let until = drive::waits_until(limit, state.drive.waits_in_a_row, clock::now());
            events.push(Event::WaitingUntil { until, why: why.clone() });
        }
        self.driver.append(&events)
    }

    /// A service that is down may recover, so wait before the next run, once there will be one.
    fn back_off(&self, state: &State) {
        let pause = drive::back_off(state.drive.failed_runs);
        if !pause.is_zero() {
            self.driver.signals.stop.wait(pause);
        }
    }

    fn judge(&mut self, state: &State, iteration: u32) -> Result<State, DriveError> {
        let driver = &self.driver;
        let effective = effective_gates(driver.workspace, state)?;
        if !effective.has_gates() {
            return driver.append(&[Event::Paused { why: PauseCause::NoGates }]);
        }
        // The checkpointer is waiting and no gate has started, so every remaining process was started by the agent.
        self.driver.checkpointer.settle(self.driver.follow);
        let processes = proc::end_everyone_left();
        if !processes.is_empty() {
            return self.driver.append(&[Event::Paused { why: PauseCause::StillRunning { processes } }]);
        }
        let judged = self.judge_with_gates(state, &effective);
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
            Decision::Block { .. } => match self.pause_cause(&state) {
                Some(why) => state = self.driver.append(&[Event::Paused { why }])?,
                None => {
                    if state.drive.rethinks {
                        self.driver.follow.receive(&LoopEvent::StrategyChanged);
                    }
                    self.back_off(&state);
                }
            },
            // It is over, or was paused meanwhile: the state says which.
            Decision::Allow { .. } | Decision::Ignore(_) => {}
            // Judged again when the wait is over: the iteration stays open.
            Decision::Wait { .. } => {
                self.kept_gates = outcome.facts.gates().cloned();
                return Ok(state);
            }
            Decision::Gather | Decision::Act(_) | Decision::Prove => {
                unreachable!("a judgement gathers its own findings")
            }
        }
        self.kept_gates = None;
        let ship = prompt::ship_feedback(&outcome.facts, state.last.as_ref().map(|last| &last.reason));
        let seen = outcome.facts.gates().cloned().or_else(|| ship.is_some().then(no_gates_seen));
        if let Some(seen) = seen {
            let promise_missing = state.last.as_ref().is_some_and(lacks_only_promise);
            let proof_missing = state.last.as_ref().is_some_and(lacks_only_proof);
            let status = outcome.facts.definition_status;
            self.last = Some(LastVerdict {
                before: outcome.before,
                seen,
                definition_status: status,
                promise_missing,
                ship,
                proof_missing,
            });
        }
        Ok(state)
    }

    /// A problem that only the user can fix.
    fn pause_cause(&self, state: &State) -> Option<PauseCause> {
        let errors = state.limits.as_ref().map_or(preset::DRIVE.errors, |limits| limits.errors.value);
        if let Some(rule) = state.drive.repeatedly_denied_rule() {
            return Some(PauseCause::Denied { rule: rule.to_owned() });
        }
        (state.drive.failed_runs >= errors).then_some(PauseCause::Errors)
    }

    fn judge_with_gates(&mut self, state: &State, effective: &EffectiveGates) -> Result<Judged, EngineError> {
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
        let case = JudgeCase {
            ledger: driver.ledger.clone(),
            limits: state.limits.clone().unwrap_or_else(|| driver.plan.limits.clone()),
            head: GitHead::of(&driver.workspace.repo.root).commit,
            session_stop: claims,
            tree_memory: self.tree_memory.clone(),
            found: self.found.clone(),
            shipping: shipping(driver, goal, effective),
            kept_gates: self.kept_gates.take(),
            start: self.start.clone(),
            proof: Some(goal.proof.unwrap_or(RequiredProof::Test)),
            answers: Some(state.drive.open.as_ref().map(|open| open.answers.clone()).unwrap_or_default()),
            ..JudgeCase::new(driver.workspace, effective, id, Subject::Driver, preset::of_drive(goal.until()))
        };
        let asked = JudgeOptions { signals: Some(driver.signals), ..JudgeOptions::without_deadline() };
        let to_keep = state.drive.to_keep();
        let mut gates =
            Gates { follow: &mut *driver.follow, checkpointer: &mut driver.checkpointer, to_keep };
        let judged = case.judge(&asked, &mut gates)?;
        gates.keep();
        Ok(judged)
    }

    /// The promise that the agent has to state.
    fn promise(&self) -> Option<Promise> {
        agents_promise(self.driver.plan)
    }

    /// A signal ended this drive: the agent and the gates are gone, and the loop waits for the user.
    fn interrupt(&mut self, state: State) -> Result<State, DriveError> {
        if !state.is_running() {
            return Ok(state);
        }
        self.driver.append(&[Event::Paused { why: PauseCause::Interrupted }])
    }

    fn prompt(&self, number: u32, context: &Context, approach: Approach) -> String {
        let (plan, run) = (self.driver.plan, &self.last_run);
        let tasks = plan.goal.list.as_ref().map(|list| tasks::read(&self.driver.workspace.repo.root, list));
        let last = self.last.as_ref().map(|last| LastIteration {
            before: &last.before,
            seen: &last.seen,
            definition_status: &last.definition_status,
            denials: &run.denials,
            cut_off: run.cut_off.as_deref(),
            promise_missing: last.promise_missing,
            ship: last.ship.as_deref(),
            proof_missing: last.proof_missing,
        });
        prompt(plan, tasks.as_ref(), number, context, approach, last, &self.start.baseline)
    }

    fn command_line(&self, state: &State, prompt_file: &std::path::Path, context: &Context) -> CommandLine {
        let plan = self.driver.plan;
        let budget_left = plan.limits.cost.value.map(|most| most.minus(state.drive.cost));
        let options = RunOptions {
            prompt_file,
            allowed: list::allowed_tools(&plan.gates, &plan.allow),
            context: context.clone(),
            budget_left,
            model: plan.options.model.as_deref(),
        };
        command_line(&plan.profile, &options)
    }
}

/// The promise that the agent has to state. Beyond the gates ralph says itself what was reached.
fn agents_promise(plan: &DrivePlan) -> Option<Promise> {
    let promise = plan.goal.promise.as_deref().filter(|_| plan.goal.ship.is_none());
    promise.and_then(Promise::new)
}

/// For a judgement that ended before the gates.
fn no_gates_seen() -> GatesSeen {
    GatesSeen {
        reports: Vec::new(),
        receipts: Vec::new(),
        required: Vec::new(),
        environment: None,
        tree: TreeHash::new(""),
        unsettled: Vec::new(),
        moved: Vec::new(),
    }
}

/// The way to the goal beyond the gates, with the user's git and forge.
fn shipping(
    driver: &Driver<'_>,
    goal: &Goal,
    effective: &EffectiveGates,
) -> Option<Result<Shipping, EvaluationError>> {
    let workspace = driver.workspace;
    Shipping::new(ShippingOptions {
        goal,
        by: ShippedBy::Ralph,
        root: &workspace.repo.root,
        scratch: workspace.repo_home.dir(),
        logs: driver.dir().join("logs"),
        secrets: GateEnvironment::new(&workspace.settings().user.keep_env, &workspace.repo).secrets,
        has_gates: effective.has_gates(),
        gates: driver.plan.gates.iter().map(|gate| format!("`{}`", gate.run.trim())).collect(),
        stop: &driver.signals.stop,
    })
}

fn prompt(
    plan: &DrivePlan,
    tasks: Option<&TasksSeen>,
    number: u32,
    context: &Context,
    approach: Approach,
    last: Option<LastIteration<'_>>,
    at_start: &[GateReport],
) -> String {
    prompt::text(&prompt::PromptInput {
        task: &plan.goal.task,
        number,
        of: plan.limits.attempts.value,
        context,
        approach,
        gates: &plan.gates,
        tasks,
        promise: agents_promise(plan).as_ref(),
        until: plan.goal.until(),
        at_start,
        last,
    })
}

impl LastRun {
    /// Everything that the ledger records about the run.
    fn of(run: &AgentRun) -> Self {
        let cut_off = match &run.ended {
            AgentEnd::TimedOut => Some(format!("timed out after {}", duration::show(run.took))),
            AgentEnd::WentSilent => Some("no output and no file changes for too long".into()),
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

/// The text searched for a promise.
fn last_words(summary: &StreamSummary) -> &str {
    summary.result.as_ref().map_or(&summary.last_words, |result| &result.text)
}

/// The last gate results and how the last run ended, for a resumed drive.
fn load_last_results(ledger: &Loop, state: &State) -> Result<(Option<LastVerdict>, LastRun), DriveError> {
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
        definition_status: DefinitionStatus::Accepted,
        promise_missing: lacks_only_promise(last),
        ship: prompt::ship_reason(&last.reason),
        proof_missing: lacks_only_proof(last),
    });
    Ok((last, last_run))
}

fn lacks_only_promise(last: &LastJudgement) -> bool {
    matches!(last.reason, Reason::PromiseMissing { .. })
}

fn lacks_only_proof(last: &LastJudgement) -> bool {
    matches!(last.reason, Reason::ProofMissing { .. })
}

/// The time that the loop's limit leaves for one run.
fn time_left(state: &State) -> Option<Duration> {
    // Not before the limit has definitely passed: a run cut off by it is the last one.
    let left = drive::clock_ends(state)?.duration_since(clock::now());
    Some(Duration::try_from(left).unwrap_or_default().max(Duration::from_secs(1)))
}

/// The user's environment plus the profile's variables, without the variables of a surrounding session.
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

/// Reports gate progress, and starts no gate before the tree is staged.
struct Gates<'a> {
    follow: &'a mut dyn Follower,
    checkpointer: &'a mut Checkpointer,
    /// The iteration whose tree is not staged yet.
    to_keep: Option<u32>,
}

impl Gates<'_> {
    fn keep(&mut self) {
        if let Some(number) = self.to_keep.take() {
            self.checkpointer.keep(number, self.follow);
        }
    }
}

impl GateObserver for Gates<'_> {
    fn tree(&mut self, _tree: &Arc<Tree>) {
        self.keep();
        // A git filter configured by the agent may have left processes behind, too.
        let _reported_by_gates = proc::end_everyone_left();
    }

    fn started(&mut self, gate: &Gate) {
        self.follow.receive(&LoopEvent::GateStarted { gate: gate.name.clone() });
    }

    fn ended(&mut self, gate: &Gate) {
        self.follow.receive(&LoopEvent::GateEnded { gate: gate.name.clone() });
    }

    fn finished(&mut self, report: &GateReport, _receipt: Option<&Receipt>, _findable: ReceiptReuse) {
        self.follow.receive(&LoopEvent::gate_finished(report));
    }

    fn changed(&mut self, files: &[String]) {
        self.follow.receive(&LoopEvent::TreeChanged { files: files.to_vec() });
    }

    fn gathered(&mut self) {
        // If no gate had to run, the tree was not reported.
        self.keep();
        self.checkpointer.continue_commit();
    }
}
