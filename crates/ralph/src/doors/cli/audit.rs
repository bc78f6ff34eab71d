//! `ralph audit`: checks that the records of a loop are the ones that were written: the chain of its ledger, the second copy
//! of its head, its receipts, and the gate definition that it began with.

use std::process::ExitCode;

use ralph_core::model::id::{Digest, LoopId};
use serde_json::json;

use super::CommandResult;
use super::context::CommandContext;
use crate::checks::gates::receipts;
use crate::show::exit;
use crate::show::terminal::{self, BAD, GOOD, STRONG, paint};
use crate::sys::files;

#[derive(clap::Args)]
#[command(after_help = "Examples:\n  ralph audit             every loop of this repo\n  \
ralph audit fix-the     one loop, by a prefix of its id\n\n\
Exit codes: 0 everything is intact, 5 a record was changed, dropped or cut off.")]
pub(super) struct Arguments {
    /// Loop, by its id or a prefix of it [default: every loop of this repo]
    r#loop: Option<String>,
    /// Print one JSON object, for scripts
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> CommandResult {
    let place = CommandContext::here(None)?;
    let missing = place.repo_home.missing_loops();
    let named = |id: &LoopId| arguments.r#loop.as_deref().is_none_or(|word| id.as_str().starts_with(word));
    let ids: Vec<LoopId> = match &arguments.r#loop {
        Some(_) if missing.iter().any(named) => Vec::new(),
        Some(word) => vec![place.named_loop(Some(word))?],
        None => place.repo_home.loops(),
    };
    let mut audited = Vec::new();
    for id in ids {
        audited.push(AuditedLoop::of(&place, id)?);
    }
    audited.extend(missing.into_iter().filter(named).map(AuditedLoop::missing));
    if arguments.json {
        let loops: Vec<_> = audited.iter().map(AuditedLoop::json).collect();
        terminal::print_json_checked(&json!({ "loops": loops }))?;
    } else if audited.is_empty() {
        terminal::print("No loop in this repo yet.");
    } else {
        audited.iter().for_each(AuditedLoop::show);
    }
    let is_intact = audited.iter().all(|audited| audited.problems.is_empty());
    Ok(ExitCode::from(if is_intact { exit::VERIFIED } else { exit::TAMPERED }))
}

struct AuditedLoop {
    id: LoopId,
    records: usize,
    problems: Vec<RecordProblem>,
}

/// What is wrong, and at which record if it is one of the ledger's.
struct RecordProblem {
    record: Option<u64>,
    what: String,
}

impl AuditedLoop {
    fn of(place: &CommandContext, id: LoopId) -> Result<Self, super::CommandError> {
        let ledger = place.loop_of(&id);
        let whole = ledger.lines()?;
        let mut problems = Vec::new();
        if let Some((record, what)) = whole.first_problem(ledger.recorded_head().as_ref()) {
            problems.push(RecordProblem { record: Some(record), what });
        }
        for name in receipts::without_line(&place.repo_home, &id) {
            problems.push(RecordProblem::elsewhere(format!("receipt {name} is not in its ledger")));
        }
        if let Some(definition) = &whole.state.definition
            && let Some(text) = files::read_if_there(&place.home.definition_file(definition))?
            && Digest::of(&text) != *definition
        {
            let what = format!("the stored gate definition {} was changed", definition.short());
            problems.push(RecordProblem::elsewhere(what));
        }
        Ok(Self { id, records: whole.lines.len(), problems })
    }

    fn missing(id: LoopId) -> Self {
        let what = "the ledger is missing, but its head is recorded".to_owned();
        Self { id, records: 0, problems: vec![RecordProblem { record: Some(1), what }] }
    }

    fn json(&self) -> serde_json::Value {
        let problems = self.problems.iter();
        json!({
            "loop": self.id,
            "records": self.records,
            "intact": self.problems.is_empty(),
            "problems": problems
                .map(|problem| json!({"record": problem.record, "what": problem.what}))
                .collect::<Vec<_>>(),
        })
    }

    fn show(&self) {
        let id = paint(STRONG, &self.id);
        if self.problems.is_empty() {
            let count =
                if self.records == 1 { "1 record".into() } else { format!("{} records", self.records) };
            terminal::print(format_args!("{} {id}: {count}, intact", paint(GOOD, "✓")));
        }
        for problem in &self.problems {
            let record = problem.record.map(|record| format!("record {record}: ")).unwrap_or_default();
            terminal::print(format_args!("{} {id}: {record}{}", paint(BAD, "✗"), problem.what));
        }
    }
}

impl RecordProblem {
    fn elsewhere(what: String) -> Self {
        Self { record: None, what }
    }
}
