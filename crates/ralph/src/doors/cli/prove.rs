//! `ralph prove`: would the tests of this change fail without it? Without any loop or agent: on a branch, in CI, on a pull
//! request.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use ralph_core::model::proof::ProofVerdict;
use ralph_core::say::proof as words;
use serde_json::json;

use super::context::CommandContext;
use super::{CommandError, CommandResult, verify};
use crate::checks::gates::environment::GateEnvironment;
use crate::checks::gates_on_views::ViewedGates;
use crate::checks::prove::{self, ProofSeen};
use crate::loops::{ancestry, judge};
use crate::show::exit;
use crate::show::terminal::{self, BAD, FAINT, GOOD, ODD, paint};
use crate::store::ledger;
use crate::sys::proc;
use crate::sys::signals::Signals;
use crate::work_tree::base::{BaseChanges, BaseCommit};
use crate::work_tree::git::Git;

/// No test shows the change.
const NOT_PROVEN: u8 = 6;

#[derive(clap::Args)]
#[command(
    after_help = "Each test gets one row:\n  fixed           fails without the change (or is new and fails), passes with it\n  \
unaffected      passes without it and with it\n  broken          passes without it, fails with it\n  \
proves nothing  is new and passes without it\n  gone            existed; removed, skipped or not run now\n\n\
Nothing is written to your files: the gates run on a view of them.\n\n\
Exit codes: 0 proven (a test is fixed, none broken or gone), 6 not proven, 1 broken or gone, 2 usage error, 3 gates not accepted.\n\n\
Examples:\n  ralph prove                        since the merge base with the default branch\n  \
ralph prove --base origin/main     would this pull request's tests fail without it?\n  \
ralph prove --base HEAD~1          the last commit\n  ralph prove --markdown > comment.md"
)]
pub(super) struct Arguments {
    /// Compare with this commit or branch [default: the merge base with the default branch, or HEAD on it]
    #[arg(long, value_name = "REF")]
    base: Option<String>,
    /// Print one JSON object on stdout, for scripts
    #[arg(long)]
    json: bool,
    /// Print Markdown, for a comment on a pull request
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Also write one case per test to FILE as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Timeout for gates without one
    #[arg(long, value_name = "TIME")]
    gate_timeout: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> CommandResult {
    let mut place = CommandContext::here(arguments.gate_timeout.as_deref())?;
    if ancestry::inside_gate_of(&place.repo_home) {
        return Err(CommandError::new(exit::USAGE, "already running inside a gate of this repo")
            .hint("remove `ralph prove` from the `verify:` list"));
    }
    let effective = verify::accepted(&mut place, arguments.json)?;
    if effective.config.gates.is_empty() || !effective.config.enabled {
        return Err(verify::no_gates(&place.repo, &effective));
    }
    place.repo_home.create()?;
    let git = Git::find(&place.repo.root, place.repo_home.dir())
        .map_err(|error| CommandError::new(exit::USAGE, format!("cannot compare with a commit: {error}")))?;
    let base = base_commit(&git, arguments.base.as_deref())?;
    let now = judge::tree_reader(&place, Some(&effective)).read()?;
    let changes = git.changes_from(&base, &now).map_err(|error| {
        CommandError::new(exit::USAGE, format!("cannot read the files of {}: {error}", base.why))
    })?;
    if changes.changes.is_empty() {
        return Err(CommandError::new(exit::USAGE, format!("no file differs from {}", shown(&base)))
            .hint("name an older commit, for example `ralph prove --base HEAD~1`"));
    }
    if !arguments.json && !arguments.markdown {
        terminal::remark(paint(
            FAINT,
            format!("base: {}, {} files differ", shown(&base), changes.changes.len()),
        ));
    }
    let id = ledger::verify_loop();
    let logs = place.repo_home.loop_dir(&id).join("logs");
    let mut environment = GateEnvironment::new(&place.settings().user.keep_env, &place.repo);
    let gates = prove::name_all_tests(&effective.config.gates, &mut environment, &place.repo.root);
    let signals = Signals::watch();
    let viewed = ViewedGates {
        workspace: &place,
        gates: &gates,
        now: &now,
        environment: &environment,
        mark: &judge::run_mark(&place.repo, &id),
        excerpt: effective.layout.data().excerpt,
        deadline: None,
        stop: &signals.stop,
        logs: &logs,
    };
    let announce = |what: &str| terminal::remark(paint(FAINT, format!("running the gates {what}")));
    let seen = prove::prove(viewed, &changes.changes, &announce);
    if let Some(signal) = signals.caught() {
        proc::sweep_all();
        terminal::remark("Interrupted: the gates and all their processes were ended; nothing was proven.");
        return Ok(exit::by_signal(signal));
    }
    judge::prune_logs(&logs);
    let seen = seen.map_err(|why| CommandError::new(exit::USAGE, format!("cannot be judged: {why}")))?;
    show(arguments, &seen, &base, &changes)
}

fn base_commit(git: &Git, name: Option<&str>) -> Result<BaseCommit, CommandError> {
    match name {
        Some(name) => git.named_base(name).map_err(|_| {
            CommandError::new(exit::USAGE, format!("unknown commit `{name}`")).hint(
                "fetch it first, for example `git fetch origin main`; CI systems often clone without history",
            )
        }),
        None => git.default_base().map_err(|error| {
            CommandError::new(exit::USAGE, format!("no commit to compare with: {error}"))
                .hint("name one with `--base REF`")
        }),
    }
}

fn shown(base: &BaseCommit) -> String {
    let short: String = base.commit.chars().take(10).collect();
    if base.commit.starts_with(&base.why) { short } else { format!("{short} ({})", base.why) }
}

fn show(arguments: &Arguments, seen: &ProofSeen, base: &BaseCommit, changes: &BaseChanges) -> CommandResult {
    let mut proof = seen.proof.clone();
    if !changes.left.is_empty() {
        proof.notes.push(format!("left as they are: {}", changes.left.join(", ")));
    }
    if let Some(file) = &arguments.junit {
        fs::write(file, words::junit(&proof)).map_err(|error| {
            CommandError::new(exit::USAGE, format!("cannot write {}: {error}", file.display()))
                .hint("use a path in an existing folder")
        })?;
    }
    let verdict = proof.verdict();
    if arguments.json {
        terminal::json(&json!({
            "verdict": verdict,
            "base": { "commit": base.commit, "why": base.why },
            "view": seen.kind.to_string(),
            "rows": proof.rows,
            "notes": proof.notes,
        }));
    } else if arguments.markdown {
        terminal::print(
            words::markdown(
                &proof,
                &format!("`{}` ({})", &base.commit[..base.commit.len().min(10)], base.why),
            )
            .trim_end(),
        );
    } else {
        for line in words::lines(&proof) {
            terminal::print(line);
        }
        for note in &proof.notes {
            terminal::print(paint(FAINT, format!("note: {note}")));
        }
        let style = match verdict {
            ProofVerdict::Proven => GOOD,
            ProofVerdict::NotProven => ODD,
            ProofVerdict::BrokenOrGone => BAD,
        };
        let (headline, kind) = (words::headline(&proof), &seen.kind);
        terminal::print(format_args!(
            "\n{}  {}",
            paint(style, headline),
            paint(FAINT, format!("run {kind}"))
        ));
        for report in
            seen.with.iter().filter(|report| report.outcome != ralph_core::model::gate::GateOutcome::Passed)
        {
            terminal::table::behind(report);
        }
    }
    Ok(ExitCode::from(match verdict {
        ProofVerdict::Proven => exit::VERIFIED,
        ProofVerdict::NotProven => NOT_PROVEN,
        ProofVerdict::BrokenOrGone => exit::NOT_VERIFIED,
    }))
}
