//! The one engine behind every door: look, decide, remember, act.
//!
//! A stop takes one or two steps of [`decide`]. State changes only under the repo's lock, which is held for moments;
//! gates run outside it, one set at a time in one repo, and whoever waited finds the receipts.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use ralph_core::ledger::decide::{Decision, decide};
use ralph_core::ledger::event::{Event, Subject};
use ralph_core::ledger::facts::{ExportSeen, Facts, SessionStop};
use ralph_core::ledger::state::{State, Status};
use ralph_core::model::finding::Finding;
use ralph_core::model::gate::receipt::Receipt;
use ralph_core::model::gate::{self, Answer, Gate, GateReport};
use ralph_core::model::id::{LoopId, SessionId, TreeHash};
use ralph_core::model::limits::Limits;
use ralph_core::model::preset::{Check, Preset};
use ralph_core::model::verdict::Trouble;

use crate::checks::gates::environment::GateEnvironment;
use crate::checks::gates::{self, AtHand, Findable, GatesLock, Run, Watch, receipts};
use crate::checks::{hygiene, markers, promise, tasks};
use crate::loops::report;
use crate::store::effective_gates::InForce;
use crate::store::exports::loop_file::OnDisk;
use crate::store::exports::state_file::Export;
use crate::store::ledger::{self, Ledger, LedgerError, Loop};
use crate::store::repo::Repo;
use crate::store::rewritten_files;
use crate::store::workspace::Workspace;
use crate::sys::files::{self, Lock};
use crate::sys::signals::Signals;
use crate::sys::{clock, proc};
use crate::work_tree::fingerprint::{GitUse, IgnoreRules, Tree, TreeMemory, TreeReader};

/// One subject's loop in one repo, and all that is known before anything is looked at.
pub(crate) struct Case<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) in_force: &'a InForce,
    pub(crate) loop_id: LoopId,
    /// What is remembered of the loop.
    pub(crate) ledger: Arc<Loop>,
    pub(crate) subject: Subject,
    pub(crate) session: Option<SessionId>,
    /// When that session began, as far as it is known.
    pub(crate) session_began: Option<Timestamp>,
    pub(crate) task: Option<String>,
    pub(crate) preset: &'static Preset,
    pub(crate) limits: Limits,
    /// Only some of the gates are looked at: what they show is no receipt.
    pub(crate) is_part: bool,
    /// The user wants to know: receipts of earlier runs may stand in, and new ones are kept.
    pub(crate) uses_receipts: bool,
    /// The completion markers to be stated where there is no gate.
    pub(crate) markers: Vec<String>,
    /// The commit that the tree stands on, where the driver looked.
    pub(crate) head: Option<String>,
    /// What the session says and shows, where it is the session that stops.
    pub(crate) session_stop: Option<SessionStop>,
    /// The commit since which what was added is looked at, where that is asked for; none: the last one.
    pub(crate) since: Option<String>,
    /// Files that the user's own runs rewrote with equal content, where it is known since when they count.
    pub(crate) rewritten: Option<Vec<String>>,
    /// What this process has read of the tree.
    pub(crate) tree_memory: Arc<TreeMemory>,
    /// The tree as the driver found it before the first run of the agent.
    pub(crate) found: Option<Arc<Tree>>,
}

/// How the checks are to be looked at this time.
pub(crate) struct Asked<'a> {
    pub(crate) arrived: Timestamp,
    pub(crate) deadline: Option<Instant>,
    pub(crate) last_message: &'a str,
    pub(crate) jobs: usize,
    pub(crate) keep_going: bool,
    pub(crate) fresh: bool,
    /// Who hears of signals and of a person who frees the subject; without one it is watched for while gates run.
    pub(crate) signals: Option<&'a Signals>,
}

impl Asked<'_> {
    /// Everything is run now, to its end, however long it takes.
    pub(crate) fn all_of_it() -> Asked<'static> {
        Asked {
            arrived: clock::now(),
            deadline: None,
            last_message: "",
            jobs: jobs(),
            keep_going: true,
            fresh: true,
            signals: None,
        }
    }
}

