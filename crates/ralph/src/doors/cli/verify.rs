//! `ralph verify`: runs the gates for CI, users, and agents that want to check before they stop.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ralph_core::ledger::decide::Decision;
use ralph_core::ledger::event::Subject;
use ralph_core::ledger::facts::{DefinitionStatus, Facts};
use ralph_core::model::budget::Attempts;
use ralph_core::model::finding::GatesSeen;
use ralph_core::model::gate::{CheckResult, Gate, GateOrder, GateReport};
use ralph_core::model::limits::{Limits, WithOrigin};
use ralph_core::model::preset;
use ralph_core::model::verdict::{EvaluationError, Reason, Verdict};
use ralph_core::say::{annotations, junit, sarif, words};
use serde_json::{Value, json};

use super::context::CommandContext;
use super::{CommandError, CommandResult};
use crate::loops::ancestry;
use crate::loops::judge::{EngineError, JudgeCase, JudgeOptions};
use crate::show::exit;
use crate::show::terminal::live::GateDisplay;
use crate::show::terminal::{self, BAD, FAINT, GOOD, paint, snippet, table};
use crate::store::effective_gates::{EffectiveGates, GatesLookup};
use crate::store::ledger;
use crate::store::repo::Repo;
use crate::sys::env;

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  ralph verify              all gates, reusing receipts if nothing changed\n  \
ralph verify test lint    only these two\n  ralph verify --fresh      run everything again\n  \
ralph verify --junit verify.xml    for a CI system that shows test reports"
)]
pub(super) struct Arguments {
    /// Run only these gates
    gates: Vec<String>,
    /// Run everything, even with valid receipts
    #[arg(long)]
    fresh: bool,
    /// Do not stop at the first failure
    #[arg(long)]
    keep_going: bool,
    /// Run at most this many gates at once (only gates marked `parallel` or with `needs` run together)
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Timeout for gates without one
    #[arg(long, value_name = "TIME")]
    gate_timeout: Option<String>,
    /// Print one JSON object on stdout, for scripts
    #[arg(long)]
    json: bool,
    /// Also write the gates and their failing tests to FILE as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Also write failing tests and problems to FILE as SARIF, for code scanning
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
    /// Print failing tests and problems as annotations for this CI system (default: github inside GitHub Actions)
    #[arg(long, value_name = "SYSTEM")]
    annotations: Option<Annotations>,
}

/// The CI system that annotates the code.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Annotations {
    Github,
    None,
}

impl Arguments {
    /// Writes the reports for other tools before the result, which is printed last.
    fn write_reports(&self, reports: &[GateReport], root: &Path) -> Result<(), CommandError> {
        let root = root.to_string_lossy();
        if let Some(file) = &self.junit {
            write_report(file, junit::xml(reports))?;
        }
        if let Some(file) = &self.sarif {
            write_report(file, format!("{:#}\n", sarif::log(reports, &root)))?;
        }
        if self.annotates() {
            for line in annotations::github(reports, &root) {
                // GitHub reads both streams; stdout is for the JSON object.
                if self.json { terminal::remark(line) } else { terminal::print(line) }
            }
        }
        Ok(())
    }

    fn annotates(&self) -> bool {
        let in_actions = || env::text("GITHUB_ACTIONS").is_some_and(|value| value == "true");
        self.annotations.map_or_else(in_actions, |annotations| annotations == Annotations::Github)
    }
}

fn write_report(file: &Path, text: String) -> Result<(), CommandError> {
    fs::write(file, text).map_err(|error| {
        CommandError::new(exit::USAGE, format!("cannot write {}: {error}", file.display()))
            .hint("the gates ran, but their report is missing; use a path in an existing folder")
    })
}

pub(super) fn run(arguments: &Arguments) -> CommandResult {
    let mut place = CommandContext::here(arguments.gate_timeout.as_deref())?;
    if ancestry::inside_gate_of(&place.repo_home) {
        return Err(CommandError::new(
            exit::USAGE,
            "already running inside a gate of this repo; `ralph verify` would deadlock",
        )
        .hint("remove `ralph verify` from the `verify:` list"));
    }
    let mut effective = accepted(&mut place, arguments.json)?;
    if effective.config.gates.is_empty() || !effective.config.enabled {
        return Err(no_gates(&place.repo, &effective));
    }
    let subset = !arguments.gates.is_empty();
    if subset {
        effective.config.gates = chosen(&effective.config.gates, &arguments.gates)?;
    }
    let mut case = verify_case(&place, &effective);
    case.is_part = subset;
    let options = JudgeOptions {
        jobs: arguments.jobs,
        keep_going: arguments.keep_going,
        fresh: arguments.fresh,
        ..JudgeOptions::without_deadline()
    };
    let mut live = GateDisplay::new(&effective.config.gates, arguments.json);
    let judged =
        if subset { case.run_without_verdict(&options, &mut live) } else { case.judge(&options, &mut live) };
    let outcome = match judged {
        Err(EngineError::Interrupted(signal)) => {
            drop(live);
            terminal::remark(
                "Interrupted: the gates and all their processes were ended; nothing was verified.",
            );
            return Ok(exit::by_signal(signal));
        }
        other => other?,
    };
    if terminal::is_interactive() && place.is_run_by_user() {
        // The user runs this, so the current `.gitignore` counts as seen.
        place.remember_ignore_rules()?;
    }
    drop(live);
    let result = VerifyResult::from(&outcome.decision, &outcome.facts, subset);
    arguments.write_reports(result.reports(), &place.workspace.repo.root)?;
    if arguments.json {
        terminal::json(&result.json());
    } else {
        result.show();
    }
    Ok(ExitCode::from(result.exit_code()))
}

