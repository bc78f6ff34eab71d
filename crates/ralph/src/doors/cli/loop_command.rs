//! `ralph loop`: a headless agent, again and again, until the gates pass on the tree it leaves.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ralph_core::clients::list;
use ralph_core::clients::profile::Profile;
use ralph_core::ledger::drive_plan::DrivePlan;
use ralph_core::ledger::facts::Standing;
use ralph_core::ledger::state::{State, Status};
use ralph_core::model::budget::{Attempts, Budget};
use ralph_core::model::drive_options::{DriveOptions, Memory};
use ralph_core::model::goal::{Goal, ListSource};
use ralph_core::model::id::LoopId;
use ralph_core::model::layout::Clocks;
use ralph_core::model::limits::{Limits, Origin, Sourced};
use ralph_core::model::money::Micros;
use ralph_core::model::verdict::Verdict;
use ralph_core::model::{duration, preset};

use super::context::Place;
use super::verify::{self, Verified};
use super::{Done, Failure, init};
use crate::checks::tasks;
use crate::loops::driver::driven::{self, DrivenLoop};
use crate::loops::driver::keeper::Keeper;
use crate::loops::driver::{self, DriveError, Driver};
use crate::loops::judge::Asked;
use crate::loops::session::start;
use crate::loops::{ancestry, report};
use crate::show::exit;
use crate::show::progress::follow::{self, Output};
use crate::show::progress::plan::PlanSheet;
use crate::show::terminal::live::Live;
use crate::show::terminal::{self, FAINT, paint};
use crate::store::effective_gates::{Found, InForce};
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
    /// What is to be done
    #[arg(value_name = "TASK")]
    task: Vec<String>,
    #[arg(long, value_name = "NAME", default_value = list::DEFAULT, help = agent_help())]
    agent: String,
    /// The same as --agent glm5
    #[arg(long, conflicts_with = "agent")]
    with_glm5: bool,
    /// The same as --agent minimax
    #[arg(long, conflicts_with_all = ["agent", "with_glm5"])]
    mmc: bool,
    /// End after this many iterations, or `unlimited` [default: that of the agent, 15 or 30]
    #[arg(long, value_name = "N", value_parser = iterations)]
    max_iterations: Option<Attempts>,
    /// End after this time: 90m, 8h
    #[arg(long, value_name = "TIME", value_parser = duration::parse_some)]
    max_time: Option<Duration>,
    /// End when this many dollars are used up; a client with a limit of its own gets what is left
    #[arg(long, value_name = "USD", value_parser = dollars)]
    max_cost: Option<Micros>,
    /// Ask the agent to say <promise>TEXT</promise>, alone on a line, when it is done; if it forgets, it is asked once more
    #[arg(long, value_name = "TEXT")]
    completion_promise: Option<String>,
    /// Until every box in that file is ticked, too
    #[arg(long, value_name = "FILE")]
    tasks: Option<String>,
    /// Every iteration begins without what was said before; so it is without a word
    #[arg(long, conflicts_with = "continue_session")]
    fresh: bool,
    /// Every iteration goes on with the session of the one before, where the client can
    #[arg(long = "continue")]
    continue_session: bool,
    /// The model, in the client's own words [default: the client's own settings]
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// End one run of the agent after this time
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration::parse_some)]
    max_run: Duration,
    /// End it when it neither prints nor changes a file for this time
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = duration::parse_some)]
    max_silence: Duration,
    /// Do not keep the tree of every iteration as a hidden git ref
    #[arg(long)]
    no_checkpoints: bool,
    /// Time-out of gates that have none of their own
    #[arg(long, value_name = "TIME")]
    gate_timeout: Option<String>,
    /// Show the plan, the gates and the first prompt; run nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    output: OutputArguments,
}

/// How it is told.
#[derive(clap::Args)]
pub(super) struct OutputArguments {
    /// Everything that happens as JSON lines on stdout, for scripts
    #[arg(long)]
    json: bool,
    /// Nothing but the end
    #[arg(long, short)]
    quiet: bool,
}