/// What came of it, with all that is needed to tell people and agents.
pub(crate) struct Outcome {
    pub(crate) decision: Decision,
    pub(crate) facts: Facts,
    /// The state before this stop was judged.
    pub(crate) before: State,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum EngineError {
    #[error("the state cannot be written: {0}")]
    Ledger(#[from] LedgerError),
    #[error("the state cannot be written: {0}")]
    Io(#[from] io::Error),
    #[error("interrupted by signal {0}")]
    Interrupted(i32),
    #[error("a person freed the session while its gates ran")]
    Freed,
}

impl<'a> Case<'a> {
    pub(crate) fn new(
        workspace: &'a Workspace,
        in_force: &'a InForce,
        loop_id: LoopId,
        subject: Subject,
        preset: &'static Preset,
    ) -> Self {
        Self {
            ledger: workspace.loop_of(&loop_id),
            limits: workspace.settings().limits(in_force.layout, &in_force.config.budget),
            workspace,
            in_force,
            loop_id,
            subject,
            preset,
            session: None,
            session_began: None,
            task: None,
            is_part: false,
            uses_receipts: false,
            markers: Vec::new(),
            head: None,
            session_stop: None,
            since: None,
            rewritten: None,
            tree_memory: Arc::default(),
            found: None,
        }
    }
}

impl Case<'_> {
    /// Judges a stop, or a plain wish to know: the same steps. What passes on files that failed before is looked at twice.
    pub(crate) fn judge(&self, asked: &Asked<'_>, watch: &mut dyn Watch) -> Result<Outcome, EngineError> {
        self.workspace.repo_home.create()?;
        let mut facts = self.facts(asked)?;
        loop {
            let (before, decision) = self.step(&mut facts)?;
            if decision != Decision::Gather {
                return Ok(Outcome { decision, facts, before });
            }
            facts.is_second_look = facts.findings.is_some();
            facts.findings = Some(self.gather(asked, watch)?);
            facts.failed_elsewhere = self.failed_elsewhere(&facts);
            watch.seen();
            facts.now = clock::now();
        }
    }

    /// The trees on which other loops of this session failed, where that matters.
    fn failed_elsewhere(&self, facts: &Facts) -> Vec<TreeHash> {
        /// The ones last active first.
        const MOST_LOOKED_AT: usize = 20;
        let passes = facts.gates().is_some_and(|seen| seen.answer() == Answer::Pass);
        let Some(session) = self.session.as_ref().filter(|_| passes) else { return Vec::new() };
        let others = self
            .workspace
            .repo_home
            .loops()
            .into_iter()
            .filter(|id| *id != self.loop_id)
            .take(MOST_LOOKED_AT);
        let loops = others.map(|id| self.workspace.loop_of(&id));
        let of_session = loops.filter(|other| other.mentions(session.as_str().as_bytes()));
        let states = of_session.filter_map(|other| other.state().ok());
        // What failed by other gates says nothing about these.
        let same_gates = |state: &State| state.definition == self.in_force.sha256;
        let of_session = |state: &State| state.session.as_ref() == Some(session) && same_gates(state);
        states.filter(of_session).flat_map(|state| state.failed_trees).collect()
    }

    /// Looks at the checks and says what would be decided, without judging anybody: for a part of the gates, or to see
    /// whether they work.
    pub(crate) fn look(&self, asked: &Asked<'_>, watch: &mut dyn Watch) -> Result<Outcome, EngineError> {
        self.workspace.repo_home.create()?;
        let mut facts = self.facts(asked)?;
        facts.findings = Some(self.gather(asked, watch)?);
        let gates = self.in_force.config.gates.iter().map(|gate| gate.name.clone()).collect();
        self.remember(&[Event::Looked { gates }])?;
        let before = State::default();
        Ok(Outcome { decision: decide(&before, &facts).decision, facts, before })
    }

    fn facts(&self, asked: &Asked<'_>) -> Result<Facts, EngineError> {
        let export = self.settle_export()?;
        Ok(Facts {
            arrived: asked.arrived,
            now: asked.arrived,
            subject: self.subject.clone(),
            session: self.session.clone(),
            task: self.task.clone(),
            layout: self.in_force.layout,
            preset: self.preset,
            limits: self.limits.clone(),
            definition: self.in_force.sha256.clone(),
            standing: self.in_force.standing.clone(),
            checks: self.checks(),
            export,
            head: self.head.clone(),
            session_stop: self.session_stop.clone(),
            process: ledger::own_pid(),
            rewritten: self.rewritten(asked)?,
            failed_elsewhere: Vec::new(),
            findings: None,
            is_second_look: false,
        })
    }

    /// The files that the user's own runs rewrote with equal content before the loop or its session began. What is known
    /// of them when it begins holds to its end.
    fn rewritten(&self, asked: &Asked<'_>) -> Result<Vec<String>, EngineError> {
        let state = self.ledger.state()?;
        if state.goal.is_some() || state.is_running() {
            return Ok(state.rewritten);
        }
        if let Some(rewritten) = &self.rewritten {
            return Ok(rewritten.clone());
        }
        Ok(rewritten_files::before(&self.workspace.repo_home, self.session_began.unwrap_or(asked.arrived)))
    }

    fn settle_export(&self) -> Result<ExportSeen, EngineError> {
        if !self.shows_state() {
            return Ok(ExportSeen::default());
        }
        let _lock = self.lock()?;
        let export = self.export();
        Ok(export.settle(export.look())?)
    }

    /// Whether the state file in the repo is this loop's: a plain look at the gates leaves it alone.
    fn shows_state(&self) -> bool {
        matches!(self.subject, Subject::SubAgent { .. }) && self.in_force.layout.data().export.is_some()
    }

    /// The checks of the preset that this repo and this stop have something for, in their order.
    pub(crate) fn checks(&self) -> Vec<Check> {
        let config = &self.in_force.config;
        let has_gates = self.in_force.has_gates();
        let applies = |check: &Check| match check {
            Check::Gates => has_gates,
            Check::Promise | Check::TaskList => has_gates || self.preset.claims_alone,
            Check::MarkersWithoutGates => config.enabled && !has_gates && !self.markers.is_empty(),
            Check::Hygiene => config.enabled,
        };
        self.preset.done_when.iter().copied().filter(applies).collect()
    }

    /// One step of the machine under the lock: fold, decide, remember, and show it in the repo.
    fn step(&self, facts: &mut Facts) -> Result<(State, Decision), EngineError> {
        if facts.checks.is_empty() {
            return Ok((State::default(), decide(&State::default(), facts).decision));
        }
        let mut ledger = self.ledger.open(facts.now)?;
        let before = ledger.state().clone();
        let step = decide(&before, facts);
        if !step.events.is_empty() {
            ledger.append(facts.now, &step.events)?;
            if step.decision != Decision::Gather {
                ledger.sweep();
            }
        }
        self.act(&step.decision, &ledger);
        // What the export said has been taken up.
        facts.export = ExportSeen { deletions: ledger.state().deletions_seen, ..ExportSeen::default() };
        Ok((before, step.decision))
    }

    /// What stands in the ledger holds, whether or not it can be shown in the repo: an agent that makes the folder
    /// read-only is not let go for it.
    fn act(&self, decision: &Decision, ledger: &Ledger<'_>) {
        if matches!(decision, Decision::LetGo { .. }) {
            ledger.sync();
            let _not_there_yet = std::fs::remove_file(self.rules_file());
        }
        let _only_shown = match decision {
            _ if !self.shows_state() => Ok(()),
            Decision::Hold { .. } if ledger.state().attempts > 0 => self.export().write(ledger.state()),
            Decision::LetGo { .. } => self.export().remove(),
            Decision::Gather | Decision::Hold { .. } | Decision::Wait { .. } | Decision::Ignore(_) => Ok(()),
        };
    }

    /// Looks at the checks in their order. The gates take long, so they are not run for work that another check stops.
    fn gather(&self, asked: &Asked<'_>, watch: &mut dyn Watch) -> Result<Vec<Finding>, EngineError> {
        if let Some(trouble) = self.trouble() {
            return Ok(vec![Finding::CannotTell { check: Check::Gates, trouble }]);
        }
        let mut findings: Vec<Finding> = Vec::new();
        for check in self.checks() {
            let is_stopped = findings.iter().any(|finding| finding.answer() != Answer::Pass);
            findings.extend(match check {
                Check::Gates if is_stopped => None,
                Check::Gates => Some(self.run_gates(&self.in_force.config.gates, asked, watch)?),
                Check::TaskList => self.session_stop.as_ref().and_then(tasks::look),
                Check::Promise => self.session_stop.as_ref().and_then(promise::look),
                Check::MarkersWithoutGates => Some(markers::look(&self.markers, asked.last_message)),
                Check::Hygiene => Some(hygiene::look(
                    &self.workspace.repo.root,
                    self.workspace.repo_home.dir(),
                    self.since.as_deref(),
                )),
            });
        }
        Ok(findings)
    }

    /// What keeps every check from telling anything.
    fn trouble(&self) -> Option<Trouble> {
        let broken = self
            .in_force
            .broken
            .as_ref()
            .map(|broken| Trouble::Config { file: broken.path.to_owned(), problem: broken.problem.clone() });
        self.workspace.settings().trouble.clone().or(broken)
    }

    /// Runs these gates, writing down what is seen as it is seen.
    fn run_gates(
        &self,
        gates: &[Gate],
        asked: &Asked<'_>,
        watch: &mut dyn Watch,
    ) -> Result<Finding, EngineError> {
        let pinned = match &self.found {
            Some(found) => Some(found.rules().clone()),
            None => self.pinned_rules()?,
        };
        let mut reader =
            tree_reader(self.workspace).own_files(|| self.export().own_file().into_iter().collect());
        // Whoever decides believes nothing that others could have written.
        if asked.fresh || !self.uses_receipts {
            reader = reader.remembering(&self.tree_memory);
        }
        let rewritten = self.rewritten(asked)?;
        if let Some(rules) = &pinned {
            reader = reader.pinned_rules(rules);
        }
        let environment =
            GateEnvironment::new(&self.workspace.settings().user.keep_env, &self.workspace.repo);
        let logs = self.loop_dir().join("logs");
        let signals = asked.signals.cloned().unwrap_or_else(Signals::watch);
        let watches = asked.signals.is_none() && self.session_stop.is_some();
        let _until_the_gates_are_done = watches.then(|| WatchForFreedom::begin(&self.ledger, &signals));
        let run = Run {
            gates,
            home: &self.workspace.repo_home,
            root: &self.workspace.repo.root,
            reader: &reader,
            environment: &environment,
            mark: &run_mark(&self.workspace.repo, &self.loop_id),
            logs: logs.clone(),
            excerpt: self.in_force.layout.data().excerpt,
            deadline: asked.deadline,
            jobs: asked.jobs,
            keep_going: asked.keep_going,
            fresh: asked.fresh || !self.uses_receipts,
            stop: &signals.stop,
            accepted_rules: files::read_if_there(&self.workspace.repo_home.accepted_rules())?
                .and_then(|bytes| IgnoreRules::from_bytes(&bytes)),
            all_gates: !self.is_part,
            rewritten: (self.subject != Subject::Plain).then_some(rewritten.as_slice()),
            found: self.found.as_deref(),
        };
        let mut just_read = None;
        if !run.fresh {
            match run.receipts_at_hand() {
                Ok(AtHand::All(seen)) => return Ok(Finding::Gates(seen)),
                Ok(AtHand::NotAll(tree)) => just_read = Some(tree),
                // It is read again below, and told of then.
                Err(_) => {}
            }
        }
        files::private_dir(&logs)?;
        keep_newest(&logs);
        let patience =
            asked.deadline.map_or(HOURS, |deadline| deadline.saturating_duration_since(Instant::now()));
        let mut one_set_at_a_time =
            GatesLock::take_unless(&self.workspace.repo_home, Duration::ZERO, || false)?;
        if one_set_at_a_time.is_none() {
            // Who waits for another's gates looks at the tree again afterwards.
            just_read = None;
            one_set_at_a_time =
                GatesLock::take_unless(&self.workspace.repo_home, patience, || signals.stop.asked())?;
        }
        self.unless_interrupted(&signals)?;
        let Some(_one_set_at_a_time) = one_set_at_a_time else {
            let why = "another ralph has been running this repo's gates all the time".into();
            return Ok(Finding::CannotTell { check: Check::Gates, trouble: Trouble::Busy { why } });
        };
        proc::adopt_orphans();
        let mut scribe = Scribe { case: self, watch, failed: None };
        let seen = run.go(just_read, &mut scribe);
        let failed = scribe.failed;
        if let (Ok(seen), true) = (&seen, self.uses_receipts) {
            rewritten_files::remember(&self.workspace.repo_home, &seen.moved, clock::now())?;
        }
        if seen.as_ref().is_ok_and(|seen| seen.reports.iter().any(was_told_to_end)) {
            signals.wait(OUR_TURN_COMES);
        }
        self.unless_interrupted(&signals)?;
        match (failed, seen) {
            (Some(error), _) => Err(error),
            (None, Ok(seen)) => Ok(Finding::Gates(seen)),
            (None, Err(trouble)) => Ok(Finding::CannotTell { check: Check::Gates, trouble }),
        }
    }

    /// Being told to end is remembered; whatever the gates left goes first.
    fn unless_interrupted(&self, signals: &Signals) -> Result<(), EngineError> {
        let why = match signals.caught() {
            Some(signal) => format!("signal {signal}"),
            None if signals.is_freed() => "the person freed the session".to_owned(),
            None => return Ok(()),
        };
        proc::sweep_all();
        self.remember(&[Event::Interrupted { why }])?;
        Err(signals.caught().map_or(EngineError::Freed, EngineError::Interrupted))
    }

    fn remember(&self, events: &[Event]) -> Result<(), EngineError> {
        self.ledger.append(events)?;
        Ok(())
    }

    fn lock(&self) -> Result<Lock, EngineError> {
        Ok(self.workspace.repo_home.lock_state()?)
    }

    fn export(&self) -> Export<'_> {
        Export::new(&self.workspace.repo_home, &self.workspace.repo.root, self.in_force.layout)
    }

    fn loop_dir(&self) -> PathBuf {
        self.workspace.repo_home.loop_dir(&self.loop_id)
    }

    fn pinned_rules(&self) -> io::Result<Option<IgnoreRules>> {
        if !self.pins_rules() {
            return Ok(None);
        }
        Ok(files::read_if_there(&self.rules_file())?.and_then(|bytes| IgnoreRules::from_bytes(&bytes)))
    }

    /// Nobody is held by a plain look at the gates: it takes the rules as they are.
    fn pins_rules(&self) -> bool {
        self.subject != Subject::Plain
    }

    /// The ignore rules at a held agent's first run: an edit of `.gitignore` during its loop hides nothing.
    fn rules_file(&self) -> PathBuf {
        self.workspace.repo_home.ignore_rules(&self.loop_id)
    }
}

/// Reads the tree of a repo, without what we ourselves show in it.
pub(crate) fn tree_reader(workspace: &Workspace) -> TreeReader<'_> {
    let Workspace { repo, repo_home: home, .. } = workspace;
    let file = OnDisk::new(home, &repo.root);
    TreeReader::new(&repo.root)
        .cache(home.tree_cache())
        .own_files(move || file.own_files())
        .own_files(|| report::own_files(home))
}