/// The accepted definition; on a terminal the user may accept it now.
pub(super) fn accepted(
    place: &mut CommandContext,
    asks_nobody: bool,
) -> Result<Box<EffectiveGates>, CommandError> {
    let refused = |what: &str| {
        CommandError::new(exit::NEEDS_PERSON, what)
            .hint("review them with `ralph trust --show`, then accept them with `ralph trust`")
    };
    match place.lookup_gates()? {
        GatesLookup::Nothing => Err(no_config()),
        GatesLookup::Revoked if place.repo.config()?.is_none() => Err(no_config()),
        GatesLookup::Untrusted(_) | GatesLookup::Revoked if !asks_nobody && terminal::is_interactive() => {
            super::trust::show_and_ask(place)?;
            place.workspace = place.workspace.reload_trust();
            match place.lookup_gates()? {
                GatesLookup::Effective(effective) => Ok(effective),
                _ => Err(refused("the gates of this repo were not accepted")),
            }
        }
        GatesLookup::Untrusted(_) | GatesLookup::Revoked => {
            Err(refused("the gates of this repo are not accepted; nothing was run"))
        }
        GatesLookup::Effective(effective) => match (&effective.broken, &effective.definition_status) {
            (Some(broken), _) => {
                terminal::remark(snippet::draw(broken.path, &broken.text, &broken.problem));
                Err(CommandError::new(exit::USAGE, format!("cannot parse {}; nothing was run", broken.path)))
            }
            (None, DefinitionStatus::Accepted | DefinitionStatus::AcceptedSince) => {
                if let Some(by) = place.unconfirmed(&effective) {
                    terminal::remark(format_args!(
                        "note: these gates were accepted by {by}, not by you; confirm them with `ralph trust` in your own terminal"
                    ));
                }
                Ok(effective)
            }
            (None, DefinitionStatus::Changed { difference }) => {
                terminal::remark(difference);
                Err(refused("the gate definition differs from the accepted one; nothing was run"))
            }
            (None, DefinitionStatus::Revoked) => {
                Err(refused("trust in this repo was revoked; nothing was run"))
            }
        },
    }
}

fn no_config() -> CommandError {
    CommandError::new(exit::USAGE, "no gates: no ralph.yaml found").hint("create one with `ralph init`")
}

pub(super) fn no_gates(repo: &Repo, effective: &EffectiveGates) -> CommandError {
    let config = effective.layout.data().config;
    let why =
        if effective.config.enabled { "its `verify:` list is empty" } else { "disabled by `enabled: false`" };
    CommandError::new(exit::USAGE, format!("no gates: {why} in {}", repo.root.join(config).display()))
        .hint("nothing can be verified without a gate")
}

fn chosen(gates: &[Gate], words: &[String]) -> Result<Vec<Gate>, CommandError> {
    if let Some(unknown) =
        words.iter().find(|word| !gates.iter().any(|gate| gate.name.as_str() == word.as_str()))
    {
        let names = gates.iter().map(|gate| format!("`{}`", gate.name)).collect::<Vec<_>>().join(", ");
        return Err(CommandError::new(exit::USAGE, format!("unknown gate `{unknown}`"))
            .hint(format!("available: {names}")));
    }
    let kept = |gate: &&Gate| words.iter().any(|word| word == gate.name.as_str());
    let mut chosen: Vec<Gate> = gates.iter().filter(kept).cloned().collect();
    let names: Vec<_> = chosen.iter().map(|gate| gate.name.clone()).collect();
    for gate in &mut chosen {
        if let GateOrder::After(needs) = &mut gate.order {
            needs.retain(|need| names.contains(need));
        }
    }
    Ok(chosen)
}