const AFTER_HELP: &str = "Examples:
  ralph loop \"fix the tests\"
  ralph loop \"fix the tests\" --max-time 8h --max-cost 20    over night
  ralph loop --agent codex \"make the linter happy\" --max-iterations 5
  ralph loop \"migrate to v2\" --agent 'command:./agent.sh'    any program that reads a prompt

Ctrl-C pauses it (exit code 130), twice ends it at once; `ralph resume` goes on, also after a kill.
Exit codes: 0 verified, 1 a limit was reached, 2 usage, 3 needs a person, 4 stuck, 5 the gates were
tampered with, 129/130/143 interrupted.";

fn agent_help() -> String {
    let names: Vec<String> = list::built_in().into_iter().map(|profile| profile.name).collect();
    format!("Who does it: {}, one of your own, or `command:` and a shell line", names.join(", "))
}

fn iterations(text: &str) -> Result<Attempts, String> {
    match text.parse() {
        Ok(0) => Err("a loop without an iteration does nothing; without a limit it is `unlimited`".into()),
        Ok(most) => Ok(Attempts::AtMost(most)),
        Err(_) if text == "unlimited" => Ok(Attempts::Unlimited),
        Err(_) => Err("give a number, for example 15, or the word `unlimited`".into()),
    }
}

fn dollars(text: &str) -> Result<Micros, String> {
    let number = text.trim_start_matches('$').parse().ok().and_then(Micros::from_dollars);
    number.filter(|sum| *sum > Micros::ZERO).ok_or_else(|| "give dollars, for example 5 or 2.50".into())
}

pub(super) fn run(arguments: &Arguments) -> Done {
    let mut place = Place::here(arguments.gate_timeout.as_deref())?;
    refuse_inside_a_loop(&place)?;
    let goal = arguments.goal(&place)?;
    let in_force = arguments.gates(&mut place)?;
    let profile = arguments.profile(&place, &in_force)?;
    if arguments.max_cost.is_some() && !profile.dialect.tells_cost() {
        return Err(Failure::new(exit::USAGE, format!("`{}` does not say what it costs", profile.name))
            .hint("a limit that nobody can hold is none: use --max-time or --max-iterations"));
    }
    let plan = arguments.plan(&place, goal, profile, &in_force);
    if arguments.dry_run {
        for line in PlanSheet(&plan).lines() {
            terminal::say(line);
        }
        terminal::say(format_args!("\nThe first prompt:\n\n{}", driver::first_prompt(&plan)));
        return Ok(ExitCode::SUCCESS);
    }
    must_be_able_to_run(&plan.profile, &place.repo)?;
    let place = place.patient();
    let _alone = one_at_a_time(&place)?;
    let signals = Signals::watch();
    // It takes longest: the rest of the beginning goes on beside it.
    let ledger = Arc::new(Loop::driven_here(&place.repo_home, &plan.loop_id));
    let mut keeper = Keeper::new(&place.repo, &ledger, &plan.loop_id, &plan.options, &signals.stop);
    keeper.begin(0);
    driver::begin(&place.repo_home, &ledger, &plan, &in_force)?;
    drive(&place, &plan, (ledger, keeper), &signals, &arguments.output)
}

/// Drives a loop that is ours, and says how it ended.
fn drive(
    place: &Place,
    plan: &DrivePlan,
    (ledger, keeper): (Arc<Loop>, Keeper),
    signals: &Signals,
    output: &OutputArguments,
) -> Done {
    let output = output.output();
    let tasks = plan.goal.list.clone().map(|list| tasks::progress_of(place.repo.root.clone(), list));
    let mut follow = follow::new(output, plan, &place.home, tasks, signals);
    let driver = Driver { workspace: place, plan, signals, follow: &mut follow, keeper, ledger };
    let state = driver.drive()?;
    drop(follow);
    end(place, &plan.loop_id, &state, output);
    Ok(ExitCode::from(exit::of_drive(&state, signals.caught())))
}

/// The last loop here, if its driver was killed when it was over already, but before it could say so.
pub(super) fn ended_without_a_word(place: &Place) -> Result<Option<DrivenLoop>, Failure> {
    let Some(last) = DrivenLoop::last_in(&place.repo_home)? else { return Ok(None) };
    let setting = report::setting(place);
    let was_told =
        last.is_open() || last.driven_by().is_some() || report::is_written(place, &last.id, setting)?;
    Ok((!was_told).then_some(last))
}

