//! `ralph loop`: runs a headless agent repeatedly until the gates pass on the tree it leaves.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ralph_core::clients::list;
use ralph_core::clients::profile::Profile;
use ralph_core::ledger::drive_plan::DrivePlan;
use ralph_core::ledger::event::Event;
use ralph_core::ledger::facts::DefinitionStatus;
use ralph_core::ledger::state::{State, Status};
use ralph_core::model::budget::{Attempts, Budget};
use ralph_core::model::drive_options::{AgentContext, DriveOptions};
use ralph_core::model::evidence::{Evidence, RequiredProof};
use ralph_core::model::goal::{Goal, ListSource};
use ralph_core::model::id::{LoopId, TreeHash};
use ralph_core::model::layout::Clocks;
use ralph_core::model::limits::{Limits, LimitsRaise, Origin, WithOrigin};
use ralph_core::model::money::Micros;
use ralph_core::model::ship::{CI_PASSED, ForgeSeen, ShipPlan, Until};
use ralph_core::model::short_id::ShortId;
use ralph_core::model::verdict::Verdict;
use ralph_core::model::{duration, preset};
use ralph_core::say::words;

use super::context::CommandContext;
use super::verify::{self, VerifyResult};
use super::{CommandError, CommandResult, init};
use crate::checks::ship::{self, ShipRequest};
use crate::checks::{quality_files, tasks};
use crate::forge::ForgeError;
use crate::loops::driver::baseline;
use crate::loops::driver::checkpointer::Checkpointer;
use crate::loops::driver::driven::{self, DrivenLoop};
use crate::loops::driver::{self, DriveError, Driver};
use crate::loops::evidence::StartOfWork;
use crate::loops::judge::{self, JudgeCase, JudgeOptions};
use crate::loops::session::start;
use crate::loops::{ancestry, report};
use crate::show::progress::follow::{self, Output};
use crate::show::progress::plan::PlanSheet;
use crate::show::terminal::live::GateDisplay;
use crate::show::terminal::{self, FAINT, paint};
use crate::show::{exit, language};
use crate::store::effective_gates::{EffectiveGates, GatesLookup};
use crate::store::ledger::Loop;
use crate::store::repo::Repo;
use crate::store::settings::Settings;
use crate::sys::env;
use crate::sys::files::{self, Lock};
use crate::sys::signals::Signals;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(super) struct Arguments {
    /// The task for the agent
    #[arg(value_name = "TASK")]
    task: Vec<String>,
    #[arg(long, value_name = "NAME", default_value = list::DEFAULT, help = agent_help(), add = super::completions::agents())]
    agent: String,
    /// Same as --agent glm5
    #[arg(long, conflicts_with = "agent")]
    with_glm5: bool,
    /// Same as --agent minimax
    #[arg(long, conflicts_with_all = ["agent", "with_glm5"])]
    mmc: bool,
    /// Stop after this many iterations, or `unlimited` [default: set by the agent, 15 or 30]
    #[arg(long, value_name = "N", value_parser = iterations)]
    max_iterations: Option<Attempts>,
    /// Stop after this time: 90m, 8h
    #[arg(long, value_name = "TIME", value_parser = duration::parse_with_unit)]
    max_time: Option<Duration>,
    /// Stop when this many dollars are spent; a client with its own cost limit gets the remaining amount
    #[arg(long, value_name = "USD", value_parser = dollars)]
    max_cost: Option<Micros>,
    /// Require the agent to print <promise>TEXT</promise>, alone on a line, when it is done; if it forgets, ask once more
    #[arg(long, value_name = "TEXT")]
    completion_promise: Option<String>,
    /// End when verified, at the open pull request (pr), when its CI passed (ci), or merged; beyond `verified` ralph pushes,
    /// opens and merges with your git and `gh`
    #[arg(long, value_name = "GOAL")]
    until: Option<Until>,
    /// Also require every checkbox in FILE to be ticked
    #[arg(long, value_name = "FILE")]
    tasks: Option<String>,
    /// Proof that the task requires: `test` (a gate, test or acceptance command that fails without the change),
    /// `behaviour-kept` (the same tests pass before and after), or `off` [default: test]
    #[arg(long, value_name = "WHAT", value_parser = proof)]
    proof: Option<RequiredProof>,
    /// Also require COMMAND, which must fail now, to pass at the end; can be given several times
    #[arg(long, value_name = "COMMAND")]
    accept: Vec<String>,
    /// Accept an acceptance command that passes already
    #[arg(long)]
    accept_green: bool,
    /// Do not run the gates before the first iteration; what went from red to green is then not known
    #[arg(long)]
    no_baseline: bool,
    /// Start each iteration with a fresh context (the default)
    #[arg(long, conflicts_with = "continue_session")]
    fresh: bool,
    /// Continue the previous iteration's session, if the client supports it
    #[arg(long = "continue")]
    continue_session: bool,
    /// Model name, as the client spells it [default: the client's own settings]
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// End an agent run after this time
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration::parse_with_unit)]
    max_run: Duration,
    /// End an agent run after this time without output or file changes
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = duration::parse_with_unit)]
    max_silence: Duration,
    /// Do not save each iteration's tree as a hidden git ref
    #[arg(long)]
    no_checkpoints: bool,
    /// Timeout for gates without one
    #[arg(long, value_name = "TIME")]
    gate_timeout: Option<String>,
    /// Print the plan, the gates and the first prompt; run nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    output: OutputArguments,
}

