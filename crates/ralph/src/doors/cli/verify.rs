//! `ralph verify`: the plain door. What CI and people run, and what an agent may run to know before it stops.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ralph_core::ledger::decide::Decision;
use ralph_core::ledger::event::Subject;
use ralph_core::ledger::facts::{Facts, Standing};
use ralph_core::model::budget::Attempts;
use ralph_core::model::finding::GatesSeen;
use ralph_core::model::gate::{Answer, Gate, GateReport, Order};
use ralph_core::model::limits::{Limits, Sourced};
use ralph_core::model::preset;
use ralph_core::model::verdict::{Reason, Trouble, Verdict};
use ralph_core::say::{annotations, feedback, junit, sarif};
use serde_json::{Value, json};

use super::context::Place;
use super::{Done, Failure};
use crate::loops::ancestry;
use crate::loops::judge::{self, Asked, Case, EngineError};
use crate::show::exit;
use crate::show::terminal::live::Live;
use crate::show::terminal::{self, BAD, FAINT, GOOD, paint, snippet, table};
use crate::store::effective_gates::{Found, InForce};
use crate::store::ledger;
use crate::store::repo::Repo;
use crate::sys::env;

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  ralph verify              all gates, receipts where nothing changed\n  \
ralph verify test lint    only these two\n  ralph verify --fresh      run everything again\n  \
ralph verify --junit verify.xml    for a CI system that shows test reports"
)]
pub(super) struct Arguments {
    /// Only these gates
    gates: Vec<String>,
    /// Run everything, whatever receipts there are
    #[arg(long)]
    fresh: bool,
    /// Do not stop at the first failure
    #[arg(long)]
    keep_going: bool,
    /// Run at most this many gates at once (only gates marked `parallel` or with `needs` run together)
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Time-out of gates that have none of their own
    #[arg(long, value_name = "TIME")]
    gate_timeout: Option<String>,
    /// One JSON object on stdout, for scripts
    #[arg(long)]
    json: bool,
    /// Also write the gates and their failing tests to FILE as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Also write failing tests and problems to FILE as SARIF, for code scanning
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
    /// Print failing tests and problems as annotations of this CI system (default: github inside GitHub Actions)
    #[arg(long, value_name = "SYSTEM")]
    annotations: Option<Annotations>,
}

/// Where failures are shown beside the code.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Annotations {
    Github,
    None,
}

impl Arguments {
    /// The reports for other tools, written before the result is printed: it is the last word.
    fn write_reports(&self, reports: &[GateReport], root: &Path) -> Result<(), Failure> {
        let root = root.to_string_lossy();
        if let Some(file) = &self.junit {
            write_report(file, junit::xml(reports))?;
        }
        if let Some(file) = &self.sarif {
            write_report(file, format!("{:#}\n", sarif::log(reports, &root)))?;
        }
        if self.annotates() {
            for line in annotations::github(reports, &root) {
                // GitHub reads both streams; stdout is the JSON object's.
                if self.json { terminal::remark(line) } else { terminal::say(line) }
            }
        }
        Ok(())
    }

    fn annotates(&self) -> bool {
        let in_actions = || env::text("GITHUB_ACTIONS").is_some_and(|value| value == "true");
        self.annotations.map_or_else(in_actions, |annotations| annotations == Annotations::Github)
    }
}

fn write_report(file: &Path, text: String) -> Result<(), Failure> {
    fs::write(file, text).map_err(|error| {
        Failure::new(exit::USAGE, format!("{} cannot be written: {error}", file.display()))
            .hint("the gates ran, but their report is missing; name a file in a folder that exists")
    })
}