/// Says it in its place.
pub(super) fn tell_end(place: &Place, found: &DrivenLoop, output: &OutputArguments) -> Done {
    files::sweep_temporary(&place.repo_home.loop_dir(&found.id));
    driver::keep_last_tree(&place.repo, &place.repo_home, &found.id, &found.state);
    if let (Output::Quiet, Ok(Some(report))) = (output.output(), report::of_loop(place, &found.id)) {
        report.summary().iter().take(1).for_each(|line| terminal::remark(terminal::painted(line)));
    }
    end(place, &found.id, &found.state, output.output());
    Ok(ExitCode::from(exit::of_drive(&found.state, None)))
}

/// A loop is recorded as verified, by a process that is gone: what it is worth now is what its gates say now.
pub(super) fn verify_again(place: &Place, found: &DrivenLoop, output: &OutputArguments) -> Done {
    let in_force = driver::in_force(place, &found.state)?;
    if !in_force.has_gates() {
        return Err(no_gates_any_more());
    }
    if let Standing::Changed { .. } | Standing::Revoked = in_force.standing {
        return Err(Failure::new(exit::TAMPERED, "the gate definition is not the one this loop began with")
            .hint("see what was changed: `ralph trust --show`"));
    }
    let asked = Asked::all_of_it();
    let is_json = output.output() == Output::Json;
    let mut live = Live::new(&in_force.config.gates, is_json);
    let looked = verify::plain_case(place, &in_force).look(&asked, &mut live)?;
    drop(live);
    let verified = Verified::from(&looked.decision, &looked.facts, false);
    if is_json {
        terminal::json(&verified.json());
    } else {
        terminal::say(format_args!("{} is over, recorded as verified; its gates were run again:", found.id));
        verified.show();
    }
    // Its end was perhaps never told.
    if verified.exit_code() == exit::VERIFIED {
        return tell_end(place, found, output);
    }
    Ok(ExitCode::from(verified.exit_code()))
}

fn no_gates_any_more() -> Failure {
    Failure::new(exit::NEEDS_PERSON, "no gate is accepted here any more; nothing was run")
        .hint("`ralph trust` accepts them again, `ralph cancel` ends the loop")
}