/// The output options.
#[derive(clap::Args)]
pub(super) struct OutputArguments {
    /// Print all events as JSON lines on stdout, for scripts
    #[arg(long)]
    json: bool,
    /// Print only the final result
    #[arg(long, short)]
    quiet: bool,
}

const AFTER_HELP: &str = "Examples:
  ralph loop \"fix the tests\"
  ralph loop \"fix the tests\" --max-time 8h --max-cost 20    overnight
  ralph loop --agent codex \"make the linter happy\" --max-iterations 5
  ralph loop \"add the export\" --until merged                pull request, CI, merge
  ralph loop \"migrate to v2\" --agent 'command:./agent.sh'    any program that reads a prompt

Ctrl-C pauses the loop (exit code 130), a second one ends it at once. `ralph resume` continues it,
also after a kill. Exit codes: 0 verified, 1 a limit was reached, 2 usage, 3 user action required,
4 stuck, 5 the gates were tampered with, 6 the gates pass but nothing shows the task,
129/130/143 interrupted.";

fn agent_help() -> String {
    let names: Vec<String> = list::built_in().into_iter().map(|profile| profile.name).collect();
    format!("Agent: {}, one from your config, or `command:` followed by a shell command", names.join(", "))
}

fn proof(text: &str) -> Result<RequiredProof, String> {
    text.parse()
}

fn iterations(text: &str) -> Result<Attempts, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1; use `unlimited` for no limit".into()),
        Ok(most) => Ok(Attempts::AtMost(most)),
        Err(_) if text == "unlimited" => Ok(Attempts::Unlimited),
        Err(_) => Err("expected a number such as 15, or `unlimited`".into()),
    }
}

pub(super) fn dollars(text: &str) -> Result<Micros, String> {
    let number = text.trim_start_matches('$').parse().ok().and_then(Micros::from_dollars);
    number
        .filter(|sum| *sum > Micros::ZERO)
        .ok_or_else(|| "expected an amount in dollars such as 5 or 2.50".into())
}