pub(super) fn run(arguments: &Arguments) -> Done {
    let mut place = Place::here(arguments.gate_timeout.as_deref())?;
    if ancestry::inside_gate_of(&place.repo_home) {
        return Err(Failure::new(
            exit::USAGE,
            "already running inside a gate of this repo: `ralph verify` would wait for itself",
        )
        .hint("take `ralph verify` out of the `verify:` list"));
    }
    let mut in_force = accepted(&mut place, arguments.json)?;
    if in_force.config.gates.is_empty() || !in_force.config.enabled {
        return Err(no_gates(&place.repo, &in_force));
    }
    let subset = !arguments.gates.is_empty();
    if subset {
        in_force.config.gates = chosen(&in_force.config.gates, &arguments.gates)?;
    }
    let mut case = plain_case(&place, &in_force);
    case.is_part = subset;
    let asked = Asked {
        jobs: arguments.jobs.unwrap_or_else(judge::jobs),
        keep_going: arguments.keep_going,
        fresh: arguments.fresh,
        ..Asked::all_of_it()
    };
    let mut live = Live::new(&in_force.config.gates, arguments.json);
    let judged = if subset { case.look(&asked, &mut live) } else { case.judge(&asked, &mut live) };
    let outcome = match judged {
        Err(EngineError::Interrupted(signal)) => {
            drop(live);
            terminal::remark(
                "Interrupted: the gates were ended with all their processes; nothing was verified.",
            );
            return Ok(exit::by_signal(signal));
        }
        other => other?,
    };
    if terminal::somebody_is_there() && place.is_the_users() {
        // A person looks: what `.gitignore` says now is what they know.
        place.remember_ignore_rules()?;
    }
    drop(live);
    let result = Verified::from(&outcome.decision, &outcome.facts, subset);
    arguments.write_reports(result.reports(), &place.workspace.repo.root)?;
    if arguments.json {
        terminal::json(&result.json());
    } else {
        result.show();
    }
    Ok(ExitCode::from(result.exit_code()))
}

/// The accepted definition; on a terminal the person may accept it now.
pub(super) fn accepted(place: &mut Place, asks_nobody: bool) -> Result<Box<InForce>, Failure> {
    let refused = |what: &str| {
        Failure::new(exit::NEEDS_PERSON, what)
            .hint("look at them with `ralph trust --show`, accept them with `ralph trust`")
    };
    match place.found()? {
        Found::Nothing => Err(nothing_here()),
        Found::Revoked if place.repo.config()?.is_none() => Err(nothing_here()),
        Found::Untrusted(_) | Found::Revoked if !asks_nobody && terminal::somebody_is_there() => {
            super::trust::show_and_ask(place)?;
            place.workspace = place.workspace.anew();
            match place.found()? {
                Found::InForce(in_force) => Ok(in_force),
                _ => Err(refused("the gates of this repo were not accepted")),
            }
        }
        Found::Untrusted(_) | Found::Revoked => {
            Err(refused("no person has accepted the gates of this repo; nothing was run"))
        }
        Found::InForce(in_force) => match (&in_force.broken, &in_force.standing) {
            (Some(broken), _) => {
                terminal::remark(snippet::draw(broken.path, &broken.text, &broken.problem));
                Err(Failure::new(exit::USAGE, format!("{} cannot be read; nothing was run", broken.path)))
            }
            (None, Standing::Accepted | Standing::AcceptedSince) => {
                if let Some(by) = place.unconfirmed(&in_force) {
                    terminal::remark(format_args!(
                        "note: no person has confirmed these gates, they were accepted by {by}; `ralph trust` at a terminal does"
                    ));
                }
                Ok(in_force)
            }
            (None, Standing::Changed { difference }) => {
                terminal::remark(difference);
                Err(refused("the gate definition is not the accepted one; nothing was run"))
            }
            (None, Standing::Revoked) => Err(refused("trust in this repo was taken back; nothing was run")),
        },
    }
}

fn nothing_here() -> Failure {
    Failure::new(exit::USAGE, "there are no gates here: no ralph.yaml")
        .hint("`ralph init` finds them and writes it")
}

pub(super) fn no_gates(repo: &Repo, in_force: &InForce) -> Failure {
    let config = in_force.layout.data().config;
    let why = if in_force.config.enabled {
        "its `verify:` list is empty"
    } else {
        "`enabled: false` switches it off"
    };
    Failure::new(exit::USAGE, format!("no gates: {why} in {}", repo.root.join(config).display()))
        .hint("nothing can be verified without a gate")
}