/// What the mark of everything begins with that is run for a loop: its gates, and the agent that the driver runs.
pub(crate) fn run_mark(repo: &Repo, id: &LoopId) -> String {
    proc::owner_of_runs(&repo.id(), id.as_str())
}

/// Ends what is run for a loop that stops running meanwhile: somebody paused or cancelled it.
pub(crate) struct WatchForFreedom {
    /// Dropped with us, which is what the watcher waits for.
    _done: std::sync::mpsc::Sender<()>,
}

impl WatchForFreedom {
    pub(crate) fn begin(ledger: &Arc<Loop>, signals: &Signals) -> Self {
        const LOOK_EVERY: Duration = Duration::from_millis(150);
        let (done, is_done) = std::sync::mpsc::channel();
        let (signals, ledger) = (signals.clone(), ledger.clone());
        let _without_it_the_gates_run_to_their_end = std::thread::Builder::new().spawn(move || {
            while is_done.recv_timeout(LOOK_EVERY) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                // A ledger that was tampered with is found out again by whoever we stop here.
                let is_over = match ledger.state() {
                    Ok(state) => matches!(state.status, Status::Paused { .. } | Status::Ended { .. }),
                    Err(error) => matches!(error, LedgerError::Tampered { .. }),
                };
                if is_over {
                    signals.free();
                    return;
                }
            }
        });
        Self { _done: done }
    }
}