pub(super) fn run(arguments: &Arguments) -> CommandResult {
    let mut place = CommandContext::here(arguments.gate_timeout.as_deref())?;
    refuse_inside_a_loop(&place)?;
    let goal = arguments.goal(&place)?;
    let effective = arguments.gates(&mut place)?;
    let profile = arguments.profile(&place, &effective)?;
    if arguments.max_cost.is_some() && !profile.dialect.reports_cost() {
        return Err(CommandError::new(exit::USAGE, format!("`{}` does not report its cost", profile.name))
            .hint("--max-cost cannot be enforced for this agent; use --max-time or --max-iterations"));
    }
    let until = arguments.until(&goal);
    if until > Until::Verified {
        place.refuse_in_agent_shell("let ralph push, open a pull request or merge")?;
    }
    let mut plan = arguments.plan(&place, goal, profile, &effective);
    let seen = arguments.ship(&place, &mut plan, until, &effective)?;
    if arguments.dry_run {
        for line in PlanSheet(&plan).lines() {
            terminal::print(line);
        }
        terminal::print(format_args!("\nFirst prompt:\n\n{}", driver::first_prompt(&plan)));
        return Ok(ExitCode::SUCCESS);
    }
    require_runnable(&plan.profile, &place.repo)?;
    let place = place.patient();
    let _lock = lock_work_tree(&place)?;
    let signals = Signals::watch();
    // This takes longest, so the rest of the start runs in parallel.
    let ledger = Arc::new(Loop::driven_here(&place.repo_home, &plan.loop_id));
    let mut checkpointer =
        Checkpointer::new(&place.repo, &ledger, &plan.loop_id, &plan.options, &signals.stop);
    checkpointer.begin(0);
    let more = match (&plan.goal.ship, &seen) {
        (Some(ship), Some(seen)) => begin_shipping(&place, ship, seen, effective)?,
        _ => (Vec::new(), effective),
    };
    let (events, effective) = more;
    driver::begin(&place.repo_home, &ledger, &plan, &effective, events)?;
    drive(&place, &plan, (ledger, checkpointer), &signals, &arguments.output)
}

/// Leaves the default branch, and binds the claims that exist to the code of now.
fn begin_shipping(
    place: &CommandContext,
    ship: &ShipPlan,
    seen: &ForgeSeen,
    effective: Box<EffectiveGates>,
) -> Result<(Vec<Event>, Box<EffectiveGates>), CommandError> {
    let root = &place.repo.root;
    let switched =
        ship::leave_default_branch(ship, seen, root, place.repo_home.dir()).map_err(unreachable)?;
    let effective = Box::new(effective.for_shipping());
    let tree = judge::tree_reader(place, Some(&effective)).read()?;
    let bound = quality_files::at_start(root, &TreeHash::new(tree.hash()));
    Ok((switched.into_iter().chain(bound).collect(), effective))
}

fn unreachable(error: ForgeError) -> CommandError {
    CommandError::new(exit::NEEDS_PERSON, error.what).hint(error.next)
}

/// Drives a loop owned by this process, and prints how it ended.
fn drive(
    place: &CommandContext,
    plan: &DrivePlan,
    (ledger, checkpointer): (Arc<Loop>, Checkpointer),
    signals: &Signals,
    output: &OutputArguments,
) -> CommandResult {
    let output = output.output();
    let tasks = plan.goal.list.clone().map(|list| tasks::progress_of(place.repo.root.clone(), list));
    let mut follow = follow::new(output, plan, &place.home, tasks, signals);
    let driver = Driver { workspace: place, plan, signals, follow: &mut follow, checkpointer, ledger };
    let state = driver.drive()?;
    drop(follow);
    end(place, &plan.loop_id, &state, output);
    Ok(ExitCode::from(exit::of_drive(&state, signals.caught())))
}

/// The last loop here, if its driver was killed after it ended but before printing that.
pub(super) fn ended_without_output(place: &CommandContext) -> Result<Option<DrivenLoop>, CommandError> {
    let Some(last) = DrivenLoop::last_in(&place.repo_home)? else { return Ok(None) };
    let setting = report::setting(place);
    let was_printed =
        last.is_open() || last.driven_by().is_some() || report::is_written(place, &last.id, setting)?;
    Ok((!was_printed).then_some(last))
}

/// Prints that end.
pub(super) fn print_end(
    place: &CommandContext,
    found: &DrivenLoop,
    output: &OutputArguments,
) -> CommandResult {
    files::sweep_temporary(&place.repo_home.loop_dir(&found.id));
    driver::commit_last_tree(&place.repo, &place.repo_home, &found.id, &found.state);
    if let (Output::Quiet, Ok(Some(report))) = (output.output(), report::of_loop(place, &found.id)) {
        report.summary().iter().take(1).for_each(|line| terminal::remark(terminal::painted(line)));
    }
    end(place, &found.id, &found.state, output.output());
    Ok(ExitCode::from(exit::of_drive(&found.state, None)))
}