/// Writes the report and shows how it ended. The end holds, whether or not there is a report of it.
fn end(place: &Place, id: &LoopId, state: &State, output: Output) {
    let (_repo, _repo_home) = (&place.repo, &place.repo_home);
    let setting = report::setting(place);
    let written = report::write(place, id, setting);
    if output == Output::People
        && let Ok(Some(report)) = report::of_loop(place, id)
    {
        let columns = 20;
        for line in report.summary().into_iter().chain(report.grid(columns)) {
            terminal::say(terminal::painted(&line));
        }
    }
    match written {
        Ok(Some(written)) if output == Output::People => {
            terminal::say(paint(FAINT, format!("report: {}", written.markdown.display())));
        }
        Ok(_) => {}
        Err(error) => terminal::remark(format_args!("the report could not be written: {error}")),
    }
    if output != Output::Json && state.status == (Status::Ended { verdict: Verdict::Verified }) {
        terminal::say("VERIFIED_DONE");
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
    fn goal(&self, place: &Place) -> Result<Goal, Failure> {
        let list = self.tasks.as_ref().map(|file| ListSource { file: file.clone(), change: None });
        if let Some(list) = &list {
            start::must_be_there(&place.repo, &list.file)
                .map_err(|refused| Failure::new(exit::USAGE, refused.what).hint(refused.hint))?;
        }
        let task = match (self.task.join(" "), &list) {
            (task, _) if !task.trim().is_empty() => task,
            (_, Some(list)) => start::task_of_list(list),
            (_, None) => {
                return Err(Failure::new(exit::USAGE, "there is no task")
                    .hint("say what is to be done: `ralph loop \"fix the tests\"`"));
            }
        };
        Ok(Goal { task, promise: self.completion_promise.clone(), list, archive: false, lang: None })
    }

    /// The gates that a person accepted. Without any nothing can ever be verified, so nothing is begun.
    fn gates(&self, place: &mut Place) -> Result<Box<InForce>, Failure> {
        let asks_nobody = self.output.json || self.dry_run;
        if matches!(place.found()?, Found::Nothing) {
            if asks_nobody || !terminal::somebody_is_there() {
                return Err(Failure::new(
                    exit::NEEDS_PERSON,
                    "there are no gates here, so nothing could be called verified; nothing was written",
                )
                .hint("`ralph init` finds them and asks; `ralph init --yes --no-hooks` for scripts"));
            }
            init::gates_only()?;
            *place = Place::here(self.gate_timeout.as_deref())?;
        }
        let in_force = verify::accepted(place, asks_nobody)?;
        if in_force.config.required_gates().is_empty() || !in_force.config.enabled {
            return Err(verify::no_gates(&place.repo, &in_force));
        }
        Ok(in_force)
    }

    fn profile(&self, place: &Place, in_force: &InForce) -> Result<Profile, Failure> {
        let name = match self {
            Self { with_glm5: true, .. } => "glm5",
            Self { mmc: true, .. } => "minimax",
            _ => &self.agent,
        };
        profile(name, place, in_force)
    }

    fn plan(&self, place: &Place, goal: Goal, profile: Profile, in_force: &InForce) -> DrivePlan {
        let limits = self.limits(place, &profile, in_force);
        let options = DriveOptions {
            agent: profile.name.clone(),
            memory: if self.continue_session { Memory::Continue } else { Memory::Fresh },
            model: self.model.clone(),
            checkpoints: !self.no_checkpoints && place.repo.has_git(),
            longest_run: self.max_run,
            longest_silence: self.max_silence,
            gate_timeout: Some(place.settings().gate_timeout)
                .filter(|timeout| timeout.origin == Origin::Flag)
                .map(|timeout| timeout.value),
        };
        DrivePlan {
            loop_id: start::new_id(&goal.task, None),
            goal,
            profile,
            options,
            limits,
            gates: in_force.config.gates.clone(),
            allow: place.settings().user.allow.clone(),
        }
    }

    /// A loop that a person asked for has the limits of its agent; the repo's budget is that of whoever is guarded there.
    fn limits(&self, place: &Place, profile: &Profile, in_force: &InForce) -> Limits {
        let errors = |budget: &Budget| Budget { errors: budget.errors, ..Budget::default() };
        let flags = Budget {
            attempts: self.max_iterations,
            clock: self.max_time.map(Some),
            cost: self.max_cost.map(Some),
            ..Budget::default()
        };
        let mut limits = Limits::new(&preset::DRIVE, Clocks { stale_after: None, clock: None });
        limits.attempts = Sourced::default(Attempts::AtMost(profile.max_iterations));
        limits
            .with(&errors(&place.settings().user.budget), Origin::UserFile)
            .with(&errors(&in_force.config.budget), Origin::RepoFile)
            .with(&flags, Origin::Flag)
    }
}

/// The profile of a name: the person's own, the repo's, a built-in one, or a command.
pub(super) fn profile(name: &str, place: &Place, in_force: &InForce) -> Result<Profile, Failure> {
    let own: Vec<Profile> =
        place.settings().user.agents.iter().chain(&in_force.config.agents).cloned().collect();
    list::find(name, &own)
        .map_err(|unknown| Failure::new(exit::USAGE, unknown.to_string()).hint(unknown.hint))
}

/// What can be known before anything is run.
pub(super) fn must_be_able_to_run(profile: &Profile, repo: &Repo) -> Result<(), Failure> {
    if let Some(missing) = profile.needs().find(|variable| !env::is_set(variable)) {
        return Err(Failure::new(exit::USAGE, format!("`{}` needs the key in {missing}", profile.name))
            .hint(format!("export {missing}=… and run it again; nothing was started")));
    }
    // It is run where the gates are, wherever we were called.
    if !env::is_program(&profile.program, &repo.root) {
        return Err(Failure::new(exit::USAGE, format!("there is no program `{}`", profile.program))
            .hint(profile.how_to_get.clone()));
    }
    Ok(())
}

fn refuse_inside_a_loop(place: &Place) -> Result<(), Failure> {
    if ancestry::inside_gate(&place.home) {
        return Err(Failure::new(exit::USAGE, "a gate cannot start a loop"));
    }
    if driven::are_we_an_agents(&place.home, &place.repo_home) {
        return Err(Failure::new(exit::USAGE, "this is inside of a loop already: a loop starts no other")
            .hint("do the work here, and end; what is still wrong comes back"));
    }
    Ok(())
}

/// Two drivers in one work tree would judge each other's half-done work. The lock is ours until we end, however we end.
///
/// Whoever holds it says within moments which loop it drives, unless it is what a killed driver was just about to start,
/// which lets go of it within moments.
fn one_at_a_time(place: &Place) -> Result<Lock, Failure> {
    const MOMENTS: Duration = Duration::from_secs(2);
    let driven = || {
        let open = DrivenLoop::open_in(&place.repo_home).unwrap_or_default();
        open.into_iter().find_map(|found| Some(format!(": {} (process {})", found.id, found.driven_by()?)))
    };
    place.repo_home.create()?;
    let lock = place.repo_home.driver_lock_file();
    Lock::take_unless(&lock, MOMENTS, || driven().is_some())?.ok_or_else(|| {
        let which = driven().unwrap_or_default();
        Failure::new(exit::NEEDS_PERSON, format!("a loop is being driven in this work tree already{which}"))
            .hint("`ralph log -f` follows it, `ralph cancel LOOP` ends it; `git worktree add` makes room for another")
    })
}

/// Goes on with a loop of the driver.
pub(super) fn go_on(place: Place, found: &DrivenLoop, at_once: bool, output: &OutputArguments) -> Done {
    let mut place = place.patient();
    let state = &found.state;
    let unreadable = || Failure::new(exit::USAGE, format!("`{}` has no plan to go on with", found.id));
    let (goal, limits) = state.goal.clone().zip(state.limits.clone()).ok_or_else(unreadable)?;
    let options = state.drive.options.clone().ok_or_else(unreadable)?;
    if let Some(value) = options.gate_timeout {
        let gate_timeout = Sourced { value, origin: Origin::Flag };
        let settings = Settings { gate_timeout, ..place.settings().clone() };
        place.workspace = place.workspace.with_settings(settings);
    }
    let in_force = driver::in_force(&place, state)?;
    if !in_force.has_gates() {
        return Err(no_gates_any_more());
    }
    // What it goes on with is read from the disk: the user sees by which gates it will be judged.
    let names: Vec<String> = in_force.config.gates.iter().map(|gate| format!("`{}`", gate.run)).collect();
    let sha256 = in_force.sha256.as_ref().map_or("none", ralph_core::model::id::Digest::short);
    terminal::remark(format_args!("gates ({sha256}): {}", names.join(", ")));
    let plan = DrivePlan {
        loop_id: found.id.clone(),
        goal,
        profile: profile(&options.agent, &place, &in_force)?,
        options,
        limits,
        gates: in_force.config.gates,
        allow: place.settings().user.allow.clone(),
    };
    must_be_able_to_run(&plan.profile, &place.repo)?;
    let _alone = one_at_a_time(&place)?;
    let signals = Signals::watch();
    let ledger = Arc::new(Loop::driven_here(&place.repo_home, &plan.loop_id));
    driver::take_over(&ledger, &place.repo, &plan, at_once)?;
    let keeper = Keeper::new(&place.repo, &ledger, &plan.loop_id, &plan.options, &signals.stop);
    drive(&place, &plan, (ledger, keeper), &signals, output)
}

impl From<DriveError> for Failure {
    fn from(error: DriveError) -> Self {
        match error {
            DriveError::Owned(_) => Self::new(exit::NEEDS_PERSON, error.to_string())
                .hint("`ralph log -f` follows it; `ralph cancel` ends it"),
            DriveError::Io(_) | DriveError::Ledger(_) | DriveError::Engine(_) => {
                Self::new(exit::NOT_VERIFIED, error.to_string())
            }
        }
    }
}