/// Who ends us with all that we started may reach a gate first; we are told moments later.
const OUR_TURN_COMES: Duration = Duration::from_millis(300);

/// Whether a gate ended as one does that is asked to.
fn was_told_to_end(report: &GateReport) -> bool {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    matches!(report.outcome, gate::Outcome::Signalled { signal: SIGHUP | SIGINT | SIGTERM })
}

const HOURS: Duration = Duration::from_secs(6 * 3600);

/// Old logs go when there are too many; the newest are the ones anybody asks for. Not one by one: it is looked at before each
/// run.
pub(crate) fn keep_newest(logs: &std::path::Path) {
    const MOST: usize = 60;
    const A_FEW: usize = 20;
    let Ok(entries) = std::fs::read_dir(logs) else { return };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    if paths.len() < MOST + A_FEW {
        return;
    }
    // Their names begin with the time.
    paths.sort();
    for path in paths.iter().rev().skip(MOST) {
        let _gone = std::fs::remove_file(path);
    }
}

/// Writes down what a run shows, as it shows it: a run that is killed half way keeps the receipts it made.
struct Scribe<'a> {
    case: &'a Case<'a>,
    watch: &'a mut dyn Watch,
    failed: Option<EngineError>,
}

impl Scribe<'_> {
    fn write(&mut self, event: Event, findable: Findable) {
        if self.failed.is_none()
            && let Err(error) = self.append(event, findable)
        {
            self.failed = Some(error);
        }
    }

    fn append(&self, event: Event, findable: Findable) -> Result<(), EngineError> {
        let case = self.case;
        let now = clock::now();
        let mut ledger = case.ledger.open(now)?;
        // We hold the lock of the gates: an open run whose process is gone was killed before its verdict.
        if let (Event::RunStarted { .. }, Some(pid)) = (&event, ledger.state().running)
            && !proc::is_alive(pid)
        {
            let why = format!("process {pid} ended before its verdict");
            ledger.append(now, &[Event::Interrupted { why }])?;
        }
        let (offset, _) = ledger.end();
        ledger.append(now, std::slice::from_ref(&event))?;
        if let (Event::GateRan { receipt: Some(receipt), .. }, Findable::Again, true) =
            (&event, findable, case.uses_receipts)
        {
            let (_, head) = ledger.end();
            receipts::point_to(&case.workspace.repo_home, receipt, &case.loop_id, offset, &head.hash)?;
        }
        Ok(())
    }
}