/// The loop was recorded as verified by another process, so its gates are run again.
pub(super) fn verify_again(
    place: &CommandContext,
    found: &DrivenLoop,
    output: &OutputArguments,
) -> CommandResult {
    let effective = driver::effective_gates(place, &found.state)?;
    if !effective.has_gates() {
        return Err(no_gates_left());
    }
    if let DefinitionStatus::Changed { .. } | DefinitionStatus::Revoked = effective.definition_status {
        return Err(CommandError::new(exit::TAMPERED, "the gate definition changed since this loop began")
            .hint("review the change with `ralph trust --show`, or put the accepted one back with `ralph trust --restore`"));
    }
    let asked = JudgeOptions::without_deadline();
    let is_json = output.output() == Output::Json;
    let mut live = GateDisplay::new(&effective.config.gates, is_json);
    let goal = found.state.goal.as_ref();
    let case = JudgeCase {
        start: StartOfWork::stored(&place.repo_home, found.state.start.as_ref()),
        proof: goal.and_then(|goal| goal.proof),
        ..verify::verify_case(place, &effective)
    };
    let looked = case.run_without_verdict(&asked, &mut live)?;
    drop(live);
    let verified = VerifyResult::from(&looked.decision, &looked.facts, false);
    if is_json {
        terminal::json(&verified.json());
    } else {
        terminal::print(format_args!(
            "{} has ended and is recorded as verified; its gates were run again:",
            ShortId::of(&found.id)
        ));
        verified.show();
    }
    if verified.exit_code() != exit::VERIFIED {
        return Ok(ExitCode::from(verified.exit_code()));
    }
    match case.evidence_for(&asked, &looked.facts, &found.state)? {
        // Its end may never have been printed.
        Evidence::Verified(_) => print_end(place, found, output),
        other => {
            if !is_json {
                terminal::print(words::evidence(&other, language::of_user()));
                terminal::print("GATES_PASS");
            }
            Ok(ExitCode::from(exit::GATES_PASS))
        }
    }
}

fn no_gates_left() -> CommandError {
    CommandError::new(exit::NEEDS_PERSON, "no accepted gates left; nothing was run")
        .hint("accept them again with `ralph trust`, or end the loop with `ralph cancel`")
}

/// Writes the report and prints the result. The end counts even if the report fails.
fn end(place: &CommandContext, id: &LoopId, state: &State, output: Output) {
    let setting = report::setting(place);
    let written = report::write(place, id, setting);
    if output == Output::People
        && let Ok(Some(report)) = report::of_loop(place, id)
    {
        let columns = 20;
        for line in report.summary().into_iter().chain(report.grid(columns)) {
            terminal::print(terminal::painted(&line));
        }
    }
    match written {
        Ok(Some(written)) if output == Output::People => {
            terminal::print(paint(FAINT, format!("report: {}", written.markdown.display())));
        }
        Ok(_) => {}
        Err(error) => terminal::remark(format_args!("the report could not be written: {error}")),
    }
    let last_line = match state.status {
        Status::Ended { verdict: Verdict::Verified } => Some("VERIFIED_DONE"),
        Status::Ended { verdict: Verdict::Passing } => Some("GATES_PASS"),
        Status::Ended { verdict: Verdict::Unchanged } => Some("UNCHANGED"),
        _ => None,
    };
    if let Some(line) = last_line.filter(|_| output != Output::Json) {
        if state.goal.as_ref().map(Goal::until) == Some(Until::Merged) && exit::has_shipped(state) {
            terminal::print(format_args!("<promise>{CI_PASSED}</promise>"));
        }
        terminal::print(line);
    }
}

impl OutputArguments {
    fn output(&self) -> Output {
        match self {
            Self { json: true, .. } => Output::Json,
            Self { quiet: true, .. } => Output::Quiet,
            _ => Output::People,
        }
    }
}