pub(super) fn verify_case<'a>(place: &'a CommandContext, effective: &'a EffectiveGates) -> JudgeCase<'a> {
    // `ralph verify` has no budget and blocks nothing.
    let mut limits = Limits::new(&preset::CHECK, effective.layout.data().clocks);
    limits.attempts = WithOrigin::default(Attempts::Unlimited);
    limits.errors = WithOrigin::default(u32::MAX);
    limits.clock = WithOrigin::default(None);
    // Results of an agent's shell are never reused, passed or failed.
    let is_users = !place.is_agents_shell();
    let id = if is_users { ledger::verify_loop() } else { ledger::agent_verify_loop() };
    JudgeCase {
        limits,
        uses_receipts: is_users,
        ..JudgeCase::new(place, effective, id, Subject::Plain, &preset::CHECK)
    }
}

/// The result of a `verify` run.
pub(super) struct VerifyResult<'a> {
    verdict: Verdict,
    reason: Cow<'a, Reason>,
    facts: &'a Facts,
    subset: bool,
}

impl<'a> VerifyResult<'a> {
    pub(super) fn from(decision: &'a Decision, facts: &'a Facts, subset: bool) -> Self {
        let (verdict, reason) = match decision {
            Decision::Allow { verdict, reason, .. } => (*verdict, Cow::Borrowed(reason)),
            Decision::Block { reason, .. } => (Verdict::Blocked, Cow::Borrowed(reason)),
            Decision::Wait { what, .. } => {
                (Verdict::Waiting, Cow::Owned(Reason::NotYet { what: what.clone() }))
            }
            // The core always judges `verify` runs; if it ever does not, report "not verified".
            Decision::Gather | Decision::Act(_) | Decision::Prove | Decision::Ignore(_) => {
                let why = "the gates were not judged; run `ralph verify` again".to_owned();
                (
                    Verdict::Blocked,
                    Cow::Owned(Reason::NotEvaluated { trouble: EvaluationError::Busy { why } }),
                )
            }
        };
        Self { verdict, reason, facts, subset }
    }

    fn gates(&self) -> Option<&GatesSeen> {
        self.facts.gates()
    }

    fn reports(&self) -> &[GateReport] {
        self.gates().map_or(&[], |seen| &seen.reports)
    }

    pub(super) fn exit_code(&self) -> u8 {
        if self.passed() { exit::VERIFIED } else { exit::of_verdict(self.verdict) }
    }

    /// Every required gate passed, whatever that shows.
    fn passed(&self) -> bool {
        self.verdict.gates_passed()
    }

    fn sentence(&self) -> String {
        match self.verdict {
            _ if self.passed() && self.subset => "These gates passed; the others were not run".into(),
            _ if self.passed() => self.facts.layout.data().phrases.passed.to_owned(),
            _ => format!("Verification failed: {}", words::reason(&self.reason)),
        }
    }

    pub(super) fn show(&self) {
        let reports = self.reports();
        let width = table::width(reports.iter().map(|report| &report.gate));
        for report in reports {
            terminal::print(table::line(report, width));
        }
        for report in reports.iter().filter(|report| report.answer() != CheckResult::Pass) {
            table::behind(report);
        }
        let style = if self.passed() { GOOD } else { BAD };
        let tree = self
            .gates()
            .map(|seen| seen.tree.as_str().chars().take(12).collect::<String>())
            .unwrap_or_default();
        terminal::print(format_args!(
            "\n{}  {}",
            paint(style, self.sentence()),
            paint(FAINT, format!("tree {tree}"))
        ));
    }

    pub(super) fn json(&self) -> Value {
        let verified = self.passed();
        let verdict = if verified && self.subset { Value::Null } else { json!(self.verdict.code()) };
        json!({
            "decision": if verified { "allow" } else { "block" },
            "reason": self.sentence(),
            "verdict": verdict,
            "code": self.reason.code(),
            "subset": self.subset,
            "tree": self.gates().map(|seen| seen.tree.as_str()),
            "definition": self.facts.definition,
            "environment": self.gates().map(|seen| &seen.environment),
            "unsettled": self.gates().map_or(&[][..], |seen| &seen.unsettled),
            "gates": self.gates().map_or_else(Vec::new, |seen| seen.reports.iter().map(gate_json).collect()),
        })
    }
}

fn gate_json(report: &GateReport) -> Value {
    json!({
        "name": report.gate,
        "run": report.run,
        "outcome": report.outcome,
        "passed": report.outcome.answer() == CheckResult::Pass,
        "advisory": report.advisory,
        "flaky": report.flaky(),
        "reused": report.reused(),
        "runs": report.runs,
        "seconds": report.took.as_secs_f64(),
        "changed": report.changed,
        "excerpt": report.excerpt,
        "results": report.results,
        "log": report.log,
    })
}