impl Watch for Scribe<'_> {
    fn tree(&mut self, tree: &Arc<Tree>) {
        let rules = self.case.rules_file();
        if self.case.pins_rules() && !rules.exists() {
            let _without_it_nothing_is_pinned = files::replace(&rules, &tree.rules().to_bytes());
        }
        let note = match tree.git() {
            GitUse::Failed(why) => Some(format!("git could not list the tracked files: {why}")),
            GitUse::Listed | GitUse::Cached | GitUse::NoRepo => None,
        };
        let pid = ledger::own_pid();
        self.write(
            Event::RunStarted { tree: TreeHash::new(tree.hash()), files: tree.len(), pid, note },
            Findable::Never,
        );
        self.watch.tree(tree);
    }

    fn started(&mut self, gate: &Gate) {
        self.watch.started(gate);
    }

    fn ended(&mut self, gate: &Gate) {
        self.watch.ended(gate);
    }

    fn finished(&mut self, report: &GateReport, receipt: Option<&Receipt>, findable: Findable) {
        if !report.reused() {
            self.write(Event::GateRan { report: report.clone(), receipt: receipt.cloned() }, findable);
        }
        self.watch.finished(report, receipt, findable);
    }

    fn changed(&mut self, files: &[String]) {
        self.watch.changed(files);
    }
}

/// Nobody watches.
pub(crate) struct Unwatched;

impl Watch for Unwatched {}

/// How many gates run at once where nobody says.
pub(crate) fn jobs() -> usize {
    gates::default_jobs()
}