impl Arguments {
    /// Where the loop ends: as asked for, otherwise what its promise implies.
    fn until(&self, goal: &Goal) -> Until {
        let implied = || goal.promise.as_deref().and_then(Until::implied_by);
        self.until.or_else(implied).unwrap_or_default()
    }

    /// Adds the way to a goal beyond the gates to the plan, if there is one and the forge can be reached.
    fn ship(
        &self,
        place: &CommandContext,
        plan: &mut DrivePlan,
        until: Until,
        effective: &EffectiveGates,
    ) -> Result<Option<ForgeSeen>, CommandError> {
        if until == Until::Verified {
            return Ok(None);
        }
        place.repo_home.create()?;
        let promise = plan.goal.promise.as_deref();
        let request = ShipRequest {
            until,
            settings: &effective.config.ship,
            by_promise: promise.is_some_and(|promise| Until::implied_by(promise).is_some()),
            id: &plan.loop_id,
            root: &place.repo.root,
            scratch: place.repo_home.dir(),
        };
        let (ship, seen) = ship::prepare(&request).map_err(unreachable)?;
        plan.goal.ship = Some(Box::new(ship));
        Ok(Some(seen))
    }

    fn goal(&self, place: &CommandContext) -> Result<Goal, CommandError> {
        let list = self.tasks.as_ref().map(|file| ListSource { file: file.clone(), change: None });
        if let Some(list) = &list {
            start::require_file(&place.repo, &list.file)
                .map_err(|refused| CommandError::new(exit::USAGE, refused.what).hint(refused.hint))?;
        }
        let task = match (self.task.join(" "), &list) {
            (task, _) if !task.trim().is_empty() => task,
            (_, Some(list)) => start::task_of_list(list),
            (_, None) => {
                return Err(CommandError::new(exit::USAGE, "no task given")
                    .hint("pass one: `ralph loop \"fix the tests\"`"));
            }
        };
        Ok(Goal {
            promise: self.completion_promise.clone(),
            list,
            proof: Some(self.proof.or(place.settings().user.proof).unwrap_or(RequiredProof::Test)),
            accept: self.acceptance()?,
            ..Goal::new(task)
        })
    }

    /// The acceptance commands, as typed by the user.
    fn acceptance(&self) -> Result<Vec<String>, CommandError> {
        if let Some(empty) = self.accept.iter().find(|command| command.trim().is_empty()) {
            return Err(CommandError::new(exit::USAGE, format!("`--accept {empty:?}` is no command"))
                .hint("give a command that fails now: `--accept 'npm test -- login'`"));
        }
        if !self.accept.is_empty() && self.no_baseline && !self.accept_green {
            return Err(CommandError::new(
                exit::USAGE,
                "`--accept` needs the run before the first iteration",
            )
            .hint("leave out `--no-baseline`, or add `--accept-green`"));
        }
        Ok(self.accept.clone())
    }

    /// The accepted gates. Without any, nothing can be verified, so no loop is started.
    fn gates(&self, place: &mut CommandContext) -> Result<Box<EffectiveGates>, CommandError> {
        let is_non_interactive = self.output.json || self.dry_run;
        if matches!(place.lookup_gates()?, GatesLookup::Nothing) {
            if is_non_interactive || !terminal::is_interactive() {
                return Err(CommandError::new(
                    exit::NEEDS_PERSON,
                    "no gates found, so nothing could be verified; nothing was started",
                )
                .hint("set them up with `ralph init`, or `ralph init --yes --no-hooks` in scripts"));
            }
            init::gates_only()?;
            *place = CommandContext::here(self.gate_timeout.as_deref())?;
        }
        let effective = verify::accepted(place, is_non_interactive)?;
        if effective.config.required_gates().is_empty() || !effective.config.enabled {
            return Err(verify::no_gates(&place.repo, &effective));
        }
        Ok(effective)
    }