fn chosen(gates: &[Gate], words: &[String]) -> Result<Vec<Gate>, Failure> {
    if let Some(unknown) =
        words.iter().find(|word| !gates.iter().any(|gate| gate.name.as_str() == word.as_str()))
    {
        let names = gates.iter().map(|gate| format!("`{}`", gate.name)).collect::<Vec<_>>().join(", ");
        return Err(Failure::new(exit::USAGE, format!("there is no gate `{unknown}`"))
            .hint(format!("there are: {names}")));
    }
    let kept = |gate: &&Gate| words.iter().any(|word| word == gate.name.as_str());
    let mut chosen: Vec<Gate> = gates.iter().filter(kept).cloned().collect();
    let names: Vec<_> = chosen.iter().map(|gate| gate.name.clone()).collect();
    for gate in &mut chosen {
        if let Order::After(needs) = &mut gate.order {
            needs.retain(|need| names.contains(need));
        }
    }
    Ok(chosen)
}

pub(super) fn plain_case<'a>(place: &'a Place, in_force: &'a InForce) -> Case<'a> {
    // A wish to know is never used up, and nobody is blocked by it.
    let mut limits = Limits::new(&preset::CHECK, in_force.layout.data().clocks);
    limits.attempts = Sourced::default(Attempts::Unlimited);
    limits.errors = Sourced::default(u32::MAX);
    limits.clock = Sourced::default(None);
    // What an agent's shell makes stands in for nothing, green or red.
    let is_users = !place.is_agents_shell();
    let id = if is_users { ledger::plain_loop() } else { ledger::agents_plain_loop() };
    Case { limits, uses_receipts: is_users, ..Case::new(place, in_force, id, Subject::Plain, &preset::CHECK) }
}

/// What a run of `verify` says.
pub(super) struct Verified<'a> {
    verdict: Verdict,
    reason: Cow<'a, Reason>,
    facts: &'a Facts,
    subset: bool,
}

impl<'a> Verified<'a> {
    pub(super) fn from(decision: &'a Decision, facts: &'a Facts, subset: bool) -> Self {
        let (verdict, reason) = match decision {
            Decision::LetGo { verdict, reason, .. } => (*verdict, Cow::Borrowed(reason)),
            Decision::Hold { reason, .. } => (Verdict::Held, Cow::Borrowed(reason)),
            Decision::Wait { what, .. } => {
                (Verdict::Waiting, Cow::Owned(Reason::NotYet { what: what.clone() }))
            }
            // The core judges every plain look. Should it not, that is no reason to say anything but "not verified".
            Decision::Gather | Decision::Ignore(_) => {
                let why = "the gates were not judged; run `ralph verify` again".to_owned();
                (Verdict::Held, Cow::Owned(Reason::CannotTell { trouble: Trouble::Busy { why } }))
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
        exit::of_verdict(self.verdict)
    }

    fn sentence(&self) -> String {
        match self.verdict {
            Verdict::Verified if self.subset => "These gates passed; the others were not looked at".into(),
            Verdict::Verified => self.facts.layout.data().phrases.passed.to_owned(),
            _ => format!("Verification failed: {}", feedback::sentence(&self.reason)),
        }
    }

    pub(super) fn show(&self) {
        let reports = self.reports();
        let width = table::width(reports.iter().map(|report| &report.gate));
        for report in reports {
            terminal::say(table::line(report, width));
        }
        for report in reports.iter().filter(|report| report.answer() != Answer::Pass) {
            table::behind(report);
        }
        let style = if self.verdict == Verdict::Verified { GOOD } else { BAD };
        let tree = self
            .gates()
            .map(|seen| seen.tree.as_str().chars().take(12).collect::<String>())
            .unwrap_or_default();
        terminal::say(format_args!(
            "\n{}  {}",
            paint(style, self.sentence()),
            paint(FAINT, format!("tree {tree}"))
        ));
    }

    pub(super) fn json(&self) -> Value {
        let verified = self.verdict == Verdict::Verified;
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
        "passed": report.outcome.answer() == Answer::Pass,
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