    fn profile(&self, place: &CommandContext, effective: &EffectiveGates) -> Result<Profile, CommandError> {
        let name = match self {
            Self { with_glm5: true, .. } => "glm5",
            Self { mmc: true, .. } => "minimax",
            _ => &self.agent,
        };
        profile(name, place, effective)
    }

    fn plan(
        &self,
        place: &CommandContext,
        goal: Goal,
        profile: Profile,
        effective: &EffectiveGates,
    ) -> DrivePlan {
        let limits = self.limits(place, &profile, effective);
        let options = DriveOptions {
            agent: profile.name.clone(),
            memory: if self.continue_session { AgentContext::Continue } else { AgentContext::Fresh },
            model: self.model.clone(),
            checkpoints: !self.no_checkpoints && place.repo.has_git(),
            longest_run: self.max_run,
            longest_silence: self.max_silence,
            gate_timeout: Some(place.settings().gate_timeout)
                .filter(|timeout| timeout.origin == Origin::Flag)
                .map(|timeout| timeout.value),
            no_baseline: self.no_baseline,
            accept_green: self.accept_green,
        };
        let acceptance = baseline::acceptance_gates(&goal.accept, None);
        let gates = effective.config.gates.iter().cloned().chain(acceptance).collect();
        DrivePlan {
            loop_id: start::new_id(&place.repo_home, &goal.task, None),
            goal,
            profile,
            options,
            limits,
            gates,
            allow: place.settings().user.allow.clone(),
        }
    }

    /// The loop has its agent's limits; the repo's budget is for guarded sessions and agents.
    fn limits(&self, place: &CommandContext, profile: &Profile, effective: &EffectiveGates) -> Limits {
        let errors = |budget: &Budget| Budget { errors: budget.errors, ..Budget::default() };
        let flags = Budget {
            attempts: self.max_iterations,
            clock: self.max_time.map(Some),
            cost: self.max_cost.map(Some),
            ..Budget::default()
        };
        let mut limits = Limits::new(&preset::DRIVE, Clocks { stale_after: None, clock: None });
        limits.attempts = WithOrigin::default(Attempts::AtMost(profile.max_iterations));
        limits
            .with(&errors(&place.settings().user.budget), Origin::UserFile)
            .with(&errors(&effective.config.budget), Origin::RepoFile)
            .with(&flags, Origin::Flag)
    }
}

/// The profile of that name: the user's own, the repo's, a built-in one, or a command.
pub(super) fn profile(
    name: &str,
    place: &CommandContext,
    effective: &EffectiveGates,
) -> Result<Profile, CommandError> {
    let own: Vec<Profile> =
        place.settings().user.agents.iter().chain(&effective.config.agents).cloned().collect();
    list::find(name, &own)
        .map_err(|unknown| CommandError::new(exit::USAGE, unknown.to_string()).hint(unknown.hint))
}

/// Checks what can be checked before a run.
pub(super) fn require_runnable(profile: &Profile, repo: &Repo) -> Result<(), CommandError> {
    if let Some(missing) = profile.needs().find(|variable| !env::is_set(variable)) {
        return Err(CommandError::new(
            exit::USAGE,
            format!("`{}` needs an API key in {missing}", profile.name),
        )
        .hint(format!("set {missing} and try again; nothing was started")));
    }
    // It runs where the gates run, independent of the current folder.
    if !env::is_program(&profile.program, &repo.root) {
        return Err(CommandError::new(
            exit::USAGE,
            format!("`{}` is not installed or not in PATH", profile.program),
        )
        .hint(profile.how_to_get.clone()));
    }
    Ok(())
}

fn refuse_inside_a_loop(place: &CommandContext) -> Result<(), CommandError> {
    if ancestry::inside_gate(&place.home) {
        return Err(CommandError::new(exit::USAGE, "a gate cannot start a loop"));
    }
    if driven::inside_agent_run(&place.home, &place.repo_home) {
        return Err(CommandError::new(
            exit::USAGE,
            "already running inside a ralph loop; nested loops are not supported",
        )
        .hint("do the work here and stop; the outer loop reports what still fails"));
    }
    Ok(())
}

/// Two drivers in one work tree would judge each other's unfinished work. The lock lasts until this process ends.
///
/// The holder records its loop within moments, unless it is a process just started by a killed driver, which releases the
/// lock within moments.
fn lock_work_tree(place: &CommandContext) -> Result<Lock, CommandError> {
    const MOMENTS: Duration = Duration::from_secs(2);
    let driven = || {
        let open = DrivenLoop::open_in(&place.repo_home).unwrap_or_default();
        open.into_iter()
            .find_map(|found| Some(format!(": {} (process {})", ShortId::of(&found.id), found.driven_by()?)))
    };
    place.repo_home.create()?;
    let lock = place.repo_home.driver_lock_file();
    Lock::take_unless(&lock, MOMENTS, || driven().is_some())?.ok_or_else(|| {
        let which = driven().unwrap_or_default();
        CommandError::new(exit::NEEDS_PERSON, format!("a loop is already running in this work tree{which}"))
            .hint("follow it with `ralph log -f`, end it with `ralph cancel LOOP`, or use another work tree (`git worktree add`)")
    })
}

/// Resumes a driven loop.
pub(super) fn continue_loop(
    place: CommandContext,
    found: &DrivenLoop,
    at_once: bool,
    raise: Option<LimitsRaise>,
    output: &OutputArguments,
) -> CommandResult {
    let mut place = place.patient();
    let state = &found.state;
    let unreadable = || {
        CommandError::new(
            exit::USAGE,
            format!("`{}` has no recorded plan and cannot be resumed", ShortId::of(&found.id)),
        )
    };
    let (goal, limits) = state.goal.clone().zip(state.limits.clone()).ok_or_else(unreadable)?;
    let limits = raise.map_or_else(|| limits.clone(), |raise| limits.clone().raised(&raise));
    let options = state.drive.options.clone().ok_or_else(unreadable)?;
    if let Some(value) = options.gate_timeout {
        let gate_timeout = WithOrigin { value, origin: Origin::Flag };
        let settings = Settings { gate_timeout, ..place.settings().clone() };
        place.workspace = place.workspace.with_settings(settings);
    }
    let effective = driver::effective_gates(&place, state)?;
    if !effective.has_gates() {
        return Err(no_gates_left());
    }
    // The definition is read from disk, so show the user which gates will judge the loop.
    let names: Vec<String> = effective.config.gates.iter().map(|gate| format!("`{}`", gate.run)).collect();
    let sha256 = effective.sha256.as_ref().map_or("none", ralph_core::model::id::Digest::short);
    terminal::remark(format_args!("gates ({sha256}): {}", names.join(", ")));
    let plan = DrivePlan {
        loop_id: found.id.clone(),
        goal,
        profile: profile(&options.agent, &place, &effective)?,
        options,
        limits,
        gates: effective.config.gates,
        allow: place.settings().user.allow.clone(),
    };
    require_runnable(&plan.profile, &place.repo)?;
    let _lock = lock_work_tree(&place)?;
    let signals = Signals::watch();
    let ledger = Arc::new(Loop::driven_here(&place.repo_home, &plan.loop_id));
    driver::take_over(&ledger, &place.repo, &plan, at_once, raise)?;
    let checkpointer = Checkpointer::new(&place.repo, &ledger, &plan.loop_id, &plan.options, &signals.stop);
    drive(&place, &plan, (ledger, checkpointer), &signals, output)
}

impl From<DriveError> for CommandError {
    fn from(error: DriveError) -> Self {
        match error {
            DriveError::PassesAlready { .. } => Self::new(exit::USAGE, error.to_string())
                .hint("give one that fails now, or add `--accept-green`; no agent was run"),
            DriveError::Owned(_) => Self::new(exit::NEEDS_PERSON, error.to_string())
                .hint("follow it with `ralph log -f`, or end it with `ralph cancel`"),
            DriveError::Io(_) | DriveError::Ledger(_) | DriveError::Engine(_) => {
                Self::new(exit::NOT_VERIFIED, error.to_string())
            }
        }
    }
}
